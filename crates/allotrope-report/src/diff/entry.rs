//! One entry of the comparison as text: what it is, who answers for it, its
//! figures and its stacks.

use std::io::{self, Write};

use allotrope_profile::diff::{Diff, Entry, EntryStack, Kind};
use allotrope_profile::stack_set::StackFrame;

use super::text::DiffTextOptions;
use super::wording::{each, function, kind_word, offset, place, plural, short_place, signed};
use crate::numbers::count;
use crate::shorten::{callers, columns, middle, name};
use crate::style::Role;

/// Columns before everything but an entry's first line.
const INDENT: usize = 6;
/// Most stacks of an entry, unless all frames are wanted.
const MOST: usize = 3;

/// Writes the entry with its stacks.
pub(super) fn write(
    diff: &Diff,
    entry: &Entry,
    number: usize,
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let blamed = frame(diff, entry.blame);
    let head = format!(
        "{number:>3}. {} {}{}  ",
        kind_word(entry.kind),
        signed(entry.difference),
        each(diff, entry.difference)
    );
    let room = style.columns().saturating_sub(columns(&head));
    let title = match entry.kind {
        Kind::Jitter => format!("thread {}", function(blamed)),
        _ => function(blamed),
    };
    let title = style.paint(Role::Function, &name(&title, room));
    writeln!(out, "{}{title}", style.paint(Role::Title, &head))?;
    let text = facts(diff, entry, style.columns() - INDENT);
    for text in crate::shorten::wrap(&text, style.columns() - INDENT) {
        writeln!(out, "{:INDENT$}{text}", "")?;
    }
    if let Some(text) = differing(diff, entry) {
        let text = middle(&text, style.columns() - INDENT);
        writeln!(out, "{:INDENT$}{text}", "")?;
    }
    let most = if options.all_frames { usize::MAX } else { MOST };
    for stack in entry.stacks.iter().take(most) {
        if options.all_frames {
            write_whole(diff, entry, stack, options, out)?;
        } else {
            write_abbreviated(diff, entry, stack, options, out)?;
        }
    }
    let rest = entry.stacks.len().saturating_sub(most);
    if rest > 0 {
        let text = format!(
            "… {} (--all-frames shows them)",
            plural(rest, "more stack", "more stacks")
        );
        writeln!(out, "{:INDENT$}{}", "", style.paint(Role::Place, &text))?;
    }
    Ok(())
}

/// Writes a moved entry in one line or two: what it was and what it is.
pub(super) fn write_folded(
    diff: &Diff,
    entry: &Entry,
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let head = format!("  {}  ", count(entry.before));
    let tail = format!("  confidence {:.2}", entry.confidence);
    let room = style
        .columns()
        .saturating_sub(columns(&head) + columns(&tail));
    let text = differing(diff, entry).unwrap_or_else(|| function(frame(diff, entry.blame)));
    if columns(&text) <= room {
        return writeln!(out, "{head}{text}{}", style.paint(Role::Place, &tail));
    }
    let (was, is) = differing_parts(diff, entry);
    let room = style.columns().saturating_sub(columns(&head));
    let Some(was) = was else {
        let text = middle(&text, room);
        let tail = style.paint(Role::Place, tail.trim_start());
        return writeln!(out, "{head}{text}\n{:INDENT$}{tail}", "");
    };
    writeln!(out, "{head}{}", middle(&was, room))?;
    let room = style.columns().saturating_sub(INDENT + 2 + columns(&tail));
    let is = middle(&is.unwrap_or_default(), room);
    writeln!(
        out,
        "{:INDENT$}→ {is}{}",
        "",
        style.paint(Role::Place, &tail)
    )
}

/// The figures, the place of the blamed frame, and how sure it is.
fn facts(diff: &Diff, entry: &Entry, room: usize) -> String {
    let mut facts = vec![format!(
        "{} before, {} after",
        count(entry.before),
        count(entry.after)
    )];
    let place = place(frame(diff, entry.blame), room / 2);
    if entry.kind != Kind::Jitter && !place.is_empty() {
        facts.push(place);
    }
    if entry.stacks.len() > 1 {
        facts.push(plural(entry.stacks.len(), "stack", "stacks"));
    }
    if entry.confidence < 1.0 {
        facts.push(format!("confidence {:.2}", entry.confidence));
    }
    facts.join(" · ")
}

/// What differs between the stacks of a moved entry, in a sentence.
fn differing(diff: &Diff, entry: &Entry) -> Option<String> {
    entry.differs?;
    let (was, is) = differing_parts(diff, entry);
    match (was, is) {
        (Some(was), Some(is)) => Some(format!("{was} → {is}")),
        (Some(was), None) => Some(format!("without {was}")),
        (None, Some(is)) => Some(format!("inserted {is}")),
        (None, None) => None,
    }
}

