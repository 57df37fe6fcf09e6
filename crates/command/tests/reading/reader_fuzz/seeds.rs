//! Small whole traces of all kinds, and a file of every other format: what mutants are
//! made of.

use allotrope_formats::{ExportOptions, Input, exporter, read_bytes};
use allotrope_trace::model::*;
use allotrope_trace::{Compression, TraceWriter};

use super::numbers::Numbers;

/// A whole trace, as its records.
pub struct Seed {
    pub name: &'static str,
    pub records: Vec<Record>,
}

/// Builds the records of a seed from what a simulated program does.
struct Program {
    records: Vec<Record>,
    numbers: Numbers,
    tick: u64,
    /// The number of counted events so far, by image and stream.
    ordinals: std::collections::HashMap<(ImageId, StreamId), u64>,
    live: Vec<(u64, EntryPoint)>,
    next: u64,
    /// Deallocations have stacks.
    free_stacks: bool,
}

const NODES: u32 = 40;

fn event(kind: EventKind, entry: EntryPoint, stack: u32, address: u64, size: u64) -> Event {
    let alignment_log2 = if entry == EntryPoint::Memalign { 6 } else { 0 };
    Event {
        kind,
        entry,
        alignment_log2,
        stack,
        address,
        size,
    }
}

fn frame(function: &str, line: u32) -> NamedFrame {
    NamedFrame {
        function: function.into(),
        signature: format!("{function}(int)").into(),
        file: "/src/p.c".into(),
        line,
        column: 3,
        offset: Some(4),
        inlined: line.is_multiple_of(3),
        generated: line.is_multiple_of(5),
        ..NamedFrame::default()
    }
}

impl Program {
    fn new(seed: u64, counts_only: bool) -> Self {
        let recording = Recording {
            tool_version: "0.1.0".into(),
            command: vec!["p".into(), "-x".into()],
            started_unix_ns: 1_700_000_000_000_000_000,
            started_tick: 1_000,
            system: "Linux".into(),
            architecture: "x86_64".into(),
            depth_limit: 4_096,
            counts_only,
            free_stacks: false,
        };
        let clock = |tick, monotonic_ns| Record::Clock(Clock { tick, monotonic_ns });
        let module = |module, path: &str| {
            Record::Module(Module {
                module,
                path: path.into(),
                build_id: vec![module as u8; 20],
                file: FileIdentity::from_words([1, 2, 3, 4, u64::from(module)]),
            })
        };
        Self {
            records: vec![
                Record::Recording(recording),
                clock(1_000, 500),
                clock(3_000, 1_500),
                module(0, "/bin/p"),
                module(1, "/lib/libq.so.1"),
            ],
            numbers: Numbers::of(seed, 0),
            tick: 1_000,
            ordinals: std::collections::HashMap::new(),
            live: Vec::new(),
            next: 0x1000,
            free_stacks: false,
        }
    }

    /// A program whose deallocations have stacks.
    fn with_free_stacks(seed: u64) -> Self {
        let mut program = Self::new(seed, false);
        program.free_stacks = true;
        if let Some(Record::Recording(recording)) = program.records.first_mut() {
            recording.free_stacks = true;
        }
        program
    }

    /// The stack of a deallocation. One in five was not recorded.
    fn stack_of_free(&mut self) -> u32 {
        if !self.free_stacks || self.numbers.once_in(5) {
            return 0;
        }
        stack_end::FIRST_NODE + self.numbers.below(NODES as usize) as u32
    }

    fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    fn start(&mut self, image: ImageId, forked_from: Option<ImageId>, streams: &[StreamId]) {
        let parent = forked_from.unwrap_or(0);
        let fork_points = streams.iter().map(|&stream| ForkPoint {
            stream,
            ordinal: self.ordinals.get(&(parent, stream)).copied().unwrap_or(0),
        });
        let start = ImageStart {
            image,
            pid: 100 + image,
            parent_pid: 99,
            origin: forked_from.map_or(Origin::First, |_| Origin::Fork),
            forked_from,
            fork_points: fork_points.collect(),
            executable: "/bin/p".into(),
            command: vec!["p".into()],
            tick: self.tick,
        };
        self.push(Record::ImageStart(start));
        for mapping in 0..2 {
            let start = 0x40_0000 * (u64::from(mapping) + 1);
            self.push(Record::Mapping(Mapping {
                image,
                mapping,
                module: mapping,
                start,
                end: start + 0x1000,
                bias: start,
                tick: self.tick,
            }));
        }
        let nodes = (0..NODES).map(|n| StackNode {
            parent: if n < 4 {
                n
            } else {
                stack_end::FIRST_NODE + n / 2
            },
            address: 0x40_0000 * (u64::from(n) % 3 + 1) + u64::from(n) * 16,
            mapping: if n % 3 == 2 { NO_MAPPING } else { n % 3 },
            exact: n % 5 == 0,
        });
        let nodes: Vec<StackNode> = nodes.collect();
        for (part, nodes) in (0..).zip(nodes.chunks(15)) {
            self.push(Record::Stacks {
                image,
                first: stack_end::FIRST_NODE + part * 15,
                nodes: nodes.to_vec(),
            });
        }
    }

