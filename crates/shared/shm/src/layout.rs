//! The structures in the arena, their offsets and sizes.
//!
//! The arena consists of two memfds. Only the collector writes the *control file*:
//! [`Control`], and a [`Progress`] for each ring. The *arena file* has the tables that
//! both sides write, followed by a region for each ring: its counters, then its slots.
//! Recorders map the tables with the control file in place of the arena file's first
//! pages. Each side maps the regions of the rings that it uses.
//!
//! ```text
//! control file | Control | Progress … |
//! arena file   |       unused         | Shared | ImageSlot … | Diagnostic … | RingHeader … | region 0 | region 1 | …
//! ```
//!
//! All structures consist of atomics, so that a shared reference to them is
//! sound whatever the other side does at the same time.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::atomics::{Atomics, Hardware};
use crate::numbers::LossReason;

/// First word of an arena: `ALLOTROP` in ASCII, little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ALLOTROP");
/// Version of this contract; recorder and collector of one build agree.
pub const VERSION: u64 = 7;

/// Bytes of a page on the architectures supported.
pub const PAGE: usize = 4096;
/// Largest number of images that can be recorded at once.
pub const IMAGES: usize = 1024;
/// Number of rings for all images together.
pub const RINGS: usize = 2048;
/// Largest number of bytes of the state that the recorder keeps of a thread. A larger number is not
/// the recorder's.
pub const MAX_STATE: u64 = 4 << 20;
/// Largest number of diagnostics that can wait to be read.
pub const DIAGNOSTICS: usize = 64;
/// Words of a ring; a power of two. 512 KiB.
pub const RING_WORDS: usize = 1 << 16;
/// Words after a ring's last word. An event that begins near the end of the ring extends
/// into them, so that every event is contiguous. The word after such an event is at its
/// position modulo [`RING_WORDS`] as always; the words at the start of the ring that the
/// event would have used stay unused in that lap.
pub const OVERFLOW_WORDS: usize = 1 << 10;
/// Largest number of words of an event.
pub const MAX_EVENT_WORDS: usize = OVERFLOW_WORDS;
/// Words that the producer leaves free beyond those that it reserves, for short events
/// that are written without reserving.
pub const RING_MARGIN: usize = 64;

/// A ring's slots in the arena.
pub type Slots = [AtomicU64; RING_WORDS + OVERFLOW_WORDS];

/// Offset of the [`Control`] page.
pub const CONTROL_OFFSET: usize = 0;
/// Offset of the [`Progress`] table.
pub const PROGRESS_OFFSET: usize = PAGE;
/// Bytes of the control file.
pub const CONTROL_BYTES: usize =
    (PROGRESS_OFFSET + RINGS * size_of::<Progress>()).next_multiple_of(PAGE);
/// Offset of [`Shared`].
pub const SHARED_OFFSET: usize = CONTROL_BYTES;
/// Offset of the [`ImageSlot`] table.
pub const IMAGES_OFFSET: usize = SHARED_OFFSET + PAGE;
/// Offset of the [`Diagnostic`] table.
pub const DIAGNOSTICS_OFFSET: usize = IMAGES_OFFSET + IMAGES * size_of::<ImageSlot>();
/// Offset of the [`RingHeader`] table.
pub const RINGS_OFFSET: usize = DIAGNOSTICS_OFFSET + DIAGNOSTICS * size_of::<Diagnostic>();
/// Bytes of the tables, which every process maps: everything before the first ring's
/// region.
pub const TABLES_BYTES: usize =
    (RINGS_OFFSET + RINGS * size_of::<RingHeader>()).next_multiple_of(PAGE);
/// Offset of the slots in a ring's region, after its [`Counters`].
pub const RING_OFFSET: usize = size_of::<Counters>().next_multiple_of(PAGE);
/// Bytes of a ring's region, which begins with its [`Counters`].
pub const REGION_BYTES: usize = RING_OFFSET + (RING_WORDS + OVERFLOW_WORDS) * 8;
/// Bytes of the arena file (sparse).
pub const ARENA_BYTES: usize = region_offset(RINGS);
/// Offset of a ring's region in the arena file.
pub const fn region_offset(ring: usize) -> usize {
    TABLES_BYTES + ring * REGION_BYTES
}

