//! One event stream: the events of a ring since an image claimed it. Decodes the ring's
//! words, checks them, and collects the events until they fill a chunk of the trace.
//! Rare events become records at once. `drain` supplies the words and the image.

use std::time::Instant;

use allotrope_shm::arena::tick_now;
use allotrope_shm::wire::{self, Malformed, Node, Sums, WireEvent};
use allotrope_trace::model::{
    Counts, EntryPoint, EpochChange, Event, EventKind, Loss, LossReason, LostBlock, LostClass,
    Reachability, Record, ScanOutcome, StackId, StackNode, StreamId, ThreadEnd, ThreadId,
    ThreadStart, Waits, WindowCounts, WindowSums, stack_end,
};

use crate::counts::{self, CounterSnapshot};
use crate::descriptors::OpenDescriptors;
use crate::image::{ExecNote, Image};
use crate::stacks::RingStacks;
use crate::trace_context::TraceContext;

/// Pending events at which a chunk is written.
const CHUNK_EVENTS: usize = 32 << 10;
/// Capacity for pending events that a stream with few events keeps.
const IDLE_CAPACITY: usize = 1 << 10;

/// A stream and its events that are not in the trace yet.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    /// The image's slot.
    pub(crate) slot: usize,
    /// The claim of the ring to which this stream belongs.
    pub(crate) claim: u32,
    /// Id and tid of the thread that owns the ring; `None` for a nested ring.
    thread: Option<(ThreadId, u32)>,
    /// The thread of the next events.
    current_thread: Option<ThreadId>,
    /// The descriptors at the last `Descriptors` event.
    descriptors: Option<OpenDescriptors>,
    /// The counters as last written, in a recording that only counts calls.
    counters: CounterSnapshot,
    /// Number and sum of ticks of the current thread's waits for space that are not
    /// written yet.
    waits: (u64, u64),
    /// The last timestamp.
    last_tick: u64,
    stacks: RingStacks,
    pending: Vec<Event>,
    /// When the oldest pending event was read.
    oldest: Option<Instant>,
    /// Ordinal of the first pending event that has one.
    first_ordinal: u64,
    /// A loss was written because an event had an undefined stack id; later ones write
    /// none.
    undefined_stack_seen: bool,
}

/// Error: the words are malformed, so the ring cannot be read further.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

const EMPTY_EVENT: Event = Event {
    kind: EventKind::Timestamp,
    entry: EntryPoint::Malloc,
    alignment_log2: 0,
    stack: 0,
    address: 0,
    size: 0,
};

impl Stream {
    pub(crate) fn new(id: StreamId, slot: usize, claim: u32) -> Self {
        Self {
            id,
            slot,
            claim,
            thread: None,
            current_thread: None,
            descriptors: None,
            counters: CounterSnapshot::default(),
            waits: (0, 0),
            last_tick: 0,
            stacks: RingStacks::default(),
            pending: Vec::new(),
            oldest: None,
            first_ordinal: 0,
            undefined_stack_seen: false,
        }
    }

    /// Decodes the events in `words` that begin before the index `starts_below`, up to
    /// the first incomplete one; returns the number of words decoded.
    pub(crate) fn take(
        &mut self,
        words: &[u64],
        starts_below: usize,
        image: &mut Image,
        context: &mut TraceContext,
    ) -> Result<usize, Corrupt> {
        let before = self.pending.len();
        // An event after the note shows that the exec failed.
        if image
            .exec_note
            .as_ref()
            .is_some_and(|note| note.stream == self.id)
        {
            image.exec_note = None;
        }
        let result = self.take_events(words, starts_below, image, context);
        context.pending_events += self.pending.len() - before;
        if self.oldest.is_none() && !self.pending.is_empty() {
            self.oldest = Some(Instant::now());
        }
        result
    }

    fn take_events(
        &mut self,
        words: &[u64],
        starts_below: usize,
        image: &mut Image,
        context: &mut TraceContext,
    ) -> Result<usize, Corrupt> {
        let mut at = 0;
        let end = words.len().min(starts_below);
        while at < end {
            let length = self.take_frequent(&words[at..], image, context)?;
            if length > 0 {
                at += length;
                continue;
            }
            match wire::decode(&words[at..]) {
                Ok((word, length)) => {
                    self.take_event(word, image, context)?;
                    at += length;
                }
                Err(Malformed::Short) => break,
                Err(Malformed::Kind(_) | Malformed::Length) => return Err(Corrupt),
            }
        }
        Ok(at)
    }

