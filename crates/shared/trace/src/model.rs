//! The records of a trace, independent of their encoding.
//!
//! Terms:
//! - A *process image* is one program in one process: it begins with `exec` or
//!   `fork` and ends with the process or the next `exec`.
//! - An *event stream* is the sequence of events that one per-thread ring of an
//!   image delivered. Threads may use the same ring one after another.
//! - A *block* is a piece of memory that an allocation returned.
//! - A *tick* is a reading of the recording machine's time stamp counter.
//!   [`Clock`] records convert ticks to the monotonic clock.
//!
//! Ids are dense numbers from 0.

mod environment;
mod reachability;
mod samples;
mod window;

use std::ffi::OsString;
use std::path::PathBuf;

pub use crate::frame::{BlockType, NamedFrame};
pub use allotrope_shm::mapped_file::FileIdentity;
pub use allotrope_shm::numbers::{
    AddressSpace, EntryPoint, LossReason, LostClass, QuietWait, ScanOutcome, stack_end,
};
pub use environment::{Environment, MAX_ENVIRONMENT, Variable};
pub use reachability::{LostBlock, Reachability};
pub use samples::{MAX_PERIOD, Sample, SampleTotal, Sampling, SamplingTimes};
pub use window::{Descriptors, EpochChange, LeftOpen, Window, WindowCounts, WindowEnd, WindowSums};

/// Id of a process image, in order of start; unique in a trace.
pub type ImageId = u32;
/// Id of an event stream; unique in a trace.
pub type StreamId = u32;
/// Id of a thread; unique in a trace.
pub type ThreadId = u32;
/// Id of a module *file* (path, and build id or what was mapped); unique in a trace.
pub type ModuleId = u32;
/// Id of one mapping of a module into one image; unique in that image.
pub type MappingId = u32;
/// Id of a call stack: the id of its innermost node in the image's stack trie
/// ([`StackNode`]), or one of [`stack_end`]. Unique in its image.
pub type StackId = u32;

/// One record of a trace. The file has the records in the order in which the
/// collector wrote them.
///
/// A record precedes every record that refers to it, with two exceptions: the
/// threads of [`Record::Events`] and the mappings of [`StackNode`]s may follow
/// later in the file.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// The recording as a whole: the first record of the file, and only there.
    Recording(Recording),
    /// Simultaneous readings of the time stamp counter and the monotonic clock.
    Clock(Clock),
    /// A process image began.
    ImageStart(ImageStart),
    /// The environment with which an image began. A forked image has its parent's.
    Environment(Environment),
    /// A process image ended, or its recording did.
    ImageEnd(ImageEnd),
    /// A thread emitted its first event.
    ThreadStart(ThreadStart),
    /// A thread's name. The last record of a thread is valid.
    ThreadName(ThreadName),
    /// The collector noticed that a thread had ended.
    ThreadEnd(ThreadEnd),
    /// A module file.
    Module(Module),
    /// A module was mapped into an image.
    Mapping(Mapping),
    /// A module was unmapped.
    Unmapped {
        /// The image.
        image: ImageId,
        /// The mapping that ended.
        mapping: MappingId,
        /// When it was noticed.
        tick: u64,
    },
    /// Consecutive nodes of an image's stack trie. The node at index `i` has the
    /// id `first + i`. A node's parent has a smaller id or is a stack end.
    Stacks {
        /// The image.
        image: ImageId,
        /// Id of the first node, at least `stack_end::FIRST_NODE`.
        first: StackId,
        /// The nodes.
        nodes: Vec<StackNode>,
    },
    /// Consecutive events of one stream.
    Events(Events),
    /// Resident set size of a process, as the kernel reports it.
    ResidentSet {
        /// The image.
        image: ImageId,
        /// When the collector read it.
        tick: u64,
        /// Resident bytes.
        bytes: u64,
        /// Resident bytes of the recorder. `None` in traces of minor versions before 5, and where
        /// the collector could not measure them.
        recorder_bytes: Option<u64>,
    },
    /// Counted calls, where the recording has no events ([`Recording::counts_only`]).
    Counts(Counts),
    /// Events that could not be recorded.
    Loss(Loss),
    /// How often and how long a thread waited for space in its ring.
    Waits(Waits),
    /// A window, a named span of the program, opened.
    Window(Window),
    /// A window closed.
    WindowEnd(WindowEnd),
    /// Totals at the opening or closing of a window, where the recording has no events.
    WindowCounts(WindowCounts),
    /// Function names and lines for addresses of a module.
    Symbols(Symbols),
    /// Function names and lines for JIT code: code addresses outside all modules.
    JitSymbols(JitSymbols),
    /// An image of the process tree that could not be recorded.
    Unrecorded(Unrecorded),
    /// A named moment of the recording.
    Mark(Mark),
    /// Blocks to which no root led at the exit. They precede the image's
    /// [`Record::Reachability`].
    LostBlocks {
        /// The image.
        image: ImageId,
        /// The blocks.
        blocks: Vec<LostBlock>,
    },
    /// A scan for reachable blocks at the exit ended.
    Reachability(Reachability),
    /// How an image was sampled. Only in sampled profiles, as are the next two.
    Sampling(Sampling),
    /// Sampled blocks that were live.
    Samples {
        /// The image.
        image: ImageId,
        /// The blocks.
        samples: Vec<Sample>,
    },
    /// Totals of all samples since the beginning.
    SampleTotals {
        /// The image.
        image: ImageId,
        /// The totals. Several may have the same stack, period and sizes.
        totals: Vec<SampleTotal>,
    },
}

