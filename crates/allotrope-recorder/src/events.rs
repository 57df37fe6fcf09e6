//! Puts events into the thread's ring.
//!
//! An event's words are written first, then the position that covers them is
//! published, so that a half-written event is never seen, whatever interrupts
//! the thread or ends the process.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU64, compiler_fence, fence};

use allotrope_shm::layout::{
    self, COUNTED_ENTRIES, Lane, OVERFLOW_WORDS, OWNER_DIED, RING_MARGIN, RING_WORDS,
};
use allotrope_shm::words::{self, COUNTS_WORDS, LONG_SIZE, STACK_BITS, head, kind};

use crate::arch::{self, switches};
use crate::arena;
use crate::counts;
use crate::process::{self, Loss};
use crate::system;
use crate::thread::Thread;
use crate::windows;

const MASK: u64 = RING_WORDS as u64 - 1;
/// Most words between two readings of the clock: 64 to 128 events.
const ANCHOR_WORDS: u64 = 128;
/// Ticks, one or two microseconds, that may pass between two readings of the
/// clock if more than an event does: a thread that does little marks the time
/// with each event, and what it does can be ordered against other threads
/// exactly; to a busy one a reading costs more than an event and comes seldom.
const ANCHOR_TICKS: u64 = 4000;
/// The same in an image that has only one lane. The times order nothing then;
/// they say when something was, and the events between two are spread evenly.
const LONE_ANCHOR_WORDS: u64 = 1024;
/// See there: 25 microseconds.
const LONE_ANCHOR_TICKS: u64 = 64_000;
/// Words after which the collector is woken if it sleeps.
const DOORBELL_WORDS: u64 = RING_WORDS as u64 / 4;
/// How far ahead of the position cache lines are asked for. The collector read
/// them last; without this the program waits for each to come from its core.
const PREFETCHED_WORDS: u64 = 64;
/// Words whose pages are reserved at a time.
const RESERVE_WORDS: u64 = 8192;

/// Writes the word `index` places after the thread's position. The words of
/// one event are contiguous, into the ring's overflow.
#[inline(always)]
pub unsafe fn put(thread: *mut Thread, index: usize, word: u64) {
    // SAFETY: the caller made sure of the space; `index` is below the
    // overflow's size.
    unsafe {
        let at = ((*thread).position & MASK) as usize + index;
        (*thread).ring.add(at).write_volatile(word);
    }
}

/// Writes bytes as words, zero-padded.
pub unsafe fn put_bytes(thread: *mut Thread, index: usize, bytes: &[u8]) {
    for (offset, chunk) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        // SAFETY: passed on.
        unsafe { put(thread, index + offset, u64::from_le_bytes(word)) };
    }
}

/// Publishes an event of `length` words.
#[inline(always)]
pub unsafe fn publish(thread: *mut Thread, length: usize) {
    // SAFETY: the thread's own state.
    unsafe {
        let position = (*thread).position + length as u64;
        (*thread).position = position;
        Thread::written(thread).store(position, Release);
        let ahead = ((position + PREFETCHED_WORDS) & MASK) as usize;
        arch::prefetch_for_writing((*thread).ring.add(ahead));
    }
}

/// Writes a short counted event and publishes it: [`put`] and [`publish`] for
/// the frequent ones, which do not look at the thread's state more than once.
#[inline(always)]
unsafe fn write_counted<const LENGTH: usize>(thread: *mut Thread, words: [u64; LENGTH]) {
    // SAFETY: the thread's own state; the caller made sure of the space.
    unsafe {
        let (position, ring) = ((*thread).position, (*thread).ring);
        let at = ring.add((position & MASK) as usize);
        for (index, word) in words.into_iter().enumerate() {
            at.add(index).write_volatile(word);
        }
        (*thread).events += 1;
        let position = position + LENGTH as u64;
        (*thread).position = position;
        Thread::written(thread).store(position, Release);
        let ahead = ((position + PREFETCHED_WORDS) & MASK) as usize;
        arch::prefetch_for_writing(ring.add(ahead));
    }
}

/// Makes the thread ready for an event: one comparison for time marks, a full
/// ring, a stopped recording and a fork, one for the epoch and clock. `false`:
/// there is to be no event, or there can be none.
#[inline(always)]
pub unsafe fn ready(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        if (*thread).position >= Thread::limit(thread).load(Relaxed) {
            return refill(thread);
        }
        if watched(thread) != (*thread).seen {
            mark_time(thread);
        }
    }
    true
}

