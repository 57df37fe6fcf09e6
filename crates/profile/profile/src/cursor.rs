//! Reads one stream for the merge: fetches its chunks as they are needed, finds thread
//! and time of each event, and pairs the start and the result of reallocations.
//!
//! The order of a stream is exact; its time is exact at timestamps only. The event that
//! follows a timestamp was recorded right after it; the times of the others are
//! interpolated between the two timestamps around them.

mod reallocation;
mod segment;

use std::cell::{Cell, RefCell};

use allotrope_trace::model::{EpochChange, Event, EventKind};

use crate::block_key::block_key;
use crate::clock::Timeline;
use crate::decode_ahead::DecodeAhead;
use crate::error::AggregateError;
use crate::live::{AHEAD, LiveBlocks};
use crate::source::{EventChunk, TraceSource};
use crate::step::Step;
use crate::threads::Threads;
use crate::window_table::{Rank, WindowTable};
use reallocation::{OPEN_LIMIT, OpenStart};
use segment::Segment;
pub(crate) use segment::{EventBatch, TimeInterpolation};

/// How many events ahead the cursor searches for the result of a reallocation and for an
/// event that another stream waits for.
pub(crate) const LOOK_AHEAD: usize = 256;
/// How many chunks ahead it searches for the next timestamp.
const CHUNKS_AHEAD: usize = 16;
/// Guess of the number of events between the start of a chunk and its first timestamp.
const USUAL_GAP: u64 = 16;

/// Whether the event is an allocation or a deallocation that is no part of a
/// reallocation.
#[inline]
pub(crate) fn is_simple(event: &Event) -> bool {
    (event.kind as u8) <= EventKind::Deallocation as u8
}

/// Whether the coming events of a stream include the one searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookahead {
    Found,
    Absent,
    /// The event is not among those that could be searched; it may follow later.
    Unknown,
}

/// The last search of [`Cursor::look_ahead`] and its result. Positions are in events
/// since the stream's beginning.
#[derive(Debug, Clone, Copy, Default)]
struct Search {
    key: u64,
    allocates: bool,
    until: u64,
    /// End of the events searched so far.
    reached: u64,
    found: Option<u64>,
    /// A timestamp after `until` was reached.
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
    /// Decoded events. Timestamps hold nanoseconds.
    buffer: Vec<Event>,
    scratch: Vec<Event>,
    /// Position of the next event in `buffer`.
    position: usize,
    /// Records of live blocks are prefetched for the events before this position.
    prefetched: usize,
    /// Number of events of the stream before those in the buffer.
    before_buffer: u64,
    search: Cell<Search>,
    /// Ordinal of the next counted event.
    ordinal: u64,
    /// Dense number of the thread; `None` until the stream names one.
    thread: Option<u32>,
    windows: &'a WindowTable,
    rank: Rank,
    opted_out: bool,
    segment: Segment,
    /// End of the image, if known.
    end_ns: Option<u64>,
    /// Reallocations whose result has not been read, the innermost last.
    open: Vec<OpenStart>,
    /// Comes before the event at `position`.
    queued: Option<Step>,
}

impl<'a, S: TraceSource> Cursor<'a, S> {
    /// A cursor before the first event of a stream of an image that lasted from
    /// `start_ns` to `end_ns`. `chunks` are the stream's; `first_chunk` is the number of
    /// the first among the image's.
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
    pub(crate) fn next(&mut self) -> Result<Option<Step>, AggregateError> {
        match self.next_simple() {
            Some(step) => Ok(Some(step)),
            None => self.next_of_any_kind(),
        }
    }

    /// The next allocation or deallocation, if no control event and no part of a
    /// reallocation comes before it.
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

    /// The time of the event that [`Self::next_simple`] will return; `None` if there is
    /// none. Applies all control events (timestamp, thread, epoch) before it.
    #[inline]
    pub(crate) fn time_of_simple(&mut self) -> Result<Option<u64>, AggregateError> {
        if self.queued.is_some() || self.skip_control_events()?.is_none() {
            return Ok(None);
        }
        let simple = is_simple(&self.buffer[self.position]);
        Ok(simple.then(|| self.segment.times().time(0)))
    }

