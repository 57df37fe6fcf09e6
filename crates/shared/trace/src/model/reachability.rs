//! The records of a scan for reachable blocks at the exit (`record --reachability`).

use allotrope_shm::numbers::{LostClass, ScanOutcome};

use super::ImageId;

/// A scan for reachable blocks that an image made at its exit, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reachability {
    /// The image.
    pub image: ImageId,
    /// When it began. It says nothing of blocks that were allocated later.
    pub tick: u64,
    /// How it ended. Unless it finished, lost blocks of the image have no meaning.
    pub outcome: ScanOutcome,
    /// How many blocks it examined.
    pub blocks: u64,
    /// How many other threads the process had. Their registers are unknown.
    pub other_threads: u32,
}

/// A block to which no root leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostBlock {
    /// Its address, a multiple of [`Self::ALIGNMENT`].
    pub address: u64,
    /// What the scan found of it.
    pub class: LostClass,
}

impl LostBlock {
    /// Every allocator aligns blocks to this number of bytes or more.
    pub const ALIGNMENT: u64 = 8;
}