/// The recording as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recording {
    /// Version of the tool that wrote the file, e.g. `0.1.0`.
    pub tool_version: String,
    /// The command that was recorded.
    pub command: Vec<OsString>,
    /// Start, in nanoseconds since 1970 UTC.
    pub started_unix_ns: u64,
    /// Tick at the start.
    pub started_tick: u64,
    /// Operating system and version, as uname(1) prints them.
    pub system: String,
    /// Architecture, e.g. `x86_64`.
    pub architecture: String,
    /// Largest number of frames of a stack; the recorder truncates deeper ones.
    pub depth_limit: u32,
    /// The recorder counted calls ([`Record::Counts`]) and emitted no events. Such
    /// a trace has no temporary, live, leaked or peak figures.
    pub counts_only: bool,
    /// The recorder emitted the stacks of deallocations, too ([`Event::stack`]).
    pub free_stacks: bool,
}

/// Simultaneous readings of two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Time stamp counter, in ticks.
    pub tick: u64,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub monotonic_ns: u64,
}

/// How an image began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// The recorded command itself.
    #[default]
    First,
    /// `fork`: the image inherits the live blocks of its parent.
    Fork,
    /// `exec`. The trace may contain the previous image of the process, too.
    Exec,
}

/// Beginning of a process image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageStart {
    /// The image.
    pub image: ImageId,
    /// Process id.
    pub pid: u32,
    /// The parent's process id.
    pub parent_pid: u32,
    /// How the image began.
    pub origin: Origin,
    /// The parent image, if `origin` is `Fork` and the trace contains the parent.
    pub forked_from: Option<ImageId>,
    /// The positions in the parent's streams at the fork, the forking thread's
    /// stream first. Events before a position happened before the fork.
    pub fork_points: Vec<ForkPoint>,
    /// Path of the executable.
    pub executable: PathBuf,
    /// The command line.
    pub command: Vec<OsString>,
    /// When the recorder started in it.
    pub tick: u64,
}

/// A position in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkPoint {
    /// The stream.
    pub stream: StreamId,
    /// Number of counted events ([`Event::is_counted`]) before the position.
    pub ordinal: u64,
}

/// How an image ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exit {
    /// Normal exit with this status.
    Status(i32),
    /// Killed by this signal.
    Signal(i32),
    /// `exec` replaced it by another image.
    Exec,
    /// Still running when the recording stopped.
    Running,
    /// It ended, and the collector could not find out how.
    #[default]
    Unknown,
}

/// End of a process image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageEnd {
    /// The image.
    pub image: ImageId,
    /// When the collector noticed the end.
    pub tick: u64,
    /// How the image ended.
    pub exit: Exit,
    /// The trace contains all events that its recorder emitted.
    pub complete: bool,
}

/// A thread's first recorded event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadStart {
    /// The image.
    pub image: ImageId,
    /// The thread.
    pub thread: ThreadId,
    /// The kernel's thread id.
    pub tid: u32,
    /// When the thread emitted it.
    pub tick: u64,
}

/// A thread's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadName {
    /// The thread.
    pub thread: ThreadId,
    /// Name of the thread (`/proc/PID/task/TID/comm`).
    pub name: String,
}

/// A thread's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadEnd {
    /// The thread.
    pub thread: ThreadId,
    /// When the collector noticed it.
    pub tick: u64,
}

