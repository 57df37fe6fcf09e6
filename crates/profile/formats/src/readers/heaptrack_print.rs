//! The text that `heaptrack_print` writes.
//!
//! ```text
//! 117 calls to allocation functions with 57.00K peak consumption from
//! leaf
//!   at /src/p.c:3
//!   in /src/p
//! 100 calls with 0B peak consumption from:
//!     temp
//!       at /src/p.c:4
//!       in /src/p
//!   and 17 from 2 other places
//! ```
//!
//! Read: the four lists (calls, peaks, leaks, temporary allocations), with
//! merged backtraces or without, and their figures. A stack in several lists
//! gets each figure from its list. A frame without `in` was inlined by the
//! frame above it.
//!
//! The output is incomplete: `heaptrack_print` ends stacks at `main`, prints 10
//! locations with 5 stacks each by default, and rounds bytes to about three
//! digits; a note states how much is missing. Ignored: decreased counts of
//! `-d`, because a stack has no negative count; text before and after the
//! lists.
//!
//! Source: heaptrack 1.4, `src/analyze/print/heaptrack_print.cpp`.

mod label;

use std::collections::HashMap;

use allotrope_demangle::Demangler;
use allotrope_profile::{Metric, MetricSet, MetricValues, StackFrame};

use crate::budget::check_depth;
use crate::error::{Fault, Problem};
use crate::format::Format;
use crate::function_names::{file_name, parse_name};
use crate::lines::Lines;
use crate::readers::Parsed;
use crate::stack_set_builder::StackSetBuilder;

use label::{Label, List};

/// The number of the first line that is characteristic of the format.
pub(crate) fn first_sign<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<usize> {
    lines.position(label::is_label)
}

pub(super) fn malformed(what: &str) -> Problem {
    Problem::Malformed {
        format: Format::HeaptrackPrint,
        what: what.to_owned(),
    }
}

/// The frames below a label, and their indentation.
#[derive(Default)]
struct Block {
    frames: Vec<StackFrame>,
    /// Spaces before a function; `None` before the first one.
    indent: Option<usize>,
}

/// The kind of block that follows the last label.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    Nothing,
    Location,
    Stack,
}

struct Reader {
    builder: StackSetBuilder,
    /// Hashed at random: no file can be made to collide.
    stacks: HashMap<Box<[u32]>, [MetricValues; List::ALL.len()]>,
    order: Vec<Box<[u32]>>,
    seen: [bool; List::ALL.len()],
    /// The merged location: the frames below a label without a colon.
    location: Block,
    location_label: Option<Label>,
    /// The frames of the location in the set, once one of its stacks has needed them: there may
    /// be many stacks below a deep location.
    location_indexes: Option<Vec<u32>>,
    stack: Block,
    stack_label: Option<Label>,
    under: Under,
    /// The text states that it omits stacks.
    hidden: bool,
    title: String,
    total_allocations: Option<u64>,
}