/// As [`ready`], for what must not be dropped: waits whatever the policy.
pub unsafe fn ready_for_certain(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        // A child that has yet to begin gets an empty ring.
        let is_childs = process::is_forked() || (*thread).lane.is_null();
        if !is_childs && !room_for_certain(thread, ANCHOR_WORDS) {
            return false;
        }
        // Where calls are only counted no event is ready, but a child begins.
        ready(thread) || (counts::is_ready(thread) && room_for_certain(thread, ANCHOR_WORDS))
    }
}

/// The word that the calling thread is to watch.
pub fn watch() -> *const AtomicU64 {
    let word = switches::word();
    if word.is_null() {
        &raw const process::control().clock
    } else {
        word
    }
}

/// The thread's word and, in the upper half, the epoch: what one comparison
/// with every event is about. They differ in other bits: an epoch has none in
/// the lower half, where no two values of the word are alike.
#[inline(always)]
unsafe fn watched(thread: *mut Thread) -> u64 {
    // SAFETY: the thread's own word or the collector's, both of which live as
    // long as the thread.
    unsafe { (*(*thread).watch).load(Relaxed) ^ windows::epoch_word() }
}

/// What [`Thread::seen`] is where the next event must look: no epoch is this
/// large.
pub const UNSEEN: u64 = u64::MAX;

/// As [`ready`], for what is told also where calls are only counted.
pub unsafe fn ready_for_note(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state.
    unsafe { ready(thread) || (counts::is_ready(thread) && room(thread, ANCHOR_WORDS)) }
}

/// `Allocation`.
#[inline(always)]
pub unsafe fn allocation(
    thread: *mut Thread,
    entry: u8,
    block: u64,
    size: u64,
    alignment_log2: u8,
    stack: u32,
) {
    // SAFETY: `ready` left room for it.
    unsafe {
        if size < LONG_SIZE && alignment_log2 == 0 {
            let head = head(kind::ALLOCATION, entry, block);
            write_counted(thread, [head, words::stack_and_size(stack, size)]);
        } else {
            let head = head(kind::ALLOCATION_LONG, entry, block);
            let stack = u64::from(stack) | u64::from(alignment_log2) << STACK_BITS;
            write_counted(thread, [head, stack, size]);
        }
    }
}

/// `ReallocationEnd`.
pub unsafe fn reallocation_end(thread: *mut Thread, entry: u8, block: u64, size: u64, stack: u32) {
    // SAFETY: `ready` left room for it.
    unsafe {
        if size < LONG_SIZE {
            let head = head(kind::REALLOCATION_END, entry, block);
            write_counted(thread, [head, words::stack_and_size(stack, size)]);
        } else {
            let head = head(kind::REALLOCATION_END_LONG, entry, block);
            write_counted(thread, [head, u64::from(stack), size]);
        }
    }
}

/// A counted event of one word.
#[inline(always)]
pub unsafe fn short(thread: *mut Thread, kind: u8, entry: u8, block: u64) {
    // SAFETY: `ready` left room for it.
    unsafe { write_counted(thread, [head(kind, entry, block)]) };
}

/// `Exit`.
pub unsafe fn exit(thread: *mut Thread, status: i32) {
    // SAFETY: `ready` left room for it.
    unsafe {
        put(thread, 0, head(kind::EXIT, 0, u64::from(status as u32)));
        publish(thread, 1);
    }
}

/// `Exec`.
pub unsafe fn exec(thread: *mut Thread, path: &[u8]) {
    const PATH_AT: usize = 2;
    let length = PATH_AT + words::words_of(path.len());
    // SAFETY: the thread's own state.
    unsafe {
        if room(thread, length as u64) {
            put(thread, 0, head(kind::EXEC, 0, (length as u64) << 16));
            put(thread, 1, path.len() as u64);
            put_bytes(thread, PATH_AT, path);
            publish(thread, length);
        }
    }
}

/// `Counts`: the lane's counters as its last thread left them.
pub unsafe fn counts(thread: *mut Thread) -> bool {
    const MOST_WORDS: usize = 1 + 2 * COUNTED_ENTRIES * COUNTS_WORDS;
    // SAFETY: the thread's own state and lane.
    unsafe {
        if !room(thread, MOST_WORDS as u64) {
            return false;
        }
        let Some(counters) = arena::counters((*thread).lane_index) else {
            return false;
        };
        let mut length = 1;
        for (entry, counters) in counters.all().enumerate() {
            let counts = counts::sums(counters);
            if counts == [0; 4] {
                continue;
            }
            put(thread, length, entry as u64);
            for (place, count) in counts.into_iter().enumerate() {
                put(thread, length + 1 + place, count);
            }
            length += COUNTS_WORDS;
        }
        put(thread, 0, head(kind::COUNTS, 0, (length as u64) << 16));
        publish(thread, length);
    }
    true
}

