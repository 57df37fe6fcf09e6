//! DHAT's JSON, file version 2: what `valgrind --tool=dhat`, the `dhat` crate
//! and our own exporter write.
//!
//! Read: `tb`, `tbk` (bytes, allocations), `gb`, `gbk` (at the peak), `eb`,
//! `ebk` (at the end: leaked), and if the unit of time is a real one and not valgrind's
//! instructions, `tl` (lifetimes), `te` (duration) and `tg` (time of the peak); `cmd`,
//! `pid`; the frames, innermost first:
//! `0xADDR: function (file:line:column)`, `(in /path/lib.so)`, `???`. Adjacent
//! frames with one address are a frame and the functions inlined into it. In
//! mode `ad-hoc` the file counts events, in mode `copy` copies; a note mentions
//! that.
//!
//! A file without points is of a program that allocated nothing.
//!
//! Ignored: accesses (`rb`, `wb`, `acc`), and a point's own maximum (`mb`, `mbk`), because
//! Valgrind's is not one: it is updated only when the whole heap is at a new peak. The format
//! has no temporary allocations.
//!
//! Source: valgrind, the comment at the head of `dhat/dh_main.c`'s output code
//! and `dhat/dh_view.js`.

mod frame;

use std::fmt;
use std::io::BufRead;

use allotrope_profile::{Metric, MetricSet, MetricValues, RunInfo, StackFrame, StackSet};
use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};

use crate::budget::Budget;
use crate::error::{Fault, Problem};
use crate::exporters::dhat::ALLOCATIONS_ONLY;
use crate::format::Format;
use crate::readers::Parsed;
use crate::stack_set_builder::StackSetBuilder;

use super::json_input::{self, Each};
use frame::{Groups, Text};

#[derive(Deserialize)]
struct Point {
    tb: u64,
    tbk: u64,
    tl: Option<u64>,
    gb: Option<u64>,
    gbk: Option<u64>,
    eb: Option<u64>,
    ebk: Option<u64>,
    #[serde(deserialize_with = "json_input::stack")]
    fs: Vec<u32>,
}

/// The contents of the file. Frames and points may come in either order.
#[derive(Default)]
struct Document {
    builder: StackSetBuilder,
    version: Option<u64>,
    mode: String,
    unit: String,
    block_unit: String,
    lifetimes: bool,
    /// At least one point lacks the figures at the peak and at the end.
    without_live: bool,
    /// At least one point lacks lifetimes.
    without_lifetimes: bool,
    command: String,
    pid: Option<u64>,
    duration: Option<u64>,
    peak_time: Option<u64>,
    /// The figures of each point, and the end of its frames in `indexes`.
    points: Vec<(MetricValues, usize)>,
    indexes: Vec<u32>,
    frames: Vec<Text>,
    groups: Groups,
}

/// Reads the whole file.
pub(crate) fn read(input: &mut dyn BufRead, budget: &Budget) -> Result<Parsed, Fault> {
    let mut document = Document {
        builder: StackSetBuilder::new(budget.clone()),
        ..Document::default()
    };
    json_input::read_object(input, Format::Dhat, Fields(&mut document))?;
    document.finish().map_err(Fault::whole)
}

struct Fields<'a>(&'a mut Document);

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("DHAT's object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let document = self.0;
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "dhatFileVersion" => document.version = Some(map.next_value()?),
                "mode" => document.mode = map.next_value()?,
                "tu" => document.unit = map.next_value()?,
                "bksu" => document.block_unit = map.next_value()?,
                "bklt" => document.lifetimes = map.next_value()?,
                "cmd" => document.command = map.next_value()?,
                "pid" => document.pid = map.next_value()?,
                "te" => document.duration = map.next_value()?,
                "tg" => document.peak_time = map.next_value()?,
                "pps" => map.next_value_seed(Each::new(|point| document.point(point)))?,
                "ftbl" => map.next_value_seed(Each::new(|text: String| document.frame(&text)))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match document.version {
            Some(2) => Ok(()),
            Some(version) => Err(A::Error::custom(format!(
                "file version {version} is not read, only 2"
            ))),
            None => Err(A::Error::custom("there is no dhatFileVersion")),
        }
    }
}

fn malformed(what: String) -> Problem {
    Problem::Malformed {
        format: Format::Dhat,
        what,
    }
}