    /// The fast path for the kinds of nearly all events: short allocations,
    /// deallocations, stack nodes and timestamps. Returns the number of words decoded;
    /// 0 if [`wire::decode`] has to decode the event or find out what is wrong with it.
    #[inline(always)]
    fn take_frequent(
        &mut self,
        words: &[u64],
        image: &mut Image,
        context: &mut TraceContext,
    ) -> Result<usize, Corrupt> {
        let Some(&first) = words.first() else {
            return Ok(0);
        };
        let kind = (first >> 48) as u8;
        if kind == wire::kind::DEALLOCATION {
            return Ok(self.take_short(first, None));
        }
        let Some(&second) = words.get(1) else {
            return Ok(0);
        };
        match kind {
            wire::kind::ALLOCATION | wire::kind::DEALLOCATION_AT => {
                return Ok(self.take_short(first, Some(second)));
            }
            wire::kind::NODE => {
                self.define_node(wire::decode_node(first, second), image, context)?
            }
            wire::kind::TIMESTAMP => self.push_timestamp(second, first as u32, context),
            _ => return Ok(0),
        }
        Ok(2)
    }

    /// Decodes a deallocation or, with a second word, a short allocation or a deallocation
    /// with its stack; returns the number of words decoded, 0 if they are invalid.
    #[inline(always)]
    fn take_short(&mut self, first: u64, second: Option<u64>) -> usize {
        let Some(entry) = EntryPoint::from_number((first >> 56) as u8) else {
            return 0;
        };
        let mut event = Event {
            kind: EventKind::Deallocation,
            entry,
            address: first & wire::ADDRESS_MASK,
            ..EMPTY_EVENT
        };
        let Some(second) = second else {
            self.pending.push(event);
            return 1;
        };
        let id = (second & wire::STACK_MASK) as u32;
        if (first >> 48) as u8 == wire::kind::ALLOCATION {
            event.kind = EventKind::Allocation;
            event.size = second >> wire::STACK_BITS;
        }
        event.stack = match self.stacks.get(id) {
            _ if id <= stack_end::NOT_RECORDED => id,
            Some(stack) => stack,
            None => return 0,
        };
        self.pending.push(event);
        2
    }

    #[inline]
    fn take_event(
        &mut self,
        word: WireEvent<'_>,
        image: &mut Image,
        context: &mut TraceContext,
    ) -> Result<(), Corrupt> {
        let event = match word {
            WireEvent::Allocation {
                entry,
                address,
                size,
                stack,
                alignment_log2,
            } => Event {
                kind: EventKind::Allocation,
                entry: entry_point(entry)?,
                alignment_log2: valid_alignment(alignment_log2)?,
                stack: self.stack(stack, image, context),
                address,
                size,
            },
            WireEvent::Deallocation {
                entry,
                address,
                stack,
            } => Event {
                kind: EventKind::Deallocation,
                entry: entry_point(entry)?,
                stack: stack.map_or(0, |stack| self.stack(stack, image, context)),
                address,
                ..EMPTY_EVENT
            },
            WireEvent::ReallocationStart {
                entry,
                address,
                stack,
            } => Event {
                kind: EventKind::ReallocationStart,
                entry: entry_point(entry)?,
                stack: stack.map_or(0, |stack| self.stack(stack, image, context)),
                address,
                ..EMPTY_EVENT
            },
            WireEvent::ReallocationEnd {
                entry,
                address,
                size,
                stack,
            } => Event {
                kind: EventKind::ReallocationEnd,
                entry: entry_point(entry)?,
                stack: self.stack(stack, image, context),
                address,
                size,
                ..EMPTY_EVENT
            },
            WireEvent::ReallocationFailed { .. } => Event {
                kind: EventKind::ReallocationFailed,
                ..EMPTY_EVENT
            },
            WireEvent::ReallocationFreed { .. } => Event {
                kind: EventKind::ReallocationFreed,
                ..EMPTY_EVENT
            },
            WireEvent::Timestamp { tick, clock } => {
                self.push_timestamp(tick, clock, context);
                return Ok(());
            }
            WireEvent::Node(node) => return self.define_node(node, image, context),
            rare => return self.take_rare_event(rare, image, context),
        };
        self.pending.push(event);
        Ok(())
    }

