//! pprof's protobuf, usually gzipped, as Go's heap profiles, the converters of
//! jemalloc and tcmalloc, and our own exporter write it.
//!
//! Read: samples with `alloc_objects` (allocations), `alloc_space` (bytes),
//! `inuse_objects` and `inuse_space` (live when the profile was taken: leaked),
//! `peak_objects` and `peak_space` (live at the peak: our own exporter writes them);
//! `objects`, `allocations`, `space` and `bytes` if the former are missing.
//! Locations with their inlined lines, innermost first, functions, files,
//! lines, columns, the mappings' file names and build ids (the first is the
//! executable), start and duration. A profile of something else (time,
//! locks) is refused; a sampled one is read with a note.
//!
//! Ignored: labels, addresses (except of locations without a function),
//! comments, `drop_frames`.
//!
//! Source: pprof, `proto/profile.proto`.

mod tables;

use std::io::BufRead;

use allotrope_profile::{Metric, MetricSet, MetricValues, RunInfo, StackSet};
use allotrope_text::text_of_path;
use prost::Message;

use crate::budget::{Budget, check_depth};
use crate::error::{Fault, Problem};
use crate::pprof_message::{Sample, ValueType, field};
use crate::readers::Parsed;
use crate::stack_set_builder::StackSetBuilder;

use super::excerpt;
use super::protobuf::{Fields, Value, malformed};
use tables::Tables;

/// The maximum number of sample types.
const MAX_KINDS: usize = 64;

/// Whether the bytes begin with fields of a profile.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    let mut input = bytes;
    let mut fields = Fields::new(&mut input, &Budget::default());
    let mut messages = 0;
    for _ in 0..16 {
        match fields.next() {
            Ok(Some((field::SAMPLE_TYPE..=field::STRING, Value::Bytes(_)))) => messages += 1,
            Ok(Some((7..=field::LAST, Value::Number(_) | Value::Bytes(_)))) => {}
            Ok(Some(_)) => return false,
            Ok(None) => break,
            // The bytes end within a field, or are no profile.
            Err(_) if messages > 2 => break,
            Err(_) => return false,
        }
    }
    messages > 0
}

#[derive(Default)]
struct Reader {
    builder: StackSetBuilder,
    tables: Tables,
    kinds: Vec<ValueType>,
    /// The location ids and values of all samples, concatenated.
    locations: Vec<u64>,
    values: Vec<i64>,
    /// The end of each sample's location ids and values. The number of sample
    /// types is known only at the end of the file, because fields are in any
    /// order.
    ends: Vec<(usize, usize)>,
    period: u64,
    time_nanos: Option<u64>,
    duration_nanos: Option<u64>,
}

/// Reads the whole file.
pub(crate) fn read(input: &mut dyn BufRead, budget: &Budget) -> Result<Parsed, Fault> {
    let mut reader = Reader {
        builder: StackSetBuilder::new(budget.clone()),
        ..Reader::default()
    };
    let mut fields = Fields::new(input, budget);
    loop {
        let problem = match fields.next()? {
            None => break,
            Some((number, value)) => reader.field(number, &value),
        };
        problem.map_err(|problem| fields.fault(problem))?;
    }
    reader.finish().map_err(Fault::whole)
}

fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, Problem> {
    M::decode(bytes).map_err(|error| malformed(&format!("a message is damaged ({error})")))
}

impl Reader {
    fn field(&mut self, number: u32, value: &Value<'_>) -> Result<(), Problem> {
        let budget = &self.builder.budget;
        match (number, value) {
            (field::SAMPLE_TYPE, Value::Bytes(bytes)) => {
                if self.kinds.len() == MAX_KINDS {
                    return Err(malformed(
                        "there are more kinds of samples than any profile has",
                    ));
                }
                self.kinds.push(decode(bytes)?);
                Ok(())
            }
            (field::SAMPLE, Value::Bytes(bytes)) => self.sample(decode(bytes)?),
            (field::MAPPING, Value::Bytes(bytes)) => self.tables.mapping(decode(bytes)?, budget),
            (field::LOCATION, Value::Bytes(bytes)) => self.tables.location(decode(bytes)?, budget),
            (field::FUNCTION, Value::Bytes(bytes)) => self.tables.function(decode(bytes)?, budget),
            (field::STRING, Value::Bytes(bytes)) => self.tables.string(bytes, budget),
            (field::PERIOD, Value::Number(period)) => {
                self.period = *period;
                Ok(())
            }
            (field::TIME_NANOS, Value::Number(time)) => {
                self.time_nanos = Some(*time);
                Ok(())
            }
            (field::DURATION_NANOS, Value::Number(duration)) => {
                self.duration_nanos = Some(*duration);
                Ok(())
            }
            (field::SAMPLE_TYPE..=field::STRING, _) => Err(malformed("a field has the wrong type")),
            _ => Ok(()),
        }
    }

