//! The ring between one recorded thread and the collector: a single-producer
//! single-consumer queue of 64-bit words.
//!
//! ```text
//!            read (Progress)          written (RingHeader)
//!              |                        |
//!   … consumed | published, not yet read | free …        (positions, growing)
//! ```
//!
//! Positions count words and only grow; position `p` is slot `p % CAPACITY`. An event is
//! contiguous: one that begins near the last slot continues in the overflow slots after
//! it, and the slots that it would have used at the beginning stay unused in that lap.
//! The [`Writer`] stores an event's words and then publishes the position after it with
//! `Release`; the [`Reader`] loads that position with `Acquire`. So it never reads a part
//! of an event, even if the producer is interrupted or its process ends.
//!
//! Each side sleeps on a futex when it has nothing to do; the other side wakes it only
//! if it sleeps:
//!
//! | who sleeps | announces it in | then checks | the other side changes | then checks |
//! | --- | --- | --- | --- | --- |
//! | producer, ring full | `RingHeader::waiting` | `Progress::read` | `Progress::read` | `waiting` |
//! | collector, nothing to read | `Doorbell::sleeping` | `Doorbell::value` | `Doorbell::value` | `sleeping` |
//!
//! Each side stores to one variable and then loads the other (Dekker's pattern),
//! which needs a `SeqCst` fence between the two on both sides; otherwise both
//! may read the old value and the sleeper is never woken.
//!
//! The code is generic over the atomic types ([`Atomics`]) and over the operating
//! system ([`Host`]), so that the model checker in `tests/loom.rs` can run it in every
//! order in which its steps can take effect.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicU64};

use crate::atomics::{Atomic, Atomics, Hardware};
use crate::layout::{Doorbell, Progress, RING_MARGIN, RING_WORDS, RingHeader, Slots};
use crate::wire::Encode;

type U32<S> = <<S as Shape>::Atomics as Atomics>::U32;
type U64<S> = <<S as Shape>::Atomics as Atomics>::U64;

/// The dimensions of a ring.
pub trait Shape: 'static {
    /// The atomic types.
    type Atomics: Atomics;
    /// The slots: [`CAPACITY`](Self::CAPACITY) and those of the overflow.
    type Slots: AsRef<[U64<Self>]>;
    /// Words of a lap, a power of two.
    const CAPACITY: u64;
    /// Words that [`Writer::reserve_slow`] leaves free beyond the requested ones, for
    /// short events that are written without reserving.
    const MARGIN: u64;
    /// Words whose memory is committed at a time; divides `CAPACITY`.
    const COMMIT_WORDS: u64;

    /// Prefetches the cache line of a slot that will be written.
    #[inline(always)]
    fn prefetch(_: &U64<Self>) {}
}

/// The rings of the arena.
#[derive(Debug, Clone, Copy)]
pub struct ArenaRing;

impl Shape for ArenaRing {
    type Atomics = Hardware;
    type Slots = Slots;
    const CAPACITY: u64 = RING_WORDS as u64;
    const MARGIN: u64 = RING_MARGIN as u64;
    const COMMIT_WORDS: u64 = 8192;

    #[inline(always)]
    fn prefetch(slot: &AtomicU64) {
        // SAFETY: a prefetch is a hint: it changes no register, flag or memory
        // and never faults; a processor without the instruction ignores it.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                "prefetchw [{}]",
                in(reg) slot.as_ptr(),
                options(nostack, preserves_flags, readonly)
            );
        }
    }
}

/// The parts of one ring in shared memory.
#[allow(missing_debug_implementations)]
pub struct Ring<'r, S: Shape> {
    /// Written by the producer.
    pub header: &'r RingHeader<S::Atomics>,
    /// Written by the collector.
    pub progress: &'r Progress<S::Atomics>,
    /// The words, written by the producer.
    pub slots: &'r S::Slots,
}

impl<S: Shape> Clone for Ring<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Shape> Copy for Ring<'_, S> {}

impl<S: Shape> Ring<'_, S> {
    /// The first position that may not be written yet, because its slot contains an
    /// unread word.
    fn free_up_to(&self) -> u64 {
        // Saturating: only the collector writes `read`, but in an arena of a test other
        // processes may.
        self.progress.read.load(Acquire).saturating_add(S::CAPACITY)
    }
}

