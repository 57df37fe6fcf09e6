//! The live blocks at the beginning of a scan, by address, and the look-up of the block that an
//! address points into.
//!
//! ```text
//! address ─▶ cluster: binary search ─▶ page of it: first block there ─▶ block: binary search
//! ```
//!
//! A cluster is a range of addresses without a large gap. A large block is one of its own, which
//! needs no pages.

use crate::state::live_blocks::{self, Entry};
use crate::sys::mapped_list::{MappedList, Plain};

use super::Stop;

/// Most blocks that are examined: their list takes 1 GiB then.
const MAX_BLOCKS: usize = 1 << 26;
/// Blocks that other threads may allocate while the list is made.
const SLACK: usize = 4096;
/// Bytes between two blocks from which on they are in different clusters, and of a block from
/// which on it is a cluster of its own.
const GAP: u64 = 1 << 20;
const PAGE_BITS: u32 = 12;

/// What the scan has found of a block so far.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Found {
    /// Nothing leads to it.
    Nothing,
    /// A root leads to it.
    Reachable,
    /// Memory whose purpose is not known leads to it.
    Possible,
    /// A lost block leads to it, and perhaps it leads to that one, too.
    Referred,
    /// It is lost, and the scan of lost blocks has begun with it.
    Head,
    /// A lost block leads to it.
    Indirect,
}

/// A live block.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Block {
    /// Its address.
    pub start: u64,
    entry: Entry,
    /// See [`Found`].
    pub found: Found,
}

// SAFETY: numbers, and 0 is `Found::Nothing`.
unsafe impl Plain for Block {}

impl Block {
    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        live_blocks::size_of_entry(self.entry) as u64
    }

    /// The end of the addresses that count as pointers to it: one of 0 bytes has an address, too.
    pub fn end(&self) -> u64 {
        self.start + self.bytes().max(1)
    }
}

/// A range of addresses with blocks.
#[derive(Clone, Copy)]
#[repr(C)]
struct Cluster {
    start: u64,
    end: u64,
    /// The number of its first block.
    first: u32,
    /// Index in [`Blocks::pages`] of its first page; [`SINGLE`]: it is one large block.
    pages: u32,
}

// SAFETY: numbers.
unsafe impl Plain for Cluster {}

const SINGLE: u32 = u32::MAX;

/// The list of blocks with its index.
pub struct Blocks {
    list: MappedList<Block>,
    clusters: MappedList<Cluster>,
    /// For each page of a cluster, and one behind its last: how many blocks begin before it.
    pages: MappedList<u32>,
    /// The cluster that was found last.
    recent: usize,
    /// The lowest address of a block, and how many bytes further on the last block ends.
    lowest: u64,
    extent: u64,
}

impl Blocks {
    /// Lists the blocks of the table.
    pub fn new() -> Result<Self, Stop> {
        let mut count = 0;
        live_blocks::each(|_, _| count += 1);
        if count > MAX_BLOCKS {
            return Err(Stop::NoMemory);
        }
        let mut list = MappedList::new(count + count / 64 + SLACK).ok_or(Stop::NoMemory)?;
        let mut end = 0;
        let mut is_whole = true;
        live_blocks::each(|start, entry| {
            let block = Block {
                start: start as u64,
                entry,
                found: Found::Nothing,
            };
            // What the program divides itself is scanned as one block.
            if block.start >= end {
                end = block.end();
                is_whole &= list.push(block);
            }
        });
        if !is_whole {
            return Err(Stop::NoMemory);
        }
        let (mut clusters, mut pages) = (0, 0);
        each_cluster(&list, |_, page_count| {
            clusters += 1;
            pages += page_count;
        });
        let mut blocks = Self {
            list,
            clusters: MappedList::new(clusters).ok_or(Stop::NoMemory)?,
            pages: MappedList::new(pages).ok_or(Stop::NoMemory)?,
            recent: 0,
            lowest: 0,
            extent: 0,
        };
        blocks.index();
        if let (Some(first), Some(last)) = (blocks.list.first(), blocks.list.last()) {
            blocks.lowest = first.start;
            blocks.extent = last.end() - first.start;
        }
        Ok(blocks)
    }

    fn index(&mut self) {
        let Self {
            list,
            clusters,
            pages,
            ..
        } = self;
        each_cluster(list, |cluster, page_count| {
            let mut cluster = cluster;
            if page_count > 0 {
                cluster.pages = pages.len() as u32;
                let mut next = cluster.first as usize;
                let first_page = cluster.start >> PAGE_BITS;
                for page in first_page..first_page + page_count as u64 {
                    let begins_before = |block: &Block| {
                        block.start < page << PAGE_BITS && block.start < cluster.end
                    };
                    while list.get(next).is_some_and(begins_before) {
                        next += 1;
                    }
                    pages.push(next as u32);
                }
            }
            clusters.push(cluster);
        });
    }

    /// Number of the block that an address points into.
    #[inline]
    pub fn at(&mut self, address: u64) -> Option<usize> {
        // Most words are no pointers.
        if address.wrapping_sub(self.lowest) >= self.extent {
            return None;
        }
        let recent = self.clusters.get(self.recent)?;
        let cluster = if (recent.start..recent.end).contains(&address) {
            *recent
        } else {
            let behind = self.clusters.partition_point(|it| it.start <= address);
            let index = behind.checked_sub(1)?;
            let cluster = self.clusters[index];
            if address >= cluster.end {
                return None;
            }
            self.recent = index;
            cluster
        };
        if cluster.pages == SINGLE {
            return Some(cluster.first as usize);
        }
        let page = (address >> PAGE_BITS) - (cluster.start >> PAGE_BITS);
        let page = cluster.pages as usize + page as usize;
        let [from, to] = [self.pages[page] as usize, self.pages[page + 1] as usize];
        let in_page = self.list[from..to].partition_point(|it| it.start <= address);
        let index = (from + in_page).checked_sub(1)?;
        (address < self.list[index].end()).then_some(index)
    }

    /// Whether a block begins in this range.
    pub fn begins_in(&self, start: u64, end: u64) -> bool {
        let first = self.list.partition_point(|it| it.start < start);
        self.list.get(first).is_some_and(|it| it.start < end)
    }

    /// The blocks, by address.
    #[inline]
    pub fn list(&mut self) -> &mut [Block] {
        &mut self.list
    }
}

/// Calls `visit` with each cluster, and the number of entries that its pages take.
fn each_cluster(list: &[Block], mut visit: impl FnMut(Cluster, usize)) {
    let mut current: Option<Cluster> = None;
    let mut pass = |cluster: Cluster| {
        let pages = ((cluster.end - 1) >> PAGE_BITS) - (cluster.start >> PAGE_BITS) + 1;
        match cluster.pages {
            SINGLE => visit(cluster, 0),
            _ => visit(cluster, pages as usize + 1),
        }
    };
    for (index, block) in list.iter().enumerate() {
        let is_large = block.bytes() >= GAP;
        if let Some(cluster) = &mut current
            && !is_large
            && block.start - cluster.end < GAP
        {
            cluster.end = block.end();
            continue;
        }
        if let Some(cluster) = current.take() {
            pass(cluster);
        }
        let cluster = Cluster {
            start: block.start,
            end: block.end(),
            first: index as u32,
            pages: if is_large { SINGLE } else { 0 },
        };
        match is_large {
            true => pass(cluster),
            false => current = Some(cluster),
        }
    }
    if let Some(cluster) = current {
        pass(cluster);
    }
}
