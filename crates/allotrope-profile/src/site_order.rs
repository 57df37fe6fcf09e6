//! In what order sites are shown: by allocations, the most first, then by stack,
//! frame by frame from the innermost, then by the stack's id.
//!
//! Very many sites have as many allocations as others, and stacks that begin alike. To
//! compare them two at a time means to fetch two stacks from memory and to run
//! along what they share, each time anew. Instead as many frames as fit are packed into a
//! number, the numbers are sorted, and only sites whose numbers are equal are
//! looked at again, from the next frame on (a multikey quicksort, Bentley and
//! Sedgewick 1997, of several characters at once).

mod shared_work;

use std::thread;

use allotrope_trace::model::StackId;

use crate::near::bring_near;
use crate::replay::Helpers;
use crate::site::SiteFigures;
use crate::stack::Stacks;
use shared_work::{Adder, SharedWork, shared_work};

/// Sites alike so far that are compared two at a time.
const FEW: usize = 8;
/// Stacks that are fetched from memory at the same time.
const AHEAD: usize = 16;
/// Fewer sites than this are not worth a second thread.
const WORTH_A_THREAD: usize = 1 << 14;
/// Sites in groups of sites alike so far that are shared together, for any thread.
const SHARED: usize = 1 << 11;
/// More threads would wait for memory, and for the largest group of sites alike.
const MOST_THREADS: usize = 3;

/// A site and what it is sorted by at the moment.
#[derive(Clone, Copy)]
struct Item {
    key: u64,
    site: u32,
}

/// Sites alike in all but what follows the first `depth` frames.
struct Alike<'i> {
    items: &'i mut [Item],
    depth: usize,
}

/// How frames are packed: each index plus one in so many bits, so that 0 is
/// where a stack has ended, which comes before all that go on.
#[derive(Clone, Copy)]
struct Packing {
    bits: u32,
}

/// What the threads that sort have in common.
struct Sorting<'a, 'i> {
    sites: &'a [SiteFigures],
    stacks: &'a Stacks,
    packing: Packing,
    shared: SharedWork<Vec<Alike<'i>>>,
}

/// The numbers of the sites, whose stacks are `stacks`, in order. The stacks'
/// frames are below `frames`.
pub(crate) fn order(
    sites: &[SiteFigures],
    stacks: &Stacks,
    frames: usize,
    helpers: Helpers,
) -> Vec<u32> {
    let numbered = (0..).zip(sites);
    let mut items: Vec<Item> = numbered
        .map(|(site, figures)| Item {
            key: !figures.allocations,
            site,
        })
        .collect();
    let (shared, adder) = shared_work();
    let sorting = Sorting {
        sites,
        stacks,
        packing: Packing::of(frames),
        shared,
    };
    let more = helpers.number(sites.len() >= WORTH_A_THREAD, MOST_THREADS);
    thread::scope(|scope| {
        for _ in 0..more {
            let builder = thread::Builder::new().name("order of sites".to_owned());
            // Those that there are do all.
            let _ = builder.spawn_scoped(scope, || sorting.help());
        }
        let mut own = Vec::new();
        sorting.sort(&mut items, 0, &mut own, &adder);
        sorting.finish(own, &adder);
        drop(adder);
        sorting.help();
    });
    drop(sorting);
    items.into_iter().map(|item| item.site).collect()
}

impl<'i> Sorting<'_, 'i> {
    /// Sorts what is shared until nothing is left.
    fn help(&self) {
        self.shared
            .take_all(|groups, adder| self.finish(groups, adder));
    }

    /// Sorts these, but for what is better shared.
    fn finish(&self, mut own: Vec<Alike<'i>>, adder: &Adder<Vec<Alike<'i>>>) {
        while let Some(alike) = own.pop() {
            if let Some(next) = own.last().filter(|next| next.items.len() <= FEW) {
                self.bring_near(next.items, next.depth);
            }
            if alike.items.len() <= FEW {
                self.compare(alike);
            } else {
                self.go_on(alike, &mut own, adder);
            }
        }
    }

    fn compare(&self, Alike { items, depth }: Alike<'_>) {
        items.sort_unstable_by(|a, b| {
            let by_stack = self.rest(a, depth).cmp(self.rest(b, depth));
            by_stack.then_with(|| self.stack_id(a).cmp(&self.stack_id(b)))
        });
    }

    /// Sorts by the next frames.
    fn go_on(
        &self,
        Alike { items, depth }: Alike<'i>,
        own: &mut Vec<Alike<'i>>,
        adder: &Adder<Vec<Alike<'i>>>,
    ) {
        let mut goes_on = false;
        for items in items.chunks_mut(AHEAD) {
            // Fetched one after the other each stack would be waited for.
            self.bring_near(items, depth);
            for item in items {
                let rest = self.rest(item, depth);
                goes_on |= !rest.is_empty();
                item.key = self.packing.pack(rest);
            }
        }
        if goes_on {
            self.sort(items, depth + self.packing.frames(), own, adder);
        } else {
            items.sort_unstable_by_key(|item| self.stack_id(item));
        }
    }

    /// Sorts by key; those with equal ones, which are alike up to `depth`, are
    /// added to `own`, or shared where they are many.
    fn sort(
        &self,
        items: &'i mut [Item],
        depth: usize,
        own: &mut Vec<Alike<'i>>,
        adder: &Adder<Vec<Alike<'i>>>,
    ) {
        // Those with equal keys stay in the order in which their stacks lie in memory.
        items.sort_by_key(|item| item.key);
        let (first, mut more) = (own.len(), 0);
        for items in items.chunk_by_mut(|a, b| a.key == b.key) {
            if items.len() == 1 {
                continue;
            }
            more += items.len();
            own.push(Alike { items, depth });
            if more > SHARED {
                adder.add(own.split_off(first));
                more = 0;
            }
        }
    }

    fn bring_near(&self, items: &[Item], depth: usize) {
        for frame in items
            .iter()
            .filter_map(|item| self.rest(item, depth).first())
        {
            bring_near(frame);
        }
    }

    /// What follows the first `depth` frames of the site's stack.
    #[inline]
    fn rest(&self, item: &Item, depth: usize) -> &[u32] {
        let stack = self.stacks.get(item.site as usize);
        stack.get(depth..).unwrap_or_default()
    }

    fn stack_id(&self, item: &Item) -> StackId {
        self.sites[item.site as usize].stack_id
    }
}