/// What the producer needs of its operating system and process.
pub trait Host<S: Shape> {
    /// Whether the ring still belongs to this producer and a collector reads it. If
    /// not, waiting is useless.
    fn is_collected(&self) -> bool;
    /// Sleeps while `word` is `expected`, for a limited time (`FUTEX_WAIT`).
    fn futex_wait(&self, word: &U32<S>, expected: u32);
    /// Wakes all threads that sleep on `word` (`FUTEX_WAKE`).
    fn futex_wake(&self, word: &U32<S>);
    /// Commits the memory of `slots`; returns `false` if there is not enough.
    fn commit(&self, slots: &[U64<S>]) -> bool;
}

/// Why no space can be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The ring is full, and the caller does not wait.
    Full,
    /// [`Host::is_collected`] is `false`, or the writer has no ring.
    NotCollected,
    /// Memory for the slots could not be committed.
    NoMemory,
}

/// How space was reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// There was enough space.
    AtOnce,
    /// The producer slept until the collector had read more.
    AfterWaiting,
}

/// The positions with which a producer's fast path compares. They are not part of the
/// [`Writer`] because the recorder has them in memory that the kernel clears in a forked
/// child. There both are 0, so the child's first event takes the slow path.
#[derive(Debug)]
#[repr(C)]
pub struct Limits<A: Atomics = Hardware> {
    /// Position from which on an event takes the caller's slow path. Other
    /// threads may store 0 here.
    pub check_at: A::U64,
    /// Words below this position (and [`Shape::MARGIN`] more) are free and their
    /// memory is committed.
    space_end: AtomicU64,
}

impl<A: Atomics> Default for Limits<A> {
    fn default() -> Self {
        Self {
            check_at: A::U64::default(),
            space_end: AtomicU64::new(0),
        }
    }
}

impl<A: Atomics> Limits<A> {
    /// Number of words that may be written from `position` on without
    /// [`Writer::reserve_slow`].
    pub fn space(&self, position: u64) -> u64 {
        self.space_end.load(Relaxed).saturating_sub(position)
    }
}

/// The number of rings that a process image has claimed, and the synchronisation by
/// which the thread of the first ring detects the claim of a second one.
///
/// The events of one ring are ordered, so as long as an image has only one ring, its
/// thread rarely needs to write timestamps: it sets a far `check_at`. Once there is a
/// second ring, no event of the first may be recorded under that `check_at`. The claimer
/// counts its claim and then sets `check_at` to 0; the first thread sets `check_at` and
/// then reads the count. With a `SeqCst` fence between the two steps on both sides
/// (Dekker's pattern), either the first thread reads the second claim, or the 0 replaces
/// its `check_at`. An event that the program's own synchronisation orders after the
/// claim sees that 0 (coherence). `tests/loom.rs` checks this code.
///
/// All zero, as after a fork, is an image without rings.
#[derive(Debug)]
#[repr(transparent)]
pub struct Claims<A: Atomics = Hardware>(A::U32);

impl<A: Atomics> Default for Claims<A> {
    fn default() -> Self {
        Self(A::U32::default())
    }
}

impl<A: Atomics> Claims<A> {
    /// Uses the atomic `count` as the counter.
    pub fn with_counter(count: A::U32) -> Self {
        Self(count)
    }

    /// Whether the image has never had more than one ring.
    #[inline(always)]
    pub fn is_single(&self) -> bool {
        self.0.load(Relaxed) <= 1
    }

    /// Counts a claim. If it is the second one, sets `check_at` of all `limits` to 0
    /// and returns `true`.
    pub fn add<'l>(&self, limits: impl Iterator<Item = &'l Limits<A>>) -> bool {
        if self.0.fetch_add(1, Relaxed) != 1 {
            return false;
        }
        A::fence(SeqCst);
        limits.for_each(|limits| limits.check_at.store(0, Relaxed));
        true
    }

    /// Sets the calling thread's `check_at`. `was_single`: the position was chosen
    /// because [`Self::is_single`] was true.
    #[inline(always)]
    pub fn set_check_at(&self, limits: &Limits<A>, position: u64, was_single: bool) {
        limits.check_at.store(position, Relaxed);
        if was_single {
            A::fence(SeqCst);
            if !self.is_single() {
                limits.check_at.store(0, Relaxed);
            }
        }
    }
}

