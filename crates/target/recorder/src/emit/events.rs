//! Writes a thread's events to its ring, and the timestamps among them.
//!
//! The protocol of the ring is [`allotrope_shm::ring`]'s, the form of events
//! [`allotrope_shm::wire`]'s. This file writes what it is passed and decides what a full
//! ring means; whether there may be an event at all is decided before, in
//! `lifecycle::ready`.

use core::ops::Deref;
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, compiler_fence};

use allotrope_shm::layout::{self, COUNTED_ENTRIES, OWNER_DIED, RING_WORDS, RingHeader};
use allotrope_shm::numbers::{EntryPoint, LossReason};
use allotrope_shm::ring::{ArenaRing, Host, Refusal, Reserved};
use allotrope_shm::wire::{self, Encode, LONG_SIZE};

use crate::emit::counts;
use crate::state::arena;
use crate::state::epoch;
use crate::state::process;
use crate::state::thread::{OwnThread, Thread};
use crate::sys::arch;
use crate::sys::arch::preemption;
use crate::sys::system;

/// Largest number of words between two timestamps: 64 to 128 events.
pub const TIMESTAMP_WORDS: u64 = 128;
/// Largest number of ticks between two timestamps, if more than one event fits between them: one or
/// two microseconds. A thread with few events writes a timestamp with each, so that they can be
/// ordered exactly against other threads' events; for a busy thread reading the clock costs more
/// than an event, so it does so seldom.
const TIMESTAMP_TICKS: u64 = 4000;
/// Same as [`TIMESTAMP_WORDS`], in an image that has only ever had one ring. There is
/// nothing to order then; timestamps only give the time, and readers spread the
/// events between two of them evenly.
const SINGLE_THREADED_TIMESTAMP_WORDS: u64 = 1024;
/// Same as [`TIMESTAMP_TICKS`], in an image that has only ever had one ring: 25 microseconds.
const SINGLE_THREADED_TIMESTAMP_TICKS: u64 = 64_000;
/// Words after which the collector is woken if it sleeps.
pub const DOORBELL_WORDS: u64 = RING_WORDS as u64 / 4;
/// Longest sleep for space, in milliseconds. Then the thread checks whether the
/// collector is still there.
const SPACE_TIMEOUT: u64 = 100;
/// Longest sleep of a wait that has a deadline, in milliseconds.
const SHORT_TIMEOUT: u64 = 5;

/// The words that the most detailed `Counts` event takes.
const _: () = assert!(1 + 2 * COUNTED_ENTRIES * wire::COUNTS_WORDS < layout::MAX_EVENT_WORDS);

/// The calling thread's ring, with space for the event at hand: what [`reserve`] and
/// `lifecycle::ready` return. Nothing is written without one.
#[derive(Clone, Copy)]
pub struct Space(OwnThread);

impl Space {
    /// Returns the space that the caller has reserved. That enough of it is left is a matter of
    /// correctness, not of safety: what is written too much overwrites events that the collector
    /// has not read.
    ///
    /// # Safety
    /// The thread has a ring.
    #[inline(always)]
    pub unsafe fn new(thread: OwnThread) -> Self {
        Self(thread)
    }

    /// Writes an event of a fixed length.
    #[inline(always)]
    pub fn write<const WORDS: usize>(self, words: [u64; WORDS]) {
        // SAFETY: the thread has a ring, see `new`.
        unsafe { self.writer.write(words) };
    }

    /// Writes an event that has an ordinal in its stream, as all have that are about
    /// a block.
    #[inline(always)]
    fn write_counted<const WORDS: usize>(self, words: [u64; WORDS]) {
        let events = self.events.load(Relaxed);
        self.events.store(events + 1, Relaxed);
        self.write(words);
    }
}

impl Deref for Space {
    type Target = OwnThread;

    #[inline(always)]
    fn deref(&self) -> &OwnThread {
        &self.0
    }
}

/// Writes a long event. `false`: there is no space for it.
pub fn write_long(thread: OwnThread, event: &impl Encode) -> bool {
    let space = reserve(thread, event.most_words() as u64);
    if let Some(space) = space {
        // SAFETY: the thread has a ring, see `Space::new`.
        unsafe { space.writer.write_long(event) };
    }
    space.is_some()
}

