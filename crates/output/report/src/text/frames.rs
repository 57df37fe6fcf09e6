//! The frames of a stack, a line each.

use std::io::{self, Write};

use allotrope_profile::{Frame, Profile};

use crate::numbers::plural;
use crate::shorten::{clean, name};
use crate::text::lists;
use crate::text::options::TextOptions;
use allotrope_text::{Role, Style, columns, cut};

/// A number of stacks in words.
pub(super) fn stacks(number: usize) -> String {
    plural(number, "stack", "stacks")
}

/// The line of a frame after `before`: its function, and its location in at most half of the room.
pub(super) fn line(profile: &Profile, frame: &Frame, before: &str, style: Style) -> String {
    let room = style.columns().saturating_sub(columns(before));
    let location = lists::location(profile, frame, room / 2).unwrap_or_default();
    let function = name(&frame.function, room.saturating_sub(columns(&location) + 2));
    let function = style.paint(Role::Function, &function);
    let location = style.paint(Role::Location, &location);
    let line = format!("{before}{function}  {location}");
    line.trim_end().to_owned()
}

/// What the frames further in than the first that is shown are; `None` if there are none.
fn further_in(profile: &Profile, frames: &[u32]) -> Option<String> {
    let mut modules: Vec<String> = Vec::new();
    for &frame in frames {
        let frame = profile.frames.get(frame as usize)?;
        let module = clean(&profile.module_name(frame));
        if !module.is_empty() && !modules.contains(&module) {
            modules.push(module);
        }
    }
    let number = plural(frames.len(), "frame", "frames");
    let of = match modules.is_empty() {
        true => String::new(),
        false => format!(" of {}", modules.join(", ")),
    };
    (!frames.is_empty()).then(|| format!("… {number}{of} further in (--all-frames)"))
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
    let width = options.style.columns();
    let first = match options.all_frames {
        true => 0,
        false => first_shown,
    };
    if let Some(text) = further_in(profile, stack.get(..first).unwrap_or_default()) {
        let text = cut(&format!("      {text}"), width);
        writeln!(out, "{}", options.style.paint(Role::Location, &text))?;
    }
    for (index, &frame) in stack.iter().enumerate().skip(first) {
        let Some(frame) = profile.frames.get(frame as usize) else {
            continue;
        };
        let mark = if index == own { "    ▸ " } else { "      " };
        writeln!(out, "{}", line(profile, frame, mark, options.style))?;
        if let Some(code) = options.source.as_ref().and_then(|it| it.line(frame)) {
            writeln!(out, "        │ {}", cut(&code, width - 10))?;
        }
    }
    Ok(())
}
