//! Measures how long the aggregation of an event takes: with one stream, and with several
//! threads that free each other's blocks. Prints nanoseconds of processor time, which a
//! busy machine disturbs less than elapsed time. It is not a test.
//!
//! `cargo run --release -p allotrope-profile --example aggregate_speed`
//!
//! With trace files as arguments it aggregates each several times, and prints per event the
//! processor time of the aggregating thread, the processor time of all threads, and the
//! elapsed time: the smallest value of each.

use std::path::Path;
use std::time::Instant;

use allotrope_profile::{MemoryTrace, Options, aggregate};
use allotrope_trace::TraceReader;
use allotrope_trace::model::*;

const EVENTS: u64 = 4_000_000;
const CHUNK: usize = 16_384;

fn event(kind: EventKind, stack: u32, address: u64, size: u64) -> Event {
    Event {
        kind,
        entry: EntryPoint::Malloc,
        alignment_log2: 0,
        stack,
        address,
        size,
    }
}

/// The trace of a program whose threads use the same addresses. Each thread has `live`
/// live blocks and frees random ones; `foreign` percent of the blocks it frees are
/// another thread's. `lost` in a thousand deallocations are missing. There is a
/// timestamp every `timestamp_each` events; on a loaded machine they may be thousands
/// apart.
fn program(
    threads: usize,
    live: usize,
    foreign: u64,
    lost: u64,
    timestamp_each: usize,
) -> MemoryTrace {
    let mut records = vec![
        Record::Recording(Recording::default()),
        Record::ImageStart(ImageStart {
            image: 0,
            pid: 1,
            parent_pid: 0,
            origin: Origin::First,
            forked_from: None,
            fork_points: vec![],
            executable: "bench".into(),
            command: vec![],
            tick: 0,
        }),
        Record::Stacks {
            image: 0,
            first: 8,
            nodes: vec![
                StackNode {
                    parent: 0,
                    address: 1,
                    mapping: NO_MAPPING,
                    exact: false
                };
                4096
            ],
        },
    ];
    let mut streams: Vec<Vec<Event>> = (0..threads as u64)
        .map(|thread| vec![event(EventKind::Thread, 0, thread, 0)])
        .collect();
    let mut blocks: Vec<Vec<u64>> = vec![vec![]; threads];
    let mut unused: Vec<u64> = (0..(live as u64 + 1) * threads as u64 * 2)
        .map(|n| n * 48)
        .collect();
    let mut random = 88_172_645_463_325_252_u64;
    for tick in 0..EVENTS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let thread = (random % threads as u64) as usize;
        let owner = if (random >> 32) % 100 < foreign {
            (thread + 1) % threads
        } else {
            thread
        };
        let stream = &mut streams[thread];
        if stream.len().is_multiple_of(timestamp_each) {
            stream.push(event(EventKind::Timestamp, 0, tick * 20, 0));
        }
        if blocks[owner].len() >= live {
            let at = (random >> 16) as usize % blocks[owner].len();
            let address = blocks[owner].swap_remove(at);
            unused.push(address);
            if (random >> 20) % 1_000 >= lost {
                stream.push(event(EventKind::Deallocation, 0, address, 0));
            }
        } else if let Some(address) = unused.pop() {
            blocks[thread].push(address);
            let stack = 8 + (random >> 40) as u32 % 4096;
            stream.push(event(EventKind::Allocation, stack, address, random % 512));
        }
    }
    for (number, events) in (0..).zip(&streams) {
        for chunk in events.chunks(CHUNK) {
            records.push(Record::Events(Events {
                image: 0,
                stream: number,
                first_ordinal: 0,
                events: chunk.to_vec(),
            }));
        }
    }
    MemoryTrace { records, cut: None }
}

/// Processor time of a task in nanoseconds, from `schedstat` (Linux's proc(5)).
fn processor_ns(task: &Path) -> Result<u64, Box<dyn std::error::Error>> {
    let times = std::fs::read_to_string(task.join("schedstat"))?;
    let first = times
        .split_whitespace()
        .next()
        .ok_or("schedstat is empty")?;
    Ok(first.parse()?)
}

/// Processor time in nanoseconds of all threads of this process, including those that
/// ended; in steps of 10 ms.
fn all_threads_ns() -> Result<u64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let behind_name = stat.rsplit(')').next().ok_or("stat is empty")?;
    let times = behind_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.map(str::parse::<u64>).sum::<Result<_, _>>()?;
    Ok(ticks * 10_000_000)
}

fn measure(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut least = [f64::MAX; 3];
    let mut events = 0;
    for _ in 0..5 {
        let trace = TraceReader::open(Path::new(path))?;
        let (begun, all, own) = (Instant::now(), all_threads_ns()?, processor_ns(this())?);
        let profile = aggregate(&trace, &Options::default())?;
        let passed = [
            processor_ns(this())? - own,
            all_threads_ns()? - all,
            u64::try_from(begun.elapsed().as_nanos())?,
        ];
        let totals = profile.processes.iter().map(|process| process.totals);
        events = totals.map(|t| t.allocations + t.deallocations).sum();
        for (least, passed) in least.iter_mut().zip(passed) {
            *least = least.min(passed as f64 / events.max(1) as f64);
        }
    }
    let [own, all, wall] = least;
    println!(
        "{path}: {events} events, {own:.1} ns on the aggregating thread, {all:.1} on all, {wall:.1} passed"
    );
    Ok(())
}

fn this() -> &'static Path {
    Path::new("/proc/thread-self")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let traces: Vec<String> = std::env::args().skip(1).collect();
    if !traces.is_empty() {
        return traces.iter().try_for_each(|path| measure(path));
    }
    for (threads, live, foreign, lost, timestamp_each) in [
        (1, 100, 0, 0, 48),
        (1, 100_000, 0, 0, 48),
        (2, 1_000, 0, 0, 48),
        (4, 1_000, 10, 0, 48),
        (4, 1_000, 10, 10, 48),
        (4, 100, 50, 0, 4_000),
        (4, 10, 50, 0, 50_000),
        (4, 100, 50, 20, 4_000),
    ] {
        let trace = program(threads, live, foreign, lost, timestamp_each);
        let start = processor_ns(this())?;
        let profile = aggregate(&trace, &Options::default())?;
        let ns = (processor_ns(this())? - start) as f64 / EVENTS as f64;
        let process = &profile.processes[0];
        println!(
            "{threads} threads, {live} live each, {foreign} % foreign frees, {lost} ‰ lost, \
             a timestamp every {timestamp_each} events: {ns:.1} ns an event, \
             {} found lost, {} ambiguous",
            process.lost_events, process.ambiguous_events
        );
    }
    Ok(())
}