/// The word in which the calling thread finds that a timestamp is due: its own,
/// which the kernel clears when it preempts the thread (see [`preemption`]), or,
/// where there is none, the coarse clock.
pub fn preemption_word() -> *const AtomicU64 {
    preemption::word().unwrap_or(&process::control().clock)
}

/// The preemption word and the epoch, combined so that one comparison finds a
/// change of either: the epoch has no bits in the lower half, and no two values
/// of the preemption word are equal there.
#[inline(always)]
pub fn current_state(thread: OwnThread) -> u64 {
    thread.preemption_word().load(Relaxed) ^ epoch::word()
}

/// Value of [`Thread::last_state`] with which the next event writes a timestamp:
/// no epoch is this large.
///
/// [`Thread::last_state`]: crate::state::thread::Thread::last_state
pub const STATE_UNKNOWN: u64 = u64::MAX;

/// `Allocation`.
#[inline(always)]
pub fn allocation(
    space: Space,
    entry: EntryPoint,
    block: u64,
    size: u64,
    alignment_log2: u8,
    stack: u32,
) {
    let entry = entry as u8;
    if size < LONG_SIZE && alignment_log2 == 0 {
        space.write_counted(wire::allocation(entry, block, size, stack));
    } else {
        let words = wire::allocation_long(entry, block, size, stack, alignment_log2);
        space.write_counted(words);
    }
}

/// `ReallocationEnd`.
pub fn reallocation_end(space: Space, entry: EntryPoint, block: u64, size: u64, stack: u32) {
    let entry = entry as u8;
    if size < LONG_SIZE {
        space.write_counted(wire::reallocation_end(entry, block, size, stack));
    } else {
        space.write_counted(wire::reallocation_end_long(entry, block, size, stack));
    }
}

/// `Deallocation`, or one of the `Reallocation…` events of one word.
#[inline(always)]
pub fn block_event(space: Space, kind: u8, entry: EntryPoint, block: u64) {
    space.write_counted(wire::block_event(kind, entry as u8, block));
}

/// [`block_event`] with the stack of the call; `kind` is that of an event without.
#[inline(always)]
pub fn block_event_at(space: Space, kind: u8, entry: EntryPoint, block: u64, stack: u32) {
    let kind = match kind {
        wire::kind::REALLOCATION_START => wire::kind::REALLOCATION_START_AT,
        _ => wire::kind::DEALLOCATION_AT,
    };
    space.write_counted(wire::block_event_at(kind, entry as u8, block, stack));
}

/// `Counts`: the ring's counters as its last thread left them.
pub fn counts(thread: OwnThread) -> bool {
    let Some(counters) = arena::counters(thread.ring_index.load(Relaxed)) else {
        return false;
    };
    let sums = counters.all().map(counts::sums).enumerate();
    write_long(thread, &wire::Counts(sums))
}

/// `Thread`: the events that follow in this ring are this thread's.
pub fn announce_thread(thread: OwnThread) -> bool {
    let Some(space) = reserve(thread, 2) else {
        count_lost(thread);
        return false;
    };
    if thread.was_single_threaded.load(Relaxed) && !process::claims().is_single() {
        write_second_thread_timestamp(space);
    }
    let nested = thread.is_nested.load(Relaxed);
    space.write(wire::thread(system::thread_id(), arch::tick(), nested));
    thread.limits().check_at.store(0, Relaxed);
    true
}

/// Writes a timestamp, with the epoch if that is not the stream's last one.
///
/// A signal handler may interrupt this and jump away, or opt out of windows and
/// return: `last_state` is unknown until all is written, and unless it is still
/// true then, the next event writes another timestamp.
#[cold]
pub fn write_timestamp(space: Space) {
    let thread = &*space;
    let clock_word = &process::control().clock;
    let preemption_word = thread.preemption_word();
    let uses_clock = ptr::eq(preemption_word, clock_word);
    let before = thread.last_state.load(Relaxed);
    thread.last_state.store(STATE_UNKNOWN, Relaxed);
    compiler_fence(SeqCst);
    let epoch = epoch::word();
    let word = if uses_clock {
        clock_word.load(Relaxed)
    } else {
        preemption_word.store(preemption::unbroken(), Relaxed);
        compiler_fence(SeqCst);
        preemption::unbroken()
    };
    let opted_out = thread.is_opted_out();
    let tick = arch::tick();
    thread.timestamp_tick.store(tick, Relaxed);
    let stream_epoch = (epoch >> 32) << 1 | u64::from(opted_out);
    if stream_epoch == thread.stream_epoch.load(Relaxed) {
        // The coarse clock with the events before this; 0: unknown.
        let clock = if before == STATE_UNKNOWN || !uses_clock {
            0
        } else {
            before as u32
        };
        space.write(wire::timestamp(tick, clock));
    } else {
        space.write(wire::epoch(tick, epoch >> 32, opted_out));
        thread.stream_epoch.store(stream_epoch, Relaxed);
    }
    compiler_fence(SeqCst);
    thread.last_state.store(word ^ epoch, Relaxed);
    compiler_fence(SeqCst);
    if thread.is_opted_out() != opted_out {
        thread.last_state.store(STATE_UNKNOWN, Relaxed);
    }
}

