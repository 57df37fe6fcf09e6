//! Writes a thread's events to its ring, and the timestamps among them.
//!
//! The protocol of the ring is [`allotrope_shm::ring`]'s, the form of events
//! [`allotrope_shm::wire`]'s. This file writes what it is given and decides what a full
//! ring means; whether there may be an event at all is decided before, in
//! `lifecycle::ready`.

use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64, compiler_fence};

use allotrope_shm::layout::{self, COUNTED_ENTRIES, OWNER_DIED, RING_WORDS, RingHeader};
use allotrope_shm::numbers::LossReason;
use allotrope_shm::ring::{ArenaRing, Host, Refusal, Reserved};
use allotrope_shm::wire::{self, Encode, LONG_SIZE, Node};

use crate::emit::counts;
use crate::state::arena;
use crate::state::epoch;
use crate::state::process;
use crate::state::thread::Thread;
use crate::sys::arch;
use crate::sys::arch::preemption;
use crate::sys::system;

/// Most words between two timestamps: 64 to 128 events.
pub const TIMESTAMP_WORDS: u64 = 128;
/// Most ticks between two timestamps, if more than one event fits between them:
/// one or two microseconds. A thread with few events writes a timestamp with
/// each, so that they can be ordered exactly against other threads' events; for
/// a busy thread reading the clock costs more than an event, so it does so
/// seldom.
const TIMESTAMP_TICKS: u64 = 4000;
/// As [`TIMESTAMP_WORDS`], in an image that has only ever had one ring. There is
/// nothing to order then; timestamps only give the time, and readers spread the
/// events between two of them evenly.
const SINGLE_THREADED_TIMESTAMP_WORDS: u64 = 1024;
/// As [`TIMESTAMP_TICKS`], in such an image: 25 microseconds.
const SINGLE_THREADED_TIMESTAMP_TICKS: u64 = 64_000;
/// Words after which the collector is woken if it sleeps.
pub const DOORBELL_WORDS: u64 = RING_WORDS as u64 / 4;
/// Longest sleep for space, in milliseconds. Then the thread checks whether the
/// collector is still there.
const SPACE_TIMEOUT: u64 = 100;

/// The words that the most detailed `Counts` event takes.
const _: () = assert!(1 + 2 * COUNTED_ENTRIES * wire::COUNTS_WORDS < layout::MAX_EVENT_WORDS);

/// Writes an event of a fixed length. The caller reserved space for it.
#[inline(always)]
pub unsafe fn write<const WORDS: usize>(thread: *mut Thread, words: [u64; WORDS]) {
    // SAFETY: the thread's own state; space is only reserved in a ring that is
    // attached.
    unsafe { (*thread).writer.write(words) };
}

/// Writes a long event. `false`: there is no space for it.
pub unsafe fn write_long(thread: *mut Thread, event: &impl Encode) -> bool {
    // SAFETY: the thread's own state; as above.
    unsafe {
        let is_reserved = reserve(thread, event.most_words() as u64);
        if is_reserved {
            (*thread).writer.write_long(event);
        }
        is_reserved
    }
}

