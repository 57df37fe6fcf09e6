//! The file format of speedscope: flame graphs, weighted by each metric.
//!
//! A profile for each metric that is not 0 everywhere, of type `sampled`: its samples are
//! stacks and its weights their figures, in bytes or without a unit. speedscope shows them
//! side by side; they have no order in time. Processes are added up.
//!
//! Source: speedscope 1.25, `src/lib/file-format-spec.ts`, and
//! `file-format-schema.json` of its package.

use std::io::{self, Write};

use allotrope_profile::{CountedStack, Metric, StackFrame, Unit};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::merged::{merge, with_frames};
use super::naming::{NO_STACK, name, on_one_line};
use super::{ExportOptions, Exporter, Input};
use crate::error::ExportError;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// The exporter; see the module documentation.
pub(super) struct Speedscope;

/// A frame of the file, of which there are no two that are equal.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
struct Frame<'a> {
    name: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "is_unknown")]
    line: u32,
    #[serde(skip_serializing_if = "is_unknown")]
    col: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_unknown(number: &u32) -> bool {
    *number == 0
}

impl<'a> Frame<'a> {
    fn of(frame: &'a StackFrame) -> Self {
        Self {
            name: on_one_line(name(frame), None).into_owned(),
            file: &frame.file,
            line: frame.line,
            col: frame.column,
        }
    }

    /// Returns the frame of stacks without frames.
    fn none() -> Self {
        Self {
            name: NO_STACK.to_owned(),
            file: "",
            line: 0,
            col: 0,
        }
    }
}

/// Numbers the distinct frames: a list, and a map from each to its index.
#[derive(Default)]
struct Frames<'a> {
    indexes: FxHashMap<Frame<'a>, u32>,
    list: Vec<Frame<'a>>,
}

impl<'a> Frames<'a> {
    fn number(&mut self, frame: Frame<'a>) -> u32 {
        let list = &mut self.list;
        *self.indexes.entry(frame).or_insert_with_key(|frame| {
            list.push(frame.clone());
            // There are at most as many as the set has, and that of no stack.
            (list.len() - 1) as u32
        })
    }
}

/// How a file begins.
fn start() -> String {
    format!("{{\"$schema\":\"{SCHEMA}\",\"exporter\":\"allotrope\"")
}

impl Exporter for Speedscope {
    fn name(&self) -> &'static str {
        "speedscope"
    }

    fn description(&self) -> &'static str {
        "flame graphs by each metric, for speedscope"
    }

    fn extension(&self) -> &'static str {
        "speedscope.json"
    }

    fn check(&self, input: &Input<'_>) -> Result<(), ExportError> {
        match shown(input).is_empty() {
            true => Err(ExportError::Unknown(Metric::Allocations)),
            false => Ok(()),
        }
    }

    fn is_own(&self, head: &[u8]) -> bool {
        head.starts_with(start().as_bytes())
    }

    fn write(
        &self,
        input: &Input<'_>,
        options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let set = input.set;
        let mut frames = Frames::default();
        let numbers = set.frames.iter().map(|it| frames.number(Frame::of(it)));
        let numbers: Vec<u32> = numbers.collect();
        let stacks = merge(set.stacks.iter().map(|stack| {
            let own = stack.frames.iter().rev().map(|it| numbers[*it as usize]);
            let own: Box<[u32]> = match stack.frames.is_empty() {
                true => [frames.number(Frame::none())].into(),
                false => own.collect(),
            };
            with_frames(stack, own)
        }));
        let metrics = shown(input);
        let active = metrics.iter().position(|it| *it == options.metric);
        write!(out, "{},\"name\":", start())?;
        value(out, &on_one_line(set.title.as_str().into(), None))?;
        write!(out, ",\"activeProfileIndex\":{}", active.unwrap_or(0))?;
        write!(out, ",\"shared\":{{\"frames\":")?;
        value(out, &frames.list)?;
        write!(out, "}},\n\"profiles\":[")?;
        for (number, metric) in metrics.into_iter().enumerate() {
            out.write_all(if number == 0 { b"\n" } else { b",\n" })?;
            profile(metric, &stacks, out)?;
        }
        writeln!(out, "]}}")?;
        Ok(())
    }
}

/// The metrics with a profile: those that are known and not 0, or allocations.
fn shown(input: &Input<'_>) -> Vec<Metric> {
    let known = Metric::OFFERED.into_iter();
    let known = known.filter(|metric| input.set.known.has(*metric));
    let mut metrics: Vec<Metric> = known.collect();
    let all = metrics.first().copied();
    metrics.retain(|&metric| {
        let mut stacks = input.set.stacks.iter();
        stacks.any(|stack| stack.figures[metric as usize] > 0)
    });
    if metrics.is_empty() {
        metrics.extend(all);
    }
    metrics
}

/// The profile of a metric.
fn profile(metric: Metric, stacks: &[CountedStack], out: &mut dyn Write) -> io::Result<()> {
    let figure = |stack: &CountedStack| stack.figures[metric as usize];
    let counted = || stacks.iter().filter(|stack| figure(stack) > 0);
    let unit = match metric.unit() {
        Unit::Bytes => "bytes",
        Unit::Count => "none",
        Unit::Microseconds => "microseconds",
    };
    let total = counted().fold(0_u64, |sum, stack| sum.saturating_add(figure(stack)));
    write!(
        out,
        "{{\"type\":\"sampled\",\"name\":\"{}\",\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{total},\"samples\":[",
        metric.words()
    )?;
    for (number, stack) in counted().enumerate() {
        if number > 0 {
            out.write_all(b",")?;
        }
        value(out, &stack.frames)?;
    }
    write!(out, "],\"weights\":[")?;
    for (number, stack) in counted().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        write!(out, "{comma}{}", figure(stack))?;
    }
    write!(out, "]}}")
}

fn value(out: &mut dyn Write, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    allotrope_text::to_json_writer(out, value).map_err(io::Error::from)
}
