//! From a trace to a profile, or to single blocks.

use std::cell::RefCell;

use allotrope_trace::model::{ImageId, StackId};
use allotrope_trace::{ReadError, Source, TraceReader};

use crate::aggregator::Aggregator;
use crate::error::AggregateError;
use crate::frames::FrameTable;
use crate::index::index;
use crate::model::Profile;
use crate::observer::{Block, BlockEvent, Observer};
use crate::options::Options;
use crate::process::{process, profile};
use crate::site_details::free_stacks::named_stacks;
use crate::source::TraceSource;
use crate::window_runs::window_runs;

/// Aggregates a trace. Memory is bounded by the live blocks, the sites and a few
/// decoded chunks of events for each stream.
///
/// # Errors
///
/// If the trace cannot be read, or a chunk of it is damaged.
pub fn aggregate<S: TraceSource>(
    source: &S,
    options: &Options<'_>,
) -> Result<Profile, AggregateError> {
    let (mut index, names) = index(source)?;
    let mut done = Aggregator::new(source, &index, options, None, None).run()?;
    done.sort_by_key(|done| done.image);
    let symbols = std::mem::take(&mut index.symbols);
    let mut frames = FrameTable::new(&index.modules, symbols);
    let processes = done
        .into_iter()
        .filter_map(|done| {
            let image = index.images.get(&done.image)?;
            let windows = window_runs(&index, image, &done.windows, done.stats.end_ns);
            let mut process = process(&index, image, done.stats, &names, &mut frames);
            process.windows = windows;
            let wanted = options.stacks.iter().filter(|it| it.0 == done.image);
            process.stacks = named_stacks(image, wanted.map(|it| it.1), &mut frames);
            Some(process)
        })
        .collect();
    Ok(profile(source, index, frames, processes))
}

/// Like [`aggregate`], but if a chunk turns out to be damaged, aggregates the part of the trace
/// before it. [`Profile::cut`] then has where that part ends and how much is missing. The
/// reader is cut to that part.
pub fn aggregate_readable<S: Source>(
    trace: &mut TraceReader<S>,
    options: &Options<'_>,
) -> Result<Profile, AggregateError> {
    match aggregate(trace, options) {
        Err(AggregateError::Read(ReadError::Damaged { .. })) => {}
        result => return result,
    }
    trace.cut_at_damage()?;
    aggregate(trace, options)
}

/// Aggregates a trace once more and calls `callback` with each block of the given sites
/// (image, stack id), in the order in which they were freed. Those that are live at the
/// end of their image follow in order of allocation. The blocks are not collected in
/// memory.
pub fn blocks_of_sites<S: TraceSource>(
    source: &S,
    options: &Options<'_>,
    sites: &[(ImageId, StackId)],
    callback: &mut dyn FnMut(&Block),
) -> Result<(), AggregateError> {
    block_events(source, options, sites, &mut |event, block| {
        if event != BlockEvent::Allocated {
            callback(block);
        }
    })
}

/// Like [`blocks_of_sites`], but calls `callback` with each event of the blocks, allocations as
/// well, in the order in which they happened in their image. A child's events are among those of
/// its parent, at the fork.
pub fn block_events<S: TraceSource>(
    source: &S,
    options: &Options<'_>,
    sites: &[(ImageId, StackId)],
    callback: &mut dyn FnMut(BlockEvent, &Block),
) -> Result<(), AggregateError> {
    let (index, _) = index(source)?;
    let observer = Observer {
        wanted: sites.iter().copied().collect(),
        callback: RefCell::new(callback),
    };
    Aggregator::new(source, &index, options, Some(&observer), None).run()?;
    Ok(())
}