/// `Node`: defines a stack id.
#[inline]
pub unsafe fn node(
    thread: *mut Thread,
    address: u64,
    exact: bool,
    parent: u32,
    id: u32,
    mapping: u16,
) {
    // SAFETY: the caller made room for it.
    unsafe {
        put(thread, 0, head(kind::NODE, u8::from(exact), address));
        put(thread, 1, words::node(parent, id, mapping));
        publish(thread, 2);
    }
}

/// Forgets every stack id of a lane that says so to the collector: they are
/// used up. `false`: there is no room to say it, nothing is forgotten.
#[cold]
pub unsafe fn restart_ids(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        if !room(thread, 1) {
            return false;
        }
        put(thread, 0, head(kind::FORGET, 0, 0));
        publish(thread, 1);
        (*Thread::guarded(thread)).ids.forget();
        begin_ids(thread);
    }
    true
}

/// Begins with no stack ids, in a lane that is new. The cache is empty: a new
/// mapping's is, and that of a forked child was wiped.
pub unsafe fn begin_ids(thread: *mut Thread) {
    // SAFETY: the thread's own state.
    unsafe {
        (*Thread::guarded(thread)).unwinder.forget_stack();
        (*thread).next_id = FIRST_ID;
    }
}

/// The first id that names a node; those below say how a stack ends.
pub const FIRST_ID: u32 = 8;

/// `Thread`: what follows in this lane is this thread's. The extra byte tells
/// a nested state, whose thread has another lane.
pub unsafe fn announce_thread(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        if !room(thread, 2) {
            process::lost(Loss::RingFull);
            return false;
        }
        if (*thread).was_alone && !process::is_alone() {
            tell_company(thread);
        }
        let tid = u64::from(system::thread_id());
        put(
            thread,
            0,
            head(kind::THREAD, u8::from((*thread).is_nested), tid),
        );
        put(thread, 1, arch::tick());
        publish(thread, 2);
        Thread::limit(thread).store(0, Relaxed);
        true
    }
}

/// Writes the time, and the epoch if it is another one than the stream says.
///
/// A handler may interrupt this and jump away, or opt out and come back: until
/// all is written, and unless it is still true then, the next event looks again.
#[cold]
unsafe fn mark_time(thread: *mut Thread) {
    // SAFETY: the limit leaves a margin that takes these words; the word that is
    // written is the thread's own.
    unsafe {
        let watches_clock = ptr::eq((*thread).watch, &raw const process::control().clock);
        let before = (*thread).seen;
        (&raw mut (*thread).seen).write_volatile(UNSEEN);
        let epoch = windows::epoch_word();
        let word = if watches_clock {
            process::control().clock.load(Relaxed)
        } else {
            (*(*thread).watch).store(switches::unbroken(), Relaxed);
            compiler_fence(SeqCst);
            switches::unbroken()
        };
        let opted_out = windows::is_opted_out(thread);
        let tick = arch::tick();
        (*thread).marked_tick = tick;
        let told = (epoch >> 32) << 1 | u64::from(opted_out);
        if told == (*thread).told {
            // The events before this saw the clock so; 0: nothing is known.
            let clock = if before == UNSEEN || !watches_clock {
                0
            } else {
                before as u32
            };
            put(thread, 0, head(kind::ANCHOR, 0, clock.into()));
            put(thread, 1, tick);
            publish(thread, 2);
        } else {
            put(thread, 0, head(kind::EPOCH, u8::from(opted_out), 0));
            put(thread, 1, tick);
            put(thread, 2, epoch >> 32);
            publish(thread, 3);
            (*thread).told = told;
        }
        (&raw mut (*thread).seen).write_volatile(word ^ epoch);
        if windows::is_opted_out(thread) != opted_out {
            (&raw mut (*thread).seen).write_volatile(UNSEEN);
        }
    }
}