/// The producer's end of a ring. One thread at a time uses it. All state is atomic and
/// accessed `Relaxed`, so that a signal handler of that thread may read it. A writer
/// whose bytes are all zero has no ring.
#[derive(Debug)]
#[repr(C)]
pub struct Writer<'r, S: Shape> {
    /// The position of the next word.
    position: AtomicU64,
    /// Null if there is no ring.
    header: AtomicPtr<RingHeader<S::Atomics>>,
    slots: AtomicPtr<S::Slots>,
    progress: AtomicPtr<Progress<S::Atomics>>,
    /// The slots' memory is committed up to this position.
    committed: AtomicU64,
    /// Once the memory is committed up to this position, one lap after the first one,
    /// all slots are committed.
    lap_end: AtomicU64,
    ring: PhantomData<Ring<'r, S>>,
}

impl<S: Shape> Default for Writer<'_, S> {
    fn default() -> Self {
        Self {
            position: AtomicU64::new(0),
            header: AtomicPtr::default(),
            slots: AtomicPtr::default(),
            progress: AtomicPtr::default(),
            committed: AtomicU64::new(0),
            lap_end: AtomicU64::new(0),
            ring: PhantomData,
        }
    }
}

impl<'r, S: Shape> Writer<'r, S> {
    /// How far ahead of the position slots are prefetched. The collector read them last;
    /// without prefetching the producer waits for each cache line to arrive from the
    /// collector's core.
    const PREFETCH_WORDS: u64 = 64;

    /// Begins to write to `ring`, which the caller must own, at the position where its
    /// last producer ended.
    pub fn attach(&self, ring: Ring<'r, S>, limits: &Limits<S::Atomics>) {
        let position = ring.header.written.load(Relaxed);
        self.position.store(position, Relaxed);
        self.committed.store(position, Relaxed);
        self.lap_end
            .store(position.saturating_add(S::CAPACITY), Relaxed);
        limits.check_at.store(0, Relaxed);
        limits.space_end.store(0, Relaxed);
        let (header, progress, slots) = (ring.header, ring.progress, ring.slots);
        self.progress
            .store(core::ptr::from_ref(progress).cast_mut(), Relaxed);
        self.slots
            .store(core::ptr::from_ref(slots).cast_mut(), Relaxed);
        self.header
            .store(core::ptr::from_ref(header).cast_mut(), Relaxed);
    }

    /// Detaches the ring; the position stays.
    pub fn detach(&self) {
        self.header.store(core::ptr::null_mut(), Relaxed);
    }

    /// Whether there is a ring.
    #[inline(always)]
    pub fn is_attached(&self) -> bool {
        !self.header.load(Relaxed).is_null()
    }

    /// The position of the next word.
    #[inline(always)]
    pub fn position(&self) -> u64 {
        self.position.load(Relaxed)
    }