/// Writes an event that has an ordinal in its stream, as all have that are about
/// a block. `lifecycle::ready` left space for it.
#[inline(always)]
unsafe fn write_counted<const WORDS: usize>(thread: *mut Thread, words: [u64; WORDS]) {
    // SAFETY: the thread's own state.
    unsafe {
        (*thread).events += 1;
        write(thread, words);
    }
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
pub unsafe fn current_state(thread: *mut Thread) -> u64 {
    // SAFETY: the thread's own word or the collector's, both of which live as
    // long as the thread.
    unsafe { (*(*thread).preemption_word).load(Relaxed) ^ epoch::word() }
}

/// Value of [`Thread::last_state`] with which the next event writes a timestamp:
/// no epoch is this large.
pub const STATE_UNKNOWN: u64 = u64::MAX;

/// `Allocation`. `lifecycle::ready` left space for it.
#[inline(always)]
pub unsafe fn allocation(
    thread: *mut Thread,
    entry: u8,
    block: u64,
    size: u64,
    alignment_log2: u8,
    stack: u32,
) {
    // SAFETY: the thread's own state.
    unsafe {
        if size < LONG_SIZE && alignment_log2 == 0 {
            write_counted(thread, wire::allocation(entry, block, size, stack));
        } else {
            let words = wire::allocation_long(entry, block, size, stack, alignment_log2);
            write_counted(thread, words);
        }
    }
}

/// `ReallocationEnd`. `lifecycle::ready` left space for it.
pub unsafe fn reallocation_end(thread: *mut Thread, entry: u8, block: u64, size: u64, stack: u32) {
    // SAFETY: the thread's own state.
    unsafe {
        if size < LONG_SIZE {
            write_counted(thread, wire::reallocation_end(entry, block, size, stack));
        } else {
            let words = wire::reallocation_end_long(entry, block, size, stack);
            write_counted(thread, words);
        }
    }
}

/// `Deallocation`, or one of the `Reallocation…` events of one word. `lifecycle::ready`
/// left space for it.
#[inline(always)]
pub unsafe fn block_event(thread: *mut Thread, kind: u8, entry: u8, block: u64) {
    // SAFETY: the thread's own state.
    unsafe { write_counted(thread, wire::block_event(kind, entry, block)) };
}

/// `Counts`: the ring's counters as its last thread left them.
pub unsafe fn counts(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state and ring.
    unsafe {
        let Some(counters) = arena::counters((*thread).ring_index) else {
            return false;
        };
        let sums = counters.all().map(counts::sums).enumerate();
        write_long(thread, &wire::Counts(sums))
    }
}

/// `Node`: defines a stack id. The caller reserved space for it.
#[inline(always)]
pub unsafe fn node(thread: *mut Thread, node: Node) {
    // SAFETY: the thread's own state.
    unsafe { write(thread, wire::node(node)) };
}

/// `Thread`: the events that follow in this ring are this thread's.
pub unsafe fn announce_thread(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        if !reserve(thread, 2) {
            count_lost(thread);
            return false;
        }
        if (*thread).was_single_threaded && !process::claims().is_single() {
            write_second_thread_timestamp(thread);
        }
        let (tid, nested) = (system::thread_id(), (*thread).is_nested);
        write(thread, wire::thread(tid, arch::tick(), nested));
        Thread::limits(thread).check_at.store(0, Relaxed);
        true
    }
}

/// Writes a timestamp, with the epoch if that is not the stream's last one.
///
/// A signal handler may interrupt this and jump away, or opt out of windows and
/// return: `last_state` is unknown until all is written, and unless it is still
/// true then, the next event writes another timestamp.
#[cold]
pub unsafe fn write_timestamp(thread: *mut Thread) {
    // SAFETY: the ring's margin takes these words; the preemption word that is
    // written is the thread's own.
    unsafe {
        let clock_word = &raw const process::control().clock;
        let uses_clock = ptr::eq((*thread).preemption_word, clock_word);
        let before = (*thread).last_state;
        (&raw mut (*thread).last_state).write_volatile(STATE_UNKNOWN);
        let epoch = epoch::word();
        let word = if uses_clock {
            (*clock_word).load(Relaxed)
        } else {
            (*(*thread).preemption_word).store(preemption::unbroken(), Relaxed);
            compiler_fence(SeqCst);
            preemption::unbroken()
        };
        let opted_out = Thread::is_opted_out(thread);
        let tick = arch::tick();
        (*thread).timestamp_tick = tick;
        let stream_epoch = (epoch >> 32) << 1 | u64::from(opted_out);
        if stream_epoch == (*thread).stream_epoch {
            // The coarse clock with the events before this; 0: unknown.
            let clock = if before == STATE_UNKNOWN || !uses_clock {
                0
            } else {
                before as u32
            };
            write(thread, wire::timestamp(tick, clock));
        } else {
            write(thread, wire::epoch(tick, epoch >> 32, opted_out));
            (*thread).stream_epoch = stream_epoch;
        }
        (&raw mut (*thread).last_state).write_volatile(word ^ epoch);
        if Thread::is_opted_out(thread) != opted_out {
            (&raw mut (*thread).last_state).write_volatile(STATE_UNKNOWN);
        }
    }
}

/// Writes when the image's second thread began, if this one has written few
/// timestamps until now: all that precedes in the stream was recorded before.
#[cold]
pub unsafe fn write_second_thread_timestamp(thread: *mut Thread) {
    // SAFETY: the thread's own state; the ring's margin takes these words.
    unsafe {
        (*thread).was_single_threaded = false;
        if let Some(tick) = process::second_thread_tick()
            && tick > (*thread).timestamp_tick
        {
            (*thread).timestamp_tick = tick;
            write(thread, wire::timestamp(tick, 0));
        }
    }
}