    fn thread(&mut self, image: ImageId, thread: ThreadId) {
        self.push(Record::ThreadStart(ThreadStart {
            image,
            thread,
            tid: 1_000 + thread,
            tick: self.tick,
        }));
        self.push(Record::ThreadName(ThreadName {
            thread,
            name: format!("thread {thread}"),
        }));
    }

    /// A chunk of one stream's events: those of `before`, then `count` random steps.
    fn events(&mut self, image: ImageId, stream: StreamId, before: &[Event], count: usize) {
        use EventKind::*;
        let (plain, marks) = (EntryPoint::Malloc, EntryPoint::Malloc);
        let mut events = before.to_vec();
        for step in 0..count {
            self.tick += 1 + self.numbers.below(40) as u64;
            if step % 9 == 0 {
                events.push(event(Timestamp, marks, 0, self.tick, 0));
            }
            let entry = *self.numbers.one_of(&[
                plain,
                plain,
                plain,
                EntryPoint::OperatorNew,
                EntryPoint::Memalign,
                EntryPoint::Pool,
            ]);
            let stack = stack_end::FIRST_NODE + self.numbers.below(NODES as usize) as u32;
            let size = self.numbers.below(500) as u64;
            let at = self.numbers.below(self.live.len().max(1));
            match self.numbers.below(8) {
                0..3 if !self.live.is_empty() => {
                    let (address, entry) = self.live.swap_remove(at);
                    let entry = match entry {
                        EntryPoint::Pool => entry,
                        _ => EntryPoint::Free,
                    };
                    let stack = self.stack_of_free();
                    events.push(event(Deallocation, entry, stack, address, 0));
                }
                3 if !self.live.is_empty() => {
                    let entry = EntryPoint::Realloc;
                    let (address, _) = self.live[at];
                    let freeing = self.stack_of_free();
                    events.push(event(ReallocationStart, entry, freeing, address, 0));
                    match self.numbers.below(4) {
                        0 => events.push(event(ReallocationFailed, entry, 0, 0, 0)),
                        1 => {
                            self.live.swap_remove(at);
                            events.push(event(ReallocationFreed, entry, 0, 0, 0));
                        }
                        _ => {
                            self.live[at] = (self.next, plain);
                            events.push(event(ReallocationEnd, entry, stack, self.next, size));
                            self.next += 512;
                        }
                    }
                }
                _ => {
                    // Addresses are used again.
                    if self.next > 0x20_000 {
                        self.next = 0x1000;
                    }
                    events.push(event(Allocation, entry, stack, self.next, size));
                    self.live.push((self.next, entry));
                    self.next += 512;
                }
            }
        }
        let ordinal = self.ordinals.entry((image, stream)).or_default();
        let first_ordinal = *ordinal;
        *ordinal += events.iter().filter(|event| event.is_counted()).count() as u64;
        self.push(Record::Events(Events {
            image,
            stream,
            first_ordinal,
            events,
        }));
    }

    fn end(&mut self, image: ImageId) {
        self.push(Record::ImageEnd(ImageEnd {
            image,
            tick: self.tick + 10,
            exit: Exit::Status(0),
            complete: true,
        }));
    }

