//! The data of the process: whether it is recorded, its slot in the arena, its thread
//! states and the lock. What changes them is in `lifecycle`.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64};

use allotrope_shm::layout::{self, ImageSlot, RINGS};
use allotrope_shm::numbers::LossReason;
use allotrope_shm::ring::Claims;

pub use crate::state::arena::{control, diagnostics, rings, shared, slots};

use crate::state::arena;
use crate::state::module_table::Table;
use crate::state::thread::{Thread, ThreadRef};
use crate::sys::kernel::Advice;
use crate::sys::mapping::PrivateMemory;
use crate::sys::system;

/// Process state that a fork wipes (`MADV_WIPEONFORK`).
#[repr(C)]
pub struct ForkState {
    /// 0: this is a forked child that has not begun its image.
    pub alive: AtomicU32,
    /// Held while threads are claimed or modules entered, with signals blocked;
    /// free again in a forked child. One of `lock_state`.
    lock: AtomicU32,
    /// The image has written its `Image` event.
    pub announced: AtomicU32,
    /// The image's slot.
    pub slot: AtomicU32,
    /// How it came to be, one of `wire::origin`.
    pub origin: AtomicU32,
    /// The parent's slot + 1, for a fork.
    pub parent: AtomicU32,
    /// Counts the rings that the image has claimed.
    pub claims: Claims,
    /// When another thread claimed the second one; 0: it has not, or a handler
    /// did, within an event of the first.
    pub second_thread_tick: AtomicU64,
    /// The image has allocated a block of its own, as far as live blocks are tracked.
    has_blocks: AtomicU32,
    /// The image has been scanned for reachable blocks.
    is_scanned: AtomicU32,
    /// Mapped code.
    pub modules: Table,
}

/// Value of [`STATE`]: nothing has been tried yet.
pub const UNTOUCHED: u8 = 0;
/// A thread is starting the recording.
pub const STARTING: u8 = 1;
/// The image is recorded.
pub const RECORDING: u8 = 2;
/// The image is not recorded, or no longer.
pub const OFF: u8 = 3;

/// Whether this process is recorded.
pub static STATE: AtomicU8 = AtomicU8::new(UNTOUCHED);
/// See [`ForkState`]; null until the recording starts.
static FORK_STATE: AtomicPtr<ForkState> = AtomicPtr::new(ptr::null_mut());
/// The slot of the image that last was alive here: a forked child's parent.
pub static LAST_SLOT: AtomicU32 = AtomicU32::new(0);
/// The process id of the image, by which a `vfork` child is recognised.
pub static PROCESS_ID: AtomicU32 = AtomicU32::new(0);
/// The process id of the image that a forked child comes from.
pub static PARENT_ID: AtomicU32 = AtomicU32::new(0);
/// Whether this is a forked child with thread states of its parent that have had no event in the
/// child yet.
pub static HAS_INHERITED: AtomicBool = AtomicBool::new(false);
/// Every thread state that this process and those it was forked from made.
pub static THREADS: [ThreadRef; RINGS] = [const { ThreadRef::none() }; RINGS];
/// How many [`THREADS`] there are.
pub static THREAD_COUNT: AtomicU32 = AtomicU32::new(0);

/// Whether there is a collector to write for.
#[inline]
pub fn is_recording() -> bool {
    STATE.load(Relaxed) == RECORDING
}

/// Ends the recording of this process; the program runs on.
#[cold]
pub fn turn_off() {
    STATE.store(OFF, Relaxed);
}

/// Whether the caller is not a `vfork` child that borrows its parent's memory:
/// it is the image's own process, or a forked child that has yet to begin.
pub fn is_own_process() -> bool {
    is_forked() || PROCESS_ID.load(Relaxed) == system::process_id()
}

/// The parent's process id. Of a forked child it is known: a sandbox may
/// forbid to ask for it.
pub fn parent_id() -> u32 {
    match PARENT_ID.load(Relaxed) {
        0 => system::parent_id(),
        parent => parent,
    }
}

/// Whether a state may yet turn out to be that of the thread that forked.
pub fn has_inherited_states() -> bool {
    HAS_INHERITED.load(Relaxed)
}

