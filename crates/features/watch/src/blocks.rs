//! Single sampled blocks with their stacks: those that are live or old, and those that were
//! freed lately.

use std::io;

use allotrope_sampling::Period;

use crate::names::Frame;
use crate::snapshot::Snapshot;
use crate::watch::Watch;

/// Blocks whose stacks are in memory at once.
const AT_ONCE: usize = 64;

/// Which blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All that are live.
    Live,
    /// The live ones of stacks that no rule suppresses.
    Unsuppressed,
    /// Those of them that are old and not hidden.
    Old,
    /// Those that were freed lately.
    Freed,
}

impl Which {
    /// The head of a list of them, as poireau has it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Live | Self::Unsuppressed => "live allocations",
            Self::Old => "old allocations",
            Self::Freed => "recently freed regions",
        }
    }

    /// The kind of a JSON object.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Live | Self::Unsuppressed => "live_block",
            Self::Old => "old_block",
            Self::Freed => "freed_block",
        }
    }
}

/// A sampled block; `S` is a stack: its frames, innermost first, or its id in the process.
#[derive(Debug)]
pub struct BlockRow<S = Vec<Frame>> {
    /// The process.
    pub process: u32,
    /// Its address.
    pub address: u64,
    /// The size requested, in bytes.
    pub size: u64,
    /// The period at which it was sampled.
    pub period: Period,
    /// When it was allocated or reallocated, by `CLOCK_MONOTONIC_COARSE`, in nanoseconds.
    pub allocated: u64,
    /// How long ago that was, in nanoseconds; until it was freed, if it was.
    pub age: u64,
    /// The stack of that.
    pub stack: S,
    /// How long ago the block was first allocated, in nanoseconds, and the stack of that, if it was
    /// reallocated since and is live.
    pub first: Option<(u64, S)>,
    /// How it was freed.
    pub freed: Option<FreedRow<S>>,
}

/// How a block was freed.
#[derive(Debug)]
pub struct FreedRow<S = Vec<Frame>> {
    /// When, by `CLOCK_MONOTONIC_COARSE`, in nanoseconds.
    pub time: u64,
    /// The same moment in nanoseconds since 1970.
    pub real_time: u64,
    /// The stack.
    pub stack: S,
}

impl BlockRow<u32> {
    /// All its stacks, in the order in which [`Self::named`] takes their names.
    fn stacks(&self) -> impl Iterator<Item = u32> {
        let first = self.first.as_ref().map(|it| it.1);
        let freed = self.freed.as_ref().map(|it| it.stack);
        [Some(self.stack), first, freed].into_iter().flatten()
    }

    fn named(&self, mut next: impl FnMut() -> Vec<Frame>) -> BlockRow {
        BlockRow {
            process: self.process,
            address: self.address,
            size: self.size,
            period: self.period,
            allocated: self.allocated,
            age: self.age,
            stack: next(),
            first: self.first.as_ref().map(|(age, _)| (*age, next())),
            freed: self.freed.as_ref().map(|it| FreedRow {
                time: it.time,
                real_time: it.real_time,
                stack: next(),
            }),
        }
    }
}

/// Calls `show` with the blocks of a process, the oldest first; those that were freed in the order
/// in which they were.
///
/// # Errors
/// Those of `show`.
pub fn each(
    watch: &mut Watch,
    snapshot: &Snapshot,
    which: Which,
    show: &mut dyn FnMut(&BlockRow) -> io::Result<()>,
) -> io::Result<()> {
    let blocks = match which {
        Which::Freed => freed(snapshot),
        Which::Live => live(snapshot),
        Which::Unsuppressed => unsuppressed(watch, snapshot, live(snapshot)),
        Which::Old => {
            let old = old(watch, snapshot);
            unsuppressed(watch, snapshot, old)
        }
    };
    for blocks in blocks.chunks(AT_ONCE) {
        let ids: Vec<u32> = blocks.iter().flat_map(BlockRow::stacks).collect();
        let mut names = watch.names.stacks(snapshot, &ids).into_iter();
        for block in blocks {
            show(&block.named(|| names.next().unwrap_or_default()))?;
        }
    }
    Ok(())
}

fn live(snapshot: &Snapshot) -> Vec<BlockRow<u32>> {
    let since = |time| snapshot.time.saturating_sub(time);
    let samples = snapshot.state.samples.iter();
    let blocks = samples.map(|it| BlockRow {
        process: snapshot.process,
        address: it.address,
        size: it.size,
        period: it.period,
        allocated: it.allocated,
        age: snapshot.age(it),
        stack: it.stack,
        first: it.first.map(|it| (since(it.allocated), it.stack)),
        freed: None,
    });
    let mut blocks: Vec<BlockRow<u32>> = blocks.collect();
    blocks.sort_by_key(|it| (it.allocated, it.address));
    blocks
}

fn old(watch: &Watch, snapshot: &Snapshot) -> Vec<BlockRow<u32>> {
    let mut blocks = live(snapshot);
    blocks.retain(|it| {
        let block = (it.address, it.allocated);
        it.age >= watch.options.old_age && !watch.is_hidden(snapshot, block)
    });
    blocks
}

fn unsuppressed(
    watch: &mut Watch,
    snapshot: &Snapshot,
    mut blocks: Vec<BlockRow<u32>>,
) -> Vec<BlockRow<u32>> {
    let stacks = blocks.iter().map(|it| it.stack).collect();
    let suppressed = watch.suppressed_stacks(snapshot, stacks);
    blocks.retain(|it| !suppressed.contains(&it.stack));
    blocks
}

fn freed(snapshot: &Snapshot) -> Vec<BlockRow<u32>> {
    let freed = snapshot.state.freed.iter();
    let blocks = freed.map(|it| {
        let time = it.deallocation.time;
        let since = snapshot.time.saturating_sub(time);
        BlockRow {
            process: snapshot.process,
            address: it.address,
            size: it.size,
            period: it.period,
            allocated: it.allocated,
            age: time.saturating_sub(it.allocated),
            stack: it.stack,
            first: None,
            freed: Some(FreedRow {
                time,
                real_time: snapshot.real_time.saturating_sub(since),
                stack: it.deallocation.stack,
            }),
        }
    });
    blocks.collect()
}
