//! What a recording does with a call: the modes, each of them one table.
//!
//! A mode is chosen once, when the recording of an image starts, and forked children
//! keep it. [`Mode`] holds what differs; everything else asks [`current`] and knows no
//! mode by name. To add one means to add an entry to [`MODES`] with the file that its
//! functions are in, and, if its calls of `malloc`, `calloc` and `free` have a way of
//! their own, stubs in `hooks::x86_64` and a jump to them (see `state::stubs`).
//!
//! [`WATCH`] is the mode of a process that is watched, without a collector.
//!
//! A hook first asks `lifecycle::ready` for space to write an event. Where there is
//! none, because the mode writes none or because it is not the time, the hook passes the
//! call to [`Mode::count`].

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use allotrope_shm::layout::Control;
use allotrope_shm::numbers::EntryPoint;

use crate::emit::counts::{self, Call, UpToNow};
use crate::emit::events;
use crate::state::live_blocks;
use crate::state::named;
use crate::state::sampling;
use crate::state::stubs;
use crate::state::thread::{OwnThread, Thread};
use crate::sys::arch::thread_slot;
use crate::sys::next;

/// What differs between modes.
pub struct Mode {
    /// What `allotrope_recording` returns.
    pub recording: u32,
    /// Whether calls are written as events.
    pub writes_events: bool,
    /// Commits what a ring needs beside its slots, when the ring is claimed. `false`:
    /// there is no memory.
    pub commit: fn(ring: usize) -> bool,
    /// The thread has taken over the ring of one that has ended, for which this writes
    /// the last event. `false`: it could not.
    pub take_over: fn(OwnThread) -> bool,
    /// See [`attach`].
    attach: fn(&'static Thread),
    /// Whether calls without an event are counted for this thread.
    pub is_counting: fn(&Thread) -> bool,
    /// Counts a call without an event.
    pub count: fn(&'static Thread, EntryPoint, Call),
    /// What was counted up to now, for the end of a window.
    pub up_to_now: fn(&'static Thread) -> Option<UpToNow>,
    /// A number that changes whenever the ring's thread makes a call without an event.
    pub activity: fn(ring: u32) -> u64,
}

/// The index of [`RECORD`].
const RECORD_NUMBER: u8 = 0;

/// The index of [`COUNT`].
const COUNT_NUMBER: u8 = 1;

/// The index of [`RECORD_FREES`].
const RECORD_FREES_NUMBER: u8 = 2;

/// The index of [`WATCH`].
const WATCH_NUMBER: u8 = 3;

/// The modes, by their numbers.
static MODES: [Mode; 4] = [RECORD, COUNT, RECORD_FREES, WATCH];

/// Every call is an event with its stack.
const RECORD: Mode = Mode {
    recording: 1,
    writes_events: true,
    commit: |_| true,
    take_over: |_| true,
    attach: |_| (),
    is_counting: |_| false,
    count: |_, _, _| (),
    up_to_now: |_| None,
    activity: |_| 0,
};

/// Mode like [`RECORD`], but the event of a deallocation has its stack, too. Calls of `free` take
/// another stub, so that those of [`RECORD`] need not ask; the other hooks ask
/// [`records_free_stacks`].
const RECORD_FREES: Mode = RECORD;

/// Calls are counted in shared memory, see [`counts`].
const COUNT: Mode = Mode {
    recording: 2,
    writes_events: false,
    commit: counts::commit,
    take_over: events::counts,
    attach: counts::attach,
    is_counting: counts::is_ready,
    count: counts::count,
    up_to_now: |thread| Some(UpToNow::of(thread)),
    activity: counts::activity_of,
};

/// Some allocations are sampled, into the process's own memory (`state::watched`). There is no
/// recording: what asks for one finds none.
const WATCH: Mode = Mode {
    recording: 0,
    writes_events: false,
    commit: |_| false,
    take_over: |_| true,
    attach: sampling::attach,
    is_counting: |_| false,
    count: |_, _, _| (),
    up_to_now: |_| None,
    activity: |_| 0,
};

/// The index of this image's mode.
static CURRENT: AtomicU8 = AtomicU8::new(RECORD_NUMBER);

/// This image's mode.
#[inline]
pub fn current() -> &'static Mode {
    let number = usize::from(CURRENT.load(Relaxed));
    MODES.get(number).unwrap_or(&MODES[0])
}

/// Chooses the mode by the collector's settings. `false` if it cannot work here.
pub fn choose(control: &Control) -> bool {
    let number = if control.counts_only.load(Relaxed) != 0 {
        COUNT_NUMBER
    } else if control.free_stacks.load(Relaxed) != 0 {
        stubs::select_free(stubs::OTHER);
        RECORD_FREES_NUMBER
    } else {
        if named::is_active() {
            // The deallocation of a block may have to be left out: not on the way of all programs.
            stubs::select_free(stubs::OTHER);
        }
        RECORD_NUMBER
    };
    CURRENT.store(number, Relaxed);
    if control.reachability.load(Relaxed) != 0 && current().writes_events {
        live_blocks::begin();
        // Every call is a rare one: to track blocks must not cost anything where it is not wanted.
        stubs::select(stubs::OTHER);
    }
    current().writes_events || stubs::wipe_on_fork()
}

/// Chooses the mode in which allocations are sampled. The stubs stay chosen in forked
/// children.
///
/// From here on the bump area gives out no block, as the next allocator is known. If it has
/// given one out before, which is rare, every call of `free` comes to a hook, which
/// recognises such blocks.
pub fn choose_watching() {
    CURRENT.store(WATCH_NUMBER, Relaxed);
    stubs::select(stubs::SAMPLING);
    if next::is_bump_used() {
        stubs::select_free(stubs::ANY_TIME);
    }
}

/// Whether allocations are sampled, and nothing is recorded.
#[inline(always)]
pub fn is_watching() -> bool {
    CURRENT.load(Relaxed) == WATCH_NUMBER
}

/// Whether the event of a deallocation has its stack.
#[inline(always)]
pub fn records_free_stacks() -> bool {
    CURRENT.load(Relaxed) == RECORD_FREES_NUMBER
}

/// The thread's calls of `malloc`, `calloc` and `free` may from now on take a shorter way
/// than through the hooks. Called when a state is ready for events that the mode does
/// not write, and at the end of a call of the allocator.
#[inline(always)]
pub fn attach(thread: &'static Thread) {
    // Every call of a mode that writes events comes to the hooks, some of them often.
    if CURRENT.load(Relaxed) != RECORD_NUMBER {
        (current().attach)(thread);
    }
}

/// The thread's calls of `malloc`, `calloc` and `free` are all to come to the hooks,
/// until [`attach`]: what the allocator does in its own call is not counted.
#[inline(always)]
pub fn detach(thread: &Thread) {
    thread_slot::set_counters(core::ptr::null());
    if is_watching() {
        sampling::detach(thread);
    }
}
