//! The structures in the memory of a watched process, their sizes, and who writes them.
//!
//! ```text
//! header | control | counters | states of threads | modules … | freed blocks … | buckets of samples … | totals … | index of nodes … | nodes …
//! ```
//!
//! | part | written by | publishes it |
//! | --- | --- | --- |
//! | [`Header`] | the process, once; [`Header::committed`] as pages are used | `magic` |
//! | [`Control`] | the watcher | each word by itself |
//! | [`Counters`] | the process, by atomic additions | each word by itself |
//! | an entry of [`Memory::states`] | the process, under the lock of its thread states | each word by itself |
//! | [`ModuleSlot`] | the process, under the lock of its module table | `state` |
//! | [`FreedSlot`] | the thread that claimed it | `version`, even |
//! | [`Bucket`] | of a sample, the thread that claimed its key | the key, even |
//! | [`TotalSlot`] | the thread that claimed it, then all by atomic additions | `key` |
//! | an index entry, and its [`NodeSlot`] | any thread, once | the index entry |
//!
//! The file is sparse, and nobody touches a page of it that the process has not committed.
//! All structures are atomics, so that references to them are sound whatever another process
//! does meanwhile.

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::layout::{PAGE, RINGS};
use crate::mapped_file::IDENTITY_WORDS;
use crate::wire::ADDRESS_MASK;

/// First word of a memory: `ALLOWATC` in ASCII, little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ALLOWATC");
/// Version of this layout. A reader reads its own version only.
pub const VERSION: u64 = 7;

/// Name of the file, as `memfd_create(2)` takes it and `/proc` shows it.
pub const NAME: &str = "allotrope-watched";

/// Largest number of states of threads.
pub const STATES: usize = RINGS;
/// Largest number of mapped modules, over the life of the process.
pub const MODULES: usize = 1024;
/// Number of the latest deallocations of samples that are kept.
pub const FREES: usize = 4096;
/// Number of the latest changes of the period that are kept.
pub const CHANGES: usize = 64;
/// Buckets of live samples; a power of two.
pub const BUCKETS: usize = 1 << 13;
/// Samples of a bucket. Their keys share a cache line.
pub const WAYS: usize = 7;
/// Entries of totals; a power of two.
pub const TOTALS: usize = 1 << 15;
/// Entries of the index of stack nodes; a power of two.
pub const INDEX: usize = 1 << 19;
/// Largest number of stack nodes, those that stand for no node included.
pub const NODES: usize = 1 << 18;

/// Longest path of the executable, and longest command line, in bytes.
pub const TEXT: usize = 1024;
/// Longest path of a module, in bytes; a longer one loses its start.
pub const MODULE_PATH: usize = 48 * 8;
/// Longest build id, in bytes.
pub const BUILD_ID: usize = 32;

/// Pages of the memory.
pub const PAGES: usize = 3
    + (STATES * 8
        + MODULES * 512
        + FREES * 64
        + BUCKETS * 512
        + TOTALS * 64
        + INDEX * 4
        + NODES * 16)
        / PAGE;
/// Bytes of the memory, and of its file.
pub const BYTES: usize = PAGES * PAGE;

/// All of the memory.
#[repr(C, align(4096))]
pub struct Memory {
    /// See [`Header`].
    pub header: OnPages<Header>,
    /// See [`Control`].
    pub control: OnPages<Control>,
    /// See [`Counters`].
    pub counters: OnPages<Counters>,
    /// Addresses, by number of the state, where the recorder keeps the state of a thread; 0:
    /// nowhere. Each has [`Header::state_bytes`]. The kernel counts them as the program's memory,
    /// as it does this one.
    pub states: [AtomicU64; STATES],
    /// Mapped modules, by number of the mapping.
    pub modules: [ModuleSlot; MODULES],
    /// A ring: a deallocation goes to its number modulo [`FREES`].
    pub frees: [FreedSlot; FREES],
    /// A hash table of the live samples by address, see [`crate::samples::live`].
    pub buckets: [Bucket; BUCKETS],
    /// A hash table of the totals of all samples, see [`crate::samples::totals`].
    pub totals: [TotalSlot; TOTALS],
    /// A hash table of the ids of nodes, see [`crate::samples::stacks`]; 0: empty.
    pub index: [AtomicU32; INDEX],
    /// Stack nodes, by id.
    pub nodes: [NodeSlot; NODES],
}

/// Something with pages of its own.
#[repr(C, align(4096))]
pub struct OnPages<T>(pub T);

