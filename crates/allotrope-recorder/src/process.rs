//! What the process does: finds its arena, claims an image slot and rings,
//! and starts anew in a forked child.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, fence};

use allotrope_shm::layout::{self, Control, Diagnostic, ImageSlot, RINGS, RingHeader, Shared};
use allotrope_shm::numbers::LossReason;
use allotrope_shm::wire::origin;
use allotrope_target::NotRecordable;

use crate::arena;
use crate::counts;
use crate::diagnostics;
use crate::early;
use crate::events;
use crate::image;
use crate::loader_tables;
use crate::modules::{self, Table};
use crate::sys::arch;
use crate::sys::arch::stack_switch;
use crate::sys::next::{self, Function};
use crate::sys::system::{self, SignalsBlocked};
use crate::thread::{self, Thread};

/// Process state that a fork wipes (`MADV_WIPEONFORK`).
#[repr(C)]
pub struct Guard {
    /// 0: this is a forked child that has not yet noticed.
    alive: AtomicU32,
    /// Held while threads are claimed or modules entered, with signals blocked;
    /// free again in a forked child. One of `lock_state`.
    lock: AtomicU32,
    /// The image has told the collector who it is.
    announced: AtomicU32,
    /// The image's slot.
    slot: AtomicU32,
    /// How it came to be, one of `wire::origin`.
    origin: AtomicU32,
    /// The parent's slot + 1, for a fork.
    parent: AtomicU32,
    /// Rings that the image has claimed.
    rings_claimed: AtomicU32,
    /// When another thread claimed the second one; 0: it has not, or a handler
    /// did, within an event of the first.
    second_thread_tick: AtomicU64,
    /// Mapped code.
    pub modules: Table,
}

const UNTOUCHED: u8 = 0;
const STARTING: u8 = 1;
const RECORDING: u8 = 2;
const OFF: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(UNTOUCHED);
static GUARD: AtomicPtr<Guard> = AtomicPtr::new(ptr::null_mut());
/// The slot of the image that last was alive here: a forked child's parent.
static LAST_SLOT: AtomicU32 = AtomicU32::new(0);
/// The process id of the image, to tell a `vfork` child.
static PROCESS_ID: AtomicU32 = AtomicU32::new(0);
/// The process id of the image that a forked child comes from.
static PARENT_ID: AtomicU32 = AtomicU32::new(0);
/// In this forked child there are states whose thread, the one that forked
/// among them, has not come forward.
static HAS_INHERITED: AtomicBool = AtomicBool::new(false);
/// Every thread state that this process and those it was forked from made.
static THREADS: [AtomicPtr<Thread>; RINGS] = [const { AtomicPtr::new(ptr::null_mut()) }; RINGS];
static THREAD_COUNT: AtomicU32 = AtomicU32::new(0);
/// Calls that could not be recorded since no ring was free, to try seldom.
static REFUSED: AtomicU32 = AtomicU32::new(0);

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

fn arena_at<T>(offset: usize) -> &'static T {
    // SAFETY: only called while recording, when the arena is mapped for good;
    // `layout` gives the offset of a structure of atomics.
    unsafe { arena::table(offset) }
}

/// The control page.
#[inline(always)]
pub fn control() -> &'static Control {
    arena_at(layout::CONTROL_OFFSET)
}

/// The page that both sides write.
pub fn shared() -> &'static Shared {
    arena_at(layout::SHARED_OFFSET)
}

/// Whether a state may yet turn out to be that of the thread that forked.
pub fn has_inherited_states() -> bool {
    HAS_INHERITED.load(Relaxed)
}

/// The part that a fork wipes.
#[inline]
pub fn guard() -> &'static Guard {
    // SAFETY: set before recording begins, mapped for good.
    unsafe { &*GUARD.load(Relaxed) }
}

fn slots() -> &'static [ImageSlot; layout::IMAGES] {
    arena_at(layout::IMAGES_OFFSET)
}

/// All rings, those of other images too.
pub fn rings() -> &'static [RingHeader; RINGS] {
    arena_at(layout::RINGS_OFFSET)
}

/// Whether the image has never had more than one ring.
///
/// There is one order among the events of one ring, so that its thread need
/// not mark the time often. Whoever claims the second ring first says that there
/// is company and then sets the limit of the first to 0, with a fence in
/// between; the first sets its limit and then asks here, likewise. So either it
/// learns here that it has company, or the 0 comes behind its limit: its next
/// event goes the slow way and marks the time. Any event that the program's own
/// synchronisation puts behind the claim sees the 0 (coherence), as one sees
/// the epoch of a window.
pub fn is_single_threaded() -> bool {
    guard().rings_claimed.load(Relaxed) <= 1
}