    /// Prefetches the records of the blocks of coming events.
    #[inline]
    fn prefetch(&mut self, live: &LiveBlocks) {
        if self.position >= self.prefetched {
            self.prefetched = self.position + AHEAD;
            let events = self.buffer.get(self.prefetched..).unwrap_or_default();
            live.prefetch(events);
        }
    }

    /// The next event happened between this time and [`Self::upper`], if all control
    /// events before it have been applied.
    pub(crate) fn lower(&self) -> u64 {
        self.segment.lower
    }

    /// See [`Self::lower`].
    pub(crate) fn upper(&self) -> u64 {
        self.segment.upper
    }

    /// The next events, up to ordinal `until`, with their prefetched records. `None` at
    /// the stream's end, and where only [`Self::next`] can continue.
    // Inlined so that the batch stays in registers: in memory it would be written and
    // read in pieces of different sizes, which stalls the processor.
    #[inline(always)]
    pub(crate) fn batch(
        &mut self,
        until: u64,
        live: &LiveBlocks,
    ) -> Result<Option<EventBatch<'_>>, AggregateError> {
        if self.queued.is_some() {
            return Ok(None);
        }
        let Some(thread) = self.skip_control_events()? else {
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

    /// Advances past the first `taken` events of a [batch](Self::batch), all of them
    /// counted.
    #[inline]
    pub(crate) fn pass(&mut self, taken: usize) {
        self.position += taken;
        self.ordinal = self.ordinal.wrapping_add(taken as u64);
        self.segment.passed = self.segment.passed.wrapping_add(taken as u32);
        self.segment.remaining = self.segment.remaining.saturating_sub(taken as u64);
    }

    /// Applies the control events before the next counted event, and returns that
    /// event's thread; `None` if it is unknown, and at the stream's end.
    #[inline]
    fn skip_control_events(&mut self) -> Result<Option<u32>, AggregateError> {
        if self.position < self.segment.end && self.buffer[self.position].is_counted() {
            return Ok(self.thread);
        }
        self.skip_control_events_slow()
    }

    #[inline(never)]
    fn skip_control_events_slow(&mut self) -> Result<Option<u32>, AggregateError> {
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
                self.apply_control_event(&event);
            }
        }
        Ok(self.thread)
    }

    fn apply_control_event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Timestamp => self.apply_timestamp(event.address),
            EventKind::Thread => self.enter_thread(event.address),
            _ => self.enter_epoch(event.address),
        }
    }

    /// The slow path of [`Self::next`]: where a chunk or a segment ends, and for
    /// reallocations and control events.
    #[inline(never)]
    fn next_of_any_kind(&mut self) -> Result<Option<Step>, AggregateError> {
        if let Some(step) = self.queued.take() {
            return Ok(Some(step));
        }
        loop {
            let thread = self.skip_control_events()?;
            let Some(event) = self.buffer.get(self.position).copied() else {
                return Ok(None);
            };
            self.position += 1;
            let thread = thread.unwrap_or_else(|| self.unknown_thread());
            if let Some(step) = self.step_or_none(&event, thread)? {
                return Ok(Some(step));
            }
        }
    }

    /// Whether an allocation (`allocates`) or deallocation at the key follows before the
    /// time `until`; searches at most [`LOOK_AHEAD`] decoded events.
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
        let look_ahead = self.continue_search(&mut search, here);
        self.search.set(search);
        look_ahead
    }

    /// Continues where the last search for the same event ended: while a stream waits,
    /// the merge searches the others before each step.
    fn continue_search(&self, search: &mut Search, here: u64) -> Lookahead {
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
        // A deallocation that is held back until the reallocation's result is read comes
        // after events that were searched already.
        if all_seen && self.open.iter().all(|start| start.emitted) {
            Lookahead::Absent
        } else {
            Lookahead::Unknown
        }
    }

    /// Replaces the buffer by the next chunk; `false` if there is none.
    fn load(&mut self) -> Result<bool, AggregateError> {
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
    fn extend(&mut self) -> Result<bool, AggregateError> {
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

    /// Finds the next timestamp and interpolates the times of the events before it. If
    /// the buffer has none, it takes the first timestamp of the coming chunks from the
    /// index, without decoding them.
    fn enter_segment(&mut self) {
        let coming = &self.buffer[self.position..];
        let is_timestamp = |event: &Event| event.kind == EventKind::Timestamp;
        let until_timestamp = coming.iter().position(is_timestamp);
        let timestamp = until_timestamp.map(|at| coming[at].address);
        let until = until_timestamp.unwrap_or(coming.len());
        let end = self.position + until;
        let counted = coming[..until].iter().filter(|event| event.is_counted());
        self.segment.remaining = counted.count() as u64;
        self.segment.end = if timestamp.is_some() { end + 1 } else { end };
        let known = timestamp.or_else(|| {
            let ahead = self.chunks.iter().skip(self.next_chunk).take(CHUNKS_AHEAD);
            self.segment.remaining += USUAL_GAP;
            let tick = ahead.filter_map(|chunk| chunk.first_tick).next();
            tick.map(|tick| self.timeline.ns(tick))
        });
        self.spread(known);
    }

    /// Spreads the remaining events of the segment over the time up to the next timestamp
    /// (in nanoseconds), or to the end of the image.
    fn spread(&mut self, timestamp: Option<u64>) {
        let segment = &mut self.segment;
        let upper = timestamp.or(self.end_ns);
        segment.upper = upper.map_or(u64::MAX, |ns| ns.max(segment.lower));
        segment.start_from(segment.lower);
        if upper.is_some() {
            segment.set_step();
        }
    }

    /// The interpolated time of the next counted event. A thread records a timestamp just
    /// before it records an event, so the time of the first event after it is exact.
    #[inline]
    fn next_time(&mut self) -> u64 {
        let segment = &mut self.segment;
        let time = segment.next_estimate().min(segment.upper);
        segment.passed += 1;
        segment.remaining = segment.remaining.saturating_sub(1);
        time
    }

    fn apply_timestamp(&mut self, ns: u64) {
        self.segment.lower = self.segment.lower.max(ns);
        self.segment.end = self.position;
    }

    /// The events that follow are another thread's. They happened after its start, which
    /// may be a better lower bound than the last timestamp.
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
        let change = EpochChange::from_word(word);
        self.rank = self.windows.rank(change.epoch);
        self.opted_out = change.opted_out;
    }

    /// The step that a counted event leads to; `None` if it is a part of a reallocation
    /// that leads to none, or to none yet.
    fn step_or_none(&mut self, event: &Event, thread: u32) -> Result<Option<Step>, AggregateError> {
        let step = self.step(event, thread);
        match event.kind {
            EventKind::Allocation | EventKind::Deallocation => Ok(Some(step)),
            _ => self.reallocate(event.kind, step),
        }
    }

    /// Makes a counted event a step, with its time, and advances the ordinal.
    #[inline]
    fn step(&mut self, event: &Event, thread: u32) -> Step {
        let time = self.next_time();
        // A damaged trace may begin at any number.
        self.ordinal = self.ordinal.wrapping_add(1);
        Step {
            key: block_key(event),
            size: event.size,
            time,
            lower: self.segment.lower,
            upper: self.segment.upper,
            ordinal: self.ordinal.wrapping_sub(1),
            stack: event.stack,
            thread,
            rank: self.rank,
            entry: event.entry,
            alignment_log2: event.alignment_log2,
            allocates: event.kind == EventKind::Allocation,
            reallocation: false,
            ambiguous: false,
            ordered: false,
            opted_out: self.opted_out,
            tries: 0,
        }
    }

    /// Adds a thread for events whose thread the trace does not name.
    #[cold]
    fn unknown_thread(&mut self) -> u32 {
        let number = self.threads.borrow_mut().unknown();
        self.thread = Some(number);
        number
    }
}
