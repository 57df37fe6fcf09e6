//! The operations of one process in one order for all its threads ([`operations`]): what a
//! replay with another allocator needs. An operation is a call that allocated, freed or
//! reallocated a block; which block is a number, not an address.
//!
//! The order is that of every other figure (`merge`). The two events of a reallocation
//! become one operation at the place of its result, so that its block keeps its number. No
//! call of the crate's users sees events.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::path::PathBuf;

use allotrope_trace::model::{EntryPoint, ImageId, Variable};
use rustc_hash::FxHashMap;

use crate::aggregator::forks_of;
use crate::block_key::address_of;
use crate::cursor::{Cursor, EventBatch};
use crate::decode_ahead::DecodeAhead;
use crate::error::AggregateError;
use crate::index::{Image, Index, index};
use crate::live::{Blocks, LiveBlocks, NO_BLOCK};
use crate::merge::merge;
use crate::options::Helpers;
use crate::series::ResidentPoint;
use crate::sink::Sink;
use crate::source::TraceSource;
use crate::speculative::{BatchedEvent, PlacedBatch};
use crate::step::Step;

/// Operations between two reports of progress.
const PROGRESS_EACH: u64 = 1 << 16;

/// A process of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedProcess {
    /// Number of the image, in order of start.
    pub id: ImageId,
    /// Process id.
    pub pid: u32,
    /// Path of the executable.
    pub executable: PathBuf,
    /// The command line.
    pub command: Vec<OsString>,
    /// Number of its events; 0 where calls were only counted.
    pub events: u64,
    /// Events known to be lost.
    pub lost_events: u64,
    /// Start, in nanoseconds since the start of the recording.
    pub started_ns: u64,
    /// How long it ran, in nanoseconds, as far as the recording knows.
    pub duration_ns: u64,
    /// How long its threads waited for the recording, all together, in nanoseconds.
    pub waited_ns: u64,
    /// Resident memory, in order of time (microseconds since the start of the recording).
    pub resident: Vec<ResidentPoint>,
    /// When each thread ended that ended before the process (nanoseconds since the start of
    /// the recording), by the number that [`Operation::thread`] has.
    pub thread_ends: Vec<(u32, u64)>,
    /// The modules that were mapped into it and are on some stack, in no order.
    pub modules: Vec<PathBuf>,
    /// The variables with which it began, in their order; `None` if the recording does not have
    /// them, as those of minor versions before 6.
    pub environment: Option<Vec<Variable>>,
}

/// The processes of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedProcesses {
    /// Processes in order of start.
    pub processes: Vec<RecordedProcess>,
    /// Calls were only counted (`--counts-only`): there are no operations.
    pub counts_only: bool,
    /// Why the readable part of the recording ends early; `None` if it is whole.
    pub cut: Option<String>,
    /// The program is still being recorded.
    pub is_growing: bool,
}

/// Lists the processes of a recording. Reads everything but events.
///
/// # Errors
///
/// If the trace cannot be read, or a record of it is damaged.
pub fn recorded_processes<S: TraceSource>(source: &S) -> Result<RecordedProcesses, AggregateError> {
    let (index, _) = index(source)?;
    let processes = index.images.values().map(|image| describe(&index, image));
    Ok(RecordedProcesses {
        processes: processes.collect(),
        counts_only: index.recording.counts_only,
        cut: source.cut(),
        is_growing: source.is_growing(),
    })
}

fn describe<H>(index: &Index<H>, image: &Image<H>) -> RecordedProcess {
    let ns = |tick| index.timeline.ns(tick);
    let started_ns = ns(image.start.tick);
    let ended_ns = image
        .end
        .map_or_else(|| index.last_seen(image), |end| ns(end.tick));
    let threads = image.threads.borrow();
    let known = (0..).zip(&threads.known);
    let thread_ends = known.filter_map(|(number, thread)| {
        let tick = index.thread_ends.get(&thread.thread?)?;
        let end = ns(*tick);
        (end < ended_ns).then_some((number, end))
    });
    let mut modules: Vec<_> = image
        .mappings
        .values()
        .filter_map(|mapping| index.modules.get(&mapping.module))
        .map(|module| module.path.clone())
        .collect();
    modules.sort_unstable();
    modules.dedup();
    let waited = image.waits.values().map(|it| it.ticks);
    let waited = waited.fold(0, u64::saturating_add);
    RecordedProcess {
        id: image.start.image,
        pid: image.start.pid,
        executable: image.start.executable.clone(),
        command: image.start.command.clone(),
        events: image
            .streams
            .values()
            .flatten()
            .map(|chunk| chunk.counted)
            .sum(),
        lost_events: image
            .losses
            .values()
            .fold(0, |sum, &n| u64::saturating_add(sum, n)),
        started_ns,
        duration_ns: ended_ns.saturating_sub(started_ns),
        waited_ns: ns(image.start.tick.saturating_add(waited)).saturating_sub(started_ns),
        resident: index.resident_of(image),
        thread_ends: thread_ends.collect(),
        modules,
        environment: index
            .environment_of(image.start.image)
            .map(|it| it.variables.clone()),
    }
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Allocates a block.
    Allocate,
    /// Changes the size of a block, which may move and keeps its number.
    Reallocate,
    /// Frees a block.
    Free,
    /// Frees a block by a reallocation to no bytes.
    ReallocateToNothing,
    /// Frees a block whose allocation the recording does not have; has no block.
    FreeForeign,
    /// Reallocates a block whose allocation the recording does not have. The result is a new
    /// block.
    ReallocateForeign,
    /// Frees a block because another one was allocated at its address: the recording lacks
    /// its deallocation. No call of the program.
    FreeLost,
}