/// As [`is_single_threaded`], behind the setting of a limit.
pub fn is_still_single_threaded() -> bool {
    fence(SeqCst);
    is_single_threaded()
}

/// When another thread joined the image's first; what that one had recorded
/// until it noticed was recorded before. `None`: it is not known.
pub fn second_thread_tick() -> Option<u64> {
    Some(guard().second_thread_tick.load(Relaxed)).filter(|&tick| tick != 0)
}

/// `thread` has claimed a ring. The lock is held.
fn note_claim(thread: *mut Thread) {
    if guard().rings_claimed.fetch_add(1, Relaxed) != 1 {
        return;
    }
    fence(SeqCst);
    // SAFETY: states are never unmapped; those without a ring here are another
    // image's.
    unsafe {
        for state in threads().filter(|&state| (*state).writer.is_attached()) {
            Thread::limits(state).check_at.store(0, Relaxed);
        }
        // A handler that interrupted the recorder claims within an event of
        // the first ring's: that one would be taken for an earlier one.
        if !(*thread).is_nested {
            fence(SeqCst);
            guard().second_thread_tick.store(arch::tick(), Relaxed);
        }
    }
}

/// The owner of this image's rings.
pub fn owner() -> u32 {
    guard().slot.load(Relaxed) + 1
}

/// The places for diagnostics.
pub fn diagnostics() -> &'static [Diagnostic; layout::DIAGNOSTICS] {
    arena_at(layout::DIAGNOSTICS_OFFSET)
}

/// Whether the arena is mapped and its collector still records.
pub fn has_arena() -> bool {
    arena::is_mapped() && control().stopped.load(Relaxed) == 0
}

/// This image's slot.
pub fn slot() -> &'static ImageSlot {
    &slots()[guard().slot.load(Relaxed) as usize % layout::IMAGES]
}

/// Counts events that could not be recorded.
#[cold]
pub fn lost(reason: LossReason) {
    if is_recording() && guard().alive.load(Relaxed) != 0 {
        slot().lost[reason as usize].fetch_add(1, Relaxed);
    }
}

/// Starts recording if the environment names an arena. `false`: not to be
/// recorded, or not yet.
#[cold]
pub fn start() -> bool {
    if STATE.load(Relaxed) == OFF {
        return false;
    }
    if STATE
        .compare_exchange(UNTOUCHED, STARTING, Acquire, Relaxed)
        .is_err()
    {
        return is_recording();
    }
    let _blocked = SignalsBlocked::new();
    let Some(location) = image::arena_location() else {
        // Not even the environment can be known yet.
        STATE.store(UNTOUCHED, Relaxed);
        return false;
    };
    let guard = match location {
        Some(location) if arena::map(&location) => map_guard(),
        _ => ptr::null_mut(),
    };
    if guard.is_null() {
        turn_off();
        return false;
    }
    GUARD.store(guard, Relaxed);
    if next::address(Function::GlibcVersion) == 0 {
        // Nothing here was ever tried with another C library.
        image::remember_self();
        diagnostics::post(
            system::process_id(),
            NotRecordable::OtherLibc,
            image::executable(),
        );
        turn_off();
        return false;
    }
    if control().stopped.load(Relaxed) != 0 {
        turn_off();
        return false;
    }
    if control().counts_only.load(Relaxed) != 0 && !counts::turn_on() {
        turn_off();
        return false;
    }
    image::remember_self();
    if !begin_image(origin::EXEC, 0) {
        turn_off();
        return false;
    }
    slot().lost[LossReason::TooEarly as usize].fetch_add(early::overflowed(), Relaxed);
    STATE.store(RECORDING, Release);
    loader_tables::begin();
    modules::diagnose_unseen();
    true
}

fn map_guard() -> *mut Guard {
    let memory = system::map_private(size_of::<Guard>());
    if memory.is_null() || !system::advise(memory, size_of::<Guard>(), libc::MADV_WIPEONFORK) {
        return ptr::null_mut();
    }
    memory.cast()
}

/// Claims an image slot for this process.
fn begin_image(how: u32, parent: u32) -> bool {
    let guard = guard();
    let hint = shared().image_hint.fetch_add(1, Relaxed) as usize;
    if hint > 0 && control().no_follow.load(Relaxed) != 0 {
        return false;
    }
    let Some(index) = (0..layout::IMAGES)
        .map(|step| (hint + step) % layout::IMAGES)
        .find(|&index| {
            let state = &slots()[index].state;
            state.load(Relaxed) == layout::image_state::FREE
                && state
                    .compare_exchange(
                        layout::image_state::FREE,
                        layout::image_state::CLAIMED,
                        Acquire,
                        Relaxed,
                    )
                    .is_ok()
        })
    else {
        shared().images_refused.fetch_add(1, Relaxed);
        return false;
    };
    let process_id = system::process_id();
    slots()[index].pid.store(process_id, Relaxed);
    PARENT_ID.store(PROCESS_ID.swap(process_id, Relaxed), Relaxed);
    LAST_SLOT.store(index as u32, Relaxed);
    guard.slot.store(index as u32, Relaxed);
    guard.origin.store(how, Relaxed);
    guard.parent.store(parent, Relaxed);
    guard.announced.store(0, Relaxed);
    guard.alive.store(1, Release);
    true
}

