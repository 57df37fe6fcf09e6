//! The layout of the results file: words of 64 bits, little-endian. The caller fills in what
//! is wanted; the replayer adds what it measured. The caller trusts nothing of it: an
//! allocator that goes wrong in the replayer may have written anywhere.

use crate::operations::Call;

/// The value of [`MAGIC_WORD`].
pub const MAGIC: u64 = u64::from_le_bytes(*b"ALTRRES1");

/// Index of the word with [`MAGIC`].
pub const MAGIC_WORD: usize = 0;

// What is wanted.

/// Index: [`MODE_TIMED`], [`MODE_LATENCY`] or [`MODE_STEPPED`].
pub const MODE: usize = 1;
/// Index: [`TOUCH_NONE`], [`TOUCH_FIRST`] or [`TOUCH_PAGES`].
pub const TOUCH: usize = 2;
/// Index: how much of a block [`TOUCH_PAGES`] touches, in 1/65,536 of its size.
pub const TOUCH_SHARE: usize = 3;
/// Index: the number of the processor to run on, plus 1; 0 for any. Only used if there is
/// one thread.
pub const PROCESSOR: usize = 4;
/// Index: how many points of memory are wanted, at most [`MAX_POINTS`].
pub const POINTS_WANTED: usize = 5;

/// Index: one of the `PATTERN_` constants. This and the next three only in [`MODE_BENCH`].
pub const PATTERN: usize = 6;
/// Index: bytes of a block, at least 8.
pub const BLOCK_BYTES: usize = 7;
/// Index: number of threads, 1 to [`MAX_BENCH_THREADS`].
pub const BENCH_THREADS: usize = 8;
/// Index: how many blocks each thread allocates and frees; rounded up to whole rounds.
pub const BENCH_PAIRS: usize = 9;

/// Index: bytes of the smallest block of [`PATTERN_LARSON`]; 0: half of [`BLOCK_BYTES`].
pub const SMALLEST_BYTES: usize = 10;
/// Index: how many blocks a thread keeps in [`PATTERN_LARSON`], at most [`MAX_KEPT`]; 0:
/// [`ROUND`].
pub const KEPT_BLOCKS: usize = 11;
/// Index: rounds between two exchanges of [`PATTERN_LARSON`]; 0: [`LARSON_ROUNDS`].
pub const EXCHANGE_ROUNDS: usize = 12;

/// Measures the time of all operations together.
pub const MODE_TIMED: u64 = 0;
/// Measures the time of each operation.
pub const MODE_LATENCY: u64 = 1;
/// Calls the allocator for sampled operations so that a tracer can step through the call.
pub const MODE_STEPPED: u64 = 2;

/// Makes calls of its own in a pattern, all threads at the same time.
pub const MODE_BENCH: u64 = 3;

/// Allocates [`ROUND`] blocks and frees them, the last one first.
pub const PATTERN_LIFO: u64 = 0;
/// Allocates [`ROUND`] blocks and frees them, the first one first.
pub const PATTERN_FIFO: u64 = 1;
/// Allocates [`ROUND`] blocks and frees them in a random order.
pub const PATTERN_RANDOM: u64 = 2;
/// Keeps [`ROUND`] blocks; frees the oldest and allocates one, in turn.
pub const PATTERN_INTERLEAVED: u64 = 3;
/// Keeps [`KEPT_BLOCKS`] blocks of random sizes, from [`SMALLEST_BYTES`] to [`BLOCK_BYTES`]; frees
/// a random one and allocates one in its place. After each [`EXCHANGE_ROUNDS`] × [`ROUND`] steps
/// the threads exchange their blocks. After Larson and Krishnan, "Memory Allocation for
/// Long-Running Server Applications" (ISMM 1998).
pub const PATTERN_LARSON: u64 = 4;
/// Blocks of a round.
pub const ROUND: usize = 1024;
/// Largest number of blocks that a thread keeps.
pub const MAX_KEPT: usize = 16384;
/// Rounds between two exchanges.
pub const LARSON_ROUNDS: usize = 16;
/// Largest number of threads in [`MODE_BENCH`].
pub const MAX_BENCH_THREADS: u64 = 64;

/// Touches no block.
pub const TOUCH_NONE: u64 = 0;
/// Writes the first byte of each block.
pub const TOUCH_FIRST: u64 = 1;
/// Writes the first byte, and a byte of each further page of a part of the block. After a
/// reallocation only what is beyond the old size.
pub const TOUCH_PAGES: u64 = 2;
/// All of a block, as [`TOUCH_SHARE`].
pub const WHOLE: u64 = 1 << 16;

// What was measured.

