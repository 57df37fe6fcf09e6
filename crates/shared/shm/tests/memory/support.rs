//! A process with a memory, for tests.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use allotrope_sampling::Period;
use allotrope_shm::numbers::EntryPoint;
use allotrope_shm::samples::file::Mapped;
use allotrope_shm::samples::layout::{BYTES, Memory, NAME};
use allotrope_shm::samples::reader::State;
use allotrope_shm::samples::writer::{FirstAllocation, Host, Private, Process, Sample, Writer};
use rustix::fs::{MemfdFlags, Mode, SealFlags};

/// A new file, as a process makes it.
pub fn new_file() -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(NAME, flags).expect("memfd_create");
    rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR).expect("fchmod");
    rustix::fs::ftruncate(&file, BYTES as u64).expect("ftruncate");
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals).expect("seals");
    file
}

/// Commits every page, unless there is no memory any more.
#[derive(Default)]
pub struct Pages {
    pub are_exhausted: AtomicBool,
    /// What its clock says.
    pub now: AtomicU64,
}

impl Host for &Pages {
    fn commit(&self, _: usize) -> bool {
        !self.are_exhausted.load(Relaxed)
    }

    fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }
}

/// Tells threads that the test is done, also if it fails: it would wait for them for ever.
pub struct Done<'a>(pub &'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A process that is watched: its memory, and its private part.
pub struct TestProcess {
    pub file: OwnedFd,
    mapped: Mapped,
    private: Box<Private>,
    pub pages: Pages,
}

impl TestProcess {
    /// A process that is sampled with the usual period.
    pub fn new() -> Self {
        Self::begin(Some(Period::DEFAULT), false)
    }

    /// A process that nobody has chosen a period for.
    pub fn in_standby() -> Self {
        Self::begin(Some(Period::SPARSE), true)
    }

    /// A process that is not sampled.
    pub fn off() -> Self {
        Self::begin(None, false)
    }

    fn begin(period: Option<Period>, is_standby: bool) -> Self {
        let file = new_file();
        let watched = Self {
            mapped: Mapped::new(&file).expect("a mapping"),
            file,
            private: Box::default(),
            pages: Pages::default(),
        };
        let process = Process {
            id: std::process::id(),
            now: 1,
            real_now: 2,
            executable: b"/usr/bin/server",
            command: b"server\0--quiet\0",
            other_malloc: 16,
            next_malloc: 32,
            state_bytes: 64,
            is_standby,
        };
        Writer::begin(
            watched.memory(),
            &watched.private,
            &watched.pages,
            &process,
            period,
        )
        .expect("a writer");
        watched
    }

    pub fn memory(&self) -> &Memory {
        self.mapped.memory()
    }

    pub fn writer(&self) -> Writer<'_, &Pages> {
        Writer::resume(self.memory(), &self.private, &self.pages)
    }

    pub fn state(&self) -> State {
        State::read(self.memory()).expect("a state")
    }
}

/// A sample whose fields all follow from the address and a number.
pub fn sample(address: u64, number: u64) -> Sample {
    let mix = (address ^ number << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Sample {
        address,
        size: mix >> 8,
        period: Period::new((mix >> 30) + 1).expect("a period"),
        allocated: mix,
        stack: mix as u32,
        thread: number as u32,
        entry: EntryPoint::Calloc,
        first: (mix & 1 << 40 != 0).then_some(FirstAllocation {
            allocated: mix >> 3,
            stack: (mix >> 5) as u32,
        }),
    }
}

/// Whether a sample is one that [`sample`] has made.
pub fn is_whole(it: &Sample) -> bool {
    (0..1 << 20).contains(&it.thread) && *it == sample(it.address, it.thread.into())
}

/// Sorted by address.
pub fn sorted(mut samples: Vec<Sample>) -> Vec<Sample> {
    samples.sort_by_key(|it| it.address);
    samples
}