    fn ring(&self) -> Option<Ring<'r, S>> {
        if !self.is_attached() {
            return None;
        }
        // SAFETY: `attach` stored all three, the header last, from references that are
        // valid for `'r`, and the writer does not outlive `'r`.
        unsafe {
            Some(Ring {
                header: &*self.header.load(Relaxed),
                progress: &*self.progress.load(Relaxed),
                slots: &*self.slots.load(Relaxed),
            })
        }
    }

    /// The ring's slots. Called once per event, since the compiler may not merge atomic
    /// loads, and each is an instruction of the hot path.
    ///
    /// # Safety
    /// The writer must be attached.
    #[inline(always)]
    unsafe fn publish(&self, put: impl FnOnce(&[U64<S>], u64) -> usize) {
        // SAFETY: `attach` stored a reference that is valid for `'r`.
        let slots = unsafe { &*self.slots.load(Relaxed) }.as_ref();
        let position = self.position();
        let end = position + put(slots, position) as u64;
        self.position.store(end, Relaxed);
        // SAFETY: as above; only `detach` makes it null.
        let header = unsafe { &*self.header.load(Relaxed) };
        header.written.store(end, Release);
        let ahead = (end + Self::PREFETCH_WORDS) & (S::CAPACITY - 1);
        S::prefetch(&slots[ahead as usize]);
    }

    /// Stores the word `index` of the event at `position`. Only the event's position is
    /// taken modulo the capacity, so its words may be in the overflow slots.
    #[inline(always)]
    fn put(slots: &[U64<S>], position: u64, index: usize, word: u64) {
        // If the index is constant, the compiler removes the bounds check.
        if let Some(slot) = slots.get((position & (S::CAPACITY - 1)) as usize + index) {
            slot.store(word, Relaxed);
        }
    }

    /// Writes and publishes an event of a fixed length.
    ///
    /// # Safety
    /// The writer must be attached. (Missing space is no safety violation: the event
    /// would overwrite unread events of the same ring.)
    #[inline(always)]
    pub unsafe fn write<const WORDS: usize>(&self, words: [u64; WORDS]) {
        let put = |slots: &[U64<S>], position| {
            for (index, word) in words.into_iter().enumerate() {
                Self::put(slots, position, index, word);
            }
            WORDS
        };
        // SAFETY: passed on.
        unsafe { self.publish(put) };
    }

    /// Writes and publishes any event.
    ///
    /// # Safety
    /// As [`write`](Self::write).
    pub unsafe fn write_long(&self, event: &impl Encode) {
        let put = |slots: &[U64<S>], position| {
            event.encode(|index, word| Self::put(slots, position, index, word))
        };
        // SAFETY: passed on.
        unsafe { self.publish(put) };
    }

    /// Whether `words` and the margin fit into the space found by
    /// [`reserve_slow`](Self::reserve_slow) so far.
    #[inline(always)]
    pub fn has_space(&self, limits: &Limits<S::Atomics>, words: u64) -> bool {
        self.position() + words <= limits.space_end.load(Relaxed)
    }

    /// Reserves space for `words` and the margin: commits memory for the slots and, if
    /// the ring is full and `waits`, sleeps until the collector has read enough.
    #[cold]
    pub fn reserve_slow(
        &self,
        limits: &Limits<S::Atomics>,
        words: u64,
        waits: bool,
        doorbell: &Doorbell<S::Atomics>,
        host: &impl Host<S>,
    ) -> Result<Reserved, Refusal> {
        let ring = self.ring().ok_or(Refusal::NotCollected)?;
        let end = self.position().saturating_add(words + S::MARGIN);
        let mut reserved = Reserved::AtOnce;
        while ring.free_up_to() < end {
            if !waits {
                doorbell.ring(|word| host.futex_wake(word));
                return Err(Refusal::Full);
            }
            self.wait_for_space(ring, end, doorbell, host);
            if !host.is_collected() {
                return Err(Refusal::NotCollected);
            }
            reserved = Reserved::AfterWaiting;
        }
        self.commit(ring, end, host)?;
        let usable = ring.free_up_to().min(self.committed.load(Relaxed));
        limits
            .space_end
            .store(usable.saturating_sub(S::MARGIN), Relaxed);
        Ok(reserved)
    }

    /// Waits until the collector has read and processed everything that was published.
    /// Returns `false` if the ring is no longer read.
    pub fn wait_until_read(&self, doorbell: &Doorbell<S::Atomics>, host: &impl Host<S>) -> bool {
        let Some(ring) = self.ring() else {
            return false;
        };
        // If a whole ring of space follows the position, everything before it was read.
        let end = self.position().saturating_add(S::CAPACITY);
        while ring.free_up_to() < end {
            self.wait_for_space(ring, end, doorbell, host);
            if !host.is_collected() {
                return false;
            }
        }
        true
    }

    /// Sleeps once, unless there is space up to `end`.
    fn wait_for_space(
        &self,
        ring: Ring<'r, S>,
        end: u64,
        doorbell: &Doorbell<S::Atomics>,
        host: &impl Host<S>,
    ) {
        let Ring {
            header, progress, ..
        } = ring;
        // Another program of the recording may have overwritten the header: the position
        // is restored before this thread waits for the collector to read up to it.
        header.written.store(self.position(), Release);
        header.waiting.store(1, Relaxed);
        S::Atomics::fence(SeqCst);
        let space = progress.space.load(Acquire);
        if ring.free_up_to() < end {
            doorbell.ring(|word| host.futex_wake(word));
            host.futex_wait(&progress.space, space);
        }
        header.waiting.store(0, Relaxed);
    }

    /// Commits the slots' memory up to position `end`: a lack of memory must be an error
    /// here, not a `SIGBUS` in the recorded program.
    fn commit(&self, ring: Ring<'r, S>, end: u64, host: &impl Host<S>) -> Result<(), Refusal> {
        let slots = ring.slots.as_ref();
        while self.committed.load(Relaxed) < end {
            let start = self.committed.load(Relaxed) & !(S::COMMIT_WORDS - 1);
            let first = start & (S::CAPACITY - 1);
            let last = match first + S::COMMIT_WORDS {
                last if last == S::CAPACITY => slots.len(),
                last => last as usize,
            };
            if !host.commit(&slots[first as usize..last]) {
                return Err(Refusal::NoMemory);
            }
            let committed = match start.saturating_add(S::COMMIT_WORDS) {
                lap if lap >= self.lap_end.load(Relaxed) => u64::MAX,
                committed => committed,
            };
            self.committed.store(committed, Relaxed);
        }
        Ok(())
    }
}

