//! One event stream: what came through a ring since an image claimed it.
//! Turns ring words into the trace's events. Which words, and whose the ring
//! is, is decided in `drain`.

use std::time::Instant;

use allotrope_shm::arena::tick_now;
use allotrope_shm::wire::{self, Malformed, Node, Sums, WireEvent};
use allotrope_trace::model::{
    Counts, EntryPoint, EpochChange, Event, EventKind, Loss, LossReason, Record, StackId,
    StackNode, StreamId, ThreadEnd, ThreadId, ThreadStart, Waits, WindowCounts, WindowSums,
    stack_end,
};

use crate::book::Book;
use crate::counts::{self, Told};
use crate::descriptors::OpenDescriptors;
use crate::image::{ExecNote, Image};
use crate::stacks::RingStacks;

/// Events that are collected before they are written.
const RUN: usize = 32 << 10;
/// Room that a stream keeps while little comes through it.
const IDLE_ROOM: usize = 1 << 10;

/// A stream and what of it is not in the trace yet.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    /// The image's slot.
    pub(crate) slot: usize,
    /// The ring's claim that this stream is of.
    pub(crate) claim: u32,
    thread: Option<(ThreadId, u32)>,
    /// Whose the coming events are.
    speaker: Option<ThreadId>,
    /// What was open when the thread last asked for it to be remembered.
    descriptors: Option<OpenDescriptors>,
    /// What was told of the ring's counters, where calls are only counted.
    told: Told,
    /// How often, and how many ticks, the speaker waited; not told yet.
    waits: (u64, u64),
    /// The last time that it marked.
    last_tick: u64,
    stacks: RingStacks,
    pending: Vec<Event>,
    /// Since when something is pending.
    oldest: Option<Instant>,
    /// Counted events before the pending ones.
    first_ordinal: u64,
    undefined_stack_seen: bool,
}

/// The words are no events, or no sense: the ring can not be read further.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