    fn symbols(mut self, name: &'static str) -> Seed {
        for module in 0..2 {
            let frames = (0..12).map(|n| {
                frame(
                    ["main", "work", "std::vector<int>::push_back", "g"][n % 4],
                    n as u32,
                )
            });
            let locations = (0..NODES).map(|n| Location {
                address: u64::from(n) * 16,
                exact: n % 5 == 0,
                frames: vec![n % 12, (n + 1) % 12],
            });
            let symbols = Symbols {
                module,
                unoptimised: Some(module == 1),
                compilers: vec!["GCC: 12.2.0".to_owned()],
                frames: frames.collect(),
                locations: locations.collect(),
                missing: Some(MissingNames::Stripped),
                sources: vec![("a.c".to_owned(), [7; 16])],
            };
            self.push(Record::Symbols(symbols));
        }
        Seed {
            name,
            records: self.records,
        }
    }
}

fn control(kind: EventKind, word: u64) -> Event {
    event(kind, EntryPoint::Malloc, 0, word, 0)
}

fn one_thread() -> Seed {
    let mut program = Program::new(1, false);
    program.start(0, None, &[]);
    program.thread(0, 0);
    program.events(0, 0, &[control(EventKind::Thread, 0)], 60);
    for _ in 0..8 {
        program.events(0, 0, &[], 40);
    }
    program.end(0);
    program.symbols("one thread")
}

fn free_stacks() -> Seed {
    let mut program = Program::with_free_stacks(7);
    program.start(0, None, &[]);
    for thread in 0..2 {
        program.thread(0, thread);
        let begin = control(EventKind::Thread, thread.into());
        program.events(0, thread, &[begin], 60);
    }
    for _ in 0..4 {
        program.events(0, 0, &[], 40);
        program.events(0, 1, &[], 40);
    }
    program.end(0);
    program.symbols("free stacks")
}