/// The collector's end of a ring: the position up to which it has read. It is in the
/// collector's own memory, and does not trust what the producer wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reader {
    cursor: u64,
}

impl Reader {
    /// A reader whose next word is at position `cursor`.
    pub const fn at(cursor: u64) -> Self {
        Self { cursor }
    }

    /// The position of the next word.
    pub const fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The number of words between the cursor and the position `published`; `None` if a
    /// producer that follows the protocol cannot be at that position.
    pub fn unread<S: Shape>(&self, published: u64) -> Option<u64> {
        Some(published.wrapping_sub(self.cursor)).filter(|&words| words <= S::CAPACITY)
    }

    /// Appends the words from the cursor to the position `published` to `into`, at most
    /// `most`, and at most to the last slot. Returns the number of slots from the cursor
    /// to the overflow: events begin only in these.
    pub fn copy<S: Shape>(
        &self,
        slots: &S::Slots,
        published: u64,
        most: usize,
        into: &mut impl Extend<u64>,
    ) -> usize {
        let slots = slots.as_ref();
        let first = self.cursor & (S::CAPACITY - 1);
        let words = published.wrapping_sub(self.cursor).min(most as u64);
        let last = first.saturating_add(words).min(slots.len() as u64);
        let words = &slots[first as usize..last as usize];
        into.extend(words.iter().map(|slot| slot.load(Relaxed)));
        (S::CAPACITY - first) as usize
    }

    /// Advances to position `to`: the producer may overwrite the slots below it. If the
    /// producer waits, calls `wake` with the futex [`Progress::space`].
    pub fn release<A: Atomics>(
        &mut self,
        to: u64,
        header: &RingHeader<A>,
        progress: &Progress<A>,
        wake: impl FnOnce(&A::U32),
    ) {
        self.cursor = to;
        progress.read.store(to, Release);
        A::fence(SeqCst);
        if header.waiting.load(Relaxed) != 0 {
            progress.wake(wake);
        }
    }
}

impl<A: Atomics> RingHeader<A> {
    /// The position up to which events are complete.
    #[inline]
    pub fn published(&self) -> u64 {
        self.written.load(Acquire)
    }
}

impl<A: Atomics> Progress<A> {
    /// Makes a producer that sleeps on [`space`](Self::space), or is about to, check
    /// again.
    pub fn wake(&self, wake: impl FnOnce(&A::U32)) {
        self.space.fetch_add(1, Release);
        wake(&self.space);
    }
}

impl<A: Atomics> Doorbell<A> {
    /// How often the bell has rung. To be loaded before checking for work.
    pub fn count(&self) -> u32 {
        self.value.load(Acquire)
    }

    /// Rings the bell; calls `wake` if the collector sleeps.
    pub fn ring(&self, wake: impl FnOnce(&A::U32)) {
        self.value.fetch_add(1, Release);
        A::fence(SeqCst);
        if self.sleeping.load(Relaxed) != 0 {
            wake(&self.value);
        }
    }

    /// Calls `wait`, which sleeps, unless the bell has rung since its
    /// [`count`](Self::count) was `seen`.
    pub fn sleep(&self, seen: u32, wait: impl FnOnce(&A::U32)) {
        self.sleeping.store(1, Relaxed);
        A::fence(SeqCst);
        if self.value.load(Acquire) == seen {
            wait(&self.value);
        }
        self.sleeping.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicU32;

    use proptest::prelude::*;

    use super::*;

    /// 64 words and 16 of overflow, whose memory is committed 16 at a time.
    struct Small;

    impl Shape for Small {
        type Atomics = Hardware;
        type Slots = [AtomicU64; 80];
        const CAPACITY: u64 = 64;
        const MARGIN: u64 = 4;
        const COMMIT_WORDS: u64 = 16;
    }

    /// A host that records the addresses of committed slots; if `is_full`, it has no
    /// memory.
    #[derive(Default)]
    struct Memory {
        committed: RefCell<BTreeSet<usize>>,
        is_full: bool,
    }

    impl Host<Small> for Memory {
        fn is_collected(&self) -> bool {
            true
        }
        fn futex_wait(&self, _: &AtomicU32, _: u32) {
            panic!("the ring is never full here");
        }
        fn futex_wake(&self, _: &AtomicU32) {}
        fn commit(&self, slots: &[AtomicU64]) -> bool {
            let addresses = slots.iter().map(|slot| slot.as_ptr() as usize);
            self.committed.borrow_mut().extend(addresses);
            !self.is_full
        }
    }

    struct Parts {
        header: RingHeader,
        progress: Progress,
        slots: [AtomicU64; 80],
        doorbell: Doorbell,
    }

    impl Parts {
        fn at(position: u64) -> Self {
            let parts = Self {
                header: RingHeader::default(),
                progress: Progress::default(),
                slots: [const { AtomicU64::new(UNTOUCHED) }; 80],
                doorbell: Doorbell::default(),
            };
            parts.header.written.store(position, Relaxed);
            parts.progress.read.store(position, Relaxed);
            parts
        }

        fn ring(&self) -> Ring<'_, Small> {
            Ring {
                header: &self.header,
                progress: &self.progress,
                slots: &self.slots,
            }
        }
    }