/// The limit is reached: finds out why and sets the next one. `false`: this
/// event can not be recorded.
#[cold]
unsafe fn refill(thread: *mut Thread) -> bool {
    if !process::is_recording() {
        return false;
    }
    // SAFETY: the thread's own state.
    unsafe {
        let is_childs = process::is_forked() || (*thread).lane.is_null();
        if is_childs && !process::continue_in_child(thread) {
            return false;
        }
        if counts::is_on() {
            counts::attach(thread);
            return false;
        }
        if !room(thread, ANCHOR_WORDS) {
            if process::is_recording() {
                process::lost(Loss::RingFull);
            }
            return false;
        }
        if (*thread).position - (*thread).rung >= DOORBELL_WORDS {
            (*thread).rung = (*thread).position;
            ring_doorbell();
        }
        let is_alone = process::is_alone();
        if (*thread).was_alone && !is_alone {
            tell_company(thread);
        }
        let position = (*thread).position;
        mark_time(thread);
        if (*thread).is_nested {
            // The limit stays 0.
            return true;
        }
        let words = words_to_next_mark(thread, position, is_alone);
        (*thread).was_alone = is_alone;
        Thread::limit(thread).store((*thread).position + words, Relaxed);
        if is_alone && !process::is_still_alone() {
            Thread::limit(thread).store(0, Relaxed);
        }
    }
    true
}

/// Writes when the image's second thread came, if this one has marked the time
/// seldom until now: all that stands before it was recorded before that.
#[cold]
unsafe fn tell_company(thread: *mut Thread) {
    // SAFETY: the thread's own state; the margin takes these words.
    unsafe {
        (*thread).was_alone = false;
        if let Some(tick) = process::company_tick()
            && tick > (*thread).marked_tick
        {
            (*thread).marked_tick = tick;
            put(thread, 0, head(kind::ANCHOR, 0, 0));
            put(thread, 1, tick);
            publish(thread, 2);
        }
    }
}

/// How many words may follow the mark that was just written at `position`, by
/// how long those before it took; growing slowly, for a thread that was idle
/// may have become busy. One that makes less than an event in `ANCHOR_TICKS` marks
/// each, whether or not it is alone: what little it does has its exact time.
unsafe fn words_to_next_mark(thread: *mut Thread, position: u64, is_alone: bool) -> u64 {
    const EVENT_WORDS: u64 = 2;
    // SAFETY: the thread's own state.
    unsafe {
        let ticks = (*thread).marked_tick.wrapping_sub((*thread).measured_tick);
        let words = position.saturating_sub((*thread).measured_position).max(1);
        (*thread).measured_tick = (*thread).marked_tick;
        (*thread).measured_position = (*thread).position;
        let in_time = |ticks_to_pass| words.saturating_mul(ticks_to_pass) / ticks.max(1);
        let (in_time, most) = match in_time(ANCHOR_TICKS) {
            busy if is_alone && busy >= EVENT_WORDS => {
                // There is room for `ANCHOR_WORDS`, and perhaps for more.
                let room = (*Thread::guarded(thread))
                    .hard_limit
                    .saturating_sub((*thread).position);
                let most = room.clamp(ANCHOR_WORDS, LONE_ANCHOR_WORDS);
                (in_time(LONE_ANCHOR_TICKS), most)
            }
            otherwise => (otherwise, ANCHOR_WORDS),
        };
        in_time.min(words * 2).clamp(1, most)
    }
}

/// Makes sure that `words` and a margin fit, waiting if that is the policy.
#[inline]
pub unsafe fn room(thread: *mut Thread, words: u64) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        let hard_limit = (&raw const (*Thread::guarded(thread)).hard_limit).read_volatile();
        (*thread).position + words <= hard_limit
            || make_room(thread, words, process::control().on_full.load(Relaxed) == 0)
    }
}

/// As [`room`], for what must not be dropped: waits whatever the policy.
pub unsafe fn room_for_certain(thread: *mut Thread, words: u64) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        let hard_limit = (&raw const (*Thread::guarded(thread)).hard_limit).read_volatile();
        (*thread).position + words <= hard_limit || make_room(thread, words, true)
    }
}