const NOTHING: Event = Event {
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
            speaker: None,
            descriptors: None,
            told: Told::default(),
            waits: (0, 0),
            last_tick: 0,
            stacks: RingStacks::default(),
            pending: Vec::new(),
            oldest: None,
            first_ordinal: 0,
            undefined_stack_seen: false,
        }
    }

    /// Takes the events in `words` that begin before the word `starts_below`,
    /// up to the first that is not whole. Gives the words taken.
    pub(crate) fn take(
        &mut self,
        words: &[u64],
        starts_below: usize,
        image: &mut Image,
        book: &mut Book,
    ) -> Result<usize, Corrupt> {
        let before = self.pending.len();
        // What comes after the note shows that the exec failed.
        if image
            .exec_note
            .as_ref()
            .is_some_and(|note| note.stream == self.id)
        {
            image.exec_note = None;
        }
        let result = self.take_events(words, starts_below, image, book);
        book.pending_events += self.pending.len() - before;
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
        book: &mut Book,
    ) -> Result<usize, Corrupt> {
        let mut at = 0;
        let end = words.len().min(starts_below);
        while at < end {
            let length = self.take_frequent(&words[at..], image, book)?;
            if length > 0 {
                at += length;
                continue;
            }
            match wire::decode(&words[at..]) {
                Ok((word, length)) => {
                    self.take_event(word, image, book)?;
                    at += length;
                }
                Err(Malformed::Short) => break,
                Err(Malformed::Kind(_) | Malformed::Length) => return Err(Corrupt),
            }
        }
        Ok(at)
    }

    /// Takes a short allocation, a deallocation, a stack's node or a mark of the
    /// time, if all is well with it: nearly all events are one of these. Gives
    /// the words taken; 0 for what is to be looked at more closely.
    #[inline(always)]
    fn take_frequent(
        &mut self,
        words: &[u64],
        image: &mut Image,
        book: &mut Book,
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
            wire::kind::ALLOCATION => return Ok(self.take_short(first, Some(second))),
            wire::kind::NODE => self.define(wire::decode_node(first, second), image, book)?,
            wire::kind::TIMESTAMP => self.pass_time(second, first as u32, book),
            _ => return Ok(0),
        }
        Ok(2)
    }

    /// Takes a deallocation or, with a second word, a short allocation; gives the
    /// words taken.
    #[inline(always)]
    fn take_short(&mut self, first: u64, second: Option<u64>) -> usize {
        let Some(entry) = EntryPoint::from_number((first >> 56) as u8) else {
            return 0;
        };
        let mut event = Event {
            kind: EventKind::Deallocation,
            entry,
            address: first & wire::ADDRESS_MASK,
            ..NOTHING
        };
        let Some(second) = second else {
            self.pending.push(event);
            return 1;
        };
        let id = (second & wire::STACK_MASK) as u32;
        event.kind = EventKind::Allocation;
        event.size = second >> wire::STACK_BITS;
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
        book: &mut Book,
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
                stack: self.stack(stack, image, book),
                address,
                size,
            },
            WireEvent::Deallocation { entry, address } => Event {
                kind: EventKind::Deallocation,
                entry: entry_point(entry)?,
                address,
                ..NOTHING
            },
            WireEvent::ReallocationStart { entry, address } => Event {
                kind: EventKind::ReallocationStart,
                entry: entry_point(entry)?,
                address,
                ..NOTHING
            },
            WireEvent::ReallocationEnd {
                entry,
                address,
                size,
                stack,
            } => Event {
                kind: EventKind::ReallocationEnd,
                entry: entry_point(entry)?,
                stack: self.stack(stack, image, book),
                address,
                size,
                ..NOTHING
            },
            WireEvent::ReallocationFailed { .. } => Event {
                kind: EventKind::ReallocationFailed,
                ..NOTHING
            },
            WireEvent::ReallocationFreed { .. } => Event {
                kind: EventKind::ReallocationFreed,
                ..NOTHING
            },
            WireEvent::Timestamp { tick, clock } => {
                self.pass_time(tick, clock, book);
                return Ok(());
            }
            WireEvent::Node(node) => return self.define(node, image, book),
            rare => return self.take_rare_event(rare, image, book),
        };
        self.pending.push(event);
        Ok(())
    }

    /// A mark of the time, behind one of when the coarse clock left the value
    /// that the events since the last mark were recorded at.
    fn pass_time(&mut self, tick: u64, clock: u32, book: &mut Book) {
        if let Some(left) = book.coarse_clock.left(clock)
            && (self.last_tick..tick).contains(&left)
        {
            self.pending.push(mark(EventKind::Timestamp, left));
        }
        self.last_tick = tick;
        self.pending.push(mark(EventKind::Timestamp, tick));
    }

    #[cold]
    fn take_rare_event(
        &mut self,
        word: WireEvent<'_>,
        image: &mut Image,
        book: &mut Book,
    ) -> Result<(), Corrupt> {
        match word {
            WireEvent::Epoch {
                tick,
                epoch,
                opted_out,
            } => {
                self.pass_time(tick, 0, book);
                let told = EpochChange { epoch, opted_out }.to_word();
                self.pending.push(mark(EventKind::Epoch, told));
            }
            WireEvent::Descriptors => self.descriptors = OpenDescriptors::of(image.pid_if_seen()),
            WireEvent::Window(words) => {
                let descriptors = self.descriptors.take();
                let thread = self.speaker;
                let window = image.windows.open(image.id, thread, &words, descriptors);
                book.trace.write(&Record::Window(window));
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
                book.trace.write(&Record::WindowEnd(end));
            }
            WireEvent::Thread { tid, tick, nested } => {
                self.announce(tid, tick, nested, image, book);
            }
            WireEvent::Waited { ticks } => {
                let (waits, waited) = self.waits;
                self.waits = (waits + 1, waited.saturating_add(ticks));
            }
            WireEvent::ResetStackIds => self.stacks.forget(&mut book.budget),
            WireEvent::Mapping(words) => {
                let new = image
                    .mappings
                    .define(image.id, image.pid, &words, &mut book.modules);
                if let Some(new) = new {
                    if let Some(module) = new.module {
                        book.trace.write(&Record::Module(module));
                    }
                    book.trace.write(&Record::Mapping(new.mapping));
                }
            }
            WireEvent::Unmapped { mapping } => book.trace.write(&Record::Unmapped {
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
            } => book.trace.write(&Record::WindowCounts(WindowCounts {
                image: image.id,
                epoch,
                thread: self.speaker,
                all: window_sums(all),
                of_thread: window_sums(thread),
            })),
            WireEvent::Counts(counts) => self.write_counts(counts::said(counts), image, book),
            // An image is announced once, and that was read on its arrival;
            // everything else is not rare.
            _ => return Err(Corrupt),
        }
        Ok(())
    }

    fn announce(&mut self, tid: u32, tick: u64, nested: bool, image: &mut Image, book: &mut Book) {
        self.write_waits(image, book);
        if let Some((thread, tid)) = self.thread
            && image.threads.end(thread, tid)
        {
            // Another thread took the ring over, so its last one is gone.
            book.trace
                .write(&Record::ThreadEnd(ThreadEnd { thread, tick }));
        }
        let announced = image.threads.announce(tid, nested, book.next_thread);
        if let Some(thread) = announced.ended {
            book.trace
                .write(&Record::ThreadEnd(ThreadEnd { thread, tick }));
        }
        let thread = announced.thread;
        if announced.is_new {
            book.next_thread += 1;
            image.note_fresh_thread(tid);
            book.trace.write(&Record::ThreadStart(ThreadStart {
                image: image.id,
                thread,
                tid,
                tick,
            }));
        }
        // A nested ring goes from thread to thread without any of them ending.
        self.thread = (!nested).then_some((thread, tid));
        self.speaker = Some(thread);
        self.pending
            .push(mark(EventKind::Thread, u64::from(thread)));
        self.pass_time(tick, 0, book);
    }

    #[inline]
    fn define(&mut self, told: Node, image: &mut Image, book: &mut Book) -> Result<(), Corrupt> {
        let Node { id, mapping, .. } = told;
        if !(stack_end::FIRST_NODE..wire::STACK_IDS).contains(&id) {
            return Err(Corrupt);
        }
        let node = StackNode {
            parent: self.stack(told.parent, image, book),
            address: told.address,
            mapping: image.mappings.id(mapping),
            exact: told.exact,
        };
        let stack = match image.stacks.intern(node, &mut book.budget) {
            Some((stack, is_new)) => {
                if is_new && mapping == wire::NO_MAPPING {
                    image.want_jit(node.address, node.exact, &mut book.jit_symbols);
                } else if is_new {
                    let modules = &mut book.modules;
                    image
                        .mappings
                        .want(mapping, node.address, node.exact, modules);
                }
                stack
            }
            None => stack_end::NOT_RECORDED,
        };
        if !self.stacks.define(id, stack, &mut book.budget) {
            book.stacks_refused += 1;
        }
        Ok(())
    }

    /// The image's id of a ring's stack id.
    #[inline]
    fn stack(&mut self, id: u32, image: &Image, book: &mut Book) -> StackId {
        if id <= stack_end::NOT_RECORDED {
            return id;
        }
        match self.stacks.get(id) {
            Some(stack) => stack,
            None => self.undefined_stack(image, book),
        }
    }

    #[cold]
    fn undefined_stack(&mut self, image: &Image, book: &mut Book) -> StackId {
        // Ids that the budget refused are undefined by our own doing.
        if !self.undefined_stack_seen && book.stacks_refused == 0 {
            self.undefined_stack_seen = true;
            book.trace.write(&Record::Loss(Loss {
                image: image.id,
                reason: LossReason::Corrupt,
                events: 1,
                tick: tick_now(),
            }));
        }
        stack_end::NOT_RECORDED
    }

    /// Enough is pending for a run of its own.
    pub(crate) fn has_run(&self) -> bool {
        self.pending.len() >= RUN
    }

    /// Since when something is pending.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.oldest
    }

    /// Writes what is pending, the stacks it refers to first.
    pub(crate) fn write(&mut self, image: &mut Image, book: &mut Book) {
        image.write_fresh_stacks(&mut book.trace);
        self.write_waits(image, book);
        self.oldest = None;
        if self.pending.is_empty() {
            return;
        }
        book.pending_events -= self.pending.len();
        self.first_ordinal +=
            book.trace
                .write_events(image.id, self.id, self.first_ordinal, &self.pending);
        // The memory is used again, but a stream that has become quiet does
        // not keep what a busy one needs.
        let busy = self.pending.len() >= RUN / 2;
        self.pending.clear();
        if !busy {
            self.pending.shrink_to(IDLE_ROOM);
        }
    }

    /// Writes how often and how long the speaker waited since the last time.
    fn write_waits(&mut self, image: &Image, book: &mut Book) {
        let (waits, waited_ticks) = std::mem::take(&mut self.waits);
        if waits > 0 {
            book.trace.write(&Record::Waits(Waits {
                image: image.id,
                thread: self.speaker,
                tick: tick_now(),
                waits,
                waited_ticks,
            }));
        }
    }

    /// Writes what was added to the ring's counters since the last time.
    pub(crate) fn write_counts(
        &mut self,
        now: impl Iterator<Item = (usize, Sums)>,
        image: &Image,
        book: &mut Book,
    ) {
        let Some(thread) = self.speaker else {
            return;
        };
        let entries = self.told.tell(now);
        if !entries.is_empty() {
            book.trace.write(&Record::Counts(Counts {
                image: image.id,
                thread,
                tick: tick_now(),
                entries,
            }));
        }
    }

    /// Gives the memory of its tables back.
    pub(crate) fn release(&mut self, book: &mut Book) {
        self.stacks.forget(&mut book.budget);
    }
}