/// Whether this is a forked child that has not set itself up.
#[inline]
pub fn is_forked() -> bool {
    guard().alive.load(Relaxed) == 0
}

/// Sets a forked child up, with `thread` (the forking one, or null) first
/// among the fork points. Signals are blocked and the lock is held.
fn begin_child(thread: *mut Thread) -> bool {
    if control().stopped.load(Relaxed) != 0 {
        turn_off();
        return false;
    }
    let parent = LAST_SLOT.load(Relaxed) + 1;
    image::note_fork_points(thread, threads());
    HAS_INHERITED.store(thread.is_null(), Relaxed);
    for state in threads() {
        // SAFETY: states are never unmapped; their threads do not exist here.
        unsafe {
            (*state).tid.store(0, Relaxed);
            (*state).writer.detach();
            (*state).inherited = thread.is_null();
            if state != thread {
                (*state).busy = 0;
                (*state).idle = 0;
            }
        }
    }
    if !begin_image(origin::FORK, parent) {
        turn_off();
        return false;
    }
    true
}

/// What a thread that finds itself in a forked child does before its event.
#[cold]
pub unsafe fn continue_in_child(thread: *mut Thread) -> bool {
    let _blocked = SignalsBlocked::new();
    let _locked = Lock::take();
    if is_forked() && !begin_child(thread) {
        return false;
    }
    // SAFETY: the state is this thread's; the others' threads do not exist here.
    unsafe {
        if !(*thread).writer.is_attached() {
            for state in threads() {
                (*state).inherited = false;
            }
            HAS_INHERITED.store(false, Relaxed);
            (*thread).nested = ptr::null_mut();
            return give_ring(thread);
        }
    }
    true
}

fn threads() -> impl Iterator<Item = *mut Thread> + Clone {
    let count = (THREAD_COUNT.load(Acquire) as usize).min(RINGS);
    THREADS[..count]
        .iter()
        .map(|state| state.load(Relaxed))
        .filter(|state| !state.is_null())
}

/// The lock in [`Guard`]. Its holder has signals blocked, so that only
/// another running thread can hold it, for a short time.
pub struct Lock(());

/// What [`Guard::lock`] can be.
mod lock_state {
    pub const FREE: u32 = 0;
    pub const HELD: u32 = 1;
    /// Held, and somebody may sleep until it is free.
    pub const AWAITED: u32 = 2;
}

/// Longest sleep for the lock, in milliseconds: whoever frees it wakes one who
/// waits, so this is never waited for.
const LONGEST_WAIT: u64 = 50;

impl Lock {
    /// Takes it.
    pub fn take() -> Self {
        use lock_state::{AWAITED, FREE, HELD};
        let lock = &guard().lock;
        if lock.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            // Taken so, it is woken for once too often at most.
            while lock.swap(AWAITED, Acquire) != FREE {
                system::futex_wait(lock, AWAITED, LONGEST_WAIT);
            }
        }
        Self(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let lock = &guard().lock;
        if lock.swap(lock_state::FREE, Release) == lock_state::AWAITED {
            system::futex_wake_one(lock);
        }
    }
}

/// A state with a ring for this thread: one whose thread is gone, or a new
/// one. Signals are blocked.
#[cold]
pub unsafe fn claim_thread(nested: bool) -> *mut Thread {
    if !is_recording() {
        return ptr::null_mut();
    }
    if REFUSED.load(Relaxed) & 0xff != 0 {
        REFUSED.fetch_add(1, Relaxed);
        lost(LossReason::NoRing);
        return ptr::null_mut();
    }
    let _locked = Lock::take();
    if is_forked() && !begin_child(ptr::null_mut()) {
        return ptr::null_mut();
    }
    // SAFETY: the lock is held.
    let thread = unsafe { take_over_or_create() };
    if thread.is_null() {
        let is_crowded = THREAD_COUNT.load(Relaxed) as usize >= RINGS;
        lost(if is_crowded {
            LossReason::NoRing
        } else {
            LossReason::NoMemory
        });
        return ptr::null_mut();
    }
    // SAFETY: the state is nobody else's now.
    unsafe {
        (*thread).preemption_word = events::preemption_word();
        (*thread).is_nested = nested;
        (*thread).root = thread;
        (*thread).opted_out.store(0, Relaxed);
        (*thread).busy = 0;
        (*thread).idle = 0;
        (*thread).nested = ptr::null_mut();
        if !(*thread).writer.is_attached() {
            if !give_ring_aside(thread) {
                return ptr::null_mut();
            }
        } else {
            if counts::is_on() && !events::counts(thread) {
                return ptr::null_mut();
            }
            (*Thread::fork_local(thread)).unwinder.forget_stack();
            (*thread).tid.store(system::thread_id(), Relaxed);
            let ring = &rings()[(*thread).ring_index as usize % RINGS];
            ring.tid.store(system::thread_id(), Relaxed);
            if !events::announce_thread(thread) {
                return ptr::null_mut();
            }
        }
    }
    thread
}

