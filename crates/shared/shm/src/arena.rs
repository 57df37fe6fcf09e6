//! The collector's side of the shared memory: creates the arena's two files, maps them,
//! and gives safe access to the structures in them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;

use crate::layout::Slots;
use crate::layout::{
    self, ARENA_BYTES, CONTROL_BYTES, Control, Counters, DIAGNOSTICS, Diagnostic, IMAGES,
    ImageSlot, InSharedMemory, OnFull, Progress, REGION_BYTES, RING_OFFSET, RINGS, RingHeader,
    Shared, TABLES_BYTES,
};
use crate::liveness::Liveness;
#[cfg(feature = "test-support")]
use crate::ring::Ring;
use crate::ring::{ArenaRing, Reader};

/// How recorders of this arena behave.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// What a recorder does when its ring is full.
    pub on_full: OnFull,
    /// Largest number of frames of a stack, 1 to 4096.
    pub depth_limit: u32,
    /// Record the first image only.
    pub no_follow: bool,
    /// Unwind by frame pointers where code has no unwind information.
    pub frame_pointers: bool,
    /// Count calls, write no events.
    pub counts_only: bool,
    /// Record the stacks of deallocations, too.
    pub free_stacks: bool,
    /// Look at the exit for blocks to which nothing leads.
    pub reachability: bool,
    /// See [`Control::filters`].
    pub filters: u32,
    /// See [`Control::key`].
    pub key: u64,
}

