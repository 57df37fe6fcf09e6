//! The simulated recorded programs. A script is a method of [`Program`]: it writes to
//! the arena what a recorder would, and returns the program's exit status.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

use allotrope_shm::arena::tick_now;
use allotrope_shm::layout::{
    IMAGES_OFFSET, ImageSlot, PAGE, REGION_BYTES, RINGS_OFFSET, RingHeader, TABLES_BYTES,
    region_offset,
};
use allotrope_shm::location::Location;
use allotrope_shm::mapped_file::FileIdentity;
use allotrope_shm::producer::{Producer, words_of};
use allotrope_shm::wire::{
    self, ADDRESS_MASK, Exec, Image, Mapping, NO_MAPPING, Node, STACK_BITS, Window, head, kind,
    origin, window_flag,
};
use allotrope_symbols::identity_of;
use allotrope_trace::model::EntryPoint;

use crate::session::program;

pub const ARENA_VARIABLE: &str = "ALLOTROPE_TEST_ARENA";
pub const SCRIPT_VARIABLE: &str = "ALLOTROPE_TEST_SCRIPT";

/// Pairs of allocation and deallocation in the script `pairs`: with 3 words for each,
/// many laps of a ring.
pub const PAIRS: u64 = 150_000;
/// Exit status of most scripts.
pub const STATUS: i32 = 7;
/// The first address of the blocks.
pub const HEAP: u64 = 0x5555_0000_0000;
/// Start of the only mapping, and its bias.
pub const CODE: u64 = 0x7f00_0000_0000;
/// The two nodes of the only stack: `main` and what it calls.
pub const STACK: [u64; 2] = [CODE + 0x1000, CODE + 0x2000];
/// The file of the mapping.
pub const MODULE: &str = "/nonexistent/libmodule.so";
pub const BUILD_ID: &[u8] = b"\x01\x02\x03\x04\x05";

const MALLOC: u8 = EntryPoint::Malloc as u8;
const FREE: u8 = EntryPoint::Free as u8;
const MAIN: u32 = 8;
const CALLEE: u32 = 9;

/// Not a test: the entry point of a recorded process.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn simulated_program() {
    let Ok(script) = std::env::var(SCRIPT_VARIABLE) else {
        return;
    };
    let arena = std::env::var(ARENA_VARIABLE).unwrap();
    let status = Program::new(arena).run(&script);
    std::process::exit(status);
}

/// A function that is not inlined and has a name in the symbol table.
#[inline(never)]
pub fn known_function(number: u64) -> u64 {
    std::hint::black_box(number)
}

/// A hostile program writes into this many rings, from the first on.
const RINGS_HIT: usize = 12;

/// A mapping of the range `start..end` with bias `start`.
fn mapping<'t>(
    mapping: u16,
    start: u64,
    end: u64,
    build_id: &'t [u8],
    path: &'t str,
) -> Mapping<&'t [u8]> {
    Mapping {
        mapping,
        start,
        end,
        bias: start,
        tick: tick_now(),
        file: FileIdentity::default(),
        build_id,
        path: path.as_bytes(),
    }
}

fn window(flags: u8, opened: u64, iterations: u64, name: &[u8]) -> Window<&[u8]> {
    Window {
        flags,
        opened,
        iterations,
        tick: tick_now(),
        name,
    }
}

/// Second word of a short allocation.
fn stack_and_size(stack: u32, size: u64) -> u64 {
    u64::from(stack) | size << STACK_BITS
}

/// Second word of a node.
fn node(parent: u32, id: u32, mapping: u16) -> u64 {
    let (address, exact) = (0, false);
    wire::node(Node {
        address,
        exact,
        parent,
        id,
        mapping,
    })[1]
}

