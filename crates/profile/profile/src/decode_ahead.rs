//! Decodes an image's chunks of events on helper threads, in the order in which the
//! cursors will probably fetch them.
//!
//! ```text
//! order: [c0][c1][c2][c3][c4] …     sorted by the time of the first timestamp
//!         │    │   │   └ Pending    not begun
//!         │    │   └ Decoding       a helper thread is decoding it
//!         │    └ Decoded            waits to be fetched, at most 128 K events in all
//!         └ Taken                   fetched
//! ```
//!
//! Neither the right order nor a helper is needed: a chunk that is still `Pending` when
//! it is fetched is decoded by the thread that fetches it. If a helper panics, its chunk
//! becomes `Lost`, so that no thread waits for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use allotrope_trace::model::{Event, EventKind};

use crate::clock::Timeline;
use crate::error::AggregateError;
use crate::options::Helpers;
use crate::source::{EventChunk, TraceSource};

/// Limit for the events of chunks that are decoded or being decoded, and not fetched:
/// 4 MiB. Each helper may exceed it by a chunk.
const EVENTS_AHEAD: usize = 1 << 17;
/// Images with fewer events are decoded without helpers.
const MIN_EVENTS_FOR_THREADS: u64 = 1 << 17;
/// More would wait for the thread that accumulates.
const MAX_THREADS: usize = 2;
/// Largest number of buffers that are kept to be used again.
const MAX_SPARE: usize = 8;

/// The chunks of an image's streams, numbered from 0: first those of the first stream,
/// then those of the second, and so on.
pub(crate) struct DecodeAhead<'a, S: TraceSource> {
    source: &'a S,
    timeline: &'a Timeline,
    /// Chunks in the order in which they will probably be fetched.
    order: Vec<Listed<S::Handle>>,
    /// Number of counted events in all chunks.
    counted: u64,
    shared: Mutex<Shared>,
    /// Signalled when a chunk was decoded or lost.
    decoded: Condvar,
    /// Signalled when chunks were fetched or the aggregation has ended.
    fetched: Condvar,
}

struct Listed<H> {
    number: usize,
    handle: H,
    events: usize,
}

struct Shared {
    /// State of each chunk, by number.
    chunks: Vec<Chunk>,
    /// Index into `order` of the chunk that a helper will try next.
    next: usize,
    /// Events of chunks that are `Decoding` or `Decoded`, plus 1 for each chunk.
    ahead: usize,
    /// Buffers to be used again.
    spare: Vec<Vec<Event>>,
    has_ended: bool,
}

enum Chunk {
    Pending,
    Decoding,
    Decoded(Result<Vec<Event>, AggregateError>),
    Taken,
    Lost,
}