/// A call of the program to its allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub kind: OperationKind,
    /// The function that the program called.
    pub entry: EntryPoint,
    /// Base-2 logarithm of the requested alignment; 0 if the call has none.
    pub alignment_log2: u8,
    /// Number of the thread that called, dense in the process.
    pub thread: u32,
    /// Number of the block. A number is used again after its block was freed, so there are
    /// never more numbers than there were live blocks.
    pub block: u32,
    /// Requested bytes; 0 for deallocations.
    pub size: u64,
    /// Estimated time, in nanoseconds since the start of the recording. Never decreases.
    pub time_ns: u64,
    /// Address that the block had in the program (after the operation); for tests and for
    /// people, since a replay has other addresses.
    pub address: u64,
}

/// How operations are read.
#[derive(Default, Clone, Copy)]
pub struct OperationOptions<'a> {
    /// Called now and then with the number of events read so far and of all events.
    pub progress: Option<&'a dyn Fn(u64, u64)>,
    /// Whether other threads decode events.
    pub helpers: Helpers,
}

/// Calls `each` with every operation of a process, in order. A forked process's operations
/// on blocks that it inherited are on foreign blocks. Blocks of pools are left out: they are
/// parts of blocks.
///
/// # Errors
///
/// If the trace cannot be read, a chunk of it is damaged, or it has no such process.
pub fn operations<S: TraceSource>(
    source: &S,
    process: ImageId,
    options: &OperationOptions<'_>,
    each: &mut dyn FnMut(&Operation),
) -> Result<(), AggregateError> {
    let (index, _) = index(source)?;
    if !index.images.contains_key(&process) {
        return Err(AggregateError::NoSuchProcess(process));
    }
    let mut path = vec![process];
    while let Some(&id) = path.last()
        && index.has_parent(id)
    {
        let parent = index.images.get(&id).and_then(|it| it.start.forked_from);
        path.extend(parent);
    }
    let reader = OperationReader {
        source,
        index: &index,
        options,
        each: RefCell::new(each),
        path,
        events: Cell::new(0),
    };
    // Iteratively, since a hostile file may have a long chain of forks.
    let mut inherited = Vec::new();
    for depth in (0..reader.path.len()).rev() {
        inherited = reader.image(depth, &inherited)?;
    }
    Ok(())
}

struct OperationReader<'a, S: TraceSource> {
    source: &'a S,
    index: &'a Index<S::Handle>,
    options: &'a OperationOptions<'a>,
    each: RefCell<&'a mut dyn FnMut(&Operation)>,
    /// The process, its parent, the parent's parent, … as far as the trace has them.
    path: Vec<ImageId>,
    /// Number of events read so far.
    events: Cell<u64>,
}

impl<S: TraceSource> OperationReader<'_, S> {
    /// Reads the image at this index of the path. Returns the keys and sizes that the next
    /// one inherits.
    fn image(
        &self,
        depth: usize,
        inherited: &[(u64, u64)],
    ) -> Result<Vec<(u64, u64)>, AggregateError> {
        let Some(image) = self.index.images.get(&self.path[depth]) else {
            return Ok(Vec::new());
        };
        let timeline = &self.index.timeline;
        let start_ns = timeline.ns(image.start.tick);
        let end_ns = image.end.map(|end| timeline.ns(end.tick).max(start_ns));
        let streams = || image.streams.values().map(Vec::as_slice);
        let live = LiveBlocks::new(inherited.iter().copied(), start_ns);
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
        let child = depth.checked_sub(1).map(|child| self.path[child]);
        let mut sink = OperationSink {
            reader: self,
            child: image.children.iter().position(|&it| Some(it) == child),
            wanted: child.is_none(),
            inherited: Vec::new(),
            numbers: Numbers::default(),
            by_id: Vec::new(),
            open: FxHashMap::default(),
        };
        let forks = forks_of(self.index, image);
        ahead.during(self.options.helpers, || {
            merge(cursors, live, &forks, &mut sink)
        })?;
        sink.finish();
        Ok(sink.inherited)
    }

    fn count(&self) {
        let events = self.events.get() + 1;
        self.events.set(events);
        if events.is_multiple_of(PROGRESS_EACH)
            && let Some(progress) = self.options.progress
        {
            progress(events.min(self.index.events), self.index.events);
        }
    }
}

/// A reallocation whose result has not been read.
#[derive(Clone, Copy)]
struct Open {
    step: Step,
    /// `None` for a foreign block.
    number: Option<u32>,
}

