//! Measures the trace file on a synthetic program: bytes per event, and nanoseconds
//! per event for encoding and decoding. Run it with `--release`. The optional argument
//! is the number of events in a chunk (65,536 by default).
//!
//! With traces as arguments it measures these: bytes per event of each column, before
//! and after compression of the column by itself, and the time to encode the events
//! again.
//!
//! The addresses are realistic: the example allocates the blocks of the synthetic
//! program from its own allocator, in the order of the events.

use std::collections::VecDeque;
use std::time::Instant;

use allotrope_trace::model::{EntryPoint, Event, EventKind};
use allotrope_trace::{Compression, Entry, TraceReader, TraceWriter};

const EVENTS: usize = 4 << 20;
/// Number of events between two timestamps.
const TIMESTAMP_INTERVAL: usize = 64;

/// A xorshift64* generator (Vigna 2016): the same sequence in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 32) as usize % limit
    }
}

/// A synthetic program, and the events that it emitted.
struct Program {
    events: Vec<Event>,
    random: Random,
    tick: u64,
}

type Block = Vec<u8>;

impl Program {
    fn push(&mut self, kind: EventKind, entry: EntryPoint, stack: u32, address: u64, size: u64) {
        if self.events.len().is_multiple_of(TIMESTAMP_INTERVAL) {
            // 50 to 66 cycles per event, as in a busy program.
            self.tick += TIMESTAMP_INTERVAL as u64 * 50 + self.random.next() % 1000;
            let (kind, entry) = (EventKind::Timestamp, EntryPoint::Malloc);
            let address = self.tick;
            self.events.push(Event {
                kind,
                entry,
                alignment_log2: 0,
                stack: 0,
                address,
                size: 0,
            });
        }
        self.events.push(Event {
            kind,
            entry,
            alignment_log2: 0,
            stack,
            address,
            size,
        });
    }

    fn allocate(&mut self, stack: u32, size: usize) -> Block {
        let block = Vec::with_capacity(size);
        let address = block.as_ptr() as u64;
        let entry = EntryPoint::OperatorNew;
        self.push(
            EventKind::Allocation,
            entry,
            stack + 8,
            address,
            size as u64,
        );
        block
    }

    fn free(&mut self, block: Block) {
        let address = block.as_ptr() as u64;
        self.push(
            EventKind::Deallocation,
            EntryPoint::OperatorDelete,
            0,
            address,
            0,
        );
    }

    /// `std::string` and friends: nested temporaries, freed last in, first out.
    fn temporaries(&mut self) {
        let depth = 1 + self.random.below(6);
        let first = self.random.below(24) as u32;
        let mut blocks = Vec::new();
        for i in 0..depth {
            let size = 16 + self.random.below(100);
            blocks.push(self.allocate(first + i as u32, size));
        }
        while let Some(block) = blocks.pop() {
            self.free(block);
        }
    }

    /// `std::map`, `std::list`: nodes of few sizes, with a long life, freed in random
    /// order.
    fn nodes(&mut self, live: &mut Vec<Block>) {
        for _ in 0..self.random.below(16) {
            let kind = self.random.below(6);
            live.push(self.allocate(40 + kind as u32, 32 + 16 * kind));
        }
        while live.len() > 2000 {
            let at = self.random.below(live.len());
            let block = live.swap_remove(at);
            self.free(block);
        }
    }

    /// A queue: first in, first out.
    fn queue(&mut self, live: &mut VecDeque<Block>) {
        for _ in 0..self.random.below(8) {
            let size = 16 + self.random.below(496);
            live.push_back(self.allocate(50, size));
        }
        while live.len() > 300 {
            if let Some(block) = live.pop_front() {
                self.free(block);
            }
        }
    }

    /// A buffer that grows by `realloc`.
    fn growth(&mut self) {
        let mut size = 32;
        let mut block = self.allocate(51, size);
        for _ in 0..self.random.below(6) {
            let address = block.as_ptr() as u64;
            let entry = EntryPoint::Realloc;
            self.push(EventKind::ReallocationStart, entry, 0, address, 0);
            block.reserve_exact(size * 2);
            size *= 2;
            let address = block.as_ptr() as u64;
            self.push(EventKind::ReallocationEnd, entry, 60, address, size as u64);
        }
        self.free(block);
    }

