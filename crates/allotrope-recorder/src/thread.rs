//! What a thread needs to record: its ring, its unwinder, its stack ids.
//!
//! One mapping a thread. Its head survives `fork` as everything does; the part
//! that the fast path compares against and the caches lie in memory that the
//! kernel wipes in a forked child (`MADV_WIPEONFORK`), so that the first event
//! of a child finds a limit of 0, goes the slow way and learns what happened.
//! The head still says where the parent's streams stood.
//!
//! A thread's mapping and ring are taken over by a new thread once the thread
//! is gone; nothing has to happen at a thread's end.

use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use allotrope_shm::numbers::LossReason;
use allotrope_shm::ring::{ArenaRing, Limits, Writer};
use allotrope_unwind::Unwinder;

use crate::counts;
use crate::early;
use crate::modules;
use crate::process;
use crate::stack_ids::StackIds;
use crate::sys::arch::thread_slot;
use crate::sys::readable::OwnStacks;
use crate::sys::system::{self, SignalsBlocked};

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
    /// See [`events::preemption_word`](crate::events::preemption_word).
    pub preemption_word: *const AtomicU64,
    /// The producer's end of the thread's ring.
    pub writer: Writer<'static, ArenaRing>,
    /// The epoch that the stream's last `Epoch` event gave: twice its number, plus
    /// 1 if the thread had opted out.
    pub stream_epoch: u64,
    /// What `idle` was before a call that the program reports.
    outer_idle: usize,
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

    fn on_second_stack(this: *mut Self, sp: usize) -> bool {
        (this as usize + STACK_OFFSET..=this as usize + BYTES).contains(&sp)
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
    let memory = system::map_private(BYTES);
    if memory.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: within the mapping.
    let fork_local = unsafe { memory.add(FORK_LOCAL_OFFSET) };
    if !system::advise(
        fork_local,
        STACK_OFFSET - FORK_LOCAL_OFFSET,
        libc::MADV_WIPEONFORK,
    ) {
        // Linux 4.14 and later know it. Without it a fork would go unnoticed.
        // SAFETY: nobody knows the mapping.
        unsafe { system::unmap(memory, BYTES) };
        return ptr::null_mut();
    }
    system::advise(memory, BYTES, libc::MADV_DONTDUMP);
    memory.cast()
}

/// The state to record with for a hook whose stack pointer is `sp`; its `busy`
/// is set. Null: this call can not be recorded.
#[inline(always)]
pub unsafe fn enter(sp: usize) -> *mut Thread {
    let thread = Thread::current();
    // SAFETY: the slot is null or this thread's live state.
    unsafe {
        if thread.is_null() {
            return begin(sp);
        }
        if (*thread).busy != 0 {
            return interrupted(thread, sp);
        }
        (&raw mut (*thread).busy).write_volatile(sp);
    }
    thread
}

/// The hook is done.
#[inline(always)]
pub unsafe fn leave(thread: *mut Thread) {
    // SAFETY: `enter` gave it.
    unsafe { (&raw mut (*thread).busy).write_volatile((*thread).idle) };
}

/// In `idle`: a call of the allocator is under way in which the allocator may
/// call itself. Stack pointers are even.
const IN_ALLOCATOR: usize = 1;

/// In `idle`: a call of an allocator is under way that the program reports
/// itself. Whatever is called in it belongs to it, wherever that returns to: the
/// allocator may be linked into the program.
const IN_REPORTED: usize = 2;

/// A call that the program reports begins. Gives the state that must leave it;
/// null if it is not to be reported: nothing is recorded, or it is itself a
/// part of such a call.
#[inline(always)]
pub unsafe fn enter_reported(sp: usize) -> *mut Thread {
    // SAFETY: `enter` gives this thread's own state.
    unsafe {
        let thread = enter(sp);
        if !thread.is_null() {
            (*thread).outer_idle = (*thread).idle;
            (*thread).idle = sp | IN_REPORTED;
            leave(thread);
            if counts::is_on() {
                counts::detach();
            }
        }
        thread
    }
}

/// It ends. `thread` is what `enter_reported` gave.
#[inline(always)]
pub unsafe fn leave_reported(thread: *mut Thread) {
    // SAFETY: the state is this thread's, and no hook of it is at work.
    unsafe {
        // A jump may have left it, and a later call found that.
        if (*thread).idle & IN_REPORTED != 0 {
            (*thread).idle = (*thread).outer_idle;
            leave(thread);
            if counts::is_on() {
                counts::attach(thread);
            }
        }
    }
}

/// A call of the allocator begins whose inner calls are not to be recorded.
pub unsafe fn enter_allocator(sp: usize) {
    // SAFETY: `enter` gives this thread's own state.
    unsafe {
        let thread = enter(sp);
        if !thread.is_null() {
            (*thread).idle = sp | IN_ALLOCATOR;
            leave(thread);
            if counts::is_on() {
                counts::detach();
            }
        }
    }
}

