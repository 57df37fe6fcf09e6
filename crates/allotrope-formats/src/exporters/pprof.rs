//! pprof's gzipped protobuf, for `go tool pprof` and compatible tools, with the
//! sample types of Go's heap profiles as far as they are known:
//! `alloc_objects/count`, `alloc_space/bytes`, `inuse_objects/count` and
//! `inuse_space/bytes`. "In use" is leaked: live at the end.
//!
//! Modules become mappings; a function and the functions inlined into it become
//! one location. Addresses are unknown and 0. The system name of a function is
//! its signature.
//!
//! Source: pprof, `proto/profile.proto`.

mod builder;

use std::io::Write;

use allotrope_profile::{Metric, StackSet};
use flate2::{Compression, write::GzEncoder};

use super::{ExportOptions, Exporter};
use crate::error::ExportError;

use builder::Builder;

/// The sample types: metric, type, unit.
const KINDS: [(Metric, &str, &str); 4] = [
    (Metric::Allocations, "alloc_objects", "count"),
    (Metric::Bytes, "alloc_space", "bytes"),
    (Metric::LeakedAllocations, "inuse_objects", "count"),
    (Metric::LeakedBytes, "inuse_space", "bytes"),
];

/// The metrics that can be written.
#[cfg(test)]
pub(super) const METRICS: [Metric; KINDS.len()] = [KINDS[0].0, KINDS[1].0, KINDS[2].0, KINDS[3].0];

/// The exporter; see the module documentation.
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
