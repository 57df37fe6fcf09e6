//! Small recordings that are large once they are read: deep, wide, or with very many stacks,
//! threads, processes, modules, windows or blocks. Each follows from its numbers alone.

use std::collections::HashMap;

use allotrope_trace::TraceWriter;
use allotrope_trace::model::*;

/// A code address for each function of the bomb, all in one module.
const CODE: u64 = 0x40_0000;
/// Bytes of a function.
const FUNCTION: u64 = 16;

/// A recording that is being made.
pub struct Bomb {
    writer: TraceWriter<Vec<u8>>,
    tick: u64,
    /// Number of stack nodes and the next address of a block, by image.
    nodes: HashMap<ImageId, u32>,
    blocks: u64,
    ordinals: HashMap<StreamId, u64>,
    /// Functions that stacks have so far.
    functions: u64,
}

impl Bomb {
    /// A recording without processes. Deallocations have stacks if `free_stacks`.
    pub fn new(free_stacks: bool) -> Self {
        let mut bomb = Self {
            writer: TraceWriter::new(Vec::new()).expect("memory takes everything"),
            tick: 1_000,
            nodes: HashMap::new(),
            blocks: 0x1000,
            ordinals: HashMap::new(),
            functions: 0,
        };
        bomb.push(Record::Recording(Recording {
            tool_version: "0.1.0".into(),
            command: vec!["bomb".into()],
            started_unix_ns: 1_700_000_000_000_000_000,
            started_tick: 1_000,
            system: "Linux".into(),
            architecture: "x86_64".into(),
            depth_limit: 1 << 20,
            counts_only: false,
            free_stacks,
        }));
        for (tick, monotonic_ns) in [(1_000, 1_000), (1_000_000_000, 1_000_000_000)] {
            bomb.push(Record::Clock(Clock { tick, monotonic_ns }));
        }
        bomb.push(Record::Module(Module {
            module: 0,
            path: "/bin/bomb".into(),
            build_id: vec![7; 20],
            file: FileIdentity::default(),
        }));
        bomb
    }

    pub fn push(&mut self, record: Record) {
        self.writer.write(&record).expect("memory takes everything");
    }

    /// Starts a process image; a forked one inherits what is live in `forked_from`.
    pub fn image(&mut self, image: ImageId, forked_from: Option<(ImageId, StreamId)>) {
        let fork_points = forked_from.map(|(_, stream)| ForkPoint {
            stream,
            ordinal: self.ordinals.get(&stream).copied().unwrap_or(0),
        });
        self.push(Record::ImageStart(ImageStart {
            image,
            pid: 100 + image,
            parent_pid: 99,
            origin: forked_from.map_or(Origin::First, |_| Origin::Fork),
            forked_from: forked_from.map(|(parent, _)| parent),
            fork_points: fork_points.into_iter().collect(),
            executable: "/bin/bomb".into(),
            command: vec!["bomb".into()],
            tick: self.tick,
        }));
        self.push(Record::Mapping(Mapping {
            image,
            mapping: 0,
            module: 0,
            start: CODE,
            end: CODE << 8,
            bias: CODE,
            tick: self.tick,
        }));
        self.thread(image, image);
    }

    pub fn thread(&mut self, image: ImageId, thread: ThreadId) {
        self.push(Record::ThreadStart(ThreadStart {
            image,
            thread,
            tid: 1_000 + thread,
            tick: self.tick,
        }));
    }

    /// Adds stack nodes, each as (parent, function); returns the id of the first.
    pub fn nodes(&mut self, image: ImageId, nodes: impl IntoIterator<Item = (u32, u64)>) -> u32 {
        let count = self.nodes.entry(image).or_default();
        let first = stack_end::FIRST_NODE + *count;
        let nodes: Vec<StackNode> = nodes
            .into_iter()
            .map(|(parent, function)| {
                self.functions = self.functions.max(function + 1);
                StackNode {
                    parent,
                    address: CODE + function * FUNCTION + 4,
                    mapping: 0,
                    exact: false,
                }
            })
            .collect();
        *count += nodes.len() as u32;
        for (part, nodes) in (0..).zip(nodes.chunks(1 << 18)) {
            self.push(Record::Stacks {
                image,
                first: first + (part << 18),
                nodes: nodes.to_vec(),
            });
        }
        first
    }

