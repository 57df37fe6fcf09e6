//! What the recorder must know of the blocks of allocators that the user named
//! (`allotrope_detour::named`), which it cannot ask for:
//!
//! * of a pool: which blocks were allocated for an owner, for `reset` frees all of them;
//! * *inner* blocks: those that such an allocator took from another one within a call of its own. That
//!   call is the allocation, so they are not recorded, and neither are their deallocations, whenever
//!   these come.
//!
//! One hash table has both, and the owners. A key is an address and what it stands for; it is in one of
//! two sets of [`WAYS`] entries, whichever had more space (Azar, Broder, Karlin, Upfal, *Balanced
//! Allocations*, 1994). Entries do not move, and a search ends after two sets, so that a key is looked up
//! without the lock. The entries of an owner's blocks are a doubly linked list, whose head is the owner's
//! entry. The table is mapped if there is such an allocator, has a fixed size, and is never unmapped; what
//! it has no space for is lost, and counted.
//!
//! Changes are made under the process lock, with signals blocked. A forked child whose parent was at one
//! on another thread begins with an empty table.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};

use allotrope_shm::numbers::LossReason;

use crate::state::process::{self, Lock};
use crate::sys::kernel::Advice;
use crate::sys::mapping::PrivateMemory;
use crate::sys::system::{self, SignalsBlocked};

const SET_BITS: u32 = 16;
const WAYS: usize = 16;
const ENTRIES: usize = WAYS << SET_BITS;

/// What the address of an entry stands for: the low bits of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Kind {
    /// A block of a pool.
    Block = 0,
    /// The owner of such blocks.
    Owner = 1,
    /// An inner block of the heap's functions.
    InnerHeap = 2,
    /// An inner block of a named allocator without pools.
    InnerNamed = 3,
}

/// Where an inner block came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inner {
    /// The heap's functions.
    Heap,
    /// A named allocator without pools.
    Named,
}

impl Inner {
    const fn kind(self) -> Kind {
        match self {
            Self::Heap => Kind::InnerHeap,
            Self::Named => Kind::InnerNamed,
        }
    }
}

/// The key of an address. Addresses of programs have 47 bits.
fn key(kind: Kind, address: u64) -> u64 {
    address << 2 | kind as u64
}

/// The neighbours of an entry: indices + 1, or 0.
struct Link {
    /// The owner's entry, of a block.
    owner: AtomicU32,
    previous: AtomicU32,
    /// The next block of the owner; of an owner: the first one.
    next: AtomicU32,
}

#[repr(C)]
struct Table {
    /// Whether somebody is changing it.
    is_changing: AtomicBool,
    /// 0: the entry is free.
    keys: [AtomicU64; ENTRIES],
    links: [Link; ENTRIES],
}

/// Null: no allocator is named.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

/// Whether an allocator is named.
#[inline(always)]
pub fn is_active() -> bool {
    !TABLE.load(Relaxed).is_null()
}

/// Maps the table; `false` if there is no memory.
pub fn begin() -> bool {
    let Some(memory) = PrivateMemory::new(size_of::<Table>()) else {
        return false;
    };
    memory.advise(Advice::DontDump);
    TABLE.store(memory.leak().cast(), Relaxed);
    true
}

fn table() -> Option<&'static Table> {
    // SAFETY: null, or a mapping for good by `begin`, for which zeroes are valid; all of it is atomic.
    unsafe { TABLE.load(Relaxed).as_ref() }
}

/// Changes the table. `None`: there is none.
fn change<R>(change: impl FnOnce(&Table) -> R) -> Option<R> {
    let table = table()?;
    let _blocked = SignalsBlocked::new();
    let _locked = Lock::take();
    if table.is_changing.load(Relaxed) {
        // The lock is this thread's, so a fork has copied somebody else's change.
        let start = ptr::from_ref(table).cast::<u8>();
        system::advise(start, size_of::<Table>(), Advice::Forget);
        process::lost(LossReason::NoMemory);
    }
    table.is_changing.store(true, Relaxed);
    let result = change(table);
    table.is_changing.store(false, Relaxed);
    Some(result)
}

/// A block was allocated for an owner. `false`: there is no space for it.
pub fn add(owner: u64, block: u64) -> bool {
    change(|table| table.add(owner, block)) == Some(true)
}

/// A block is freed. `false`: it is none that [`add`] has noted.
pub fn remove(block: u64) -> bool {
    let key = key(Kind::Block, block);
    is_there(key) && change(|table| table.remove_block(key)) == Some(true)
}

/// Takes blocks of an owner, which are all freed: how many. Fewer than there is space for: all.
pub fn take(owner: u64, blocks: &mut [u64]) -> usize {
    let key = key(Kind::Owner, owner);
    match is_there(key) {
        true => change(|table| table.take(key, blocks)).unwrap_or(0),
        false => 0,
    }
}

/// A block is an inner one. `false`: there is no space for it.
pub fn add_inner(from: Inner, block: u64) -> bool {
    let key = key(from.kind(), block);
    change(|table| table.insert(key).is_some()) == Some(true)
}