/// A mapping of shared memory; dropping it unmaps the memory.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory behind `base` is accessed only as atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of a memfd from `offset` on, writable.
    fn new(file: &OwnedFd, offset: usize, bytes: usize) -> io::Result<Self> {
        Self::with(file, offset, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn with(
        file: &OwnedFd,
        offset: usize,
        bytes: usize,
        protection: ProtFlags,
    ) -> io::Result<Self> {
        // SAFETY: a fresh mapping chosen by the kernel overlaps nothing; the
        // seals keep the file from shrinking under it.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file,
                offset as u64,
            )
        }?;
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| io::Error::other("shared memory was mapped at address 0"))?;
        Ok(Self { base, bytes })
    }

    /// What lies at `offset`.
    fn at<T: InSharedMemory>(&self, offset: usize) -> &T {
        assert!(offset + size_of::<T>() <= self.bytes && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: within the mapping, which begins with a page, and aligned; by its trait
        // any bits are a `T`, whoever writes them and when.
        unsafe { &*self.base.as_ptr().add(offset).cast::<T>() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by `new`; nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// The arena, mapped into the collector.
///
/// The collector's own state is not in shared memory. From memory that a recorded
/// program can write, only the programs' reports are read; from the control file,
/// nothing.
#[derive(Debug)]
pub struct Arena {
    /// Shows recorders that the collector lives. Must be dropped before `control`.
    liveness: Option<Liveness>,
    control: Mapping,
    tables: Mapping,
    /// The regions of rings, each mapped when it is first needed.
    regions: Box<[OnceLock<Mapping>; RINGS]>,
    memory: OwnedFd,
    control_memory: OwnedFd,
    /// The last value of the coarse clock.
    clock: AtomicU32,
    counts_only: bool,
}

/// Forbids writes except by mappings that exist already. Kernels before 5.1 do not
/// support it.
const READ_ONLY_FOR_OTHERS: SealFlags = SealFlags::FUTURE_WRITE;

/// A memfd whose size is sealed.
fn sealed_file(bytes: usize) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("allotrope", flags)?;
    rustix::fs::ftruncate(&memory, bytes as u64)?;
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(memory)
}

impl Arena {
    /// Creates an arena. Recorders see the collector as alive until the arena is dropped
    /// or the process ends.
    ///
    /// # Errors
    /// If the files cannot be created, sealed or mapped, or no thread can be started.
    pub fn create(settings: Settings) -> io::Result<Self> {
        let memory = sealed_file(ARENA_BYTES)?;
        rustix::fs::fcntl_add_seals(&memory, SealFlags::SEAL)?;
        let control_memory = sealed_file(CONTROL_BYTES)?;
        let mut arena = Self::map(memory, control_memory, settings.counts_only)?;
        // The existing mapping stays writable; no further one can be.
        let _ = rustix::fs::fcntl_add_seals(&arena.control_memory, READ_ONLY_FOR_OTHERS);
        rustix::fs::fcntl_add_seals(&arena.control_memory, SealFlags::SEAL)?;
        let control = arena.control();
        control.key.store(settings.key, Relaxed);
        control.on_full.store(settings.on_full as u32, Relaxed);
        control
            .depth_limit
            .store(settings.depth_limit.clamp(1, 4096), Relaxed);
        control
            .no_follow
            .store(u32::from(settings.no_follow), Relaxed);
        control
            .frame_pointers
            .store(u32::from(settings.frame_pointers), Relaxed);
        control
            .counts_only
            .store(u32::from(settings.counts_only), Relaxed);
        control
            .free_stacks
            .store(u32::from(settings.free_stacks), Relaxed);
        control
            .reachability
            .store(u32::from(settings.reachability), Relaxed);
        control.filters.store(settings.filters, Relaxed);
        control.version.store(layout::VERSION, Relaxed);
        let word = &raw const control.collector_alive;
        // SAFETY: the control file is unmapped when `arena` is dropped, after
        // `liveness`, its first field.
        arena.liveness = Some(unsafe { Liveness::begin(word) }?);
        arena.control().magic.store(layout::MAGIC, Release);
        Ok(arena)
    }

    fn map(memory: OwnedFd, control_memory: OwnedFd, counts_only: bool) -> io::Result<Self> {
        let control = Mapping::new(&control_memory, 0, CONTROL_BYTES)?;
        Self::with(memory, control_memory, control, counts_only)
    }

    fn with(
        memory: OwnedFd,
        control_memory: OwnedFd,
        control: Mapping,
        counts_only: bool,
    ) -> io::Result<Self> {
        Ok(Self {
            liveness: None,
            control,
            tables: Mapping::new(&memory, 0, TABLES_BYTES)?,
            regions: Box::new([const { OnceLock::new() }; RINGS]),
            memory,
            control_memory,
            clock: AtomicU32::new(0),
            counts_only,
        })
    }

    /// Maps the two files of an existing arena, as a recorder does: the control file
    /// read-only.
    #[cfg(feature = "test-support")]
    pub(crate) fn map_existing(memory: OwnedFd, control_memory: OwnedFd) -> io::Result<Self> {
        let control = Mapping::with(&control_memory, 0, CONTROL_BYTES, ProtFlags::READ)?;
        Self::with(memory, control_memory, control, false)
    }

    /// The descriptor of the arena file, which recorders map.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// The descriptor of the control file, which recorders map for reading.
    pub fn control_memory(&self) -> BorrowedFd<'_> {
        self.control_memory.as_fd()
    }

    /// The control page.
    pub fn control(&self) -> &Control {
        self.control.at(layout::CONTROL_OFFSET)
    }

    /// The page that both sides write.
    pub fn shared(&self) -> &Shared {
        self.tables.at(layout::SHARED_OFFSET)
    }

    /// The image slots.
    pub fn images(&self) -> &[ImageSlot; IMAGES] {
        self.tables.at(layout::IMAGES_OFFSET)
    }

    /// How far each ring was read.
    pub fn progress(&self) -> &[Progress; RINGS] {
        self.control.at(layout::PROGRESS_OFFSET)
    }

    /// The rings' headers.
    pub fn rings(&self) -> &[RingHeader; RINGS] {
        self.tables.at(layout::RINGS_OFFSET)
    }

    /// A ring's region, mapped when it is first needed.
    fn region(&self, ring: usize) -> io::Result<&Mapping> {
        let region = &self.regions[ring];
        if let Some(mapping) = region.get() {
            return Ok(mapping);
        }
        let mapping = Mapping::new(&self.memory, layout::region_offset(ring), REGION_BYTES)?;
        Ok(region.get_or_init(|| mapping))
    }

    /// A ring's counters.
    ///
    /// # Errors
    /// If the ring's memory cannot be mapped.
    pub fn counters(&self, ring: usize) -> io::Result<&Counters> {
        Ok(self.region(ring)?.at(0))
    }

    fn slots(&self, ring: usize) -> io::Result<&Slots> {
        Ok(self.region(ring)?.at(RING_OFFSET))
    }

    /// Appends to `into` at most `most` of the words of `ring` between the reader and
    /// the position `published`. Events begin only in the first words, whose number is
    /// returned, see [`Reader::copy`].
    ///
    /// # Errors
    /// If the ring's memory cannot be mapped.
    pub fn copy_words(
        &self,
        ring: usize,
        reader: &Reader,
        published: u64,
        most: usize,
        into: &mut Vec<u64>,
    ) -> io::Result<usize> {
        Ok(reader.copy::<ArenaRing>(self.slots(ring)?, published, most, into))
    }

    /// A ring, to write to.
    #[cfg(feature = "test-support")]
    pub(crate) fn ring(&self, ring: usize) -> io::Result<Ring<'_, ArenaRing>> {
        Ok(Ring {
            header: &self.rings()[ring],
            progress: &self.progress()[ring],
            slots: self.slots(ring)?,
        })
    }

    /// The word at an offset in the arena file.
    #[cfg(feature = "test-support")]
    pub(crate) fn word(&self, offset: usize) -> &std::sync::atomic::AtomicU64 {
        let offset = offset & !7;
        let Some(behind) = offset.checked_sub(TABLES_BYTES) else {
            return self.tables.at(offset);
        };
        let region = self.region(behind / REGION_BYTES);
        let region = region.expect("a ring's memory can be mapped");
        region.at(behind % REGION_BYTES)
    }

    /// Advances the reader of a ring to position `to`: the producer may overwrite the
    /// words below it, and is woken if it waits for space.
    pub fn release(&self, ring: usize, reader: &mut Reader, to: u64) {
        reader.release(to, &self.rings()[ring], &self.progress()[ring], wake_all);
    }

    /// Lets the image in `slot`, which waits to be attached, continue.
    pub fn acknowledge(&self, slot: usize) {
        let state = &self.images()[slot].state;
        state.store(layout::image_state::ACKNOWLEDGED, Release);
        wake_all(state);
    }

    /// Frees a ring whose image has ended, and sets its counters to 0. They must have
    /// been read, as well as its words up to the position `read`, at which the next
    /// owner begins.
    pub fn free_ring(&self, index: usize, read: u64) {
        let ring = &self.rings()[index];
        if self.counts_only
            && let Ok(counters) = self.counters(index)
        {
            for entry in counters.all() {
                entry.allocations.store(0, Relaxed);
                entry.allocated_bytes.store(0, Relaxed);
                entry.deallocations.store(0, Relaxed);
                entry.reallocations.store(0, Relaxed);
            }
        }
        ring.tid.store(0, Relaxed);
        ring.waiting.store(0, Relaxed);
        ring.written.store(read, Relaxed);
        self.progress()[index].read.store(read, Relaxed);
        ring.owner.store(0, Release);
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

    /// Calls `each` with the process id, the reason's number and the path of every
    /// posted diagnostic, and frees it. The values are not checked. `last_count` is the
    /// count of diagnostics at the last call.
    pub fn read_diagnostics(&self, last_count: &mut u32, mut each: impl FnMut(u32, u32, Vec<u8>)) {
        let count = self.shared().diagnostics.load(Acquire);
        if count == *last_count {
            return;
        }
        *last_count = count;
        for diagnostic in self.diagnostics() {
            if diagnostic.state.load(Acquire) != layout::diagnostic_state::READY {
                continue;
            }
            let length = (diagnostic.length.load(Relaxed) as usize).min(layout::DIAGNOSTIC_PATH);
            let bytes = diagnostic.path.iter();
            let bytes = bytes.flat_map(|word| word.load(Relaxed).to_le_bytes());
            let path = bytes.take(length).collect();
            let (pid, what) = (diagnostic.pid.load(Relaxed), diagnostic.what.load(Relaxed));
            diagnostic
                .state
                .store(layout::diagnostic_state::FREE, Release);
            each(pid, what, path);
        }
    }

    /// The diagnostics.
    pub fn diagnostics(&self) -> &[Diagnostic; DIAGNOSTICS] {
        self.tables.at(layout::DIAGNOSTICS_OFFSET)
    }

    /// Sleeps until a recorded program rings the doorbell or `timeout` has passed.
    /// `seen` is the doorbell's count before the caller last read the rings.
    pub fn sleep(&self, seen: u32, timeout: Duration) {
        let timeout = futex::Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        self.shared().doorbell.sleep(seen, |word| {
            let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&timeout));
        });
    }

    /// Advances the coarse clock, so that every busy thread that uses it writes a
    /// timestamp. Returns the new value, which is never 0.
    pub fn tick(&self) -> u32 {
        let clock = self.clock.load(Relaxed).wrapping_add(1).max(1);
        self.clock.store(clock, Relaxed);
        self.control().clock.store(clock.into(), Release);
        clock
    }

    /// Stops the recording: recorders write no more, and those that wait are woken.
    pub fn stop(&self) {
        self.control().stopped.store(1, Release);
        self.tick();
        for (ring, progress) in self.rings().iter().zip(self.progress()) {
            if ring.waiting.load(Acquire) != 0 {
                progress.wake(wake_all);
            }
        }
    }
}