/// A module file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The module.
    pub module: ModuleId,
    /// Path as the dynamic loader of the program knew it.
    pub path: PathBuf,
    /// GNU build id (`NT_GNU_BUILD_ID`); empty if the file has none.
    pub build_id: Vec<u8>,
    /// The file that was mapped; all zero if unknown, as in traces before minor version 5.
    pub file: FileIdentity,
}

/// A module mapped into an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// The image.
    pub image: ImageId,
    /// The mapping.
    pub mapping: MappingId,
    /// The module.
    pub module: ModuleId,
    /// Lowest mapped address.
    pub start: u64,
    /// End of the mapped range (exclusive).
    pub end: u64,
    /// Load bias: run-time address minus address in the file's program headers.
    pub bias: u64,
    /// When the recorder first found it.
    pub tick: u64,
}

/// Mapping id of an address outside all known modules.
pub const NO_MAPPING: MappingId = u32::MAX;

/// One node of an image's stack trie: a call stack as its innermost frame and a
/// link to the stack of the caller. Stacks with the same outer frames share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackNode {
    /// The caller's node, or a `stack_end`.
    pub parent: StackId,
    /// Run-time code address: a return address, or the interrupted instruction if
    /// `exact`.
    pub address: u64,
    /// The mapping that contains the address, or [`NO_MAPPING`].
    pub mapping: MappingId,
    /// `address` is the instruction that a signal interrupted. Symbolize `address`
    /// itself. Otherwise it is a return address: symbolize `address - 1`.
    pub exact: bool,
}

/// The kinds of [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EventKind {
    /// An allocation. Uses `address`, `size`, `alignment_log2`, `stack`, `entry`.
    Allocation = 0,
    /// A deallocation. Uses `address`, `entry`, `alignment_log2`. The recorder emits
    /// it before the call.
    Deallocation = 1,
    /// `realloc` of the block at `address` begins; the recorder emits it before the
    /// call. One of the next three kinds ends it in the same stream; calls nest.
    /// It counts as a deallocation unless [`EventKind::ReallocationFailed`] ends it.
    ReallocationStart = 2,
    /// `realloc` returned the block `address`, `size`, `stack`; ends the innermost
    /// open start. It counts as an allocation.
    ReallocationEnd = 3,
    /// `realloc` failed: the block of the innermost open start stays live.
    ReallocationFailed = 4,
    /// `realloc(p, 0)` freed the block of the innermost open start. The start
    /// counts as a deallocation, and no reallocation is counted.
    ReallocationFreed = 5,
    /// `address` is a tick: the preceding events of the stream happened before it,
    /// the following ones after it.
    Timestamp = 6,
    /// The following events of the stream belong to the thread with id `address`.
    Thread = 7,
    /// `address` is an encoded [`EpochChange`]: the epoch of the following events of
    /// the stream, and whether their thread opted out of windows.
    Epoch = 8,
}

/// One event of a stream. Fields that its kind does not use are 0
/// (`entry`: `Malloc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The function that the program called.
    pub entry: EntryPoint,
    /// Base-2 logarithm of the requested alignment; 0 if the call has none.
    pub alignment_log2: u8,
    /// The call stack, for allocations. For deallocations and starts of reallocations of
    /// a recording with [`Recording::free_stacks`], the stack of that call; a stack end if
    /// it was not recorded.
    pub stack: StackId,
    /// Address of the block; for other kinds see [`EventKind`].
    pub address: u64,
    /// Requested bytes, for allocations.
    pub size: u64,
}

impl Event {
    /// Whether the event is an allocation, a deallocation or a step of a
    /// reallocation. Only these have an ordinal in their stream. The others
    /// (timestamp, thread, epoch) are *control events*.
    pub const fn is_counted(&self) -> bool {
        (self.kind as u8) < EventKind::Timestamp as u8
    }
}

/// Consecutive events of one stream. The file has the records of one stream in
/// the stream's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Events {
    /// The image whose stream it is.
    pub image: ImageId,
    /// The stream.
    pub stream: StreamId,
    /// Number of counted events of the stream before these.
    pub first_ordinal: u64,
    /// The events.
    pub events: Vec<Event>,
}

/// Calls of a thread since its previous record of this type. Only in traces of
/// recordings with [`Recording::counts_only`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// The image.
    pub image: ImageId,
    /// The thread.
    pub thread: ThreadId,
    /// When the collector read the counters.
    pub tick: u64,
    /// Counts by entry point, each entry point at most once.
    pub entries: Vec<EntryCounts>,
}