    const UNTOUCHED: u64 = u64::MAX;

    proptest! {
        /// A write to a slot without committed memory may raise SIGBUS.
        #[test]
        fn no_slot_is_written_before_its_memory_is_committed(
            start in 0..1000u64,
            lengths in prop::collection::vec(1..16usize, 1..60),
        ) {
            let (parts, memory, limits) = (Parts::at(start), Memory::default(), Limits::default());
            let writer = Writer::default();
            writer.attach(parts.ring(), &limits);
            let mut reader = Reader::at(start);
            for (event, &length) in lengths.iter().enumerate() {
                let words = vec![[event as u64; 5]; length.div_ceil(5)];
                let event = Words(&words.as_flattened()[..length]);
                if !writer.has_space(&limits, length as u64) {
                    let reserved = writer.reserve_slow(
                        &limits,
                        length as u64,
                        false,
                        &parts.doorbell,
                        &memory,
                    );
                    prop_assert_eq!(reserved, Ok(Reserved::AtOnce));
                }
                // SAFETY: it is attached.
                unsafe { writer.write_long(&event) };
                let committed = memory.committed.borrow();
                for slot in &parts.slots {
                    let is_written = slot.load(Relaxed) != UNTOUCHED;
                    prop_assert!(!is_written || committed.contains(&(slot.as_ptr() as usize)));
                }
                let published = parts.header.published();
                prop_assert_eq!(reader.unread::<Small>(published), Some(length as u64));
                let mut read = Vec::new();
                reader.copy::<Small>(&parts.slots, published, 99, &mut read);
                prop_assert_eq!(&read, event.0);
                reader.release(published, &parts.header, &parts.progress, |_| ());
            }
        }
    }

    struct Words<'w>(&'w [u64]);

    impl Encode for Words<'_> {
        fn most_words(&self) -> usize {
            self.0.len()
        }
        fn encode(&self, mut put: impl FnMut(usize, u64)) -> usize {
            for (index, word) in self.0.iter().enumerate() {
                put(index, *word);
            }
            self.0.len()
        }
    }

    #[test]
    fn without_memory_there_is_no_space() {
        let (parts, limits) = (Parts::at(7), Limits::default());
        let memory = Memory {
            is_full: true,
            ..Memory::default()
        };
        let writer = Writer::default();
        writer.attach(parts.ring(), &limits);
        for _ in 0..2 {
            let reserved = writer.reserve_slow(&limits, 1, true, &parts.doorbell, &memory);
            assert_eq!(reserved, Err(Refusal::NoMemory));
            assert!(!writer.has_space(&limits, 1));
        }
    }

    #[test]
    fn a_full_ring_refuses_a_writer_that_does_not_wait() {
        let (parts, limits, memory) = (Parts::at(0), Limits::default(), Memory::default());
        let writer = Writer::default();
        assert_eq!(
            writer.reserve_slow(&limits, 1, false, &parts.doorbell, &memory),
            Err(Refusal::NotCollected),
            "no ring"
        );
        writer.attach(parts.ring(), &limits);
        let reserve = |words| writer.reserve_slow(&limits, words, false, &parts.doorbell, &memory);
        assert_eq!(reserve(60), Ok(Reserved::AtOnce));
        assert_eq!(reserve(61), Err(Refusal::Full));
        assert_eq!(parts.doorbell.count(), 1);
    }

    #[test]
    fn a_position_that_no_producer_reaches_is_refused() {
        let reader = Reader::at(100);
        assert_eq!(reader.unread::<Small>(164), Some(64));
        assert_eq!(reader.unread::<Small>(165), None);
        assert_eq!(reader.unread::<Small>(99), None);
    }
}
