//! A differential flame graph as SVG.
//!
//! Usual differential flame graphs draw the stacks after the change, so a stack that is
//! gone has no width and is invisible. Here the width of a stack is the larger of its
//! two figures. Every frame is labelled with both, and coloured by the direction of the
//! change. A stack that was only moved or renamed is drawn once, under its name after
//! the change.

use std::io::{self, Write};

use allotrope_diff::{Diff, Kind};
use allotrope_profile::{CountedStack, Filter, Metric, StackFrame, StackSet};
use rustc_hash::{FxHashMap, FxHashSet};

use super::wording::signed;
use crate::flame_graph::{Colour, Labels, Line, Names, Picture, Words, wanted};
use crate::numbers::count;

/// Writes the graph: the entries, and the stacks of `after` (the compared runs)
/// that belong to no entry. With a filter only stacks with a frame that matches.
pub fn write(
    diff: &Diff,
    after: &[StackSet],
    filter: Option<&Filter>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut names = Names::default();
    let mut lines = changed(diff, filter, &mut names);
    if let Some(run) = compared_run(after, diff.metric, diff.after) {
        unchanged(diff, run, filter, &mut names, &mut lines);
    }
    let figures = |side: fn(&Line) -> u64| lines.iter().map(side).sum::<u64>();
    let (before, after, difference) = match filter {
        None => (diff.before, diff.after, diff.difference),
        Some(_) => {
            let (before, after) = (figures(|it| it.before), figures(|it| it.after));
            (before, after, after as i64 - before as i64)
        }
    };
    let changes = lines.iter().map(|line| line.after.abs_diff(line.before));
    let labels = Changes {
        largest: changes.max().unwrap_or(0),
    };
    let picture = Picture::new(&names, lines, &labels, "nothing to compare".to_owned());
    let words = Words {
        title: &format!(
            "{}: {} before, {} after ({})",
            diff.metric.words(),
            count(before),
            count(after),
            signed(difference)
        ),
        about: "red: more than before, blue: less; as wide as the larger of both, so that what vanished is seen",
        unit: &format!("{} wide", diff.metric.words()),
    };
    picture.write(&words, out)
}

/// Returns the run of a side whose figures the comparison has: it has the side's total.
pub fn compared_run(runs: &[StackSet], metric: Metric, total: u64) -> Option<&StackSet> {
    runs.iter().find(|run| run.total(metric) == total)
}

fn changed(diff: &Diff, filter: Option<&Filter>, names: &mut Names) -> Vec<Line> {
    let is_wanted = wanted(&diff.frames, filter);
    let numbers: Vec<u32> = diff
        .frames
        .iter()
        .map(|frame| names.number(frame))
        .collect();
    let mut lines = Vec::new();
    for entry in &diff.entries {
        let moved = entry.kind == Kind::Moved;
        for stack in &entry.stacks {
            if (moved && stack.after == 0) || !is_wanted(&stack.frames) {
                continue;
            }
            let frames = stack.frames.iter().rev();
            lines.push(Line::new(
                frames.map(|&frame| numbers[frame as usize]),
                if moved { stack.after } else { stack.before },
                stack.after,
            ));
        }
    }
    lines
}

/// Adds the stacks that are in no entry.
fn unchanged(
    diff: &Diff,
    run: &StackSet,
    filter: Option<&Filter>,
    names: &mut Names,
    lines: &mut Vec<Line>,
) {
    let numbers: Vec<u32> = run.frames.iter().map(|frame| names.number(frame)).collect();
    for stack in unchanged_stacks(diff, run, filter) {
        let figure = stack.figures[diff.metric as usize];
        let frames = stack.frames.iter().rev();
        let names = frames.map(|&frame| numbers[frame as usize]);
        lines.push(Line::new(names, figure, figure));
    }
}

/// The stacks of a compared run that are in no entry, because their figures are the same on
/// both sides; with a filter only those with a frame that matches.
pub fn unchanged_stacks<'a>(
    diff: &Diff,
    run: &'a StackSet,
    filter: Option<&Filter>,
) -> Vec<&'a CountedStack> {
    let is_wanted = wanted(&run.frames, filter);
    let known: FxHashMap<&StackFrame, u32> = (0..).zip(&diff.frames).map(|(i, f)| (f, i)).collect();
    let stacks = diff.entries.iter().flat_map(|entry| &entry.stacks);
    let in_entries: FxHashSet<&[u32]> = stacks.map(|stack| &*stack.frames).collect();
    let indexes: Vec<Option<u32>> = (run.frames.iter())
        .map(|frame| known.get(frame).copied())
        .collect();
    let is_unchanged = |stack: &&CountedStack| {
        let frames: Option<Vec<u32>> = (stack.frames.iter())
            .map(|&frame| indexes[frame as usize])
            .collect();
        let in_entry = frames.is_some_and(|frames| in_entries.contains(&*frames));
        stack.figures[diff.metric as usize] > 0 && !in_entry && is_wanted(&stack.frames)
    };
    run.stacks.iter().filter(is_unchanged).collect()
}

/// Labels frames with both figures, and colours them by the direction of the change.
struct Changes {
    /// The largest difference of a stack.
    largest: u64,
}

impl Labels for Changes {
    /// `name (5 → 7, +2)`, and its colour.
    fn label(&self, name: &str, group: &[Line]) -> (String, Colour) {
        let before: u64 = group.iter().map(|line| line.before).sum();
        let after: u64 = group.iter().map(|line| line.after).sum();
        let difference = after as i64 - before as i64;
        let label = match difference {
            0 => format!("{name} ({}, no change)", count(before)),
            _ => format!(
                "{name} ({} → {}, {})",
                count(before),
                count(after),
                signed(difference)
            ),
        };
        (label, colour(difference, self.largest))
    }
}

/// From nearly white to red for an increase, to blue for a decrease.
fn colour(difference: i64, largest: u64) -> Colour {
    let share = difference.unsigned_abs() as f64 / largest.max(1) as f64;
    let faded = (70.0 + 150.0 * (1.0 - share.min(1.0).sqrt())) as u8;
    match difference.signum() {
        1 => Colour(255, faded, faded),
        -1 => Colour(faded, faded, 255),
        _ => Colour(240, 240, 240),
    }
}
