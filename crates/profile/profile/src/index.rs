//! The first pass over a trace: reads everything but events, by image, and lists each
//! stream's chunks of events without decoding them. A separate pass is necessary because
//! symbols, threads and mappings may follow the events that refer to them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use allotrope_trace::model::{
    Environment, ImageEnd, ImageId, ImageStart, Loss, LossReason, Mapping, MappingId, Mark, Module,
    ModuleId, Record, Recording, StreamId, Symbols, ThreadId, Unrecorded,
};
use rustc_hash::FxHashMap;

use crate::clock::Timeline;
use crate::counts::Counted;
use crate::error::AggregateError;
use crate::jit_code::JitCode;
use crate::model;
use crate::reachability::ScanRecords;
use crate::series::ResidentPoint;
use crate::source::{EventChunk, SourceEntry, TraceSource};
use crate::stack_tree::{self, StackTree, StackTrees};
use crate::threads::Threads;
use crate::window_table::WindowTable;

/// The contents of a trace except its events.
pub(crate) struct Index<H> {
    pub recording: Recording,
    pub timeline: Timeline,
    /// Images by id, which is also the order of start.
    pub images: BTreeMap<ImageId, Image<H>>,
    pub modules: FxHashMap<ModuleId, Module>,
    pub symbols: FxHashMap<ModuleId, Vec<Symbols>>,
    pub unrecorded: Vec<Unrecorded>,
    /// Marks in order of time.
    pub marks: Vec<Mark>,
    /// When each thread was seen to have ended, in ticks.
    pub thread_ends: FxHashMap<ThreadId, u64>,
    /// The last tick at which the recording is known to have run, from records that are
    /// of no image.
    pub last_tick: Option<u64>,
    /// Number of counted events.
    pub events: u64,
    /// Number of lost blocks of all images.
    pub lost_blocks: usize,
}

/// A record of resident memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resident {
    pub tick: u64,
    pub bytes: u64,
    pub recorder_bytes: Option<u64>,
}

/// The records of one image.
pub(crate) struct Image<H> {
    pub start: ImageStart,
    pub end: Option<ImageEnd>,
    /// The environment with which it began, if it is in the trace.
    pub environment: Option<Environment>,
    pub stacks: StackTree,
    pub mappings: FxHashMap<MappingId, Mapping>,
    /// Chunks of events, in stream order.
    pub streams: BTreeMap<StreamId, Vec<EventChunk<H>>>,
    /// The scan for reachable blocks at its exit.
    pub scan: ScanRecords,
    /// Resident memory.
    pub resident: Vec<Resident>,
    /// Number of lost events.
    pub losses: BTreeMap<LossReason, u64>,
    /// The records of lost events, in the order of the trace.
    pub lost: Vec<Loss>,
    pub waits: FxHashMap<Option<ThreadId>, Waited>,
    pub counted: Counted,
    pub threads: RefCell<Threads>,
    pub jit_code: RefCell<JitCode>,
    pub windows: WindowTable,
    /// The images forked from this one, in order of start.
    pub children: Vec<ImageId>,
}

/// How often and how many ticks a thread waited for the recording.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waited {
    pub waits: u64,
    pub ticks: u64,
}

impl<H> Image<H> {
    fn new(start: ImageStart) -> Self {
        Self {
            start,
            end: None,
            environment: None,
            stacks: StackTree::default(),
            mappings: FxHashMap::default(),
            streams: BTreeMap::new(),
            scan: ScanRecords::default(),
            resident: Vec::new(),
            losses: BTreeMap::new(),
            lost: Vec::new(),
            waits: FxHashMap::default(),
            counted: Counted::default(),
            threads: RefCell::default(),
            jit_code: RefCell::default(),
            windows: WindowTable::default(),
            children: Vec::new(),
        }
    }
}

/// Names of threads, apart from the index because their records do not name the image.
pub(crate) type ThreadNames = FxHashMap<ThreadId, String>;

