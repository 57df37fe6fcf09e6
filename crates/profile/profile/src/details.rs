//! What the blocks of a site are: the types that `site_details` fills.

use allotrope_trace::model::{EntryPoint, StackId};

use crate::lifetime::Lifetimes;
use crate::lifetime_histogram::LifetimeHistogram;
use crate::stack::Stack;

/// The blocks of a site in detail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SiteDetails {
    /// Smallest requested size, in bytes.
    pub smallest_bytes: u64,
    /// Largest requested size, in bytes.
    pub largest_bytes: u64,
    /// How long its blocks lived; those that are live at the end lived until then.
    pub lifetimes: LifetimeHistogram,
    /// By entry point and requested alignment, the one with most allocations first.
    pub entries: Vec<SiteEntry>,
    /// Sums by size, the smallest first.
    pub sizes: Vec<SizeClass>,
    /// Sums by the thread that allocated, the one with most allocations first.
    pub threads: Vec<SiteThread>,
    /// Freed blocks by the threads that allocated and freed them, the pair with most
    /// blocks first. Blocks that are live at the end are in none.
    pub frees: Vec<ThreadPair>,
    /// Freed blocks by the stack that freed them, the one with most blocks first; empty if
    /// the recording has no such stacks.
    pub free_stacks: Vec<FreeStack>,
}

/// The allocations of a site through one entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteEntry {
    /// The entry point.
    pub entry: EntryPoint,
    /// Requested alignment in bytes, a power of two; 0 if none was requested.
    pub alignment: u64,
    /// Allocations.
    pub allocations: u64,
    /// Requested bytes of the allocations.
    pub allocated_bytes: u64,
}

/// The allocations of a site with sizes up to a power of two and above the half of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeClass {
    /// Largest size of the class, in bytes: 0, 1, 2, 4, 8, …
    pub up_to_bytes: u64,
    /// Allocations.
    pub allocations: u64,
    /// Requested bytes of the allocations.
    pub allocated_bytes: u64,
}

/// The allocations of a site by one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteThread {
    /// Index into [`Process::threads`](crate::Process::threads); `None` in the sum of the
    /// threads beyond the first 64 of a site.
    pub thread: Option<u32>,
    /// Allocations.
    pub allocations: u64,
    /// Requested bytes of the allocations.
    pub allocated_bytes: u64,
}

/// Blocks that one thread allocated and one thread freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadPair {
    /// Index into [`Process::threads`](crate::Process::threads); `None` in the sum of the
    /// pairs beyond the first 64 of a site.
    pub allocated_by: Option<u32>,
    /// Index of the thread that freed the blocks, as in `allocated_by`; also `None` if the event of
    /// the deallocation is lost.
    pub freed_by: Option<u32>,
    /// Bytes of the blocks.
    pub bytes: u64,
    /// How long they lived; `blocks` is their number.
    pub lifetimes: Lifetimes,
}

/// The blocks of a process with sizes up to a power of two and above the half of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SizeFigures {
    /// Largest size of the class, in bytes: 0, 1, 2, 4, 8, …
    pub up_to_bytes: u64,
    /// Allocations.
    pub allocations: u64,
    /// Bytes of the allocations.
    pub allocated_bytes: u64,
    /// Blocks that were live at the peak of the process.
    pub allocations_at_peak: u64,
    /// Bytes of the blocks that were live at the peak of the process.
    pub bytes_at_peak: u64,
    /// Blocks that were live at the end.
    pub leaked_allocations: u64,
    /// Bytes of the blocks that were live at the end.
    pub leaked_bytes: u64,
}

/// The blocks of a site that were freed by one stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeStack {
    /// Which stack.
    pub place: FreePlace,
    /// Bytes of the blocks.
    pub bytes: u64,
    /// How long they lived; `blocks` is their number.
    pub lifetimes: Lifetimes,
    /// The threads that freed them, the one with most blocks first.
    pub threads: Vec<FreeingThread>,
}

/// What an element of [`SiteDetails::free_stacks`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FreePlace {
    /// One stack.
    Stack {
        /// Id of the stack in the image.
        id: StackId,
        /// Frames of the stack.
        stack: Stack,
        /// The call was a `realloc`, which replaced the blocks or, with a size of 0, freed
        /// them.
        reallocation: bool,
    },
    /// All stacks beyond the first 64 of the site.
    Others,
    /// The stack was not recorded, or the event of the deallocation is lost.
    Unknown,
}

/// Blocks that one thread freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeingThread {
    /// Index into [`Process::threads`](crate::Process::threads); `None` in the sum of the
    /// threads beyond the first 8 of a stack, and if the event is lost.
    pub thread: Option<u32>,
    /// Blocks.
    pub blocks: u64,
}