fn differing_parts(diff: &Diff, entry: &Entry) -> (Option<String>, Option<String>) {
    let Some(differs) = entry.differs else {
        return (None, None);
    };
    let frames = [differs.before, differs.after].map(|index| index.map(|i| frame(diff, i)));
    match frames {
        [Some(was), Some(is)] if function(was) == function(is) => {
            let place = |frame| match short_place(frame) {
                place if place.is_empty() => String::new(),
                place => format!(" {place}"),
            };
            let both = [place(was), place(is)];
            if both[0] == both[1] && was.module != is.module {
                let of = |frame: &StackFrame| Some(format!("{}`{}", frame.module, function(frame)));
                return (of(was), of(is));
            }
            (
                Some(format!("{}{}", function(was), both[0])),
                Some(both[1].trim_start().to_owned()),
            )
        }
        _ => {
            let [was, is] = frames.map(|frame| frame.map(function));
            (was, is)
        }
    }
}

/// One line: figures where there are several stacks, where in the blamed
/// function, then who called whom.
fn write_abbreviated(
    diff: &Diff,
    entry: &Entry,
    stack: &EntryStack,
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let room = style.columns() - INDENT;
    let head = stack_head(diff, entry, stack, room / 2);
    let outwards = own_frames(diff, entry, stack, options);
    let names: Vec<String> = outwards
        .iter()
        .map(|&index| function(frame(diff, index)))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let gap = if head.is_empty() { "" } else { "  " };
    let room = room.saturating_sub(columns(&head) + columns(gap));
    let calls = match names.as_slice() {
        // The headline has named it.
        [blamed, rest @ ..] if *blamed == function(frame(diff, entry.blame)) => callers(rest, room),
        // The arrow before the innermost frame has nothing to its left.
        names => callers(names, room + 2).trim_start_matches("← ").to_owned(),
    };
    let calls = calls.as_str();
    if head.is_empty() && calls.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "{:INDENT$}{head}{gap}{}",
        "",
        style.paint(Role::Place, &middle(calls, room))
    )
}

/// The frames from the blamed one or the user's innermost on.
fn own_frames<'a>(
    diff: &Diff,
    entry: &Entry,
    stack: &'a EntryStack,
    options: &DiffTextOptions,
) -> &'a [u32] {
    let own = stack
        .frames
        .iter()
        .position(|&index| index == entry.blame || !options.glue.has(frame(diff, index)));
    &stack.frames[own.unwrap_or(0)..]
}

/// Everything, a frame a line.
fn write_whole(
    diff: &Diff,
    entry: &Entry,
    stack: &EntryStack,
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let head = stack_head(diff, entry, stack, style.columns() - INDENT);
    if !head.is_empty() {
        writeln!(out, "{:INDENT$}{head}", "")?;
    }
    for &index in &stack.frames {
        let frame = frame(diff, index);
        let room = style.columns() - INDENT - 2;
        let place = place(frame, room / 2);
        let function = name(&function(frame), room.saturating_sub(columns(&place) + 2));
        let line = format!(
            "{}  {}",
            style.paint(Role::Function, &function),
            style.paint(Role::Place, &place)
        );
        writeln!(out, "{:INDENT$}  {}", "", line.trim_end())?;
    }
    Ok(())
}

/// What tells a stack from the others of its entry.
fn stack_head(diff: &Diff, entry: &Entry, stack: &EntryStack, room: usize) -> String {
    let mut head = String::new();
    if entry.stacks.len() > 1 {
        head = format!("{} → {}", count(stack.before), count(stack.after));
    }
    let blamed = function(frame(diff, entry.blame));
    let is_blamed = |index: &&u32| function(frame(diff, **index)) == blamed;
    let places = match &stack.frames_before {
        Some(before) => elsewhere(diff, before, &stack.frames, &blamed),
        None if entry.stacks.len() > 1 => {
            let blamed = stack.frames.iter().find(is_blamed);
            blamed.map(|&index| short_place(frame(diff, index)))
        }
        None => None,
    };
    if let Some(places) = places.filter(|places| !places.is_empty()) {
        head = format!("{head} at {places}").trim_start().to_owned();
    }
    middle(&head, room)
}

/// Where a stack that reads alike is at another place: in the blamed function
/// if it is there, else in the innermost that differs.
fn elsewhere(diff: &Diff, before: &[u32], after: &[u32], blamed: &str) -> Option<String> {
    let pairs = || {
        let pairs = before.iter().zip(after).filter(|(was, is)| was != is);
        pairs.map(|(&was, &is)| [frame(diff, was), frame(diff, is)])
    };
    let of_blamed = pairs().find(|[_, is]| function(is) == blamed);
    let [was, is] = of_blamed.or_else(|| pairs().next())?;
    let (mut from, mut to) = (short_place(was), short_place(is));
    if from == to {
        (from, to) = (offset(was), offset(is));
    }
    let named = match function(is) {
        name if name == blamed => String::new(),
        name => format!("{name} "),
    };
    Some(format!("{named}{from}, now {to}"))
}

fn frame(diff: &Diff, index: u32) -> &StackFrame {
    &diff.frames[index as usize]
}
