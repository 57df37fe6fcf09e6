//! What a trace says, free of how it is coded: the records that a collector
//! writes and that every view reads.
//!
//! Times are *ticks* of the recording machine's time stamp counter; the
//! [`Clock`] records of a trace turn them into microseconds since the start of
//! the recording. Ids are dense and start at 0 within what they name.

mod window;

use std::ffi::OsString;
use std::path::PathBuf;

pub use allotrope_shm::numbers::{AddressSpace, EntryPoint, LossReason, Quiet, stack_end};
pub use window::{Descriptors, EpochMark, LeftOpen, Window, WindowCounts, WindowEnd, WindowSums};

/// Number of a process image, in order of start; unique in a trace.
pub type ImageId = u32;
/// Number of an event stream; unique in a trace.
pub type StreamId = u32;
/// Number of a thread; unique in a trace.
pub type ThreadId = u32;
/// Number of a module *file* (path and build id); unique in a trace.
pub type ModuleId = u32;
/// Number of one mapping of a module into one image; unique in that image.
pub type MappingId = u32;
/// Number of a call stack, that is of its innermost node; unique in its image.
pub type StackId = u32;

/// One record of a trace, in the order in which a collector wrote it.
///
/// A record is written before any other that refers to it, with two
/// exceptions: [`Record::Events`] may refer to threads, and [`StackNode`]s to
/// mappings, that follow later in the file.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// Once, first in the file.
    Recording(Recording),
    /// A pair of simultaneous readings of the two clocks.
    Clock(Clock),
    /// A process image began.
    ImageStart(ImageStart),
    /// A process image ended, or the recording of it did.
    ImageEnd(ImageEnd),
    /// A thread made its first recorded event.
    ThreadStart(ThreadStart),
    /// What a thread is called; the last one counts.
    ThreadName(ThreadName),
    /// A thread was seen to be gone; `tick` is when that was noticed.
    ThreadEnd(ThreadEnd),
    /// A module file.
    Module(Module),
    /// A module was mapped into an image.
    Mapping(Mapping),
    /// The module at this mapping was unloaded, noticed at `tick`.
    Unmapped {
        /// The image.
        image: ImageId,
        /// Its mapping.
        mapping: MappingId,
        /// When it was noticed.
        tick: u64,
    },
    /// Nodes of an image's stack tree. Their ids follow one another from
    /// `first`; a node's parent is always a smaller id or a stack end.
    Stacks {
        /// The image.
        image: ImageId,
        /// Id of the first node, at least `stack_end::FIRST_NODE`.
        first: StackId,
        /// The nodes.
        nodes: Vec<StackNode>,
    },
    /// A run of a stream's events.
    Events(Events),
    /// Memory of a process that is in use by the kernel's count.
    ResidentSet {
        /// The image.
        image: ImageId,
        /// When it was read.
        tick: u64,
        /// Resident bytes.
        bytes: u64,
    },
    /// Calls that were counted and not recorded.
    Counts(Counts),
    /// Events that could not be recorded.
    Loss(Loss),
    /// How often and how long a thread waited for the recording.
    Waits(Waits),
    /// A span of the program with a name begins.
    Window(Window),
    /// It ends.
    WindowEnd(WindowEnd),
    /// What was counted at one of a window's ends.
    WindowCounts(WindowCounts),
    /// Names for addresses of a module.
    Symbols(Symbols),
    /// Names of code addresses that lie in no module.
    RuntimeSymbols(RuntimeSymbols),
    /// An image that ran in the family and could not be recorded.
    Unrecorded(Unrecorded),
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
    /// Depth at which stacks are cut.
    pub depth_limit: u32,
    /// Calls were counted ([`Record::Counts`]) and not recorded: there are no
    /// events, and nobody knows what is temporary, live, leaked or at the peak.
    pub counts_only: bool,
}

/// Ticks against the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Time stamp counter.
    pub tick: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub monotonic_ns: u64,
}

/// How an image came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The recorded command itself.
    First,
    /// By `fork`: the parent's live blocks are inherited.
    Fork,
    /// By `exec` in a process whose earlier image may be recorded too.
    Exec,
}

