//! Copies the state of a process out of its memory, and checks it.
//!
//! The process may be at work meanwhile, hostile, or dead. Each part is read as follows: the
//! word that publishes it; the part, each word once; the word that publishes it again. If
//! that has changed, the part is read again, a few times at most. So every sample is one
//! that existed while it was read. Samples that come and go during the read, which takes some
//! milliseconds, may be missing, and a block that is reallocated during it may be there twice.
//!
//! What cannot be right is left out and counted. Bounds: 57,344 samples, 32,768 totals, 262,144 nodes, 4,096
//! deallocations, 1,024 modules, 2,048 states of threads, about 14 MiB in all; the number of steps is
//! proportional to these.

mod figures;
mod periods;
mod stacks;
mod totals;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::fence;

use crate::layout::PAGE;
use crate::mapped_file::FileIdentity;
use crate::numbers::stack_end::FIRST_NODE;
use allotrope_sampling::Period;

pub use periods::{Change, Periods};
pub use stacks::Stack;
pub use totals::Total;

use crate::samples::frees::Deallocation;
use crate::samples::layout::{
    BUILD_ID, BYTES, EXITED, FREES, FreedSlot, MAGIC, MODULE_PATH, Memory, ModuleSlot, NODES,
    SampleSlot, TEXT, VERSION, module_state,
};
use crate::samples::live::{BEING_WRITTEN, buckets_of};
use crate::samples::stacks::Frame;
use crate::samples::writer::Sample;

/// How often a part that changes while it is read is tried.
const ATTEMPTS: usize = 8;

/// Why a memory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The process has not written it completely, or it is something else.
    #[error("the memory of the watched process has no complete header")]
    Incomplete,
    /// Another version of Allotrope has written it.
    #[error(
        "the watched process uses version {found} of the memory's layout, this is version {VERSION}"
    )]
    OtherVersion {
        /// The version.
        found: u64,
    },
}

/// The state of a process.
#[derive(Debug)]
pub struct State {
    /// The process.
    pub process: Process,
    /// The period at which it is asked to sample; `None`: sampling is off.
    pub period: Option<Period>,
    /// The period at which it samples while nobody watches it; `None`: it has none of this kind.
    pub standby: Option<Period>,
    /// When it has sampled, and at which periods.
    pub periods: Periods,
    /// What has happened so far.
    pub counters: Counters,
    /// The live samples, in no order.
    pub samples: Vec<Sample>,
    /// The totals of all samples since the beginning, in no order.
    pub totals: Vec<Total>,
    /// The latest deallocations of samples, the oldest first.
    pub freed: Vec<Freed>,
    /// The modules by number, those too that are no longer mapped.
    pub modules: Vec<(u16, Module)>,
    /// Parts that changed whenever they were read.
    pub unstable: u64,
    /// Parts that cannot be right.
    pub malformed: u64,
    nodes: stacks::Nodes,
}

/// What the header tells of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Id of the process in its own pid namespace.
    pub id: u64,
    /// When the memory was made, by `CLOCK_MONOTONIC_COARSE`, in nanoseconds.
    pub began: u64,
    /// When the memory was made, by `CLOCK_REALTIME_COARSE`, in nanoseconds since 1970.
    pub began_real: u64,
    /// The status with which it has exited; `None`: it runs, or was ended by a signal.
    pub exit_status: Option<i32>,
    /// The path of its executable, perhaps cut.
    pub executable: Vec<u8>,
    /// Arguments of the process, each followed by a zero byte, perhaps cut.
    pub command: Vec<u8>,
    /// See [`Header`](crate::samples::layout::Header).
    pub other_malloc: u64,
    /// See [`Header`](crate::samples::layout::Header).
    pub next_malloc: u64,
    /// Where its recorder keeps what it needs.
    pub recorder: RecorderMemory,
}

/// Where a process has its recorder's memory. The process can write anything here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecorderMemory {
    /// Address of the memory that is read here, of [`BYTES`].
    pub memory: u64,
    /// Addresses of the states of threads.
    pub states: Vec<u64>,
    /// Bytes of each of them.
    pub state_bytes: u64,
}

/// See [`crate::samples::layout::Counters`].
#[allow(missing_docs)] // they have the names of the counters there, but `freed` (`frees`)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub sampled: u64,
    pub freed: u64,
    pub lost_samples: u64,
    pub lost_stacks: u64,
    pub lost_modules: u64,
    pub lost_frees: u64,
    pub lost_totals: u64,
    pub uncommitted: u64,
}

/// A sampled block that was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    /// Number of this deallocation among those of samples, from 1.
    pub number: u64,
    /// The block's address.
    pub address: u64,
    /// The size requested, in bytes.
    pub size: u64,
    /// The period at which it was sampled.
    pub period: Period,
    /// When it was allocated, by `CLOCK_MONOTONIC_COARSE`, in nanoseconds.
    pub allocated: u64,
    /// The id of the allocation's stack.
    pub stack: u32,
    /// The thread that allocated it.
    pub thread: u32,
    /// How it was freed.
    pub deallocation: Deallocation,
}

