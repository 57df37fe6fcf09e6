//! What the process has mapped for writing, as `/proc/thread-self/maps` shows it
//! (proc_pid_maps(5)), and what of it is a root. (`/proc/self` is the first thread, which may have
//! ended.)

use allotrope_unwind::Memory;

use crate::capture::modules;
use crate::sys::mapped_list::{MappedList, Plain};
use crate::sys::next::{self, Function};
use crate::sys::readable::page_is_readable;
use crate::sys::system::{self, Descriptor};

use super::Stop;

const PAGE: u64 = 4096;
/// Mappings that other threads may make while the list is read.
const SLACK: usize = 256;

/// What a range of addresses is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Memory whose purpose is not known: what the program, or its allocator, mapped itself.
    Unknown,
    /// Variables of the program or of a library.
    Variables,
    /// Variables of the C library, with those of its allocator among them.
    LibcVariables,
    /// The first stack.
    FirstStack,
    /// The heap of `brk`, in which only live blocks count.
    Heap,
    /// It was scanned, as the stack of a thread or as its thread-local variables.
    Done,
}

/// A range of addresses.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Range {
    /// Its lowest address.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// What it is.
    pub kind: Kind,
    /// 1 if it is from no file.
    is_anonymous: u32,
}

// SAFETY: numbers, and 0 is `Kind::Unknown`.
unsafe impl Plain for Range {}

impl Range {
    /// Whether it can be read as long as nobody unmaps it. What is mapped from a file may have no
    /// file behind it any more.
    pub fn is_anonymous(&self) -> bool {
        self.is_anonymous != 0
    }
}

/// Reads what is mapped for writing, by address; not devices, whose reading may have effects, nor
/// the recorder itself.
pub fn read() -> Result<MappedList<Range>, Stop> {
    let mut lines = 0;
    each_line(|_| lines += 1)?;
    // A mapping may contain variables and something behind them.
    let mut ranges = MappedList::new(2 * (lines + SLACK)).ok_or(Stop::NoMemory)?;
    let own = ranges_of_recorder();
    let libc = modules::range_at(next::address(Function::GlibcVersion) as u64);
    let mut is_whole = true;
    each_line(|line| {
        let Some((start, end, name)) = writable(line) else {
            return;
        };
        let is_anonymous = u32::from(name.is_empty() || name.starts_with(b"["));
        let module = modules::range_at(start);
        let mut behind = start;
        if let Some(module) = &module {
            behind = end.min(module.end.next_multiple_of(PAGE));
            if !own.contains(&start) {
                let kind = match &libc {
                    Some(libc) if libc.contains(&start) => Kind::LibcVariables,
                    _ => Kind::Variables,
                };
                is_whole &= ranges.push(Range {
                    start,
                    end: behind,
                    kind,
                    is_anonymous,
                });
            }
        }
        let kind = match name {
            b"[stack]" => Kind::FirstStack,
            b"[heap]" => Kind::Heap,
            _ => Kind::Unknown,
        };
        if behind < end && !is_left_out(name) {
            is_whole &= ranges.push(Range {
                start: behind,
                end,
                kind,
                is_anonymous,
            });
        }
    })?;
    match is_whole {
        true => Ok(ranges),
        false => Err(Stop::NoMemory),
    }
}

fn ranges_of_recorder() -> core::ops::Range<u64> {
    modules::range_at(modules::own_address()).unwrap_or(0..0)
}

/// Whether a mapping with this name has no pointers of the program's, or must not be read.
fn is_left_out(name: &[u8]) -> bool {
    let is_memory = name.starts_with(b"/dev/zero") || name.starts_with(b"/dev/shm/");
    name.starts_with(b"[v")
        || name.starts_with(b"/memfd:allotrope")
        || name.starts_with(b"/dev/") && !is_memory
}

/// Start, end and name of a mapping that can be read and written; `None` for others.
fn writable(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut addresses = fields.next()?.split(|byte| *byte == b'-');
    let start = hexadecimal(addresses.next()?)?;
    let end = hexadecimal(addresses.next()?)?;
    let is_writable = fields.next()?.starts_with(b"rw");
    let name = fields.nth(3).unwrap_or_default().trim_ascii();
    (is_writable && start < end).then_some((start, end, name))
}

