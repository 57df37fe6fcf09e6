//! A differential flame graph as SVG.
//!
//! Usual differential flame graphs draw the stacks after the change, so a stack that is
//! gone has no width and is invisible. Here the width of a stack is the larger of its
//! two figures. Every frame is labelled with both, and coloured by the direction of the
//! change. A stack that was only moved or renamed is drawn once, under its name after
//! the change.

use std::collections::HashMap;
use std::io::{self, Write};

use allotrope_diff::{Diff, Kind};
use allotrope_profile::{StackFrame, StackSet};
use inferno::flamegraph::color::{Color, PaletteMap};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use rustc_hash::{FxHashMap, FxHashSet};

use super::wording::{function, signed};
use crate::numbers::count;

/// Frames narrower than the whole divided by this are not drawn: no screen shows them.
const FINEST: u64 = 4000;
/// Deeper frames are not drawn.
const DEEPEST: usize = 1000;

/// A stack: names from the outermost one inwards, and its two figures.
struct Line {
    names: Box<[u32]>,
    before: u64,
    after: u64,
}

/// Numbers distinct names.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, u32>,
    list: Vec<String>,
}

impl Names {
    fn number(&mut self, frame: &StackFrame) -> u32 {
        let name = match function(frame).replace(';', "_") {
            name if name.is_empty() => "??".to_owned(),
            name => name,
        };
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let number = self.list.len() as u32;
        self.numbers.insert(name.clone(), number);
        self.list.push(name);
        number
    }
}

/// Writes the graph: the entries, and the stacks of `after` (the compared runs)
/// that belong to no entry.
pub fn write(diff: &Diff, after: &[StackSet], out: &mut dyn Write) -> io::Result<()> {
    let mut names = Names::default();
    let mut lines = changed(diff, &mut names);
    let representative = after
        .iter()
        .find(|run| run.total(diff.metric) == diff.after);
    if let Some(run) = representative {
        unchanged(diff, run, &mut names, &mut lines);
    }
    let lines = merged(lines);
    let mut drawing = Drawing::new(&names.list, &lines);
    drawing.draw(&lines, 0, &mut String::new());
    if drawing.folded.is_empty() {
        drawing.folded.push("nothing to compare 1".to_owned());
    }
    let mut palette = drawing.palette;
    let mut options = Options::default();
    options.title = format!(
        "{}: {} before, {} after ({})",
        diff.metric.words(),
        count(diff.before),
        count(diff.after),
        signed(diff.difference)
    );
    options.subtitle = Some(
        "red: more than before, blue: less; as wide as the larger of both, so that what vanished is seen"
            .to_owned(),
    );
    options.count_name = format!("{} wide", diff.metric.words());
    options.deterministic = true;
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.palette_map = Some(&mut palette);
    let lines = drawing.folded.iter().map(String::as_str);
    flamegraph::from_lines(&mut options, lines, out)
}

fn changed(diff: &Diff, names: &mut Names) -> Vec<Line> {
    let numbers: Vec<u32> = diff
        .frames
        .iter()
        .map(|frame| names.number(frame))
        .collect();
    let mut lines = Vec::new();
    for entry in &diff.entries {
        let moved = entry.kind == Kind::Moved;
        for stack in &entry.stacks {
            if moved && stack.after == 0 {
                continue;
            }
            let frames = stack.frames.iter().rev();
            lines.push(Line {
                names: frames.map(|&frame| numbers[frame as usize]).collect(),
                before: if moved { stack.after } else { stack.before },
                after: stack.after,
            });
        }
    }
    lines
}