    /// A chain of `depth` calls below `parent`, of the functions that `function` gives for each
    /// depth; returns the id of its first node.
    pub fn chain(
        &mut self,
        image: ImageId,
        parent: u32,
        depth: u32,
        function: impl Fn(u32) -> u64,
    ) -> u32 {
        let first = stack_end::FIRST_NODE + self.nodes.get(&image).copied().unwrap_or(0);
        let node = |n: u32| (if n == 0 { parent } else { first + n - 1 }, function(n));
        self.nodes(image, (0..depth).map(node))
    }

    /// Events of a stream, which is that of the thread with the same number.
    pub fn events(&mut self, image: ImageId, stream: StreamId, events: Vec<Event>) {
        let ordinal = self.ordinals.entry(stream).or_default();
        let first_ordinal = *ordinal;
        let mut all = Vec::new();
        if first_ordinal == 0 {
            all.push(control(EventKind::Thread, stream.into()));
        }
        *ordinal += events.iter().filter(|it| it.is_counted()).count() as u64;
        self.tick += 1_000;
        all.push(control(EventKind::Timestamp, self.tick));
        all.extend(events);
        self.push(Record::Events(Events {
            image,
            stream,
            first_ordinal,
            events: all,
        }));
    }

    /// An allocation at a new address.
    pub fn allocation(&mut self, stack: u32) -> Event {
        self.blocks += 32;
        event(EventKind::Allocation, stack, self.blocks, 24)
    }

    /// One allocation at each of these stacks, by one thread.
    pub fn allocate(
        &mut self,
        image: ImageId,
        stream: StreamId,
        stacks: impl IntoIterator<Item = u32>,
    ) {
        let events = stacks.into_iter().map(|it| self.allocation(it)).collect();
        self.events(image, stream, events);
    }

    /// Ends the images, and names each function `NAME<number>` in a file.
    pub fn finish(self, images: u32, name: &str) -> Vec<u8> {
        let functions = self.functions.min(100_000);
        self.finish_with(images, functions, |number| format!("{name}{number}"))
    }

    /// Ends the images; `functions` of the functions have names.
    pub fn finish_with(
        mut self,
        images: u32,
        functions: u64,
        name: impl Fn(u64) -> String,
    ) -> Vec<u8> {
        for image in 0..images {
            self.tick += 1_000;
            let tick = self.tick;
            self.push(Record::ImageEnd(ImageEnd {
                image,
                tick,
                exit: Exit::Status(0),
                complete: true,
            }));
        }
        let numbers: Vec<u64> = (0..functions).collect();
        for numbers in numbers.chunks(5_000) {
            let frames = numbers.iter().map(|&number| NamedFrame {
                function: name(number).into(),
                signature: name(number).into(),
                file: "/src/bomb.c".into(),
                line: 10 + number as u32,
                column: 3,
                offset: Some(4),
                ..NamedFrame::default()
            });
            let locations = (0..).zip(numbers).map(|(index, &number)| Location {
                address: number * FUNCTION + 4,
                exact: false,
                frames: vec![index],
            });
            self.push(Record::Symbols(Symbols {
                module: 0,
                unoptimised: Some(true),
                compilers: Vec::new(),
                frames: frames.collect(),
                locations: locations.collect(),
                missing: None,
                sources: Vec::new(),
            }));
        }
        self.writer.finish().expect("memory takes everything")
    }
}

fn event(kind: EventKind, stack: u32, address: u64, size: u64) -> Event {
    Event {
        kind,
        entry: match kind {
            EventKind::Deallocation => EntryPoint::Free,
            _ => EntryPoint::Malloc,
        },
        alignment_log2: 0,
        stack,
        address,
        size,
    }
}

pub fn control(kind: EventKind, word: u64) -> Event {
    event(kind, 0, word, 0)
}

/// A binary tree of calls, `levels` deep and so 2^`levels` wide, below a chain of `depth` calls.
pub fn wide_below_deep(depth: u32, levels: u32, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(false);
    bomb.image(0, None);
    let chain = bomb.chain(0, 0, depth, |n| if n == 0 { 0 } else { 1 });
    let mut parents = vec![chain + depth - 1];
    for _ in 0..levels {
        let children = parents.iter().flat_map(|&it| [(it, 2), (it, 3)]);
        let children: Vec<_> = children.collect();
        let first = bomb.nodes(0, children);
        parents = (first..first + 2 * parents.len() as u32).collect();
    }
    bomb.allocate(0, 0, parents);
    bomb.finish(1, name)
}

