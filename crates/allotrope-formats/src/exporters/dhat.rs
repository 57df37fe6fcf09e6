//! DHAT's JSON, file version 2, for valgrind's `dh_view.html` and the Firefox
//! Profiler.
//!
//! A stack set has no addresses: each distinct frame, with the functions
//! inlined into it, gets a unique number as its address, by which viewers
//! distinguish frames. Without lifetimes the file has `bklt` false; the figures
//! at the peak and at the end are still written if known: the Firefox Profiler
//! shows them, `dh_view.html` ignores them. A point's own maximum (`mb`, `mbk`)
//! is unknown; the larger of its figures at the peak and at the end is written,
//! a lower bound. Times are in microseconds. The duration of the run is
//! unknown; the longest mean lifetime of a stack is written, a lower bound that
//! is close if a block lived from start to end. Without lifetimes it is 0, and
//! the viewer's rates are infinite. The time of the peak is 0. If only
//! allocations are known, the file is of mode `ad-hoc` and counts them.
//!
//! Source: valgrind, `dhat/dh_main.c` and `dhat/dh_view.js`, which refuses two
//! points with the same frames; the Firefox Profiler's DHAT importer, which
//! reads a source location only if it has a column.

use std::io::{self, Write};

use allotrope_profile::{Metric, MetricValues, StackFrame, StackSet};
use rustc_hash::FxHashMap;

use super::groups::groups;
use super::merged::{Texts, merge};
use super::naming::{NO_STACK, name, on_one_line};
use super::{ExportOptions, Exporter, require};
use crate::error::ExportError;

/// The unit in a file that counts only allocations.
pub(crate) const ALLOCATIONS_ONLY: &str = "allocations";

/// The first address: the lowest that Linux maps by default.
const FIRST_ADDRESS: u64 = 0x10000;

/// The exporter; see the module documentation.
pub(crate) struct Dhat;

impl Exporter for Dhat {
    fn name(&self) -> &'static str {
        "dhat"
    }

    fn description(&self) -> &'static str {
        "DHAT JSON, for valgrind's dh_view.html and the Firefox Profiler"
    }

    fn extension(&self) -> &'static str {
        "dhat.json"
    }

    fn write(
        &self,
        set: &StackSet,
        _options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        require(set, Metric::Allocations)?;
        let mut table = FrameTable::new(set);
        let stacks = set
            .stacks
            .iter()
            .map(|stack| (table.stack(&stack.frames), stack.figures));
        let points = merge(stacks);
        let form = Form::of(set);
        form.head(&set.title, least_duration(&points), out)?;
        for (at, (frames, figures)) in points.iter().enumerate() {
            out.write_all(if at == 0 { b"\n " } else { b"\n ," })?;
            form.point(frames, figures, out)?;
        }
        write!(out, "\n ]\n,\"ftbl\":\n [\"[root]\"")?;
        for text in &table.texts.list {
            write!(out, "\n ,{}", quoted(text)?)?;
        }
        writeln!(out, "\n ]\n}}")?;
        Ok(())
    }
}

/// The frame table under construction.
struct FrameTable<'a> {
    set: &'a StackSet,
    texts: Texts,
    /// The table indexes of each group of frames.
    groups: FxHashMap<&'a [u32], Box<[u32]>>,
}

impl<'a> FrameTable<'a> {
    fn new(set: &'a StackSet) -> Self {
        Self {
            set,
            texts: Texts::default(),
            groups: FxHashMap::default(),
        }
    }

    /// The stack as indexes into the written table, whose entry 0 is the root.
    fn stack(&mut self, stack: &'a [u32]) -> Box<[u32]> {
        if stack.is_empty() {
            return [self.texts.index(NO_STACK.to_owned()) + 1].into();
        }
        let mut indexes = Vec::with_capacity(stack.len());
        for group in groups(self.set, stack) {
            let address = FIRST_ADDRESS + self.groups.len() as u64;
            let (set, texts) = (self.set, &mut self.texts);
            let known = self.groups.entry(group).or_insert_with(|| {
                let frames = group.iter().map(|frame| &set.frames[*frame as usize]);
                frames
                    .map(|frame| texts.index(text(address, frame)) + 1)
                    .collect()
            });
            indexes.extend_from_slice(known);
        }
        indexes.into()
    }
}

