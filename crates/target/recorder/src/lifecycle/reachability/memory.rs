//! Reads the process's own memory. Other threads may unmap it at any time, so the kernel copies
//! it (process_vm_readv(2)): what is not there is an error of the call, and no signal. That takes
//! half a microsecond for each block of a list, so where there is no other thread, small blocks are
//! read directly. What the
//! program has made unreadable (mprotect(2)) still holds its pointers: that is read from
//! `/proc/thread-self/mem` (proc_pid_mem(5)).

use crate::sys::kernel::{self, Part, Remote};
use crate::sys::mapped_list::{MappedList, Plain};
use crate::sys::system::{self, Descriptor};

use super::Stop;
use super::mappings::Range;

const PAGE: u64 = 4096;
/// Words that are read at once.
const WORDS: usize = 32 << 10;
/// Most parts that are read at once; the kernel takes 1024.
const PARTS: usize = 512;
/// Bytes of the words.
const BYTES: u64 = WORDS as u64 * 8;

/// Longest time that a scan may take, in milliseconds.
const BUDGET: u64 = 1000;

/// Blocks that are read directly between two looks at the time.
const CHECKED_BLOCKS: u32 = 4096;

#[derive(Clone, Copy)]
#[repr(C)]
struct Span {
    start: u64,
    end: u64,
}

// SAFETY: numbers.
unsafe impl Plain for Span {}

#[derive(Clone, Copy)]
#[repr(transparent)]
struct Word(u64);

// SAFETY: a number.
unsafe impl Plain for Word {}

/// See the [module](self).
pub struct Memory {
    /// The calling thread: the first one may have ended.
    thread: u32,
    words: MappedList<Word>,
    parts: [Remote; PARTS],
    count: usize,
    bytes: u64,
    deadline: u64,
    /// What stays mapped as long as the scan runs, by address.
    stays: MappedList<Span>,
    /// The one that was found last.
    recent: Span,
    /// Blocks that may be read directly until the time is checked.
    unchecked: u32,
    /// `/proc/thread-self/mem`, once it was needed; `Some(None)`: it cannot be opened.
    file: Option<Option<Descriptor>>,
}

impl Memory {
    /// Begins a scan that ends in time.
    pub fn new() -> Result<Self, Stop> {
        let mut words = MappedList::new(WORDS).ok_or(Stop::NoMemory)?;
        words.fill_with_zeroes(WORDS);
        Ok(Self {
            thread: system::thread_id(),
            words,
            parts: [Remote { start: 0, bytes: 0 }; PARTS],
            count: 0,
            bytes: 0,
            deadline: system::milliseconds() + BUDGET,
            stays: MappedList::new(0).ok_or(Stop::NoMemory)?,
            recent: Span { start: 0, end: 0 },
            unchecked: 0,
            file: None,
        })
    }

    /// An error once the time is over.
    pub fn check_time(&self) -> Result<(), Stop> {
        match system::milliseconds() >= self.deadline {
            true => Err(Stop::OutOfTime),
            false => Ok(()),
        }
    }

    /// Reads what lies in these ranges directly from now on.
    ///
    /// # Safety
    /// Nobody unmaps them, or makes them unreadable, while this value is in use.
    pub unsafe fn read_directly(&mut self, ranges: &[Range]) -> Result<(), Stop> {
        let spans = ranges.iter().filter(|range| range.is_anonymous());
        let count = spans.clone().count();
        self.stays = MappedList::new(count).ok_or(Stop::NoMemory)?;
        for &Range { start, end, .. } in spans {
            self.stays.push(Span { start, end });
        }
        Ok(())
    }

    /// Calls `visit` with address and value of each word of a block, if it can be read directly;
    /// `false`: it cannot.
    #[inline]
    pub fn visit_directly(
        &mut self,
        start: u64,
        bytes: u64,
        mut visit: impl FnMut(u64, u64),
    ) -> Result<bool, Stop> {
        let end = start + (bytes & !7);
        if !self.stays(start, end) {
            return Ok(false);
        }
        self.unchecked = match self.unchecked.checked_sub(1) {
            Some(left) => left,
            None => {
                self.check_time()?;
                CHECKED_BLOCKS
            }
        };
        for address in (start..end).step_by(8) {
            // SAFETY: it is mapped, see `read_directly`, and aligned, as blocks are.
            visit(address, unsafe { (address as *const u64).read_volatile() });
        }
        Ok(true)
    }

