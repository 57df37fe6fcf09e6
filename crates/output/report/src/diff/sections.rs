//! The comparison in the sections that `stackdiff` scripts print: `### only in
//! AFTER`, `### only in BEFORE`, `### different numbers`, a closing total. Each entry
//! begins with a headline: its sum and the innermost frames that its stacks share. The
//! stacks follow, each with its own number.

use std::io::{self, Write};

use allotrope_diff::{Diff, Entry, Kind};
use allotrope_profile::{StackFrame, nameless_address};

use super::selection::Selection;
use crate::shorten::clean;

/// Frames of a headline, the same number as in the scripts.
const HEADLINE: usize = 8;

/// Writes the entries that match the filter and reach the minimum.
pub fn write(diff: &Diff, selection: &Selection, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    let out: &mut dyn Write = &mut out;
    let matching = selection.matching(diff);
    let of = |kind| {
        let entries = matching.iter().copied();
        entries.filter(move |entry| entry.kind == kind && selection.shows(entry))
    };
    writeln!(out, "### only in AFTER")?;
    for entry in of(Kind::New) {
        one_sided(diff, entry, entry.after, out)?;
    }
    writeln!(out, "\n### only in BEFORE")?;
    for entry in of(Kind::Gone) {
        one_sided(diff, entry, entry.before, out)?;
    }
    writeln!(out, "\n### different numbers")?;
    for entry in of(Kind::Changed) {
        two_sided(diff, entry, out)?;
    }
    if of(Kind::Jitter).next().is_some() {
        writeln!(out, "\n### different by chance")?;
        for entry in of(Kind::Jitter) {
            two_sided(diff, entry, out)?;
        }
    }
    if selection.expand && of(Kind::Moved).next().is_some() {
        writeln!(out, "\n### moved or renamed")?;
        for entry in of(Kind::Moved) {
            two_sided(diff, entry, out)?;
        }
    }
    writeln!(
        out,
        "\nTotal of _EVERYTHING_ BEFORE:  {},  AFTER:  {},  DIFFERENCE:  {}",
        diff.before, diff.after, diff.difference
    )?;
    out.flush()
}

fn one_sided(diff: &Diff, entry: &Entry, total: u64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{total}")?;
    headline(diff, entry, out)?;
    for stack in &entry.stacks {
        writeln!(out)?;
        one_stack(diff, stack.before.max(stack.after), &stack.frames, out)?;
    }
    writeln!(out)
}

fn two_sided(diff: &Diff, entry: &Entry, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "before: {}, after: {}", entry.before, entry.after)?;
    headline(diff, entry, out)?;
    writeln!(out, "  AFTER")?;
    for stack in entry.stacks.iter().filter(|stack| stack.after > 0) {
        one_stack(diff, stack.after, &stack.frames, out)?;
        writeln!(out)?;
    }
    writeln!(out, "  BEFORE")?;
    for stack in entry.stacks.iter().filter(|stack| stack.before > 0) {
        let frames = stack.frames_before.as_ref().unwrap_or(&stack.frames);
        one_stack(diff, stack.before, frames, out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// The innermost frames that all stacks of an entry share.
fn headline(diff: &Diff, entry: &Entry, out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = entry.stacks.first() else {
        return Ok(());
    };
    let name = |index: u32| {
        let frame = &diff.frames[index as usize];
        (&frame.module, &frame.function)
    };
    let shared = |at: usize| {
        let wanted = name(first.frames[at]);
        let mut stacks = entry.stacks.iter();
        stacks.all(|stack| {
            stack
                .frames
                .get(at)
                .is_some_and(|&index| name(index) == wanted)
        })
    };
    for at in (0..first.frames.len().min(HEADLINE)).take_while(|&at| shared(at)) {
        let frame = &diff.frames[first.frames[at] as usize];
        writeln!(out, "{}", text(frame, false))?;
    }
    Ok(())
}

fn one_stack(diff: &Diff, figure: u64, frames: &[u32], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "    {figure}")?;
    for &index in frames {
        writeln!(out, "        {}", text(&diff.frames[index as usize], true))?;
    }
    Ok(())
}

/// ``module`function+0xOFFSET``, as dtrace writes frames.
fn text(frame: &StackFrame, with_offset: bool) -> String {
    let module = match &*frame.module {
        "" => "??",
        module => module,
    };
    if let Some(address) = nameless_address(frame) {
        return clean(&format!("{module}`{address:#x}"));
    }
    clean(&match (&*frame.function, frame.offset) {
        ("", offset) => format!("{module}`{:#x}", offset.unwrap_or(0)),
        (function, Some(offset)) if with_offset => format!("{module}`{function}+{offset:#x}"),
        (function, _) => format!("{module}`{function}"),
    })
}