    /// Adds a timestamp. If it is known when the coarse clock left the value `clock`,
    /// which the thread saw with its events since the last timestamp, adds that time as
    /// a timestamp before it.
    fn push_timestamp(&mut self, tick: u64, clock: u32, context: &mut TraceContext) {
        if let Some(left) = context.coarse_clock.left(clock)
            && (self.last_tick..tick).contains(&left)
        {
            self.pending.push(marker_event(EventKind::Timestamp, left));
        }
        self.last_tick = tick;
        self.pending.push(marker_event(EventKind::Timestamp, tick));
    }

    #[cold]
    fn take_rare_event(
        &mut self,
        word: WireEvent<'_>,
        image: &mut Image,
        context: &mut TraceContext,
    ) -> Result<(), Corrupt> {
        match word {
            WireEvent::Epoch {
                tick,
                epoch,
                opted_out,
            } => {
                self.push_timestamp(tick, 0, context);
                let change = EpochChange { epoch, opted_out }.to_word();
                self.pending.push(marker_event(EventKind::Epoch, change));
            }
            WireEvent::Descriptors => self.descriptors = OpenDescriptors::of(image.pid_if_seen()),
            WireEvent::Window(words) => {
                let descriptors = self.descriptors.take();
                let thread = self.current_thread;
                let window = image.windows.open(image.id, thread, &words, descriptors);
                context.trace.write(&Record::Window(window));
            }
            WireEvent::WindowEnd {
                flags,
                opened,
                closed,
                tick,
            } => {
                let pid = image.pid_if_seen();
                let end = image
                    .windows
                    .close(image.id, pid, flags, [opened, closed], tick);
                context.trace.write(&Record::WindowEnd(end));
            }
            WireEvent::Thread { tid, tick, nested } => {
                self.begin_thread(tid, tick, nested, image, context);
            }
            WireEvent::ThreadName { tid, tick, name } => {
                self.name_thread(tid, tick, name, image, context);
            }
            WireEvent::Waited { ticks } => {
                let (waits, waited) = self.waits;
                self.waits = (waits + 1, waited.saturating_add(ticks));
            }
            WireEvent::LostBlock { address, class } => {
                let class = LostClass::from_number(class.into()).ok_or(Corrupt)?;
                if !address.is_multiple_of(LostBlock::ALIGNMENT) {
                    return Err(Corrupt);
                }
                image.add_lost_block(LostBlock { address, class }, &mut context.trace);
            }
            WireEvent::Reachability(scan) => {
                let outcome = ScanOutcome::from_number(scan.outcome.into()).ok_or(Corrupt)?;
                let scan = Reachability {
                    image: image.id,
                    tick: scan.tick,
                    outcome,
                    blocks: scan.blocks,
                    other_threads: scan.threads,
                };
                image.end_scan(scan, &mut context.trace);
            }
            WireEvent::ResetStackIds => self.stacks.clear(&mut context.budget),
            WireEvent::Mapping(words) => {
                let new = image.mappings.define(
                    image.id,
                    image.pid_if_seen(),
                    &words,
                    &mut context.modules,
                );
                if let Some(new) = new {
                    if let Some(module) = new.module {
                        context.trace.write(&Record::Module(module));
                    }
                    context.trace.write(&Record::Mapping(new.mapping));
                }
            }
            WireEvent::Unmapped { mapping } => context.trace.write(&Record::Unmapped {
                image: image.id,
                mapping: image.mappings.id(mapping),
                tick: tick_now(),
            }),
            WireEvent::Exit { status } => {
                image.exit_note = Some(status);
                image.exec_note = None;
            }
            WireEvent::Exec(exec) => {
                let path = exec.path.iter().collect();
                image.exec_note = Some(ExecNote {
                    stream: self.id,
                    path,
                });
            }
            WireEvent::WindowCounts {
                epoch,
                image: all,
                thread,
            } => context.trace.write(&Record::WindowCounts(WindowCounts {
                image: image.id,
                epoch,
                thread: self.current_thread,
                all: window_sums(all),
                of_thread: window_sums(thread),
            })),
            WireEvent::Counts(counts) => self.write_counts(counts::values(counts), image, context),
            // The only `Image` event of a ring is read by `attach`. The other kinds are
            // not rare.
            _ => return Err(Corrupt),
        }
        Ok(())
    }