/// Upper limit of positions. A correct producer never gets there: at a word per
/// nanosecond it would need more than thirty years.
pub const MAX_POSITION: u64 = 1 << 60;

/// Name of the environment variable by which a recorded program finds its arena; the
/// value is a [`location`](crate::location::Location).
pub const ENVIRONMENT_VARIABLE: &str = "ALLOTROPE_ARENA";

/// Name of the environment variable by which a user has a process watched whose environment has the
/// recorder in `LD_PRELOAD`. The other variable goes first.
pub const WATCH_VARIABLE: &str = "ALLOTROPE_WATCH";

/// Name of the environment variable with the allocators of its own that a recorded program has, in the form
/// that `allotrope-detour` describes.
pub const ALLOCATORS_VARIABLE: &str = "ALLOTROPE_ALLOCATORS";

/// What a recorder does when its ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum OnFull {
    /// Wait for the collector.
    Block = 0,
    /// Drop the event and count it.
    Drop = 1,
}

/// What may lie in shared memory: a structure of atomics, for which any bits are a value
/// and which another process may write at any time.
///
/// # Safety
/// All fields but padding are atomics.
pub unsafe trait InSharedMemory {}

macro_rules! in_shared_memory {
    ($($type:ty)*) => {$(
        // SAFETY: see the type.
        unsafe impl InSharedMemory for $type {}
    )*};
}
in_shared_memory!(
    AtomicU64 Slots Control Shared Counters
    [Progress; RINGS] [ImageSlot; IMAGES] [Diagnostic; DIAGNOSTICS] [RingHeader; RINGS]
);

/// The settings and the state of the collector. Written by the collector; in the control
/// file, which is sealed against writing by others (`arena.rs`).
#[repr(C)]
pub struct Control {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU64,
    /// The first half of the recording's secret, which is random. A recorder compares it
    /// in case the descriptor number refers to another file by now.
    pub key: AtomicU64,
    /// [`OnFull`] as a number.
    pub on_full: AtomicU32,
    /// Largest number of frames of a stack; 1 to 4096.
    pub depth_limit: AtomicU32,
    /// Non-zero: recording has stopped; recorders write no more.
    pub stopped: AtomicU32,
    /// Non-zero: `exec`ed and forked images are not to be recorded.
    pub no_follow: AtomicU32,
    /// Non-zero: where code has no unwind information, unwinding continues by frame
    /// pointers.
    pub frame_pointers: AtomicU32,
    /// Non-zero: calls are counted in [`Counters`], no event is written.
    pub counts_only: AtomicU32,
    /// Non-zero: deallocations are events with their stack, too.
    pub free_stacks: AtomicU32,
    /// How many system call filters (seccomp) the collector's process has, plus 1; 0: not
    /// known. A process of the recording with as many has the same ones, since filters are
    /// inherited and never removed.
    pub filters: AtomicU32,
    /// Non-zero: recorders keep a table of live blocks, and look at the exit for those that are
    /// lost.
    pub reachability: AtomicU32,
    _pad: [u32; 1],
    /// The coarse clock: a counter that the collector increments every millisecond.
    /// Recorders load it with every event. Its upper half is 0, because recorders
    /// combine it with the epoch of their image's windows. Alone in its cache line.
    pub clock: AtomicU64,
    _pad2: [u64; 7],
    /// A robust futex: the id of a thread of the collector while the collector records,
    /// 0 after it has stopped. The kernel sets [`OWNER_DIED`] when that thread dies.
    pub collector_alive: AtomicU32,
    _pad3: [u32; 15],
}

/// Bit that the kernel sets in a robust futex whose owner died (`FUTEX_OWNER_DIED`).
pub const OWNER_DIED: u32 = 0x4000_0000;

