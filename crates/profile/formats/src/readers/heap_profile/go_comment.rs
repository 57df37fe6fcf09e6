//! The comments in which Go names the frames of a sample, in columns separated by tabs:
//!
//! ```text
//! #  0x4d985c  main.main+0x9c  /src/main.go:26
//! ```
//!
//! The offset counts from the start of the machine code, so a function and those inlined
//! into it have the same start. Go leaves out frames of its runtime at the inner end.

use allotrope_demangle::Demangler;
use allotrope_profile::StackFrame;

use crate::function_names::{is_raw_address, parse_name, split_offset};

/// A frame and the start of its machine code; `None` if unknown.
pub(super) struct GoFrame {
    start: Option<u64>,
    frame: StackFrame,
}

/// Parses what follows `#`; `None` for other comments.
pub(super) fn parse(demangler: &Demangler, comment: &str) -> Option<GoFrame> {
    let mut words = comment
        .split('\t')
        .map(str::trim)
        .filter(|word| !word.is_empty());
    let address = words.next().filter(|word| is_raw_address(word))?;
    let Some(symbol) = words.next() else {
        return Some(GoFrame {
            start: None,
            frame: StackFrame {
                function: address.into(),
                ..StackFrame::default()
            },
        });
    };
    let (file, line) = words
        .next()
        .and_then(|location| location.rsplit_once(':'))
        .and_then(|(file, line)| Some((file, line.parse().ok()?)))
        .unwrap_or(("", 0));
    let (name, offset) = split_offset(symbol);
    let names = parse_name(demangler, name, file);
    let value = u64::from_str_radix(&address[2..], 16).ok();
    Some(GoFrame {
        start: value
            .zip(offset)
            .and_then(|(at, offset)| at.checked_sub(offset)),
        frame: StackFrame {
            function: names.function.into(),
            signature: names.signature.into(),
            file: file.into(),
            line,
            offset,
            ..StackFrame::default()
        },
    })
}

/// The frames of a stack. Adjacent ones of different functions with the same start are a
/// function and those inlined into it.
pub(super) fn frames(comments: Vec<GoFrame>) -> impl Iterator<Item = StackFrame> {
    let mut comments = comments.into_iter().peekable();
    std::iter::from_fn(move || {
        let GoFrame { start, mut frame } = comments.next()?;
        frame.inlined = comments.peek().is_some_and(|caller| {
            start.is_some() && start == caller.start && frame.function != caller.frame.function
        });
        if frame.inlined {
            // The distance from the start of another function.
            frame.offset = None;
        }
        Some(frame)
    })
}
