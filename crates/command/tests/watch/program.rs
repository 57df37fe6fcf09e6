//! A watched program: this test binary, started again. It writes its memory as the recorder
//! does, on commands from its standard input.

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::io::BufRead;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

use crate::support::run;
use allotrope_sampling::Period;
use allotrope_shm::mapped_file::FileIdentity;
use allotrope_shm::numbers::{EntryPoint, stack_end};
use allotrope_shm::samples::file::Mapped;
use allotrope_shm::samples::frees::Deallocation;
use allotrope_shm::samples::layout::{BYTES, NAME};
use allotrope_shm::samples::modules::Module;
use allotrope_shm::samples::stacks::Frame;
use allotrope_shm::samples::writer::{FirstAllocation, Host, Private, Process, Sample, Writer};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::time::{ClockId, clock_gettime};

/// Which program it is; without it the test does nothing.
pub const KIND: &str = "ALLOTROPE_TEST_STORY";
/// The name of its process.
pub const COMM: &str = "ALLOTROPE_TEST_COMM";
/// What its answers begin with.
pub const ANSWER: &str = "story: ";

#[inline(never)]
extern "C" fn story_cache(number: u64) -> u64 {
    black_box(number) + 1
}

#[inline(never)]
extern "C" fn story_leak(number: u64) -> u64 {
    black_box(number) * 3
}

#[inline(never)]
extern "C" fn story_free(number: u64) -> u64 {
    black_box(number) * 5
}

#[inline(never)]
extern "C" fn story_main(number: u64) -> u64 {
    story_cache(number) + story_leak(number) + story_free(number)
}

/// Has as much memory as it needs.
#[derive(Clone, Copy)]
struct Pages;

impl Host for Pages {
    fn commit(&self, _: usize) -> bool {
        true
    }

    fn now(&self) -> u64 {
        now()
    }
}

#[test]
fn plays_its_story() {
    let Ok(kind) = std::env::var(KIND) else {
        return;
    };
    if let Ok(comm) = std::env::var(COMM) {
        std::fs::write("/proc/self/comm", comm).expect("a name");
    }
    match kind.as_str() {
        "none" => wait(),
        "other size" => {
            let file = new_file(BYTES - 4096);
            wait();
            drop(file);
        }
        "prepared" => Story::new(None).play(),
        "sampled" => Story::new(Some(Period::DEFAULT)).play(),
        other => panic!("there is no program {other:?}"),
    }
    std::process::exit(0);
}

/// Does nothing until its input ends.
fn wait() {
    answer("ready");
    std::io::stdin().lines().for_each(drop);
}

fn answer(text: &str) {
    println!("\n{ANSWER}{text}");
}

fn new_file(bytes: usize) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(NAME, flags).expect("memfd_create");
    rustix::fs::ftruncate(&file, bytes as u64).expect("ftruncate");
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals).expect("seals");
    file
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

struct Story {
    _file: OwnedFd,
    mapped: Mapped,
    private: Box<Private>,
    live: BTreeMap<String, VecDeque<u64>>,
    next: u64,
}

impl Story {
    fn new(period: Option<Period>) -> Self {
        let file = new_file(BYTES);
        let story = Self {
            mapped: Mapped::new(&file).expect("a mapping"),
            _file: file,
            private: Box::default(),
            live: BTreeMap::new(),
            next: 0x10_0000,
        };
        let process = Process {
            id: std::process::id(),
            now: now(),
            real_now: 0,
            executable: b"/opt/story",
            command: b"story\0",
            other_malloc: 0,
            next_malloc: 0,
            state_bytes: 0,
            is_standby: false,
        };
        let memory = story.mapped.memory();
        Writer::begin(memory, &story.private, Pages, &process, period).expect("a writer");
        story.map_module();
        story
    }