    fn sample(&mut self, sample: Sample) -> Result<(), Problem> {
        check_depth(sample.location_id.len())?;
        let size = size_of_val(&*sample.location_id) + size_of_val(&*sample.value);
        self.builder
            .budget
            .take(size + size_of::<(usize, usize)>())?;
        self.locations.extend(sample.location_id);
        self.values.extend(sample.value);
        self.ends.push((self.locations.len(), self.values.len()));
        Ok(())
    }

    fn finish(mut self) -> Result<Parsed, Problem> {
        let metrics = self.metrics()?;
        let (locations, values) = (
            std::mem::take(&mut self.locations),
            std::mem::take(&mut self.values),
        );
        let mut starts = (0, 0);
        for ends in std::mem::take(&mut self.ends) {
            let (locations, values) = (&locations[starts.0..ends.0], &values[starts.1..ends.1]);
            if values.len() != self.kinds.len() {
                return Err(malformed("a sample has not one value for each kind"));
            }
            let figures = figures(&metrics, values)?;
            let stack = self.tables.stack(locations, &mut self.builder)?;
            self.builder.add(&stack, &figures)?;
            starts = ends;
        }
        let known: Vec<Metric> = metrics.iter().map(|(_, metric)| *metric).collect();
        let mut notes = Vec::new();
        if self.period > 1 {
            notes.push(format!(
                "the profile was sampled (one in {} on average): its figures are estimates",
                self.period
            ));
        }
        let run = self.run()?;
        Ok(Parsed {
            set: StackSet {
                run,
                ..self.builder.finish(String::new(), MetricSet::of(&known))
            },
            notes,
        })
    }

    /// What is known of the run. In a file, 0 means unknown.
    fn run(&mut self) -> Result<RunInfo, Problem> {
        let known = |number: Option<u64>| number.filter(|number| *number > 0);
        let modules = self.tables.modules(&self.builder.budget)?;
        let executable = modules.first().map(|module| text_of_path(&module.path));
        Ok(RunInfo {
            started_unix_ns: known(self.time_nanos),
            duration_us: known(self.duration_nanos).map(|duration| duration / 1_000),
            executable: executable.unwrap_or_default().into_owned(),
            modules,
            ..RunInfo::default()
        })
    }

    /// The sample types that are read: position and metric.
    fn metrics(&self) -> Result<Vec<(usize, Metric)>, Problem> {
        let mut names = Vec::new();
        for kind in &self.kinds {
            names.push((self.tables.text(kind.kind)?, self.tables.text(kind.unit)?));
        }
        let exact = positions(&names, |name, _| match name {
            "alloc_objects" => Some(Metric::Allocations),
            "alloc_space" => Some(Metric::Bytes),
            "inuse_objects" => Some(Metric::LeakedAllocations),
            "inuse_space" => Some(Metric::LeakedBytes),
            "peak_objects" => Some(Metric::PeakAllocations),
            "peak_space" => Some(Metric::PeakBytes),
            _ => None,
        });
        if !exact.is_empty() {
            return Ok(exact);
        }
        let loose = positions(&names, |name, unit| match (name, unit) {
            ("objects" | "allocations", "count") => Some(Metric::Allocations),
            ("space" | "bytes" | "allocated_bytes", "bytes") => Some(Metric::Bytes),
            _ => None,
        });
        if !loose.is_empty() {
            return Ok(loose);
        }
        let kinds = names.iter().map(|(name, _)| excerpt(name)).take(8);
        let kinds: Vec<&str> = kinds.collect();
        Err(malformed(&format!(
            "it counts {}, not allocations; give a heap profile",
            kinds.join(", ")
        )))
    }
}

/// The first position of each metric that `read` accepts.
fn positions(
    names: &[(&str, &str)],
    read: impl Fn(&str, &str) -> Option<Metric>,
) -> Vec<(usize, Metric)> {
    let mut found: Vec<(usize, Metric)> = Vec::new();
    for (position, (name, unit)) in names.iter().enumerate() {
        if let Some(metric) = read(name, unit)
            && found.iter().all(|(_, other)| *other != metric)
        {
            found.push((position, metric));
        }
    }
    found
}

fn figures(metrics: &[(usize, Metric)], values: &[i64]) -> Result<MetricValues, Problem> {
    let mut figures = MetricValues::default();
    for (position, metric) in metrics {
        figures[*metric as usize] = u64::try_from(values[*position]).map_err(|_| {
            malformed("a sample is negative: this is the difference of two profiles; give the two profiles themselves")
        })?;
    }
    Ok(figures)
}

#[cfg(test)]
mod tests;
