//! The arena in this process: finds its files, maps the tables, and maps the
//! regions of rings when they are needed.
//!
//! A program may limit its address space, or lock all of its memory, at any
//! time: so what is mapped follows what is used. No descriptor stays open; a
//! region that is needed later is reached from one that is mapped already, for
//! `mremap(2)` with an old size of 0 makes a second mapping of shared memory
//! that may reach further into the file.

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use allotrope_shm::layout::Slots;
use allotrope_shm::layout::{
    self, ARENA_BYTES, CONTROL_BYTES, Control, Counters, Diagnostic, ImageSlot, InSharedMemory,
    PAGE, Progress, REGION_BYTES, RING_OFFSET, RINGS, RingHeader, Shared, TABLES_BYTES,
};
use allotrope_shm::location::Location;
use allotrope_shm::ring::{ArenaRing, Ring};

use crate::state::arena_client;
use crate::sys::digits::Digits;
use crate::sys::kernel::Advice;
use crate::sys::mapping::{Mapping, PrivateMemory};
use crate::sys::system::{self, Descriptor};

/// The arena's tables, the control file before them; null until it is found.
static TABLES: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// Region of each ring; null where it is not mapped. Written under the process
/// lock, or before other threads know of the arena.
static REGIONS: [AtomicPtr<u8>; RINGS] = [const { AtomicPtr::new(ptr::null_mut()) }; RINGS];

/// Smallest number of regions that are mapped at once.
const BATCH: usize = 4;
/// Largest number of regions that are mapped at once.
const MAX_BATCH: usize = 64;

/// Whether the arena is mapped.
pub fn is_mapped() -> bool {
    !TABLES.load(Relaxed).is_null()
}

/// A structure in a part of the arena: the tables or a region. `None` if the part, whose
/// lowest address this is, is not mapped.
#[inline(always)]
fn within<T: InSharedMemory>(part: *const u8, offset: usize) -> Option<&'static T> {
    // SAFETY: the callers are all in this file: `layout` places a structure of this type
    // at this offset of the part. What is mapped stays so, but for the tables of another
    // recording, which `map` uses no more after it has unmapped them.
    (!part.is_null()).then(|| unsafe { &*part.add(offset).cast::<T>() })
}

/// A structure among the tables.
#[inline(always)]
fn at<T: InSharedMemory>(offset: usize) -> &'static T {
    match within(TABLES.load(Relaxed), offset) {
        Some(structure) => structure,
        None => system::abort(),
    }
}

/// The control page. This and what follows is only asked for once the arena is mapped.
#[inline(always)]
pub fn control() -> &'static Control {
    at(layout::CONTROL_OFFSET)
}

/// The page that both sides write.
pub fn shared() -> &'static Shared {
    at(layout::SHARED_OFFSET)
}

/// All image slots.
pub fn slots() -> &'static [ImageSlot; layout::IMAGES] {
    at(layout::IMAGES_OFFSET)
}

/// The slots for diagnostics.
pub fn diagnostics() -> &'static [Diagnostic; layout::DIAGNOSTICS] {
    at(layout::DIAGNOSTICS_OFFSET)
}

/// All rings, those of other images too.
pub fn rings() -> &'static [RingHeader; RINGS] {
    at(layout::RINGS_OFFSET)
}

/// The addresses of the tables, and of a ring's region, in this process; 0: not mapped.
pub fn addresses(ring: usize) -> [u64; 2] {
    let tables = TABLES.load(Relaxed) as u64;
    [tables, REGIONS[ring % RINGS].load(Relaxed) as u64]
}

/// How far the collector has read a ring.
fn progress(ring: usize) -> &'static Progress {
    &at::<[Progress; RINGS]>(layout::PROGRESS_OFFSET)[ring % RINGS]
}

/// A ring; `None` if its region is not mapped.
pub fn ring(index: usize) -> Option<Ring<'static, ArenaRing>> {
    Some(Ring {
        header: &rings()[index % RINGS],
        progress: progress(index),
        slots: within::<Slots>(REGIONS[index % RINGS].load(Relaxed), RING_OFFSET)?,
    })
}

/// What is counted in a ring; `None` if its region is not mapped.
pub fn counters(ring: u32) -> Option<&'static Counters> {
    within(REGIONS[ring as usize % RINGS].load(Relaxed), 0)
}