/// Whether a block that is freed was an inner one.
#[inline]
pub fn remove_inner(from: Inner, block: u64) -> bool {
    let key = key(from.kind(), block);
    is_there(key) && change(|table| table.remove(key)) == Some(true)
}

/// Whether the table has a key. Whoever passes a block on has noted it before.
fn is_there(key: u64) -> bool {
    table().is_some_and(|table| table.find(key).is_some())
}

impl Table {
    /// The two sets in which a key may be: their first entries.
    fn sets(key: u64) -> [usize; 2] {
        // Fibonacci hashing (Knuth, *The Art of Computer Programming*, volume 3, section 6.4).
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = |shift: u32| (hash >> shift) as usize & ((1 << SET_BITS) - 1);
        [64 - SET_BITS, 64 - 2 * SET_BITS].map(|shift| set(shift) * WAYS)
    }

    fn key_at(&self, index: usize) -> u64 {
        self.keys.get(index).map_or(0, |key| key.load(Relaxed))
    }

    fn set_key(&self, index: usize, key: u64) {
        if let Some(place) = self.keys.get(index) {
            place.store(key, Relaxed);
        }
    }

    fn find(&self, key: u64) -> Option<usize> {
        let mut places = Self::sets(key).into_iter().flat_map(|set| set..set + WAYS);
        places.find(|index| self.key_at(*index) == key)
    }

    /// The entry of a key, which may be new; `None`: both sets are full.
    fn insert(&self, key: u64) -> Option<usize> {
        if let Some(index) = self.find(key) {
            return Some(index);
        }
        let free = |set: usize| (set..set + WAYS).filter(|index| self.key_at(*index) == 0);
        let [first, second] = Self::sets(key);
        let set = match free(first).count() >= free(second).count() {
            true => first,
            false => second,
        };
        let index = free(set).next()?;
        self.set_links(index, [0; 3]);
        self.set_key(index, key);
        Some(index)
    }

    fn remove(&self, key: u64) -> bool {
        let index = self.find(key);
        if let Some(index) = index {
            self.set_key(index, 0);
        }
        index.is_some()
    }

    fn set_links(&self, index: usize, [owner, previous, next]: [u32; 3]) {
        if let Some(link) = self.links.get(index) {
            link.owner.store(owner, Relaxed);
            link.previous.store(previous, Relaxed);
            link.next.store(next, Relaxed);
        }
    }

    /// The entry with this index + 1.
    fn link(&self, number: u32) -> Option<&Link> {
        self.links.get((number as usize).wrapping_sub(1))
    }

    fn add(&self, owner: u64, block: u64) -> bool {
        let block = key(Kind::Block, block);
        // Its deallocation was not seen.
        self.remove_block(block);
        let owner = key(Kind::Owner, owner);
        let Some(of_owner) = self.insert(owner) else {
            return false;
        };
        let head = of_owner as u32 + 1;
        let first = self.link(head).map_or(0, |link| link.next.load(Relaxed));
        let Some(of_block) = self.insert(block) else {
            if first == 0 {
                self.set_key(of_owner, 0);
            }
            return false;
        };
        let number = of_block as u32 + 1;
        self.set_links(of_block, [head, head, first]);
        for (link, is_next) in [(self.link(first), false), (self.link(head), true)] {
            match link {
                Some(link) if is_next => link.next.store(number, Relaxed),
                Some(link) => link.previous.store(number, Relaxed),
                None => {}
            }
        }
        true
    }

    fn remove_block(&self, key: u64) -> bool {
        let Some(index) = self.find(key) else {
            return false;
        };
        self.set_key(index, 0);
        let Some(link) = self.link(index as u32 + 1) else {
            return false;
        };
        let [owner, previous, next] =
            [&link.owner, &link.previous, &link.next].map(|it| it.load(Relaxed));
        if let Some(previous) = self.link(previous) {
            previous.next.store(next, Relaxed);
        }
        if let Some(next) = self.link(next) {
            next.previous.store(previous, Relaxed);
        }
        let is_last = self
            .link(owner)
            .is_some_and(|it| it.next.load(Relaxed) == 0);
        if is_last {
            self.set_key((owner as usize).wrapping_sub(1), 0);
        }
        true
    }

    fn take(&self, owner: u64, blocks: &mut [u64]) -> usize {
        let Some(of_owner) = self.find(owner) else {
            return 0;
        };
        let Some(head) = self.link(of_owner as u32 + 1) else {
            return 0;
        };
        let mut next = head.next.load(Relaxed);
        let mut count = 0;
        for place in blocks {
            let Some(link) = self.link(next) else {
                break;
            };
            let index = next as usize - 1;
            *place = self.key_at(index) >> 2;
            self.set_key(index, 0);
            next = link.next.load(Relaxed);
            count += 1;
        }
        head.next.store(next, Relaxed);
        match self.link(next) {
            Some(first) => first.previous.store(of_owner as u32 + 1, Relaxed),
            None => self.set_key(of_owner, 0),
        }
        count
    }
}
