//! Patterns of calls, on several threads at the same time. `results` describes them.
//!
//! All threads start together, and the time is that from the start to the end of the last one;
//! that of one thread is its processor time. The same is done with functions that do nothing
//! first.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use allotrope_replayer::results::{self, LARSON_ROUNDS, MAX_KEPT, ROUND};

use crate::calls::{ALLOCATOR, Calls, NULL};
use crate::counters::Counters;
use crate::system::{self, Words};

const MAX_THREADS: usize = results::MAX_BENCH_THREADS as usize;

/// What a thread works with: its blocks, and an order in which it frees them.
struct Lane {
    blocks: [*mut c_void; MAX_KEPT],
    order: [u16; ROUND],
}

struct Bench {
    pattern: u64,
    bytes: usize,
    /// Bytes of the smallest block, where sizes are random.
    smallest: usize,
    /// Blocks of a thread.
    kept: usize,
    /// Rounds between two exchanges.
    exchange: u64,
    threads: usize,
    /// Rounds of each thread.
    rounds: u64,
    calls: &'static Calls,
    failures: AtomicU64,
    /// Threads that have reached the barrier; and how often all had.
    waiting: AtomicU32,
    passed: AtomicU32,
    /// One for each thread. Between two barriers, each is used by one thread.
    lanes: *mut UnsafeCell<Lane>,
    /// The start, and the time from there to the end.
    times: [AtomicU64; 2],
}

/// A thread's arguments.
struct Start {
    bench: *const Bench,
    number: usize,
}

/// Runs the pattern. The error is a state.
pub fn run(results: Words) -> Result<(), u64> {
    let threads = results.get(results::BENCH_THREADS);
    let threads = threads.clamp(1, results::MAX_BENCH_THREADS) as usize;
    if threads == 1 && results.get(results::PROCESSOR) > 0 {
        system::run_on(results.get(results::PROCESSOR) - 1);
    }
    let counters = Counters::open();
    let lanes = system::own_memory(threads * size_of::<Lane>());
    let lanes = lanes.ok_or(results::STATE_NO_RESOURCES)?.cast();
    let pairs = results.get(results::BENCH_PAIRS).max(1);
    let pattern = results.get(results::PATTERN);
    let bytes = results.get(results::BLOCK_BYTES).clamp(8, 1 << 40) as usize;
    let smallest = match results.get(results::SMALLEST_BYTES) {
        0 => bytes / 2,
        smallest => usize::try_from(smallest).unwrap_or(bytes).min(bytes),
    };
    let kept = match (pattern, results.get(results::KEPT_BLOCKS)) {
        (results::PATTERN_LARSON, kept @ 1..) => kept.min(MAX_KEPT as u64) as usize,
        _ => ROUND,
    };
    let exchange = match results.get(results::EXCHANGE_ROUNDS) {
        0 => LARSON_ROUNDS as u64,
        rounds => rounds,
    };
    for (state, calls, time, cycles, instructions) in [
        (
            results::STATE_NULL_LOOP,
            &NULL,
            results::NULL_TIME,
            results::NULL_CYCLES,
            results::NULL_INSTRUCTIONS,
        ),
        (
            results::STATE_REPLAYING,
            &ALLOCATOR,
            results::TIME,
            results::CYCLES,
            results::INSTRUCTIONS,
        ),
    ] {
        results.set(results::STATE, state);
        let bench = Bench {
            pattern,
            bytes,
            smallest,
            kept,
            exchange,
            threads,
            rounds: pairs.div_ceil(ROUND as u64),
            calls,
            failures: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            passed: AtomicU32::new(0),
            lanes,
            times: [AtomicU64::new(0), AtomicU64::new(0)],
        };
        bench.fill_lanes();
        counters.start();
        bench.run_all()?;
        for (index, counted) in [cycles, instructions].into_iter().zip(counters.stop()) {
            results.set(index, counted.map_or(0, |it| it + 1));
        }
        results.set(time, bench.times[1].load(Ordering::Relaxed));
        results.set(results::DONE, bench.operations());
        results.set(results::FAILURES, bench.failures.load(Ordering::Relaxed));
    }
    Ok(())
}

impl Bench {
    /// Calls of all threads in the measured part.
    fn operations(&self) -> u64 {
        self.rounds * ROUND as u64 * 2 * self.threads as u64
    }

    /// Empties the blocks and makes an order for each lane.
    fn fill_lanes(&self) {
        for number in 0..self.threads {
            // SAFETY: there are so many lanes, and no thread runs yet. All bytes are valid.
            let lane = unsafe { &mut *(*self.lanes.add(number)).get() };
            lane.blocks.fill(ptr::null_mut());
            for (at, place) in (0..).zip(&mut lane.order) {
                *place = at;
            }
            let mut random = Random::new(number);
            for at in (1..ROUND).rev() {
                lane.order.swap(at, random.below(at + 1));
            }
        }
    }