/// Writes when the image's second thread began, if this one has written few
/// timestamps until now: all that precedes in the stream was recorded before.
#[cold]
pub fn write_second_thread_timestamp(space: Space) {
    space.was_single_threaded.store(false, Relaxed);
    if let Some(tick) = process::second_thread_tick()
        && tick > space.timestamp_tick.load(Relaxed)
    {
        space.timestamp_tick.store(tick, Relaxed);
        space.write(wire::timestamp(tick, 0));
    }
}

/// How many words may follow the timestamp that was just written at `position`,
/// estimated from the time that the last ones took. The number at most doubles,
/// for a thread that was idle may have become busy. A thread with less than an
/// event in `TIMESTAMP_TICKS` gets a timestamp with each, single-threaded or not.
pub fn words_to_next_timestamp(thread: &Thread, position: u64, is_single_threaded: bool) -> u64 {
    const EVENT_WORDS: u64 = 2;
    let now = thread.writer.position();
    let tick = thread.timestamp_tick.load(Relaxed);
    let ticks = tick.wrapping_sub(thread.measured_tick.load(Relaxed));
    let measured = thread.measured_position.load(Relaxed);
    let words = position.saturating_sub(measured).max(1);
    thread.measured_tick.store(tick, Relaxed);
    thread.measured_position.store(now, Relaxed);
    let words_in = |ticks_to_pass| words.saturating_mul(ticks_to_pass) / ticks.max(1);
    let (in_time, most) = match words_in(TIMESTAMP_TICKS) {
        busy if is_single_threaded && busy >= EVENT_WORDS => {
            // There is space for `TIMESTAMP_WORDS`, and perhaps for more.
            let space = thread.limits().space(now);
            let most = space.clamp(TIMESTAMP_WORDS, SINGLE_THREADED_TIMESTAMP_WORDS);
            (words_in(SINGLE_THREADED_TIMESTAMP_TICKS), most)
        }
        otherwise => (otherwise, TIMESTAMP_WORDS),
    };
    in_time.min(words * 2).clamp(1, most)
}

/// Reserves space for `words` and a margin; waits for it if that is the policy
/// ([`layout::OnFull`]).
#[inline(always)]
pub fn reserve(thread: OwnThread, words: u64) -> Option<Space> {
    reserve_or(thread, words, || {
        process::control().on_full.load(Relaxed) == 0
    })
}

/// Same as [`reserve`], for what must not be dropped: waits whatever the policy.
pub fn reserve_must_succeed(thread: OwnThread, words: u64) -> Option<Space> {
    reserve_or(thread, words, || true)
}

#[inline(always)]
fn reserve_or(thread: OwnThread, words: u64, waits: impl FnOnce() -> bool) -> Option<Space> {
    let has_space = thread.writer.has_space(thread.limits(), words);
    if has_space || reserve_slow(thread, words, waits()) {
        // SAFETY: a thread without a ring has no space, and `reserve_slow` refuses it.
        return Some(unsafe { Space::new(thread) });
    }
    None
}

