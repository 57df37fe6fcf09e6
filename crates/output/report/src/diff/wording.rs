//! Words for kinds, numbers and code locations in a comparison.

use allotrope_diff::{Diff, Interval, Kind};
use allotrope_profile::{StackFrame, nameless_address};

use crate::numbers::count;
use crate::shorten::{clean, name, path};
use allotrope_text::columns;

/// The word for a kind, as in JSON.
pub fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::New => "new",
        Kind::Gone => "gone",
        Kind::Changed => "changed",
        Kind::Moved => "moved",
        Kind::Jitter => "jitter",
    }
}

/// `+1,234`, `-5`, `0`.
pub(super) fn signed(number: i64) -> String {
    let sign = match number.signum() {
        1 => "+",
        -1 => "-",
        _ => "",
    };
    format!("{sign}{}", count(number.unsigned_abs()))
}

/// ` (+12.50 each)`, if there is a difference and a number of iterations.
pub(super) fn each(diff: &Diff, difference: i64) -> String {
    match diff.normalised(difference) {
        Some(_) if difference == 0 => String::new(),
        Some(part) if part.abs() < 1e-4 => format!(" ({part:+.2e} each)"),
        Some(part) if part.abs() < 0.1 => format!(" ({part:+.4} each)"),
        Some(part) => format!(" ({part:+.2} each)"),
        None => String::new(),
    }
}

/// The name of a frame: its function, or its offset in the module.
pub fn function(frame: &StackFrame) -> String {
    if !frame.function.is_empty() {
        clean(&frame.function)
    } else if !frame.module.is_empty() {
        clean(&format!(
            "{}+{:#x}",
            frame.module,
            frame.offset.unwrap_or(0)
        ))
    } else {
        "??".to_owned()
    }
}

/// The name of a frame in at most `room` columns; template arguments are left out first.
pub fn short_function(frame: &StackFrame, room: usize) -> String {
    name(&function(frame), room)
}

/// The location of a frame in at most `room` columns: file and line, or module and
/// offset; empty if nothing is known.
pub(super) fn location(frame: &StackFrame, room: usize) -> String {
    if frame.file.is_empty() {
        if frame.function.is_empty() {
            return String::new();
        }
        let offset = offset(frame);
        return match (frame.module.is_empty(), offset.is_empty()) {
            (true, true) => String::new(),
            (true, false) => format!("at {offset}"),
            (false, true) => format!("in {}", path(&frame.module, room)),
            (false, false) => format!("in {} at {offset}", path(&frame.module, room)),
        };
    }
    let line = match frame.line {
        0 => String::new(),
        line => format!(":{line}"),
    };
    let room = room.saturating_sub(columns(&line));
    format!("{}{line}", path(&frame.file, room))
}

/// The shortest text that distinguishes two locations in one function: a line, or
/// an offset.
pub(super) fn short_location(frame: &StackFrame) -> String {
    match (frame.line, offset(frame)) {
        (0, offset) => offset,
        (line, _) => format!("line {line}"),
    }
}

fn offset(frame: &StackFrame) -> String {
    match frame.offset {
        _ if nameless_address(frame).is_some() => String::new(),
        Some(offset) => format!("+{offset:#x}"),
        None => String::new(),
    }
}

/// The interval of a difference of estimates, and whether it can be told from chance.
pub fn chance(interval: &Interval) -> String {
    // The casts saturate.
    let (low, high) = (interval.low.floor() as i64, interval.high.ceil() as i64);
    let (low, high) = (signed(low), signed(high));
    let ends = match (interval.low.is_finite(), interval.high.is_finite()) {
        (true, true) => format!("from {low} to {high}"),
        (true, false) => format!("at least {low}"),
        (false, true) => format!("at most {high}"),
        (false, false) => "of any amount".to_owned(),
    };
    let range = format!("{ends} with 95 % confidence");
    match interval.may_be_chance() {
        true => format!("not distinguishable from chance ({range})"),
        false => range,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_a_sign() {
        assert_eq!(signed(1234), "+1,234");
        assert_eq!(signed(-5), "-5");
        assert_eq!(signed(0), "0");
        assert_eq!(signed(i64::MIN), "-9,223,372,036,854,775,808");
    }

    #[test]
    fn a_location_is_the_best_that_is_known() {
        let mut frame = StackFrame::default();
        assert_eq!(
            (function(&frame), location(&frame, 40)),
            ("??".into(), String::new())
        );
        frame.module = "app".into();
        frame.offset = Some(0x66);
        assert_eq!(
            (function(&frame), location(&frame, 40)),
            ("app+0x66".into(), String::new())
        );
        frame.function = "f".into();
        assert_eq!(location(&frame, 40), "in app at +0x66");
        frame.file = "/src/f.c".into();
        frame.line = 7;
        assert_eq!(location(&frame, 40), "/src/f.c:7");
    }
}
