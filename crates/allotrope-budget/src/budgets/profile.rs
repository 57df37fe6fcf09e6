//! Reads and writes accepted stacks: a call tree in text, readable in a code
//! review. Each line is a call; the caller is above, callees are sorted by name.
//!
//! ```text
//! case encode/small
//! main⇥bench⇥src/main.cc:10
//!  encode⇥⇥src/encode.cc:22
//!   grow⇥⇥src/encode.cc:5⇥allocations=1000 bytes=48000
//! ```
//!
//! The indentation of a line is its depth; above 32 it starts with `@DEPTH `
//! instead. The fields are separated by tabs: function, module (empty if the
//! caller's), file and line (followed by `inlined` for an inlined frame), and
//! the figures if a stack ends there.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use allotrope_profile::{CountedStack, Metric, MetricSet, MetricValues, StackFrame, StackSet};
use rustc_hash::{FxHashMap, FxHashSet};

use super::BudgetError;

/// The function of the stack that sums up all stacks beyond the limit.
const OTHER_STACKS: &str = "[other stacks]";
/// Largest depth that is written as an indentation; larger ones are numbers.
const MAX_INDENT: usize = 32;
/// Upper bound on the depth of a stack, inlined frames included.
const MAX_DEPTH: usize = 1 << 16;
/// Upper bound on the frames of all stacks of a case, because a short file could demand
/// any amount of memory: each stack repeats the frames of its callers.
const MAX_FRAMES: usize = 1 << 26;

const HEAD: &str = "\
# Call stacks of the accepted numbers, callers above. They show what changed a number.
# `allotrope test --accept` writes this file.
";

/// The metrics in the file, with their names there.
const NAMES: [(Metric, &str); 7] = [
    (Metric::Allocations, "allocations"),
    (Metric::Bytes, "bytes"),
    (Metric::Temporary, "temporary"),
    (Metric::LeakedAllocations, "remaining"),
    (Metric::LeakedBytes, "remaining_bytes"),
    (Metric::PeakAllocations, "at_peak"),
    (Metric::PeakBytes, "bytes_at_peak"),
];

/// A node of the call tree: the figures of the stacks that end here, and the callees in
/// the order of the file.
#[derive(Default)]
struct Node<'a> {
    figures: MetricValues,
    callees: BTreeMap<&'a StackFrame, Node<'a>>,
}

/// The text of the file, with at most `most` stacks per case; the others are summed up
/// as [`OTHER_STACKS`].
pub(super) fn text(cases: &BTreeMap<String, StackSet>, most: usize) -> String {
    let mut text = HEAD.to_owned();
    for (name, set) in cases {
        let _ = writeln!(text, "\ncase {}", one_line(name));
        let others = other_stacks();
        let mut root = Node::default();
        for (index, stack) in by_size(set).into_iter().enumerate() {
            let mut node = &mut root;
            if index >= most {
                node = node.callees.entry(&others).or_default();
            } else {
                for frame in stack.frames.iter().rev() {
                    let frame = set.frames.get(*frame as usize).unwrap_or(&others);
                    node = node.callees.entry(frame).or_default();
                }
            }
            add(&mut node.figures, &stack.figures);
        }
        write_tree(&root, &mut text);
    }
    text
}

/// The only frame of the stack that sums up the others.
fn other_stacks() -> StackFrame {
    StackFrame {
        function: OTHER_STACKS.to_owned(),
        ..StackFrame::default()
    }
}

fn add(sums: &mut MetricValues, figures: &MetricValues) {
    for (sum, figure) in sums.iter_mut().zip(figures) {
        *sum = sum.saturating_add(*figure);
    }
}

/// Sorts stacks by size, the largest first, and equal ones by their frames, so
/// that the order is deterministic.
fn by_size(set: &StackSet) -> Vec<&CountedStack> {
    let mut stacks: Vec<&CountedStack> = set.stacks.iter().collect();
    let frames = |stack: &CountedStack| -> Vec<Option<&StackFrame>> {
        let frames = stack.frames.iter();
        frames
            .map(|frame| set.frames.get(*frame as usize))
            .collect()
    };
    stacks.sort_by(|a, b| {
        let size = |stack: &CountedStack| stack.figures[Metric::Allocations as usize];
        size(b)
            .cmp(&size(a))
            .then_with(|| frames(a).cmp(&frames(b)))
    });
    stacks
}

