//! Single blocks that are chosen from all blocks of some sites: the first ones in an order,
//! among those that were allocated in a range of time. Only the chosen ones are kept in memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use allotrope_profile::{Block, ImageId, Profile, StackId};
use allotrope_trace::model::stack_end;

/// An order of single blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockOrder {
    /// By the time of allocation, the first one first.
    Time,
    /// By size, the largest first.
    Size,
    /// By lifetime, the longest first. Blocks that are live at the end of their process lived
    /// until then.
    Lifetime,
}

impl BlockOrder {
    /// Its name in options and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Size => "size",
            Self::Lifetime => "lifetime",
        }
    }

    /// What is first in it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Time => "in order of time",
            Self::Size => "the largest first",
            Self::Lifetime => "the longest-lived first",
        }
    }
}

/// The place of a block: by the order, then by time, process and address. No two blocks of one
/// process are allocated at the same time and address.
type Place = (u64, u64, ImageId, u64);

/// A chosen block. Compared by its place alone.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    place: Place,
    block: Block,
}

impl PartialEq for Chosen {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for Chosen {}

impl PartialOrd for Chosen {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Chosen {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

/// The first blocks in an order, of blocks that are added one by one.
#[derive(Debug, Clone)]
pub struct SelectedBlocks {
    /// How the blocks are ordered.
    pub order: BlockOrder,
    /// Blocks that were allocated from here on and before there count, in nanoseconds since the
    /// start of the recording.
    pub range_ns: [u64; 2],
    most: usize,
    /// The last one in the order is on top.
    first: BinaryHeap<Chosen>,
    /// The end of each process that has blocks, in nanoseconds since the start of the recording.
    ends: Vec<(ImageId, u64)>,
    blocks: u64,
    bytes: u64,
}

impl SelectedBlocks {
    /// Chooses `most` blocks of this profile, which is that of the whole recording.
    pub fn new(profile: &Profile, order: BlockOrder, range_ns: [u64; 2], most: usize) -> Self {
        let end = |it: &allotrope_profile::Process| it.started_us.saturating_add(it.duration_us);
        let ends = profile.processes.iter();
        let mut ends: Vec<_> = ends
            .map(|it| (it.id, end(it).saturating_mul(1000)))
            .collect();
        ends.sort_unstable();
        Self {
            order,
            range_ns,
            most,
            first: BinaryHeap::new(),
            ends,
            blocks: 0,
            bytes: 0,
        }
    }

    /// Adds a block, in any order.
    pub fn add(&mut self, block: &Block) {
        let [from, to] = self.range_ns;
        if !(from..to).contains(&block.allocated_ns) {
            return;
        }
        self.blocks += 1;
        self.bytes = self.bytes.saturating_add(block.size);
        let first = match self.order {
            BlockOrder::Time => 0,
            BlockOrder::Size => !block.size,
            BlockOrder::Lifetime => !self.lived_ns(block),
        };
        let place = (first, block.allocated_ns, block.image, block.address);
        let is_full = self.first.len() >= self.most;
        if is_full && self.first.peek().is_none_or(|last| last.place <= place) {
            return;
        }
        if is_full {
            self.first.pop();
        }
        let block = *block;
        self.first.push(Chosen { place, block });
    }

    fn lived_ns(&self, block: &Block) -> u64 {
        block.lifetime_ns.unwrap_or_else(|| {
            let at = self.ends.binary_search_by_key(&block.image, |it| it.0);
            let end = at.map_or(u64::MAX, |at| self.ends[at].1);
            end.saturating_sub(block.allocated_ns)
        })
    }

    /// The chosen blocks, in order.
    pub fn chosen(&self) -> Vec<Block> {
        let mut chosen: Vec<&Chosen> = self.first.iter().collect();
        chosen.sort_unstable_by_key(|it| it.place);
        chosen.into_iter().map(|it| it.block).collect()
    }

    /// The number of blocks in the range, chosen or not, and their bytes.
    pub fn in_range(&self) -> (u64, u64) {
        (self.blocks, self.bytes)
    }

    /// The stacks that freed chosen blocks and of which this profile does not have the frames;
    /// sorted, without duplicates.
    pub fn unnamed_stacks(&self, profile: &Profile) -> Vec<(ImageId, StackId)> {
        let Some(known) = crate::free_frames::FreeFrames::of(profile) else {
            return Vec::new();
        };
        let blocks = self.first.iter().map(|it| it.block);
        let blocks = blocks.filter(|it| it.freed_at >= stack_end::FIRST_NODE);
        let unnamed = blocks.filter(|it| known.get(it).is_none());
        let mut unnamed: Vec<_> = unnamed.map(|it| (it.image, it.freed_at)).collect();
        unnamed.sort_unstable_by_key(|it| Reverse(*it));
        unnamed.dedup();
        unnamed.reverse();
        unnamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The block number `n` of 100: allocated at `n` ns with `n * 37 % 100` bytes, freed
    /// after `n * 61 % 100` ns or, every tenth, live at the end.
    fn block(n: u64) -> Block {
        Block {
            image: 0,
            stack: 1,
            address: n,
            size: n * 37 % 100,
            thread: 0,
            allocated_ns: n,
            lifetime_ns: (n % 10 != 0).then_some(n * 61 % 100),
            freed_by: None,
            freed_at: 0,
        }
    }

    fn chosen(order: BlockOrder, range: [u64; 2], most: usize) -> (Vec<u64>, u64) {
        let profile = Profile {
            processes: vec![allotrope_profile::Process {
                duration_us: 1,
                ..Default::default()
            }],
            ..Profile::default()
        };
        let mut selected = SelectedBlocks::new(&profile, order, range, most);
        // Any order of adding.
        (0..100)
            .map(|n| block(n * 7 % 100))
            .for_each(|it| selected.add(&it));
        let chosen = selected.chosen();
        (
            chosen.iter().map(|it| it.address).collect(),
            selected.in_range().0,
        )
    }

    #[test]
    fn the_first_blocks_of_each_order_are_chosen() {
        let all = [0, u64::MAX];
        assert_eq!(chosen(BlockOrder::Time, all, 3), (vec![0, 1, 2], 100));
        // 37 n % 100 is 99, 98, 97 for n = 27, 54, 81.
        assert_eq!(chosen(BlockOrder::Size, all, 3), (vec![27, 54, 81], 100));
        // The live ones lived until 1,000 ns, the first of them longest.
        assert_eq!(chosen(BlockOrder::Lifetime, all, 3), (vec![0, 10, 20], 100));
        let (every, _) = chosen(BlockOrder::Lifetime, all, 1_000);
        // 61 n % 100 is 99 for n = 59; the ten live ones come before.
        assert_eq!((every.len(), every[10]), (100, 59));
    }

    #[test]
    fn a_range_has_its_start_and_not_its_end() {
        let (chosen, blocks) = chosen(BlockOrder::Time, [40, 43], 10);
        assert_eq!((chosen, blocks), (vec![40, 41, 42], 3));
    }
}