/// Pseudo-random numbers from a seed (SplitMix64 by Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// An event of the right length with arbitrary contents.
    fn event(&mut self) -> Vec<u64> {
        let text: Vec<u8> = (0..self.below(40)).map(|_| self.next() as u8).collect();
        let (small, any) = (self.below(4096), self.next());
        match self.below(8) {
            0 => words_of(&mapping(
                small as u16,
                any,
                any.wrapping_add(self.below(1 << 30)),
                &text,
                "/x",
            )),
            1 => words_of(&window(any as u8, self.below(64), any, &text)),
            2 | 3 => wire::node(Node {
                exact: self.below(2) != 0,
                address: any & ADDRESS_MASK,
                parent: self.below(4096) as u32,
                id: self.below(1 << 24) as u32,
                mapping: small as u16,
            })
            .to_vec(),
            4 => vec![head(kind::THREAD, self.below(2) as u8, small), any],
            _ => {
                let length = 1 + self.below(4);
                (0..length).map(|_| self.word()).collect()
            }
        }
    }

    /// A word that may do harm: any number, a small or a very large one, two small ones,
    /// or the first word of an event.
    fn word(&mut self) -> u64 {
        let any = self.next();
        match self.below(8) {
            0 | 1 => any,
            2 => self.below(16),
            3 => self.below(16) | self.below(2048) << 32,
            4 => u64::MAX - self.below(16),
            _ => {
                let kind = self.below(32) as u8;
                let payload = any >> self.below(48);
                head(kind, self.below(4) as u8, payload & ADDRESS_MASK)
            }
        }
    }
}

struct Program {
    producer: Producer,
    arena: String,
}

/// The words of a script: the name of a method and its arguments.
impl Program {
    fn new(arena: String) -> Self {
        let location = Location::parse(arena.as_bytes()).unwrap();
        let producer = Producer::find(&location).unwrap();
        let key = &producer.control().key;
        assert_eq!(key.load(Relaxed), location.key());
        Self { producer, arena }
    }

    fn run(&self, script: &str) -> i32 {
        let mut words = script.split(' ');
        match words.next().unwrap() {
            "pairs" => self.pairs(),
            "threads" => self.threads(),
            "windows" => self.windows(),
            "pairs-until-stopped" => self.pairs_until_stopped(),
            "names" => self.names(),
            "corrupt" => self.corrupt(),
            "forged" => self.forged(),
            "stranger" => self.stranger(),
            "besieged" => self.besieged(words.collect()),
            "hostile" => self.hostile(words.map(|word| word.parse().unwrap()).collect()),
            "killed" => self.killed(),
            "fork" => self.fork(),
            "forked" => self.forked(words.map(|word| word.parse().unwrap()).collect()),
            "exec" => self.exec(),
            "exec-of" => self.exec_of(words.next().unwrap()),
            "exec-unrecorded" => self.exec_unrecorded(),
            "stay" => self.stay(),
            "orphan" => self.orphan(),
            other => panic!("there is no script {other}"),
        }
    }

    fn attach(&self) -> (usize, usize) {
        let claimed = self.claim(origin::EXEC, None, &[]);
        self.thread(claimed.1, std::process::id(), false);
        claimed
    }

    fn claim(&self, origin: u32, parent: Option<u32>, points: &[u64]) -> (usize, usize) {
        self.producer.claim_image(&Image {
            pid: std::process::id(),
            parent_pid: std::os::unix::process::parent_id(),
            origin,
            parent_slot: parent,
            fork_points: points,
            tick: tick_now(),
            executable: b"/bin/program".as_slice(),
            command: b"program\0argument\0\0",
        })
    }

    fn thread(&self, ring: usize, tid: u32, nested: bool) {
        let tid = u64::from(tid);
        let extra = u8::from(nested);
        self.producer
            .event(ring, kind::THREAD, extra, tid, &[tick_now()]);
    }

    fn stack(&self, ring: usize) {
        let put = |address, parent, id, mapping| {
            let second = [node(parent, id, mapping)];
            self.producer.event(ring, kind::NODE, 0, address, &second);
        };
        put(STACK[0], 0, MAIN, 3);
        put(STACK[1], MAIN, CALLEE, 3);
    }

    fn allocate(&self, ring: usize, address: u64, size: u64) {
        let second = [stack_and_size(CALLEE, size)];
        self.producer
            .event(ring, kind::ALLOCATION, MALLOC, address, &second);
    }

    fn free(&self, ring: usize, address: u64) {
        self.producer
            .event(ring, kind::DEALLOCATION, FREE, address, &[]);
    }

    fn exit_note(&self, ring: usize, status: i32) {
        self.producer.event(ring, kind::EXIT, 0, status as u64, &[]);
    }