/// Commits the page with a ring's counters: memory that is short must show here.
/// `false` if it is, or if the region is not mapped.
pub fn reserve_counters(ring: usize) -> bool {
    let region = REGIONS[ring % RINGS].load(Relaxed);
    !region.is_null() && system::populate(region, RING_OFFSET)
}

/// Maps the arena at `location`, and some rings that are free now. `false`: it
/// is not there, or not for us. Unless `may_be_others`, that is any but one of this
/// user's or root's: a child of a setuid program has an environment that another user
/// chose, and the recorder too if /etc/ld.so.preload names it.
pub fn map(location: &Location, may_be_others: bool) -> bool {
    let Some(files) = Files::find(location) else {
        return false;
    };
    if !may_be_others && !files.are_own() {
        return false;
    }
    let Some(tables) = files.map_tables() else {
        return false;
    };
    let control = within::<Control>(tables.start(), layout::CONTROL_OFFSET);
    let shared = within::<Shared>(tables.start(), layout::SHARED_OFFSET);
    let (Some(control), Some(shared)) = (control, shared) else {
        return false;
    };
    if control.magic.load(Acquire) != layout::MAGIC
        || control.version.load(Relaxed) != layout::VERSION
        || control.key.load(Relaxed) != location.key()
    {
        return false;
    }
    tables.advise(Advice::DontDump);
    TABLES.store(tables.leak(), Relaxed);
    let hint = shared.ring_hint.fetch_add(BATCH as u32, Relaxed) as usize;
    let first = free_ring(hint).unwrap_or(0);
    let count = BATCH.min(RINGS - first);
    let offset = layout::region_offset(first);
    let memory = files.memory.number();
    if let Some(regions) = Mapping::shared(memory, offset, count * REGION_BYTES) {
        regions.advise(Advice::DontDump);
        note_regions(first, count, regions.leak());
    }
    true
}

/// Maps tables that are the process's own, for one that is not recorded: what
/// the rest of the recorder asks of an arena, it finds empty there, and what it writes
/// nobody reads.
pub fn map_private() -> bool {
    let Some(tables) = PrivateMemory::new(TABLES_BYTES) else {
        return false;
    };
    tables.advise(Advice::DontDump);
    TABLES.store(tables.leak(), Relaxed);
    true
}

/// The arena's two files, open.
struct Files {
    memory: Descriptor,
    control: Descriptor,
}

impl Files {
    /// Opens the files from the collector's `/proc/PID/fd`, or if that is closed to us (another
    /// user id), or shows another process (another pid namespace), from its socket.
    fn find(location: &Location) -> Option<Self> {
        Self::open(location).or_else(|| {
            let [memory, control] = arena_client::receive(location)?;
            Self::check(memory, control)
        })
    }

    fn open(location: &Location) -> Option<Self> {
        let open = |descriptor: u32, flags| {
            let mut path = [0u8; 64];
            let mut writer = Digits {
                bytes: &mut path,
                used: 0,
            };
            writer.text(b"/proc/");
            writer.number(location.process.into());
            writer.text(b"/fd/");
            writer.number(descriptor.into());
            // If it is something else by now, opening it does nothing to it.
            let path = CStr::from_bytes_until_nul(&path).ok()?;
            Descriptor::open(path, flags | libc::O_NONBLOCK | libc::O_NOCTTY)
        };
        let control = open(location.control, libc::O_RDONLY)?;
        Self::check(open(location.arena, libc::O_RDWR)?, control)
    }

    /// Files that can shrink while they are mapped would end the program with
    /// SIGBUS: wherever they come from, they must be sealed.
    fn check(memory: Descriptor, control: Descriptor) -> Option<Self> {
        let fits = |file: &Descriptor, bytes: usize| {
            system::seals(file.number()) & libc::F_SEAL_SHRINK != 0
                && system::status_of(file.number()).is_some_and(|it| it.st_size >= bytes as i64)
        };
        (fits(&memory, ARENA_BYTES) && fits(&control, CONTROL_BYTES))
            .then_some(Self { memory, control })
    }