    /// Handles a `Thread` event: the events that follow are of the thread `tid`.
    fn begin_thread(
        &mut self,
        tid: u32,
        tick: u64,
        nested: bool,
        image: &mut Image,
        context: &mut TraceContext,
    ) {
        self.write_waits(image, context);
        if let Some((thread, tid)) = self.thread
            && image.threads.end(thread, tid, tick)
        {
            // Another thread took over the ring, so its last thread has ended.
            context
                .trace
                .write(&Record::ThreadEnd(ThreadEnd { thread, tick }));
        }
        let announced = image.threads.announce(tid, nested, context.next_thread);
        if let Some(thread) = announced.ended {
            context
                .trace
                .write(&Record::ThreadEnd(ThreadEnd { thread, tick }));
        }
        let thread = announced.thread;
        if announced.is_new {
            context.next_thread += 1;
            image.note_new_thread(tid);
            context.trace.write(&Record::ThreadStart(ThreadStart {
                image: image.id,
                thread,
                tid,
                tick,
            }));
            if let Some((named_at, name)) = image.threads.take_early_name(tid, tick) {
                image.name_thread(tid, named_at, name, &mut context.trace);
            }
        }
        // A nested ring passes to another thread although its last one has not ended.
        self.thread = (!nested).then_some((thread, tid));
        self.current_thread = Some(thread);
        self.pending
            .push(marker_event(EventKind::Thread, u64::from(thread)));
        self.push_timestamp(tick, 0, context);
    }

    /// Handles a `ThreadName` event: the thread `tid` had this name at `tick`.
    fn name_thread(
        &mut self,
        tid: u32,
        tick: u64,
        name: wire::ThreadName,
        image: &mut Image,
        context: &mut TraceContext,
    ) {
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        image.name_thread(tid, tick, name, &mut context.trace);
    }

    #[inline]
    fn define_node(
        &mut self,
        defined: Node,
        image: &mut Image,
        context: &mut TraceContext,
    ) -> Result<(), Corrupt> {
        let Node { id, mapping, .. } = defined;
        if !(stack_end::FIRST_NODE..wire::STACK_IDS).contains(&id) {
            return Err(Corrupt);
        }
        let node = StackNode {
            parent: self.stack(defined.parent, image, context),
            address: defined.address,
            mapping: image.mappings.id(mapping),
            exact: defined.exact,
        };
        let stack = match image.stacks.intern(node, &mut context.budget) {
            Some((stack, is_new)) => {
                if is_new && mapping == wire::NO_MAPPING {
                    image.request_jit_symbol(node.address, node.exact, &mut context.jit_symbols);
                } else if is_new {
                    let modules = &mut context.modules;
                    image
                        .mappings
                        .request(mapping, node.address, node.exact, modules);
                }
                stack
            }
            None => stack_end::NOT_RECORDED,
        };
        if !self.stacks.define(id, stack, &mut context.budget) {
            context.stacks_refused += 1;
        }
        Ok(())
    }

    /// Converts a ring's stack id to the image's.
    #[inline]
    fn stack(&mut self, id: u32, image: &Image, context: &mut TraceContext) -> StackId {
        if id <= stack_end::NOT_RECORDED {
            return id;
        }
        match self.stacks.get(id) {
            Some(stack) => stack,
            None => self.undefined_stack(image, context),
        }
    }

    #[cold]
    fn undefined_stack(&mut self, image: &Image, context: &mut TraceContext) -> StackId {
        // Ids that the budget refused are undefined, but not corrupt.
        if !self.undefined_stack_seen && context.stacks_refused == 0 {
            self.undefined_stack_seen = true;
            context.trace.write(&Record::Loss(Loss {
                image: image.id,
                reason: LossReason::Corrupt,
                events: 1,
                tick: tick_now(),
            }));
        }
        stack_end::NOT_RECORDED
    }