/// Turns the merged events of an image into operations.
struct OperationSink<'r, 'a, S: TraceSource> {
    reader: &'r OperationReader<'a, S>,
    /// The fork that leads to the wanted process.
    child: Option<usize>,
    /// Whether this is the wanted process.
    wanted: bool,
    inherited: Vec<(u64, u64)>,
    numbers: Numbers,
    /// Number of each live block, by its id in [`LiveBlocks`]; [`NO_NUMBER`] for a foreign one.
    by_id: Vec<u32>,
    /// The open reallocation of each thread.
    open: FxHashMap<u32, Open>,
}

const NO_NUMBER: u32 = u32::MAX;

/// The numbers of blocks: freed ones are used again, the last one first.
#[derive(Default)]
struct Numbers {
    free: Vec<u32>,
    next: u32,
}

impl Numbers {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let number = self.next;
            // LiveBlocks has 32-bit ids, too, so there are enough.
            self.next = self.next.saturating_add(1);
            number
        })
    }
}

impl<S: TraceSource> Sink for OperationSink<'_, '_, S> {
    fn step(&mut self, step: &Step, blocks: Blocks, _live: &mut LiveBlocks) {
        self.reader.count();
        if !self.wanted || step.entry == EntryPoint::Pool {
            return;
        }
        if !self.open.is_empty() {
            self.close_before(step);
        }
        if step.allocates {
            self.allocation(step, blocks);
        } else {
            self.deallocation(step, blocks);
        }
    }

    fn batch(&mut self, _batch: &EventBatch<'_>, _live: &mut LiveBlocks) -> usize {
        // Every event needs its block.
        0
    }

    fn placed(&mut self, _: &PlacedBatch, _: &[BatchedEvent], _: &mut LiveBlocks) -> bool {
        false
    }

    fn fork(&mut self, fork: usize, live: &LiveBlocks) -> Result<(), AggregateError> {
        if self.child == Some(fork) {
            // Only which blocks are live matters for the order; not how large they are.
            self.inherited = live.iter().map(|(key, _)| (key, 0)).collect();
        }
        Ok(())
    }
}

impl<S: TraceSource> OperationSink<'_, '_, S> {
    /// A reallocation is followed by its result in its thread. If another event of the
    /// thread follows, the block was freed (`realloc(p, 0)`).
    fn close_before(&mut self, step: &Step) {
        if step.allocates && step.reallocation {
            return;
        }
        if let Some(open) = self.open.remove(&step.thread) {
            self.freed(&open);
        }
    }

    fn finish(&mut self) {
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_unstable_by_key(|&(thread, _)| thread);
        for (_, open) in open {
            self.freed(&open);
        }
    }

    fn freed(&mut self, open: &Open) {
        let kind = match open.number {
            Some(_) => OperationKind::ReallocateToNothing,
            None => OperationKind::FreeForeign,
        };
        self.numbers.free.extend(open.number);
        self.emit(&open.step, kind, open.number);
    }

    fn allocation(&mut self, step: &Step, blocks: Blocks) {
        if let Some(number) = self.forget(blocks.replaced) {
            self.numbers.free.push(number);
            self.emit(step, OperationKind::FreeLost, Some(number));
        }
        let open = step.reallocation.then(|| self.open.remove(&step.thread));
        let (kind, number) = match open.flatten() {
            Some(Open {
                number: Some(number),
                ..
            }) => (OperationKind::Reallocate, number),
            Some(_) => (OperationKind::ReallocateForeign, self.numbers.take()),
            None => (OperationKind::Allocate, self.numbers.take()),
        };
        if blocks.block >= self.by_id.len() {
            self.by_id.resize(blocks.block + 1, NO_NUMBER);
        }
        self.by_id[blocks.block] = number;
        self.emit(step, kind, Some(number));
    }

    fn deallocation(&mut self, step: &Step, blocks: Blocks) {
        let number = self.forget(blocks.block);
        if step.reallocation {
            let open = Open {
                step: *step,
                number,
            };
            self.open.insert(step.thread, open);
            return;
        }
        let kind = match number {
            Some(_) => OperationKind::Free,
            None => OperationKind::FreeForeign,
        };
        self.numbers.free.extend(number);
        self.emit(step, kind, number);
    }

    /// Removes the number of a block; `None` for a foreign block and for none.
    fn forget(&mut self, block: usize) -> Option<u32> {
        if block == NO_BLOCK {
            return None;
        }
        let number = self.by_id.get_mut(block)?;
        let number = std::mem::replace(number, NO_NUMBER);
        (number != NO_NUMBER).then_some(number)
    }

    fn emit(&self, step: &Step, kind: OperationKind, number: Option<u32>) {
        let frees = !matches!(
            kind,
            OperationKind::Allocate | OperationKind::Reallocate | OperationKind::ReallocateForeign
        );
        (self.reader.each.borrow_mut())(&Operation {
            kind,
            entry: step.entry,
            alignment_log2: step.alignment_log2,
            thread: step.thread,
            block: number.unwrap_or(NO_NUMBER),
            size: if frees { 0 } else { step.size },
            time_ns: step.time,
            address: address_of(step.key),
        });
    }
}
