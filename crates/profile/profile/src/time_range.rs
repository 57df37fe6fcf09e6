//! A profile of a range of time ([`aggregate_range`]).
//!
//! The range is aggregated as a window to which events belong by their time and not by the
//! program's synchronisation, so every figure is defined as for a window.

use crate::aggregator::Aggregator;
use crate::error::AggregateError;
use crate::frames::FrameTable;
use crate::index::index;
use crate::model::Profile;
use crate::options::Options;
use crate::process::{process, profile};
use crate::range_windows::TimeRange;
use crate::source::TraceSource;

/// Aggregates a trace and returns what happened from `from_ns` on and before `to_ns`, in
/// nanoseconds since the start of the recording: a profile of the processes that ran then.
/// Sites, totals, threads and entry points count what was allocated in the range; *leaked*
/// blocks are those of them that were live at its end, and the peak is that of these blocks.
/// Processes start and end with the range, or as they did if that was later or earlier.
///
/// # Errors
///
/// If the trace cannot be read, or a chunk of it is damaged.
pub fn aggregate_range<S: TraceSource>(
    source: &S,
    options: &Options<'_>,
    [from_ns, to_ns]: [u64; 2],
) -> Result<Profile, AggregateError> {
    let (mut index, names) = index(source)?;
    let range = TimeRange { from_ns, to_ns };
    let aggregator = Aggregator::new(source, &index, options, None, None).within(range);
    let mut done = aggregator.run()?;
    done.sort_by_key(|done| done.image);
    let symbols = std::mem::take(&mut index.symbols);
    let mut frames = FrameTable::new(&index.modules, symbols);
    let processes = done.into_iter().filter_map(|done| {
        let image = index.images.get(&done.image)?;
        let (_, mut stats) = done.details.into_iter().next()?;
        let started = index.timeline.ns(image.start.tick);
        let (start, end) = (started.max(from_ns), stats.end_ns.min(to_ns));
        let ran_then = started < to_ns && stats.end_ns >= from_ns;
        if !ran_then {
            return None;
        }
        stats.end_ns = end;
        let peak_ns = stats.peak_ns;
        let mut process = process(&index, image, stats, &names, &mut frames);
        process.started_us = start / 1000;
        process.duration_us = end.saturating_sub(start) / 1000;
        process.totals.peak_time_us = peak_ns.saturating_sub(start) / 1000;
        let range_us = from_ns / 1000..=to_ns / 1000;
        process
            .resident
            .retain(|sample| range_us.contains(&sample.time_us));
        Some(process)
    });
    let processes = processes.collect();
    Ok(profile(source, index, frames, processes))
}