    #[inline]
    fn stays(&mut self, start: u64, end: u64) -> bool {
        let mut span = self.recent;
        if !(span.start..span.end).contains(&start) {
            let index = self.stays.partition_point(|it| it.end <= start);
            let Some(found) = self.stays.get(index) else {
                return false;
            };
            span = *found;
            self.recent = span;
        }
        span.start <= start && end <= span.end
    }

    /// Adds memory to what [`Self::take_parts`] reads; `false`: it does not fit. Only whole words
    /// are read.
    #[inline]
    pub fn add_part(&mut self, start: u64, bytes: u64) -> bool {
        let bytes = bytes & !7;
        let fits = self.count < PARTS && self.bytes + bytes <= BYTES;
        if fits && bytes > 0 {
            self.parts[self.count] = Remote { start, bytes };
            self.count += 1;
            self.bytes += bytes;
        }
        fits
    }

    /// Reads the parts that were added, and calls `visit` with address and value of each word
    /// that could be read.
    pub fn take_parts(&mut self, mut visit: impl FnMut(u64, u64)) -> Result<(), Stop> {
        let count = core::mem::take(&mut self.count);
        self.bytes = 0;
        let mut from = 0;
        while from < count {
            self.check_time()?;
            let wanted: u64 = self.parts[from..count].iter().map(|it| it.bytes).sum();
            let read = self.copy(from, count)?;
            let mut words = self.words[..(read / 8) as usize].iter();
            for part in &self.parts[from..count] {
                let addresses = (part.start..part.start + part.bytes).step_by(8);
                for (address, word) in addresses.zip(&mut words) {
                    visit(address, word.0);
                }
            }
            if read >= wanted {
                break;
            }
            // A part that cannot be read as a whole: what was read of it has been visited.
            let mut left = read;
            while let Some(part) = self.parts[..count].get(from)
                && left >= part.bytes
            {
                left -= part.bytes;
                from += 1;
            }
            if let Some(part) = self.parts[..count].get(from).copied() {
                let (at, end) = (part.start + left, part.start + part.bytes);
                let next = (at / PAGE * PAGE + PAGE).min(end);
                self.visit_unreadable(at, next, &mut visit);
                let part = &mut self.parts[from];
                match next < end {
                    true => {
                        *part = Remote {
                            start: next,
                            bytes: end - next,
                        }
                    }
                    false => from += 1,
                }
            }
        }
        Ok(())
    }

    /// Calls `visit` with address and value of each word of a range of addresses that can be
    /// read.
    pub fn each_word(
        &mut self,
        start: u64,
        end: u64,
        mut visit: impl FnMut(u64, u64),
    ) -> Result<(), Stop> {
        self.check_time()?;
        let mut at = start.next_multiple_of(8);
        while at < end {
            let bytes = (end - at).min(BYTES);
            if !self.add_part(at, bytes) {
                break;
            }
            self.take_parts(&mut visit)?;
            at += bytes;
        }
        Ok(())
    }

    /// Visits the words of a part of a page that cannot be read; of one that is not there, none.
    #[cold]
    fn visit_unreadable(&mut self, start: u64, end: u64, visit: &mut impl FnMut(u64, u64)) {
        let open = || Descriptor::open(c"/proc/thread-self/mem", libc::O_RDONLY);
        let Some(file) = self.file.get_or_insert_with(open) else {
            return;
        };
        let mut page = [0; PAGE as usize];
        let wanted = (end - start).min(PAGE) as usize;
        let read = system::read_at(file.number(), &mut page[..wanted], start);
        let addresses = (start..end).step_by(8);
        for (address, bytes) in addresses.zip(page[..read].chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            visit(address, u64::from_le_bytes(word));
        }
    }

    /// Copies parts to the words; returns the number of bytes.
    fn copy(&mut self, from: usize, to: usize) -> Result<u64, Stop> {
        let words = &mut *self.words;
        let bytes = size_of_val(words);
        // SAFETY: the memory of the words, as bytes.
        let bytes = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), bytes) };
        let mut into = Part::new(bytes);
        let read = kernel::process_vm_readv(self.thread, &mut into, &self.parts[from..to]);
        match u64::try_from(read) {
            Ok(read) => Ok(read),
            Err(_) if read == -(libc::EFAULT as isize) => Ok(0),
            // ENOSYS, EPERM: the kernel, or a filter of system calls, forbids it.
            Err(_) => Err(Stop::Forbidden),
        }
    }
}
