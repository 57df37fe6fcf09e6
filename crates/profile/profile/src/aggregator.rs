//! Aggregates one image after the other: a forked child is aggregated when the aggregation of its
//! parent reaches the fork, because only then are its inherited blocks known.

use std::cell::{Cell, RefCell};

use allotrope_trace::model::{ImageId, stack_end};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::accumulator::{Accumulator, ImageStats, Requested};
use crate::cursor::{Cursor, EventBatch};
use crate::decode_ahead::DecodeAhead;
use crate::error::AggregateError;
use crate::heap_curve::{HeapPoint, Sampler, Sampling};
use crate::index::{Image, Index};
use crate::live::{Blocks, LiveBlocks};
use crate::merge::{Fork, merge};
use crate::observer::Observer;
use crate::options::Options;
use crate::peak::Peak;
use crate::range_windows::TimeRange;
use crate::reachability::LostOfImage;
use crate::sink::Sink;
use crate::site_details::DetailsBuilder;
use crate::source::TraceSource;
use crate::speculative::{BatchedEvent, PlacedBatch};
use crate::step::Step;
use crate::time_table::tables::Tables;
use crate::time_table::{Buckets, TableBuilder};
use crate::window_accumulator::WindowAccumulator;
use crate::windows::WindowFigures;

/// How deep forks of forks are aggregated recursively, while the aggregations of their parents
/// are in memory. Deeper ones are aggregated afterwards, from a copy of what they inherit.
const FORK_DEPTH: usize = 32;

/// Events between two reports of progress.
const PROGRESS_EACH: u64 = 1 << 16;

/// Key and size of each inherited block.
type Inherited = Vec<(u64, u64)>;

/// The results of aggregating one image.
pub(crate) struct Done {
    pub image: ImageId,
    pub stats: ImageStats,
    /// The figures of each window, in order of opening.
    pub windows: Vec<WindowFigures>,
    /// (index, stats) of the windows whose stacks are wanted.
    pub details: Vec<(u32, ImageStats)>,
    /// Points of the heap curve, in order of time; empty if not wanted.
    pub samples: Vec<HeapPoint>,
}

/// Indexes of the windows whose stacks are wanted, by image.
pub(crate) type Detailed = FxHashMap<ImageId, Vec<u32>>;

/// Aggregates the images of a trace.
pub(crate) struct Aggregator<'a, S: TraceSource> {
    source: &'a S,
    index: &'a Index<S::Handle>,
    options: &'a Options<'a>,
    observer: Option<&'a Observer<'a>>,
    detailed: Option<&'a Detailed>,
    /// The only window, in place of the program's.
    range: Option<TimeRange>,
    /// When the heap is sampled.
    sampling: Option<Sampling>,
    /// The images whose blocks or windows are wanted, and those they were forked from;
    /// `None`: all.
    needed: Option<FxHashSet<ImageId>>,
    done: RefCell<Vec<Done>>,
    /// Images forked beyond [`FORK_DEPTH`], with their inherited blocks.
    later: RefCell<Vec<(ImageId, Inherited)>>,
    /// Number of counted events aggregated so far.
    events: Cell<u64>,
}

impl<'a, S: TraceSource> Aggregator<'a, S> {
    pub(crate) fn new(
        source: &'a S,
        index: &'a Index<S::Handle>,
        options: &'a Options<'a>,
        observer: Option<&'a Observer<'a>>,
        detailed: Option<&'a Detailed>,
    ) -> Self {
        let observed = observer.map(|observer| {
            let images = observer.wanted.iter().map(|&(image, _)| image);
            with_ancestors(index, images)
        });
        let images = detailed.map(|detailed| with_ancestors(index, detailed.keys().copied()));
        Self {
            source,
            index,
            options,
            observer,
            detailed,
            range: None,
            sampling: None,
            needed: observed.or(images),
            done: RefCell::default(),
            later: RefCell::default(),
            events: Cell::new(0),
        }
    }

    /// Aggregates a range of time as the only window, whose stacks are wanted.
    pub(crate) fn within(mut self, range: TimeRange) -> Self {
        self.range = Some(range);
        self
    }

