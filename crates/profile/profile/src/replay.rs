//! From a trace to a profile. Replays one image after the other: a forked child is
//! replayed when the replay of its parent reaches the fork, because only then are its
//! inherited blocks known. Then lists the processes in order of start.

use std::cell::{Cell, RefCell};
use std::thread;

use allotrope_trace::model::{Exit, ImageId, StackId, stack_end};
use allotrope_trace::{ReadError, Source, TraceReader};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::accumulator::{Accumulator, ImageStats, Requested};
use crate::cursor::{Cursor, EventBatch, Step};
use crate::decode_ahead::DecodeAhead;
use crate::error::ReplayError;
use crate::evidence::EvidenceBuilder;
use crate::frames::{Code, FrameTable};
use crate::gaps::gaps_of;
use crate::heap_samples::{HeapSample, Sampler, Sampling};
use crate::index::{Image, Index, ThreadNames, index};
use crate::live::{Blocks, LiveBlocks};
use crate::merge::{Fork, Sink, merge};
use crate::model::{Process, Profile, ThreadTotals};
use crate::peaks::Peak;
use crate::site_details::DetailsBuilder;
use crate::site_details::free_stacks::set_frames;
use crate::site_order::sites_in_order;
use crate::source::TraceSource;
use crate::stack::Stacks;
use crate::time_range::TimeRange;
use crate::time_table::{Buckets, TableBuilder, Tables};
use crate::window_accumulator::WindowAccumulator;
use crate::window_replay::window_runs;
use crate::windows::WindowFigures;

/// How deep forks of forks are replayed recursively, while the replays of their parents
/// are in memory. Deeper ones are replayed afterwards, from a copy of what they inherit.
const FORK_DEPTH: usize = 32;
/// Events between two reports of progress.
const PROGRESS_EACH: u64 = 1 << 16;

/// How a trace is replayed.
#[derive(Default, Clone, Copy)]
pub struct Options<'a> {
    /// A block is temporary if its thread made at most this many allocations
    /// between its allocation and its deallocation.
    pub temporary_threshold: u64,
    /// Called now and then with the number of events replayed so far and of all events.
    pub progress: Option<&'a dyn Fn(u64, u64)>,
    /// Whether other threads decode events. The profile is the same.
    pub helpers: Helpers,
    /// Makes a [`TimeTable`](crate::TimeTable) for each process, which is exact at these
    /// times, in nanoseconds since the start of the recording; where windows open and
    /// close; and where children are forked.
    pub time_table: Option<&'a [u64]>,
    /// Makes the time tables exact just after the peak of each process, too: what is live
    /// there is what was live at the peak. The [`peaks`](crate::peaks) of the same trace.
    pub peaks: &'a [Peak],
    /// With a time table, makes another one by the threads that allocate.
    pub thread_times: bool,
    /// Collects [`Evidence`](crate::Evidence) for findings in each process.
    pub evidence: bool,
    /// Gathers the [details](crate::SiteDetails) of each site.
    pub site_details: bool,
}

/// When a replay uses helper threads.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Helpers {
    /// When there are enough events for them to pay, and more than one processor.
    #[default]
    WhereWorthIt,
    /// Always as many as allowed, however small the trace; for tests.
    Always,
    /// Never.
    Never,
}

impl Helpers {
    /// The number of helper threads for a task, at most `most`.
    pub(crate) fn number(self, is_worth_it: bool, most: usize) -> usize {
        match self {
            Self::WhereWorthIt if is_worth_it => {
                let processors = thread::available_parallelism().map_or(1, |n| n.get());
                (processors - 1).min(most)
            }
            Self::WhereWorthIt | Self::Never => 0,
            Self::Always => most,
        }
    }
}

