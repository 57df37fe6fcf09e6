//! Single sampled blocks with their stacks: those that are live or old, and those that were
//! freed lately.

use std::io;

use allotrope_sampling::Period;
use allotrope_shm::samples::writer::FirstAllocation;

use crate::look::Look;
use crate::names::NamedFrame;
use crate::sites::block;
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

/// A sampled block.
#[derive(Debug)]
pub struct BlockRow {
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
    /// The stack of that, innermost first.
    pub stack: Vec<NamedFrame>,
    /// How long ago the block was first allocated, in nanoseconds, and the stack of that, if it was
    /// reallocated since and is live.
    pub first: Option<(u64, Vec<NamedFrame>)>,
    /// How it was freed.
    pub freed: Option<FreedRow>,
}

/// How a block was freed.
#[derive(Debug)]
pub struct FreedRow {
    /// When, by `CLOCK_MONOTONIC_COARSE`, in nanoseconds.
    pub time: u64,
    /// The same moment in nanoseconds since 1970.
    pub real_time: u64,
    /// The stack, innermost first.
    pub stack: Vec<NamedFrame>,
}

/// A block without its names.
struct Bare {
    address: u64,
    size: u64,
    period: Period,
    allocated: u64,
    stack: u32,
    first: Option<FirstAllocation>,
    freed: Option<(u64, u32)>,
}

/// Calls `show` with the blocks of a process, the oldest first; those that were freed in the order
/// in which they were.
///
/// # Errors
/// Those of `show`.
pub fn each(
    watch: &mut Watch,
    look: &Look,
    which: Which,
    show: &mut dyn FnMut(&BlockRow) -> io::Result<()>,
) -> io::Result<()> {
    let blocks = match which {
        Which::Freed => freed(look),
        Which::Live => live(look),
        Which::Unsuppressed => unsuppressed(watch, look, live(look)),
        Which::Old => {
            let old = old(watch, look);
            unsuppressed(watch, look, old)
        }
    };
    for blocks in blocks.chunks(AT_ONCE) {
        let allocated = blocks.iter().map(|it| it.stack);
        let first = blocks.iter().filter_map(|it| it.first.map(|it| it.stack));
        let freed = blocks.iter().filter_map(|it| it.freed.map(|it| it.1));
        let ids: Vec<u32> = allocated.chain(first).chain(freed).collect();
        let mut stacks = watch.names.stacks(look, &ids).into_iter();
        let allocated: Vec<_> = stacks.by_ref().take(blocks.len()).collect();
        let first = blocks.iter().filter(|it| it.first.is_some()).count();
        let first: Vec<_> = stacks.by_ref().take(first).collect();
        let (mut first, mut freed) = (first.into_iter(), stacks);
        for (block, stack) in blocks.iter().zip(allocated) {
            let end = block.freed.map_or(look.time, |(time, _)| time);
            let next = |stacks: &mut std::vec::IntoIter<_>| stacks.next().unwrap_or_default();
            show(&BlockRow {
                process: look.process,
                address: block.address,
                size: block.size,
                period: block.period,
                allocated: block.allocated,
                age: end.saturating_sub(block.allocated),
                stack,
                first: block.first.map(|it| {
                    let age = end.saturating_sub(it.allocated);
                    (age, next(&mut first))
                }),
                freed: block.freed.map(|(time, _)| FreedRow {
                    time,
                    real_time: look
                        .real_time
                        .saturating_sub(look.time.saturating_sub(time)),
                    stack: next(&mut freed),
                }),
            })?;
        }
    }
    Ok(())
}

fn live(look: &Look) -> Vec<Bare> {
    let samples = look.state.samples.iter();
    let blocks = samples.map(|it| Bare {
        address: it.address,
        size: it.size,
        period: it.period,
        allocated: it.allocated,
        stack: it.stack,
        first: it.first,
        freed: None,
    });
    let mut blocks: Vec<Bare> = blocks.collect();
    blocks.sort_by_key(|it| (it.allocated, it.address));
    blocks
}

fn old(watch: &Watch, look: &Look) -> Vec<Bare> {
    let samples = look.state.samples.iter();
    let is_old = |age: u64| age >= watch.options.old_age;
    let hidden = samples.filter(|it| !is_old(look.age(it)) || watch.is_hidden(look, block(it)));
    let hidden: rustc_hash::FxHashSet<_> = hidden.map(block).collect();
    let mut blocks = live(look);
    blocks.retain(|it| !hidden.contains(&(it.address, it.allocated)));
    blocks
}

fn unsuppressed(watch: &mut Watch, look: &Look, mut blocks: Vec<Bare>) -> Vec<Bare> {
    let stacks = blocks.iter().map(|it| it.stack).collect();
    let suppressed = watch.suppressed_stacks(look, &stacks);
    blocks.retain(|it| !suppressed.contains(&it.stack));
    blocks
}

fn freed(look: &Look) -> Vec<Bare> {
    let freed = look.state.freed.iter();
    let blocks = freed.map(|it| Bare {
        address: it.address,
        size: it.size,
        period: it.period,
        allocated: it.allocated,
        stack: it.stack,
        first: None,
        freed: Some((it.deallocation.time, it.deallocation.stack)),
    });
    blocks.collect()
}