    /// Samples the heap at these times.
    pub(crate) fn sampled(mut self, at: Sampling) -> Self {
        self.sampling = Some(at);
        self
    }

    /// Aggregates all images that are needed. The results are in no particular order.
    pub(crate) fn run(self) -> Result<Vec<Done>, AggregateError> {
        for &id in self.index.images.keys() {
            if !self.index.has_parent(id) {
                self.image(id, &[], 0)?;
            }
            self.run_later()?;
        }
        if let Some(progress) = self.options.progress {
            progress(self.index.events, self.index.events);
        }
        Ok(self.done.into_inner())
    }

    fn run_later(&self) -> Result<(), AggregateError> {
        loop {
            let next = self.later.borrow_mut().pop();
            let Some((id, inherited)) = next else {
                return Ok(());
            };
            self.image(id, &inherited, 0)?;
        }
    }

    /// Aggregates an image, and the children that were forked from it.
    fn image(
        &self,
        id: ImageId,
        inherited: &[(u64, u64)],
        depth: usize,
    ) -> Result<(), AggregateError> {
        let Some(image) = self.index.images.get(&id) else {
            return Ok(());
        };
        if self
            .needed
            .as_ref()
            .is_some_and(|needed| !needed.contains(&id))
        {
            return Ok(());
        }
        let timeline = &self.index.timeline;
        let start_ns = timeline.ns(image.start.tick);
        let end_ns = image.end.map(|end| timeline.ns(end.tick).max(start_ns));
        let streams = || image.streams.values().map(Vec::as_slice);
        let live = LiveBlocks::new(inherited.iter().copied(), start_ns);
        let code_changes = image.jit_code.borrow().has_changes();
        let ahead = DecodeAhead::new(self.source, timeline, streams());
        let mut first_chunk = 0;
        let cursors = streams().map(|chunks| {
            let numbered = (first_chunk, chunks);
            first_chunk += chunks.len();
            let (threads, windows) = (&image.threads, &image.windows);
            Cursor::new(
                &ahead, timeline, threads, windows, numbered, start_ns, end_ns,
            )
        });
        let cursors: Vec<_> = cursors.collect();
        let threshold = self.options.temporary_threshold;
        let of_range = self.range.map(|_| TimeRange::table());
        let windows = match &of_range {
            Some(table) => {
                let inherited = inherited.len();
                Some(WindowAccumulator::new(
                    table,
                    threshold,
                    inherited,
                    &[0],
                    self.details().as_ref(),
                ))
            }
            None => self.window_accumulator(id, image, inherited.len()),
        };
        let mut sink = ImageSink {
            accumulator: Accumulator::new(
                id,
                start_ns,
                threshold,
                &live,
                self.observer,
                image.streams.len() > 1,
                Requested {
                    times: self.time_tables(id, image, start_ns, end_ns),
                    evidence: self.options.evidence,
                    details: self.details(),
                    peak: self.peak(id),
                },
            ),
            windows,
            sampler: self.sampling.map(|it| Sampler::new(it, start_ns)),
            range: self.range,
            now: start_ns,
            aggregator: self,
            image,
            code_changes,
            children: &image.children,
            depth,
        };
        let (forks, helpers) = (forks_of(self.index, image), self.options.helpers);
        let live = ahead.during(helpers, || merge(cursors, live, &forks, &mut sink))?;
        self.close(id, image, sink, end_ns, &live);
        Ok(())
    }

    /// Stores the results of an image, at whose end the blocks in `live` are live.
    fn close(
        &self,
        id: ImageId,
        image: &Image<S::Handle>,
        sink: ImageSink<'_, 'a, S>,
        end_ns: Option<u64>,
        live: &LiveBlocks,
    ) {
        let end_ns = end_ns.unwrap_or_else(|| self.index.last_seen(image));
        let windows = sink.windows.map(|windows| windows.close(end_ns, live));
        let (windows, details) = windows.unwrap_or_default();
        let level = sink.accumulator.heap();
        let mut stats = sink.accumulator.close(end_ns, live);
        if let Some(scan) = image.scan.end {
            let began_ns = self.index.timeline.ns(scan.tick);
            stats.lost = LostOfImage::new(&image.scan, began_ns, live);
        }
        let samples = sink
            .sampler
            .map(|sampler| sampler.finish(stats.end_ns, level));
        self.done.borrow_mut().push(Done {
            image: id,
            stats,
            windows,
            details,
            samples: samples.unwrap_or_default(),
        });
    }

