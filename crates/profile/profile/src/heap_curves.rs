//! What each process had allocated at regular times ([`heap_curves`]): the numbers of
//! `allotrope stat`, exact for each moment as far as the order of events is.

use std::path::PathBuf;

use allotrope_trace::model::ImageId;

use crate::aggregator::Aggregator;
use crate::error::AggregateError;
use crate::heap_curve::{HeapPoint, Sampling};
use crate::index::index;
use crate::options::Options;
use crate::series::ResidentPoint;
use crate::source::TraceSource;

/// The samples of a process image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapCurve {
    /// Number of the image, in order of start.
    pub id: ImageId,
    /// Process id.
    pub pid: u32,
    /// When it began, in nanoseconds since the start of the recording.
    pub started_ns: u64,
    /// Path of the executable.
    pub executable: PathBuf,
    /// Points of the curve, in order of time; the last one is at the end of the image.
    pub samples: Vec<HeapPoint>,
    /// Resident memory, in order of time.
    pub resident: Vec<ResidentPoint>,
}

/// Aggregates a trace and samples the heap of each process at `from_ns` + n × `each_ns`, in
/// nanoseconds since the start of the recording, and at its end. `each_ns` must not be 0
/// and large enough for the run: every sample is in memory.
///
/// # Errors
///
/// If the trace cannot be read, or a chunk of it is damaged.
pub fn heap_curves<S: TraceSource>(
    source: &S,
    options: &Options<'_>,
    from_ns: u64,
    each_ns: u64,
) -> Result<Vec<HeapCurve>, AggregateError> {
    let (index, _) = index(source)?;
    let each_ns = each_ns.max(1);
    let aggregator = Aggregator::new(source, &index, options, None, None);
    let mut done = aggregator.sampled(Sampling { from_ns, each_ns }).run()?;
    done.sort_by_key(|done| done.image);
    let processes = done.into_iter().filter_map(|done| {
        let image = index.images.get(&done.image)?;
        Some(HeapCurve {
            id: done.image,
            pid: image.start.pid,
            started_ns: index.timeline.ns(image.start.tick),
            executable: image.start.executable.clone(),
            samples: done.samples,
            resident: index.resident_of(image),
        })
    });
    Ok(processes.collect())
}
