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
        let mut handing_on = handing_on(sites, frames, &heads);
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
            if is_one && let Some(caller) = caller(site, frames, *head as usize) {
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

/// The index of the next frame of the user's code whose function is another one.
fn caller(site: &Site, frames: &Headlines, head: usize) -> Option<usize> {
    let function = frames.function(*site.stack.get(head)?);
    let mut outer = site.stack.iter().enumerate().skip(head + 1);
    let is_next = |frame: u32| {
        frames.origin(frame) > Origin::UnnamedLibrary && frames.function(frame) != function
    };
    outer
        .find(|&(_, &frame)| is_next(frame))
        .map(|(index, _)| index)
}

/// The functions that only hand on requests.
fn handing_on(sites: &[Site], frames: &Headlines, heads: &[u32]) -> FxHashSet<u32> {
    // By function and caller: blocks and bytes.
    let mut requests: FxHashMap<(u32, u32), [u64; 2]> = FxHashMap::default();
    // Functions that call one which allocates.
    let mut calls: FxHashSet<u32> = FxHashSet::default();
    for (site, &head) in sites.iter().zip(heads) {
        let Some(&frame) = site.stack.get(head as usize) else {
            continue;
        };
        let function = frames.function(frame);
        match caller(site, frames, head as usize) {
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
            && sizes.len() * 2 >= callers
    });
    sizes.into_keys().collect()
}
