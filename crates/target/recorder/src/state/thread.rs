//! The data of a thread: its ring, its unwinder, its stack ids. What claims it and what
//! begins and ends a hook is in `lifecycle`.
//!
//! ```text
//! one mapping:  fields of Thread │ ForkLocal: limits, unwinder, ids │ second stack
//!               copied by a fork │ wiped by a fork                  │
//! ```
//!
//! The positions that the fast path compares with, and the caches, lie in memory that
//! the kernel wipes in a forked child (`MADV_WIPEONFORK`), so that the first event of a
//! child finds a limit of 0 and takes the slow path, which begins the child. The first
//! page of the mapping is copied: it holds where the parent's streams stood.
//!
//! A new thread takes over the mapping and the ring of one that has ended; nothing has to
//! happen at a thread's end. Mappings are never removed.
//!
//! # Who may do what
//! Any thread, and any signal handler, may look at a [`Thread`]: its fields are atomic
//! and accessed `Relaxed`, which costs what a plain field costs. What only its own thread
//! may do, as writing to the ring and unwinding, takes an [`OwnThread`].

use core::cell::{Cell, UnsafeCell};
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};

use allotrope_shm::layout::PAGE;
use allotrope_shm::numbers::LossReason;
use allotrope_shm::ring::{ArenaRing, Limits, Writer};
use allotrope_unwind::Unwinder;

use crate::state::sampler::Sampling;
use crate::state::stack_id_cache::StackIds;
use crate::sys::arch::thread_slot;
use crate::sys::kernel::Advice;
use crate::sys::mapping::PrivateMemory;
use crate::sys::readable::OwnStacks;
use crate::sys::system;

/// Bytes of the stack on which call frame information is read.
pub const STACK_BYTES: usize = 256 << 10;

/// The state of a thread. All zero, it is nobody's and has no ring.
#[repr(C)]
pub struct Thread {
    /// The stack pointer of the hook that runs; if none does, `suspended_call`.
    pub hook_sp: AtomicUsize,
    /// The call of an allocator, not yet returned, that the hook let through: its stack pointer
    /// with `IN_ALLOCATOR`, `IN_REPORTED` or `IN_DETOUR`. 0: none.
    pub suspended_call: AtomicUsize,
    /// Events with an ordinal that were written to the stream.
    pub events: AtomicU64,
    /// Preemption word and epoch at the last timestamp, combined; see
    /// `events::current_state`.
    pub last_state: AtomicU64,
    /// See [`OwnThread::preemption_word`].
    preemption_word: AtomicPtr<AtomicU64>,
    /// The producer's end of the thread's ring.
    pub writer: Writer<'static, ArenaRing>,
    /// The epoch of the stream's last `Epoch` event: twice its number, plus
    /// 1 if the thread had opted out.
    pub stream_epoch: AtomicU64,
    /// `suspended_call` before a call that the program reports.
    pub outer_call: AtomicUsize,
    /// The block that a named function is freeing, and the stack pointer of its call, see
    /// `enter::begin_free`; 0: none is.
    pub freeing: [AtomicUsize; 2],
    /// What the table of live blocks had of the block that is being reallocated
    /// (`state::live_blocks`).
    pub reallocated: AtomicU32,
    /// The thread's own state; of a nested one, that which it was made for.
    pub root: ThreadRef,
    /// How often the thread opted out of windows and not in again; of a root.
    pub opted_out: AtomicU32,
    /// The next stack id that is not in use.
    pub next_id: AtomicU32,
    /// Frames after which a stack is cut.
    pub depth_limit: AtomicU32,
    /// The ring's number.
    pub ring_index: AtomicU32,
    /// The kernel's thread id; 0: nobody's, free to take over.
    pub tid: AtomicU32,
    /// The thread pointer of the state's thread, by which the C library knows it; 0 after the
    /// thread's end, and of a nested state.
    pub thread_pointer: AtomicU64,
    /// The thread's name as last emitted, see `emit::thread_names`; zeroes: none was.
    pub name: [AtomicU64; 2],
    /// What is left of the countdown while the thread-local one is 0, see `state::sampling`.
    pub countdown: AtomicU64,
    /// State for hooks in signal handlers that interrupt this state's hook.
    pub nested: ThreadRef,
    /// It is the state of a thread of the parent, perhaps of the one that
    /// forked: nobody may take it over until that one has had an event.
    pub inherited: AtomicBool,
    /// This is somebody's nested state.
    pub is_nested: AtomicBool,
    /// The last distance between timestamps was that of an image with one ring.
    pub was_single_threaded: AtomicBool,
    /// The last timestamp.
    pub timestamp_tick: AtomicU64,
    /// Tick of the timestamp from which the distance to the next one was computed
    /// last.
    pub measured_tick: AtomicU64,
    /// Position behind that timestamp.
    pub measured_position: AtomicU64,
    /// Position at which this thread rang the doorbell last.
    pub doorbell_position: AtomicU64,
    /// libunwind walks this state's stack.
    #[cfg(feature = "verify")]
    pub is_comparing: AtomicBool,
    fork_local: Pages<ForkLocal>,
    stack: UnsafeCell<[u8; STACK_BYTES]>,
}