/// Adds the stacks that are in no entry.
fn unchanged(diff: &Diff, run: &StackSet, names: &mut Names, lines: &mut Vec<Line>) {
    let known: FxHashMap<&StackFrame, u32> = (0..).zip(&diff.frames).map(|(i, f)| (f, i)).collect();
    let stacks = diff.entries.iter().flat_map(|entry| &entry.stacks);
    let in_entries: FxHashSet<&[u32]> = stacks.map(|stack| &*stack.frames).collect();
    let indexes: Vec<Option<u32>> = (run.frames.iter())
        .map(|frame| known.get(frame).copied())
        .collect();
    let numbers: Vec<u32> = run.frames.iter().map(|frame| names.number(frame)).collect();
    for stack in &run.stacks {
        let figure = stack.figures[diff.metric as usize];
        let frames: Option<Vec<u32>> = (stack.frames.iter())
            .map(|&frame| indexes[frame as usize])
            .collect();
        let in_entry = frames.is_some_and(|frames| in_entries.contains(&*frames));
        if figure > 0 && !in_entry {
            let frames = stack.frames.iter().rev();
            lines.push(Line {
                names: frames.map(|&frame| numbers[frame as usize]).collect(),
                before: figure,
                after: figure,
            });
        }
    }
}

/// Merges stacks of equal names and sorts them, so that stacks with common outer
/// frames are neighbours.
fn merged(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by(|a, b| a.names.cmp(&b.names));
    lines.dedup_by(|line, first| {
        let same = line.names == first.names;
        if same {
            first.before += line.before;
            first.after += line.after;
        }
        same
    });
    lines
}

/// Makes folded stacks whose frames are labelled with both figures.
struct Drawing<'a> {
    names: &'a [String],
    whole: u64,
    largest: u64,
    folded: Vec<String>,
    palette: PaletteMap,
}

impl<'a> Drawing<'a> {
    fn new(names: &'a [String], lines: &[Line]) -> Self {
        Self {
            names,
            whole: lines.iter().map(width).sum(),
            largest: lines
                .iter()
                .map(|line| line.after.abs_diff(line.before))
                .max()
                .unwrap_or(0),
            folded: Vec::new(),
            palette: PaletteMap::default(),
        }
    }

    /// Draws lines that share their first `depth` names, which `prefix` spells.
    fn draw(&mut self, lines: &[Line], depth: usize, prefix: &mut String) {
        let mut own: u64 = 0;
        let mut rest = lines;
        while let Some(first) = rest.first() {
            let Some(&name) = first.names.get(depth).filter(|_| depth < DEEPEST) else {
                own += width(first);
                rest = &rest[1..];
                continue;
            };
            let end = rest.partition_point(|line| line.names.get(depth) <= Some(&name));
            let (group, others) = rest.split_at(end);
            rest = others;
            let wide: u64 = group.iter().map(width).sum();
            if wide.saturating_mul(FINEST) < self.whole {
                own += wide;
                continue;
            }
            let shared = prefix.len();
            let label = self.label(name, group);
            if !prefix.is_empty() {
                prefix.push(';');
            }
            prefix.push_str(&label);
            self.draw(group, depth + 1, prefix);
            prefix.truncate(shared);
        }
        if own > 0 && !prefix.is_empty() {
            self.folded.push(format!("{prefix} {own}"));
        }
    }

    /// `name (5 → 7, +2)`, and its colour.
    fn label(&mut self, name: u32, group: &[Line]) -> String {
        let before: u64 = group.iter().map(|line| line.before).sum();
        let after: u64 = group.iter().map(|line| line.after).sum();
        let name = &self.names[name as usize];
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
        self.palette.insert(&label, color(difference, self.largest));
        label
    }
}

fn width(line: &Line) -> u64 {
    line.before.max(line.after)
}

/// From nearly white to red for an increase, to blue for a decrease.
fn color(difference: i64, largest: u64) -> Color {
    let share = difference.unsigned_abs() as f64 / largest.max(1) as f64;
    let faded = (70.0 + 150.0 * (1.0 - share.min(1.0).sqrt())) as u8;
    match difference.signum() {
        1 => Color {
            r: 255,
            g: faded,
            b: faded,
        },
        -1 => Color {
            r: faded,
            g: faded,
            b: 255,
        },
        _ => Color {
            r: 240,
            g: 240,
            b: 240,
        },
    }
}