fn text(address: u64, frame: &StackFrame) -> String {
    let name = name(frame);
    let text = if !frame.file.is_empty() {
        format!(
            "{address:#x}: {name} ({}:{}:{})",
            frame.file, frame.line, frame.column
        )
    } else if !frame.module.is_empty() {
        format!("{address:#x}: {name} (in {})", frame.module)
    } else {
        format!("{address:#x}: {name}")
    };
    on_one_line(text.into(), None).into_owned()
}

/// A lower bound of the duration of the run, in microseconds.
fn least_duration(points: &[(Box<[u32]>, MetricValues)]) -> u64 {
    let mean = |figures: &MetricValues| {
        let lifetimes = figures[Metric::Lifetime as usize];
        lifetimes.div_ceil(figures[Metric::Allocations as usize].max(1))
    };
    points
        .iter()
        .map(|(_, figures)| mean(figures))
        .max()
        .unwrap_or(0)
}

fn quoted(text: &str) -> io::Result<String> {
    allotrope_text::to_json_string(text).map_err(io::Error::from)
}

/// The parts of the file that the known metrics allow.
struct Form {
    bytes: bool,
    /// The figures at the peak and at the end.
    live: bool,
    lifetimes: bool,
}

impl Form {
    fn of(set: &StackSet) -> Self {
        let knows = |metrics: &[Metric]| metrics.iter().all(|metric| set.known.has(*metric));
        let bytes = knows(&[Metric::Bytes]);
        let live = bytes
            && knows(&[
                Metric::LeakedAllocations,
                Metric::LeakedBytes,
                Metric::PeakAllocations,
                Metric::PeakBytes,
            ]);
        Self {
            bytes,
            live,
            lifetimes: live && knows(&[Metric::Lifetime]),
        }
    }

    fn head(&self, command: &str, duration: u64, out: &mut dyn Write) -> io::Result<()> {
        let mode = if self.bytes { "heap" } else { "ad-hoc" };
        write!(
            out,
            "{{\"dhatFileVersion\":2\n,\"mode\":\"{mode}\",\"verb\":\"Allocated\"\n,\"bklt\":{},\"bkacc\":false\n",
            self.lifetimes
        )?;
        if !self.bytes {
            writeln!(
                out,
                ",\"bu\":\"allocation\",\"bsu\":\"{ALLOCATIONS_ONLY}\",\"bksu\":\"{ALLOCATIONS_ONLY}\""
            )?;
        }
        writeln!(out, ",\"tu\":\"\u{b5}s\",\"Mtu\":\"s\"")?;
        if self.lifetimes {
            writeln!(out, ",\"tuth\":10")?;
        }
        writeln!(
            out,
            ",\"cmd\":{}\n,\"pid\":0\n,\"te\":{duration}",
            quoted(command)?
        )?;
        if self.lifetimes {
            writeln!(out, ",\"tg\":0")?;
        }
        write!(out, ",\"pps\":\n [")
    }

    fn point(&self, frames: &[u32], figures: &MetricValues, out: &mut dyn Write) -> io::Result<()> {
        let figure = |metric: Metric| figures[metric as usize];
        let blocks = figure(Metric::Allocations);
        let bytes = if self.bytes {
            figure(Metric::Bytes)
        } else {
            blocks
        };
        write!(out, "{{\"tb\":{bytes},\"tbk\":{blocks}")?;
        if self.lifetimes {
            write!(out, ",\"tl\":{}", figure(Metric::Lifetime))?;
        }
        if self.live {
            let (peak, peak_blocks) = (figure(Metric::PeakBytes), figure(Metric::PeakAllocations));
            let (end, end_blocks) = (
                figure(Metric::LeakedBytes),
                figure(Metric::LeakedAllocations),
            );
            write!(
                out,
                ",\"mb\":{},\"mbk\":{},\"gb\":{peak},\"gbk\":{peak_blocks},\"eb\":{end},\"ebk\":{end_blocks}",
                peak.max(end),
                peak_blocks.max(end_blocks),
            )?;
        }
        write!(out, ",\"fs\":")?;
        allotrope_text::to_json_writer(&mut *out, frames)?;
        write!(out, "}}")
    }
}
