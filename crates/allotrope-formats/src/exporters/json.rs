//! Writes `allotrope-stacks/1`, specified in
//! [`stacks_json`](crate::stacks_json), in the order of the set.

use std::io::{self, Write};

use allotrope_profile::{CountedStack, Metric};

use super::{ExportOptions, Exporter, Input};
use crate::error::ExportError;
use crate::stacks_json::{FORMAT, FrameForm};

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

    fn write(
        &self,
        Input { set, .. }: &Input<'_>,
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
            value(
                out,
                &serde_json::json!({"period_bytes": period, "notes": notes}),
            )?;
        }
        list(out, "frames", &set.frames, |out, frame| {
            value(out, &FrameForm::from(frame))
        })?;
        list(out, "stacks", &set.stacks, |out, stack| {
            counted(out, stack, &metrics)
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

fn counted(out: &mut dyn Write, stack: &CountedStack, metrics: &[Metric]) -> io::Result<()> {
    let figures: Vec<u64> = metrics
        .iter()
        .map(|metric| stack.figures[*metric as usize])
        .collect();
    write!(out, "{{\"stack\":")?;
    value(out, &stack.frames)?;
    write!(out, ",\"figures\":")?;
    value(out, &figures)?;
    if let Some(maximum) = stack.maximum {
        write!(out, ",\"maximum\":")?;
        value(out, &[maximum.bytes, maximum.allocations])?;
    }
    write!(out, "}}")
}