/// Makes a call of the next allocator's in which the allocator may call another one
/// of the functions that the recorder stands before: that is part of this call, and
/// not recorded. `sp` is the hook's.
#[inline(always)]
pub unsafe fn call_allocator<T>(sp: *const u64, call: impl FnOnce() -> T) -> T {
    // SAFETY: `enter` gives this thread's own state; at the end no hook of it is at
    // work.
    unsafe {
        let mark = sp as usize | IN_ALLOCATOR;
        let thread = enter(sp as usize);
        if thread.is_null() {
            // Nothing is recorded, or this is itself such an inner call.
            return call();
        }
        let outer = (*thread).idle;
        (*thread).idle = mark;
        leave(thread);
        if counts::is_on() {
            counts::detach();
        }
        let result = call();
        // A jump may have left it, and a later call found that.
        if (*thread).idle == mark {
            (*thread).idle = outer;
            leave(thread);
            if counts::is_on() && outer == 0 {
                counts::attach(thread);
            }
        }
        result
    }
}

/// It ends.
pub unsafe fn leave_allocator() {
    let thread = Thread::current();
    // SAFETY: the slot is null or this thread's state.
    unsafe {
        if !thread.is_null() && (*thread).busy & IN_ALLOCATOR != 0 {
            (*thread).idle = 0;
            leave(thread);
            if counts::is_on() {
                counts::attach(thread);
            }
        }
    }
}

/// A thread's first event.
#[cold]
unsafe fn begin(sp: usize) -> *mut Thread {
    if !process::is_recording() && !process::start() {
        return ptr::null_mut();
    }
    let _blocked = SignalsBlocked::new();
    // A handler may have come first.
    let thread = Thread::current();
    if !thread.is_null() {
        // SAFETY: it is this thread's.
        unsafe { (*thread).busy = sp };
        return thread;
    }
    // SAFETY: signals are blocked.
    let thread = unsafe { process::claim_thread(false) };
    if !thread.is_null() {
        // SAFETY: claimed for this thread.
        unsafe {
            (*Thread::fork_local(thread)).forget_stacks();
            (*thread).busy = sp;
        }
        Thread::set_current(thread);
        if early::is_pending() {
            // SAFETY: as above.
            unsafe { early::tell(thread) };
        }
    }
    thread
}

/// The thread's state is in use: either this hook runs in a signal handler
/// that interrupted another, or that other hook was left by a `siglongjmp`.
#[cold]
unsafe fn interrupted(mut thread: *mut Thread, sp: usize) -> *mut Thread {
    // SAFETY: states are this thread's own; `nested` is null or another one.
    unsafe {
        loop {
            let busy = (*thread).busy;
            let in_allocator = busy & IN_ALLOCATOR != 0;
            let in_reported = busy & IN_REPORTED != 0;
            // A reported call's inner ones may be made from the frame that
            // entered it: they begin at its stack pointer, not below.
            let mark = busy & !(IN_ALLOCATOR | IN_REPORTED);
            let mark = if in_reported { mark + 8 } else { mark };
            let is_stale = busy != 0 && is_stale(thread, mark, sp);
            if in_reported && !is_stale {
                return ptr::null_mut();
            }
            if in_allocator && !is_stale && modules::is_allocator(*(sp as *const u64)) {
                return ptr::null_mut();
            }
            if is_stale {
                // An exception or a jump has left it.
                (*thread).idle = 0;
            }
            if busy == 0 || is_stale || in_allocator {
                (&raw mut (*thread).busy).write_volatile(sp);
                return thread;
            }
            if (*thread).nested.is_null() {
                let _blocked = SignalsBlocked::new();
                if (*thread).nested.is_null() {
                    let nested = process::claim_thread(true);
                    if !nested.is_null() {
                        (*Thread::fork_local(nested)).forget_stacks();
                        (*nested).root = (*thread).root;
                    }
                    (*thread).nested = nested;
                }
            }
            if (*thread).nested.is_null() {
                return ptr::null_mut();
            }
            // Whatever the interrupted hook is about to write gets a time of
            // its own, so that it can be ordered against what happens now.
            Thread::limits(thread).check_at.store(0, Relaxed);
            thread = (*thread).nested;
            // Events in handlers are few: each marks the time.
            Thread::limits(thread).check_at.store(0, Relaxed);
        }
    }
}

/// The hook that marked the state busy is gone if the stack has been unwound
/// past its frame. On another stack (an alternate signal stack, our own) the
/// pointers do not compare: the hook below is still there.
unsafe fn is_stale(thread: *mut Thread, busy: usize, sp: usize) -> bool {
    if sp < busy || Thread::on_second_stack(thread, sp) {
        return false;
    }
    match system::alternate_stack_in_use() {
        Some((start, bytes)) => !(start..start + bytes).contains(&sp),
        None => true,
    }
}

/// Whether a state's thread has ended, so that another may take it over.
pub fn is_abandoned(thread: *mut Thread) -> bool {
    // SAFETY: states are never unmapped.
    let (tid, inherited) = unsafe { ((*thread).tid.load(Relaxed), (*thread).inherited) };
    !inherited && (tid == 0 || system::thread_is_gone(tid))
}
