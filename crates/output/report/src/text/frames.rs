//! The frames of a stack, a line each.

use std::io::{self, Write};

use allotrope_profile::Profile;

use crate::numbers::count;
use crate::shorten::name;
use crate::text::lists;
use crate::text::options::TextOptions;
use allotrope_text::{Role, columns, cut};

/// A number of stacks in words.
pub(super) fn stacks(number: usize) -> String {
    match number {
        1 => "1 stack".to_owned(),
        many => format!("{} stacks", count(many as u64)),
    }
}

/// Writes the frames of a stack from the first one that is shown, with a mark at the one
/// that heads it.
pub(super) fn write_frames(
    profile: &Profile,
    stack: &[u32],
    [own, first_shown]: [usize; 2],
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let width = style.columns();
    let first = match options.all_frames {
        true => 0,
        false => first_shown,
    };
    for (index, &frame) in stack.iter().enumerate().skip(first) {
        let Some(frame) = profile.frames.get(frame as usize) else {
            continue;
        };
        let room = width - 6;
        let location = lists::location(profile, frame, room / 2).unwrap_or_default();
        let function = name(&frame.function, room.saturating_sub(columns(&location) + 2));
        let mark = if index == own { "▸" } else { " " };
        let line = format!(
            "    {mark} {}  {}",
            style.paint(Role::Function, &function),
            style.paint(Role::Location, &location)
        );
        writeln!(out, "{}", line.trim_end())?;
        if let Some(code) = options.source.as_ref().and_then(|it| it.line(frame)) {
            writeln!(out, "        │ {}", cut(&code, width - 10))?;
        }
    }
    Ok(())
}