// SAFETY: all fields are atomic but two. `fork_local` is reached by `OwnThread` alone,
// except for its limits, which are atomic, too; of `stack` only the address is used.
unsafe impl Sync for Thread {}

/// Begins with a page.
#[repr(C, align(4096))]
struct Pages<T>(T);

/// The part that a fork wipes. Only hooks of the thread itself use it, one at a time:
/// a signal handler that interrupts one uses a nested state.
#[repr(C)]
pub struct ForkLocal {
    /// Positions with which the fast path compares. The slow path is taken for a
    /// timestamp, for space in the ring, when the recording has stopped, and (0)
    /// after a fork. The thread that claims the image's second ring also sets
    /// `check_at` to 0.
    limits: Limits,
    /// The cached stack and the unwind rules.
    pub unwinder: Unwinder,
    /// Stack ids by callers and code.
    pub ids: StackIds,
    /// The stacks that stay while the thread runs on them.
    pub own_stacks: OwnStacks,
    /// Why space was last refused.
    pub loss_reason: Cell<LossReason>,
    /// Which allocations are sampled, where the process is watched.
    pub sampling: Sampling,
}

impl ForkLocal {
    /// No stack is known, and no frame cached: the thread is another one.
    pub fn forget_stacks(&self) {
        self.unwinder.forget_known_stack();
        self.own_stacks.forget();
    }
}

const _: () = assert!(offset_of!(Thread, fork_local) == PAGE);

impl Thread {
    /// The calling thread's own state; `None` before its first event.
    #[inline(always)]
    pub fn current() -> Option<&'static Self> {
        // SAFETY: null, or what `set_current` stored; states are never unmapped.
        unsafe { thread_slot::get().cast::<Self>().as_ref() }
    }

    /// Makes this the calling thread's own state.
    #[inline]
    pub fn set_current(&'static self) {
        thread_slot::set(ptr::from_ref(self).cast_mut().cast());
    }

    /// Whether a hook of the calling thread's own state is at work.
    ///
    /// A plain load, as in [`OwnThread::last_state`]: the compiler makes no atomic load
    /// the operand of a comparison, and every event makes these two.
    ///
    /// # Safety
    /// The state is the calling thread's.
    #[inline(always)]
    pub unsafe fn is_busy(&self) -> bool {
        // SAFETY: only the state's own thread stores to `hook_sp`, apart from the claim of
        // a state whose thread has ended.
        unsafe { *self.hook_sp.as_ptr() != 0 }
    }

    /// Whether both are the same state.
    #[inline(always)]
    pub fn is(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }

    /// The positions with which the fast path compares.
    #[inline(always)]
    pub fn limits(&self) -> &Limits {
        &self.fork_local.0.limits
    }

    /// The end of the thread's second stack.
    pub fn stack_top(&self) -> *mut u8 {
        self.stack.get().cast::<u8>().wrapping_add(STACK_BYTES)
    }

    /// The end of the part of it on which walks off the known stack take place: they
    /// call what takes the rest of it.
    pub fn careful_stack_top(&self) -> *mut u8 {
        self.stack.get().cast::<u8>().wrapping_add(STACK_BYTES / 4)
    }

    /// Whether `sp` points into the second stack.
    pub fn on_second_stack(&self, sp: usize) -> bool {
        let start = self.stack.get() as usize;
        (start..=start + STACK_BYTES).contains(&sp)
    }

    /// Whether the events of the state's thread belong to no window.
    pub fn is_opted_out(&self) -> bool {
        let root = self.root.get();
        root.is_some_and(|root| root.opted_out.load(Relaxed) != 0)
    }

    /// Whether a state's thread has ended, so that another may take it over.
    pub fn is_abandoned(&self) -> bool {
        let tid = self.tid.load(Relaxed);
        !self.inherited.load(Relaxed) && (tid == 0 || system::thread_is_gone(tid))
    }

    /// Sets the word of [`OwnThread::preemption_word`].
    pub fn set_preemption_word(&self, word: *const AtomicU64) {
        self.preemption_word.store(word.cast_mut(), Relaxed);
    }
}