/// Writes the tree in depth-first order; iterative, because stacks may be thousands of
/// calls deep.
fn write_tree(root: &Node<'_>, text: &mut String) {
    let mut pending: Vec<(usize, &StackFrame, &str, &Node<'_>)> = Vec::new();
    let callees = root.callees.iter().rev();
    pending.extend(callees.map(|(frame, node)| (0, *frame, "", node)));
    if root.figures != MetricValues::default() {
        let _ = writeln!(text, "[no stack]\t\t\t{}", figures_text(&root.figures));
    }
    while let Some((depth, frame, caller, node)) = pending.pop() {
        if depth > MAX_INDENT {
            let _ = write!(text, "@{depth} ");
        } else {
            let _ = write!(text, "{:depth$}", "");
        }
        let module = if frame.module == caller {
            ""
        } else {
            &frame.module
        };
        let mut line = format!("{}\t{}\t", one_line(&frame.function), one_line(module));
        if !frame.file.is_empty() {
            let _ = write!(line, "{}:{}", one_line(&frame.file), frame.line);
        }
        if frame.inlined {
            line.push_str(" inlined");
        }
        let _ = write!(line, "\t{}", figures_text(&node.figures));
        text.push_str(line.trim_end());
        text.push('\n');
        let callees = node.callees.iter().rev();
        pending.extend(callees.map(|(callee, node)| (depth + 1, *callee, &*frame.module, node)));
    }
}

fn figures_text(figures: &MetricValues) -> String {
    let figures = NAMES.iter().filter_map(|(metric, name)| {
        let figure = figures[*metric as usize];
        (figure > 0).then(|| format!("{name}={figure}"))
    });
    figures.collect::<Vec<_>>().join(" ")
}

/// Makes a name fit a field: one line that does not look like another element
/// of the format.
fn one_line(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    match name.trim() {
        "" => String::new(),
        // The parser would take it for a comment, a depth or a case.
        trimmed if trimmed.starts_with(['#', '@']) || trimmed.starts_with("case ") => {
            format!("\u{200b}{trimmed}")
        }
        trimmed => trimmed.to_owned(),
    }
}

/// Parses the file.
pub(super) fn parse(text: &str, file: &Path) -> Result<BTreeMap<String, StackSet>, BudgetError> {
    let mut cases: BTreeMap<String, StackSet> = BTreeMap::new();
    let mut current: Option<CaseReader> = None;
    for (index, line) in text.lines().enumerate() {
        let wrong = |problem: &str| BudgetError::Invalid {
            file: file.to_owned(),
            line: index + 1,
            problem: problem.to_owned(),
        };
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix("case ") {
            let before = current.replace(CaseReader::new(name));
            cases.extend(before.map(CaseReader::finish));
            continue;
        }
        let reading = current
            .as_mut()
            .ok_or_else(|| wrong("a call is before the first `case`"))?;
        reading.line(line).map_err(wrong)?;
    }
    cases.extend(current.map(CaseReader::finish));
    Ok(cases)
}

/// Reads the lines of one case.
struct CaseReader {
    name: String,
    set: StackSet,
    numbers: FxHashMap<StackFrame, u32>,
    /// The frames from the outermost call to that of the last line.
    calls: Vec<u32>,
    /// The number of frames of all stacks so far.
    frames: usize,
}

impl CaseReader {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            set: StackSet {
                known: MetricSet::of(&NAMES.map(|(metric, _)| metric)),
                ..StackSet::default()
            },
            numbers: FxHashMap::default(),
            calls: Vec::new(),
            frames: 0,
        }
    }

    fn finish(self) -> (String, StackSet) {
        (self.name, self.set)
    }

    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let (depth, call) = match line.strip_prefix('@') {
            Some(rest) => {
                let (depth, call) = rest.split_once(' ').ok_or("no blank after the depth")?;
                (depth.parse().map_err(|_| "the depth is no number")?, call)
            }
            None => {
                let call = line.trim_start_matches(' ');
                (line.len() - call.len(), call)
            }
        };
        if depth > self.calls.len() || depth >= MAX_DEPTH {
            return Err("a call is indented by more than one level below the line above");
        }
        self.calls.truncate(depth);
        let mut fields = call.split('\t');
        let mut field = || fields.next().unwrap_or_default().trim();
        let (function, module, location, figures) = (field(), field(), field(), field());
        let frame = self.frame(function, module, location);
        let number = *self.numbers.entry(frame).or_insert_with_key(|frame| {
            self.set.frames.push(frame.clone());
            u32::try_from(self.set.frames.len() - 1).unwrap_or(u32::MAX)
        });
        self.calls.push(number);
        if !figures.is_empty() {
            let figures = read_figures(figures)?;
            self.frames += self.calls.len();
            if self.frames > MAX_FRAMES {
                return Err("the stacks of a case have too many frames");
            }
            self.set.stacks.push(CountedStack {
                frames: self.calls.iter().rev().copied().collect(),
                figures,
            });
        }
        Ok(())
    }

    fn frame(&self, function: &str, module: &str, location: &str) -> StackFrame {
        let caller = self
            .calls
            .last()
            .map(|&index| &self.set.frames[index as usize]);
        let module = match (module, caller) {
            ("", Some(caller)) => caller.module.clone(),
            (module, _) => module.to_owned(),
        };
        let (location, inlined) = match location.strip_suffix("inlined") {
            Some(location) => (location.trim_end(), true),
            None => (location, false),
        };
        let (file, line) = match location.rsplit_once(':') {
            Some((file, line)) => (file, line.parse().unwrap_or(0)),
            None => (location, 0),
        };
        StackFrame {
            function: function.trim_start_matches('\u{200b}').to_owned(),
            module,
            file: file.to_owned(),
            line,
            inlined,
            ..StackFrame::default()
        }
    }
}