/// Reads the whole file.
pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Parsed, Fault> {
    let mut reader = Reader {
        builder: StackSetBuilder::new(lines.budget()),
        stacks: HashMap::new(),
        order: Vec::new(),
        seen: Default::default(),
        location: Block::default(),
        location_label: None,
        location_indexes: None,
        stack: Block::default(),
        stack_label: None,
        under: Under::Nothing,
        hidden: false,
        title: String::new(),
        total_allocations: None,
    };
    while let Some(line) = lines.next_text()? {
        reader.line(&line).map_err(|problem| lines.fault(problem))?;
    }
    reader
        .end_location()
        .map_err(|problem| lines.fault(problem))?;
    reader.finish().map_err(Fault::whole)
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), Problem> {
        if line.trim().is_empty() {
            return self.end_location();
        }
        if let Some(label) = label::parse(line)? {
            return self.label(label);
        }
        if self.is_remainder(line) {
            self.hidden = true;
            return self.end_stack();
        }
        if self.frame_line(line)? {
            return Ok(());
        }
        self.end_stack()?;
        self.other_line(line);
        Ok(())
    }

    fn label(&mut self, label: Label) -> Result<(), Problem> {
        self.seen[label.list as usize] = true;
        if label.is_of_location {
            self.end_location()?;
            self.location_label = Some(label);
            self.under = Under::Location;
        } else {
            self.end_stack()?;
            self.stack_label = Some(label);
            self.under = Under::Stack;
        }
        Ok(())
    }

    /// Whether a line is `  and N from K other places`.
    fn is_remainder(&self, line: &str) -> bool {
        self.under != Under::Nothing
            && line.starts_with("  and ")
            && line.trim_end().ends_with(" other places")
    }

    /// Reads the line of a frame; `false` for other lines.
    fn frame_line(&mut self, line: &str) -> Result<bool, Problem> {
        let block = match self.under {
            Under::Nothing => return Ok(false),
            Under::Location => &mut self.location,
            Under::Stack => &mut self.stack,
        };
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        let base = *block.indent.get_or_insert(indent);
        if indent == base {
            self.builder
                .budget
                .take(size_of::<StackFrame>() + text.len())?;
            block.frames.push(function(text));
            check_depth(block.frames.len())?;
            return Ok(true);
        }
        let Some(frame) = block.frames.last_mut().filter(|_| indent == base + 2) else {
            return Ok(false);
        };
        self.builder.budget.take(text.len())?;
        if let Some(location) = text.strip_prefix("at ") {
            set_location(frame, location);
        } else if let Some(module) = text.strip_prefix("in ") {
            frame.module = file_name(module).into();
        }
        Ok(true)
    }

    fn other_line(&mut self, line: &str) {
        if let Some(command) = line.strip_prefix("Debuggee command was: ") {
            self.title = command.trim().to_owned();
        } else if let Some(total) = line.strip_prefix("calls to allocation functions: ") {
            let number = total.split(' ').next().unwrap_or_default();
            self.total_allocations = number.parse().ok();
        }
    }

    /// Completes the current stack and adds it.
    fn end_stack(&mut self) -> Result<(), Problem> {
        if let Some(label) = self.stack_label.take() {
            let block = std::mem::take(&mut self.stack);
            let mut frames = self.location_indexes()?.to_vec();
            frames.extend(indexes(&mut self.builder, &block.frames)?);
            check_depth(frames.len())?;
            self.add(frames, label)?;
            // The figures of the location's label are the sum of its stacks.
            self.location_label = None;
        }
        self.under = Under::Nothing;
        Ok(())
    }

    /// Completes the current location. One without stacks is a stack itself.
    fn end_location(&mut self) -> Result<(), Problem> {
        self.end_stack()?;
        let added = match self.location_label.take() {
            Some(label) => {
                let frames = self.location_indexes()?.to_vec();
                self.add(frames, label)
            }
            None => Ok(()),
        };
        self.location = Block::default();
        self.location_indexes = None;
        added
    }

    fn location_indexes(&mut self) -> Result<&[u32], Problem> {
        let indexes = match self.location_indexes.take() {
            Some(indexes) => indexes,
            None => indexes(&mut self.builder, &self.location.frames)?,
        };
        Ok(self.location_indexes.insert(indexes))
    }

    fn add(&mut self, frames: Vec<u32>, label: Label) -> Result<(), Problem> {
        let frames: Box<[u32]> = frames.into();
        if self.stacks.contains_key(&frames) {
            // The set counts those of a stack once.
            self.builder.budget.take_frames(frames.len())?;
        } else {
            let lists = size_of::<[MetricValues; List::ALL.len()]>();
            self.builder
                .budget
                .take(2 * size_of_val(&*frames) + lists)?;
            self.order.push(frames.clone());
        }
        let lists = self.stacks.entry(frames).or_default();
        let sums = &mut lists[label.list as usize];
        for (sum, figure) in sums.iter_mut().zip(label.figures) {
            *sum = sum.checked_add(figure).ok_or(Problem::CountsOverflow)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Parsed, Problem> {
        let mut shown = 0;
        for frames in &self.order {
            let lists = &self.stacks[frames];
            let figures: MetricValues = std::array::from_fn(|metric| {
                lists.iter().map(|list| list[metric]).max().unwrap_or(0)
            });
            shown += figures[Metric::Allocations as usize];
            self.builder.add(frames, &figures)?;
        }
        let mut notes = vec![
            "heaptrack_print rounds bytes and ends stacks at main; heaptrack's data file has all of it"
                .to_owned(),
        ];
        let missing = self
            .total_allocations
            .map(|total| total.saturating_sub(shown));
        if self.hidden || missing.is_some_and(|missing| missing > 0) {
            notes.push(missing_stacks(missing));
        }
        let mut known = vec![Metric::Allocations];
        for (list, metric) in [
            (List::Calls, Metric::PeakBytes),
            (List::Peaks, Metric::PeakBytes),
            (List::Leaks, Metric::LeakedBytes),
            (List::Temporary, Metric::Temporary),
        ] {
            if self.seen[list as usize] {
                known.push(metric);
            }
        }
        Ok(Parsed {
            set: self.builder.finish(self.title, MetricSet::of(&known)),
            notes,
        })
    }
}

/// The frame indexes of a location, or of a stack below it.
fn indexes(builder: &mut StackSetBuilder, frames: &[StackFrame]) -> Result<Vec<u32>, Problem> {
    let frames = with_inlined(builder.budget.names(), frames);
    let frames = frames.into_iter().map(|frame| builder.frame(frame));
    frames.collect()
}

fn missing_stacks(missing: Option<u64>) -> String {
    let amount = match missing {
        Some(missing) if missing > 0 => format!("{missing} allocations"),
        _ => "some stacks".to_owned(),
    };
    format!(
        "{amount} are not in this text; print all with heaptrack_print -n 1000000 -s 1000000, or give heaptrack's data file"
    )
}

fn function(text: &str) -> StackFrame {
    // The name is parsed when the file is known.
    StackFrame {
        function: text.trim_end().into(),
        ..StackFrame::default()
    }
}

fn set_location(frame: &mut StackFrame, location: &str) {
    let (file, line) = location
        .trim_end()
        .rsplit_once(':')
        .unwrap_or((location, ""));
    frame.file = file.into();
    frame.line = line.parse().unwrap_or(0);
}

/// The frames with modules: a frame without one was inlined into the frame
/// above it.
fn with_inlined(demangler: &Demangler, frames: &[StackFrame]) -> Vec<StackFrame> {
    let mut all: Vec<StackFrame> = Vec::with_capacity(frames.len());
    for frame in frames {
        let names = parse_name(demangler, &frame.function, &frame.file);
        let mut frame = StackFrame {
            function: names.function.into(),
            signature: names.signature.into(),
            ..frame.clone()
        };
        if &*frame.module == "??" {
            frame.module = "".into();
        } else if frame.module.is_empty()
            && let Some(inner) = all.last_mut()
        {
            inner.inlined = true;
            frame.module.clone_from(&inner.module);
        }
        all.push(frame);
    }
    all
}

#[cfg(test)]
mod tests;
