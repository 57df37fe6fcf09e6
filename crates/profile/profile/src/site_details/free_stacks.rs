//! Where the blocks of a site are freed: a bounded table from the stack of the deallocation
//! to the blocks that were freed there, and by which threads. Only a recording with
//! [`free_stacks`](allotrope_trace::model::Recording::free_stacks) has these stacks.

use std::collections::BTreeSet;

use allotrope_trace::model::{StackId, stack_end};

use super::find_or_add;
use crate::details::{FreePlace, FreeStack, FreeingThread, SiteDetails};
use crate::frames::{Code, FrameTable};
use crate::index::Image;
use crate::lifetime::Lifetimes;
use crate::stack::{Stack, Stacks};

/// Largest number of stacks that a site lists; the blocks of others are in one element without a
/// stack.
const MAX_STACKS: usize = 64;
/// Largest number of threads that such a stack lists; others are summed up in one element.
const MAX_THREADS: usize = 8;

/// How a block was freed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freed {
    /// The thread that freed it; `None` if the event is lost.
    pub by: Option<u32>,
    /// The stack of the call; a stack end if it was not recorded.
    pub stack: StackId,
    /// The block was freed by `realloc`.
    pub reallocation: bool,
}

impl Freed {
    /// The event of the deallocation is lost.
    pub(crate) const LOST: Self = Self {
        by: None,
        stack: stack_end::NOT_RECORDED,
        reallocation: false,
    };
}

impl FreePlace {
    fn of(freed: Freed) -> Self {
        match freed.stack {
            ..stack_end::FIRST_NODE => Self::Unknown,
            id => Self::Stack {
                id,
                stack: Stack::default(),
                reallocation: freed.reallocation,
            },
        }
    }

    /// Equal places of one image are at one element. Ids of stacks suffice to compare.
    fn key(&self) -> (u8, StackId, bool) {
        match *self {
            Self::Stack {
                id, reallocation, ..
            } => (0, id, reallocation),
            Self::Others => (1, 0, false),
            Self::Unknown => (2, 0, false),
        }
    }

    /// The frames of the stack, innermost first; none if it is not one stack.
    pub fn frames(&self) -> &[u32] {
        match self {
            Self::Stack { stack, .. } => stack,
            Self::Others | Self::Unknown => &[],
        }
    }
}

impl FreeStack {
    fn none(place: FreePlace) -> Self {
        Self {
            place,
            bytes: 0,
            lifetimes: Lifetimes::default(),
            threads: Vec::new(),
        }
    }

    fn add_blocks(&mut self, thread: Option<u32>, blocks: u64) {
        let known = self.threads.iter().any(|it| it.thread == thread);
        let thread = match self.threads.len() {
            MAX_THREADS.. if !known => None,
            _ => thread,
        };
        let none = FreeingThread { thread, blocks: 0 };
        let of_thread = find_or_add(&mut self.threads, |it| it.thread == thread, none);
        of_thread.blocks += blocks;
    }
}

/// Counts a block that was freed.
pub(super) fn add(all: &mut Vec<FreeStack>, size: u64, lifetime: u64, freed: Freed) {
    let mut place = FreePlace::of(freed);
    let is = |it: &FreeStack, place: &FreePlace| it.place.key() == place.key();
    if all.len() >= MAX_STACKS && !all.iter().any(|it| is(it, &place)) {
        place = FreePlace::Others;
    }
    let none = FreeStack::none(place.clone());
    let element = find_or_add(all, |it| is(it, &place), none);
    element.bytes = element.bytes.wrapping_add(size);
    element.lifetimes.add(lifetime);
    element.add_blocks(freed.by, 1);
}

/// The element with most blocks comes first.
pub(super) fn sort(all: &mut [FreeStack]) {
    for element in all.iter_mut() {
        element
            .threads
            .sort_by_key(|it| (!it.blocks, it.thread.is_none(), it.thread));
    }
    all.sort_by_key(|it| (!it.lifetimes.blocks, it.place.key()));
}

/// Adds the blocks of another site of the same image.
pub(super) fn merge(all: &mut Vec<FreeStack>, other: &[FreeStack]) {
    for more in other {
        let is_this = |it: &FreeStack| it.place.key() == more.place.key();
        let none = FreeStack::none(more.place.clone());
        let element = find_or_add(all, is_this, none);
        element.bytes = element.bytes.wrapping_add(more.bytes);
        element.lifetimes.merge(&more.lifetimes);
        for it in &more.threads {
            element.add_blocks(it.thread, it.blocks);
        }
    }
}