    fn run_all(&self) -> Result<(), u64> {
        let mut handles = [0; MAX_THREADS];
        let mut starts: [Start; MAX_THREADS] = std::array::from_fn(|number| Start {
            bench: self,
            number,
        });
        for number in 1..self.threads {
            let start: *mut Start = &raw mut starts[number];
            // SAFETY: the handle is a place for the result; the thread is joined below, before
            // its arguments end.
            let error = unsafe {
                libc::pthread_create(&raw mut handles[number], ptr::null(), work, start.cast())
            };
            if error != 0 {
                // The threads that exist wait for ever; the process ends.
                return Err(results::STATE_NO_RESOURCES);
            }
        }
        self.work(0);
        for handle in &handles[1..self.threads] {
            // SAFETY: each thread was created and is joined once.
            unsafe { libc::pthread_join(*handle, ptr::null_mut()) };
        }
        Ok(())
    }

    /// What each thread does.
    fn work(&self, number: usize) {
        let mut random = Random::new(number);
        let keeps = matches!(
            self.pattern,
            results::PATTERN_INTERLEAVED | results::PATTERN_LARSON
        );
        if keeps {
            self.with_lane(number, |lane| {
                for block in &mut lane.blocks[..self.kept] {
                    *block = self.allocate(self.bytes);
                }
            });
        }
        self.barrier();
        let start = self.now();
        if number == 0 {
            self.times[0].store(start, Ordering::Relaxed);
        }
        for round in 0..self.rounds {
            let mut own = number;
            if self.pattern == results::PATTERN_LARSON {
                let exchanges = round / self.exchange;
                if exchanges > 0 && round.is_multiple_of(self.exchange) {
                    self.barrier();
                }
                own = (number as u64 + exchanges) as usize % self.threads;
            }
            self.with_lane(own, |lane| self.round(lane, &mut random));
        }
        self.barrier();
        if number == 0 {
            let elapsed = self.now() - self.times[0].load(Ordering::Relaxed);
            self.times[1].store(elapsed, Ordering::Relaxed);
        }
        if keeps {
            self.with_lane(number, |lane| {
                for block in &lane.blocks[..self.kept] {
                    self.free(*block);
                }
            });
        }
    }

    fn now(&self) -> u64 {
        if self.threads == 1 {
            system::processor_ns()
        } else {
            system::now_ns()
        }
    }

    /// Calls `with` with a lane.
    #[inline(always)]
    fn with_lane(&self, number: usize, with: impl FnOnce(&mut Lane)) {
        // SAFETY: there are so many lanes, and between two barriers each is used by one thread.
        with(unsafe { &mut *(*self.lanes.add(number)).get() });
    }

    /// A round: each thread allocates and frees [`ROUND`] blocks.
    #[inline(never)]
    fn round(&self, lane: &mut Lane, random: &mut Random) {
        let Lane { blocks, order } = lane;
        let blocks = &mut blocks[..self.kept];
        match self.pattern {
            results::PATTERN_INTERLEAVED => {
                for block in blocks {
                    self.free(*block);
                    *block = self.allocate(self.bytes);
                }
            }
            results::PATTERN_LARSON => {
                for _ in 0..ROUND {
                    let at = random.below(self.kept);
                    let bytes = self.smallest + random.below(self.bytes - self.smallest + 1);
                    self.free(blocks[at]);
                    blocks[at] = self.allocate(bytes);
                }
            }
            pattern => {
                for block in &mut *blocks {
                    *block = self.allocate(self.bytes);
                }
                match pattern {
                    results::PATTERN_FIFO => blocks.iter().for_each(|it| self.free(*it)),
                    results::PATTERN_RANDOM => {
                        for at in order {
                            self.free(blocks[usize::from(*at) % ROUND]);
                        }
                    }
                    _ => blocks.iter().rev().for_each(|it| self.free(*it)),
                }
            }
        }
    }

    /// Allocates a block and writes its first byte.
    #[inline(always)]
    fn allocate(&self, bytes: usize) -> *mut c_void {
        // SAFETY: the function is malloc(3) or does nothing; the block has at least a byte.
        unsafe {
            let block = (self.calls.malloc)(bytes);
            if block.is_null() {
                self.failures.fetch_add(1, Ordering::Relaxed);
            } else {
                block.cast::<u8>().write_volatile(1);
            }
            block
        }
    }

    #[inline(always)]
    fn free(&self, block: *mut c_void) {
        // SAFETY: the block came from `allocate` and was not freed, or is null.
        unsafe { (self.calls.free)(block) };
    }

    /// Waits until all threads are here.
    fn barrier(&self) {
        let threads = self.threads as u32;
        let passed = self.passed.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == threads {
            self.waiting.store(0, Ordering::Relaxed);
            system::wake_all(&self.passed, passed.wrapping_add(1));
        } else {
            system::wait_while(&self.passed, passed);
        }
    }
}

/// The start of a thread.
extern "C" fn work(start: *mut c_void) -> *mut c_void {
    // SAFETY: the arguments live until the thread is joined, and nobody writes them.
    let start = unsafe { &*start.cast::<Start>() };
    // SAFETY: as above.
    unsafe { &*start.bench }.work(start.number);
    ptr::null_mut()
}

/// Marsaglia's xorshift64 ("Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    fn new(seed: usize) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (seed as u64 + 1))
    }

    /// A number below `limit`.
    #[inline(always)]
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * limit as u64) >> 32) as usize
    }
}
