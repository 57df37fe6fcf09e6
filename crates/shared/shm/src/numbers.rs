//! Numbers with the same meaning in shared memory and in the trace file.
//!
//! The recorder writes them as plain integers, the collector copies them to the trace,
//! and `allotrope-trace` re-exports this module's types as part of its model. A number
//! is never given a second meaning, since old traces contain it.

/// The allocator function whose call an event records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // most have the name of their function
pub enum EntryPoint {
    Malloc = 0,
    Calloc = 1,
    Realloc = 2,
    Reallocarray = 3,
    PosixMemalign = 4,
    AlignedAlloc = 5,
    Memalign = 6,
    Valloc = 7,
    Pvalloc = 8,
    Free = 9,
    Cfree = 10,
    FreeSized = 11,
    FreeAlignedSized = 12,
    OperatorNew = 13,
    OperatorNewArray = 14,
    OperatorDelete = 15,
    OperatorDeleteArray = 16,
    Mallocx = 17,
    Rallocx = 18,
    Dallocx = 19,
    Sdallocx = 20,
    /// A block of a pool, reported by the program (`allotrope_pool_…`).
    Pool = 21,
    /// A block of an allocator that the program reports (`allotrope_allocator_…`;
    /// Rust's `Recorded`).
    Reported = 22,
}

/// The space in which a live block's address is unique. A pool's block may have the
/// same address as the heap block of which it is a part; both are live then. A
/// deallocation ends the block in the address space of its own entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum AddressSpace {
    /// Blocks of the functions that the recorder interposes.
    Heap = 0,
    /// Blocks of pools that the program reports.
    Pools = 1,
    /// Blocks of allocators that the program reports.
    Reported = 2,
}

impl EntryPoint {
    /// Every entry point, by its number.
    pub const ALL: [Self; 23] = [
        Self::Malloc,
        Self::Calloc,
        Self::Realloc,
        Self::Reallocarray,
        Self::PosixMemalign,
        Self::AlignedAlloc,
        Self::Memalign,
        Self::Valloc,
        Self::Pvalloc,
        Self::Free,
        Self::Cfree,
        Self::FreeSized,
        Self::FreeAlignedSized,
        Self::OperatorNew,
        Self::OperatorNewArray,
        Self::OperatorDelete,
        Self::OperatorDeleteArray,
        Self::Mallocx,
        Self::Rallocx,
        Self::Dallocx,
        Self::Sdallocx,
        Self::Pool,
        Self::Reported,
    ];

    /// The entry point of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The function's name as its users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malloc => "malloc",
            Self::Calloc => "calloc",
            Self::Realloc => "realloc",
            Self::Reallocarray => "reallocarray",
            Self::PosixMemalign => "posix_memalign",
            Self::AlignedAlloc => "aligned_alloc",
            Self::Memalign => "memalign",
            Self::Valloc => "valloc",
            Self::Pvalloc => "pvalloc",
            Self::Free => "free",
            Self::Cfree => "cfree",
            Self::FreeSized => "free_sized",
            Self::FreeAlignedSized => "free_aligned_sized",
            Self::OperatorNew => "operator new",
            Self::OperatorNewArray => "operator new[]",
            Self::OperatorDelete => "operator delete",
            Self::OperatorDeleteArray => "operator delete[]",
            Self::Mallocx => "mallocx",
            Self::Rallocx => "rallocx",
            Self::Dallocx => "dallocx",
            Self::Sdallocx => "sdallocx",
            Self::Pool => "pool",
            Self::Reported => "reported allocator",
        }
    }

    /// The address space of the blocks in its events.
    #[inline]
    pub const fn address_space(self) -> AddressSpace {
        match self {
            Self::Pool => AddressSpace::Pools,
            Self::Reported => AddressSpace::Reported,
            _ => AddressSpace::Heap,
        }
    }
}

/// Stack ids below [`FIRST_NODE`](stack_end::FIRST_NODE), which are not ids of nodes. As
/// the parent of a stack's outermost frame, such an id is the reason why the walk ended
/// there.
pub mod stack_end {
    /// The outermost frame has no caller: the stack is complete.
    pub const COMPLETE: u32 = 0;
    /// The walk met code without unwind information.
    pub const NO_UNWIND_INFORMATION: u32 = 1;
    /// The walk was cut at the depth limit; shown as a frame `[truncated]`.
    pub const TRUNCATED: u32 = 2;
    /// No stack was taken.
    pub const NOT_RECORDED: u32 = 3;
    /// The first id of a node.
    pub const FIRST_NODE: u32 = 8;
}

/// Why events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LossReason {
    /// The ring was full, and the recording drops events in that case.
    RingFull = 0,
    /// No ring was free for a thread.
    NoRing = 1,
    /// The collector had ended.
    CollectorGone = 2,
    /// The ring held malformed words; its rest was skipped.
    Corrupt = 3,
    /// The recorder could not get memory.
    NoMemory = 4,
    /// The call was made before the recorder had started.
    TooEarly = 5,
}

impl LossReason {
    /// Every reason, by its number.
    pub const ALL: [Self; 6] = [
        Self::RingFull,
        Self::NoRing,
        Self::CollectorGone,
        Self::Corrupt,
        Self::NoMemory,
        Self::TooEarly,
    ];

    /// The reason of this number.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// Result of waiting, at a window's end, until the image's other threads have recorded no
/// event for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum QuietWait {
    /// The program did not request the wait.
    #[default]
    NotRequested = 0,
    /// No other thread recorded an event for the requested time.
    Reached = 1,
    /// Other threads still recorded events when the time limit passed.
    TimedOut = 2,
}

impl QuietWait {
    /// The result of this number.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::NotRequested),
            1 => Some(Self::Reached),
            2 => Some(Self::TimedOut),
            _ => None,
        }
    }
}

/// What a scan at the exit found of a block that no root leads to (`record --reachability`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LostClass {
    /// Nothing leads to the block.
    Definitely = 1,
    /// Only blocks lead to it to which no root leads, and such a one is [`Definitely`] lost.
    ///
    /// [`Definitely`]: Self::Definitely
    Indirectly = 2,
    /// Only memory leads to it of which it is not known whether the program uses it.
    Possibly = 3,
}

impl LostClass {
    /// Every class, by its number minus 1.
    pub const ALL: [Self; 3] = [Self::Definitely, Self::Indirectly, Self::Possibly];

    /// The class of this number.
    pub fn from_number(number: u64) -> Option<Self> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        Self::ALL.get(index).copied()
    }
}

/// How a scan for reachable blocks ended. Only a finished one says anything of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum ScanOutcome {
    /// It examined every block.
    #[default]
    Finished = 0,
    /// It took too long.
    OutOfTime = 1,
    /// It had no memory, or there are more blocks than it can examine.
    NoMemory = 2,
    /// The process may not read its own memory, or not find out what it has mapped.
    Forbidden = 3,
}

impl ScanOutcome {
    /// Every outcome, by its number.
    pub const ALL: [Self; 4] = [
        Self::Finished,
        Self::OutOfTime,
        Self::NoMemory,
        Self::Forbidden,
    ];

    /// The outcome of this number.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}