/// How many words may follow the timestamp that was just written at `position`,
/// estimated from the time that the last ones took. The number at most doubles,
/// for a thread that was idle may have become busy. A thread with less than an
/// event in `TIMESTAMP_TICKS` gets a timestamp with each, single-threaded or not.
pub unsafe fn words_to_next_timestamp(
    thread: *mut Thread,
    position: u64,
    is_single_threaded: bool,
) -> u64 {
    const EVENT_WORDS: u64 = 2;
    // SAFETY: the thread's own state.
    unsafe {
        let now = (*thread).writer.position();
        let ticks = (*thread)
            .timestamp_tick
            .wrapping_sub((*thread).measured_tick);
        let words = position.saturating_sub((*thread).measured_position).max(1);
        (*thread).measured_tick = (*thread).timestamp_tick;
        (*thread).measured_position = now;
        let words_in = |ticks_to_pass| words.saturating_mul(ticks_to_pass) / ticks.max(1);
        let (in_time, most) = match words_in(TIMESTAMP_TICKS) {
            busy if is_single_threaded && busy >= EVENT_WORDS => {
                // There is space for `TIMESTAMP_WORDS`, and perhaps for more.
                let space = Thread::limits(thread).space(now);
                let most = space.clamp(TIMESTAMP_WORDS, SINGLE_THREADED_TIMESTAMP_WORDS);
                (words_in(SINGLE_THREADED_TIMESTAMP_TICKS), most)
            }
            otherwise => (otherwise, TIMESTAMP_WORDS),
        };
        in_time.min(words * 2).clamp(1, most)
    }
}

/// Reserves space for `words` and a margin; waits for it if that is the policy
/// ([`layout::OnFull`]).
#[inline(always)]
pub unsafe fn reserve(thread: *mut Thread, words: u64) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        (*thread).writer.has_space(Thread::limits(thread), words)
            || reserve_slow(thread, words, process::control().on_full.load(Relaxed) == 0)
    }
}

/// As [`reserve`], for what must not be dropped: waits whatever the policy.
pub unsafe fn reserve_must_succeed(thread: *mut Thread, words: u64) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        (*thread).writer.has_space(Thread::limits(thread), words)
            || reserve_slow(thread, words, true)
    }
}

#[cold]
unsafe fn reserve_slow(thread: *mut Thread, words: u64, waits: bool) -> bool {
    const WAITED_WORDS: u64 = 1;
    if process::control().stopped.load(Relaxed) != 0 || collector_is_gone() {
        process::turn_off();
        return false;
    }
    // SAFETY: the thread's own state and ring.
    unsafe {
        if process::is_forked() {
            return false;
        }
        let (writer, limits) = (&(*thread).writer, Thread::limits(thread));
        let (doorbell, host) = (&process::shared().doorbell, host(thread));
        let since = arch::tick();
        match writer.reserve_slow(limits, words + WAITED_WORDS, waits, doorbell, &host) {
            Ok(Reserved::AtOnce) => return true,
            Ok(Reserved::AfterWaiting) => {
                let ticks = arch::tick().saturating_sub(since);
                writer.write(wire::waited(ticks));
                return true;
            }
            Err(Refusal::Full) => (*thread).loss_reason = LossReason::RingFull,
            Err(Refusal::NoMemory) => (*thread).loss_reason = LossReason::NoMemory,
            Err(Refusal::NotCollected) if writer.is_attached() => process::turn_off(),
            Err(Refusal::NotCollected) => {}
        }
    }
    false
}

/// Counts one lost event, by the reason of the last refusal to reserve space.
#[cold]
pub unsafe fn count_lost(thread: *mut Thread) {
    // SAFETY: the thread's own state.
    process::lost(unsafe { (*thread).loss_reason });
}

/// Waits until the collector has read everything that this thread wrote, and has
/// done what those events ask for. `false`: it is gone, or records no more.
pub unsafe fn wait_until_read(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state and ring.
    unsafe {
        let doorbell = &process::shared().doorbell;
        (*thread).writer.wait_until_read(doorbell, &host(thread))
    }
}

/// What the ring needs from this process.
struct RecorderHost {
    header: &'static RingHeader,
}

unsafe fn host(thread: *mut Thread) -> RecorderHost {
    // SAFETY: the thread's own state.
    let index = unsafe { (*thread).ring_index };
    RecorderHost {
        header: &process::rings()[index as usize % layout::RINGS],
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
    }

    fn futex_wait(&self, word: &AtomicU32, expected: u32) {
        system::futex_wait(word, expected, SPACE_TIMEOUT);
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