const fn mark(kind: EventKind, value: u64) -> Event {
    Event {
        kind,
        address: value,
        ..NOTHING
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

/// Alignments are powers of two that fit a 64-bit word.
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
    use crate::trace_file::TraceFile;
    use crate::watch::Watch;

    fn book() -> (tempfile::NamedTempFile, Book) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let book = Book::new(TraceFile::create(file.path(), None).unwrap());
        (file, book)
    }

    fn image() -> Image {
        Image::new(0, std::process::id(), Watch::Gone, Instant::now())
    }

    #[test]
    fn events_that_begin_behind_the_ring_are_left() {
        let (_file, mut book) = book();
        let (mut stream, mut image) = (Stream::new(0, 0, 1), image());
        let free = head(wire::kind::DEALLOCATION, EntryPoint::Free as u8, 16);
        let taken = stream.take(&[free; 5], 3, &mut image, &mut book);
        assert_eq!(taken, Ok(3));
        assert_eq!(stream.pending.len(), 3);
        assert_eq!(book.pending_events, 3);
        stream.write(&mut image, &mut book);
        assert_eq!((book.pending_events, book.trace.events), (0, 3));
    }

    #[test]
    fn entry_points_and_alignments_that_do_not_exist_are_corrupt() {
        let (_file, mut book) = book();
        let (mut stream, mut image) = (Stream::new(0, 0, 1), image());
        let no_entry = EntryPoint::ALL.len() as u8;
        let free = [head(wire::kind::DEALLOCATION, no_entry, 16)];
        assert_eq!(stream.take(&free, 9, &mut image, &mut book), Err(Corrupt));
        let long = head(wire::kind::ALLOCATION_LONG, 0, 16);
        let aligned = [long, 64 << wire::STACK_BITS, 1];
        assert_eq!(
            stream.take(&aligned, 9, &mut image, &mut book),
            Err(Corrupt)
        );
    }

    /// Words of which many begin an event of some kind.
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
            let (_file, mut book) = book();
            let (mut stream, mut image) = (Stream::new(0, 0, 1), image());
            let mut at = 0;
            // What a collector does after corruption, but going on.
            while at < words.len() {
                match stream.take(&words[at..], usize::MAX, &mut image, &mut book) {
                    Ok(0) | Err(Corrupt) => at += 1,
                    Ok(taken) => at += taken,
                }
            }
            // A word makes at most one event and a mark of the time. The
            // corrupt attempts above may take what follows them twice.
            prop_assert!(stream.pending.len() <= words.len() * words.len());
            prop_assert_eq!(stream.pending.len(), book.pending_events);
            prop_assert!(image.stacks.fresh_nodes() <= words.len());
            stream.write(&mut image, &mut book);
            prop_assert_eq!(book.pending_events, 0);
            prop_assert!(book.trace.check().is_ok());
        }

        #[test]
        fn one_pass_over_arbitrary_words_is_bounded(words in hostile_words()) {
            let (_file, mut book) = book();
            let (mut stream, mut image) = (Stream::new(0, 0, 1), image());
            if let Ok(taken) = stream.take(&words, usize::MAX, &mut image, &mut book) {
                prop_assert!(taken <= words.len());
            }
            prop_assert!(stream.pending.len() <= words.len());
            prop_assert!(image.stacks.fresh_nodes() * 2 <= words.len());
            prop_assert!(stream.stacks.pages() <= 1024);
        }
    }
}
