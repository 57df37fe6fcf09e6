//! Reads one stream: decodes its chunks as they are needed, finds thread and time of
//! each event, and pairs the halves of reallocations.
//!
//! A stream has exact order and, at its timestamps, exact time. The event behind a
//! timestamp was recorded right after it; the times of the others are interpolated
//! between the two timestamps around them.

mod reallocation;
mod segment;

use std::cell::{Cell, RefCell};

use allotrope_trace::model::{EntryPoint, EpochChange, Event, EventKind, StackId};

use crate::block_key::block_key;
use crate::clock::Timeline;
use crate::decode_ahead::DecodeAhead;
use crate::error::ReplayError;
use crate::index::Threads;
use crate::live::{AHEAD, LiveBlocks};
use crate::source::{EventChunk, TraceSource};
use crate::window_table::{Rank, WindowTable};
use reallocation::{OPEN_LIMIT, OpenStart};
use segment::Segment;
pub(crate) use segment::{EventBatch, TimeInterpolation};

/// How many events ahead something is looked for: a reallocation's answer, what
/// another stream waits for.
pub(crate) const LOOK_AHEAD: usize = 256;
/// Chunks ahead in which the next timestamp is searched.
const CHUNKS_AHEAD: usize = 16;
/// Guess of the number of events between the start of a chunk and its first timestamp.
const USUAL_GAP: u64 = 16;
/// An allocation or deallocation: an event of a stream with its thread and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// The block's key (see [`crate::block_key`]).
    pub key: u64,
    pub size: u64,
    /// Nanoseconds: interpolated by the cursor, then raised by the merge where the
    /// order demands it.
    pub time: u64,
    /// It happened after this and before `upper`.
    pub lower: u64,
    pub upper: u64,
    /// Counted events of the stream before it.
    pub ordinal: u64,
    pub stack: StackId,
    /// The thread's dense number in its image.
    pub thread: u32,
    /// The rank of its epoch (see [`crate::window_table`]).
    pub rank: Rank,
    pub entry: EntryPoint,
    pub allocates: bool,
    /// The allocation answers a reallocation.
    pub reallocation: bool,
    /// Another order would do as well.
    pub ambiguous: bool,
    /// The merge tried another order for it, so that it is not counted as ambiguous.
    pub ordered: bool,
    /// Its thread had opted out of windows.
    pub opted_out: bool,
    /// How often another order was tried for its sake.
    pub tries: u8,
}

impl Step {
    /// Nothing, at no time.
    pub(crate) const NONE: Self = Self {
        key: 0,
        size: 0,
        time: 0,
        lower: 0,
        upper: 0,
        ordinal: 0,
        stack: 0,
        thread: 0,
        rank: 0,
        entry: EntryPoint::Malloc,
        allocates: false,
        reallocation: false,
        ambiguous: false,
        ordered: false,
        opted_out: false,
        tries: 0,
    };
}

/// Whether the event is an allocation or a deallocation, and no half of a
/// reallocation.
#[inline]
pub(crate) fn is_simple(event: &Event) -> bool {
    (event.kind as u8) <= EventKind::Deallocation as u8
}

/// Whether something will come in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookahead {
    Found,
    Absent,
    Unknown,
}

/// How far ahead was looked for something, in events since the stream's beginning.
#[derive(Debug, Clone, Copy, Default)]
struct Search {
    key: u64,
    allocates: bool,
    until: u64,
    reached: u64,
    found: Option<u64>,
    never: bool,
}

/// Reads one stream of one image.
pub(crate) struct Cursor<'a, S: TraceSource> {
    ahead: &'a DecodeAhead<'a, S>,
    timeline: &'a Timeline,
    threads: &'a RefCell<Threads>,
    chunks: &'a [EventChunk<S::Handle>],
    /// Number of the first chunk among the image's.
    first_chunk: usize,
    next_chunk: usize,
    /// Anchors in it hold nanoseconds.
    buffer: Vec<Event>,
    scratch: Vec<Event>,
    position: usize,
    /// Records of live blocks are prefetched for the events before this position.
    prefetched: usize,
    /// Events of the stream before those in the buffer.
    before_buffer: u64,
    search: Cell<Search>,
    ordinal: u64,
    thread: Option<u32>,
    windows: &'a WindowTable,
    rank: Rank,
    opted_out: bool,
    segment: Segment,
    end_ns: Option<u64>,
    open: Vec<OpenStart>,
    queued: Option<Step>,
}

