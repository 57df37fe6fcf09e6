//! The collector's side: makes the arena and gives safe access to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;

use crate::layout::{
    self, ARENA_BYTES, Control, Counters, IMAGES, ImageSlot, LANES, Lane, OVERFLOW_WORDS, OnFull,
    REMARKS, RING_STRIDE, RING_WORDS, RINGS_OFFSET, Remark, Shared,
};

/// How recorders of this arena behave.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// What a full ring means.
    pub on_full: OnFull,
    /// Depth at which stacks are cut, 1 to 4096.
    pub depth_limit: u32,
    /// Record the first image only.
    pub no_follow: bool,
    /// Follow frame pointers where code has no unwind information.
    pub frame_pointers: bool,
    /// Count calls, write no events.
    pub counts_only: bool,
    /// See [`Control::key`].
    pub key: u64,
}

/// The arena, mapped into the collector.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    /// Lanes that are mapped, from the first.
    mapped_lanes: usize,
    memory: OwnedFd,
    /// This mapping's maker holds the mutex that says that it lives.
    is_collector: bool,
}

// SAFETY: everything behind `base` is made of atomics (ring words are read as
// such too) and stays mapped for as long as the arena lives.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Makes an arena and marks the calling *thread* as the living collector:
    /// it must be the one that drains, for when it dies the recorded programs
    /// stop waiting.
    pub fn create(settings: Settings) -> io::Result<Self> {
        let memory =
            rustix::fs::memfd_create("allotrope", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&memory, ARENA_BYTES as u64)?;
        rustix::fs::fcntl_add_seals(
            &memory,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
        )?;
        let arena = Self::map(memory, true)?;
        let control = arena.control();
        control.key.store(settings.key, Relaxed);
        control.on_full.store(settings.on_full as u32, Relaxed);
        control
            .depth_limit
            .store(settings.depth_limit.clamp(1, 4096), Relaxed);
        control
            .no_follow
            .store(u32::from(settings.no_follow), Relaxed);
        control.lanes.store(arena.mapped_lanes as u32, Relaxed);
        control
            .frame_pointers
            .store(u32::from(settings.frame_pointers), Relaxed);
        control
            .counts_only
            .store(u32::from(settings.counts_only), Relaxed);
        control.version.store(layout::VERSION, Relaxed);
        arena.hold_alive_mutex()?;
        control.magic.store(layout::MAGIC, Release);
        Ok(arena)
    }

    /// Maps an arena that somebody else has made.
    #[cfg(feature = "test-support")]
    pub(crate) fn map_existing(memory: OwnedFd) -> io::Result<Self> {
        Self::map(memory, false)
    }

    fn map(memory: OwnedFd, is_collector: bool) -> io::Result<Self> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
        let mut mapped_lanes = layout::lanes_within(limit);
        let base = loop {
            // SAFETY: a fresh mapping chosen by the kernel overlaps nothing; the
            // seals keep the file from shrinking under it.
            let mapped = unsafe {
                rustix::mm::mmap(
                    std::ptr::null_mut(),
                    layout::bytes_with(mapped_lanes),
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::SHARED | MapFlags::NORESERVE,
                    &memory,
                    0,
                )
            };
            match (mapped, layout::fewer_lanes(mapped_lanes)) {
                (Ok(base), _) => break base,
                (Err(_), Some(fewer)) => mapped_lanes = fewer,
                (Err(error), None) => return Err(error.into()),
            }
        };
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| io::Error::other("the arena was mapped at address 0"))?;
        Ok(Self {
            base,
            mapped_lanes,
            memory,
            is_collector,
        })
    }

    /// The descriptor that recorders map, for `/proc/PID/fd` or `SCM_RIGHTS`.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    fn at<T>(&self, offset: usize) -> &T {
        debug_assert!(offset + size_of::<T>() <= layout::bytes_with(self.mapped_lanes));
        // SAFETY: offsets come from `layout`, whose structures are aligned,
        // lie within the mapping and consist of atomics, for which every bit
        // pattern is valid and shared writing by another process is sound.
        unsafe { &*self.base.as_ptr().add(offset).cast::<T>() }
    }

    /// The control page.
    pub fn control(&self) -> &Control {
        self.at(layout::CONTROL_OFFSET)
    }

    /// The page that both sides write.
    pub fn shared(&self) -> &Shared {
        self.at(layout::SHARED_OFFSET)
    }

    /// The image slots.
    pub fn images(&self) -> &[ImageSlot; IMAGES] {
        self.at(layout::IMAGES_OFFSET)
    }

    /// How many lanes, from the first, have rings that can be read.
    pub fn mapped_lanes(&self) -> usize {
        self.mapped_lanes
    }

    /// The lanes.
    pub fn lanes(&self) -> &[Lane; LANES] {
        self.at(layout::LANES_OFFSET)
    }

    /// What was counted in each lane.
    pub fn counters(&self) -> &[Counters; LANES] {
        self.at(layout::COUNTERS_OFFSET)
    }

    fn ring(&self, lane: usize) -> &[AtomicU64; RING_WORDS + OVERFLOW_WORDS] {
        let mapped = self.mapped_lanes;
        assert!(lane < mapped, "lane {lane} of {mapped}");
        self.at(RINGS_OFFSET + lane * RING_STRIDE)
    }

    /// Appends to `into` the words of `lane` from position `from` up to
    /// `to`, at most up to the end of the ring and its overflow: the caller
    /// goes on at the position after the last whole event. `from` must not be
    /// more than a ring behind `to`.
    pub fn copy_words(&self, lane: usize, from: u64, to: u64, into: &mut Vec<u64>) {
        let ring = self.ring(lane);
        let start = (from % RING_WORDS as u64) as usize;
        let wanted = (to - from) as usize;
        let end = (start + wanted).min(ring.len());
        into.extend(ring[start..end].iter().map(|word| word.load(Relaxed)));
    }

    /// Stores an event's words at `position`, as a producer does.
    #[cfg(feature = "test-support")]
    pub(crate) fn put_words(&self, lane: usize, position: u64, words: &[u64]) {
        let start = (position % RING_WORDS as u64) as usize;
        for (place, word) in self.ring(lane)[start..].iter().zip(words) {
            place.store(*word, Relaxed);
        }
    }

    /// Gives the words below `read` back to the producer and wakes it if it waits.
    pub fn release(&self, lane: usize, read: u64) {
        let lane = &self.lanes()[lane];
        lane.read.store(read, Release);
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        if lane.waiting.load(Relaxed) != 0 {
            lane.space.fetch_add(1, Release);
            let _ = futex::wake(&lane.space, futex::Flags::empty(), u32::MAX >> 1);
        }
    }

    /// Tells the image in `slot` that it is known.
    pub fn acknowledge(&self, slot: usize) {
        let state = &self.images()[slot].state;
        state.store(layout::image_state::ACKNOWLEDGED, Release);
        let _ = futex::wake(state, futex::Flags::empty(), u32::MAX >> 1);
    }

    /// Frees a lane whose image has ended and whose words and counters have
    /// all been read.
    pub fn free_lane(&self, index: usize) {
        let lane = &self.lanes()[index];
        if self.control().counts_only.load(Relaxed) != 0 {
            for entry in self.counters()[index].all() {
                entry.allocations.store(0, Relaxed);
                entry.allocated_bytes.store(0, Relaxed);
                entry.deallocations.store(0, Relaxed);
                entry.reallocations.store(0, Relaxed);
            }
        }
        lane.tid.store(0, Relaxed);
        lane.waiting.store(0, Relaxed);
        lane.read.store(lane.written.load(Relaxed), Relaxed);
        lane.owner.store(0, Release);
    }

    /// Frees an image slot.
    pub fn free_image(&self, slot: usize) {
        let image = &self.images()[slot];
        for lost in &image.lost {
            lost.store(0, Relaxed);
        }
        image.pid.store(0, Relaxed);
        image.state.store(layout::image_state::FREE, Release);
    }

    /// Gives every remark that waits to `hear`: the process id, what is said
    /// and the path, none of which is to be believed. `heard` is the count of
    /// remarks at the last call.
    pub fn hear_remarks(&self, heard: &mut u32, mut hear: impl FnMut(u32, u32, Vec<u8>)) {
        let made = self.shared().remarks.load(Acquire);
        if made == *heard {
            return;
        }
        *heard = made;
        for remark in self.remarks() {
            if remark.state.load(Acquire) != layout::remark_state::READY {
                continue;
            }
            let length = (remark.length.load(Relaxed) as usize).min(layout::REMARK_PATH);
            let bytes = remark.path.iter();
            let bytes = bytes.flat_map(|word| word.load(Relaxed).to_le_bytes());
            let path = bytes.take(length).collect();
            let (pid, what) = (remark.pid.load(Relaxed), remark.what.load(Relaxed));
            remark.state.store(layout::remark_state::FREE, Release);
            hear(pid, what, path);
        }
    }

    /// The remarks.
    pub fn remarks(&self) -> &[Remark; REMARKS] {
        self.at(layout::REMARKS_OFFSET)
    }

    /// Sleeps until a target rings or `timeout` has passed. `seen` is the
    /// doorbell's value before the caller last looked at the lanes.
    pub fn sleep(&self, seen: u32, timeout: Duration) {
        let shared = self.shared();
        shared.sleeping.store(1, Relaxed);
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        if shared.doorbell.load(Acquire) == seen {
            let timeout = futex::Timespec {
                tv_sec: timeout.as_secs() as i64,
                tv_nsec: i64::from(timeout.subsec_nanos()),
            };
            let _ = futex::wait(
                &shared.doorbell,
                futex::Flags::empty(),
                seen,
                Some(&timeout),
            );
        }
        shared.sleeping.store(0, Relaxed);
    }

    /// Moves the coarse clock on, so that every busy thread marks the time.
    /// Gives its new value, which is never 0.
    pub fn tick(&self) -> u32 {
        let word = &self.control().clock;
        let clock = (word.load(Relaxed) as u32).wrapping_add(1).max(1);
        word.store(clock.into(), Release);
        clock
    }

    /// Tells every recorder to stop and wakes those that wait.
    pub fn stop(&self) {
        self.control().stopped.store(1, Release);
        self.tick();
        for lane in self.lanes() {
            if lane.waiting.load(Acquire) != 0 {
                lane.space.fetch_add(1, Release);
                let _ = futex::wake(&lane.space, futex::Flags::empty(), u32::MAX >> 1);
            }
        }
    }

    fn hold_alive_mutex(&self) -> io::Result<()> {
        let words: &[AtomicU32; 16] = &self.control().collector_alive;
        const { assert!(size_of::<libc::pthread_mutex_t>() <= 64) };
        let mutex = words.as_ptr().cast_mut().cast::<libc::pthread_mutex_t>();
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let check = |error: libc::c_int| match error {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        };
        // SAFETY: the mutex lies in the control page (64 bytes, 64-aligned),
        // is initialised once, here, before anybody else knows the arena, and
        // stays mapped until this process ends: the kernel finds it through
        // this thread's robust list when the thread dies.
        unsafe {
            let attributes = attributes.as_mut_ptr();
            check(libc::pthread_mutexattr_init(attributes))?;
            check(libc::pthread_mutexattr_setpshared(
                attributes,
                libc::PTHREAD_PROCESS_SHARED,
            ))?;
            check(libc::pthread_mutexattr_setrobust(
                attributes,
                libc::PTHREAD_MUTEX_ROBUST,
            ))?;
            check(libc::pthread_mutex_init(mutex, attributes))?;
            check(libc::pthread_mutex_lock(mutex))?;
        }
        Ok(())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // The mutex leaves this thread's robust list before it is unmapped;
        // to recorders an unlocked mutex means that the collector is gone.
        let mutex = self.control().collector_alive.as_ptr().cast_mut();
        // SAFETY: initialised and locked in `create`; the mapping is ours and
        // nothing borrows from it any more.
        unsafe {
            if self.is_collector {
                libc::pthread_mutex_unlock(mutex.cast::<libc::pthread_mutex_t>());
            }
            let _ = rustix::mm::munmap(
                self.base.as_ptr().cast(),
                layout::bytes_with(self.mapped_lanes),
            );
        }
    }
}