/// A module of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Lowest address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// What is added to the addresses of its file.
    pub bias: u64,
    /// When it was first seen.
    pub mapped: u64,
    /// When it was found to be gone.
    pub unmapped: Option<u64>,
    /// The file that was mapped, if there is no build id.
    pub file: FileIdentity,
    /// Build id of the file.
    pub build_id: Vec<u8>,
    /// Path of the file, perhaps without its start.
    pub path: Vec<u8>,
}

impl State {
    /// Reads the state of a process.
    ///
    /// # Errors
    /// If the memory has no header of this version.
    pub fn read(memory: &Memory) -> Result<Self, ReadError> {
        let header = &memory.header.0;
        if header.magic.load(Acquire) != MAGIC {
            return Err(ReadError::Incomplete);
        }
        let found = header.version.load(Relaxed);
        if found != VERSION || header.bytes.load(Relaxed) != BYTES as u64 {
            return Err(ReadError::OtherVersion { found });
        }
        let lengths = header.lengths.load(Relaxed);
        let mut reader = Reader {
            memory,
            unstable: 0,
            malformed: 0,
        };
        let samples = reader.samples();
        let totals = reader.totals();
        let freed = reader.freed();
        let modules = reader.modules();
        let states = reader.committed(&memory.states);
        let states = states.map(|(_, state)| state.load(Relaxed));
        let periods = reader.periods(memory);
        // Last: the nodes of all stacks above have been published by now.
        let nodes = reader.nodes();
        Ok(Self {
            process: Process {
                id: header.process.load(Relaxed),
                began: header.began.load(Relaxed),
                began_real: header.began_real.load(Relaxed),
                exit_status: exit_status(header.exit.load(Relaxed)),
                executable: bytes(&header.executable, low(lengths).min(TEXT)),
                command: bytes(&header.command, high(lengths).min(TEXT)),
                other_malloc: header.other_malloc.load(Relaxed),
                next_malloc: header.next_malloc.load(Relaxed),
                recorder: RecorderMemory {
                    memory: header.address.load(Relaxed),
                    states: states.filter(|it| *it != 0).collect(),
                    state_bytes: header.state_bytes.load(Relaxed),
                },
            },
            period: Period::new(memory.control.0.period.load(Relaxed)),
            standby: Period::new(memory.control.0.standby.load(Relaxed)),
            periods,
            counters: counters(memory),
            samples,
            totals,
            freed,
            modules,
            unstable: reader.unstable,
            malformed: reader.malformed,
            nodes,
        })
    }

    /// The innermost frame of the stack with this id, and the id of its callers, which is
    /// smaller. `None`: there is no such frame.
    pub fn node(&self, id: u32) -> Option<(Frame, u32)> {
        self.nodes.node(id)
    }

    /// The stack with this id.
    pub fn stack(&self, id: u32) -> Stack {
        self.nodes.stack(id)
    }
}

/// The lower half of a word.
fn low(word: u64) -> usize {
    word as u32 as usize
}

/// The upper half of a word.
fn high(word: u64) -> usize {
    (word >> 32) as usize
}

/// The status that a process has exited with.
fn exit_status(word: u64) -> Option<i32> {
    (word & EXITED != 0).then_some(word as u32 as i32)
}

fn bytes(words: &[AtomicU64], length: usize) -> Vec<u8> {
    let words = words.iter().flat_map(|it| it.load(Relaxed).to_le_bytes());
    words.take(length).collect()
}

fn counters(memory: &Memory) -> Counters {
    let counters = &memory.counters.0;
    Counters {
        sampled: counters.sampled.load(Relaxed),
        freed: counters.frees.load(Relaxed),
        lost_samples: counters.lost_samples.load(Relaxed),
        lost_stacks: counters.lost_stacks.load(Relaxed),
        lost_modules: counters.lost_modules.load(Relaxed),
        lost_frees: counters.lost_frees.load(Relaxed),
        lost_totals: counters.lost_totals.load(Relaxed),
        uncommitted: counters.uncommitted.load(Relaxed),
    }
}

/// What a part of the memory holds.
enum Found<T> {
    Part(T),
    Nothing,
    Malformed,
    /// It has changed while it was read.
    Changed,
}

struct Reader<'a> {
    memory: &'a Memory,
    unstable: u64,
    malformed: u64,
}