/// What the process is.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`], once the header is complete.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU64,
    /// [`BYTES`].
    pub bytes: AtomicU64,
    /// The process's id in its own namespace.
    pub process: AtomicU64,
    /// When the memory was made, by `CLOCK_MONOTONIC_COARSE`, in nanoseconds. All other times
    /// here are by the same clock.
    pub began: AtomicU64,
    /// When the memory was made, by `CLOCK_REALTIME_COARSE`, in nanoseconds since 1970.
    pub began_real: AtomicU64,
    /// Bytes of the executable's path in the lower half, of the command line in the upper one.
    pub lengths: AtomicU64,
    /// 0 until the process exits, by `exit` or `_exit`; then its status in the lower half and
    /// [`EXITED`].
    pub exit: AtomicU64,
    /// The address of a `malloc` that the program's calls reach in place of the recorder's, so that
    /// its blocks are not sampled. 0: there is none, or it is not known.
    pub other_malloc: AtomicU64,
    /// The address of the `malloc` to which the recorder passes the calls on.
    pub next_malloc: AtomicU64,
    /// Where the memory is mapped in the process.
    pub address: AtomicU64,
    /// Bytes of the state of a thread.
    pub state_bytes: AtomicU64,
    /// The path of the executable.
    pub executable: [AtomicU64; TEXT / 8],
    /// The arguments, each followed by a zero byte.
    pub command: [AtomicU64; TEXT / 8],
    /// One bit for each page that may be touched.
    pub committed: [AtomicU64; PAGES.div_ceil(64)],
}

/// Bit of [`Header::exit`] of a process that has exited.
pub const EXITED: u64 = 1 << 32;

/// What the watcher wants.
#[repr(C)]
pub struct Control {
    /// The period in bytes; 0, and what is no period: sampling is off.
    pub period: AtomicU64,
    /// The period with which forked children begin: a watcher that will restore the period does not
    /// know them, and leaves this as it is.
    pub of_children: AtomicU64,
    /// The period at which the process samples while nobody watches it, in bytes; 0: it has none
    /// of this kind, because somebody has chosen a period or none (also `watch --leave`). A watcher that is given no period
    /// sets a shorter one in place of this, but of no other.
    pub standby: AtomicU64,
}

/// What has happened. They only grow.
#[repr(C)]
pub struct Counters {
    /// The longest period that was ever set, in bytes; 0: sampling was never on.
    pub longest_period: AtomicU64,
    /// The period that a thread found when it last looked at [`Control::period`]; 0: off.
    pub current_period: AtomicU64,
    /// Since when sampling has been on without a break, or was until [`Counters::off_since`]; equal
    /// to [`Header::began`] if it was on from the start. 0: it was never on.
    pub on_since: AtomicU64,
    /// Since when it has been off again; 0: it is on, or was never on.
    pub off_since: AtomicU64,
    /// Number of changes of [`Counters::current_period`], the first setting included.
    pub changed: AtomicU64,
    /// A ring: a change goes to its number modulo [`CHANGES`].
    pub changes: [ChangeSlot; CHANGES],
    /// Blocks that were sampled.
    pub sampled: AtomicU64,
    /// Blocks of [`Counters::sampled`] for which there was no place.
    pub lost_samples: AtomicU64,
    /// Samples without a stack, because there was no place for a node.
    pub lost_stacks: AtomicU64,
    /// Modules for which there was no place.
    pub lost_modules: AtomicU64,
    /// Deallocations that are not among the latest ones, although they belong there.
    pub lost_frees: AtomicU64,
    /// Samples, allocated or freed, that are in no total.
    pub lost_totals: AtomicU64,
    /// Times that a page could not be committed.
    pub uncommitted: AtomicU64,
    /// Ids of nodes that were given away; the first ids stand for no node.
    pub nodes: AtomicU64,
    /// Blocks of [`Counters::sampled`] that were freed; the next one's place in the ring follows.
    pub frees: AtomicU64,
}

/// A change of the period, as the first thread noticed it.
#[repr(C)]
pub struct ChangeSlot {
    /// Twice the number of the change, counted from 1; plus 1 while it is written. 0: none.
    pub version: AtomicU64,
    /// When it was noticed.
    pub time: AtomicU64,
    /// The period from then on, in bytes; 0: off.
    pub period: AtomicU64,
}

/// States of a [`ModuleSlot`].
pub mod module_state {
    /// The slot is not in use, or is being written.
    pub const EMPTY: u64 = 0;
    /// The module is mapped.
    pub const MAPPED: u64 = 1;
    /// It was mapped once.
    pub const UNMAPPED: u64 = 2;
}