    /// Many events in one ring; the mapping is defined after the stack.
    fn pairs(&self) -> i32 {
        let (_, ring) = self.attach();
        self.stack(ring);
        let mapping = mapping(3, CODE, CODE + 0x10_0000, BUILD_ID, MODULE);
        self.producer.write_event(ring, &mapping);
        for number in 0..PAIRS {
            self.allocate(ring, HEAP + number * 16, number);
            self.free(ring, HEAP + number * 16);
        }
        self.producer.event(ring, kind::UNMAPPED, 0, 3, &[]);
        self.exit_note(ring, STATUS);
        STATUS
    }

    /// Events until the collector announces that it has stopped.
    fn pairs_until_stopped(&self) -> i32 {
        let (_, ring) = self.attach();
        let stopped = &self.producer.control().stopped;
        while stopped.load(std::sync::atomic::Ordering::Acquire) == 0 {
            if self.producer.has_space(ring, 1) {
                self.free(ring, HEAP);
            }
        }
        0
    }

    /// A second thread, a nested ring, a ring taken over by another thread, events of
    /// every kind, losses counted by the recorder.
    fn threads(&self) -> i32 {
        let (slot, first) = self.attach();
        let other = self.producer.claim_ring(slot, 1_000_001);
        self.thread(other, 1_000_001, false);
        let nested = self.producer.claim_ring(slot, std::process::id());
        self.thread(nested, std::process::id(), true);
        self.stack(first);
        self.allocate(first, HEAP, 1);
        self.free(nested, HEAP);
        let realloc = EntryPoint::Realloc as u8;
        let event = |kind, extra, address, more: &[u64]| {
            self.producer.event(other, kind, extra, address, more);
        };
        event(kind::NODE, 1, STACK[0], &[node(1, MAIN, NO_MAPPING)]);
        let memalign = EntryPoint::Memalign as u8;
        let huge = 1 << 45;
        event(
            kind::ALLOCATION_LONG,
            memalign,
            HEAP,
            &[stack_and_size(MAIN, 12), huge],
        );
        event(kind::REALLOCATION_START, realloc, HEAP, &[]);
        event(kind::REALLOCATION_FAILED, 0, HEAP, &[]);
        event(kind::REALLOCATION_START, realloc, HEAP, &[]);
        event(
            kind::REALLOCATION_END,
            realloc,
            HEAP + 64,
            &[stack_and_size(3, 5)],
        );
        event(kind::RESET_STACK_IDS, 0, 0, &[]);
        event(kind::EPOCH, 0, 0, &[tick_now(), 99]);
        event(kind::REALLOCATION_START, realloc, HEAP + 64, &[]);
        event(
            kind::REALLOCATION_END_LONG,
            realloc,
            HEAP,
            // The id was reset, so the stack is not recorded.
            &[stack_and_size(MAIN, 0), huge + 1],
        );
        event(kind::REALLOCATION_START, realloc, HEAP, &[]);
        event(kind::REALLOCATION_FREED, 0, HEAP, &[]);
        event(kind::WAITED, 0, 30, &[]);
        event(kind::WAITED, 0, 12, &[]);
        self.thread(other, 1_000_002, false);
        event(kind::DEALLOCATION, FREE, HEAP, &[]);
        event(kind::WAITED, 0, 1 << 47, &[]);
        self.producer.lose(slot, 0, 5);
        self.producer.lose(slot, 4, 6);
        0
    }

    /// Valid and invalid windows, and a ring with a window whose name is too long.
    fn windows(&self) -> i32 {
        let (slot, ring) = self.attach();
        let event = |kind, extra, more: &[u64]| self.producer.event(ring, kind, extra, 0, more);
        let own = window_flag::THIS_THREAD_ONLY | 1 << window_flag::QUIET_SHIFT;
        self.producer
            .write_event(ring, &window(own, 1, 1000, b"encode"));
        event(kind::EPOCH, 0, &[tick_now(), 1]);
        self.stack(ring);
        self.allocate(ring, HEAP, 1);
        event(kind::EPOCH, 1, &[tick_now(), 1]);
        self.free(ring, HEAP);
        event(kind::WINDOW_END, 0, &[1, 2, tick_now()]);
        // The end of a window that never opened, an end before the start, all flags.
        event(kind::WINDOW_END, 0xff, &[77, 3, 0]);
        for _ in 0..3 {
            event(kind::DESCRIPTORS, 0xff, &[]);
        }
        let strange = [0xff; 255];
        self.producer
            .write_event(ring, &window(0xff, u64::MAX, u64::MAX, &strange));
        event(kind::WINDOW_END, 0xff, &[u64::MAX, 0, u64::MAX]);
        let other = self.producer.claim_ring(slot, 1_000_001);
        self.thread(other, 1_000_001, false);
        self.producer
            .write_event(other, &window(0, 5, 0, &[b'a'; 256]));
        0
    }