/// Calls through one entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryCounts {
    /// The entry point.
    pub entry: EntryPoint,
    /// Allocations.
    pub allocations: u64,
    /// Requested bytes of the allocations.
    pub allocated_bytes: u64,
    /// Deallocations.
    pub deallocations: u64,
    /// Calls that resized a block. Each also counts as an allocation and as a
    /// deallocation.
    pub reallocations: u64,
}

/// A moment of the recording that somebody named while it ran (`allotrope mark`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// When the moment was named.
    pub tick: u64,
    /// The name. Several moments may have the same.
    pub name: String,
}

/// Waits of a thread for space in its ring since its previous record of this type.
/// A thread waits if it emits events faster than the collector reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// The image.
    pub image: ImageId,
    /// The thread, if known.
    pub thread: Option<ThreadId>,
    /// When the collector read the counters.
    pub tick: u64,
    /// Number of waits.
    pub waits: u64,
    /// Total duration of the waits, in ticks.
    pub waited_ticks: u64,
}

/// Events that could not be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The image.
    pub image: ImageId,
    /// Why.
    pub reason: LossReason,
    /// Number of events, in addition to those of earlier records.
    pub events: u64,
    /// When the collector noticed it.
    pub tick: u64,
}

/// Names of code addresses of a module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Symbols {
    /// The module.
    pub module: ModuleId,
    /// Whether most of the module was compiled without optimisation, if known
    /// (from `DW_AT_producer`).
    pub unoptimised: Option<bool>,
    /// The compilers and linkers that made the module (from the section `.comment`);
    /// empty if unknown.
    pub compilers: Vec<String>,
    /// Frames that `locations` refers to by index.
    pub frames: Vec<NamedFrame>,
    /// Code addresses as in the module file (run-time address minus bias).
    pub locations: Vec<Location>,
    /// Why addresses of the module have no names, if it is known.
    pub missing: Option<MissingNames>,
    /// MD5 sums of source files as the compiler read them (DWARF 5, section 6.2.4.1), by
    /// the path that frames have.
    pub sources: Vec<(String, [u8; 16])>,
}

/// Why addresses of a module have no names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MissingNames {
    /// The module's file is not there any more.
    FileGone = 1,
    /// The file at its path is another build, or not proven to be the one that ran.
    OtherBuild = 2,
    /// The module's process had ended before the file could be opened, and no file is at its path.
    ProcessGone = 3,
    /// The file that ran has no symbols for these addresses.
    Stripped = 4,
}

impl MissingNames {
    /// The reason in a few words, for a sentence that names the module.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::FileGone => "its file is gone",
            Self::OtherBuild => {
                "the file at its path is another build, or not proven to be the one that ran"
            }
            Self::ProcessGone => {
                "its process had ended before the file could be opened, and the file is gone"
            }
            Self::Stripped => "its file has no symbols",
        }
    }

    /// The reason with this number in a trace.
    pub(crate) const fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::FileGone),
            2 => Some(Self::OtherBuild),
            3 => Some(Self::ProcessGone),
            4 => Some(Self::Stripped),
            _ => None,
        }
    }
}

/// Names of JIT code: run-time code addresses outside all modules.
///
/// The names of an address are valid from `tick` until the tick of the image's next
/// record that names the same address. Before the tick of the first record, the
/// names of the first record are valid: the collector learns of JIT code late.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JitSymbols {
    /// The image.
    pub image: ImageId,
    /// When the names become valid.
    pub tick: u64,
    /// Frames that `locations` refers to by index.
    pub frames: Vec<NamedFrame>,
    /// Run-time code addresses. A location without frames means that the code at
    /// the address was removed.
    pub locations: Vec<Location>,
}

/// Names of one code address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// [`StackNode::address`] minus the mapping's bias (JIT code has no bias).
    pub address: u64,
    /// Same as [`StackNode::exact`].
    pub exact: bool,
    /// Indexes into the record's `frames`, innermost first. Each frame but the last
    /// is inlined into the next.
    pub frames: Vec<u32>,
}

/// An image that could not be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrecorded {
    /// Process id.
    pub pid: u32,
    /// The executable.
    pub executable: PathBuf,
    /// Why, and what to do about it: a sentence to show to the user.
    pub reason: String,
    /// It was recorded, but some of its allocations are missing.
    pub partly: bool,
}