fn read_figures(text: &str) -> Result<MetricValues, &'static str> {
    let mut figures = MetricValues::default();
    for word in text.split(' ') {
        let (name, figure) = word.split_once('=').ok_or("a figure has no `=`")?;
        let (metric, _) = NAMES
            .iter()
            .find(|(_, known)| *known == name)
            .ok_or("a figure has an unknown name")?;
        figures[*metric as usize] = figure.parse().map_err(|_| "a figure is no number")?;
    }
    Ok(figures)
}

/// Sums up small stacks as `OTHER_STACKS`, like the accepted profile; otherwise all of
/// them would be listed as new. A small stack is kept if the accepted profile has it, or
/// has one with the same functions at other lines.
pub fn fold_like(now: &StackSet, accepted: &StackSet) -> StackSet {
    let is_folded = |stack: &&CountedStack| functions(accepted, stack) == [OTHER_STACKS];
    if !accepted.stacks.iter().any(|stack| is_folded(&stack)) {
        return now.clone();
    }
    let kept: Vec<&CountedStack> = accepted.stacks.iter().filter(|it| !is_folded(it)).collect();
    let smallest = kept
        .iter()
        .map(|stack| size(stack))
        .min()
        .unwrap_or(u64::MAX);
    let here: FxHashSet<Vec<&StackFrame>> =
        now.stacks.iter().map(|stack| frames(now, stack)).collect();
    let mut there: FxHashSet<Vec<&StackFrame>> = FxHashSet::default();
    // By functions: the accepted stacks that no longer exist unchanged.
    let mut changed: FxHashMap<Vec<&str>, usize> = FxHashMap::default();
    for stack in kept {
        if here.contains(&frames(accepted, stack)) {
            there.insert(frames(accepted, stack));
        } else {
            *changed.entry(functions(accepted, stack)).or_default() += 1;
        }
    }
    let mut set = StackSet {
        stacks: Vec::new(),
        ..now.clone()
    };
    let mut rest = MetricValues::default();
    for stack in by_size(now) {
        let known = there.contains(&frames(now, stack))
            || take_changed(&mut changed, &functions(now, stack));
        if known || size(stack) > smallest {
            set.stacks.push(stack.clone());
        } else {
            add(&mut rest, &stack.figures);
        }
    }
    set.frames.push(other_stacks());
    set.stacks.push(CountedStack {
        frames: Box::new([u32::try_from(set.frames.len() - 1).unwrap_or(u32::MAX)]),
        figures: rest,
    });
    set
}

fn size(stack: &CountedStack) -> u64 {
    stack.figures[Metric::Allocations as usize]
}

fn frames<'a>(set: &'a StackSet, stack: &CountedStack) -> Vec<&'a StackFrame> {
    let frames = stack.frames.iter();
    frames
        .filter_map(|frame| set.frames.get(*frame as usize))
        .collect()
}

fn functions<'a>(set: &'a StackSet, stack: &CountedStack) -> Vec<&'a str> {
    let frames = frames(set, stack).into_iter();
    frames.map(|frame| frame.function.as_str()).collect()
}

fn take_changed<'a>(left: &mut FxHashMap<Vec<&'a str>, usize>, functions: &[&'a str]) -> bool {
    match left.get_mut(functions) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    }
}