/// Wakes the collector: an event count that is a futex. See [`crate::ring`].
#[derive(Debug)]
#[repr(C)]
pub struct Doorbell<A: Atomics = Hardware> {
    /// Number of times that producers have rung: they ring when there is much to read, or
    /// something that cannot wait. The collector sleeps on this word.
    pub value: A::U32,
    /// Non-zero while the collector sleeps.
    pub sleeping: A::U32,
}

impl<A: Atomics> Default for Doorbell<A> {
    fn default() -> Self {
        Self {
            value: A::U32::default(),
            sleeping: A::U32::default(),
        }
    }
}

/// Written by both sides.
#[repr(C)]
pub struct Shared {
    /// Ends the collector's sleep.
    pub doorbell: Doorbell,
    /// The ring at which the search for a free one begins.
    pub ring_hint: AtomicU32,
    /// Number of images that began; the search for a free slot begins there.
    pub image_hint: AtomicU32,
    /// Number of images for which there was no free slot.
    pub images_refused: AtomicU32,
    /// Number of diagnostics posted.
    pub diagnostics: AtomicU32,
    /// Number of diagnostics for which there was no free entry.
    pub diagnostics_lost: AtomicU32,
}

/// States of a [`Diagnostic`].
pub mod diagnostic_state {
    /// The entry is not in use.
    pub const FREE: u32 = 0;
    /// The entry is being written.
    pub const CLAIMED: u32 = 1;
    /// The entry is to be read by the collector, which frees it.
    pub const READY: u32 = 2;
}

/// Longest path in a diagnostic, in bytes; a longer one loses its start.
pub const DIAGNOSTIC_PATH: usize = 240;

/// A message that a program that is about to run, or part of the posting process itself,
/// cannot be recorded. Posted by processes without a ring, and by `vfork` children,
/// whose ring is their parent's.
#[repr(C)]
pub struct Diagnostic {
    /// One of [`diagnostic_state`].
    pub state: AtomicU32,
    /// Process id in its own namespace.
    pub pid: AtomicU32,
    /// Number of a reason (`NotRecordable` of `allotrope-preflight`).
    pub what: AtomicU32,
    /// Bytes of the path.
    pub length: AtomicU32,
    /// The path's bytes, little-endian.
    pub path: [AtomicU64; DIAGNOSTIC_PATH / 8],
}

/// States of an [`ImageSlot`].
pub mod image_state {
    /// The slot is not in use.
    pub const FREE: u32 = 0;
    /// The slot is claimed by an image that has not written its `Image` event yet.
    pub const CLAIMED: u32 = 1;
    /// The `Image` event is the first one in the ring `first_ring`.
    pub const READY: u32 = 2;
    /// The collector has attached the image, which may continue.
    pub const ACKNOWLEDGED: u32 = 3;
}

/// Counters of lost events in an image slot, one for each [`LossReason`].
pub const LOSS_REASONS: usize = LossReason::ALL.len();

/// One process image.
#[repr(C)]
pub struct ImageSlot {
    /// One of [`image_state`]; a futex on which the image waits to be acknowledged.
    pub state: AtomicU32,
    /// Process id in the image's own namespace.
    pub pid: AtomicU32,
    /// The ring with the `Image` event.
    pub first_ring: AtomicU32,
    _pad: AtomicU32,
    /// Lost events by reason, growing.
    pub lost: [AtomicU64; LOSS_REASONS],
    /// Where the image has mapped memory of the recorder, by which the collector measures how
    /// much of it is resident: the address of the tables.
    pub tables: AtomicU64,
    /// Bytes of the memory at [`RingHeader::state`].
    pub state_bytes: AtomicU64,
    /// Resident bytes of the recorder's table of live blocks, about; 0 if it has none.
    pub live_blocks_bytes: AtomicU64,
    _pad2: [u64; 5],
}

