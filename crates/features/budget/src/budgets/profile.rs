//! Reads and writes accepted stacks: a call tree in text, readable in a code
//! review. Each line is a call; the caller is above, callees are sorted by name.
//!
//! ```text
//! case encode/small⇥allocations bytes
//! main⇥bench⇥src/main.cc
//!  encode⇥⇥src/encode.cc
//!   grow⇥⇥src/encode.cc⇥allocations=1000 bytes=48000
//! ```
//!
//! The first line of a case names the metrics whose figures it has, and the numbers that are
//! stored although they are not checked (`bytes=48000`). The indentation of
//! another line is its depth; above 32 it starts with `@DEPTH ` instead. The fields are
//! separated by tabs: function, module (empty if the caller's), file (followed by
//! `inlined` for an inlined frame), and the figures if a stack ends there.
//!
//! Source lines are left out, because they change with every edit above them. Older files
//! have them (`FILE:LINE`), and name no metrics.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use allotrope_profile::{CountedStack, Metric, MetricSet, MetricValues, StackFrame, StackSet};
use rustc_hash::{FxHashMap, FxHashSet};

use super::call_tree::{Call, CallTree};
use super::{BudgetError, check_merged};
use crate::spread::Spread;

/// The function of the stack that sums up all stacks beyond the limit.
const OTHER_STACKS: &str = "[other stacks]";
/// Text in place of the metrics of a case without stacks.
const NO_METRIC: &str = "none";
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
const NAMES: [(Metric, &str); 8] = [
    (Metric::Allocations, "allocations"),
    (Metric::Bytes, "bytes"),
    (Metric::Temporary, "temporary"),
    (Metric::LeakedAllocations, "remaining"),
    (Metric::LeakedBytes, "remaining_bytes"),
    (Metric::PeakAllocations, "at_peak"),
    (Metric::PeakBytes, "bytes_at_peak"),
    (Metric::Reallocations, "reallocations"),
];

/// The metrics of an older file, which names none.
const OLD_METRICS: MetricSet = MetricSet::OF_STACKS
    .without(Metric::Lifetime)
    .without(Metric::Reallocations);

/// Whether a text is that of such a file: it begins as each of them does, or has stacks.
pub(super) fn is_ours(text: &str) -> bool {
    let first = HEAD.lines().next().unwrap_or_default();
    let has_stacks = || parse(text, Path::new("")).is_ok_and(|cases| !cases.is_empty());
    text.lines().next() == Some(first) || has_stacks()
}

/// The text of the file.
pub(super) fn text(cases: &BTreeMap<String, CallTree>) -> String {
    let mut text = HEAD.to_owned();
    for (name, tree) in cases {
        let named = NAMES.iter().filter(|(metric, _)| tree.metrics.has(*metric));
        let named: Vec<&str> = named.map(|(_, name)| *name).collect();
        let mut head = format!("case {}\t{}", one_line(name), named.join(" "));
        if named.is_empty() {
            head.push_str(NO_METRIC);
        }
        if !tree.watched.is_empty() {
            let watched = tree.watched.iter();
            let watched = watched.map(|(metric, spread)| format!("{metric}={}", numbers(spread)));
            head.push('\t');
            head.push_str(&watched.collect::<Vec<_>>().join(" "));
        }
        let _ = writeln!(text, "\n{head}");
        write_tree(tree, &mut text);
    }
    text
}

/// A number, or the least, typical and most of one that fluctuates, and how many runs it
/// is of.
fn numbers(spread: &Spread) -> String {
    if spread.is_exact() {
        return spread.least.to_string();
    }
    let Spread {
        least,
        typical,
        most,
        runs,
    } = spread;
    format!("{least},{typical},{most},{runs}")
}

/// What [`numbers`] wrote.
fn read_numbers(text: &str) -> Option<Spread> {
    let numbers: Option<Vec<i64>> = text.split(',').map(|number| number.parse().ok()).collect();
    match numbers?[..] {
        [exact] => Some(Spread::exact(exact)),
        [least, typical, most, runs] if least <= typical && typical <= most => Some(Spread {
            least,
            typical,
            most,
            runs: u32::try_from(runs).ok().filter(|&runs| runs > 0)?,
        }),
        _ => None,
    }
}

/// The call tree of measured stacks with the figures of these metrics of runs, and at most
/// `most` stacks; the others are summed up as one.
pub fn profile(set: &StackSet, metrics: &[Metric], most: usize) -> CallTree {
    let mut of_stacks: Vec<Metric> = metrics.iter().filter_map(|it| it.of_stacks()).collect();
    // The order of the stacks' sizes.
    of_stacks.push(Metric::Allocations);
    let mut limited = StackSet {
        frames: set.frames.clone(),
        ..StackSet::default()
    };
    limited.frames.push(other_stacks());
    let other = u32::try_from(set.frames.len()).unwrap_or(u32::MAX);
    for (index, stack) in by_size(set).into_iter().enumerate() {
        let frames = match index < most {
            true => stack.frames.clone(),
            false => Box::new([other]),
        };
        let figures = stack.figures;
        limited.stacks.push(CountedStack {
            frames,
            figures,
            maximum: None,
        });
    }
    CallTree::of(&limited, MetricSet::of(&of_stacks))
}