/// Beginning of a process image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageStart {
    /// The image.
    pub image: ImageId,
    /// Its process id.
    pub pid: u32,
    /// The parent's process id.
    pub parent_pid: u32,
    /// How it came to be.
    pub origin: Origin,
    /// The image forked from, if that is recorded and `origin` is `Fork`.
    pub forked_from: Option<ImageId>,
    /// Where the fork cut the parent's streams, the forking thread's first:
    /// the events below `ordinal` happened before it.
    pub fork_points: Vec<ForkPoint>,
    /// Path of the executable.
    pub executable: PathBuf,
    /// The command line.
    pub command: Vec<OsString>,
    /// When the recorder came up in it.
    pub tick: u64,
}

/// A point in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkPoint {
    /// The stream.
    pub stream: StreamId,
    /// How many of its counted events (see [`Event::is_counted`]) lie before.
    pub ordinal: u64,
}

/// How an image ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Normal exit with this status.
    Status(i32),
    /// Death by this signal.
    Signal(i32),
    /// Replaced by another image.
    Exec,
    /// Still running when the recording stopped.
    Running,
    /// It ended and nobody could say how.
    Unknown,
}

/// End of a process image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageEnd {
    /// The image.
    pub image: ImageId,
    /// When the end was noticed.
    pub tick: u64,
    /// How it ended.
    pub exit: Exit,
    /// All that its recorder wrote is in the file.
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
    /// When.
    pub tick: u64,
}

/// A thread's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadName {
    /// The thread.
    pub thread: ThreadId,
    /// Its name (`comm`).
    pub name: String,
}

/// A thread's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadEnd {
    /// The thread.
    pub thread: ThreadId,
    /// When it was noticed.
    pub tick: u64,
}

/// A module file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The module.
    pub module: ModuleId,
    /// Path as the program's loader knew it.
    pub path: PathBuf,
    /// GNU build id; empty where there is none.
    pub build_id: Vec<u8>,
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
    /// When the recorder first met it.
    pub tick: u64,
}

/// Mapping id of an address that lies in no known module.
pub const NO_MAPPING: MappingId = u32::MAX;

/// One frame below its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackNode {
    /// The caller's node, or a `stack_end`.
    pub parent: StackId,
    /// Run-time return address, or the interrupted address itself if `exact`.
    pub address: u64,
    /// The mapping it lies in, or [`NO_MAPPING`].
    pub mapping: MappingId,
    /// The address is the one that was executing when a signal came (look it
    /// up as it is), not a return address (look up the byte before it).
    pub exact: bool,
}

/// The kinds of [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EventKind {
    /// A block was handed out: `address`, `size`, `alignment`, `stack`, `entry`.
    Allocation = 0,
    /// A block was given back: `address`, `entry`. Recorded before the call.
    Deallocation = 1,
    /// `realloc` of the block at `address` begins; recorded before the call.
    /// Counts as a deallocation unless [`EventKind::ReallocationFailed`]
    /// answers it in the same stream.
    ReallocationStart = 2,
    /// `realloc` handed out `address`, `size`, `stack`; answers the innermost
    /// open start in the same stream. It is an allocation.
    ReallocationEnd = 3,
    /// `realloc` failed: the block of the innermost open start is alive.
    ReallocationFailed = 4,
    /// The block of the innermost open start was freed: `realloc(p, 0)`. The
    /// start stands as a deallocation and no reallocation is counted.
    ReallocationFreed = 5,
    /// `address` is a tick: what precedes in the stream happened before it,
    /// what follows after it.
    Anchor = 6,
    /// The events that follow are those of thread `address`.
    Thread = 7,
    /// `address` is an [`EpochMark`]: the epoch of the events that follow in
    /// the stream, and whether they belong to no window.
    Epoch = 8,
}

/// One event of a stream. Fields that its kind does not name are 0
/// (`entry`: `Malloc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Through which call.
    pub entry: EntryPoint,
    /// Base-2 logarithm of the alignment asked for; 0 where none was.
    pub alignment_log2: u8,
    /// The stack, for allocations.
    pub stack: StackId,
    /// See [`EventKind`].
    pub address: u64,
    /// Requested bytes, for allocations.
    pub size: u64,
}

