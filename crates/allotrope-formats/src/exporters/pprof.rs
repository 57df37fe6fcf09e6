//! pprof's gzipped protobuf, for `go tool pprof` and what else reads it: the
//! kinds of Go's heap profiles, `alloc_objects/count`, `alloc_space/bytes`,
//! `inuse_objects/count` and `inuse_space/bytes`, as far as the set knows
//! them. In use is what leaked: live at the end.
//!
//! Modules become mappings, a function with what was inlined into it one
//! location. Addresses are not known and left at 0. A function's system name
//! is its signature.
//!
//! Source: pprof, `proto/profile.proto`.

mod builder;

use std::io::Write;

use allotrope_profile::{Metric, StackSet};
use flate2::{Compression, write::GzEncoder};

use super::{ExportOptions, Exporter};
use crate::error::ExportError;

use builder::Builder;

/// Kinds of samples: metric, type, unit.
const KINDS: [(Metric, &str, &str); 4] = [
    (Metric::Allocations, "alloc_objects", "count"),
    (Metric::Bytes, "alloc_space", "bytes"),
    (Metric::LeakedAllocations, "inuse_objects", "count"),
    (Metric::LeakedBytes, "inuse_space", "bytes"),
];

/// The metrics that a profile can give.
#[cfg(test)]
pub(super) const METRICS: [Metric; KINDS.len()] = [KINDS[0].0, KINDS[1].0, KINDS[2].0, KINDS[3].0];

/// See the module.
pub(super) struct Pprof;

impl Exporter for Pprof {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn description(&self) -> &'static str {
        "a pprof heap profile, for go tool pprof"
    }

    fn extension(&self) -> &'static str {
        "pb.gz"
    }

    fn write(
        &self,
        set: &StackSet,
        _options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let kinds: Vec<_> = KINDS
            .into_iter()
            .filter(|(metric, ..)| set.known.has(*metric))
            .collect();
        if kinds.is_empty() {
            return Err(ExportError::Unknown(Metric::Allocations));
        }
        let mut zipped = GzEncoder::new(out, Compression::default());
        let mut builder = Builder::new(set, &mut zipped);
        builder.kinds(&kinds)?;
        for stack in &set.stacks {
            let values = kinds
                .iter()
                .map(|(metric, ..)| stack.figures[*metric as usize]);
            builder.sample(&stack.frames, values)?;
        }
        builder.finish()?;
        zipped.finish()?;
        Ok(())
    }
}