impl Packing {
    fn of(frames: usize) -> Self {
        Self {
            // An index is a u32 at most, so that at least one fits.
            bits: (usize::BITS - frames.leading_zeros()).clamp(1, u32::BITS + 1),
        }
    }

    /// How many fit.
    fn frames(self) -> usize {
        (u64::BITS / self.bits) as usize
    }

    /// The first frames of what is left of a stack.
    #[inline]
    fn pack(self, rest: &[u32]) -> u64 {
        let mut key = 0;
        for at in 0..self.frames() {
            let frame = rest.get(at).map_or(0, |&frame| u64::from(frame) + 1);
            key = key << self.bits | frame;
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELPERS: Helpers = Helpers::WhereWorthIt;

    /// Sites of (allocations, stack innermost first), ids in this order.
    fn made(sites: &[(u64, Vec<u32>)]) -> (Vec<SiteFigures>, Stacks) {
        let mut stacks = Stacks::default();
        let figures = (0..).zip(sites).map(|(stack_id, (allocations, stack))| {
            let outermost_first: Vec<u32> = stack.iter().rev().copied().collect();
            stacks.add(&outermost_first);
            let mut figures = SiteFigures::default();
            (figures.stack_id, figures.allocations) = (stack_id, *allocations);
            figures
        });
        (figures.collect(), stacks)
    }

    /// The order that comparing two at a time gives.
    fn compared(sites: &[(u64, Vec<u32>)]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..sites.len() as u32).collect();
        order.sort_by(|&a, &b| {
            let ((most, stack), (less, other)) = (&sites[a as usize], &sites[b as usize]);
            less.cmp(most).then_with(|| (stack, a).cmp(&(other, b)))
        });
        order
    }

    /// As many stacks as asked for, of frames below `frames`, many of which share
    /// what they begin with, are a part of another or the same as another.
    fn alike(number: usize, frames: u32) -> Vec<(u64, Vec<u32>)> {
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) % below
        };
        let mut sites: Vec<(u64, Vec<u32>)> = vec![];
        for _ in 0..number {
            let mut stack = match sites.len() {
                0 => vec![],
                known => sites[next(known as u64) as usize].1.clone(),
            };
            stack.truncate(next(stack.len() as u64 + 2) as usize);
            let more = next(30);
            stack.extend((0..more).map(|_| match next(4) {
                0 => next(u64::from(frames)) as u32,
                _ => next(u64::from(frames.min(2))) as u32,
            }));
            sites.push((1 + next(3), stack));
        }
        sites
    }

    #[test]
    fn packed_frames_give_the_order_of_compared_ones() {
        // One bit a frame, some bits, and one frame a key.
        for frames in [1, 2, 3, 64, 5_000, u32::MAX] {
            let sites = alike(500, frames);
            let (figures, stacks) = made(&sites);
            let order = order(&figures, &stacks, frames as usize, HELPERS);
            assert_eq!(order, compared(&sites), "{frames} frames");
        }
    }

    #[test]
    fn stacks_that_read_alike_come_by_id() {
        for number in [3 * FEW, SHARED + 1, WORTH_A_THREAD] {
            let sites = vec![(1, vec![2, 1]); number];
            let (figures, stacks) = made(&sites);
            assert_eq!(order(&figures, &stacks, 3, HELPERS), compared(&sites));
        }
    }

    #[test]
    fn several_threads_give_the_order_of_one() {
        for frames in [2, 40, 5_000] {
            let sites = alike(2 * WORTH_A_THREAD, frames);
            let (figures, stacks) = made(&sites);
            let order = order(&figures, &stacks, frames as usize, HELPERS);
            assert!(order == compared(&sites), "{frames} frames");
        }
    }
}