#[cold]
fn reserve_slow(thread: OwnThread, words: u64, waits: bool) -> bool {
    const WAITED_WORDS: u64 = 1;
    if process::control().stopped.load(Relaxed) != 0 || collector_is_gone() {
        process::turn_off();
        return false;
    }
    if process::is_forked() {
        return false;
    }
    let (writer, limits) = (&thread.writer, thread.limits());
    let (doorbell, host) = (&process::shared().doorbell, host(&thread));
    let loss_reason = &thread.fork_local().loss_reason;
    let since = arch::tick();
    match writer.reserve_slow(limits, words + WAITED_WORDS, waits, doorbell, &host) {
        Ok(Reserved::AtOnce) => return true,
        Ok(Reserved::AfterWaiting) => {
            let ticks = arch::tick().saturating_sub(since);
            // SAFETY: space was reserved in a ring.
            unsafe { Space::new(thread) }.write(wire::waited(ticks));
            return true;
        }
        Err(Refusal::Full) => loss_reason.set(LossReason::RingFull),
        Err(Refusal::NoMemory) => loss_reason.set(LossReason::NoMemory),
        Err(Refusal::NotCollected) if writer.is_attached() => process::turn_off(),
        Err(Refusal::NotCollected) => {}
    }
    false
}

/// Counts one lost event, by the reason of the last refusal to reserve space.
#[cold]
pub fn count_lost(thread: OwnThread) {
    process::lost(thread.fork_local().loss_reason.get());
}

/// Waits until the collector has read everything that this thread wrote, and has
/// done what those events ask for. `false`: it is gone, or records no more.
pub fn wait_until_read(thread: OwnThread) -> bool {
    let doorbell = &process::shared().doorbell;
    thread.writer.wait_until_read(doorbell, &host(&thread))
}

/// Longest wait for the collector to open the files of new modules, in milliseconds.
const OPENING_TIMEOUT: u64 = 50;

/// The collector may not have read which modules are mapped.
static HAS_UNREAD_MODULES: AtomicBool = AtomicBool::new(false);

/// Waits until the collector has read everything that this thread wrote, new modules among
/// it, and has opened their files; at most [`OPENING_TIMEOUT`].
pub fn wait_until_reported(thread: OwnThread) {
    let doorbell = &process::shared().doorbell;
    let host = RecorderHost {
        deadline: Some(system::milliseconds() + OPENING_TIMEOUT),
        ..host(&thread)
    };
    let is_read = thread.writer.wait_until_read(doorbell, &host);
    HAS_UNREAD_MODULES.store(!is_read, Relaxed);
}

/// The collector has not acknowledged the image, whose first events are its modules.
pub fn note_unread_modules() {
    HAS_UNREAD_MODULES.store(true, Relaxed);
}

/// Gives the collector time, at the end of the process, to open the files of all modules if
/// it may not have done so, because nobody else can open them afterwards.
pub fn wait_for_modules(thread: OwnThread) {
    if HAS_UNREAD_MODULES.load(Relaxed) && !collector_is_gone() {
        wait_until_reported(thread);
    }
}

/// What the ring needs from this process.
struct RecorderHost {
    header: &'static RingHeader,
    /// When to wait no longer, in milliseconds of the monotonic clock.
    deadline: Option<u64>,
}

impl RecorderHost {
    fn is_over(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| system::milliseconds() >= deadline)
    }
}

fn host(thread: &Thread) -> RecorderHost {
    let index = thread.ring_index.load(Relaxed) as usize;
    RecorderHost {
        header: &process::rings()[index % layout::RINGS],
        deadline: None,
    }
}

impl Host<ArenaRing> for RecorderHost {
    /// If another program of the recording writes to the tables, the collector may
    /// take the image for ended, or the ring for free.
    fn is_collected(&self) -> bool {
        process::control().stopped.load(Relaxed) == 0
            && !collector_is_gone()
            && self.header.owner.load(Relaxed) == process::owner()
            && process::slot().state.load(Relaxed) != layout::image_state::FREE
            && !self.is_over()
    }

    fn futex_wait(&self, word: &AtomicU32, expected: u32) {
        let timeout = match self.deadline {
            None => SPACE_TIMEOUT,
            Some(_) => SHORT_TIMEOUT,
        };
        system::futex_wait(word, expected, timeout);
    }

    fn futex_wake(&self, word: &AtomicU32) {
        system::futex_wake(word);
    }

    fn commit(&self, slots: &[AtomicU64]) -> bool {
        let address = slots.as_ptr().cast_mut().cast::<u8>();
        system::populate(address, size_of_val(slots))
    }
}

/// Whether nobody reads what is written.
pub fn collector_is_gone() -> bool {
    let alive = process::control().collector_alive.load(Relaxed);
    alive == 0 || alive & OWNER_DIED != 0
}

/// Wakes the collector if it sleeps.
pub fn ring_doorbell() {
    process::shared().doorbell.ring(system::futex_wake);
}