impl Document {
    fn point(&mut self, point: Point) -> Result<(), Problem> {
        let mut figures = MetricValues::default();
        for (metric, figure) in [
            (Metric::Bytes, Some(point.tb)),
            (Metric::Allocations, Some(point.tbk)),
            (Metric::Lifetime, point.tl),
            (Metric::PeakBytes, point.gb),
            (Metric::PeakAllocations, point.gbk),
            (Metric::LeakedBytes, point.eb),
            (Metric::LeakedAllocations, point.ebk),
        ] {
            figures[metric as usize] = figure.unwrap_or(0);
        }
        let live = [point.gb, point.gbk, point.eb, point.ebk];
        self.without_live |= live.contains(&None);
        self.without_lifetimes |= point.tl.is_none();
        let size = size_of::<(MetricValues, usize)>() + size_of_val(&*point.fs);
        self.builder.budget.take(size)?;
        self.indexes.extend(point.fs);
        self.points.push((figures, self.indexes.len()));
        Ok(())
    }

    fn frame(&mut self, text: &str) -> Result<(), Problem> {
        let text = frame::parse(self.builder.budget.names(), text);
        self.builder.budget.take(text.size())?;
        self.frames.push(text);
        Ok(())
    }

    fn finish(mut self) -> Result<Parsed, Problem> {
        let known = self.known();
        let points = std::mem::take(&mut self.points);
        let mut start = 0;
        for (number, (mut figures, end)) in points.into_iter().enumerate() {
            for metric in Metric::OF_STACKS {
                if !known.has(metric) {
                    figures[metric as usize] = 0;
                }
            }
            let stack = self.stack(number, start..end)?;
            self.builder.add(&stack, &figures)?;
            start = end;
        }
        let notes = self.notes();
        let run = self.run();
        Ok(Parsed {
            set: StackSet {
                run,
                ..self.builder.finish(self.command, known)
            },
            notes,
        })
    }

    fn stack(&mut self, point: usize, range: std::ops::Range<usize>) -> Result<Vec<u32>, Problem> {
        let listed = &self.indexes[range];
        let missing = |index: &&u32| **index as usize >= self.frames.len();
        if let Some(index) = listed.iter().find(missing) {
            return Err(malformed(format!(
                "program point {point} names frame {index} of {}",
                self.frames.len()
            )));
        }
        let mut stack = Vec::with_capacity(listed.len());
        for (at, inlined) in self.groups.inlined(listed, &self.frames).enumerate() {
            let text = &mut self.frames[listed[at] as usize];
            let known = &mut text.indexes[usize::from(inlined)];
            stack.push(match known {
                Some(index) => *index,
                None => {
                    let frame = StackFrame {
                        inlined,
                        ..text.frame.clone()
                    };
                    *known.insert(self.builder.frame(frame)?)
                }
            });
        }
        Ok(stack)
    }

    fn counts_allocations_only(&self) -> bool {
        self.block_unit == ALLOCATIONS_ONLY
    }

    fn known(&self) -> MetricSet {
        let mut known = vec![Metric::Allocations];
        if !self.counts_allocations_only() {
            known.push(Metric::Bytes);
        }
        if !self.without_live {
            known.extend([
                Metric::PeakBytes,
                Metric::PeakAllocations,
                Metric::LeakedBytes,
                Metric::LeakedAllocations,
            ]);
        }
        // Our own files have lifetimes also without `bklt`, if the time of the peak is
        // unknown.
        let lifetimes = self.lifetimes || !self.points.is_empty();
        if lifetimes && !self.without_lifetimes && self.is_in_microseconds() {
            known.push(Metric::Lifetime);
        }
        MetricSet::of(&known)
    }

    /// "µ" has two code points; the dhat crate writes U+00B5.
    fn is_in_microseconds(&self) -> bool {
        matches!(&*self.unit, "\u{b5}s" | "\u{3bc}s" | "us")
    }

    fn run(&self) -> RunInfo {
        let time = |time: Option<u64>| time.filter(|_| self.is_in_microseconds());
        RunInfo {
            images: usize::from(self.lifetimes),
            pid: self.pid.and_then(|pid| u32::try_from(pid).ok()),
            duration_us: time(self.duration),
            peak_time_us: time(self.peak_time).filter(|_| self.lifetimes),
            ..RunInfo::default()
        }
    }

    fn notes(&self) -> Vec<String> {
        match &*self.mode {
            "copy" => vec![
                "the file counts copies of memory (DHAT's copy mode), not allocations".to_owned(),
            ],
            "ad-hoc" if !self.counts_allocations_only() => {
                vec!["the file counts events of the program's own (DHAT's ad hoc mode), not allocations".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