/// The only frame of the stack that sums up the others.
fn other_stacks() -> StackFrame {
    StackFrame {
        function: OTHER_STACKS.into(),
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

fn write_tree(tree: &CallTree, text: &mut String) {
    let mut modules: Vec<&str> = Vec::new();
    for Call {
        depth,
        frame,
        figures,
    } in &tree.calls
    {
        if *depth > MAX_INDENT {
            let _ = write!(text, "@{depth} ");
        } else {
            let _ = write!(text, "{:depth$}", "");
        }
        modules.truncate(*depth);
        let module = match modules.last() {
            Some(caller) if *caller == &*frame.module => "",
            _ => &frame.module,
        };
        modules.push(&frame.module);
        let mut line = format!("{}\t{}\t", one_line(&frame.function), one_line(module));
        line.push_str(&one_line(&frame.file));
        if frame.inlined {
            line.push_str(" inlined");
        }
        let _ = write!(line, "\t{}", figures_text(figures));
        text.push_str(line.trim_end());
        text.push('\n');
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
pub(super) fn parse(text: &str, file: &Path) -> Result<BTreeMap<String, CallTree>, BudgetError> {
    check_merged(text, file)?;
    let mut cases: BTreeMap<String, CallTree> = BTreeMap::new();
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
        if let Some(head) = line.strip_prefix("case ") {
            let before = current.replace(CaseReader::new(head).map_err(wrong)?);
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
    tree: CallTree,
    /// The modules from the outermost call to that of the last line.
    modules: Vec<Arc<str>>,
    /// The number of frames of all stacks so far.
    frames: usize,
}

impl CaseReader {
    fn new(head: &str) -> Result<Self, &'static str> {
        let mut fields = head.split('\t');
        let mut field = || fields.next().unwrap_or_default();
        let (name, metrics, watched) = (field(), field(), field());
        let named = metrics.split_whitespace().filter(|name| *name != NO_METRIC);
        let named: Option<Vec<Metric>> = named.map(metric).collect();
        let named = named.ok_or("a metric has an unknown name")?;
        let watched = watched.split_whitespace().map(|word| {
            let (name, numbers) = word.split_once('=')?;
            let metric = Metric::named(name, &Metric::OF_RUNS)?;
            Some((metric, read_numbers(numbers)?))
        });
        let watched: Option<BTreeMap<Metric, Spread>> = watched.collect();
        let watched = watched.ok_or("a number that is not checked cannot be read")?;
        Ok(Self {
            name: name.to_owned(),
            tree: CallTree {
                calls: Vec::new(),
                metrics: match metrics.is_empty() {
                    true => OLD_METRICS,
                    false => MetricSet::of(&named),
                },
                watched,
            },
            modules: Vec::new(),
            frames: 0,
        })
    }

    fn finish(self) -> (String, CallTree) {
        (self.name, self.tree)
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
        if depth > self.modules.len() || depth >= MAX_DEPTH {
            return Err("a call is indented by more than one level below the line above");
        }
        self.modules.truncate(depth);
        let mut fields = call.split('\t');
        let mut field = || fields.next().unwrap_or_default().trim();
        let (function, module, location, figures) = (field(), field(), field(), field());
        let frame = self.frame(function, module, location);
        self.modules.push(frame.module.clone());
        let figures = match figures {
            "" => MetricValues::default(),
            figures => {
                self.frames += self.modules.len();
                read_figures(figures)?
            }
        };
        if self.frames > MAX_FRAMES {
            return Err("the stacks of a case have too many frames");
        }
        self.tree.calls.push(Call {
            depth,
            frame,
            figures,
        });
        Ok(())
    }

    fn frame(&self, function: &str, module: &str, location: &str) -> StackFrame {
        let module = match (module, self.modules.last()) {
            ("", Some(caller)) => Arc::clone(caller),
            (module, _) => module.into(),
        };
        let (location, inlined) = match location.strip_suffix("inlined") {
            Some(location) => (location.trim_end(), true),
            None => (location, false),
        };
        // `cargo:serde-1.0.0/src/lib.rs` has a colon, too.
        let line = location.rsplit_once(':');
        let line = line.and_then(|(file, line)| Some((file, line.parse().ok()?)));
        let (file, line) = line.unwrap_or((location, 0));
        StackFrame {
            function: function.trim_start_matches('\u{200b}').into(),
            module,
            file: file.into(),
            line,
            inlined,
            ..StackFrame::default()
        }
    }
}

/// The metric with this name in the file.
fn metric(name: &str) -> Option<Metric> {
    let known = NAMES.iter().find(|(_, known)| *known == name);
    known.map(|(metric, _)| *metric)
}

fn read_figures(text: &str) -> Result<MetricValues, &'static str> {
    let mut figures = MetricValues::default();
    for word in text.split(' ') {
        let (name, figure) = word.split_once('=').ok_or("a figure has no `=`")?;
        let metric = metric(name).ok_or("a figure has an unknown name")?;
        figures[metric as usize] = figure.parse().map_err(|_| "a figure is no number")?;
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
        maximum: None,
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
    frames.map(|frame| &*frame.function).collect()
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