    fn writer(&self) -> Writer<'_, Pages> {
        Writer::resume(self.mapped.memory(), &self.private, Pages)
    }

    /// The program's own file is module 0.
    fn map_module(&self) {
        let path = std::env::current_exe().expect("the program's path");
        let path = path.to_str().expect("a path in UTF-8");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let mut own = maps.lines().filter(|it| it.ends_with(path));
        let start = own.next().and_then(|it| it.split('-').next());
        let start = start.and_then(|it| u64::from_str_radix(it, 16).ok());
        let start = start.expect("the start of the program");
        let notes = run(Command::new("readelf").args(["-n", path]), b"").text();
        let id = notes.lines().find_map(|it| it.split_once("Build ID: "));
        let id = id.map_or("", |it| it.1.trim());
        let byte = |at: usize| u8::from_str_radix(&id[at..at + 2], 16).expect("a build id");
        let id: Vec<u8> = (0..id.len()).step_by(2).map(byte).collect();
        let module = Module {
            start,
            end: start + (1 << 30),
            bias: start,
            file: FileIdentity::default(),
            build_id: &id,
            path: path.as_bytes(),
        };
        assert!(self.writer().map(0, &module, now()));
    }

    /// A stack of `story_main` and the function of this name.
    fn stack(&self, function: &str) -> u32 {
        let function = match function {
            "cache" => story_cache,
            "leak" => story_leak,
            _ => story_free,
        };
        let frame = |function: extern "C" fn(u64) -> u64| Frame {
            // The return address of a call that is the function's first byte.
            address: function as usize as u64 + 1,
            exact: false,
            mapping: 0,
        };
        let writer = self.writer();
        let outer = writer.node(stack_end::COMPLETE, frame(story_main));
        let inner = writer.node(outer.expect("a node"), frame(function));
        inner.expect("a node")
    }

    fn play(mut self) {
        answer("ready");
        for line in std::io::stdin().lock().lines() {
            let line = line.expect("a command");
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().expect("a number");
            match words[0] {
                // alloc FUNCTION COUNT SIZE AGE
                "alloc" => self.allocate(words[1], number(2), number(3), number(4)),
                // free FUNCTION COUNT
                "free" => self.free(words[1], number(2)),
                // realloc FUNCTION
                "realloc" => self.reallocate(words[1]),
                "setting" => {
                    let period = self.writer().setting();
                    answer(&period.map_or(0, Period::bytes).to_string());
                    continue;
                }
                "exec" => {
                    let program = std::env::current_exe().expect("the program's path");
                    let error = Command::new(program)
                        .args(std::env::args_os().skip(1))
                        .exec();
                    panic!("{error}");
                }
                "exec-unprepared" => {
                    let program = std::env::current_exe().expect("the program's path");
                    let error = Command::new(program)
                        .args(std::env::args_os().skip(1))
                        .env(KIND, "none")
                        .exec();
                    panic!("{error}");
                }
                "damage" => self.mapped.memory().header.0.magic.store(0, Relaxed),
                "version" => self.mapped.memory().header.0.version.store(99, Relaxed),
                "garbage" => self.garbage(number(1)),
                other => panic!("there is no command {other:?}"),
            }
            answer("done");
        }
        // A recorder never unmaps the memory: it is there until the end.
        std::mem::forget(self);
    }

    fn insert(
        &mut self,
        function: &str,
        address: u64,
        size: u64,
        age: u64,
        first: Option<FirstAllocation>,
    ) {
        let sample = Sample {
            address,
            size,
            period: self.writer().setting().unwrap_or(Period::DEFAULT),
            allocated: now().saturating_sub(age * 1_000_000_000),
            stack: self.stack(function),
            thread: 1,
            entry: EntryPoint::Malloc,
            first,
        };
        assert!(self.writer().insert(&sample));
        self.live
            .entry(function.to_owned())
            .or_default()
            .push_back(address);
    }

    fn allocate(&mut self, function: &str, count: u64, size: u64, age: u64) {
        for _ in 0..count {
            self.next += 64;
            self.insert(function, self.next, size, age, None);
        }
    }

    fn take(&mut self, function: &str) -> Sample {
        let address = self.live.get_mut(function).and_then(VecDeque::pop_front);
        let address = address.expect("a live block");
        self.writer().take(address).expect("a sample")
    }

    fn free(&mut self, function: &str, count: u64) {
        for _ in 0..count {
            let sample = self.take(function);
            let deallocation = Deallocation {
                time: now(),
                stack: self.stack("free"),
                thread: 1,
            };
            self.writer().freed(&sample, deallocation);
        }
    }

    /// The blocks stay where they are.
    fn reallocate(&mut self, function: &str) {
        for _ in 0..self.live[function].len() {
            let sample = self.take(function);
            let first = Some(sample.first_allocation());
            self.insert(function, sample.address, sample.size, 0, first);
        }
    }

    /// Writes random words to all parts but the first page, all of whose pages are then in use.
    fn garbage(&mut self, seed: u64) {
        let memory = self.mapped.memory();
        for word in &memory.header.0.committed {
            word.store(u64::MAX, Relaxed);
        }
        let mut state = seed;
        let mut random = || {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            state ^ state >> 29
        };
        for bucket in &memory.buckets {
            for (key, slot) in bucket.keys.iter().zip(&bucket.samples) {
                key.store(random() & !1, Relaxed);
                slot.size.store(random(), Relaxed);
                slot.period.store(random() >> (random() % 64), Relaxed);
                slot.allocated.store(random(), Relaxed);
                slot.stack_and_thread.store(random() % 300_000, Relaxed);
                slot.first_allocated.store(random(), Relaxed);
                slot.first_stack.store(random(), Relaxed);
            }
        }
        for module in &memory.modules {
            module.state.store(random() % 4, Relaxed);
            module.start.store(random(), Relaxed);
            module.end.store(random(), Relaxed);
            module
                .lengths
                .store((random() % 40) | ((random() % 500) << 32), Relaxed);
            module
                .path
                .iter()
                .for_each(|it| it.store(random(), Relaxed));
        }
        for node in &memory.nodes {
            node.place.store(random(), Relaxed);
            node.parent.store((random() % 300_000) | (1 << 33), Relaxed);
        }
        for slot in &memory.frees {
            slot.version.store(random() % 20_000, Relaxed);
            slot.period.store(random() % 1_000_000, Relaxed);
            slot.stacks.store(random(), Relaxed);
        }
        for slot in &memory.totals {
            slot.key.store(random(), Relaxed);
            slot.period.store(random() >> 30, Relaxed);
        }
        memory.counters.0.nodes.store(random(), Relaxed);
        let counters = &memory.counters.0;
        counters.longest_period.store(random() >> 30, Relaxed);
        for time in [&counters.on_since, &counters.off_since] {
            time.store(random() >> (random() % 64), Relaxed);
        }
        for slot in &counters.changes {
            slot.version.store(random() % 200, Relaxed);
            slot.time.store(random() >> (random() % 64), Relaxed);
            slot.period.store(random() >> 30, Relaxed);
        }
    }
}