/// Maps the part that a fork wipes, before the recording begins; `false` if that is not
/// possible.
pub fn map_fork_state() -> bool {
    const BYTES: usize = size_of::<ForkState>();
    let memory = PrivateMemory::new(BYTES).filter(|it| it.advise(Advice::WipeOnFork));
    let Some(memory) = memory else {
        return false;
    };
    FORK_STATE.store(memory.leak().cast(), Relaxed);
    true
}

/// The part that a fork wipes. Only asked for while recording.
#[inline]
pub fn fork_state() -> &'static ForkState {
    // SAFETY: null, or a mapping for good by `map_fork_state`, for which zeroes are valid.
    match unsafe { FORK_STATE.load(Relaxed).as_ref() } {
        Some(state) => state,
        None => system::abort(),
    }
}

/// The claims of the image's rings.
pub fn claims() -> &'static Claims {
    &fork_state().claims
}

/// When another thread joined the image's first; what that one had recorded
/// until it noticed was recorded before. `None`: it is not known.
pub fn second_thread_tick() -> Option<u64> {
    Some(fork_state().second_thread_tick.load(Relaxed)).filter(|&tick| tick != 0)
}

/// The owner of this image's rings.
pub fn owner() -> u32 {
    fork_state().slot.load(Relaxed) + 1
}

/// Whether the arena is mapped and its collector still records.
pub fn has_arena() -> bool {
    arena::is_mapped() && control().stopped.load(Relaxed) == 0
}

/// This image's slot.
pub fn slot() -> &'static ImageSlot {
    &slots()[fork_state().slot.load(Relaxed) as usize % layout::IMAGES]
}

/// Counts events that could not be recorded.
#[cold]
pub fn lost(reason: LossReason) {
    if is_recording() && fork_state().alive.load(Relaxed) != 0 {
        slot().lost[reason as usize].fetch_add(1, Relaxed);
    }
}

/// Whether this is a forked child that has not set itself up.
#[inline]
pub fn is_forked() -> bool {
    fork_state().alive.load(Relaxed) == 0
}

/// Every thread state, those of threads that have ended too.
pub fn threads() -> impl Iterator<Item = &'static Thread> + Clone {
    let count = (THREAD_COUNT.load(Acquire) as usize).min(RINGS);
    THREADS[..count].iter().filter_map(ThreadRef::get)
}

/// Notes that the image, and not a parent that it was forked from, has allocated a block.
#[inline]
pub fn note_block() {
    let noted = &fork_state().has_blocks;
    if noted.load(Relaxed) == 0 {
        noted.store(1, Relaxed);
    }
}

/// Whether the image is to be scanned for reachable blocks; `true` once, and only if it has
/// blocks of its own.
pub fn begin_scan() -> bool {
    let state = fork_state();
    state.has_blocks.load(Relaxed) != 0 && state.is_scanned.swap(1, Relaxed) == 0
}

/// Calls `visit` with start and end of each private mapping of the recorder's that this file, or
/// a thread's state, is the owner of.
pub fn each_mapping(mut visit: impl FnMut(usize, usize)) {
    let state = FORK_STATE.load(Relaxed) as usize;
    visit(state, state + size_of::<ForkState>());
    for thread in threads() {
        let start = ptr::from_ref(thread) as usize;
        visit(start, start + size_of::<Thread>());
    }
}

/// The lock in [`ForkState`]. Its holder has signals blocked, so that only
/// another running thread can hold it, for a short time.
pub struct Lock(());

/// What [`ForkState::lock`] can be.
mod lock_state {
    pub const FREE: u32 = 0;
    pub const HELD: u32 = 1;
    /// Held, and somebody may sleep until it is free.
    pub const AWAITED: u32 = 2;
}

/// Longest sleep for the lock, in milliseconds: whoever frees it wakes one who
/// waits, so this is never waited for.
const MAX_WAIT: u64 = 50;

impl Lock {
    /// Takes it.
    pub fn take() -> Self {
        use lock_state::{AWAITED, FREE, HELD};
        let lock = &fork_state().lock;
        if lock.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            // Taken so, it is woken for once too often at most.
            while lock.swap(AWAITED, Acquire) != FREE {
                system::futex_wait(lock, AWAITED, MAX_WAIT);
            }
        }
        Self(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let lock = &fork_state().lock;
        if lock.swap(lock_state::FREE, Release) == lock_state::AWAITED {
            system::futex_wake_one(lock);
        }
    }
}