/// Reads all entries of a trace except events. Records of an image without a start record
/// are ignored.
pub(crate) fn index<S: TraceSource>(
    source: &S,
) -> Result<(Index<S::Handle>, ThreadNames), AggregateError> {
    let mut index = Index {
        recording: Recording::default(),
        timeline: Timeline::default(),
        images: BTreeMap::new(),
        modules: FxHashMap::default(),
        symbols: FxHashMap::default(),
        unrecorded: Vec::new(),
        marks: Vec::new(),
        thread_ends: FxHashMap::default(),
        last_tick: None,
        events: 0,
        lost_blocks: 0,
    };
    let mut names = ThreadNames::default();
    let mut clocks = Vec::new();
    let mut stacks = Vec::new();
    source.visit(&mut |entry| {
        match entry {
            SourceEntry::Events(chunk) => {
                if let Some(image) = index.images.get_mut(&chunk.image) {
                    index.events += chunk.counted;
                    image.streams.entry(chunk.stream).or_default().push(chunk);
                }
            }
            SourceEntry::Stacks(part) => {
                if index.images.contains_key(&part.image) {
                    stacks.push(part);
                }
            }
            SourceEntry::Record(Record::Clock(clock)) => {
                index.last_tick = index.last_tick.max(Some(clock.tick));
                clocks.push(clock);
            }
            SourceEntry::Record(Record::ThreadName(name)) => {
                names.insert(name.thread, name.name);
            }
            SourceEntry::Record(record) => index.take(record),
        }
        Ok(())
    })?;
    index.timeline = Timeline::new(clocks, index.recording.started_tick);
    index.marks.sort_by_key(|mark| mark.tick);
    index.link_children();
    for image in index.images.values_mut() {
        image.windows.build(image.threads.get_mut());
    }
    index.add_stacks(stack_tree::read(source, &stacks)?);
    Ok((index, names))
}

impl<H> Index<H> {
    /// Adds a record.
    fn take(&mut self, record: Record) {
        match record {
            Record::Recording(recording) => self.recording = recording,
            Record::ImageStart(start) => {
                let id = start.image;
                self.images.entry(id).or_insert_with(|| Image::new(start));
            }
            Record::Module(module) => {
                self.modules.insert(module.module, module);
            }
            Record::Symbols(symbols) => {
                self.symbols
                    .entry(symbols.module)
                    .or_default()
                    .push(symbols);
            }
            Record::Unrecorded(unrecorded) => self.unrecorded.push(unrecorded),
            Record::Mark(mark) => self.marks.push(mark),
            Record::ThreadEnd(end) => {
                self.thread_ends.insert(end.thread, end.tick);
            }
            other => self.take_of_image(other),
        }
    }

    /// Adds a record of an image.
    fn take_of_image(&mut self, record: Record) {
        let Some(image) = image_of(&record).and_then(|id| self.images.get_mut(&id)) else {
            return;
        };
        match record {
            Record::ImageEnd(end) => image.end = Some(end),
            Record::Environment(environment) => {
                image.environment.get_or_insert(environment);
            }
            Record::LostBlocks { blocks, .. } => {
                image.scan.add(&blocks, &mut self.lost_blocks);
            }
            Record::Reachability(scan) => {
                image.scan.end.get_or_insert(scan);
            }
            Record::ThreadStart(start) => {
                let threads = image.threads.get_mut();
                let number = threads.number(start.thread) as usize;
                threads.known[number].tid = start.tid;
                threads.known[number].start_tick = Some(start.tick);
            }
            Record::Mapping(mapping) => {
                image.mappings.insert(mapping.mapping, mapping);
            }
            Record::JitSymbols(symbols) => image.jit_code.get_mut().add(symbols),
            Record::Window(window) => image.windows.add(window),
            Record::WindowEnd(end) => image.windows.add_end(end),
            Record::WindowCounts(counts) => image.windows.add_counts(counts),
            Record::ResidentSet {
                tick,
                bytes,
                recorder_bytes,
                ..
            } => image.resident.push(Resident {
                tick,
                bytes,
                recorder_bytes,
            }),
            Record::Counts(counts) => {
                let thread = image.threads.get_mut().number(counts.thread);
                image.counted.add(thread, &counts.entries);
            }
            Record::Loss(loss) => {
                let lost = image.losses.entry(loss.reason).or_default();
                *lost = lost.saturating_add(loss.events);
                image.lost.push(loss);
            }
            Record::Waits(new) => {
                let known = image.waits.entry(new.thread).or_default();
                known.waits = known.waits.saturating_add(new.waits);
                known.ticks = known.ticks.saturating_add(new.waited_ticks);
            }
            _ => {}
        }
    }