    /// An allocation in [`known_function`] of this binary.
    fn names(&self) -> i32 {
        let (_, ring) = self.attach();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let executable = std::env::current_exe().unwrap();
        let executable = executable.to_str().unwrap();
        // A position-independent executable has its address 0 at its first mapping.
        let first = maps
            .lines()
            .find(|line| line.ends_with(executable))
            .unwrap();
        let bias = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
        let file = std::fs::File::open(executable).unwrap();
        // Without a build id the file itself shows that it is the one that runs.
        let mapping = Mapping {
            file: identity_of(&file).unwrap(),
            ..mapping(0, bias, bias + (1 << 30), b"", executable)
        };
        self.producer.write_event(ring, &mapping);
        let address = known_function as fn(u64) -> u64 as usize as u64;
        let second = [node(0, MAIN, 0)];
        self.producer.event(ring, kind::NODE, 1, address, &second);
        let second = [stack_and_size(MAIN, known_function(7))];
        self.producer
            .event(ring, kind::ALLOCATION, MALLOC, HEAP, &second);
        0
    }

    /// Valid events, then invalid words; the program must not wait forever.
    fn corrupt(&self) -> i32 {
        let (slot, ring) = self.attach();
        let sound = self.producer.claim_ring(slot, 5);
        self.free(ring, HEAP);
        self.producer.write(ring, &[0]);
        for number in 0..PAIRS {
            self.free(ring, HEAP + number);
        }
        self.thread(sound, 5, false);
        self.free(sound, HEAP);
        STATUS
    }

    /// A published position with more words than a ring has.
    fn forged(&self) -> i32 {
        let (_, ring) = self.attach();
        self.producer.forge_position(ring, u64::MAX - 5);
        STATUS
    }

    /// An image whose first event is no `Image` event. It waits until the collector has
    /// released the words that it writes after that.
    fn stranger(&self) -> i32 {
        let own = std::process::id();
        let slot = self.producer.claim_slot();
        let ring = self.producer.claim_ring(slot, own);
        self.free(ring, HEAP);
        self.producer.make_ready(slot, own, ring);
        for number in 0..PAIRS {
            self.free(ring, HEAP + number);
        }
        STATUS
    }

    /// Allocates and frees like `pairs`, while another process of the recording runs `hostile`.
    fn besieged(&self, numbers: Vec<&str>) -> i32 {
        let (slot, ring) = self.attach();
        let script = format!("hostile {} {slot} {ring}", numbers.join(" "));
        let mut hostile = program(&self.arena, &script).spawn().unwrap();
        self.stack(ring);
        let mut pair = 0..PAIRS;
        let mut write = |count| {
            for number in pair.by_ref().take(count) {
                self.allocate(ring, HEAP + number * 16, number);
                self.free(ring, HEAP + number * 16);
            }
        };
        while hostile.try_wait().unwrap().is_none() {
            write(100);
        }
        write(usize::MAX);
        self.exit_note(ring, STATUS);
        assert!(hostile.wait().unwrap().success());
        STATUS
    }