/// A module: the program, or a library.
#[repr(C)]
pub struct ModuleSlot {
    /// One of [`module_state`].
    pub state: AtomicU64,
    /// Lowest address.
    pub start: AtomicU64,
    /// First address behind it.
    pub end: AtomicU64,
    /// What is added to the addresses of its file.
    pub bias: AtomicU64,
    /// When it was first seen.
    pub mapped: AtomicU64,
    /// When it was found to be gone.
    pub unmapped: AtomicU64,
    /// Bytes of the build id in the lower half, of the path in the upper one.
    pub lengths: AtomicU64,
    /// The file that was mapped, if there is no build id: words of `FileIdentity`.
    pub file: [AtomicU64; IDENTITY_WORDS],
    /// The build id.
    pub build_id: [AtomicU64; BUILD_ID / 8],
    /// The path.
    pub path: [AtomicU64; MODULE_PATH / 8],
}

/// A sampled block that was freed.
#[repr(C)]
pub struct FreedSlot {
    /// Twice the number of the deallocation, counted from 1; plus 1 while it is written. 0: none.
    pub version: AtomicU64,
    /// The block's address.
    pub address: AtomicU64,
    /// The size requested.
    pub size: AtomicU64,
    /// The period at which it was sampled.
    pub period: AtomicU64,
    /// When it was allocated.
    pub allocated: AtomicU64,
    /// When it was freed.
    pub freed: AtomicU64,
    /// Stack of the allocation in the lower half, of the deallocation in the upper one.
    pub stacks: AtomicU64,
    /// The thread that allocated it in the lower half, the one that freed it in the upper one.
    pub threads: AtomicU64,
}

/// Some of the live samples, by a hash of the address.
#[repr(C, align(64))]
pub struct Bucket {
    /// Addresses. 0: empty; odd: being written.
    pub keys: [AtomicU64; WAYS],
    _pad: AtomicU64,
    /// The rest of each sample, at the index of its key.
    pub samples: [SampleSlot; WAYS],
}

/// A sampled block.
#[repr(C, align(64))]
pub struct SampleSlot {
    /// Odd while it is written; changes whenever it is.
    pub version: AtomicU64,
    /// The size requested.
    pub size: AtomicU64,
    /// The period at which it was sampled.
    pub period: AtomicU64,
    /// When it was allocated.
    pub allocated: AtomicU64,
    /// The allocation's stack in the lower half, the thread in the upper one.
    pub stack_and_thread: AtomicU64,
    /// Number of the function that allocated it (`EntryPoint` of `allotrope-shm`).
    pub entry: AtomicU64,
    /// When the block was first allocated, if it was reallocated since.
    pub first_allocated: AtomicU64,
    /// The stack of that in the lower half; [`REALLOCATED`], without which both mean nothing.
    pub first_stack: AtomicU64,
}

/// Bit of [`SampleSlot::first_stack`]: see there.
pub const REALLOCATED: u64 = 1 << 32;

/// Totals of the samples of one stack, size class and period. They only grow.
#[repr(C, align(64))]
pub struct TotalSlot {
    /// Stack and size class, see [`crate::samples::totals`]; 0: empty.
    pub key: AtomicU64,
    /// The period at which they were sampled.
    pub period: AtomicU64,
    /// Number of samples that were allocated.
    pub allocated: AtomicU64,
    /// Sizes of the samples that were allocated, in bytes.
    pub allocated_bytes: AtomicU64,
    /// Number of these that were freed.
    pub freed: AtomicU64,
    /// Sizes of the samples that were freed, in bytes.
    pub freed_bytes: AtomicU64,
}

/// A node of the tree of stacks: a frame with its callers.
#[repr(C)]
pub struct NodeSlot {
    /// [`pack_place`] of the frame.
    pub place: AtomicU64,
    /// The callers' id in the lower half; bit 32: the address is that of the
    /// instruction itself, not one of a return address; bit 33: always set.
    pub parent: AtomicU64,
}

/// Bit of [`NodeSlot::parent`]: see there.
pub const EXACT: u64 = 1 << 32;
/// Bit of [`NodeSlot::parent`] of every node.
pub const WRITTEN: u64 = 1 << 33;

/// The address of a frame and the number of its module
/// (`NO_MAPPING` of `allotrope-shm` if it is in none) in one word.
pub const fn pack_place(address: u64, mapping: u16) -> u64 {
    (address & ADDRESS_MASK) | (mapping as u64) << 48
}

const _: () = {
    assert!(size_of::<Memory>() == BYTES);
    assert!(size_of::<OnPages<Header>>() == PAGE);
    assert!(size_of::<OnPages<Counters>>() == PAGE);
    assert!((STATES * 8).is_multiple_of(PAGE));
    assert!(size_of::<ModuleSlot>() == 512);
    assert!(size_of::<FreedSlot>() == 64);
    // None of them lies on two pages.
    assert!(size_of::<Bucket>() == 512);
    assert!(size_of::<SampleSlot>() == 64);
    assert!(size_of::<TotalSlot>() == 64);
    assert!(size_of::<NodeSlot>() == 16);
    assert!(NODES < u32::MAX as usize && INDEX >= 2 * NODES);
};
