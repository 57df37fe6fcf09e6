//! Single blocks, for callers that want to see what happens to each.

use std::cell::RefCell;

use allotrope_trace::model::{ImageId, StackId};
use rustc_hash::FxHashSet;

/// A single allocation, shown when its block was freed or, if it never was, at the end
/// of its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The image.
    pub image: ImageId,
    /// The stack that allocated it.
    pub stack: StackId,
    /// Address of the block.
    pub address: u64,
    /// Requested bytes.
    pub size: u64,
    /// Index into [`Process::threads`](crate::Process::threads) of the thread that allocated it.
    pub thread: u32,
    /// When it was allocated, in nanoseconds since the start of the recording.
    pub allocated_ns: u64,
    /// How long it lived, in nanoseconds; `None` if it was live at the end.
    pub lifetime_ns: Option<u64>,
    /// Index into [`Process::threads`](crate::Process::threads) of the thread that freed it; `None` if it was live
    /// at the end, or the event of the deallocation is lost.
    pub freed_by: Option<u32>,
    /// The stack that freed it, an id as in [`FreePlace`](crate::FreePlace::Stack); a stack
    /// end if it was live at the end, or the stack was not recorded.
    pub freed_at: StackId,
}

/// What happened to a [`Block`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockEvent {
    /// It was allocated. Nothing is known of its end yet.
    Allocated,
    /// It was freed.
    Freed,
    /// It was live at the end of its image.
    LiveAtEnd,
}

/// A callback for what happens to single blocks.
type BlockCallback<'a> = dyn FnMut(BlockEvent, &Block) + 'a;

/// A callback for the single blocks of some stacks.
pub(crate) struct Observer<'a> {
    pub wanted: FxHashSet<(ImageId, StackId)>,
    pub callback: RefCell<&'a mut BlockCallback<'a>>,
}
