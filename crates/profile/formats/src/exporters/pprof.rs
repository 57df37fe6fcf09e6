//! pprof's gzipped protobuf, for `go tool pprof` and compatible tools.
//!
//! The sample types are those of Go's heap profiles, as far as they are known:
//! `alloc_objects/count`, `alloc_space/bytes`, `inuse_objects/count` and
//! `inuse_space/bytes`; and `peak_objects/count` and `peak_space/bytes`. "In use" is leaked:
//! live at the end. "Peak" is live when most bytes were live.
//!
//! The default type is `peak_space`. Go's heap profiles default to `inuse_space`: what
//! fills the memory at the moment of the profile. A recording normally ends with the
//! program, when nearly nothing is in use any more; the moment of which users of
//! `inuse_space` want to know is the peak. Where the peak is unknown, the default is
//! `alloc_space`, as in Go's profile `allocs`.
//!
//! The values of a sampled profile are estimates, rounded. Its period is the longest one, its
//! period type `space`/`bytes` and its default type `inuse_space`, as in Go's heap profiles;
//! comments have the 95 % intervals of the sums.
//!
//! Modules become mappings, the executable first: pprof shows the first as "File". They
//! have build ids and paths if the set has them. A function and the functions inlined into
//! it become one location. Addresses are unknown and 0. The system name of a function is
//! its signature. `drop_frames` removes allocation functions ([`entry_points`]), so that
//! `-top` shows the functions that call them, not `malloc`. Start and duration of the run
//! are written if known. Comments have the command line and explain the sample types.
//!
//! Source: pprof, `proto/profile.proto`.

mod builder;
mod entry_points;

use std::io::Write;

use allotrope_profile::{Metric, StackSet};
use flate2::{Compression, GzBuilder};

use super::{ExportOptions, Exporter, Input};
use crate::error::ExportError;

use builder::Builder;

/// The sample types: metric, type, unit.
const KINDS: [(Metric, &str, &str); 6] = [
    (Metric::Allocations, "alloc_objects", "count"),
    (Metric::Bytes, "alloc_space", "bytes"),
    (Metric::LeakedAllocations, "inuse_objects", "count"),
    (Metric::LeakedBytes, "inuse_space", "bytes"),
    (Metric::PeakAllocations, "peak_objects", "count"),
    (Metric::PeakBytes, "peak_space", "bytes"),
];

/// The types of sampled profiles, as in Go's heap profiles. The default one is the first.
pub(crate) const IN_USE_FIRST: [(Metric, &str, &str); 4] = [KINDS[3], KINDS[2], KINDS[1], KINDS[0]];

/// The default sample type: the first of these that is known.
const DEFAULTS: [Metric; 3] = [Metric::PeakBytes, Metric::Bytes, Metric::Allocations];

/// The metrics that can be written.
#[cfg(test)]
pub(super) fn metrics() -> Vec<Metric> {
    KINDS.iter().map(|(metric, ..)| *metric).collect()
}

/// A regular expression (RE2) for the functions that are left out at the inner end of a stack.
pub(crate) fn dropped_frames() -> String {
    entry_points::pattern()
}

/// The comment in the gzip header, by which a file is recognised as ours.
const MARK: &[u8] = b"allotrope";

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

    fn notes(&self, Input { set, .. }: &Input<'_>) -> Vec<String> {
        match set.run.images {
            0 | 1 => Vec::new(),
            images => vec![format!(
                "the stacks of {images} process images are added up; each was at its peak at a time of its own"
            )],
        }
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn is_own(&self, head: &[u8]) -> bool {
        // gzip's comment (RFC 1952, 2.3).
        const COMMENT: u8 = 0x10;
        let comment = head.get(10..).unwrap_or_default();
        head.starts_with(&[0x1f, 0x8b, 8, COMMENT])
            && comment
                .strip_prefix(MARK)
                .is_some_and(|rest| rest.starts_with(&[0]))
    }

    fn write(
        &self,
        Input { set, .. }: &Input<'_>,
        _options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        write_pprof(set, None, out)
    }
}

/// Writes the set as a gzipped pprof profile. `default` is the metric that pprof shows first; if
/// there is none, or the set does not have it, that is as the exporter chooses it.
///
/// # Errors
/// If the set has none of pprof's metrics, and those of `out`.
pub fn write_pprof(
    set: &StackSet,
    default: Option<Metric>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let kinds: Vec<_> = KINDS
        .into_iter()
        .filter(|(metric, ..)| set.known.has(*metric))
        .collect();
    if kinds.is_empty() {
        return Err(ExportError::Unknown(Metric::Allocations));
    }
    let mut zipped = GzBuilder::new()
        .comment(MARK)
        .write(out, Compression::default());
    let mut builder = Builder::new(set, &mut zipped);
    builder.kinds(&kinds, default)?;
    builder.about()?;
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
