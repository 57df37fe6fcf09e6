//! A memory with anything in it, also while it is read or written.

use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use allotrope_shm::numbers::stack_end;
use allotrope_shm::samples::file::{MapError, Mapped};
use allotrope_shm::samples::frees::Deallocation;
use allotrope_shm::samples::layout::{
    BUCKETS, BYTES, FREES, Header, MAGIC, MODULES, NODES, TOTALS, VERSION, WAYS,
};
use allotrope_shm::samples::reader::State;
use allotrope_shm::samples::stacks::Frame;
use proptest::prelude::*;
use rustix::fs::MemfdFlags;

use crate::support::{Done, TestProcess, new_file, sample};

/// Overwrites the memory through its file, from the header's end on, as another process may.
struct Scribbler<'a> {
    watched: &'a TestProcess,
    random: u64,
}

impl<'a> Scribbler<'a> {
    fn new(watched: &'a TestProcess, seed: u64) -> Self {
        Self {
            watched,
            random: seed,
        }
    }

    fn next(&mut self) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mixed = self.random ^ self.random >> 29;
        mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    /// A word that is often nearly right.
    fn word(&mut self) -> u64 {
        let random = self.next();
        match random % 8 {
            0 => 0,
            1 => random,
            2 => random >> 46,
            3 => random >> 50 | (random >> 20) << 32,
            4 => (random >> 30) * 16,
            5 => u64::MAX,
            6 => 1 << (random >> 58),
            _ => (random >> 45) | 3 << 32,
        }
    }

    fn write(&mut self, offset: u64, word: u64) {
        let written = rustix::io::pwrite(&self.watched.file, &word.to_le_bytes(), offset);
        assert_eq!(written, Ok(8));
    }

    /// Writes a run of words somewhere; the header stays readable.
    fn scribble(&mut self) {
        const AFTER_IDENTITY: u64 = 24;
        let words = 1 + self.next() % 64;
        let part = self.next() % 3;
        let span = match part {
            // The header, control and counters.
            0 => 3 * 4096,
            _ => BYTES as u64,
        };
        let start = AFTER_IDENTITY + self.next() % (span - AFTER_IDENTITY - 512) / 8 * 8;
        for at in 0..words {
            let word = self.word();
            self.write(start + at * 8, word);
        }
    }
}

/// Reads everything there is, and checks that it is within its bounds.
fn read(watched: &TestProcess) -> State {
    let state = State::read(watched.memory()).expect("the header was not overwritten");
    assert!(state.samples.len() <= BUCKETS * WAYS);
    assert!(state.freed.len() <= FREES && state.modules.len() <= MODULES);
    let mut stacks: Vec<u32> = state.samples.iter().map(|it| it.stack).collect();
    stacks.extend(state.freed.iter().map(|it| it.deallocation.stack));
    stacks.extend([0, 1, 7, 8, u32::MAX, NODES as u32 - 1]);
    for id in stacks {
        assert!(state.stack(id).frames.len() <= 4096);
    }
    assert!(state.totals.len() <= TOTALS);
    let by_stack = [state.live_by_stack(), state.allocated_by_stack()];
    let by_stack = by_stack.iter().flat_map(|it| it.values().copied());
    let all = [state.live(), state.allocated(), state.freed()];
    for figures in all.into_iter().flatten().chain(by_stack.take(100)) {
        let bytes = figures.bytes();
        assert!(bytes.low <= bytes.value && bytes.value <= bytes.high);
        assert!(bytes.high.is_finite() || figures.is_open_upwards());
    }
    for (_, module) in &state.modules {
        assert!(module.start < module.end && module.path.len() <= 424);
    }
    state
}

#[test]
fn any_contents_are_read_in_bounded_time_and_memory() {
    for seed in 0..20 {
        let watched = TestProcess::new();
        let mut scribbler = Scribbler::new(&watched, seed);
        let mut bytes = vec![0; BYTES];
        for word in bytes.chunks_exact_mut(8) {
            word.copy_from_slice(&scribbler.word().to_le_bytes());
        }
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&(BYTES as u64).to_le_bytes());
        // Every page counts as committed.
        bytes[offset_of!(Header, committed)..4096].fill(0xff);
        assert_eq!(rustix::io::pwrite(&watched.file, &bytes, 0), Ok(BYTES));
        let begin = Instant::now();
        let state = read(&watched);
        assert!(state.malformed > 0);
        // It takes some milliseconds; a hang would last for ever.
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}