impl<'a, S: TraceSource> Cursor<'a, S> {
    /// A cursor before the first event of a stream of an image that lasted
    /// from `start_ns` to `end_ns`. Its chunks are those from `first_chunk` on.
    pub(crate) fn new(
        ahead: &'a DecodeAhead<'a, S>,
        timeline: &'a Timeline,
        threads: &'a RefCell<Threads>,
        windows: &'a WindowTable,
        (first_chunk, chunks): (usize, &'a [EventChunk<S::Handle>]),
        start_ns: u64,
        end_ns: Option<u64>,
    ) -> Self {
        Self {
            ahead,
            timeline,
            threads,
            chunks,
            first_chunk,
            next_chunk: 0,
            buffer: Vec::new(),
            scratch: Vec::new(),
            position: 0,
            prefetched: 0,
            before_buffer: 0,
            search: Cell::default(),
            ordinal: chunks.first().map_or(0, |chunk| chunk.first_ordinal),
            thread: None,
            windows,
            rank: windows.rank(0),
            opted_out: false,
            segment: Segment {
                lower: start_ns,
                from: start_ns,
                ..Segment::default()
            },
            end_ns,
            open: Vec::new(),
            queued: None,
        }
    }

    /// The next allocation or deallocation; `None` at the end of the stream.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Step>, ReplayError> {
        match self.next_simple() {
            Some(step) => Ok(Some(step)),
            None => self.next_of_any_kind(),
        }
    }

    /// The next allocation or deallocation, if it lies between the same two
    /// timestamps as the one before it and is no reallocation.
    #[inline]
    pub(crate) fn next_simple(&mut self) -> Option<Step> {
        if self.position < self.segment.end
            && let Some(event) = self.buffer.get(self.position)
            && is_simple(event)
            && let (Some(thread), None) = (self.thread, &self.queued)
        {
            let event = *event;
            self.position += 1;
            return Some(self.step(&event, thread));
        }
        None
    }

    /// The time of the event that [`Self::next_simple`] gives; `None` if there is
    /// none. Passes all marks (timestamps, threads, epochs) before the next event.
    #[inline]
    pub(crate) fn time_of_simple(&mut self) -> Result<Option<u64>, ReplayError> {
        if self.queued.is_some() || self.pass_marks()?.is_none() {
            return Ok(None);
        }
        let simple = is_simple(&self.buffer[self.position]);
        Ok(simple.then(|| self.segment.times().time(0)))
    }

    /// Prefetches the records of coming events' blocks.
    #[inline]
    fn prefetch(&mut self, live: &LiveBlocks) {
        if self.position >= self.prefetched {
            self.prefetched = self.position + AHEAD;
            let events = self.buffer.get(self.prefetched..).unwrap_or_default();
            live.prefetch(events);
        }
    }

    /// The next event happened between this time and [`Self::upper`], if all marks
    /// before it have been passed.
    pub(crate) fn lower(&self) -> u64 {
        self.segment.lower
    }

    /// See [`Self::lower`].
    pub(crate) fn upper(&self) -> u64 {
        self.segment.upper
    }