    /// Whether the pending events fill a chunk.
    pub(crate) fn has_full_chunk(&self) -> bool {
        self.pending.len() >= CHUNK_EVENTS
    }

    /// When the oldest pending event was read.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.oldest
    }

    /// Writes the pending events, and before them the stacks that they refer to.
    pub(crate) fn write(&mut self, image: &mut Image, context: &mut TraceContext) {
        image.write_new_stacks(&mut context.trace);
        self.write_waits(image, context);
        self.oldest = None;
        if self.pending.is_empty() {
            return;
        }
        context.pending_events -= self.pending.len();
        if let Some(figures) = &mut context.figures {
            figures.take(image.id, self.id, &self.pending);
        }
        self.first_ordinal +=
            context
                .trace
                .write_events(image.id, self.id, self.first_ordinal, &self.pending);
        // The memory is reused; a stream that no longer fills chunks frees most of it.
        let busy = self.pending.len() >= CHUNK_EVENTS / 2;
        self.pending.clear();
        if !busy {
            self.pending.shrink_to(IDLE_CAPACITY);
        }
    }

    /// Writes number and duration of the current thread's waits since the last call.
    fn write_waits(&mut self, image: &Image, context: &mut TraceContext) {
        let (waits, waited_ticks) = std::mem::take(&mut self.waits);
        if waits > 0 {
            context.trace.write(&Record::Waits(Waits {
                image: image.id,
                thread: self.current_thread,
                tick: tick_now(),
                waits,
                waited_ticks,
            }));
        }
    }

    /// Writes the growth of the ring's counters since the last call.
    pub(crate) fn write_counts(
        &mut self,
        now: impl Iterator<Item = (usize, Sums)>,
        image: &Image,
        context: &mut TraceContext,
    ) {
        let Some(thread) = self.current_thread else {
            return;
        };
        let entries = self.counters.advance(now);
        if !entries.is_empty() {
            context.trace.write(&Record::Counts(Counts {
                image: image.id,
                thread,
                tick: tick_now(),
                entries,
            }));
        }
    }

    /// Returns the memory of the stream's stack ids to the budget.
    pub(crate) fn release(&mut self, context: &mut TraceContext) {
        self.stacks.clear(&mut context.budget);
    }
}

/// An event that is about no block, with its value in the address field.
const fn marker_event(kind: EventKind, value: u64) -> Event {
    Event {
        kind,
        address: value,
        ..EMPTY_EVENT
    }
}

fn window_sums(sums: Sums) -> WindowSums {
    let [allocations, allocated_bytes, deallocations, reallocations] = sums;
    WindowSums {
        allocations,
        allocated_bytes,
        deallocations,
        reallocations,
    }
}

#[inline]
fn entry_point(number: u8) -> Result<EntryPoint, Corrupt> {
    EntryPoint::from_number(number).ok_or(Corrupt)
}