/// The producer's half of a ring's state: the ring's owner and the position up to which
/// it has written. See [`crate::ring`] for positions.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RingHeader<A: Atomics = Hardware> {
    /// 0: free. Otherwise the image slot's index + 1.
    pub owner: AtomicU32,
    /// The thread that writes here now.
    pub tid: AtomicU32,
    /// Number of times that the ring was claimed; by it the collector notices a new
    /// claim.
    pub claims: AtomicU32,
    _pad: AtomicU32,
    /// The address at which the owner has mapped the ring's region.
    pub region: AtomicU64,
    /// The address of the memory that the owner has for the thread that writes here.
    pub state: AtomicU64,
    _pad3: [u32; 8],
    /// Events below this position are complete. Written only by the producer.
    pub written: A::U64,
    /// Non-zero while the producer waits for space.
    pub waiting: A::U32,
    _pad2: [u32; 13],
}

impl<A: Atomics> Default for RingHeader<A> {
    fn default() -> Self {
        Self {
            owner: AtomicU32::new(0),
            tid: AtomicU32::new(0),
            claims: AtomicU32::new(0),
            _pad: AtomicU32::new(0),
            region: AtomicU64::new(0),
            state: AtomicU64::new(0),
            _pad3: [0; 8],
            written: A::U64::default(),
            waiting: A::U32::default(),
            _pad2: [0; 13],
        }
    }
}

/// The collector's half of a ring's state. In the control file.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Progress<A: Atomics = Hardware> {
    /// Positions below this one may be overwritten.
    pub read: A::U64,
    /// Futex: incremented when something was read while the producer waits.
    pub space: A::U32,
    _pad: [u32; 13],
}

impl<A: Atomics> Default for Progress<A> {
    fn default() -> Self {
        Self {
            read: A::U64::default(),
            space: A::U32::default(),
            _pad: [0; 13],
        }
    }
}

/// Number of entry points with own counters; more than there are.
pub const COUNTED_ENTRIES: usize = 32;

/// Counters of the calls of one entry point. They only grow while the ring belongs to
/// its image.
#[derive(Debug, Default)]
#[repr(C)]
pub struct EntryCounters {
    /// Allocations.
    pub allocations: AtomicU64,
    /// Requested bytes of the allocations.
    pub allocated_bytes: AtomicU64,
    /// Deallocations.
    pub deallocations: AtomicU64,
    /// Calls that replaced a block by a block (`realloc`). Each also counts as an
    /// allocation and as a deallocation.
    pub reallocations: AtomicU64,
}

/// The counters of a ring, in a recording that only counts calls, by
/// [`EntryPoint`](crate::numbers::EntryPoint). Written only by the ring's producer. In
/// shared memory, so that they outlive the process.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Counters {
    /// Counters by entry point.
    pub entries: [EntryCounters; COUNTED_ENTRIES],
    /// Counters by entry point of the calls while the thread had opted out of windows.
    pub opted_out: [EntryCounters; COUNTED_ENTRIES],
}

impl Counters {
    /// All counters: [`Self::entries`], then [`Self::opted_out`].
    pub fn all(&self) -> impl Iterator<Item = &EntryCounters> + Clone {
        self.entries.iter().chain(&self.opted_out)
    }
}

const _: () = {
    assert!(size_of::<Control>() <= PAGE);
    assert!(size_of::<Shared>() <= PAGE);
    assert!(size_of::<ImageSlot>() == 128);
    assert!(size_of::<Diagnostic>() == 256);
    assert!(size_of::<RingHeader>() == 128);
    assert!(size_of::<Progress>() == 64);
    assert!(RING_OFFSET == PAGE);
    assert!(REGION_BYTES.is_multiple_of(PAGE));
    assert!(offset_of!(Control, clock).is_multiple_of(64));
    // Words that one side writes often share no cache line with words of the other side.
    assert!(offset_of!(Control, collector_alive) / 64 != offset_of!(Control, clock) / 64);
    assert!(offset_of!(RingHeader, written) / 64 != offset_of!(RingHeader, owner) / 64);
};