    /// The next events, those before the stream's `until`th; `None` at its end and where
    /// a closer look is needed.
    // In memory, the batch would be written and read in pieces of different sizes.
    #[inline(always)]
    pub(crate) fn batch(
        &mut self,
        until: u64,
        live: &LiveBlocks,
    ) -> Result<Option<EventBatch<'_>>, ReplayError> {
        if self.queued.is_some() {
            return Ok(None);
        }
        let Some(thread) = self.pass_marks()? else {
            return Ok(None);
        };
        let most = usize::try_from(until.saturating_sub(self.ordinal)).unwrap_or(usize::MAX);
        let mut end = self.segment.end.min(self.position.saturating_add(most));
        if live.is_large() {
            self.prefetch(live);
            end = end.min(self.prefetched);
        }
        Ok(Some(EventBatch {
            events: &self.buffer[self.position..end],
            thread,
            moves: self.open.len() < OPEN_LIMIT,
            times: self.segment.times(),
            first: Step {
                time: self.segment.times().time(0),
                lower: self.segment.lower,
                upper: self.segment.upper,
                ordinal: self.ordinal,
                thread,
                rank: self.rank,
                opted_out: self.opted_out,
                ..Step::NONE
            },
        }))
    }

    /// The first `taken` events of a [batch](Self::batch), all of them counted, have been
    /// taken.
    #[inline]
    pub(crate) fn pass(&mut self, taken: usize) {
        self.position += taken;
        self.ordinal += taken as u64;
        self.segment.passed = self.segment.passed.wrapping_add(taken as u32);
        self.segment.remaining = self.segment.remaining.saturating_sub(taken as u64);
    }

    /// Passes the marks that lie before the next counted event, and gives its
    /// thread; `None` if that is not known, and at the stream's end.
    #[inline]
    fn pass_marks(&mut self) -> Result<Option<u32>, ReplayError> {
        if self.position < self.segment.end && self.buffer[self.position].is_counted() {
            return Ok(self.thread);
        }
        self.pass_marks_slow()
    }

    #[inline(never)]
    fn pass_marks_slow(&mut self) -> Result<Option<u32>, ReplayError> {
        while self.position >= self.segment.end || !self.buffer[self.position].is_counted() {
            if self.position >= self.buffer.len() && !self.load()? {
                return Ok(None);
            }
            if self.position >= self.segment.end {
                self.enter_segment();
            }
            let event = self.buffer[self.position];
            if !event.is_counted() {
                self.position += 1;
                self.pass_mark(&event);
            }
        }
        Ok(self.thread)
    }

    fn pass_mark(&mut self, mark: &Event) {
        match mark.kind {
            EventKind::Timestamp => self.pass_anchor(mark.address),
            EventKind::Thread => self.enter_thread(mark.address),
            _ => self.enter_epoch(mark.address),
        }
    }

    /// As [`Self::next`], also where a chunk or a segment ends, and for reallocations
    /// and marks.
    #[inline(never)]
    fn next_of_any_kind(&mut self) -> Result<Option<Step>, ReplayError> {
        if let Some(step) = self.queued.take() {
            return Ok(Some(step));
        }
        loop {
            let thread = self.pass_marks()?;
            let Some(event) = self.buffer.get(self.position).copied() else {
                return Ok(None);
            };
            self.position += 1;
            let thread = thread.unwrap_or_else(|| self.unknown_thread());
            if let Some(step) = self.count(&event, thread)? {
                return Ok(Some(step));
            }
        }
    }

    /// Whether an allocation (or deallocation) at the key follows before
    /// `until`, as far as events are decoded and not too far ahead.
    pub(crate) fn look_ahead(&self, key: u64, allocates: bool, until: u64) -> Lookahead {
        let here = self.before_buffer + self.position as u64;
        let mut search = self.search.get();
        if (search.key, search.allocates, search.until) != (key, allocates, until)
            || search.found.is_some_and(|at| at < here)
        {
            search = Search {
                key,
                allocates,
                until,
                ..Search::default()
            };
        }
        let look_ahead = self.search_on(&mut search, here);
        self.search.set(search);
        look_ahead
    }

    /// Goes on where the last search for the same ended: while a stream waits,
    /// the others are asked before each step whether they will help.
    fn search_on(&self, search: &mut Search, here: u64) -> Lookahead {
        if search.found.is_some() {
            return Lookahead::Found;
        }
        if search.never {
            return Lookahead::Absent;
        }
        let position = self.position.min(self.buffer.len());
        let coming = &self.buffer[position..];
        let seen = search.reached.saturating_sub(here).min(LOOK_AHEAD as u64) as usize;
        for (event, at) in coming.iter().take(LOOK_AHEAD).zip(here..).skip(seen) {
            let found = match event.kind {
                EventKind::Timestamp if event.address > search.until => {
                    search.never = true;
                    return Lookahead::Absent;
                }
                EventKind::Allocation | EventKind::ReallocationEnd => search.allocates,
                EventKind::Deallocation | EventKind::ReallocationStart => !search.allocates,
                _ => false,
            };
            if found && block_key(event) == search.key {
                search.found = Some(at);
                return Lookahead::Found;
            }
            search.reached = at + 1;
        }
        let all_seen = coming.len() <= LOOK_AHEAD && self.next_chunk >= self.chunks.len();
        // A deallocation that is held until its answer can not be seen coming.
        if all_seen && self.open.iter().all(|start| start.shown) {
            Lookahead::Absent
        } else {
            Lookahead::Unknown
        }
    }

    /// Replaces the buffer by the next chunk; `false` if there is none.
    fn load(&mut self) -> Result<bool, ReplayError> {
        while let Some(chunk) = self.chunks.get(self.next_chunk) {
            let number = self.first_chunk + self.next_chunk;
            self.next_chunk += 1;
            self.before_buffer += self.buffer.len() as u64;
            self.ahead.fetch(number, &chunk.handle, &mut self.buffer)?;
            self.position = 0;
            self.prefetched = 0;
            self.segment.end = 0;
            if !self.buffer.is_empty() {
                return Ok(true);
            }
        }
        self.before_buffer += self.buffer.len() as u64;
        self.buffer.clear();
        self.position = 0;
        self.segment.end = 0;
        Ok(false)
    }

    /// Appends the next chunk to the rest of the buffer; `false` if there is none.
    fn extend(&mut self) -> Result<bool, ReplayError> {
        let Some(chunk) = self.chunks.get(self.next_chunk) else {
            return Ok(false);
        };
        let number = self.first_chunk + self.next_chunk;
        self.next_chunk += 1;
        self.ahead.fetch(number, &chunk.handle, &mut self.scratch)?;
        self.buffer.drain(..self.position);
        self.before_buffer += self.position as u64;
        self.segment.end = self.segment.end.saturating_sub(self.position);
        self.prefetched = self.prefetched.saturating_sub(self.position);
        self.position = 0;
        self.buffer.append(&mut self.scratch);
        Ok(true)
    }

    /// Finds the next anchor and spreads the events until then.
    fn enter_segment(&mut self) {
        let coming = &self.buffer[self.position..];
        let is_anchor = |event: &Event| event.kind == EventKind::Timestamp;
        let until_anchor = coming.iter().position(is_anchor);
        let anchor = until_anchor.map(|at| coming[at].address);
        let until = until_anchor.unwrap_or(coming.len());
        let end = self.position + until;
        let counted = coming[..until].iter().filter(|event| event.is_counted());
        self.segment.remaining = counted.count() as u64;
        self.segment.end = if anchor.is_some() { end + 1 } else { end };
        let known = anchor.or_else(|| {
            let ahead = self.chunks.iter().skip(self.next_chunk).take(CHUNKS_AHEAD);
            self.segment.remaining += USUAL_GAP;
            let tick = ahead.filter_map(|chunk| chunk.first_tick).next();
            tick.map(|tick| self.timeline.ns(tick))
        });
        self.spread(known);
    }

    /// Spreads the remaining events of the segment up to the anchor's time.
    fn spread(&mut self, anchor: Option<u64>) {
        let segment = &mut self.segment;
        let upper = anchor.or(self.end_ns);
        segment.upper = upper.map_or(u64::MAX, |ns| ns.max(segment.lower));
        segment.start_from(segment.lower);
        if upper.is_some() {
            segment.set_step();
        }
    }

    /// The interpolated time of the next counted event. A thread records a timestamp
    /// when it is about to record an event, so that the first one's time is exact.
    #[inline]
    fn advance(&mut self) -> u64 {
        let segment = &mut self.segment;
        let time = segment.reached().min(segment.upper);
        segment.passed += 1;
        segment.remaining = segment.remaining.saturating_sub(1);
        time
    }

    fn pass_anchor(&mut self, ns: u64) {
        self.segment.lower = self.segment.lower.max(ns);
        self.segment.end = self.position;
    }

    /// The events that follow are another thread's, and not before its start.
    fn enter_thread(&mut self, id: u64) {
        let Ok(id) = u32::try_from(id) else {
            self.thread = None;
            return;
        };
        let mut threads = self.threads.borrow_mut();
        let number = threads.number(id);
        self.thread = Some(number);
        let start = threads.known[number as usize].start_tick;
        let Some(start) = start.map(|tick| self.timeline.ns(tick)) else {
            return;
        };
        let segment = &mut self.segment;
        if start > segment.lower && start <= segment.upper {
            segment.lower = start;
            segment.start_from(start);
            if segment.upper != u64::MAX {
                segment.set_step();
            }
        }
    }

    fn enter_epoch(&mut self, word: u64) {
        let mark = EpochChange::from_word(word);
        self.rank = self.windows.rank(mark.epoch);
        self.opted_out = mark.opted_out;
    }

    /// Takes a counted event; `None` if nothing comes of it.
    fn count(&mut self, event: &Event, thread: u32) -> Result<Option<Step>, ReplayError> {
        let step = self.step(event, thread);
        match event.kind {
            EventKind::Allocation | EventKind::Deallocation => Ok(Some(step)),
            _ => self.reallocate(event.kind, step),
        }
    }

    /// The step that a counted event is, at its time.
    #[inline]
    fn step(&mut self, event: &Event, thread: u32) -> Step {
        let time = self.advance();
        self.ordinal += 1;
        Step {
            key: block_key(event),
            size: event.size,
            time,
            lower: self.segment.lower,
            upper: self.segment.upper,
            ordinal: self.ordinal - 1,
            stack: event.stack,
            thread,
            rank: self.rank,
            entry: event.entry,
            allocates: event.kind == EventKind::Allocation,
            reallocation: false,
            ambiguous: false,
            ordered: false,
            opted_out: self.opted_out,
            tries: 0,
        }
    }

    #[cold]
    fn unknown_thread(&mut self) -> u32 {
        let number = self.threads.borrow_mut().unknown();
        self.thread = Some(number);
        number
    }
}