/// With a scan for reachable blocks at the end, which has lost some blocks, also such that are not live.
fn reachability() -> Seed {
    let mut program = Program::new(8, false);
    program.start(0, None, &[]);
    program.thread(0, 0);
    program.events(0, 0, &[control(EventKind::Thread, 0)], 60);
    let mut addresses: Vec<u64> = Vec::new();
    for record in &program.records {
        if let Record::Events(run) = record {
            addresses.extend(run.events.iter().map(|event| event.address & !7));
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    let classes = LostClass::ALL.into_iter().cycle();
    let blocks = addresses.into_iter().zip(classes);
    let blocks = blocks.map(|(address, class)| LostBlock { address, class });
    program.push(Record::LostBlocks {
        image: 0,
        blocks: blocks.collect(),
    });
    program.push(Record::Reachability(Reachability {
        image: 0,
        tick: u64::MAX / 4,
        blocks: 60,
        ..Reachability::default()
    }));
    program.end(0);
    program.symbols("reachability")
}

fn several_threads() -> Seed {
    let mut program = Program::new(2, false);
    program.start(0, None, &[]);
    for thread in 0..4 {
        program.thread(0, thread);
    }
    for round in 0..3 {
        for thread in 0..4 {
            // The last two share a stream.
            let marks = [control(EventKind::Thread, thread)];
            program.events(0, (thread as u32).min(2), &marks, 20 + round * 7);
        }
    }
    program.push(Record::Loss(Loss {
        image: 0,
        reason: LossReason::RingFull,
        events: 7,
        tick: 2_000,
    }));
    program.push(Record::Waits(Waits {
        image: 0,
        thread: Some(1),
        tick: 2_000,
        waits: 3,
        waited_ticks: 900,
    }));
    program.push(Record::ResidentSet {
        image: 0,
        tick: 1_500,
        bytes: 1 << 20,
        recorder_bytes: Some(1 << 19),
    });
    program.end(0);
    program.symbols("several threads")
}

fn forks() -> Seed {
    let mut program = Program::new(3, false);
    program.start(0, None, &[]);
    program.thread(0, 0);
    program.events(0, 0, &[control(EventKind::Thread, 0)], 40);
    program.events(0, 1, &[control(EventKind::Thread, 1)], 30);
    program.start(1, Some(0), &[0, 1]);
    program.events(1, 2, &[control(EventKind::Thread, 2)], 30);
    program.start(2, Some(1), &[2]);
    program.events(2, 3, &[control(EventKind::Thread, 3)], 30);
    program.events(0, 0, &[], 30);
    program.start(3, Some(0), &[0]);
    program.events(3, 4, &[], 20);
    for image in [3, 2, 1, 0] {
        program.end(image);
    }
    program.push(Record::Unrecorded(Unrecorded {
        pid: 120,
        executable: "/bin/static".into(),
        reason: "it is linked statically".into(),
        partly: false,
    }));
    program.symbols("forks")
}

fn windows() -> Seed {
    let mut program = Program::new(4, false);
    program.start(0, None, &[]);
    program.thread(0, 0);
    let window = |opened, name: &str, tick| {
        Record::Window(Window {
            image: 0,
            opened,
            thread: Some(0),
            this_thread_only: opened == 3,
            name: name.into(),
            iterations: 5,
            quiet: QuietWait::Reached,
            tick,
        })
    };
    let end = |opened, closed, tick| {
        Record::WindowEnd(WindowEnd {
            image: 0,
            opened,
            closed,
            quiet: QuietWait::TimedOut,
            tick,
            descriptors: Some(Descriptors {
                before: 3,
                after: 5,
                left: vec![LeftOpen {
                    name: "/tmp/x".into(),
                    count: 2,
                }],
                more: 0,
            }),
        })
    };
    let epoch = |epoch, opted_out| {
        let change = EpochChange { epoch, opted_out };
        event(EventKind::Epoch, EntryPoint::Malloc, 0, change.to_word(), 0)
    };
    for (at, name) in [(1, "outer"), (2, "w"), (3, "w"), (4, "outer")] {
        let tick = program.tick;
        program.push(window(at, name, tick));
        program.events(0, 0, &[control(EventKind::Thread, 0), epoch(at, false)], 25);
        program.events(
            0,
            1,
            &[control(EventKind::Thread, 1), epoch(at, at == 2)],
            25,
        );
    }
    for (opened, closed) in [(3, 5), (2, 6), (1, 7)] {
        let tick = program.tick;
        program.push(end(opened, closed, tick));
        program.events(0, 0, &[epoch(closed, false)], 15);
    }
    program.end(0);
    program.symbols("windows")
}

fn counts_only() -> Seed {
    let mut program = Program::new(5, true);
    program.start(0, None, &[]);
    program.thread(0, 0);
    for (thread, entry) in [
        (0, EntryPoint::Malloc),
        (1, EntryPoint::Free),
        (0, EntryPoint::Realloc),
    ] {
        let counted = EntryCounts {
            entry,
            allocations: 40,
            allocated_bytes: 4_000,
            deallocations: 30,
            reallocations: 3,
        };
        program.push(Record::Counts(Counts {
            image: 0,
            thread,
            tick: 1_200,
            entries: vec![counted; 2],
        }));
    }
    program.push(Record::Window(Window {
        image: 0,
        opened: 1,
        thread: None,
        this_thread_only: false,
        name: "w".into(),
        iterations: 0,
        quiet: QuietWait::NotRequested,
        tick: 1_100,
    }));
    for (epoch, allocations) in [(1, 4), (2, 20)] {
        let all = WindowSums {
            allocations,
            allocated_bytes: allocations * 10,
            deallocations: allocations / 2,
            reallocations: 1,
        };
        program.push(Record::WindowCounts(WindowCounts {
            image: 0,
            epoch,
            thread: Some(0),
            all,
            of_thread: all,
        }));
    }
    program.push(Record::WindowEnd(WindowEnd {
        image: 0,
        opened: 1,
        closed: 2,
        quiet: QuietWait::NotRequested,
        tick: 1_300,
        descriptors: None,
    }));
    program.end(0);
    program.symbols("counts only")
}

fn jit_code() -> Seed {
    let mut program = Program::new(6, false);
    program.start(0, None, &[]);
    program.thread(0, 0);
    for round in 0..4 {
        let names = JitSymbols {
            image: 0,
            tick: program.tick,
            frames: vec![frame(["jit_a", "jit_b"][round % 2], 7)],
            locations: (0..NODES)
                .step_by(3)
                .map(|n| Location {
                    address: 0x40_0000 * 3 + u64::from(n + 2) * 16,
                    exact: false,
                    frames: vec![0],
                })
                .collect(),
        };
        program.push(Record::JitSymbols(names));
        program.events(0, 0, &[control(EventKind::Thread, 0)], 40);
    }
    program.end(0);
    program.symbols("JIT code")
}

/// Traces of all kinds.
pub fn traces() -> Vec<Seed> {
    vec![
        one_thread(),
        several_threads(),
        forks(),
        windows(),
        counts_only(),
        free_stacks(),
        reachability(),
        jit_code(),
    ]
}

/// The file of these records.
pub fn written(records: &[Record], compression: Compression) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new()).expect("memory takes everything");
    writer.set_compression(compression);
    for (number, record) in records.iter().enumerate() {
        // The writer rejects records that contradict themselves.
        let _ = writer.write(record);
        if number % 4 == 0 {
            writer.flush().expect("memory takes everything");
        }
    }
    writer.finish().expect("memory takes everything")
}