    /// Writes random words anywhere into the arena, except into one image slot, one ring
    /// and its header. The numbers: rounds, seed, slot, ring.
    fn hostile(&self, numbers: Vec<u64>) -> i32 {
        let [rounds, seed, slot, ring] = numbers[..] else {
            panic!("four numbers");
        };
        let (slot, ring) = (slot as usize, ring as usize);
        let spared = [
            (
                IMAGES_OFFSET + slot * size_of::<ImageSlot>(),
                size_of::<ImageSlot>(),
            ),
            (
                RINGS_OFFSET + ring * size_of::<RingHeader>(),
                size_of::<RingHeader>(),
            ),
            (region_offset(ring), REGION_BYTES),
        ];
        let is_spared = |offset| {
            spared
                .iter()
                .any(|&(start, length)| (start..start + length).contains(&offset))
        };
        let mut random = Random(seed);
        let (own_slot, own) = self.attach();
        for _ in 0..rounds {
            // A page of the tables, or of a region.
            let pages = match random.below(4) {
                0 => 0..TABLES_BYTES / PAGE,
                1 => IMAGES_OFFSET / PAGE..TABLES_BYTES / PAGE,
                _ => TABLES_BYTES / PAGE..region_offset(RINGS_HIT) / PAGE,
            };
            let page = pages.start + random.below(pages.len() as u64) as usize;
            for _ in 0..random.below(32) {
                let offset = (page * PAGE + random.below(PAGE as u64) as usize) & !7;
                if !is_spared(offset) {
                    self.producer.overwrite(offset, random.word());
                }
            }
            // Well-formed events in its own ring. From time to time it claims the ring
            // anew, since the collector discards a ring that it found to be corrupt.
            if random.below(64) == 0 {
                let ring = &self.producer.rings()[own];
                ring.owner.store(own_slot as u32 + 1, Relaxed);
                ring.claims.fetch_add(1, Relaxed);
                let read = self.producer.progress(own).read.load(Relaxed);
                ring.written.store(read, Relaxed);
            }
            for _ in 0..random.below(16) {
                let event = random.event();
                if self.producer.has_space(own, event.len()) {
                    self.producer.write(own, &event);
                }
            }
        }
        0
    }

    fn killed(&self) -> i32 {
        let (_, ring) = self.attach();
        for number in 0..1000 {
            self.free(ring, HEAP + number);
        }
        let own = std::process::id().to_string();
        Command::new("sh")
            .args(["-c", "kill -KILL $0", &own])
            .status()
            .unwrap();
        unreachable!("it was killed");
    }

    /// Starts a child that claims to have been forked after three events.
    fn fork(&self) -> i32 {
        let (slot, ring) = self.attach();
        for number in 0..3 {
            self.free(ring, HEAP + number);
        }
        let script = format!("forked {slot} {ring} 3");
        let mut child = program(&self.arena, &script).spawn().unwrap();
        child.wait().unwrap();
        self.free(ring, HEAP);
        0
    }

    fn forked(&self, numbers: Vec<u64>) -> i32 {
        let points = [numbers[1], numbers[2]];
        let parent = Some(numbers[0] as u32);
        let (_, ring) = self.claim(origin::FORK, parent, &points);
        self.thread(ring, std::process::id(), false);
        self.free(ring, HEAP);
        self.exit_note(ring, STATUS);
        STATUS
    }

    /// Becomes `pairs` by exec.
    fn exec(&self) -> i32 {
        let (_, ring) = self.attach();
        self.free(ring, HEAP);
        let error = program(&self.arena, "pairs").exec();
        panic!("{error}");
    }

    /// Announces an exec of `path`, then ends.
    fn exec_of(&self, path: &str) -> i32 {
        let (_, ring) = self.attach();
        let path = path.as_bytes();
        self.producer.write_event(ring, &Exec { path });
        0
    }

    /// Becomes a program without recorder that lives for a while.
    fn exec_unrecorded(&self) -> i32 {
        let (_, ring) = self.attach();
        self.free(ring, HEAP);
        let error = Command::new("sleep").arg("1").exec();
        panic!("{error}");
    }

    /// Writes a `!` and lives until its input ends.
    fn stay(&self) -> i32 {
        let (_, ring) = self.attach();
        self.free(ring, HEAP);
        println!("!");
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
        self.exit_note(ring, 0);
        0
    }

    /// Ends before its child, which ends when its input does.
    fn orphan(&self) -> i32 {
        let (_, ring) = self.attach();
        let mut child = program(&self.arena, "stay").spawn().unwrap();
        // The child has attached before this process ends.
        std::thread::sleep(std::time::Duration::from_millis(200));
        self.free(ring, HEAP);
        assert!(child.try_wait().unwrap().is_none());
        0
    }
}