/// The time stamp counter, the clock of a recording's ticks.
#[inline]
pub fn tick_now() -> u64 {
    // SAFETY: `rdtsc` has no preconditions on x86-64.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena() -> Arena {
        Arena::create(Settings {
            on_full: OnFull::Block,
            depth_limit: 4096,
            no_follow: false,
            frame_pointers: false,
            counts_only: false,
            key: 7,
        })
        .unwrap()
    }

    #[test]
    fn a_new_arena_says_that_its_collector_lives() {
        let arena = arena();
        let futex = arena.control().collector_alive[0].load(Relaxed);
        assert_ne!(futex, 0, "held");
        assert_eq!(futex & layout::OWNER_DIED, 0);
        assert_eq!(arena.control().magic.load(Relaxed), layout::MAGIC);
    }

    #[test]
    fn words_near_the_end_of_a_ring_come_with_their_overflow() {
        let arena = arena();
        let from = RING_WORDS as u64 * 3 - 1;
        let ring = arena.ring(5);
        ring[RING_WORDS - 1].store(11, Relaxed);
        ring[RING_WORDS].store(22, Relaxed);
        let mut words = Vec::new();
        arena.copy_words(5, from, from + 2, &mut words);
        assert_eq!(words, [11, 22]);
    }

    #[test]
    fn the_clock_is_never_0_and_keeps_to_its_half() {
        let arena = arena();
        arena.control().clock.store(u64::from(u32::MAX), Relaxed);
        assert_eq!(arena.tick(), 1, "0 stands for an unknown clock");
        assert_eq!(arena.control().clock.load(Relaxed), 1);
    }
}
