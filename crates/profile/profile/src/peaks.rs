//! When each process had its peak, exactly: so that a second aggregation can divide its time
//! tables there.
//!
//! A time alone is not enough. Events of several threads can have the same time, and where
//! their order contradicts their clocks, they do. So a peak is also the number of allocations
//! until then, and of those that were live: the second aggregation recognises it by these, and
//! gives what follows a later time.

use allotrope_trace::{ReadError, Source, TraceReader};

use crate::aggregator::Aggregator;
use crate::error::AggregateError;
use crate::index::index;
use crate::options::Options;
use crate::peak::Peak;
use crate::source::TraceSource;

/// The peaks of all processes that had live bytes, in order of process.
///
/// # Errors
///
/// If the trace cannot be read, or a chunk of it is damaged.
pub fn peaks<S: TraceSource>(
    source: &S,
    options: &Options<'_>,
) -> Result<Vec<Peak>, AggregateError> {
    let (index, _) = index(source)?;
    let mut done = Aggregator::new(source, &index, options, None, None).run()?;
    done.sort_by_key(|done| done.image);
    let had_bytes = done.iter().filter(|it| it.stats.totals.peak_bytes > 0);
    let peaks = had_bytes.map(|it| Peak {
        image: it.image,
        ns: it.stats.peak_ns,
        allocated: it.stats.peak_allocated,
        live: it.stats.totals.peak_allocations,
    });
    Ok(peaks.collect())
}

/// Does the same as [`peaks`] for a trace that may be damaged: up to the damage, to which the
/// reader is cut.
pub fn peaks_readable<S: Source>(
    trace: &mut TraceReader<S>,
    options: &Options<'_>,
) -> Result<Vec<Peak>, AggregateError> {
    match peaks(trace, options) {
        Err(AggregateError::Read(ReadError::Damaged { .. })) => {}
        result => return result,
    }
    trace.cut_at_damage()?;
    peaks(trace, options)
}