const DTRACE: &str = "noise\n  42\n\n   lib`f+0x1\n   app`main+0x20\n     17\n\n   lib`g\n     3\n";
const BPFTRACE: &str =
    "Attaching...\n@m[\n    _ZN1a1bEi+1\n    0x7f00\n]: 5\n@bytes[\n    f+2\n, comm]: 64\n";
const HEAPTRACK: &str = "v 10400 3\nX ./p\ns 1 f\ns 4 main\ni 10 1 2 1 a 1 1 3\nt 1 0\ni 20 2\nt 2 1\na 10 2\na 20 1\n+ 0\n+ 1\n- 0\nc 5\n";
const PRINTED: &str = "Debuggee command was: ./p\n\n3 calls to allocation functions with 1.20K peak consumption from\nleaf\n  at p.c:3\n  in /p\n2 calls with 1.00K peak consumption from:\n    main\n      at p.c:4\n      in /p\n  and 1 from 1 other places\n\ntotal runtime\ncalls to allocation functions: 3 (1/s)\n";
const GPERFTOOLS: &str = "heap profile: 3: 48 [ 5: 80] @ heap_v2/512\n 2: 32 [ 4: 64] @ 0x1010 0x2020\n 1: 16 [ 1: 16] @ 0x2020\n\nMAPPED_LIBRARIES:\n1000-2000 r-xp 00001000 00:00 12 /srv/app\n2000-3000 r--p 00000000 00:00 13 /srv/lib b.so\n";
const GO: &str = "heap profile: 2: 32 [4: 64] @ heap/2\n2: 32 [4: 64] @ 0x11 0x21 0x31\n#\t0x10\tmain.f+0x8\t/a.go:3\n#\t0x20\tmain.main+0x18\t/a.go:9\n\n# runtime.MemStats\n";
const JEMALLOC: &str = "heap_v2/524288\n  t*: 3: 48 [0: 0]\n  t0: 3: 48 [0: 0]\n@ 0x1010 0x2020\n  t*: 3: 48 [0: 0]\n  t0: 3: 48 [0: 0]\n\nMAPPED_LIBRARIES:\n1000-2000 r-xp 00000000 00:00 12 /srv/app\n";
const FOLDED: &str = "main;f;g 17\nmain;f (a.c) 3\n";
const DHAT: &str = "{\"dhatFileVersion\":2,\"mode\":\"heap\",\"bklt\":true,\"tu\":\"us\",\"cmd\":\"p\",\"pps\":[{\"tb\":5,\"tbk\":1,\"tl\":3,\"gb\":5,\"gbk\":1,\"eb\":0,\"ebk\":0,\"fs\":[1,2]}],\"ftbl\":[\"[root]\",\"0x1: f (a.c:3:1)\",\"0x2: main (in /p)\"]}\n";

/// A file of every format that can be read and is not a trace: samples of other tools,
/// and the output of the exporters whose formats are also read, for one of them, also unpacked.
pub fn foreign() -> Vec<Vec<u8>> {
    let samples = [
        DTRACE, BPFTRACE, HEAPTRACK, PRINTED, FOLDED, DHAT, GPERFTOOLS, GO, JEMALLOC,
    ];
    let mut samples: Vec<Vec<u8>> = samples.iter().map(|text| text.as_bytes().into()).collect();
    let set = read_bytes("sample", HEAPTRACK.as_bytes())
        .expect("a whole sample")
        .set;
    let input = Input::of_set(&set);
    for name in ["folded", "stacks", "dhat", "pprof", "json"] {
        let exporter = exporter(name).unwrap_or_else(|| panic!("there is no format {name}"));
        let mut out = Vec::new();
        let written = exporter.write(&input, &ExportOptions::default(), &mut out);
        written.unwrap_or_else(|error| panic!("{}: {error}", exporter.name()));
        if out.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            let mut unpacked = flate2::read::GzDecoder::new(&out[..]);
            std::io::copy(&mut unpacked, &mut plain).expect("just packed");
            samples.push(plain);
        }
        samples.push(out);
    }
    samples
}