impl<'a, S: TraceSource> DecodeAhead<'a, S> {
    /// Lists the chunks of these streams. Decodes nothing yet.
    pub(crate) fn new<'r>(
        source: &'a S,
        timeline: &'a Timeline,
        streams: impl Iterator<Item = &'r [EventChunk<S::Handle>]>,
    ) -> Self
    where
        S::Handle: 'r,
    {
        let mut order = Vec::new();
        let mut counted = 0_u64;
        for chunks in streams {
            // A chunk without a time follows the one before it.
            let mut tick = 0;
            for chunk in chunks {
                tick = chunk.first_tick.unwrap_or(tick).max(tick);
                let listed = Listed {
                    number: order.len(),
                    handle: chunk.handle,
                    events: chunk.events as usize,
                };
                order.push((tick, listed));
                counted = counted.saturating_add(chunk.counted);
            }
        }
        let shared = Shared {
            chunks: order.iter().map(|_| Chunk::Pending).collect(),
            next: 0,
            ahead: 0,
            spare: Vec::new(),
            has_ended: false,
        };
        order.sort_by_key(|(tick, chunk)| (*tick, chunk.number));
        Self {
            source,
            timeline,
            order: order.into_iter().map(|(_, chunk)| chunk).collect(),
            counted,
            shared: Mutex::new(shared),
            decoded: Condvar::new(),
            fetched: Condvar::new(),
        }
    }

    /// Calls `aggregate` while helper threads decode ahead, if there is enough to decode.
    pub(crate) fn during<T>(&self, helpers: Helpers, aggregate: impl FnOnce() -> T) -> T {
        let wanted = helpers.number(self.counted >= MIN_EVENTS_FOR_THREADS, MAX_THREADS);
        thread::scope(|scope| {
            for _ in 0..wanted {
                let builder = thread::Builder::new().name("decode ahead".to_owned());
                // If it cannot be started, the other helpers or the aggregating thread
                // decode all chunks.
                let _ = builder.spawn_scoped(scope, || self.help());
            }
            let _end = OnDrop(|| {
                self.lock().has_ended = true;
                self.fetched.notify_all();
            });
            aggregate()
        })
    }

    /// Replaces the contents of `into` by the events of a chunk. The timestamps among
    /// them hold nanoseconds. Waits if a helper is decoding the chunk.
    pub(crate) fn fetch(
        &self,
        number: usize,
        handle: &S::Handle,
        into: &mut Vec<Event>,
    ) -> Result<(), AggregateError> {
        let mut shared = self.lock();
        while matches!(shared.chunks.get(number), Some(Chunk::Decoding)) {
            shared = wait(&self.decoded, shared);
        }
        let chunk = shared.chunks.get_mut(number);
        match chunk.map(|chunk| std::mem::replace(chunk, Chunk::Taken)) {
            Some(Chunk::Decoded(events)) => {
                let events = events?;
                shared.ahead = shared.ahead.saturating_sub(events.len() + 1);
                // Not after every chunk: waking a thread takes about as long as decoding
                // a chunk.
                if shared.ahead < EVENTS_AHEAD / 2 {
                    self.fetched.notify_all();
                }
                let spare = std::mem::replace(into, events);
                if shared.spare.len() < MAX_SPARE {
                    shared.spare.push(spare);
                }
                Ok(())
            }
            Some(Chunk::Lost) => Err(AggregateError::NoSuchChunk(number)),
            _ => {
                drop(shared);
                self.decode(handle, into)
            }
        }
    }

    /// The loop of a helper thread.
    fn help(&self) {
        let mut shared = self.lock();
        loop {
            let Some(listed) = self.order.get(shared.next) else {
                return;
            };
            if shared.has_ended {
                return;
            }
            if shared.ahead >= EVENTS_AHEAD {
                shared = wait(&self.fetched, shared);
                continue;
            }
            shared.next += 1;
            if !matches!(shared.chunks[listed.number], Chunk::Pending) {
                continue;
            }
            shared.chunks[listed.number] = Chunk::Decoding;
            // The 1 limits the number of chunks without events, which take memory, too.
            shared.ahead += listed.events + 1;
            let mut events = shared.spare.pop().unwrap_or_default();
            drop(shared);
            let lost = OnDrop(|| self.put(listed.number, Chunk::Lost));
            let result = self.decode(&listed.handle, &mut events);
            std::mem::forget(lost);
            self.put(listed.number, Chunk::Decoded(result.map(|()| events)));
            shared = self.lock();
        }
    }

    /// Stores the result for a chunk, and wakes the thread that waits for it.
    fn put(&self, number: usize, chunk: Chunk) {
        self.lock().chunks[number] = chunk;
        self.decoded.notify_all();
    }

    fn decode(&self, handle: &S::Handle, into: &mut Vec<Event>) -> Result<(), AggregateError> {
        self.source.read(handle, into)?;
        for event in into {
            if event.kind == EventKind::Timestamp {
                event.address = self.timeline.ns(event.address);
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // No thread panics while it holds the lock.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait<'a>(wanted: &Condvar, shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
    wanted.wait(shared).unwrap_or_else(PoisonError::into_inner)
}

/// Calls the function when it is dropped, also by a panic.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{MemoryTrace, NodeVisitor, SourceEntry, StackPart, Visitor};
    use crate::test_events::event;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use allotrope_trace::model::{Clock, Events, Record};

    /// Two streams of chunks of 1,000 events whose addresses are the chunk's number.
    fn trace(chunks: u32) -> MemoryTrace {
        let records = (0..chunks).map(|chunk| {
            let mut events = vec![event(EventKind::Timestamp, u64::from(chunk) * 10)];
            events.resize(1_000, event(EventKind::Allocation, u64::from(chunk)));
            Record::Events(Events {
                image: 0,
                stream: chunk % 2,
                first_ordinal: 0,
                events,
            })
        });
        MemoryTrace {
            records: records.collect(),
            cut: None,
        }
    }

    fn streams(trace: &impl TraceSource<Handle = usize>) -> [Vec<EventChunk<usize>>; 2] {
        let mut streams = [vec![], vec![]];
        let list = |entry| {
            if let SourceEntry::Events(chunk) = entry {
                streams[chunk.stream as usize].push(chunk);
            }
            Ok(())
        };
        trace.visit(&mut { list }).expect("in memory");
        streams
    }

    #[test]
    fn chunks_can_be_fetched_in_any_order() {
        let trace = trace(400);
        let streams = streams(&trace);
        // 2 ticks a nanosecond.
        let clock = |tick, monotonic_ns| Clock { tick, monotonic_ns };
        let timeline = Timeline::new(vec![clock(0, 0), clock(2_000, 1_000)], 0);
        let chunks = streams.iter().map(Vec::as_slice);
        let ahead = DecodeAhead::new(&trace, &timeline, chunks);
        assert!(ahead.counted >= MIN_EVENTS_FOR_THREADS);
        // The second stream first, against the order of their times.
        let order = (0..200).map(|n| (200 + n, 2 * n + 1));
        let order = order.chain((0..200).map(|n| (n, 2 * n)));
        ahead.during(Helpers::Always, || {
            let mut events = Vec::new();
            for (number, handle) in order {
                let fetched = ahead.fetch(number, &handle, &mut events);
                fetched.expect("in memory");
                assert_eq!(events.len(), 1_000);
                assert_eq!(events[0].address, handle as u64 * 10 / 2);
                assert!(events[1..].iter().all(|e| e.address == handle as u64));
                assert!(ahead.lock().ahead < EVENTS_AHEAD + MAX_THREADS * 1_001);
            }
        });
    }

    #[test]
    fn a_chunk_that_cannot_be_read_is_an_error_when_it_is_fetched() {
        let trace = trace(400);
        let mut streams = streams(&trace);
        streams[0][5].handle = 4_000;
        let timeline = Timeline::new(vec![], 0);
        let chunks = streams.iter().map(Vec::as_slice);
        let ahead = DecodeAhead::new(&trace, &timeline, chunks);
        ahead.during(Helpers::Always, || {
            let mut events = Vec::new();
            for (number, chunk) in streams[0].iter().enumerate() {
                let read = ahead.fetch(number, &chunk.handle, &mut events);
                assert_eq!(read.is_err(), number == 5);
            }
        });
    }

    /// A trace whose chunk 50 makes the reader panic.
    struct Broken(MemoryTrace);

    impl TraceSource for Broken {
        type Handle = usize;
        type Stacks = <MemoryTrace as TraceSource>::Stacks;

        fn visit(
            &self,
            visitor: &mut Visitor<'_, usize, Self::Stacks>,
        ) -> Result<(), AggregateError> {
            self.0.visit(visitor)
        }

        fn read_stacks(
            &self,
            parts: &[StackPart<Self::Stacks>],
            visitor: &mut NodeVisitor<'_>,
        ) -> Result<(), AggregateError> {
            self.0.read_stacks(parts, visitor)
        }

        fn read(&self, handle: &usize, into: &mut Vec<Event>) -> Result<(), AggregateError> {
            assert_ne!(*handle, 50, "broken on purpose");
            self.0.read(handle, into)
        }

        fn cut(&self) -> Option<String> {
            None
        }
    }

    #[test]
    fn no_thread_waits_for_a_chunk_whose_helper_panicked() {
        let broken = Broken(trace(400));
        let streams = streams(&broken);
        let timeline = Timeline::new(vec![], 0);
        let chunks = streams.iter().map(Vec::as_slice);
        let ahead = DecodeAhead::new(&broken, &timeline, chunks);
        let aggregated = || {
            let mut events = Vec::new();
            for (number, chunk) in streams[0].iter().enumerate() {
                if ahead.fetch(number, &chunk.handle, &mut events).is_err() {
                    return;
                }
            }
        };
        let ended = catch_unwind(AssertUnwindSafe(|| {
            ahead.during(Helpers::Always, aggregated)
        }));
        assert!(ended.is_err());
    }
}