    /// Builds a container and destroys it from the front.
    fn container(&mut self) {
        let count = self.random.below(60);
        let mut blocks = Vec::new();
        for _ in 0..count {
            blocks.push(self.allocate(53, 48));
        }
        for block in blocks {
            self.free(block);
        }
    }
}

fn churn() -> Vec<Event> {
    let random = Random(0x9e37_79b9);
    let mut program = Program {
        events: Vec::with_capacity(EVENTS + 1000),
        random,
        tick: 1 << 50,
    };
    let mut nodes = Vec::with_capacity(4096);
    let mut queue = VecDeque::with_capacity(4096);
    while program.events.len() < EVENTS {
        match program.random.below(100) {
            0..60 => program.temporaries(),
            60..80 => program.nodes(&mut nodes),
            80..90 => program.queue(&mut queue),
            90..95 => program.growth(),
            _ => program.container(),
        }
    }
    program.events.truncate(EVENTS);
    program.events
}

fn measure(events: &[Event], chunk: usize, compression: Compression) {
    let chunks: Vec<_> = events.chunks(chunk).map(<[Event]>::to_vec).collect();
    encode_and_decode(&chunks, compression);
}

fn encode_and_decode(chunks: &[Vec<Event>], compression: Compression) {
    let events: usize = chunks.iter().map(Vec::len).sum();
    let sink = Vec::with_capacity(64 << 20);
    let mut writer = TraceWriter::new(sink).expect("header");
    writer.set_compression(compression);
    let started = Instant::now();
    for chunk in chunks {
        writer.write_events(0, 0, 0, chunk).expect("write");
    }
    let file = writer.finish().expect("finish");
    let encoding = started.elapsed();
    let reader = TraceReader::new(&file[..]).expect("open");
    let mut chunk = Vec::new();
    let started = Instant::now();
    let mut read = 0;
    for entry in reader.entries() {
        if let Entry::Events(at) = entry.expect("entry") {
            reader.read_events(&at, &mut chunk).expect("events");
            read += chunk.len();
        }
    }
    let decoding = started.elapsed();
    assert_eq!(read, events);
    let each = |total: f64| total / events as f64;
    println!(
        "{compression:?}: {:.2} bytes, {:.1} ns to encode, {:.1} ns to decode per event",
        each(file.len() as f64),
        each(encoding.as_nanos() as f64),
        each(decoding.as_nanos() as f64),
    );
}

/// Prints the bytes per event of each column, and measures encoding all events again.
fn measure_trace(path: &str) {
    let trace = TraceReader::open(path.as_ref()).expect("a trace");
    let mut sizes: Vec<(&str, usize, usize)> = Vec::new();
    let mut chunks = Vec::new();
    let mut events = 0;
    for entry in trace.entries() {
        let Entry::Events(at) = entry.expect("entry") else {
            continue;
        };
        for (i, (name, bytes)) in trace.columns(&at).expect("columns").iter().enumerate() {
            if sizes.len() <= i {
                sizes.push((name, 0, 0));
            }
            let compressed = zstd::bulk::compress(bytes, 1).expect("compress").len();
            sizes[i].1 += bytes.len();
            sizes[i].2 += compressed.min(bytes.len());
        }
        let mut chunk = Vec::new();
        trace.read_events(&at, &mut chunk).expect("events");
        events += chunk.len();
        chunks.push(chunk);
    }
    println!("{path}: {events} events");
    let each = |bytes: usize| bytes as f64 / events.max(1) as f64;
    for (name, expanded, compressed) in sizes {
        println!("  {name:18} {:.3} {:.3}", each(expanded), each(compressed));
    }
    for _ in 0..3 {
        encode_and_decode(&chunks, Compression::Fast);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments
        .first()
        .is_some_and(|first| first.parse::<usize>().is_err())
    {
        return arguments.iter().for_each(|path| measure_trace(path));
    }
    let chunk = std::env::args()
        .nth(1)
        .map_or(Ok(1 << 16), |argument| argument.parse());
    let chunk: usize = chunk.expect("a number of events per chunk");
    let events = churn();
    println!("{} events, {chunk} per chunk", events.len());
    for compression in [Compression::Fast, Compression::None] {
        measure(&events, chunk, compression);
        measure(&events, chunk, compression);
    }
}