/// A chain of `depth` calls each of which allocates: half of the square of the depth in frames.
pub fn comb(depth: u32, functions: u64, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(false);
    bomb.image(0, None);
    let chain = bomb.chain(0, 0, depth, |n| u64::from(n) % functions);
    bomb.allocate(0, 0, chain..chain + depth);
    bomb.finish(1, name)
}

/// Writes so many stacks, each so deep, that share no function but the outermost.
pub fn separate(stacks: u32, depth: u32, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(false);
    bomb.image(0, None);
    let root = bomb.chain(0, 0, 1, |_| 0);
    for stack in 0..stacks {
        let first = u64::from(stack * depth) + 1;
        let chain = bomb.chain(0, root, depth, |n| first + u64::from(n));
        bomb.allocate(0, 0, [chain + depth - 1]);
    }
    bomb.finish(1, name)
}

/// Writes so many stacks, each so deep: `main` calls so many functions, and below each are the same
/// others.
pub fn broad(stacks: u32, depth: u32, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(false);
    bomb.image(0, None);
    let root = bomb.chain(0, 0, 1, |_| 0);
    let mut ends = Vec::new();
    for stack in 0..stacks {
        let own = u64::from(depth + stack);
        let chain = bomb.chain(0, root, depth, |n| match n {
            0 => own,
            n => n.into(),
        });
        ends.push(chain + depth - 1);
    }
    bomb.allocate(0, 0, ends);
    bomb.finish(1, name)
}

/// Writes so many distinct stacks: below each node `fan` others.
pub fn many_stacks(stacks: u32, fan: u32, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(false);
    bomb.image(0, None);
    let first = stack_end::FIRST_NODE;
    let node = |n: u32| match n {
        0 => (0, 0),
        n => (first + (n - 1) / fan, 1 + u64::from((n - 1) % fan)),
    };
    bomb.nodes(0, (0..stacks).map(node));
    bomb.allocate(0, 0, first..first + stacks);
    bomb.finish(1, name)
}

/// Writes so many threads; each allocates a block of its own, and frees one of another.
pub fn many_threads(threads: u32, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(false);
    bomb.image(0, None);
    let chain = bomb.chain(0, 0, 3, u64::from);
    let mut last = None;
    for thread in 0..threads {
        if thread > 0 {
            bomb.thread(0, thread);
        }
        let allocation = bomb.allocation(chain + 2);
        let mut events = vec![allocation];
        let freed = last.replace(allocation.address);
        events.extend(freed.map(|it| event(EventKind::Deallocation, 0, it, 0)));
        bomb.events(0, thread, events);
    }
    bomb.finish(1, name)
}

/// A process with so many live blocks that forks so many children.
pub fn many_processes(children: u32, blocks: u32, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(false);
    bomb.image(0, None);
    let chain = bomb.chain(0, 0, 3, u64::from);
    bomb.allocate(0, 0, (0..blocks).map(|_| chain + 2));
    for child in 1..=children {
        bomb.image(child, Some((0, 0)));
        let chain = bomb.chain(child, 0, 3, u64::from);
        bomb.allocate(child, child, [chain + 2]);
    }
    bomb.finish(children + 1, name)
}

/// Forks of forks: each child inherits the blocks of its parent and allocates as many.
pub fn nested_forks(depth: u32, blocks: u32, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(false);
    for image in 0..depth {
        bomb.image(image, image.checked_sub(1).map(|parent| (parent, parent)));
        let chain = bomb.chain(image, 0, 3, u64::from);
        bomb.allocate(image, image, (0..blocks).map(|_| chain + 2));
    }
    bomb.finish(depth, name)
}

/// Writes so many modules, each mapped.
pub fn many_modules(modules: u32, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(false);
    bomb.image(0, None);
    for module in 1..=modules {
        bomb.push(Record::Module(Module {
            module,
            path: format!("/lib/lib{module}.so").into(),
            build_id: vec![1; 20],
            file: FileIdentity::default(),
        }));
        let start = (CODE << 8) + u64::from(module) * 0x1000;
        bomb.push(Record::Mapping(Mapping {
            image: 0,
            mapping: module,
            module,
            start,
            end: start + 0x1000,
            bias: start,
            tick: 2_000,
        }));
    }
    let nodes: Vec<StackNode> = (0..modules)
        .map(|n| StackNode {
            parent: 0,
            address: (CODE << 8) + u64::from(n + 1) * 0x1000 + 4,
            mapping: n + 1,
            exact: false,
        })
        .collect();
    bomb.push(Record::Stacks {
        image: 0,
        first: stack_end::FIRST_NODE,
        nodes,
    });
    let first = stack_end::FIRST_NODE;
    bomb.allocate(0, 0, first..first + modules);
    bomb.finish(1, name)
}

