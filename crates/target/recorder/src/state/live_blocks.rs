//! The table of live blocks of a recording with `--reachability`: a radix tree from the address
//! of a block to its size. Hooks write it; the scan at the exit (`lifecycle::reachability`) reads
//! it.
//!
//! ```text
//! address  │ 11 bits: root │ 11 bits: branch │ 12 bits: twig │ 10 bits: leaf │ 3 bits: 0 │
//! root ──▶ branch ──▶ twig ──▶ leaf: [u32; 1024], one entry for each 8 bytes of 8 KiB of addresses
//! ```
//!
//! An entry is 0 where no block begins. No operation takes a lock: an allocation stores the
//! entry of its block after the allocator has returned it, a deallocation clears it before the
//! allocator gets the block, and no two threads have the same block at a time. Nodes are only
//! added, by one compare-and-exchange.
//!
//! The memory is the recorder's own and private, so that a forked child has a copy of the table.
//! A leaf is a page: half of the addresses that it is for, and there is one where a block begins.
//! So a block of 8 KiB or more has a page, a block of 64 bytes among others 32 bytes.

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use crate::state::process;
use crate::sys::kernel::Advice;
use crate::sys::mapping::PrivateMemory;

/// Binary logarithm of the bytes of addresses that an entry is for. Allocators align blocks to 8
/// bytes or more.
const GRANULE_BITS: u32 = 3;
/// Binary logarithms of the bytes of addresses that a leaf, a twig and a branch are for.
const LEAF_BITS: u32 = 13;
const TWIG_BITS: u32 = 25;
const BRANCH_BITS: u32 = 36;
/// Bits of an address in user space.
const ADDRESS_BITS: u32 = 47;

const ENTRIES: usize = 1 << (LEAF_BITS - GRANULE_BITS);
const LEAVES: usize = 1 << (TWIG_BITS - LEAF_BITS);
const TWIGS: usize = 1 << (BRANCH_BITS - TWIG_BITS);
const BRANCHES: usize = 1 << (ADDRESS_BITS - BRANCH_BITS);

type Leaf = [AtomicU32; ENTRIES];
type Twig = [AtomicPtr<Leaf>; LEAVES];
type Branch = [AtomicPtr<Twig>; TWIGS];

/// Bytes of a mapping from which leaves are taken: the fewer mappings, the less the program's own
/// are apart.
const SLAB_BYTES: usize = 1 << 20;
/// Leaves of a slab; the space of the first one is for [`Slab`].
const SLAB_LEAVES: usize = SLAB_BYTES / size_of::<Leaf>() - 1;

/// The beginning of a mapping with leaves.
#[repr(C)]
struct Slab {
    /// The slab before it, or null.
    next: *const Self,
    /// How many leaves were taken from it; it may exceed [`SLAB_LEAVES`].
    used: AtomicUsize,
}

/// The bit of an entry whose block has [`LARGE`] bytes or more: the others are the number of
/// pages, rounded up. In other entries they are the number of bytes plus 1.
const IN_PAGES: u32 = 1 << 31;
const LARGE: usize = IN_PAGES as usize - 1;
const PAGE_BITS: u32 = 12;

static ROOT: [AtomicPtr<Branch>; BRANCHES] = [const { AtomicPtr::new(ptr::null_mut()) }; BRANCHES];
/// Resident bytes of the nodes, about.
static BYTES: AtomicU64 = AtomicU64::new(0);
static SLABS: AtomicPtr<Slab> = AtomicPtr::new(ptr::null_mut());
/// Some block is not in the table: there was no memory, or its address is unusual.
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);
/// Hooks keep the table.
static IS_TRACKING: AtomicBool = AtomicBool::new(false);

/// What the table has of a block; 0: nothing.
pub type Entry = u32;

/// Begins the table.
pub fn begin() {
    IS_TRACKING.store(true, Relaxed);
}

/// Shows the collector how much memory the table takes, at the beginning of an image.
pub fn publish_size() {
    // A forked child has no slot before it begins.
    if process::is_recording() && !process::is_forked() {
        let bytes = BYTES.load(Relaxed);
        process::slot().live_blocks_bytes.store(bytes, Relaxed);
    }
}

/// Whether hooks keep the table.
#[inline(always)]
pub fn is_tracking() -> bool {
    IS_TRACKING.load(Relaxed)
}

/// Whether the table has every block that hooks have seen since its beginning.
pub fn is_complete() -> bool {
    !IS_INCOMPLETE.load(Relaxed)
}

/// Adds a block of the program's.
pub fn insert(block: usize, size: usize) {
    let entry = if size < LARGE {
        size as u32 + 1
    } else {
        let pages = size.div_ceil(1 << PAGE_BITS);
        IN_PAGES | pages.min(LARGE) as u32
    };
    put(block, entry);
}

/// Adds a block again, as [`take`] found it.
#[inline]
pub fn put(block: usize, entry: Entry) {
    match entry_for(block) {
        Some(place) => place.store(entry, Relaxed),
        None => IS_INCOMPLETE.store(true, Relaxed),
    }
}

/// Removes a block, and returns its entry.
#[inline]
pub fn take(block: usize) -> Entry {
    let place = (block.is_multiple_of(1 << GRANULE_BITS))
        .then(|| leaf_of(block))
        .flatten()
        .map(|leaf| &leaf[index_in_leaf(block)]);
    let Some(place) = place else {
        return 0;
    };
    let entry = place.load(Relaxed);
    if entry != 0 {
        place.store(0, Relaxed);
    }
    entry
}