#[cold]
unsafe fn make_room(thread: *mut Thread, words: u64, waits: bool) -> bool {
    let control = process::control();
    if control.stopped.load(Relaxed) != 0 || collector_is_gone() {
        process::turn_off();
        return false;
    }
    // SAFETY: the thread's own state and lane.
    unsafe {
        if process::is_forked() || (*thread).lane.is_null() {
            return false;
        }
        let lane = &*(*thread).lane;
        let progress = arena::progress((*thread).lane_index as usize);
        let free_up_to = || {
            progress
                .read
                .load(Acquire)
                .saturating_add(RING_WORDS as u64)
        };
        let is_short = |end| free_up_to() < end;
        // `Waited` is to fit, too.
        let end = (*thread).position + words + 1 + RING_MARGIN as u64;
        let mut waited = None;
        if is_short(end) {
            if !waits {
                ring_doorbell();
                return false;
            }
            let since = arch::tick();
            while is_short(end) {
                wait_for_space(thread, end);
                if control.stopped.load(Relaxed) != 0 || !is_collected(lane) {
                    process::turn_off();
                    return false;
                }
            }
            waited = Some(arch::tick().saturating_sub(since));
        }
        if !reserve(thread, end) {
            return false;
        }
        (*Thread::guarded(thread)).hard_limit = free_up_to()
            .min((*thread).reserved)
            .saturating_sub(RING_MARGIN as u64);
        if let Some(ticks) = waited {
            let ticks = ticks.min(words::ADDRESS_MASK);
            put(thread, 0, head(kind::WAITED, 0, ticks));
            publish(thread, 1);
        }
    }
    true
}

/// Waits until the collector has taken everything written to the lane and done
/// what it asks for. `false`: it is gone, or does not record any more.
pub unsafe fn wait_until_taken(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state and lane.
    unsafe {
        let position = (*thread).position;
        let progress = arena::progress((*thread).lane_index as usize);
        while progress.read.load(Acquire) < position {
            // The collector has read this far when there is a whole ring of
            // room behind it.
            wait_for_space(thread, position + RING_WORDS as u64);
            let lane = &*(*thread).lane;
            if process::control().stopped.load(Relaxed) != 0 || !is_collected(lane) {
                return false;
            }
        }
    }
    true
}

/// Whether somebody reads what is written to this image's `lane`. The collector
/// may count the image as ended, or the lane as nobody's, if another program of
/// the recording has written to the tables.
fn is_collected(lane: &Lane) -> bool {
    !collector_is_gone()
        && lane.owner.load(Relaxed) == process::owner()
        && process::slot().state.load(Relaxed) != layout::image_state::FREE
}

/// Waits for the collector to read on, a tenth of a second at most.
unsafe fn wait_for_space(thread: *mut Thread, end: u64) {
    // SAFETY: the thread's own lane.
    let (lane, index, published) =
        unsafe { (&*(*thread).lane, (*thread).lane_index, (*thread).position) };
    let progress = arena::progress(index as usize);
    // Another program of the recording may have written there what it likes.
    lane.written.store(published, Release);
    lane.waiting.store(1, Relaxed);
    fence(SeqCst);
    let space = progress.space.load(Acquire);
    if progress
        .read
        .load(Acquire)
        .saturating_add(RING_WORDS as u64)
        < end
    {
        ring_doorbell();
        system::futex_wait(&progress.space, space, 100);
    }
    lane.waiting.store(0, Relaxed);
}

/// Whether nobody reads what is written.
pub fn collector_is_gone() -> bool {
    let alive = process::control().collector_alive.load(Relaxed);
    alive == 0 || alive & OWNER_DIED != 0
}

/// Makes sure of the ring's pages up to position `end`: memory that is short
/// must show here and not as a signal in the program. Gives `false` if it is.
unsafe fn reserve(thread: *mut Thread, end: u64) -> bool {
    // SAFETY: the thread's own state; the ranges lie in its ring.
    unsafe {
        while (*thread).reserved < end {
            let start = (*thread).reserved & !(RESERVE_WORDS - 1);
            let index = start & MASK;
            let is_last = index + RESERVE_WORDS == RING_WORDS as u64;
            let words = RESERVE_WORDS as usize + if is_last { OVERFLOW_WORDS } else { 0 };
            let address = (*thread).ring.add(index as usize).cast::<u8>();
            if !system::populate(address, words * 8) {
                process::lost(Loss::NoMemory);
                return false;
            }
            let reserved = start + RESERVE_WORDS;
            // Once round the ring, all of it is there.
            (*thread).reserved = if reserved >= (*thread).lap_end {
                u64::MAX
            } else {
                reserved
            };
        }
    }
    true
}

/// Wakes the collector if it sleeps.
pub fn ring_doorbell() {
    let shared = process::shared();
    shared.doorbell.fetch_add(1, Release);
    fence(SeqCst);
    if shared.sleeping.load(Relaxed) != 0 {
        system::futex_wake(&shared.doorbell);
    }
}