/// Writes so many windows, open at the same time, and so many allocations in them.
pub fn many_windows(windows: u32, allocations: u32, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(false);
    bomb.image(0, None);
    let chain = bomb.chain(0, 0, 100, u64::from);
    let epoch = |epoch| {
        let change = EpochChange {
            epoch,
            opted_out: false,
        };
        control(EventKind::Epoch, change.to_word())
    };
    for opened in 1..=u64::from(windows) {
        let tick = 2_000 + opened;
        bomb.push(Record::Window(Window {
            image: 0,
            opened,
            thread: Some(0),
            this_thread_only: false,
            name: format!("w{}", opened % 7),
            iterations: 3,
            quiet: QuietWait::Reached,
            tick,
        }));
        let allocation = bomb.allocation(chain + (opened % 100) as u32);
        bomb.events(0, 0, vec![epoch(opened), allocation]);
    }
    let stacks = (0..allocations).map(|n| chain + n % 100);
    bomb.allocate(0, 0, stacks);
    for opened in 1..=u64::from(windows) {
        bomb.push(Record::WindowEnd(WindowEnd {
            image: 0,
            opened,
            closed: u64::from(windows) + opened,
            quiet: QuietWait::Reached,
            tick: 900_000_000,
            descriptors: None,
        }));
    }
    bomb.finish(1, name)
}

/// Writes so many allocations of so many stacks, none of which is freed.
pub fn many_blocks(blocks: u32, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(false);
    bomb.image(0, None);
    let chain = bomb.chain(0, 0, 100, u64::from);
    for part in 0..blocks.div_ceil(1 << 16) {
        bomb.allocate(0, 0, (0..1 << 16).map(|n| chain + (n + part) % 100));
    }
    bomb.finish(1, name)
}

/// Writes so many functions with names of so many bytes, on stacks of ten of them.
pub fn long_names(functions: u64, bytes: usize, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(false);
    bomb.image(0, None);
    for first in (0..functions).step_by(10) {
        let chain = bomb.chain(0, 0, 10, |n| first + u64::from(n));
        bomb.allocate(0, 0, [chain + 9]);
    }
    bomb.finish_with(1, functions, |number| {
        format!("{name}{number}{}", "x".repeat(bytes))
    })
}

/// One block, and so many that a scan at the exit has not found reachable.
pub fn many_lost_blocks(blocks: u64, name: &str) -> Vec<u8> {
    const AT_ONCE: usize = 1 << 16;
    let mut bomb = Bomb::new(false);
    bomb.image(0, None);
    let chain = bomb.chain(0, 0, 1, u64::from);
    bomb.allocate(0, 0, [chain]);
    let block = |number: u64| LostBlock {
        address: number * LostBlock::ALIGNMENT,
        class: LostClass::Definitely,
    };
    let all: Vec<_> = (1..=blocks).map(block).collect();
    for blocks in all.chunks(AT_ONCE) {
        bomb.push(Record::LostBlocks {
            image: 0,
            blocks: blocks.to_vec(),
        });
    }
    bomb.push(Record::Reachability(Reachability {
        image: 0,
        tick: u64::MAX / 4,
        blocks,
        ..Reachability::default()
    }));
    bomb.finish(1, name)
}

/// A chain of `depth` calls of which each allocates, and each block is freed at another of them:
/// the square of the depth in pairs of stacks.
pub fn many_free_stacks(sites: u32, freeing: u32, name: &str) -> Vec<u8> {
    let mut bomb = Bomb::new(true);
    bomb.image(0, None);
    let chain = bomb.chain(0, 0, sites.max(freeing), u64::from);
    for free in 0..freeing {
        let mut events = Vec::new();
        for site in 0..sites {
            let allocation = bomb.allocation(chain + site);
            events.push(allocation);
            let stack = chain + (free + site) % freeing;
            events.push(event(EventKind::Deallocation, stack, allocation.address, 0));
        }
        bomb.events(0, 0, events);
    }
    bomb.finish(1, name)
}