/// A hexadecimal number.
pub fn hexadecimal(text: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(text).ok()?;
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// Whether a mapping is a heap of glibc's `malloc` for threads, in which, as in that of `brk`,
/// only live blocks count (`heap_info` in glibc's `malloc/arena.c`). Heaps are aligned to 64 MiB
/// and begin with the address of their arena, which is near the beginning of a heap, the heap
/// before, the bytes in use and the bytes that can be used.
pub fn is_heap_of_glibc(start: u64, end: u64) -> bool {
    const ALIGNMENT: u64 = 64 << 20;
    if !start.is_multiple_of(ALIGNMENT) || end - start > ALIGNMENT {
        return false;
    }
    let mut memory = Memory::unknown(page_is_readable);
    let mut word = |index: u64| memory.word(start + 8 * index).unwrap_or(0);
    let [arena, used, usable] = [word(0), word(2), word(3)];
    arena != 0 && arena % ALIGNMENT < PAGE && (1..=usable).contains(&used) && usable == end - start
}

/// Whether a mapping is the stack of a thread that has ended, which glibc keeps for the next one:
/// nobody reads what is left there. Returns the address of the table of thread-local variables,
/// which is kept, too.
///
/// At the upper end of a stack is what glibc has of its thread (`struct pthread` in `nptl/descr.h`).
/// It begins with its own address, the table, and its own address again (`tcbhead_t`). At the
/// end the kernel clears the thread's id in it (`CLONE_CHILD_CLEARTID`), and who joins the thread makes
/// it −1.
pub fn kept_stack(start: u64, end: u64) -> Option<u64> {
    const ALIGNMENT: usize = 64;
    /// Offset of the thread's id, as debuggers know it.
    const TID: u64 = 0x2d0;
    let mut memory = Memory::unknown(page_is_readable);
    let lowest = end.saturating_sub(PAGE).max(start);
    let mut addresses = (lowest..end.saturating_sub(TID + 8)).step_by(ALIGNMENT);
    addresses.find_map(|address| {
        let is_it = memory.word(address)? == address && memory.word(address + 16)? == address;
        let is_over = memory.word(address + TID)? as i32 <= 0;
        (is_it && is_over).then(|| memory.word(address + 8))?
    })
}

/// Calls `visit` with each line of `/proc/thread-self/maps`.
fn each_line(mut visit: impl FnMut(&[u8])) -> Result<(), Stop> {
    let file =
        Descriptor::open(c"/proc/thread-self/maps", libc::O_RDONLY).ok_or(Stop::Forbidden)?;
    // A line has at most the longest path, in which special characters take four bytes.
    let mut buffer = [0; 20 << 10];
    let mut used = 0;
    loop {
        let read = system::read(&file, &mut buffer[used..]);
        used += read;
        let mut rest = &buffer[..used];
        while let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
            visit(&rest[..length]);
            rest = &rest[length + 1..];
        }
        let (left, is_stuck) = (rest.len(), rest.len() == buffer.len());
        buffer.copy_within(used - left..used, 0);
        used = left;
        if read == 0 {
            return Ok(());
        }
        if is_stuck {
            return Err(Stop::Forbidden);
        }
    }
}

/// Which pages of a range hold anything (proc_pid_pagemap(5)). A range may be large and hardly
/// used, and to read a page that was never written would make it resident.
pub struct PageMap(Option<Descriptor>);

impl PageMap {
    /// Opens it. Without it, all pages count as used.
    pub fn new() -> Self {
        Self(Descriptor::open(
            c"/proc/thread-self/pagemap",
            libc::O_RDONLY,
        ))
    }

    /// Calls `visit` with each part of a range whose pages hold something.
    pub fn each_used(
        &self,
        start: u64,
        end: u64,
        mut visit: impl FnMut(u64, u64) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        /// Bit 63: the page is present. Bit 62: it is swapped out.
        const USED: u64 = 3 << 62;
        const ENTRIES: usize = 1024;
        /// Ranges of fewer bytes are read as a whole.
        const LARGE: u64 = 256 << 10;
        let Some(file) = self.0.as_ref().filter(|_| end - start >= LARGE) else {
            return visit(start, end);
        };
        let mut used_from = None;
        let mut page = start / PAGE;
        let last = end.div_ceil(PAGE);
        while page < last {
            let mut bytes = [0; 8 * ENTRIES];
            let wanted = 8 * ((last - page) as usize).min(ENTRIES);
            let read = system::read_at(file.number(), &mut bytes[..wanted], page * 8);
            if read < 8 {
                used_from.get_or_insert(page * PAGE);
                page = last;
                break;
            }
            for entry in bytes[..read].chunks_exact(8) {
                let mut word = [0; 8];
                word.copy_from_slice(entry);
                if u64::from_le_bytes(word) & USED != 0 {
                    used_from.get_or_insert(page * PAGE);
                } else if let Some(from) = used_from.take() {
                    visit(from.max(start), (page * PAGE).min(end))?;
                }
                page += 1;
            }
            // The visitor looks at the time; so does one who finds nothing.
            visit(page * PAGE, page * PAGE)?;
        }
        match used_from {
            Some(from) => visit(from.max(start), (page * PAGE).min(end)),
            None => Ok(()),
        }
    }
}