/// A single allocation, shown when its block was freed or, if it never was, at the end
/// of its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The image.
    pub image: ImageId,
    /// The stack that allocated it.
    pub stack: StackId,
    /// Its address.
    pub address: u64,
    /// Requested bytes.
    pub size: u64,
    /// Index into [`Process::threads`] of the thread that allocated it.
    pub thread: u32,
    /// When it was allocated, in nanoseconds since the start of the recording.
    pub allocated_ns: u64,
    /// How long it lived, in nanoseconds; `None` if it was live at the end.
    pub lifetime_ns: Option<u64>,
    /// Index into [`Process::threads`] of the thread that freed it; `None` if it was live
    /// at the end, or the event of the deallocation is lost.
    pub freed_by: Option<u32>,
    /// The stack that freed it, an id as in [`FreePlace`](crate::FreePlace::Stack); a stack
    /// end if it was live at the end, or the stack was not recorded.
    pub freed_at: StackId,
}

/// What happened to a [`Block`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockEvent {
    /// It was allocated. Nothing is known of its end yet.
    Allocated,
    /// It was freed.
    Freed,
    /// It was live at the end of its image.
    LiveAtEnd,
}

/// Key and size of each inherited block.
type Inherited = Vec<(u64, u64)>;

/// A callback for what happens to single blocks.
type BlockCallback<'a> = dyn FnMut(BlockEvent, &Block) + 'a;

/// A callback for the single blocks of some stacks.
pub(crate) struct Observer<'a> {
    pub wanted: FxHashSet<(ImageId, StackId)>,
    pub callback: RefCell<&'a mut BlockCallback<'a>>,
}

/// Replays a trace. Memory is bounded by the live blocks, the sites and a few
/// decoded chunks of events for each stream.
///
/// # Errors
///
/// If the trace cannot be read, or a chunk of it is damaged.
pub fn replay<S: TraceSource>(source: &S, options: &Options<'_>) -> Result<Profile, ReplayError> {
    let (mut index, names) = index(source)?;
    let mut done = Replayer::new(source, &index, options, None, None).run()?;
    done.sort_by_key(|done| done.image);
    let symbols = std::mem::take(&mut index.symbols);
    let mut frames = FrameTable::new(&index.modules, symbols);
    let cut = source.cut();
    let marks = index.named_moments();
    let processes = done
        .into_iter()
        .filter_map(|done| {
            let image = index.images.get(&done.image)?;
            let windows = window_runs(&index, image, &done.windows, done.stats.end_ns);
            let mut process = process(&index, image, done.stats, &names, &mut frames);
            process.windows = windows;
            Some(process)
        })
        .collect();
    let (modules, frames) = frames.finish();
    let mut profile = Profile {
        recording: index.recording,
        cut,
        modules,
        frames,
        processes,
        unrecorded: index.unrecorded,
        marks,
        is_growing: source.is_growing(),
    };
    number_sites(&mut profile);
    Ok(profile)
}

/// Like [`replay`], but if a chunk turns out to be damaged, replays the part of the trace
/// before it. [`Profile::cut`] then has where that part ends and how much is missing. The
/// reader is cut to that part.
pub fn replay_readable<S: Source>(
    trace: &mut TraceReader<S>,
    options: &Options<'_>,
) -> Result<Profile, ReplayError> {
    match replay(trace, options) {
        Err(ReplayError::Read(ReadError::Damaged { .. })) => {}
        result => return result,
    }
    trace.cut_at_damage()?;
    replay(trace, options)
}

/// Replays a trace once more and calls `callback` with each block of the given sites
/// (image, stack id), in the order in which they were freed. Those that are live at the
/// end of their image follow in order of allocation. The blocks are not collected in
/// memory.
pub fn blocks_of_sites<S: TraceSource>(
    source: &S,
    options: &Options<'_>,
    sites: &[(ImageId, StackId)],
    callback: &mut dyn FnMut(&Block),
) -> Result<(), ReplayError> {
    block_events(source, options, sites, &mut |event, block| {
        if event != BlockEvent::Allocated {
            callback(block);
        }
    })
}

/// The same with all events of these blocks, also that they are allocated, in the order in
/// which they happened in their image. A child's events are among those of its parent, at the
/// fork.
pub fn block_events<S: TraceSource>(
    source: &S,
    options: &Options<'_>,
    sites: &[(ImageId, StackId)],
    callback: &mut dyn FnMut(BlockEvent, &Block),
) -> Result<(), ReplayError> {
    let (index, _) = index(source)?;
    let observer = Observer {
        wanted: sites.iter().copied().collect(),
        callback: RefCell::new(callback),
    };
    Replayer::new(source, &index, options, Some(&observer), None).run()?;
    Ok(())
}

