//! Watched processes that a test plays: it makes their calls, and knows the truth.
#![allow(dead_code, reason = "each test uses a part")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use allotrope_sampling::Period;
use allotrope_sampling::countdown::Countdown;
use allotrope_sampling::exponential::Generator;
use allotrope_shm::mapped_file::FileIdentity;
use allotrope_shm::numbers::EntryPoint;
use allotrope_shm::samples::file::Mapped;
use allotrope_shm::samples::frees::Deallocation;
use allotrope_shm::samples::layout::{BYTES, NAME};
use allotrope_shm::samples::modules::Module;
use allotrope_shm::samples::reader::State;
use allotrope_shm::samples::stacks::Frame;
use allotrope_shm::samples::writer::{Host, Private, Process, Sample, Writer};
use allotrope_trace::model::Exit;
use allotrope_watch::sampled::write;
use allotrope_watch::snapshot::{Keys, Snapshot};
use rustix::fs::{MemfdFlags, Mode, SealFlags};

/// When a story's process begins, and when it is read, in nanoseconds.
pub const BEGAN: u64 = 1_000_000_000;
pub const READ: u64 = 4_000_000_000;

#[derive(Default)]
pub struct Pages {
    /// What the process's clock says.
    pub now: Cell<u64>,
}

impl Host for &Pages {
    fn commit(&self, _: usize) -> bool {
        true
    }

    fn now(&self) -> u64 {
        self.now.get()
    }
}

/// A watched process.
pub struct Story {
    mapped: Mapped,
    private: Box<Private>,
    countdown: Countdown,
    pub pages: Pages,
    /// By address: site and size.
    pub live: BTreeMap<u64, (u64, u64)>,
    /// Blocks and bytes.
    pub allocated: [u64; 2],
    pub freed: [u64; 2],
}

impl Story {
    /// A process `/opt/story/server` that is sampled with this period.
    pub fn new(seed: u64, period: Option<Period>) -> Self {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(NAME, flags).expect("memfd_create");
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR).expect("fchmod");
        rustix::fs::ftruncate(&file, BYTES as u64).expect("ftruncate");
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).expect("seals");
        let story = Self {
            mapped: Mapped::new(&file).expect("a mapping"),
            private: Box::default(),
            countdown: Countdown::new(Generator::seeded(&[seed, 7]), period),
            pages: Pages::default(),
            live: BTreeMap::new(),
            allocated: [0; 2],
            freed: [0; 2],
        };
        let process = Process {
            id: 77,
            now: BEGAN,
            real_now: 1_700_000_000_000_000_000,
            executable: b"/opt/story/server",
            command: b"server\0--quiet\0",
            other_malloc: 0,
            next_malloc: 0,
            state_bytes: 0,
            is_standby: false,
        };
        story.pages.now.set(BEGAN + 1);
        let memory = story.mapped.memory();
        let writer = Writer::begin(memory, &story.private, &story.pages, &process, period);
        let module = Module {
            start: 0x10_0000,
            end: 0x20_0000,
            bias: 0x10_0000,
            file: FileIdentity::default(),
            build_id: &[0xab, 0xcd],
            path: b"/opt/story/server",
        };
        assert!(writer.expect("a writer").map(0, &module, BEGAN));
        story
    }

    /// Allocates a block at a new address. A site's stack is `server+0x10SITE0` called by
    /// `server+0x20`.
    pub fn allocate(&mut self, site: u64, size: u64) -> u64 {
        let address = 16 * (1 + self.allocated[0]);
        let writer = Writer::resume(self.mapped.memory(), &self.private, &self.pages);
        if let Some(period) = self.countdown.allocate(size, || writer.setting()) {
            let frame = |offset| Frame {
                address: 0x10_0000 + offset,
                exact: false,
                mapping: 0,
            };
            let caller = writer.node(0, frame(0x20)).expect("a node");
            let stack = writer.node(caller, frame(0x1000 + 16 * site));
            writer.insert(&Sample {
                address,
                size,
                period,
                allocated: self.pages.now.get(),
                stack: stack.expect("a node"),
                thread: 1,
                entry: EntryPoint::Malloc,
                first: None,
            });
        }
        self.allocated[0] += 1;
        self.allocated[1] += size;
        self.live.insert(address, (site, size));
        address
    }

    pub fn free(&mut self, address: u64) {
        let (_, size) = self.live.remove(&address).expect("a live block");
        self.freed[0] += 1;
        self.freed[1] += size;
        let writer = Writer::resume(self.mapped.memory(), &self.private, &self.pages);
        if let Some(sample) = writer.take(address) {
            let deallocation = Deallocation {
                time: self.pages.now.get(),
                stack: 0,
                thread: 1,
            };
            writer.freed(&sample, deallocation);
        }
    }

    /// A watcher sets this period.
    pub fn set(&self, period: Option<Period>) {
        let setting = &self.mapped.memory().control.0.period;
        setting.store(period.map_or(0, Period::bytes), Relaxed);
    }

    pub fn live_bytes(&self) -> u64 {
        self.live.values().map(|(_, size)| size).sum()
    }

    pub fn state(&self) -> State {
        State::read(self.mapped.memory()).expect("a state")
    }
}

/// The snapshots of these processes, whose process ids are 101, 102, ….
pub fn snapshots(stories: &[&Story]) -> Vec<Snapshot> {
    let snapshot = |(process, story): (u32, &&Story)| {
        let mut snapshot = Snapshot::new(process, None, story.state(), &Keys::default());
        snapshot.time = READ;
        snapshot.parent = 1;
        snapshot.exit = Exit::Running;
        snapshot
    };
    (101..).zip(stories).map(snapshot).collect()
}

/// The sampled profile of these processes as a file.
pub fn saved(stories: &[&Story]) -> Vec<u8> {
    let mut saved = Vec::new();
    write(&mut saved, &snapshots(stories), None).expect("a saved profile");
    saved
}

/// Writes it to a file.
pub fn save_all(path: &Path, stories: &[&Story]) {
    std::fs::write(path, saved(stories)).expect("a file");
}

/// A block so much larger than the period that it is sampled for certain, and weighs 1.
pub const HUGE: u64 = 64 << 20;

/// 12 huge blocks of site 0, of which 2 are freed, and 3 of site 1.
pub fn huge_blocks() -> Story {
    let mut story = Story::new(1, Some(Period::DEFAULT));
    let addresses: Vec<u64> = (0..12).map(|_| story.allocate(0, HUGE)).collect();
    story.free(addresses[0]);
    story.free(addresses[5]);
    for _ in 0..3 {
        story.allocate(1, HUGE);
    }
    story
}