/// Bytes of a block with this entry; those of a very large one are rounded up to pages.
pub fn size_of_entry(entry: Entry) -> usize {
    match entry & IN_PAGES {
        0 => entry.saturating_sub(1) as usize,
        _ => ((entry & !IN_PAGES) as usize) << PAGE_BITS,
    }
}

/// The node that a place refers to.
#[inline]
fn at<T>(place: &AtomicPtr<T>) -> Option<&'static T> {
    // SAFETY: null, or a node that stays, and was complete when it was stored; zeroes are valid.
    unsafe { place.load(Acquire).as_ref() }
}

const fn index_in_leaf(block: usize) -> usize {
    (block >> GRANULE_BITS) % ENTRIES
}

const fn index_in_twig(block: usize) -> usize {
    (block >> LEAF_BITS) % LEAVES
}

const fn index_in_branch(block: usize) -> usize {
    (block >> TWIG_BITS) % TWIGS
}

#[inline]
fn leaf_of(block: usize) -> Option<&'static Leaf> {
    let branch = at(ROOT.get(block >> BRANCH_BITS)?)?;
    let twig = at(&branch[index_in_branch(block)])?;
    at(&twig[index_in_twig(block)])
}

#[inline]
fn entry_for(block: usize) -> Option<&'static AtomicU32> {
    if !block.is_multiple_of(1 << GRANULE_BITS) {
        return None;
    }
    let leaf = match leaf_of(block) {
        Some(leaf) => leaf,
        None => add_leaf(block)?,
    };
    Some(&leaf[index_in_leaf(block)])
}

#[cold]
fn add_leaf(block: usize) -> Option<&'static Leaf> {
    let branch = added(ROOT.get(block >> BRANCH_BITS)?, node)?;
    let twig = added(&branch[index_in_branch(block)], node)?;
    added(&twig[index_in_twig(block)], new_leaf)
}

/// The node of a place, which `make` makes if there is none. If two threads make one at once, the
/// second one's stays without a use.
fn added<T>(place: &AtomicPtr<T>, make: impl FnOnce() -> Option<*mut T>) -> Option<&'static T> {
    if let Some(node) = at(place) {
        return Some(node);
    }
    let new = make()?;
    if place
        .compare_exchange(ptr::null_mut(), new, AcqRel, Acquire)
        .is_ok()
    {
        // A page of it will be resident: this one, and where its own place is.
        BYTES.fetch_add(size_of::<Leaf>() as u64, Relaxed);
        publish_size();
    }
    at(place)
}

/// A node in a mapping of its own, all zero.
fn node<T>() -> Option<*mut T> {
    let memory = PrivateMemory::new(size_of::<T>())?;
    memory.advise(Advice::DontDump);
    Some(memory.leak().cast())
}

fn new_leaf() -> Option<*mut Leaf> {
    loop {
        let current = SLABS.load(Acquire);
        // SAFETY: null, or a slab, which stays.
        if let Some(slab) = unsafe { current.as_ref() } {
            let index = slab.used.fetch_add(1, Relaxed);
            if index < SLAB_LEAVES {
                // The space of the first leaf is the slab's own.
                return Some(current.cast::<Leaf>().wrapping_add(1 + index));
            }
        }
        let memory = PrivateMemory::new(SLAB_BYTES)?;
        memory.advise(Advice::DontDump);
        let new = memory.start().cast::<Slab>();
        let slab = Slab {
            next: current,
            used: AtomicUsize::new(0),
        };
        // SAFETY: a mapping of this function's own, and large enough.
        unsafe { new.write(slab) };
        if SLABS
            .compare_exchange(current, new, AcqRel, Acquire)
            .is_ok()
        {
            memory.leak();
        }
    }
}

/// Calls `visit` with the address and the entry of each block, by address.
pub fn each(mut visit: impl FnMut(usize, Entry)) {
    each_twig(|first, twig| {
        for (index, leaf) in twig.iter().enumerate() {
            let Some(leaf) = at(leaf) else { continue };
            let start = first + (index << LEAF_BITS);
            for (index, entry) in leaf.iter().enumerate() {
                let entry = entry.load(Relaxed);
                if entry != 0 {
                    visit(start + (index << GRANULE_BITS), entry);
                }
            }
        }
    });
}

/// Calls `visit` with each twig and the first address that it is for.
fn each_twig(mut visit: impl FnMut(usize, &'static Twig)) {
    for (high, branch) in ROOT.iter().enumerate() {
        let Some(branch) = at(branch) else { continue };
        for (low, twig) in branch.iter().enumerate() {
            if let Some(twig) = at(twig) {
                visit(high << BRANCH_BITS | low << TWIG_BITS, twig);
            }
        }
    }
}

/// Calls `visit` with the start and the end of each mapping of the table.
pub fn each_mapping(mut visit: impl FnMut(usize, usize)) {
    fn range<T>(of: *const T, bytes: usize) -> (usize, usize) {
        (of as usize, of as usize + bytes)
    }
    let mut add = |(start, end)| visit(start, end);
    for branch in ROOT.iter().filter_map(at) {
        add(range(branch, size_of::<Branch>()));
    }
    each_twig(|_, twig| add(range(twig, size_of::<Twig>())));
    let mut slab = SLABS.load(Acquire).cast_const();
    // SAFETY: null, or a slab, which stays.
    while let Some(it) = unsafe { slab.as_ref() } {
        add(range(slab, SLAB_BYTES));
        slab = it.next;
    }
}