/// The results of replaying one image.
pub(crate) struct Done {
    pub image: ImageId,
    pub stats: ImageStats,
    /// The figures of each window, in order of opening.
    pub windows: Vec<WindowFigures>,
    /// (index, stats) of the windows whose stacks are wanted.
    pub details: Vec<(u32, ImageStats)>,
    /// In order of time; empty if not wanted.
    pub samples: Vec<HeapSample>,
}

/// By image: the indexes of the windows whose stacks are wanted.
pub(crate) type Detailed = FxHashMap<ImageId, Vec<u32>>;

/// Replays the images of a trace.
pub(crate) struct Replayer<'a, S: TraceSource> {
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
    /// Number of counted events replayed so far.
    events: Cell<u64>,
}

impl<'a, S: TraceSource> Replayer<'a, S> {
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

    /// Replays a range of time as the only window, whose stacks are wanted.
    pub(crate) fn within(mut self, range: TimeRange) -> Self {
        self.range = Some(range);
        self
    }

    /// Samples the heap at these times.
    pub(crate) fn sampled(mut self, at: Sampling) -> Self {
        self.sampling = Some(at);
        self
    }

    /// Replays all images that are needed. The results are in no particular order.
    pub(crate) fn run(self) -> Result<Vec<Done>, ReplayError> {
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

    fn run_later(&self) -> Result<(), ReplayError> {
        loop {
            let next = self.later.borrow_mut().pop();
            let Some((id, inherited)) = next else {
                return Ok(());
            };
            self.image(id, &inherited, 0)?;
        }
    }

    /// Replays an image, and the children that were forked from it.
    fn image(
        &self,
        id: ImageId,
        inherited: &[(u64, u64)],
        depth: usize,
    ) -> Result<(), ReplayError> {
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
            replayer: self,
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
        let stats = sink.accumulator.close(end_ns, live);
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

    /// Counts replayed events, and reports progress.
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
/// accumulators, and replays a child at its fork.
struct ImageSink<'r, 'a, S: TraceSource> {
    accumulator: Accumulator<'a>,
    windows: Option<WindowAccumulator<'r>>,
    sampler: Option<Sampler>,
    range: Option<TimeRange>,
    /// The time of the last event, in nanoseconds.
    now: u64,
    replayer: &'r Replayer<'a, S>,
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
        self.replayer.count(1);
    }

    #[inline]
    fn batch(&mut self, batch: &EventBatch<'_>, live: &mut LiveBlocks) -> usize {
        if self.code_changes || self.windows.is_some() || self.sampler.is_some() {
            return 0;
        }
        let taken = self.accumulator.take_batch(batch, live);
        self.replayer.count(taken as u64);
        taken
    }

    fn fork(&mut self, fork: usize, live: &LiveBlocks) -> Result<(), ReplayError> {
        let Some(&child) = self.children.get(fork) else {
            return Ok(());
        };
        let inherited: Inherited = live
            .iter()
            .map(|(key, block)| (key, live.block(block).size))
            .collect();
        if self.depth >= FORK_DEPTH {
            self.replayer.later.borrow_mut().push((child, inherited));
            return Ok(());
        }
        self.replayer.image(child, &inherited, self.depth + 1)
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

/// Makes the process of an image from its figures and its records in the index.
pub(crate) fn process<H>(
    index: &Index<H>,
    image: &Image<H>,
    stats: ImageStats,
    names: &ThreadNames,
    frames: &mut FrameTable,
) -> Process {
    let start_ns = index.timeline.ns(image.start.tick);
    let mut totals = stats.totals;
    totals.peak_time_us = stats.peak_ns.saturating_sub(start_ns) / 1_000;
    let reported = image
        .losses
        .values()
        .fold(0_u64, |sum, &n| sum.saturating_add(n));
    let mut process = Process {
        id: image.start.image,
        pid: image.start.pid,
        parent_pid: image.start.parent_pid,
        origin: image.start.origin,
        forked_from: image.start.forked_from,
        executable: image.start.executable.clone(),
        command: image.start.command.clone(),
        started_us: start_ns / 1_000,
        duration_us: stats.end_ns.saturating_sub(start_ns) / 1_000,
        exit: image.end.map_or(Exit::Running, |end| end.exit),
        complete: image.end.is_some_and(|end| end.complete),
        // Not the sum: the implied losses are consequences of the reported ones.
        lost_events: reported.max(stats.implied_losses),
        losses: image
            .losses
            .iter()
            .map(|(&reason, &n)| (reason, n))
            .collect(),
        gaps: gaps_of(index, image, stats.end_ns),
        waits: 0,
        waited_us: 0,
        ambiguous_events: stats.ambiguous,
        unmatched_deallocations: stats.unmatched,
        unoptimised: frames.unoptimised(&image.start.executable),
        totals,
        sites: Vec::new(),
        truncated_stacks: 0,
        stacks_without_unwind_information: 0,
        threads: Vec::new(),
        entries: stats.entries,
        live: stats.series,
        resident: index.resident_of(image),
        windows: Vec::new(),
        times: None,
        thread_times: None,
        sizes: None,
        evidence: None,
    };
    let in_us = |ticks| {
        let end_ns = index.timeline.ns(image.start.tick.saturating_add(ticks));
        end_ns.saturating_sub(start_ns) / 1_000
    };
    for waited in image.waits.values() {
        process.waits = process.waits.saturating_add(waited.waits);
        process.waited_us = process.waited_us.saturating_add(in_us(waited.ticks));
    }
    let threads = image.threads.borrow();
    process.threads = (threads.known.iter().enumerate())
        .map(|(number, thread)| {
            let figures = stats.threads.get(number).copied().unwrap_or_default();
            let waited = image.waits.get(&thread.thread).copied().unwrap_or_default();
            ThreadTotals {
                thread: thread.thread,
                tid: thread.tid,
                name: thread
                    .thread
                    .and_then(|id| names.get(&id))
                    .cloned()
                    .unwrap_or_default(),
                allocations: figures.allocations,
                allocated_bytes: figures.allocated_bytes,
                deallocations: figures.deallocations,
                temporary_allocations: figures.temporary,
                waits: waited.waits,
                waited_us: in_us(waited.ticks),
            }
        })
        .collect();
    if index.recording.counts_only {
        image.counted.write_into(&mut process);
    }
    let jit = image.jit_code.borrow();
    let code = Code::of(image, &jit);
    let mut stacks = Stacks::default();
    for site in &stats.sites {
        let end = frames.stack(&code, site.stack_id, &mut stacks);
        process.truncated_stacks += u64::from(end == stack_end::TRUNCATED);
        process.stacks_without_unwind_information +=
            u64::from(end == stack_end::NO_UNWIND_INFORMATION);
    }
    let (sites, order) = sites_in_order(&stats.sites, stacks);
    process.sites = sites;
    if let Some(mut details) = stats.details {
        process.sizes = Some(details.take_sizes());
        for (site, &at) in process.sites.iter_mut().zip(&order) {
            site.details = details.take(at);
        }
        let details = process.sites.iter_mut().flat_map(|site| &mut site.details);
        set_frames(details.map(|it| &mut **it), &code, frames);
    }
    if stats.times.is_some() || stats.evidence.is_some() {
        let mut positions = vec![0; order.len()];
        for (position, &site) in (0..).zip(&order) {
            positions[site as usize] = position;
        }
        if let Some(Tables { sites, threads }) = stats.times {
            process.times = Some(sites.finish(&positions, stats.end_ns));
            let same: Vec<u32> = (0..process.threads.len() as u32).collect();
            process.thread_times = threads.map(|it| it.finish(&same, stats.end_ns));
        }
        let finish = |(evidence, held): (EvidenceBuilder, _)| evidence.finish(&positions, held);
        process.evidence = stats.evidence.map(finish);
    }
    process
}

/// Numbers the sites of all processes consecutively, from 1.
pub(crate) fn number_sites(profile: &mut Profile) {
    let mut number = 0;
    for process in &mut profile.processes {
        for site in &mut process.sites {
            number += 1;
            site.number = number;
        }
    }
}