/// Index: how far the replayer got, one of the `STATE_` constants.
pub const STATE: usize = 32;
/// Index: number of the operation that is called now.
pub const CURRENT: usize = 33;
/// Index: operations called.
pub const DONE: usize = 34;
/// Index: allocations that failed.
pub const FAILURES: usize = 35;
/// Index: number of the first operation that failed, plus 1; 0 for none.
pub const FIRST_FAILURE: usize = 36;
/// Index: time of the null loop. With one thread, nanoseconds of its processor time, so that
/// other processes do not count; with several, ticks of the time stamp counter.
pub const NULL_TIME: usize = 37;
/// Index: the same of the loop that calls the allocator.
pub const TIME: usize = 38;
/// Index: ticks of the time stamp counter in [`SPAN_NS`].
pub const SPAN_TICKS: usize = 39;
/// Index: nanoseconds in which the counter advanced by [`SPAN_TICKS`].
pub const SPAN_NS: usize = 40;
/// Index: bytes of memory of its own that the process had before the replay (anonymous and
/// shared memory, which is all but files).
pub const BASE_MEMORY: usize = 41;
/// Index: most bytes of memory beyond that, at any time of the replay.
pub const PEAK_MEMORY: usize = 42;
/// Index: bytes of memory beyond that at the end.
pub const FINAL_MEMORY: usize = 43;
/// Index: number of points.
pub const POINTS_TAKEN: usize = 44;
/// Index: how often another thread had its turn.
pub const SWITCHES: usize = 45;
/// Index: page faults during the replay that needed no file.
pub const PAGE_FAULTS: usize = 46;
/// Index: context switches during the replay that the kernel forced.
pub const PREEMPTIONS: usize = 47;
/// Index: processor cycles in user mode, plus 1; 0 if there is no counter. This and the next
/// three only in [`MODE_BENCH`].
pub const CYCLES: usize = 48;
/// Index: the same for instructions.
pub const INSTRUCTIONS: usize = 49;
/// Index: cycles of the null loop, as [`CYCLES`].
pub const NULL_CYCLES: usize = 50;
/// Index: instructions of the null loop, as [`CYCLES`].
pub const NULL_INSTRUCTIONS: usize = 51;
/// Index: ticks of the time stamp counter by which two readings differ at least, if they
/// differ. Only in [`MODE_LATENCY`].
pub const CLOCK_STEP: usize = 52;
/// Index of the first of [`PATH_WORDS`] words: the path of the library that `malloc` is in, up
/// to a byte 0.
pub const PATH: usize = 64;
/// Words of the path.
pub const PATH_WORDS: usize = 512;
/// Index of the first of 2 × [`MAX_POINTS`] words, two a point: the number of operations
/// done, and bytes of memory then.
pub const POINTS: usize = 1024;
/// Largest number of points.
pub const MAX_POINTS: usize = 512;
/// Index of the first of the histograms: for each [`Call`] one of [`BUCKETS`] words, the number
/// of operations whose time in ticks is in the bucket. Only in [`MODE_LATENCY`].
pub const HISTOGRAMS: usize = 2048;
/// Index of the same histograms of the null loop.
pub const NULL_HISTOGRAMS: usize = HISTOGRAMS + Call::ALL.len() * BUCKETS;
/// Words of the file.
pub const WORDS: usize = NULL_HISTOGRAMS + Call::ALL.len() * BUCKETS;
/// Bytes of the file.
pub const BYTES: usize = WORDS * 8;

/// The replayer has not mapped the results file.
pub const STATE_STARTED: u64 = 0;
/// It has mapped it, and prepares.
pub const STATE_PREPARING: u64 = 1;
/// It runs the null loop.
pub const STATE_NULL_LOOP: u64 = 2;
/// It calls the allocator.
pub const STATE_REPLAYING: u64 = 3;
/// It is done.
pub const STATE_DONE: u64 = 4;
/// It cannot use the operations file.
pub const STATE_BAD_FILE: u64 = 5;
/// It could not get memory or threads for itself.
pub const STATE_NO_RESOURCES: u64 = 6;

/// Buckets of a histogram: 16 for each power of two from 2^4 on, and one a tick below 16.
pub const BUCKETS: usize = 16 * 45;

/// The bucket of a number of ticks.
#[inline]
pub const fn bucket(ticks: u64) -> usize {
    if ticks < 16 {
        return ticks as usize;
    }
    let log2 = 63 - ticks.leading_zeros() as usize;
    let within = (ticks >> (log2 - 4)) as usize & 15;
    let at = (log2 - 3) * 16 + within;
    if at < BUCKETS { at } else { BUCKETS - 1 }
}

/// The smallest number of ticks of a bucket.
pub const fn bucket_start(bucket: usize) -> u64 {
    if bucket < 16 {
        return bucket as u64;
    }
    let log2 = bucket / 16 + 3;
    (16 + (bucket % 16) as u64) << (log2 - 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ascending_and_exact_to_a_sixteenth() {
        let mut last = 0;
        for ticks in (0..100_000).chain([1 << 30, (1 << 40) + 5]) {
            let at = bucket(ticks);
            assert!(at >= last && at < BUCKETS);
            assert!(bucket_start(at) <= ticks);
            assert!(ticks - bucket_start(at) <= ticks / 16);
            last = at;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for at in 0..BUCKETS {
            assert_eq!(bucket(bucket_start(at)), at);
        }
    }
}