impl<'a> Reader<'a> {
    /// The structures of a table, with their numbers, whose pages the process has committed.
    /// The rest is not touched: in a sparse file that would take memory. The table begins with
    /// a page.
    fn committed<T>(&self, table: &'a [T]) -> impl Iterator<Item = (usize, &'a T)> + use<'a, T> {
        let of_page = PAGE / size_of::<T>();
        let start = core::ptr::from_ref(self.memory).addr();
        let first = (table.as_ptr().addr() - start) / PAGE;
        let bits = &self.memory.header.0.committed;
        let pages = (first..).zip(table.chunks(of_page).enumerate());
        let committed = pages.filter(move |(page, _)| {
            let word = bits[page / 64].load(Relaxed);
            word & 1 << (page % 64) != 0
        });
        committed.flat_map(move |(_, (page, part))| (page * of_page..).zip(part))
    }

    /// Reads a part until it does not change meanwhile.
    fn stable<T>(&mut self, read: impl Fn() -> Found<T>) -> Option<T> {
        for _ in 0..ATTEMPTS {
            match read() {
                Found::Part(part) => return Some(part),
                Found::Nothing => return None,
                Found::Malformed => {
                    self.malformed += 1;
                    return None;
                }
                Found::Changed => core::hint::spin_loop(),
            }
        }
        self.unstable += 1;
        None
    }

    fn samples(&mut self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for (number, bucket) in self.committed(&self.memory.buckets) {
            for (key, slot) in bucket.keys.iter().zip(&bucket.samples) {
                samples.extend(self.stable(|| sample(number, key, slot)));
            }
        }
        samples
    }

    fn freed(&mut self) -> Vec<Freed> {
        let mut all = Vec::new();
        for (place, slot) in self.committed(&self.memory.frees) {
            all.extend(self.stable(|| freed(place, slot)));
        }
        all.sort_unstable_by_key(|it| it.number);
        all
    }

    fn modules(&mut self) -> Vec<(u16, Module)> {
        let mut all = Vec::new();
        for (number, slot) in self.committed(&self.memory.modules) {
            let module = self.stable(|| module(slot));
            all.extend(module.map(|module| (number as u16, module)));
        }
        all
    }

    fn nodes(&mut self) -> stacks::Nodes {
        let used = self.memory.counters.0.nodes.load(Relaxed);
        let used = usize::try_from(used).map_or(NODES, |it| it.min(NODES));
        let end = (FIRST_NODE as usize + used).min(NODES);
        let mut nodes = vec![[0; 2]; end].into_boxed_slice();
        for (id, slot) in self.committed(&self.memory.nodes[..end]) {
            nodes[id] = [slot.place.load(Relaxed), slot.parent.load(Relaxed)];
        }
        stacks::Nodes::new(nodes)
    }
}

fn sample(bucket: usize, key: &AtomicU64, slot: &SampleSlot) -> Found<Sample> {
    let address = key.load(Acquire);
    if address == 0 || address & BEING_WRITTEN != 0 {
        return Found::Nothing;
    }
    let version = slot.version.load(Acquire);
    let sample = slot.sample(address);
    fence(Acquire);
    if version & 1 != 0 || slot.version.load(Relaxed) != version || key.load(Relaxed) != address {
        return Found::Changed;
    }
    match sample {
        Some(sample) if buckets_of(address).contains(&bucket) => Found::Part(sample),
        _ => Found::Malformed,
    }
}

fn freed(place: usize, slot: &FreedSlot) -> Found<Freed> {
    let version = slot.version.load(Acquire);
    if version == 0 {
        return Found::Nothing;
    }
    let stacks = slot.stacks.load(Relaxed);
    let threads = slot.threads.load(Relaxed);
    let address = slot.address.load(Relaxed);
    let size = slot.size.load(Relaxed);
    let period = slot.period.load(Relaxed);
    let allocated = slot.allocated.load(Relaxed);
    let time = slot.freed.load(Relaxed);
    fence(Acquire);
    if version & 1 != 0 || slot.version.load(Relaxed) != version {
        return Found::Changed;
    }
    let number = version >> 1;
    let Some(period) = Period::new(period) else {
        return Found::Malformed;
    };
    if (number - 1) as usize % FREES != place {
        return Found::Malformed;
    }
    Found::Part(Freed {
        number,
        address,
        size,
        period,
        allocated,
        stack: stacks as u32,
        thread: threads as u32,
        deallocation: Deallocation {
            time,
            stack: (stacks >> 32) as u32,
            thread: (threads >> 32) as u32,
        },
    })
}

fn module(slot: &ModuleSlot) -> Found<Module> {
    let state = slot.state.load(Acquire);
    let is_unmapped = match state {
        module_state::EMPTY => return Found::Nothing,
        module_state::MAPPED => false,
        module_state::UNMAPPED => true,
        _ => return Found::Malformed,
    };
    let lengths = slot.lengths.load(Relaxed);
    let module = Module {
        start: slot.start.load(Relaxed),
        end: slot.end.load(Relaxed),
        bias: slot.bias.load(Relaxed),
        mapped: slot.mapped.load(Relaxed),
        unmapped: is_unmapped.then(|| slot.unmapped.load(Relaxed)),
        file: FileIdentity::from_words(slot.file.each_ref().map(|word| word.load(Relaxed))),
        build_id: bytes(&slot.build_id, low(lengths).min(BUILD_ID)),
        path: bytes(&slot.path, high(lengths).min(MODULE_PATH)),
    };
    fence(Acquire);
    if slot.state.load(Relaxed) != state {
        return Found::Changed;
    }
    if module.start >= module.end || high(lengths) > MODULE_PATH || low(lengths) > BUILD_ID {
        return Found::Malformed;
    }
    Found::Part(module)
}