/// Callers with larger ids, or their own: a chain that would not end.
#[test]
fn nodes_that_lead_in_circles_end() {
    let watched = TestProcess::new();
    let frame = |address| Frame {
        address,
        exact: false,
        mapping: 0,
    };
    let first = watched.writer().node(0, frame(1)).expect("a node");
    let second = watched.writer().node(first, frame(2)).expect("a node");
    for callers in [first, second, u32::MAX, NODES as u32] {
        let parent = u64::from(callers) | 1 << 33;
        watched.memory().nodes[first as usize]
            .parent
            .store(parent, Relaxed);
        let stack = watched.state().stack(second);
        assert_eq!(stack.end, stack_end::NOT_RECORDED);
        assert!(stack.frames.len() <= 2);
    }
}

/// The longest chain that can be.
#[test]
fn a_stack_of_all_nodes_is_cut() {
    let watched = TestProcess::new();
    let writer = watched.writer();
    let mut id = 0;
    for address in 0..10_000 {
        let frame = Frame {
            address,
            exact: false,
            mapping: 0,
        };
        id = writer.node(id, frame).expect("a node");
    }
    let stack = watched.state().stack(id);
    assert_eq!(
        (stack.frames.len(), stack.end),
        (4096, stack_end::NOT_RECORDED)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Some words of a state that was right are overwritten.
    #[test]
    fn a_state_with_wrong_words_is_read(seed in any::<u64>(), rounds in 1..400u32) {
        let watched = TestProcess::new();
        write_some(&watched, 300);
        let mut scribbler = Scribbler::new(&watched, seed);
        for _ in 0..rounds {
            scribbler.scribble();
        }
        read(&watched);
    }
}

fn write_some(watched: &TestProcess, count: u64) {
    let writer = watched.writer();
    for number in 1..=count {
        let frame = Frame {
            address: number % 50,
            exact: false,
            mapping: 1,
        };
        let stack = writer.node(0, frame).unwrap_or(stack_end::NOT_RECORDED);
        let mut new = sample(number * 16, number);
        new.stack = stack;
        writer.insert(&new);
        if number % 3 == 0
            && let Some(taken) = writer.take(number * 16)
        {
            let deallocation = Deallocation {
                time: number,
                stack,
                thread: 1,
            };
            writer.freed(&taken, deallocation);
        }
    }
}

/// One process scribbles, the watched one goes on writing and a watcher reading: nobody
/// crashes or hangs, and no operation of the writer takes unbounded time.
#[test]
fn who_writes_and_who_reads_survive_one_who_scribbles() {
    let watched = TestProcess::new();
    let is_done = AtomicBool::new(false);
    let operations = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut scribbler = Scribbler::new(&watched, 5);
            while !is_done.load(Relaxed) {
                scribbler.scribble();
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Relaxed) {
                    write_some(&watched, 1000);
                    watched.writer().setting();
                    operations.fetch_add(1, Relaxed);
                }
            });
        }
        let _done = Done(&is_done);
        let begin = Instant::now();
        let mut reads = 0;
        while begin.elapsed() < Duration::from_secs(2) || reads < 5 {
            read(&watched);
            reads += 1;
        }
    });
    assert!(operations.load(Relaxed) > 0);
}

#[test]
fn files_that_could_shrink_or_have_another_size_are_not_mapped() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let unsealed = rustix::fs::memfd_create("unsealed", flags).expect("memfd_create");
    rustix::fs::ftruncate(&unsealed, BYTES as u64).expect("ftruncate");
    assert!(matches!(Mapped::new(&unsealed), Err(MapError::NotSealed)));
    let small = rustix::fs::memfd_create("small", flags).expect("memfd_create");
    rustix::fs::ftruncate(&small, 4096).expect("ftruncate");
    let seals = rustix::fs::SealFlags::SHRINK;
    rustix::fs::fcntl_add_seals(&small, seals).expect("seals");
    assert!(matches!(
        Mapped::new(&small),
        Err(MapError::OtherSize { found: 4096 })
    ));
    let file = std::fs::File::open("/proc/self/exe").expect("a file");
    assert!(matches!(Mapped::new(&file), Err(MapError::NotSealed)));
    assert!(Mapped::new(new_file()).is_ok());
}