    /// The builder of the details of an image's sites, if they are wanted.
    fn details(&self) -> Option<DetailsBuilder> {
        let has_free_stacks = self.index.recording.free_stacks;
        let wanted = self.options.site_details;
        wanted.then(|| DetailsBuilder::new(has_free_stacks))
    }

    /// The builders of an image's time tables, if they are wanted.
    fn time_tables(
        &self,
        id: ImageId,
        image: &Image<S::Handle>,
        start_ns: u64,
        end_ns: Option<u64>,
    ) -> Option<Tables> {
        let times = self.options.time_table?;
        let ns = |tick| self.index.timeline.ns(tick);
        let chunks = image.streams.values().flatten();
        let events = chunks.map(|chunk| chunk.counted).sum();
        let mut end_ns = end_ns.unwrap_or_else(|| self.index.last_seen(image));
        let windows = image.windows.spans().iter().flat_map(|span| {
            let closed = span.end.as_ref().map(|end| end.tick);
            std::iter::once(span.window.tick).chain(closed)
        });
        let children = image.children.iter();
        let forks = children.filter_map(|child| Some(self.index.images.get(child)?.start.tick));
        let mut at = times.to_vec();
        let marks = self.index.marks.iter().map(|mark| mark.tick);
        at.extend(marks.chain(windows).chain(forks).map(ns));
        if let Some(peak) = self.peak(id) {
            let after = peak.after_ns();
            // First, because there is a limit.
            at.insert(0, after);
            // What follows at the very end has a bucket of its own.
            end_ns = end_ns.max(after.saturating_add(1));
        }
        let buckets = Buckets::new(start_ns, end_ns, &at);
        let by_thread = self.options.thread_times;
        Some(Tables {
            threads: by_thread.then(|| TableBuilder::new(buckets.clone(), events)),
            sites: TableBuilder::new(buckets, events),
        })
    }

    /// The known peak of an image.
    fn peak(&self, id: ImageId) -> Option<Peak> {
        let peaks = self.options.peaks;
        let found = peaks.binary_search_by_key(&id, Peak::image);
        found.ok().map(|at| peaks[at])
    }

    /// The accumulator of an image's windows; `None` if it has no windows.
    fn window_accumulator<'i>(
        &self,
        id: ImageId,
        image: &'i Image<S::Handle>,
        inherited: usize,
    ) -> Option<WindowAccumulator<'i>> {
        if image.windows.spans().is_empty() {
            return None;
        }
        let detailed = self.detailed.and_then(|detailed| detailed.get(&id));
        let detailed = detailed.map_or(&[][..], Vec::as_slice);
        let threshold = self.options.temporary_threshold;
        Some(WindowAccumulator::new(
            &image.windows,
            threshold,
            inherited,
            detailed,
            self.details().as_ref(),
        ))
    }

    /// Counts aggregated events, and reports progress.
    fn count(&self, more: u64) {
        let before = self.events.get();
        let events = before + more;
        self.events.set(events);
        if events / PROGRESS_EACH != before / PROGRESS_EACH
            && let Some(progress) = self.options.progress
        {
            progress(events.min(self.index.events), self.index.events);
        }
    }
}

/// Receives the events of an image from the merge, in order. Passes them to the
/// accumulators, and aggregates a child at its fork.
struct ImageSink<'r, 'a, S: TraceSource> {
    accumulator: Accumulator<'a>,
    windows: Option<WindowAccumulator<'r>>,
    sampler: Option<Sampler>,
    range: Option<TimeRange>,
    /// The time of the last event, in nanoseconds.
    now: u64,
    aggregator: &'r Aggregator<'a, S>,
    image: &'r Image<S::Handle>,
    /// Some address had more than one name, because JIT code was replaced by other JIT
    /// code. So the stack of an allocation depends on its time.
    code_changes: bool,
    children: &'r [ImageId],
    depth: usize,
}