/// Checks that 2 to the power of `log2` fits 64 bits.
#[inline]
fn valid_alignment(log2: u8) -> Result<u8, Corrupt> {
    if log2 < 64 { Ok(log2) } else { Err(Corrupt) }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use allotrope_shm::wire::head;
    use proptest::prelude::*;

    use super::*;
    use crate::process_exit::ExitDetection;
    use crate::trace_file::TraceFile;

    fn context() -> (tempfile::NamedTempFile, TraceContext) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let context = TraceContext::new(TraceFile::create(file.path(), None).unwrap());
        (file, context)
    }

    fn image() -> Image {
        Image::new(0, std::process::id(), ExitDetection::Gone, Instant::now())
    }

    #[test]
    fn events_that_begin_beyond_the_given_index_are_left() {
        let (_file, mut context) = context();
        let (mut stream, mut image) = (Stream::new(0, 0, 1), image());
        let free = head(wire::kind::DEALLOCATION, EntryPoint::Free as u8, 16);
        let taken = stream.take(&[free; 5], 3, &mut image, &mut context);
        assert_eq!(taken, Ok(3));
        assert_eq!(stream.pending.len(), 3);
        assert_eq!(context.pending_events, 3);
        stream.write(&mut image, &mut context);
        assert_eq!((context.pending_events, context.trace.events), (0, 3));
    }

    #[test]
    fn entry_points_and_alignments_that_do_not_exist_are_corrupt() {
        let (_file, mut context) = context();
        let (mut stream, mut image) = (Stream::new(0, 0, 1), image());
        let no_entry = EntryPoint::ALL.len() as u8;
        let free = [head(wire::kind::DEALLOCATION, no_entry, 16)];
        assert_eq!(
            stream.take(&free, 9, &mut image, &mut context),
            Err(Corrupt)
        );
        let long = head(wire::kind::ALLOCATION_LONG, 0, 16);
        let aligned = [long, 64 << wire::STACK_BITS, 1];
        assert_eq!(
            stream.take(&aligned, 9, &mut image, &mut context),
            Err(Corrupt)
        );
    }

    #[test]
    fn lost_blocks_of_no_class_and_unaligned_ones_are_corrupt() {
        let (_file, mut context) = context();
        let (mut stream, mut image) = (Stream::new(0, 0, 1), image());
        let mut taken = |kind, extra, payload| {
            let words = [head(kind, extra, payload), 1, 2];
            stream.take(&words, 1, &mut image, &mut context)
        };
        let definitely = LostClass::Definitely as u8;
        assert_eq!(taken(wire::kind::LOST_BLOCK, definitely, 64), Ok(1));
        assert_eq!(taken(wire::kind::LOST_BLOCK, 0, 64), Err(Corrupt));
        assert_eq!(taken(wire::kind::LOST_BLOCK, 4, 64), Err(Corrupt));
        assert_eq!(taken(wire::kind::LOST_BLOCK, definitely, 65), Err(Corrupt));
        let no_outcome = ScanOutcome::ALL.len() as u8;
        assert_eq!(taken(wire::kind::REACHABILITY, 0, 1), Ok(3));
        assert_eq!(taken(wire::kind::REACHABILITY, no_outcome, 1), Err(Corrupt));
    }

    /// Random words, many of them the first word of an event.
    fn hostile_words() -> impl Strategy<Value = Vec<u64>> {
        let event = (0..40u8, any::<u8>(), any::<u64>())
            .prop_map(|(kind, extra, payload)| head(kind, extra % 24, payload));
        let small = (0..64u64, 0..16u64).prop_map(|(low, high)| low | high << 16);
        let word = prop_oneof![4 => event, 2 => small, 1 => any::<u64>()];
        prop::collection::vec(word, 0..400)
    }

    proptest! {
        #[test]
        fn arbitrary_words_cost_no_more_than_their_length(words in hostile_words()) {
            let (_file, mut context) = context();
            let (mut stream, mut image) = (Stream::new(0, 0, 1), image());
            let mut at = 0;
            // Unlike the collector, this continues after a malformed word.
            while at < words.len() {
                match stream.take(&words[at..], usize::MAX, &mut image, &mut context) {
                    Ok(0) | Err(Corrupt) => at += 1,
                    Ok(taken) => at += taken,
                }
            }
            // A word makes at most one event and one timestamp. Words after a malformed
            // one may be decoded once more by the next attempt.
            prop_assert!(stream.pending.len() <= words.len() * words.len());
            prop_assert_eq!(stream.pending.len(), context.pending_events);
            prop_assert!(image.stacks.new_nodes() <= words.len());
            stream.write(&mut image, &mut context);
            prop_assert_eq!(context.pending_events, 0);
            prop_assert!(context.trace.check().is_ok());
        }

        #[test]
        fn one_pass_over_arbitrary_words_is_bounded(words in hostile_words()) {
            let (_file, mut context) = context();
            let (mut stream, mut image) = (Stream::new(0, 0, 1), image());
            if let Ok(taken) = stream.take(&words, usize::MAX, &mut image, &mut context) {
                prop_assert!(taken <= words.len());
            }
            prop_assert!(stream.pending.len() <= words.len());
            prop_assert!(image.stacks.new_nodes() * 2 <= words.len());
            prop_assert!(stream.stacks.pages() <= 1024);
        }
    }
}
