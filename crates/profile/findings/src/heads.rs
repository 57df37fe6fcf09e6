//! Which frame of each site's stack a finding names: the headline, or a caller of it if the
//! headline's function only hands on what its callers ask for.
//!
//! Attribution decides for a whole profile, whose lists must not change for a function with few callers.
//! A finding is about blocks of one kind. So here a function hands on requests if two of its
//! callers suffice to show it: it is the innermost function of all its stacks, and the mean sizes
//! of its callers' blocks differ; or if it has the name of a function of the C library with a
//! prefix. Its blocks are then divided among the callers.

use allotrope_attribution::{Headlines, Origin};
use allotrope_profile::{Profile, Site};
use rustc_hash::{FxHashMap, FxHashSet};

/// How many functions that hand on requests can call each other.
const MAX_ROUNDS: usize = 3;
/// Least number of callers.
const MIN_CALLERS: usize = 2;
/// With so many mean sizes its callers need not all have another one.
const MANY_SIZES: usize = 4;
/// Functions of the C library after which wrappers are named.
const ALLOCATORS: [&str; 7] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "strdup",
    "strndup",
    "memdup",
];

/// By site: the index in its stack of the frame that findings name.
pub(crate) fn of(profile: &Profile, sites: &[Site], frames: &Headlines) -> Vec<u32> {
    let mut heads: Vec<u32> = sites
        .iter()
        .map(|site| frames.own_or_headline(site) as u32)
        .collect();
    for _ in 0..MAX_ROUNDS {
        let mut handing_on = handing_on(profile, sites, frames, &heads);
        for (site, &head) in sites.iter().zip(&heads) {
            let frame = site.stack.get(head as usize);
            let named = frame.filter(|&&frame| is_named_after_allocator(profile, frame));
            handing_on.extend(named.map(|&frame| frames.function(frame)));
        }
        if handing_on.is_empty() {
            break;
        }
        for (site, head) in sites.iter().zip(&mut heads) {
            let frame = site.stack.get(*head as usize);
            let is_one = frame.is_some_and(|&frame| handing_on.contains(&frames.function(frame)));
            let caller = is_one.then(|| caller(profile, site, frames, *head as usize));
            // A caller that calls everything says less than the function itself.
            let is_better =
                |frame: u32| frames.origin(frame) >= Origin::Own || !frames.is_dispatcher(frame);
            let caller = caller.flatten().filter(|&it| is_better(site.stack[it]));
            if let Some(caller) = caller {
                *head = caller as u32;
            }
        }
    }
    heads
}

/// Whether a function is named after the function of the C library that it calls: `my_calloc`.
fn is_named_after_allocator(profile: &Profile, frame: u32) -> bool {
    let name = profile.frames.get(frame as usize).map(|it| &*it.function);
    let name = name.unwrap_or_default();
    ALLOCATORS.iter().any(|allocator| {
        let prefix = name.strip_suffix(allocator);
        prefix.is_some_and(|prefix| !prefix.is_empty() && !prefix.contains(['(', ':']))
    })
}

/// The index of the next frame that says something and is of another function: one that has a
/// name, or is of the same module.
fn caller(profile: &Profile, site: &Site, frames: &Headlines, head: usize) -> Option<usize> {
    let head_frame = *site.stack.get(head)?;
    let function = frames.function(head_frame);
    let module = |frame: u32| profile.frames.get(frame as usize).map(|it| it.module);
    let is_next = |frame: u32| {
        frames.speaks(frame)
            && frames.function(frame) != function
            && (!frames.origin(frame).is_unnamed() || module(frame) == module(head_frame))
    };
    let mut outer = site.stack.iter().enumerate().skip(head + 1);
    outer
        .find(|&(_, &frame)| is_next(frame))
        .map(|(index, _)| index)
}

/// The functions that only hand on requests.
fn handing_on(
    profile: &Profile,
    sites: &[Site],
    frames: &Headlines,
    heads: &[u32],
) -> FxHashSet<u32> {
    // By function and caller: blocks and bytes.
    let mut requests: FxHashMap<(u32, u32), [u64; 2]> = FxHashMap::default();
    // Functions that call one which allocates.
    let mut calls: FxHashSet<u32> = FxHashSet::default();
    for (site, &head) in sites.iter().zip(heads) {
        let Some(&frame) = site.stack.get(head as usize) else {
            continue;
        };
        let function = frames.function(frame);
        match caller(profile, site, frames, head as usize) {
            Some(next) => {
                let outer = frames.function(site.stack[next]);
                calls.insert(outer);
                let sums = requests.entry((function, outer)).or_default();
                sums[0] = sums[0].saturating_add(site.allocations);
                sums[1] = sums[1].saturating_add(site.allocated_bytes);
            }
            // A `main`.
            None => {
                calls.insert(function);
            }
        }
    }
    let mut sizes: FxHashMap<u32, Vec<u64>> = FxHashMap::default();
    for ((function, _), [blocks, bytes]) in requests {
        let mean = bytes.checked_div(blocks).unwrap_or(0);
        sizes.entry(function).or_default().push(mean);
    }
    sizes.retain(|function, sizes| {
        let callers = sizes.len();
        sizes.sort_unstable();
        sizes.dedup();
        !calls.contains(function)
            && callers >= MIN_CALLERS
            && sizes.len() >= MIN_CALLERS
            && (sizes.len() * 2 >= callers || sizes.len() >= MANY_SIZES)
    });
    sizes.into_keys().collect()
}
