//! Writes `allotrope-stacks/1`, specified in
//! [`stacks_json`](crate::stacks_json), in the order of the set.

use std::io::{self, Write};

use allotrope_profile::sampled::SampledFigures;
use allotrope_profile::{CountedStack, FrameForm, Metric};
use serde_json::{Map, Value};

use super::{ExportOptions, Exporter, Input};
use crate::error::ExportError;
use crate::stacks_json::FORMAT;

/// The exporter; see the module documentation.
pub(super) struct Json;

impl Exporter for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn description(&self) -> &'static str {
        "everything as JSON (allotrope-stacks/1), for programs"
    }

    fn extension(&self) -> &'static str {
        "json"
    }

    fn is_own(&self, head: &[u8]) -> bool {
        head.starts_with(b"{\"format\":\"allotrope-stacks/")
    }

    fn write(
        &self,
        Input { set, samples, .. }: &Input<'_>,
        _options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let metrics: Vec<Metric> = Metric::OF_STACKS
            .into_iter()
            .filter(|m| set.known.has(*m))
            .collect();
        let names: Vec<&str> = metrics.iter().copied().map(Metric::key).collect();
        write!(out, "{{\"format\":\"{FORMAT}\",\n \"title\":")?;
        value(out, &set.title)?;
        write!(out, ",\n \"metrics\":")?;
        value(out, &names)?;
        if let Some(sampling) = &set.run.sampling {
            write!(out, ",\n \"sampled\":")?;
            let (period, notes) = (sampling.period, &sampling.notes);
            let totals = samples.map(|it| intervals(&it.total, &metrics));
            let about =
                serde_json::json!({"period_bytes": period, "notes": notes, "totals": totals});
            value(out, &about)?;
        }
        list(out, "frames", &set.frames, |out, frame| {
            value(out, &FrameForm::new(frame, (&*frame.module).into()))
        })?;
        let mut of_stacks = samples.iter().flat_map(|it| &it.stacks);
        list(out, "stacks", &set.stacks, |out, stack| {
            counted(out, stack, of_stacks.next(), &metrics)
        })?;
        writeln!(out, "}}")?;
        Ok(())
    }
}

fn value(out: &mut dyn Write, value: &impl serde::Serialize) -> io::Result<()> {
    allotrope_text::to_json_writer(out, value).map_err(io::Error::from)
}

/// Writes a list with one element a line, so that `head` shows the start of a
/// large set.
fn list<T>(
    out: &mut dyn Write,
    name: &str,
    elements: &[T],
    mut element: impl FnMut(&mut dyn Write, &T) -> io::Result<()>,
) -> io::Result<()> {
    write!(out, ",\n \"{name}\":[")?;
    for (at, one) in elements.iter().enumerate() {
        out.write_all(if at == 0 { b"\n  " } else { b",\n  " })?;
        element(out, one)?;
    }
    out.write_all(b"]")
}

/// Estimates by the name of their metric, each with the ends of its interval.
fn intervals(figures: &SampledFigures, metrics: &[Metric]) -> Map<String, Value> {
    let mut all = Map::new();
    for metric in metrics {
        let (Some(estimate), Some((low, high))) = (figures.metric(*metric), figures.ends(*metric))
        else {
            continue;
        };
        let key = metric.key();
        all.insert(key.to_owned(), (estimate.value.round() as u64).into());
        all.insert(format!("{key}_low"), low.into());
        all.insert(format!("{key}_high"), high.into());
    }
    all
}

fn counted(
    out: &mut dyn Write,
    stack: &CountedStack,
    estimates: Option<&SampledFigures>,
    metrics: &[Metric],
) -> io::Result<()> {
    let figures: Vec<u64> = metrics
        .iter()
        .map(|metric| stack.figures[*metric as usize])
        .collect();
    write!(out, "{{\"stack\":")?;
    value(out, &stack.frames)?;
    write!(out, ",\"figures\":")?;
    value(out, &figures)?;
    if let Some(estimates) = estimates {
        let ends = metrics.iter().filter_map(|metric| estimates.ends(*metric));
        let (low, high): (Vec<u64>, Vec<Option<u64>>) = ends.unzip();
        write!(out, ",\"figures_low\":")?;
        value(out, &low)?;
        write!(out, ",\"figures_high\":")?;
        value(out, &high)?;
    }
    if let Some(maximum) = stack.maximum {
        write!(out, ",\"maximum\":")?;
        value(out, &[maximum.bytes, maximum.allocations])?;
    }
    write!(out, "}}")
}
