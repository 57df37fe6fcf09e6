//! How frames read in formats whose frames are a text.

use std::borrow::Cow;

use allotrope_profile::StackFrame;
use allotrope_text::{is_shown, shown};

/// Stands for the frames of a stack that has none.
pub(super) const NO_STACK: &str = "[no stack]";

/// A frame's name: the function, or the place in the module.
pub(super) fn name(frame: &StackFrame) -> Cow<'_, str> {
    if !frame.function.is_empty() {
        Cow::Borrowed(&frame.function)
    } else if !frame.module.is_empty() {
        Cow::Owned(format!("{}+{:#x}", frame.module, frame.offset.unwrap_or(0)))
    } else {
        Cow::Borrowed("??")
    }
}

/// Text that stays on its line, is shown as it is and holds no `separator`.
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
    fn a_frame_without_function_is_a_place_in_its_module() {
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
