//! The windows of a profile: makes the [`WindowRun`] of each window, and a profile with
//! the stacks of chosen windows ([`aggregate_windows`]).

use rustc_hash::FxHashMap;

use crate::aggregator::{Aggregator, Detailed};
use crate::error::AggregateError;
use crate::frames::FrameTable;
use crate::index::{Index, index};
use crate::model::{Process, Profile, Totals};
use crate::options::Options;
use crate::process::{process, profile};
use crate::source::TraceSource;
use crate::window_runs::window_runs;
use crate::windows::{WindowKey, WindowRun};

/// Aggregates a trace and returns the stacks of the wanted windows: a profile whose
/// processes are those windows, in the order of `wanted`, each once. Sites, totals,
/// threads and entry points count the events that belong to the window; *leaked* blocks
/// are those that were live when it closed, and the peak is the window's.
/// [`Process::windows`](crate::Process::windows) contains that one run.
///
/// Memory grows with the sites of each wanted window.
///
/// # Errors
///
/// [`AggregateError::NoSuchWindow`] for a window that the trace does not have.
pub fn aggregate_windows<S: TraceSource>(
    source: &S,
    options: &Options<'_>,
    wanted: &[WindowKey],
) -> Result<Profile, AggregateError> {
    let (mut index, names) = index(source)?;
    let detailed = find(&index, wanted)?;
    let done = Aggregator::new(source, &index, options, None, Some(&detailed)).run()?;
    let symbols = std::mem::take(&mut index.symbols);
    let mut frames = FrameTable::new(&index.modules, symbols);
    let mut found = FxHashMap::default();
    for done in done {
        let Some(image) = index.images.get(&done.image) else {
            continue;
        };
        let runs = window_runs(&index, image, &done.windows, done.stats.end_ns);
        for (at, stats) in done.details {
            if let Some(run) = runs.get(at as usize) {
                found.insert(run.key, (image, run.clone(), stats));
            }
        }
    }
    let processes = wanted.iter().filter_map(|key| {
        let (image, run, stats) = found.remove(key)?;
        let opened_ns = index.timeline.ns(image.start.tick) / 1000 + run.opened_us;
        let peak_us = (stats.peak_ns / 1000).saturating_sub(opened_ns);
        let mut process = process(&index, image, stats, &names, &mut frames);
        process.started_us = opened_ns;
        process.duration_us = run.duration_us;
        process.totals.peak_time_us = peak_us;
        if index.recording.counts_only {
            restrict_to_counts(&mut process, &run);
        }
        process.windows = vec![run];
        Some(process)
    });
    let processes = processes.collect();
    Ok(profile(source, index, frames, processes))
}

/// Replaces the counts of the image by those of the window (`--counts-only`). Counts of
/// the window by thread and by entry point are not known.
fn restrict_to_counts(process: &mut Process, run: &WindowRun) {
    process.totals = Totals {
        allocations: run.figures.allocations,
        allocated_bytes: run.figures.allocated_bytes,
        deallocations: run.figures.deallocations,
        reallocations: run.figures.reallocations,
        ..Totals::default()
    };
    for thread in &mut process.threads {
        (
            thread.allocations,
            thread.allocated_bytes,
            thread.deallocations,
        ) = (0, 0, 0);
    }
    process.entries.clear();
}

/// The wanted windows by image and index.
fn find<H>(index: &Index<H>, wanted: &[WindowKey]) -> Result<Detailed, AggregateError> {
    let mut detailed = Detailed::default();
    for &WindowKey { image, opened } in wanted {
        let missing = AggregateError::NoSuchWindow { image, opened };
        let spans = index.images.get(&image).map(|it| it.windows.spans());
        let spans = spans.unwrap_or_default();
        let at = spans.binary_search_by_key(&opened, |span| span.window.opened);
        let at = at.map_err(|_| missing)? as u32;
        let of_image: &mut Vec<u32> = detailed.entry(image).or_default();
        if !of_image.contains(&at) {
            of_image.push(at);
        }
    }
    Ok(detailed)
}
