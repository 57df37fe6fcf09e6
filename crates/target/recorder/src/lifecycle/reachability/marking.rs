//! Marks the blocks that can be reached, and tells the others apart.

use crate::sys::mapped_list::MappedList;

use super::Stop;
use super::blocks::{Block, Blocks, Found};
use super::mappings::PageMap;
use super::memory::Memory;

/// What a word is that may be a pointer.
#[derive(Clone, Copy)]
pub enum Source {
    /// A root, or something that one leads to.
    Root,
    /// A variable of the C library.
    Libc,
    /// Memory whose purpose is not known, or something that leads to.
    Unknown,
    /// A lost block with this number, or something that it leads to.
    Lost(usize),
}

/// Most bytes of a block that is read together with others.
const SMALL: u64 = 64 << 10;

/// A scan: its blocks, and those whose contents are still to be read.
pub struct Marking {
    /// The blocks.
    pub blocks: Blocks,
    memory: Memory,
    /// Numbers of blocks: a stack.
    pending: MappedList<u32>,
    pages: PageMap,
}

impl Marking {
    /// Nothing is marked.
    pub fn new(mut blocks: Blocks, memory: Memory) -> Result<Self, Stop> {
        let pending = MappedList::new(blocks.list().len()).ok_or(Stop::NoMemory)?;
        Ok(Self {
            blocks,
            memory,
            pending,
            pages: PageMap::new(),
        })
    }

    /// Marks the block that a word points into.
    #[inline]
    pub fn mark(&mut self, word: u64, source: Source) {
        mark(&mut self.blocks, &mut self.pending, word, source);
    }

    /// Marks what the words of a range point into.
    pub fn scan(&mut self, start: u64, end: u64, source: Source) -> Result<(), Stop> {
        let Self {
            blocks,
            memory,
            pending,
            ..
        } = self;
        memory.each_word(start, end, |_, word| mark(blocks, pending, word, source))
    }

    /// Same as [`Self::scan`], for a range of which perhaps little is in use.
    pub fn scan_used(&mut self, start: u64, end: u64, source: Source) -> Result<(), Stop> {
        let Self {
            blocks,
            memory,
            pending,
            pages,
        } = self;
        pages.each_used(start, end, |start, end| {
            memory.each_word(start, end, |_, word| mark(blocks, pending, word, source))
        })
    }

    /// Marks what the marked blocks lead to, until nothing is left.
    pub fn follow(&mut self, source: Source) -> Result<(), Stop> {
        let Self {
            blocks,
            memory,
            pending,
            pages,
        } = self;
        while !pending.is_empty() {
            let mut large = None;
            while let Some(number) = pending.last().copied() {
                let Block { start, .. } = blocks.list()[number as usize];
                let bytes = blocks.list()[number as usize].bytes();
                if bytes > SMALL {
                    pending.pop();
                    large = Some((start, start + bytes));
                    break;
                }
                // What is marked comes on top of it.
                pending.pop();
                let visit = |_, word| mark(blocks, pending, word, source);
                if memory.visit_directly(start, bytes, visit)? {
                    continue;
                }
                if !memory.add_part(start, bytes) {
                    pending.push(number);
                    break;
                }
            }
            memory.take_parts(|_, word| mark(blocks, pending, word, source))?;
            if let Some((start, end)) = large {
                pages.each_used(start, end, |start, end| {
                    let visit = |_, word| mark(blocks, pending, word, source);
                    memory.each_word(start, end, visit)
                })?;
            }
        }
        Ok(())
    }

    /// Tells the blocks apart that are not marked: each of them is a [`Found::Head`] or can be
    /// reached from one, and as few as possible are heads. Of blocks that lead to each other in a
    /// circle the one with the lowest address is.
    pub fn divide_lost(&mut self) -> Result<(), Stop> {
        self.mark_referred()?;
        // What no lost block leads to is a head. Then what is left is in circles, or behind them.
        for number in 0..self.blocks.list().len() {
            if self.blocks.list()[number].found == Found::Nothing {
                self.begin_with(number)?;
            }
        }
        for number in 0..self.blocks.list().len() {
            if self.blocks.list()[number].found == Found::Referred {
                self.begin_with(number)?;
            }
        }
        Ok(())
    }

    fn begin_with(&mut self, number: usize) -> Result<(), Stop> {
        self.blocks.list()[number].found = Found::Head;
        self.pending.push(number as u32);
        self.follow(Source::Lost(number))
    }

    /// Finds the lost blocks that another lost block leads to.
    fn mark_referred(&mut self) -> Result<(), Stop> {
        let Self {
            blocks,
            memory,
            pages,
            ..
        } = self;
        let count = blocks.list().len();
        let mut number = 0;
        while number < count {
            let mut large = None;
            while number < count {
                let block = blocks.list()[number];
                if matches!(block.found, Found::Nothing | Found::Referred) {
                    if block.bytes() > SMALL {
                        number += 1;
                        large = Some(block);
                        break;
                    }
                    let visit = |address, word| refer(blocks, address, word);
                    let (start, bytes) = (block.start, block.bytes());
                    if !memory.visit_directly(start, bytes, visit)?
                        && !memory.add_part(start, bytes)
                    {
                        break;
                    }
                }
                number += 1;
            }
            memory.take_parts(|address, word| refer(blocks, address, word))?;
            if let Some(block) = large {
                pages.each_used(block.start, block.end(), |start, end| {
                    let visit = |address, word| refer(blocks, address, word);
                    memory.each_word(start, end, visit)
                })?;
            }
        }
        Ok(())
    }
}

/// Notes that the word at an address in a lost block may be a pointer to another one.
#[inline]
fn refer(blocks: &mut Blocks, address: u64, word: u64) {
    let Some(number) = blocks.at(word) else {
        return;
    };
    let block = &mut blocks.list()[number];
    let is_own = (block.start..block.end()).contains(&address);
    if block.found == Found::Nothing && !is_own {
        block.found = Found::Referred;
    }
}

/// Marks the block that a word points into, if it is not marked yet, and notes that its contents
/// are to be read.
#[inline]
fn mark(blocks: &mut Blocks, pending: &mut MappedList<u32>, word: u64, source: Source) {
    let Some(number) = blocks.at(word) else {
        return;
    };
    let block = &mut blocks.list()[number];
    let found = match (source, block.found) {
        (Source::Libc, Found::Nothing) if is_next_header(block, word) => return,
        (Source::Root | Source::Libc, Found::Nothing) => Found::Reachable,
        (Source::Unknown, Found::Nothing) => Found::Possible,
        (Source::Lost(_), Found::Nothing | Found::Referred) => Found::Indirect,
        (Source::Lost(head), Found::Head) if number != head => {
            // It was begun with before this one was known to lead to it.
            block.found = Found::Indirect;
            return;
        }
        _ => return,
    };
    block.found = found;
    pending.push(number as u32);
}

/// Whether a word is the address of the header behind a block of glibc's `malloc`, which begins
/// in the block's last 8 bytes: the allocator's lists have such addresses of free memory
/// (`struct malloc_chunk` in glibc's `malloc/malloc.c`).
fn is_next_header(block: &Block, word: u64) -> bool {
    const HEADER: u64 = 16;
    let taken = (block.bytes() + HEADER / 2).next_multiple_of(16).max(32);
    word - block.start + HEADER == taken
}