unsafe fn take_over_or_create() -> *mut Thread {
    // With many living threads, looking at all of them for every new one
    // would be quadratic: look at some, beginning elsewhere each time.
    const LOOK_AT: usize = 32;
    static BEGIN: AtomicU32 = AtomicU32::new(0);
    let count = (THREAD_COUNT.load(Relaxed) as usize).min(RINGS);
    let begin = BEGIN.fetch_add(LOOK_AT as u32, Relaxed) as usize;
    for step in 0..count.min(LOOK_AT) {
        let state = THREADS[(begin + step) % count].load(Relaxed);
        if thread::is_abandoned(state) {
            return state;
        }
    }
    if count == RINGS {
        return ptr::null_mut();
    }
    let state = thread::create();
    if !state.is_null() {
        THREADS[count].store(state, Relaxed);
        THREAD_COUNT.store(count as u32 + 1, Release);
    }
    state
}

/// As [`give_ring`], on the second stack of the state, which nobody uses yet:
/// a thread's first event may come in a handler on a small stack.
unsafe fn give_ring_aside(thread: *mut Thread) -> bool {
    struct Gift {
        thread: *mut Thread,
        given: bool,
    }
    unsafe extern "C" fn give(gift: *mut c_void) {
        // SAFETY: the caller's own; it holds the lock.
        unsafe {
            let gift = &mut *gift.cast::<Gift>();
            gift.given = give_ring(gift.thread);
        }
    }
    let mut gift = Gift {
        thread,
        given: false,
    };
    // SAFETY: signals are blocked, so that no hook of this state is at work
    // there.
    unsafe {
        stack_switch::call_on_stack((&raw mut gift).cast(), give, Thread::stack_top(thread));
    }
    gift.given
}

/// Claims a ring for `thread`, announces the image if that has not happened,
/// and the thread. The lock is held and signals are blocked.
unsafe fn give_ring(thread: *mut Thread) -> bool {
    let index = match arena::claim_ring(owner()) {
        Ok(index) => index,
        Err(arena::Refusal::NoRing) => {
            REFUSED.fetch_add(1, Relaxed);
            lost(LossReason::NoRing);
            return false;
        }
        Err(arena::Refusal::NoMemory) => {
            lost(LossReason::NoMemory);
            return false;
        }
    };
    let rings = rings();
    REFUSED.store(0, Relaxed);
    let ring = &rings[index];
    let tid = system::thread_id();
    ring.tid.store(tid, Relaxed);
    ring.claims.fetch_add(1, Relaxed);
    let Some(parts) = arena::ring(index) else {
        lost(LossReason::NoMemory);
        return false;
    };
    if counts::is_on() && !arena::reserve_counters(index) {
        lost(LossReason::NoMemory);
        return false;
    }
    // SAFETY: the state is this thread's alone; the ring belongs to the ring.
    unsafe {
        let fork_local = Thread::fork_local(thread);
        (*thread).ring_index = index as u32;
        (*thread).writer.attach(parts, &(*fork_local).limits);
        let position = (*thread).writer.position();
        (*thread).doorbell_position = position;
        (*thread).was_single_threaded = false;
        let depth_limit = control().depth_limit.load(Relaxed);
        (*thread).depth_limit = depth_limit.clamp(1, allotrope_unwind::DEPTH as u32);
        (*thread).measured_position = position;
        (*thread).events = 0;
        (*thread).next_id = 0;
        (*thread).last_state = 0;
        (*thread).stream_epoch = 0;
        (*thread).tid.store(tid, Relaxed);
        events::begin_ids(thread);
        note_claim(thread);
        if guard().announced.load(Relaxed) == 0 {
            let origin = guard().origin.load(Relaxed);
            let parent = guard().parent.load(Relaxed);
            if !image::announce(thread, origin, parent, slot()) {
                return false;
            }
            guard().announced.store(1, Relaxed);
        }
        events::announce_thread(thread)
    }
}
