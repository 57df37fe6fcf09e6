//! What a scan at the exit found of the blocks that were live then (`record --reachability`).

use allotrope_trace::model::{AddressSpace, LostBlock, LostClass, ScanOutcome};
use rustc_hash::FxHashMap;

use crate::block_key::key_in;
use crate::live::{INHERITED, LiveBlocks, NO_BLOCK};

/// Most lost blocks of a recording that are read. The recorder writes no more, but a damaged file
/// may contain any number.
const MAX_LOST: usize = 1 << 24;

/// A scan for reachable blocks at the exit of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reachability {
    /// How it ended. Unless it finished, nothing is known of the blocks.
    pub outcome: ScanOutcome,
    /// Number of threads besides the one that exited. What their registers held is unknown, and
    /// they may have moved pointers during the scan: so with others, no block is definitely lost.
    pub other_threads: u32,
    /// The blocks that it did not find reachable.
    pub lost: Lost,
    /// The others.
    pub reachable: Amount,
}

/// Blocks to which no root led.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Nothing led to them.
    pub definitely: Amount,
    /// Only lost blocks led to them.
    pub indirectly: Amount,
    /// Perhaps something led to them.
    pub possibly: Amount,
}

/// Number and bytes of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Number of blocks.
    pub allocations: u64,
    /// Requested bytes.
    pub bytes: u64,
}

impl Reachability {
    /// Whether it says which blocks are lost.
    pub fn is_finished(&self) -> bool {
        self.outcome == ScanOutcome::Finished
    }
}

impl Amount {
    /// These blocks and others.
    pub fn and(self, others: Self) -> Self {
        Self {
            allocations: self.allocations.saturating_add(others.allocations),
            bytes: self.bytes.saturating_add(others.bytes),
        }
    }

    /// What is left of these blocks without others.
    pub fn without(self, others: Self) -> Self {
        Self {
            allocations: self.allocations.saturating_sub(others.allocations),
            bytes: self.bytes.saturating_sub(others.bytes),
        }
    }
}

impl Lost {
    /// All of them.
    pub fn total(&self) -> Amount {
        self.definitely.and(self.indirectly).and(self.possibly)
    }

    fn add(&mut self, class: LostClass, bytes: u64) {
        let amount = match class {
            LostClass::Definitely => &mut self.definitely,
            LostClass::Indirectly => &mut self.indirectly,
            LostClass::Possibly => &mut self.possibly,
        };
        *amount = amount.and(Amount {
            allocations: 1,
            bytes,
        });
    }
}

/// The records of a scan, as they are read.
#[derive(Debug, Default)]
pub(crate) struct ScanRecords {
    /// Lost blocks, by address: each is its address, and its class in the bits that are 0 in
    /// addresses.
    blocks: Vec<u64>,
    /// The end of the scan.
    pub end: Option<allotrope_trace::model::Reachability>,
}

impl ScanRecords {
    /// Adds lost blocks. Each can be there once: they come by address. `number` is that of the
    /// recording so far.
    pub(crate) fn add(&mut self, blocks: &[LostBlock], number: &mut usize) {
        for block in blocks {
            let word = block.address | block.class as u64;
            let is_next = self
                .blocks
                .last()
                .is_none_or(|last| address(*last) < block.address);
            if is_next && *number < MAX_LOST && self.end.is_none() {
                *number += 1;
                self.blocks.push(word);
            }
        }
    }
}

const fn address(word: u64) -> u64 {
    word & !(LostBlock::ALIGNMENT - 1)
}

/// The lost blocks of an image and of its sites.
#[derive(Debug, Default)]
pub(crate) struct LostOfImage {
    pub all: Lost,
    /// By index of the site.
    pub sites: FxHashMap<u32, Lost>,
}

impl LostOfImage {
    /// Finds the blocks of a finished scan, which began at this time, among those that are live at
    /// the image's end.
    pub(crate) fn new(records: &ScanRecords, began_ns: u64, live: &LiveBlocks) -> Self {
        let mut lost = Self::default();
        let Some(end) = records
            .end
            .filter(|end| end.outcome == ScanOutcome::Finished)
        else {
            return lost;
        };
        for &word in &records.blocks {
            let address = address(word);
            let Some(class) = LostClass::from_number(word - address) else {
                continue;
            };
            let spaces = [AddressSpace::Heap, AddressSpace::Reported];
            let mut found = spaces.map(|space| live.find(key_in(address, space)).block);
            found.sort_unstable();
            let [id, _] = found;
            if id == NO_BLOCK {
                continue;
            }
            let it = live.block(id);
            // Another thread may have freed the block meanwhile, and allocated another one.
            if it.site == INHERITED || it.allocated_ns > began_ns {
                continue;
            }
            let class = match end.other_threads {
                0 => class,
                _ => LostClass::Possibly,
            };
            lost.all.add(class, it.size);
            lost.sites.entry(it.site).or_default().add(class, it.size);
        }
        lost
    }
}