impl<S: TraceSource> Sink for ImageSink<'_, '_, S> {
    #[inline(always)]
    fn step(&mut self, step: &Step, blocks: Blocks, live: &mut LiveBlocks) {
        if self.code_changes && step.stack >= stack_end::FIRST_NODE {
            let mut code = self.image.jit_code.borrow_mut();
            let stack = code.stack_at(step.stack, step.time, &self.image.stacks);
            self.accumulate(&Step { stack, ..*step }, blocks, live);
        } else {
            self.accumulate(step, blocks, live);
        }
        self.aggregator.count(1);
    }

    #[inline]
    fn batch(&mut self, batch: &EventBatch<'_>, live: &mut LiveBlocks) -> usize {
        if self.code_changes || self.windows.is_some() || self.sampler.is_some() {
            return 0;
        }
        let taken = self.accumulator.take_batch(batch, live);
        self.aggregator.count(taken as u64);
        taken
    }

    #[inline]
    fn placed(
        &mut self,
        batch: &PlacedBatch,
        events: &[BatchedEvent],
        live: &mut LiveBlocks,
    ) -> bool {
        if self.code_changes || self.windows.is_some() || self.sampler.is_some() {
            return false;
        }
        let taken = self.accumulator.take_placed(batch, events, live);
        if taken {
            self.aggregator.count(events.len() as u64);
        }
        taken
    }

    fn fork(&mut self, fork: usize, live: &LiveBlocks) -> Result<(), AggregateError> {
        let Some(&child) = self.children.get(fork) else {
            return Ok(());
        };
        let inherited: Inherited = live
            .iter()
            .map(|(key, block)| (key, live.block(block).size))
            .collect();
        if self.depth >= FORK_DEPTH {
            self.aggregator.later.borrow_mut().push((child, inherited));
            return Ok(());
        }
        self.aggregator.image(child, &inherited, self.depth + 1)
    }
}

impl<S: TraceSource> ImageSink<'_, '_, S> {
    #[inline(always)]
    fn accumulate(&mut self, step: &Step, blocks: Blocks, live: &mut LiveBlocks) {
        if let Some(sampler) = &mut self.sampler
            && sampler.is_due(step.time)
        {
            sampler.sample(step.time, self.accumulator.heap());
        }
        self.accumulator.take(step, blocks, live);
        if let Some(sampler) = &mut self.sampler {
            sampler.note(step.time, self.accumulator.live_bytes());
        }
        if let Some(windows) = &mut self.windows {
            match self.range {
                None => windows.take(step, blocks),
                Some(range) => {
                    self.now = self.now.max(step.time);
                    let by_time = Step {
                        rank: range.rank(self.now),
                        opted_out: false,
                        ..*step
                    };
                    windows.take(&by_time, blocks);
                }
            }
        }
    }
}

/// The forks of the image's children. A child whose fork points are in no known
/// stream inherits the blocks that are live at the parent's end.
pub(crate) fn forks_of<H>(index: &Index<H>, image: &Image<H>) -> Vec<Fork> {
    let stream_index = |id| image.streams.keys().position(|&stream| stream == id);
    let points = |child: &ImageId| {
        let start = index.images.get(child).map(|child| &child.start);
        let points = start.into_iter().flat_map(|start| &start.fork_points);
        points
            .filter_map(|point| Some((stream_index(point.stream)?, point.ordinal)))
            .collect()
    };
    let children = image.children.iter();
    children
        .map(|child| Fork {
            points: points(child),
        })
        .collect()
}

/// These images and their ancestors.
fn with_ancestors<H>(
    index: &Index<H>,
    images: impl Iterator<Item = ImageId>,
) -> FxHashSet<ImageId> {
    let mut needed = FxHashSet::default();
    for image in images {
        let mut next = Some(image);
        while let Some(id) = next
            && needed.insert(id)
        {
            let start = index.images.get(&id).map(|image| &image.start);
            next = start.and_then(|start| start.forked_from);
        }
    }
    needed
}