    /// Whether both belong to this user or to root.
    fn are_own(&self) -> bool {
        let own = [0, system::effective_user()];
        let owner = |file: &Descriptor| system::status_of(file.number()).map(|it| it.st_uid);
        [&self.memory, &self.control]
            .into_iter()
            .all(|file| owner(file).is_some_and(|owner| own.contains(&owner)))
    }

    /// Maps the tables with the control file in their first pages' place.
    fn map_tables(&self) -> Option<Mapping> {
        let mut tables = Mapping::shared(self.memory.number(), 0, TABLES_BYTES)?;
        let control = self.control.number();
        tables
            .replace_start(control, CONTROL_BYTES)
            .then_some(tables)
    }
}

fn is_free(ring: usize) -> bool {
    rings()[ring].owner.load(Relaxed) == 0
}

/// The first free ring from `from` on, round the table.
fn free_ring(from: usize) -> Option<usize> {
    let order = (0..RINGS).map(|step| (from + step) % RINGS);
    order.into_iter().find(|&ring| is_free(ring))
}

/// Claims a free ring for `owner`, and maps its region: one whose region is
/// mapped already, or else the next one in the file. The process lock is held.
pub fn claim_ring(owner: u32) -> Result<usize, Refusal> {
    let is_mapped = |ring: &usize| !REGIONS[*ring].load(Relaxed).is_null();
    if let Some(ring) = (0..RINGS).filter(is_mapped).find(|&it| claim(it, owner)) {
        return Ok(ring);
    }
    let after = (0..RINGS).rfind(is_mapped).map_or(0, |last| last + 1);
    let order = (0..RINGS).map(|step| (after + step) % RINGS);
    let ring = order
        .filter(|ring| !is_mapped(ring))
        .find(|&it| claim(it, owner))
        .ok_or(Refusal::NoRing)?;
    if map_regions(ring) {
        return Ok(ring);
    }
    rings()[ring].owner.store(0, Relaxed);
    Err(Refusal::NoMemory)
}

/// Why no ring could be claimed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// All are taken.
    NoRing,
    /// The region could not be mapped.
    NoMemory,
}

fn claim(index: usize, owner: u32) -> bool {
    let ring = &rings()[index];
    if ring.owner.load(Relaxed) != 0
        || ring
            .owner
            .compare_exchange(0, owner, Acquire, Relaxed)
            .is_err()
    {
        return false;
    }
    let written = ring.written.load(Relaxed);
    if written <= layout::MAX_POSITION && progress(index).read.load(Relaxed) == written {
        return true;
    }
    // Some other program of the recording has written there what it likes.
    ring.owner.store(0, Relaxed);
    false
}

/// Maps the regions of `first` and of some rings behind it.
#[cold]
fn map_regions(first: usize) -> bool {
    let mapped = REGIONS
        .iter()
        .filter(|it| !it.load(Relaxed).is_null())
        .count();
    let wanted = (mapped / 2).clamp(BATCH, MAX_BATCH);
    let behind = REGIONS[first..].iter().take(wanted);
    let count = behind.take_while(|it| it.load(Relaxed).is_null()).count();
    map_some_regions(first, count) || map_some_regions(first, 1)
}

fn map_some_regions(first: usize, count: usize) -> bool {
    // From the last page before it in the file that is mapped here.
    let before = (0..first).rfind(|&ring| !REGIONS[ring].load(Relaxed).is_null());
    let (page, between) = match before {
        Some(ring) => {
            let end = REGIONS[ring].load(Relaxed).wrapping_add(REGION_BYTES);
            (end.wrapping_sub(PAGE), first - ring - 1)
        }
        None => {
            let end = TABLES.load(Relaxed).wrapping_add(TABLES_BYTES);
            (end.wrapping_sub(PAGE), first)
        }
    };
    let skipped = PAGE + between * REGION_BYTES;
    let Some(mapped) = Mapping::again(page, skipped + count * REGION_BYTES) else {
        return false;
    };
    note_regions(first, count, mapped.without_start(skipped).leak());
    true
}

fn note_regions(first: usize, count: usize, at: *mut u8) {
    for (index, region) in REGIONS[first..first + count].iter().enumerate() {
        region.store(at.wrapping_add(index * REGION_BYTES), Relaxed);
    }
}