/// Sets the frames of the stacks in the details of an image's sites.
pub(crate) fn set_frames<'a>(
    sites: impl Iterator<Item = &'a mut SiteDetails>,
    code: &Code<'_>,
    frames: &mut FrameTable,
) {
    let elements = sites.flat_map(|details| &mut details.free_stacks);
    let mut unset: Vec<(StackId, &mut Stack)> = elements
        .filter_map(|element| match &mut element.place {
            FreePlace::Stack { id, stack, .. } => Some((*id, stack)),
            FreePlace::Others | FreePlace::Unknown => None,
        })
        .collect();
    let stacks = stacks_of(unset.iter().map(|(id, _)| *id), code, frames);
    for (id, stack) in &mut unset {
        if let Ok(at) = stacks.binary_search_by_key(id, |it| it.0) {
            **stack = stacks[at].1.clone();
        }
    }
}

/// The frames of stacks of an image, in order of the stacks' ids.
pub(crate) fn named_stacks<H>(
    image: &Image<H>,
    ids: impl Iterator<Item = StackId>,
    frames: &mut FrameTable,
) -> Vec<(StackId, Stack)> {
    let jit = image.jit_code.borrow();
    stacks_of(ids, &Code::of(image, &jit), frames)
}

/// The same of code that the caller has.
fn stacks_of(
    ids: impl Iterator<Item = StackId>,
    code: &Code<'_>,
    frames: &mut FrameTable,
) -> Vec<(StackId, Stack)> {
    let ids: BTreeSet<StackId> = ids.collect();
    let mut stacks = Stacks::default();
    for &id in &ids {
        frames.stack(code, id, &mut stacks);
    }
    let numbers: Vec<u32> = (0..ids.len() as u32).collect();
    ids.into_iter().zip(stacks.into_stacks(&numbers)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freed(stack: StackId, thread: u32) -> Freed {
        Freed {
            by: Some(thread),
            stack,
            reallocation: false,
        }
    }

    fn blocks(all: &[FreeStack]) -> u64 {
        all.iter().map(|it| it.lifetimes.blocks).sum()
    }

    #[test]
    fn stacks_and_threads_are_bounded_and_nothing_is_lost() {
        let mut all = Vec::new();
        for number in 0..1_000 {
            add(&mut all, 10, 5, freed(100 + number % 200, number));
        }
        add(&mut all, 10, 5, Freed::LOST);
        sort(&mut all);
        assert_eq!(all.len(), MAX_STACKS + 1);
        assert_eq!(blocks(&all), 1_001);
        assert_eq!(all[0].place, FreePlace::Others);
        assert_eq!(all[0].lifetimes.blocks, 1_001 - 64 * 5);
        for element in &all {
            assert!(element.threads.len() <= MAX_THREADS + 1);
            let threads = element.threads.iter().map(|it| it.blocks);
            assert_eq!(threads.sum::<u64>(), element.lifetimes.blocks);
        }
    }

    #[test]
    fn reallocations_and_unknown_stacks_are_apart() {
        let mut all = Vec::new();
        let reallocation = Freed {
            reallocation: true,
            ..freed(8, 0)
        };
        let not_recorded = freed(stack_end::NOT_RECORDED, 0);
        for of in [freed(8, 0), reallocation, not_recorded, Freed::LOST] {
            add(&mut all, 1, 1, of);
        }
        sort(&mut all);
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].place, FreePlace::Unknown);
        assert_eq!(all[0].lifetimes.blocks, 2);
    }

    #[test]
    fn merged_tables_are_those_of_all_blocks() {
        let of = |stacks: &[StackId]| {
            let mut all = Vec::new();
            for &stack in stacks {
                add(&mut all, 7, u64::from(stack), freed(stack, stack % 3));
            }
            sort(&mut all);
            all
        };
        let mut merged = of(&[8, 9, 9]);
        merge(&mut merged, &of(&[10, 9, 8]));
        sort(&mut merged);
        assert_eq!(merged, of(&[8, 9, 9, 10, 9, 8]));
    }
}
