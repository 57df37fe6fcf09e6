//! OTLP profiles, for OpenTelemetry collectors: what `POST /v1development/profiles` takes.
//!
//! Each process is a resource. It has one profile for each sample type, since OTLP's have one
//! type each: `inuse_space`, `inuse_objects`, `alloc_space` and `alloc_objects`, as in the pprof
//! profiles. Values are estimates, rounded. The estimate of their sum and its 95 % interval are
//! attributes of the profile. `alloc_*` count from the beginning of the process. Names of
//! attributes are those of OpenTelemetry's semantic conventions (`pprof.*`,
//! `process.executable.build_id.gnu`); our own begin with `allotrope.`.
//!
//! This module makes bytes and reads answers. It sends nothing.

mod dictionary;
pub mod messages;

use std::io::{self, Write};

use allotrope_profile::StackSet;
use allotrope_profile::sampled::SampledFigures;
use flate2::{Compression, write::GzEncoder};
use prost::Message;

use crate::exporters::modules::ModuleNames;
use crate::exporters::pprof::{IN_USE_FIRST, dropped_frames};
use dictionary::Tables;
use messages::{
    Array, Attribute, PartialSuccess, Profile, Request, Resource, ResourceProfiles, Response,
    Sample, Scope, ScopeProfiles, Status, Value, ValueType,
};

/// The number of profiles of a process, each of which needs an id.
pub const PROFILES: usize = IN_USE_FIRST.len();

/// A process at one moment.
#[derive(Debug)]
pub struct Process<'a> {
    /// Stacks of the process, from samples.
    pub set: &'a StackSet,
    /// The sums of all stacks.
    pub total: &'a SampledFigures,
    /// When this was seen, in nanoseconds since 1970 UTC.
    pub time_unix_ns: u64,
    /// What the process is.
    pub resource: Vec<(String, Value)>,
    /// Sentences on the figures.
    pub comments: Vec<String>,
    /// An id for each profile, which no other profile has.
    pub ids: [[u8; 16]; PROFILES],
}

/// A request under construction.
#[derive(Debug)]
pub struct RequestBuilder {
    tables: Tables,
    resources: Vec<ResourceProfiles>,
    scope: Scope,
    samples: usize,
}

impl RequestBuilder {
    /// Returns a request without processes. `version` is that of the tool.
    pub fn new(version: &str) -> Self {
        let default_type = Attribute {
            key: "pprof.scope.default_sample_type".to_owned(),
            value: Some(Value::from(IN_USE_FIRST[0].1).into()),
        };
        Self {
            tables: Tables::new(),
            resources: Vec::new(),
            scope: Scope {
                name: "allotrope".to_owned(),
                version: version.to_owned(),
                attributes: vec![default_type],
            },
            samples: 0,
        }
    }

    /// Adds a process.
    pub fn add(&mut self, process: Process<'_>) {
        let Process { set, .. } = process;
        let modules = ModuleNames::of(set);
        let stacks = set.stacks.iter();
        let stacks: Vec<i32> = stacks
            .map(|it| self.tables.stack(set, &modules, &it.frames))
            .collect();
        let common = self.common_attributes(&process);
        let mut profiles = Vec::with_capacity(PROFILES);
        for ((metric, kind, unit), id) in IN_USE_FIRST.into_iter().zip(process.ids) {
            let values = set.stacks.iter().map(|it| it.figures[metric as usize]);
            let samples = stacks.iter().zip(values).filter(|(_, value)| *value > 0);
            let samples = samples.map(|(stack_index, value)| Sample {
                stack_index: *stack_index,
                // OTLP's values are signed.
                values: vec![i64::try_from(value).unwrap_or(i64::MAX)],
            });
            let samples: Vec<Sample> = samples.collect();
            self.samples += samples.len();
            let mut attribute_indices = common.clone();
            if let Some(sum) = process.total.metric(metric) {
                let ends = [
                    ("allotrope.sum.estimate", Some(sum.value)),
                    ("allotrope.sum.low", Some(sum.low)),
                    ("allotrope.sum.high", sum.known_high()),
                ];
                let ends = ends.into_iter().filter_map(|(key, value)| {
                    let value = Value::Double(value?);
                    Some(self.tables.attribute(key, value, unit))
                });
                attribute_indices.extend(ends);
            }
            profiles.push(Profile {
                sample_type: Some(self.value_type(kind, unit)),
                samples,
                time_unix_nano: process.time_unix_ns,
                period_type: Some(self.value_type("space", "bytes")),
                period: self.period(set),
                profile_id: id.to_vec(),
                attribute_indices,
            });
        }
        let attributes = process.resource.into_iter().map(|(key, value)| Attribute {
            key,
            value: Some(value.into()),
        });
        self.resources.push(ResourceProfiles {
            resource: Some(Resource {
                attributes: attributes.collect(),
            }),
            scope_profiles: vec![ScopeProfiles {
                scope: Some(self.scope.clone()),
                profiles,
            }],
        });
    }

    /// The number of samples so far: stacks with a value, of all types.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Whether no process was added.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// The request.
    pub fn finish(self) -> Request {
        Request {
            resource_profiles: self.resources,
            dictionary: Some(self.tables.finish()),
        }
    }

    fn common_attributes(&mut self, process: &Process<'_>) -> Vec<i32> {
        let comments = process.comments.iter();
        let comments = comments.map(|it| Value::Text(it.clone()).into());
        let comments = Value::Array(Array {
            values: comments.collect(),
        });
        let level = "allotrope.sum.confidence_level";
        vec![
            self.tables.attribute(level, Value::Double(0.95), ""),
            self.tables.attribute("pprof.profile.comment", comments, ""),
            self.tables.attribute(
                "pprof.profile.drop_frames",
                Value::Text(dropped_frames()),
                "",
            ),
        ]
    }

    fn period(&self, set: &StackSet) -> i64 {
        let period = set.run.sampling.as_ref().map_or(0, |it| it.period);
        i64::try_from(period).unwrap_or(i64::MAX)
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType {
            type_strindex: self.tables.string(kind),
            unit_strindex: self.tables.string(unit),
        }
    }
}

/// The bytes of a request, compressed with gzip.
///
/// # Errors
/// None in practice: the output is memory.
pub fn zipped(request: &Request) -> io::Result<Vec<u8>> {
    let mut zipped = GzEncoder::new(Vec::new(), Compression::default());
    zipped.write_all(&request.encode_to_vec())?;
    zipped.finish()
}

/// What a collector says of a request that it has accepted; `None` if the answer is none of OTLP's.
pub fn answer(body: &[u8]) -> Option<PartialSuccess> {
    let response = Response::decode(body).ok()?;
    Some(response.partial_success.unwrap_or_default())
}

/// What a collector says of a request that it has refused; empty if it says nothing readable.
pub fn refusal(body: &[u8]) -> String {
    Status::decode(body).map_or_else(|_| String::new(), |status| status.message)
}

#[cfg(test)]
mod tests;
