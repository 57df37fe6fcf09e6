//! The text of frames in formats that have only text for a frame.

use std::borrow::Cow;

use allotrope_profile::StackFrame;
use allotrope_text::{is_shown, shown};

/// The frame that represents a stack without frames.
pub(super) const NO_STACK: &str = "[no stack]";

/// The name of a frame: its function, or its offset in the module.
pub(crate) fn name(frame: &StackFrame) -> Cow<'_, str> {
    if !frame.function.is_empty() {
        Cow::Borrowed(&frame.function)
    } else if !frame.module.is_empty() {
        Cow::Owned(format!("{}+{:#x}", frame.module, frame.offset.unwrap_or(0)))
    } else {
        Cow::Borrowed("??")
    }
}

/// The text on one line, without `separator`; unprintable characters are
/// escaped.
pub(super) fn on_one_line(text: Cow<'_, str>, separator: Option<char>) -> Cow<'_, str> {
    let breaks = |c: char| !is_shown(c) || Some(c) == separator;
    if !text.contains(breaks) {
        return text;
    }
    let text = shown(&text);
    Cow::Owned(match separator {
        Some(separator) => text.replace(separator, "_"),
        None => text.into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_function_is_an_offset_in_its_module() {
        let mut frame = StackFrame::default();
        assert_eq!(name(&frame), "??");
        frame.module = "lib.so".into();
        frame.offset = Some(26);
        assert_eq!(name(&frame), "lib.so+0x1a");
        frame.function = "f".into();
        assert_eq!(name(&frame), "f");
    }

    #[test]
    fn separators_are_replaced() {
        assert_eq!(on_one_line("a;b\nc".into(), Some(';')), r"a_b\nc");
        assert_eq!(on_one_line("a;b".into(), None), "a;b");
    }
}