/// Wakes all that sleep on a futex.
fn wake_all(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
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
    use crate::layout::RING_WORDS;

    fn arena() -> Arena {
        Arena::create(Settings {
            on_full: OnFull::Block,
            depth_limit: 4096,
            no_follow: false,
            frame_pointers: false,
            counts_only: false,
            free_stacks: false,
            reachability: false,
            filters: 0,
            key: 7,
        })
        .unwrap()
    }

    #[test]
    fn a_new_arena_shows_that_its_collector_lives() {
        let arena = arena();
        let alive = arena.control().collector_alive.load(Relaxed);
        assert_ne!(alive, 0);
        assert_eq!(alive & layout::OWNER_DIED, 0);
        assert_eq!(arena.control().magic.load(Relaxed), layout::MAGIC);
    }

    #[test]
    fn nobody_else_can_write_to_the_control_file_or_shrink_the_files() {
        let arena = arena();
        let seals = rustix::fs::fcntl_get_seals(arena.control_memory()).unwrap();
        if !seals.contains(READ_ONLY_FOR_OTHERS) {
            println!("skipped: this kernel can not seal against writing (it needs Linux 5.1)");
            return;
        }
        assert!(Mapping::new(&arena.control_memory, 0, CONTROL_BYTES).is_err());
        for (file, bytes) in [
            (arena.control_memory(), CONTROL_BYTES),
            (arena.memory(), ARENA_BYTES),
        ] {
            for bytes in [0, bytes * 2] {
                assert!(rustix::fs::ftruncate(file, bytes as u64).is_err());
            }
        }
        arena.tick();
        assert_eq!(arena.control().clock.load(Relaxed), 1);
    }

    #[test]
    fn words_near_the_end_of_a_ring_are_copied_with_their_overflow() {
        let arena = arena();
        let from = RING_WORDS as u64 * 3 - 1;
        let slots = arena.slots(5).unwrap();
        slots[RING_WORDS - 1].store(11, Relaxed);
        slots[RING_WORDS].store(22, Relaxed);
        let mut words = Vec::new();
        let reader = Reader::at(from);
        let starts_below = arena.copy_words(5, &reader, from + 2, 99, &mut words);
        assert_eq!(starts_below.unwrap(), 1, "no event begins in the overflow");
        assert_eq!(words, [11, 22]);
    }

    #[test]
    fn the_clock_is_never_0_and_leaves_the_upper_half_of_its_word_0() {
        let arena = arena();
        arena.clock.store(u32::MAX, Relaxed);
        assert_eq!(arena.tick(), 1, "0 stands for an unknown clock");
        assert_eq!(arena.control().clock.load(Relaxed), 1);
    }
}