/// The calling thread's own state, of which no other hook is at work now.
///
/// With it a hook may write to the thread's ring and use its [`ForkLocal`]. It cannot be
/// sent to another thread. A hook in a signal handler does not find it, but gets another
/// one, of the nested state.
#[derive(Clone, Copy)]
pub struct OwnThread(&'static Thread, PhantomData<*const ()>);

impl OwnThread {
    /// # Safety
    /// The state was claimed for the calling thread, and no other hook of this state is
    /// at work: `hook_sp` was set by the caller, or signals are blocked.
    #[inline(always)]
    pub unsafe fn new(state: &'static Thread) -> Self {
        Self(state, PhantomData)
    }

    /// The state, for others to look at.
    #[inline(always)]
    pub fn state(self) -> &'static Thread {
        self.0
    }

    /// The part that a fork wipes.
    #[inline(always)]
    pub fn fork_local(self) -> &'static ForkLocal {
        &self.0.fork_local.0
    }

    /// See [`Thread::last_state`].
    #[inline(always)]
    pub fn last_state(self) -> u64 {
        // SAFETY: only the state's own thread, the calling one, stores to it.
        unsafe { *self.0.last_state.as_ptr() }
    }

    /// The word in which the thread finds that a timestamp is due, see
    /// `events::preemption_word`.
    #[inline(always)]
    pub fn preemption_word(self) -> &'static AtomicU64 {
        // SAFETY: set when the state was claimed: the thread's own word, or the
        // collector's. Both live as long as the calling thread.
        unsafe { &*self.0.preemption_word.load(Relaxed) }
    }
}

impl Deref for OwnThread {
    type Target = Thread;

    #[inline(always)]
    fn deref(&self) -> &Thread {
        self.0
    }
}

/// A shared reference to a state, or none.
pub struct ThreadRef(AtomicPtr<Thread>);

impl ThreadRef {
    /// Returns a reference to no state.
    pub const fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The state.
    #[inline]
    pub fn get(&self) -> Option<&'static Thread> {
        // SAFETY: null, or what `set` stored.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    /// Makes it refer to another state.
    pub fn set(&self, state: Option<&'static Thread>) {
        let state = state.map_or(ptr::null_mut(), |state| ptr::from_ref(state).cast_mut());
        self.0.store(state, Relaxed);
    }
}

/// A state for one thread, without a ring yet; `None` if memory is short.
pub fn create() -> Option<&'static Thread> {
    let memory = PrivateMemory::new(size_of::<Thread>())?;
    let fork_local = memory.start().wrapping_add(offset_of!(Thread, fork_local));
    let fork_local_bytes = size_of::<Pages<ForkLocal>>();
    // Linux 4.14 and later know it. Without it a fork would go unnoticed.
    if !system::advise(fork_local, fork_local_bytes, Advice::WipeOnFork) {
        return None;
    }
    memory.advise(Advice::DontDump);
    // SAFETY: mapped for good, begins with a page, is as large as a `Thread`, which may
    // be all zero.
    Some(unsafe { &*memory.leak().cast::<Thread>() })
}
