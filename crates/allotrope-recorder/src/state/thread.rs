//! The data of a thread: its ring, its unwinder, its stack ids. What claims it and what
//! begins and ends a hook is in `lifecycle`.
//!
//! ```text
//! one mapping:  Thread │ ForkLocal: limits, unwinder, stack ids │ second stack
//!               copied │ wiped by a fork                        │
//! ```
//!
//! The positions that the fast path compares with, and the caches, lie in memory that
//! the kernel wipes in a forked child (`MADV_WIPEONFORK`), so that the first event of a
//! child finds a limit of 0 and takes the slow path, which begins the child. The head of
//! the mapping is copied: it holds where the parent's streams stood.
//!
//! A new thread takes over the mapping and the ring of one that is gone; nothing has to
//! happen at a thread's end.

use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use allotrope_shm::numbers::LossReason;
use allotrope_shm::ring::{ArenaRing, Limits, Writer};
use allotrope_unwind::Unwinder;

use crate::state::stack_id_cache::StackIds;
use crate::sys::arch::thread_slot;
use crate::sys::kernel::Advice;
use crate::sys::mapping::PrivateMemory;
use crate::sys::readable::OwnStacks;
use crate::sys::system;

/// Bytes of the stack on which call frame information is read.
pub const STACK_BYTES: usize = 256 << 10;

/// The head of a thread's mapping: survives a fork.
#[repr(C)]
pub struct Thread {
    /// The stack pointer of the hook that is at work; else `idle`.
    pub busy: usize,
    /// What `busy` is while no hook is at work: 0, or the stack pointer of a
    /// call of the allocator's that is under way, with `IN_ALLOCATOR` or
    /// `IN_REPORTED`.
    pub idle: usize,
    /// Events with an ordinal that were written to the stream.
    pub events: u64,
    /// Preemption word and epoch at the last timestamp, combined; see
    /// `events::current_state`.
    pub last_state: u64,
    /// The word in which it finds that a timestamp is due, see
    /// `events::preemption_word`.
    pub preemption_word: *const AtomicU64,
    /// The producer's end of the thread's ring.
    pub writer: Writer<'static, ArenaRing>,
    /// The epoch that the stream's last `Epoch` event gave: twice its number, plus
    /// 1 if the thread had opted out.
    pub stream_epoch: u64,
    /// What `idle` was before a call that the program reports.
    pub outer_idle: usize,
    /// The thread's own state; of a nested one, that which it was made for.
    pub root: *mut Thread,
    /// How often the thread opted out of windows and not in again; of a root.
    pub opted_out: AtomicU32,
    /// The next stack id to give.
    pub next_id: u32,
    /// Frames after which a stack is cut.
    pub depth_limit: u32,
    /// The ring's number.
    pub ring_index: u32,
    /// The kernel's thread id; 0: nobody's, free to take over.
    pub tid: AtomicU32,
    /// State for hooks in signal handlers that interrupt this state's hook.
    pub nested: *mut Thread,
    /// It is the state of a thread of the parent, perhaps of the one that
    /// forked: nobody may take it over until that one has come forward.
    pub inherited: bool,
    /// This is somebody's nested state.
    pub is_nested: bool,
    /// The last timestamp.
    pub timestamp_tick: u64,
    /// Tick of the timestamp from which the distance to the next one was computed
    /// last.
    pub measured_tick: u64,
    /// Position behind that timestamp.
    pub measured_position: u64,
    /// Position at which this thread rang the doorbell last.
    pub doorbell_position: u64,
    /// The last distance between timestamps was that of an image with one ring.
    pub was_single_threaded: bool,
    /// Why space was last refused.
    pub loss_reason: LossReason,
}

/// The part that a fork wipes.
#[repr(C)]
pub struct ForkLocal {
    /// Positions with which the fast path compares. The slow path is taken for a
    /// timestamp, for space in the ring, when the recording has stopped, and (0)
    /// after a fork. The thread that claims the image's second ring also sets
    /// `check_at` to 0.
    pub limits: Limits,
    /// The cached stack and the unwind rules.
    pub unwinder: Unwinder,
    /// Stack ids by callers and code.
    pub ids: StackIds,
    /// The stacks that stay while the thread runs on them.
    pub own_stacks: OwnStacks,
}

impl ForkLocal {
    /// No stack is known, and no frame cached: the thread is another one.
    pub fn forget_stacks(&mut self) {
        self.unwinder.forget_known_stack();
        self.own_stacks.forget();
    }
}

const PAGE: usize = allotrope_shm::layout::PAGE;
const FORK_LOCAL_OFFSET: usize = PAGE;
const STACK_OFFSET: usize = (FORK_LOCAL_OFFSET + size_of::<ForkLocal>()).next_multiple_of(PAGE);
const BYTES: usize = STACK_OFFSET + STACK_BYTES;
const _: () = assert!(size_of::<Thread>() <= PAGE);

impl Thread {
    /// The wiped part.
    #[inline(always)]
    pub fn fork_local(this: *mut Self) -> *mut ForkLocal {
        (this as usize + FORK_LOCAL_OFFSET) as *mut ForkLocal
    }

    /// The calling thread's own state; null before its first event.
    #[inline(always)]
    pub fn current() -> *mut Self {
        thread_slot::get().cast()
    }

    /// Makes this the calling thread's own state.
    #[inline]
    pub fn set_current(this: *mut Self) {
        thread_slot::set(this.cast());
    }

    /// The end of the thread's second stack.
    pub fn stack_top(this: *mut Self) -> *mut u8 {
        (this as usize + BYTES) as *mut u8
    }

    /// The end of the part of it on which walks off the known stack take place: they
    /// call what takes the rest of it.
    pub fn careful_stack_top(this: *mut Self) -> *mut u8 {
        const BYTES: usize = STACK_BYTES / 4;
        (this as usize + STACK_OFFSET + BYTES) as *mut u8
    }

    /// Whether `sp` points into the second stack.
    pub fn on_second_stack(this: *mut Self, sp: usize) -> bool {
        (this as usize + STACK_OFFSET..=this as usize + BYTES).contains(&sp)
    }

    /// Whether the events of the state's thread belong to no window.
    pub unsafe fn is_opted_out(this: *mut Self) -> bool {
        // SAFETY: a state's root is a state, and states are never unmapped.
        unsafe { (*(*this).root).opted_out.load(Relaxed) != 0 }
    }

    /// The positions with which the fast path compares.
    #[inline(always)]
    pub unsafe fn limits<'a>(this: *mut Self) -> &'a Limits {
        // SAFETY: states are never unmapped.
        unsafe { &(*Self::fork_local(this)).limits }
    }
}

/// A mapping for one thread, without a ring yet.
pub fn create() -> *mut Thread {
    let Some(memory) = PrivateMemory::new(BYTES) else {
        return ptr::null_mut();
    };
    let fork_local = memory.start().wrapping_add(FORK_LOCAL_OFFSET);
    let fork_local_bytes = STACK_OFFSET - FORK_LOCAL_OFFSET;
    if !system::advise(fork_local, fork_local_bytes, Advice::WipeOnFork) {
        // Linux 4.14 and later know it. Without it a fork would go unnoticed.
        return ptr::null_mut();
    }
    memory.advise(Advice::DontDump);
    memory.leak().cast()
}

/// Whether a state's thread has ended, so that another may take it over.
pub fn is_abandoned(thread: *mut Thread) -> bool {
    // SAFETY: states are never unmapped.
    let (tid, inherited) = unsafe { ((*thread).tid.load(Relaxed), (*thread).inherited) };
    !inherited && (tid == 0 || system::thread_is_gone(tid))
}