impl Event {
    /// Whether the event has an ordinal: all but anchors, thread and epoch marks.
    pub const fn is_counted(&self) -> bool {
        (self.kind as u8) < EventKind::Anchor as u8
    }
}

/// A run of consecutive events of one stream. One stream's records follow one
/// another in the file in the stream's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Events {
    /// The image whose stream it is.
    pub image: ImageId,
    /// The stream.
    pub stream: StreamId,
    /// Number of counted events in the stream before this run.
    pub first_ordinal: u64,
    /// The events.
    pub events: Vec<Event>,
}

/// What a thread did since the record of its before; where calls are only
/// counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// The image.
    pub image: ImageId,
    /// The thread.
    pub thread: ThreadId,
    /// When the counters were read.
    pub tick: u64,
    /// By entry point, each at most once.
    pub entries: Vec<EntryCounts>,
}

/// What came through one entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryCounts {
    /// The entry point.
    pub entry: EntryPoint,
    /// Allocations.
    pub allocations: u64,
    /// Their requested bytes.
    pub allocated_bytes: u64,
    /// Deallocations.
    pub deallocations: u64,
    /// Calls of realloc that gave a block for a block: each is one of the
    /// allocations and one of the deallocations, too.
    pub reallocations: u64,
}

/// A thread waited for its events to be taken, since it makes them faster than
/// they are written: what it did since the record of its before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// The image.
    pub image: ImageId,
    /// The thread, if that is known.
    pub thread: Option<ThreadId>,
    /// When that was noticed.
    pub tick: u64,
    /// How often it waited.
    pub waits: u64,
    /// How long in all, in ticks.
    pub waited_ticks: u64,
}

/// Events that could not be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The image.
    pub image: ImageId,
    /// Why.
    pub reason: LossReason,
    /// How many events, added to what was reported before.
    pub events: u64,
    /// When it was noticed.
    pub tick: u64,
}

/// What is known of a module's symbols.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Symbols {
    /// The module.
    pub module: ModuleId,
    /// Whether its main part was compiled without optimisation, if known
    /// (`DW_AT_producer`).
    pub unoptimised: Option<bool>,
    /// Frames that `locations` refers to.
    pub frames: Vec<Frame>,
    /// Code addresses as in the file (run-time address minus bias) with
    /// indexes into `frames`, innermost first; all but the last are inlined
    /// into the next.
    pub locations: Vec<Location>,
}

/// Names of code that a process made while it ran: of addresses that lie in
/// no module. They hold from `tick` on; where another record names an address
/// later, that one's from its own tick on. What is before the first holds the
/// first's, for it became known only then.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuntimeSymbols {
    /// The image.
    pub image: ImageId,
    /// Since when.
    pub tick: u64,
    /// Frames that `locations` refers to.
    pub frames: Vec<Frame>,
    /// Run-time code addresses, as in [`Symbols::locations`]. Without frames:
    /// what was there is gone.
    pub locations: Vec<Location>,
}

/// Names of one code address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Address as it stands in the stack node, minus the mapping's bias.
    pub address: u64,
    /// As in [`StackNode::exact`].
    pub exact: bool,
    /// Indexes into [`Symbols::frames`], innermost first.
    pub frames: Vec<u32>,
}

/// One named frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Frame {
    /// Qualified name without parameters, return type and compiler suffix.
    pub function: String,
    /// The full demangled form.
    pub signature: String,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line from 1; 0 if unknown.
    pub line: u32,
    /// Column from 1; 0 if unknown.
    pub column: u32,
    /// Bytes from the start of the (outermost, not inlined) function.
    pub offset: u64,
    /// The frame was inlined into the next one.
    pub inlined: bool,
}

/// An image that could not be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrecorded {
    /// Its process id.
    pub pid: u32,
    /// The executable.
    pub executable: PathBuf,
    /// Why, as a sentence with a remedy.
    pub reason: String,
    /// It was recorded, but not all of what it allocated.
    pub partly: bool,
}