    /// The samples of an image's resident memory with their times.
    pub(crate) fn resident_of(&self, image: &Image<H>) -> Vec<ResidentPoint> {
        let samples = image.resident.iter().map(|sample| ResidentPoint {
            time_us: self.timeline.ns(sample.tick) / 1000,
            bytes: sample.bytes,
            recorder_bytes: sample.recorder_bytes,
        });
        samples.collect()
    }

    /// The marks with their times.
    pub(crate) fn named_moments(&self) -> Vec<model::Mark> {
        let named = self.marks.iter().map(|mark| model::Mark {
            name: mark.name.clone(),
            time_ns: self.timeline.ns(mark.tick),
        });
        named.collect()
    }

    /// The end of an image whose end the trace does not have: the last time at which it, or
    /// the recording, is known to have run. In nanoseconds since the start.
    pub(crate) fn last_seen(&self, image: &Image<H>) -> u64 {
        let chunks = image.streams.values().flatten();
        let seen = chunks.filter_map(|chunk| chunk.last_tick);
        let seen = seen.chain(image.resident.iter().map(|it| it.tick));
        let last = seen.chain(self.last_tick).max();
        let start = self.timeline.ns(image.start.tick);
        last.map_or(start, |tick| self.timeline.ns(tick).max(start))
    }

    /// Moves each image's stacks into it, and builds the tables of its JIT code, which
    /// need them.
    fn add_stacks(&mut self, mut trees: StackTrees) {
        for (id, image) in &mut self.images {
            image.stacks = trees.remove(id).unwrap_or_default();
            let code = image.jit_code.get_mut();
            code.build(&self.timeline, &image.stacks);
        }
    }

    /// Fills in [`Image::children`]: the trace only has the parent of each child. Ignores
    /// a parent that began after its child, which only a damaged file has, so that there
    /// are no cycles.
    fn link_children(&mut self) {
        let forks: Vec<(ImageId, ImageId)> = self
            .images
            .iter()
            .filter_map(|(&child, image)| Some((image.start.forked_from?, child)))
            .filter(|(parent, child)| parent < child)
            .collect();
        for (parent, child) in forks {
            if let Some(parent) = self.images.get_mut(&parent) {
                parent.children.push(child);
            }
        }
    }

    /// The environment with which the image began: a forked one has its parent's. `None` if the
    /// trace does not have it.
    pub(crate) fn environment_of(&self, id: ImageId) -> Option<&Environment> {
        let mut id = id;
        loop {
            let image = self.images.get(&id)?;
            let parent = image.start.forked_from.filter(|parent| *parent < id);
            match (&image.environment, parent) {
                (Some(environment), _) => return Some(environment),
                (None, Some(parent)) => id = parent,
                (None, None) => return None,
            }
        }
    }

    /// Whether the trace has the image's parent, whose aggregation determines what the image
    /// inherits.
    pub(crate) fn has_parent(&self, id: ImageId) -> bool {
        self.images
            .get(&id)
            .and_then(|image| image.start.forked_from)
            .is_some_and(|parent| parent < id && self.images.contains_key(&parent))
    }
}

/// The image of a record, if it is of one.
fn image_of(record: &Record) -> Option<ImageId> {
    match record {
        Record::ImageEnd(end) => Some(end.image),
        Record::Environment(environment) => Some(environment.image),
        Record::LostBlocks { image, .. } => Some(*image),
        Record::Reachability(scan) => Some(scan.image),
        Record::ThreadStart(start) => Some(start.image),
        Record::Mapping(mapping) => Some(mapping.image),
        Record::ResidentSet { image, .. } => Some(*image),
        Record::Counts(counts) => Some(counts.image),
        Record::Loss(loss) => Some(loss.image),
        Record::Waits(waits) => Some(waits.image),
        Record::JitSymbols(symbols) => Some(symbols.image),
        Record::Window(window) => Some(window.image),
        Record::WindowEnd(end) => Some(end.image),
        Record::WindowCounts(counts) => Some(counts.image),
        _ => None,
    }
}
