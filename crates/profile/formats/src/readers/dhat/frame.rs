//! Parses the text of DHAT frames, and recognises inlined ones.

use allotrope_demangle::Demangler;
use allotrope_profile::StackFrame;

use crate::function_names::{file_name, is_raw_address, parse_name};

/// A frame and its address. The address stays text, because it is only
/// compared.
#[derive(Debug)]
pub(super) struct Text {
    pub address: Box<str>,
    pub frame: StackFrame,
    /// Frames of this text in the stack set, once used: not inlined, inlined.
    pub indexes: [Option<u32>; 2],
}

impl Text {
    /// Returns the approximate memory in bytes.
    pub fn size(&self) -> usize {
        let frame = &self.frame;
        size_of::<Self>()
            + self.address.len()
            + frame.function.len()
            + frame.signature.len()
            + frame.module.len()
            + frame.file.len()
    }
}

/// Parses text such as `0x109151: leaf (p.c:3)`.
pub(super) fn parse(demangler: &Demangler, text: &str) -> Text {
    let (address, rest) = match text.split_once(": ") {
        Some((address, rest)) if is_raw_address(address) => (address, rest),
        _ => ("", text),
    };
    let (name, mut frame) = without_location(rest);
    let names = if name == "???" {
        parse_name(demangler, address, "")
    } else {
        parse_name(demangler, name, &frame.file)
    };
    frame.function = names.function.into();
    frame.signature = names.signature.into();
    Text {
        address: address.into(),
        frame,
        indexes: [None; 2],
    }
}

/// Splits off the source location or module in brackets.
fn without_location(text: &str) -> (&str, StackFrame) {
    let location = || {
        let (name, location) = text.strip_suffix(')')?.rsplit_once(" (")?;
        let frame = match location.strip_prefix("in ") {
            Some(module) => in_module(module),
            None => in_file(location)?,
        };
        Some((name, frame))
    };
    location().unwrap_or((text, StackFrame::default()))
}

fn in_module(module: &str) -> StackFrame {
    let module = if module == "???" { "" } else { module };
    StackFrame {
        module: file_name(module).into(),
        ..StackFrame::default()
    }
}

/// `file:line` or `file:line:column`.
fn in_file(location: &str) -> Option<StackFrame> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(0))
    };
    let (before, last) = location.rsplit_once(':')?;
    let last = number(last)?;
    let (file, line, column) = match before.rsplit_once(':') {
        Some((file, line)) if number(line).is_some() => (file, number(line)?, last),
        _ => (before, last, 0),
    };
    Some(StackFrame {
        file: file.into(),
        line,
        column,
        ..StackFrame::default()
    })
}

/// Groups of adjacent frames with one address: a function and those inlined into it.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Number, by frame, of the last group that the frame was in. Groups are numbered from 1.
    last: Vec<u64>,
    group: u64,
}

impl Groups {
    /// Whether each frame was inlined into the next one, which then has the same
    /// address. A frame that occurs again at the same address is recursion and
    /// starts a new group. Takes time in proportion to the stack.
    pub fn inlined(
        &mut self,
        stack: &[u32],
        frames: &[Text],
    ) -> impl Iterator<Item = bool> + use<> {
        self.last.resize(frames.len(), 0);
        let mut inlined = vec![false; stack.len()];
        for (at, frame) in stack.iter().map(|frame| *frame as usize).enumerate() {
            let address = &frames[frame].address;
            let joins = at > 0
                && !address.is_empty()
                && *address == frames[stack[at - 1] as usize].address
                && self.last[frame] != self.group;
            if joins {
                inlined[at - 1] = true;
            } else {
                self.group += 1;
            }
            self.last[frame] = self.group;
        }
        inlined.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_frames_are_read() {
        let location = |file: &str, line, column| StackFrame {
            file: file.into(),
            line,
            column,
            ..StackFrame::default()
        };
        for (text, function, expected) in [
            ("0x109151: leaf (p.c:3)", "leaf", location("p.c", 3, 0)),
            (
                "0x1: a::f (src/a b.rs:3:14)",
                "a::f",
                location("src/a b.rs", 3, 14),
            ),
            ("0x1: g", "g", StackFrame::default()),
            ("0x1: ???", "0x1", StackFrame::default()),
            ("0x1: h (in ???)", "h", StackFrame::default()),
            (
                "0x48417B4: malloc (in /usr/lib/vgpreload.so)",
                "malloc",
                StackFrame {
                    module: "vgpreload.so".into(),
                    ..StackFrame::default()
                },
            ),
            (
                "0x1: ??? (in /p)",
                "0x1",
                StackFrame {
                    module: "p".into(),
                    ..StackFrame::default()
                },
            ),
            ("[no stack]", "[no stack]", StackFrame::default()),
            (
                "0x1: f #1 (loop:) in g",
                "f #1 (loop:) in g",
                StackFrame::default(),
            ),
        ] {
            let parsed = parse(&Demangler::default(), text).frame;
            assert_eq!(
                parsed,
                StackFrame {
                    function: function.into(),
                    ..expected
                },
                "{text}"
            );
        }
        assert_eq!(
            &*parse(&Demangler::default(), "0x1: a::b(int) (a.cpp:3)")
                .frame
                .signature,
            "a::b(int)"
        );
    }

    #[test]
    fn adjacent_frames_with_one_address_are_inlined() {
        let demangler = Demangler::default();
        let frames = ["0x1: a", "0x1: b", "0x2: c", "d"].map(|text| parse(&demangler, text));
        let mut groups = Groups::default();
        let mut inlined = |stack: &[u32]| groups.inlined(stack, &frames).collect::<Vec<_>>();
        assert_eq!(
            inlined(&[0, 1, 2, 3, 3]),
            [true, false, false, false, false]
        );
        assert_eq!(inlined(&[0, 1, 0, 1, 2]), [true, false, true, false, false]);
        assert_eq!(inlined(&[1]), [false]);
        assert!(inlined(&[]).is_empty());
    }
}
