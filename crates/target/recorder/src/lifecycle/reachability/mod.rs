//! Looks at the exit for blocks that the program has lost (`record --reachability`): a
//! conservative scan, as LeakSanitizer's. Any aligned word counts as a pointer to the block into
//! which it points, interior pointers too.
//!
//! ```text
//! threads: stack pointer and arguments ─┐
//! mappings: variables, stacks ──────────┼─▶ marking ──▶ events: LOST_BLOCK …, REACHABILITY
//! table of live blocks ─▶ blocks ───────┘
//! ```
//!
//! 1. *Roots*: stack and registers of the calling thread, stacks of the others, thread-local and
//!    other variables. What they lead to is reachable.
//! 2. Other memory that the program has mapped may be in use or not: it may have free blocks of
//!    an allocator in it. What only that leads to is possibly lost.
//! 3. The rest is lost: definitely what no lost block leads to, indirectly what one leads to.
//!
//! Other threads run meanwhile: their registers are unknown, and they may move a pointer past the
//! scan. Therefore the event has their number. Nothing of the recorder's is a root: not its
//! variables, its tables, nor its stack, on which the scan runs.

mod blocks;
mod mappings;
mod marking;
mod memory;
mod threads;

use core::arch::asm;

use allotrope_shm::numbers::{LostClass, ScanOutcome};
use allotrope_shm::wire;

use crate::emit::events;
use crate::emit::thread_names;
use crate::state::live_blocks;
use crate::state::process;
use crate::state::thread::OwnThread;
use crate::sys::arch;
use crate::sys::arch::stack_switch;
use crate::sys::mapped_list::{MappedList, Plain};
use crate::sys::next;
use crate::sys::system::SignalsBlocked;

use blocks::{Blocks, Found};
use mappings::{Kind, Range};
use marking::{Marking, Source};
use memory::Memory;
use threads::Other;

/// Why a scan cannot go on.
#[derive(Clone, Copy)]
pub enum Stop {
    /// It takes too long.
    OutOfTime,
    /// There is no memory for it, or there are too many blocks.
    NoMemory,
    /// The kernel does not allow it.
    Forbidden,
}

impl From<Stop> for ScanOutcome {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::OutOfTime => Self::OutOfTime,
            Stop::NoMemory => Self::NoMemory,
            Stop::Forbidden => Self::Forbidden,
        }
    }
}

/// Most lost blocks that are written.
const MAX_LOST: usize = 1 << 24;
/// Bytes below the stack pointer that a function may use (System V ABI for x86-64, 3.2.2).
const RED_ZONE: u64 = 128;
/// Bytes before and behind the thread pointer in which a thread's variables are, and what the C
/// library has of it (`struct pthread`).
const BEFORE_THREAD_POINTER: u64 = 64 << 10;
const BEHIND_THREAD_POINTER: u64 = 4 << 10;

/// Examines the blocks of the process, which is about to end by a call of this thread, and writes
/// what was found. Once for each image that has allocated anything.
#[inline(never)]
pub fn examine(thread: OwnThread) {
    if !live_blocks::is_tracking() || !process::begin_scan() {
        return;
    }
    let tick = arch::tick();
    // The registers that a function must preserve; the others hold nothing of the program's any
    // more. They are on the stack then.
    let mut registers = [0_u64; 6];
    let stack_pointer: u64;
    // SAFETY: stores to `registers` only.
    unsafe {
        asm!(
            "mov [{to}], rbx",
            "mov [{to} + 8], rbp",
            "mov [{to} + 16], r12",
            "mov [{to} + 24], r13",
            "mov [{to} + 32], r14",
            "mov [{to} + 40], r15",
            "mov {sp}, rsp",
            to = in(reg) registers.as_mut_ptr(),
            sp = out(reg) stack_pointer,
            options(nostack),
        );
    }
    let blocked = SignalsBlocked::new();
    // SAFETY: this hook walks no stack meanwhile, and no other one can come.
    let result = unsafe {
        stack_switch::on_stack(thread.stack_top(), || scanned(stack_pointer, &registers))
    };
    drop(blocked);
    write(thread, tick, result);
}

/// A finished scan.
struct Scanned {
    blocks: Blocks,
    other_threads: u32,
}

fn scanned(stack_pointer: u64, registers: &[u64]) -> Result<Scanned, Stop> {
    // A filter of system calls may end the process for those of the scan.
    if !thread_names::may_ask() {
        return Err(Stop::Forbidden);
    }
    if !live_blocks::is_complete() {
        return Err(Stop::NoMemory);
    }
    // First: what the scan maps itself is no memory of the program's.
    let ranges = mappings::read()?;
    let mut memory = Memory::new()?;
    if threads::each_other(|_| Ok(()))? == 0 {
        // SAFETY: there is no other thread, and signals are blocked.
        unsafe { memory.read_directly(&ranges)? };
    }
    let mut scan = Scan {
        ranges,
        marking: Marking::new(Blocks::new()?, memory)?,
    };
    for register in registers {
        scan.marking.mark(*register, Source::Root);
    }
    let own = Other {
        stack_pointer: Some(stack_pointer),
        thread_pointer: Some(arch::thread_pointer()),
        ..Other::default()
    };
    scan.thread(&own)?;
    let other_threads = threads::each_other(|other| scan.thread(other))?;
    scan.variables()?;
    scan.marking.follow(Source::Root)?;
    scan.unknown()?;
    scan.marking.follow(Source::Unknown)?;
    scan.marking.divide_lost()?;
    Ok(Scanned {
        blocks: scan.marking.blocks,
        other_threads,
    })
}

struct Scan {
    ranges: MappedList<Range>,
    marking: Marking,
}

impl Scan {
    /// Index of the range with this address.
    fn range_at(&self, address: u64) -> Option<usize> {
        let range = self.ranges.partition_point(|it| it.end <= address);
        let is_it = self.ranges.get(range)?.start <= address;
        is_it.then_some(range)
    }

    /// Scans the stack and the variables of a thread.
    fn thread(&mut self, thread: &Other) -> Result<(), Stop> {
        for argument in thread.arguments {
            self.marking.mark(argument, Source::Root);
        }
        let stack = thread.stack_pointer;
        let range = stack.and_then(|pointer| self.range_at(pointer));
        if let (Some(pointer), Some(index)) = (stack, range) {
            let Range { start, end, .. } = self.ranges[index];
            let from = pointer.saturating_sub(RED_ZONE).max(start);
            match self.marking.blocks.at(pointer) {
                // The program has allocated the stack.
                Some(number) => {
                    let end = self.marking.blocks.list()[number].end();
                    self.marking.scan(from, end, Source::Root)?;
                }
                None => {
                    self.marking.scan(from, end, Source::Root)?;
                    self.ranges[index].kind = Kind::Done;
                }
            }
        }
        let Some(pointer) = thread.thread_pointer else {
            return Ok(());
        };
        // A thread's stack ends with its variables: they may have been scanned.
        let index = self.range_at(pointer);
        let Some(index) = index.filter(|index| self.ranges[*index].kind == Kind::Unknown) else {
            return Ok(());
        };
        let Range { start, end, .. } = self.ranges[index];
        if self.marking.blocks.begins_in(start, end) {
            let start = pointer.saturating_sub(BEFORE_THREAD_POINTER).max(start);
            let end = (pointer + BEHIND_THREAD_POINTER).min(end);
            return self.marking.scan(start, end, Source::Root);
        }
        self.ranges[index].kind = Kind::Done;
        self.marking.scan_used(start, end, Source::Root)
    }

    /// Scans the variables of all modules, and the first stack if it was not scanned yet; leaves out
    /// stacks that no thread has any more.
    fn variables(&mut self) -> Result<(), Stop> {
        for index in 0..self.ranges.len() {
            let Range {
                start, end, kind, ..
            } = self.ranges[index];
            let source = match kind {
                Kind::Variables | Kind::FirstStack => Source::Root,
                Kind::LibcVariables => Source::Libc,
                Kind::Unknown => {
                    if let Some(variables) = mappings::kept_stack(start, end) {
                        self.marking.mark(variables, Source::Root);
                        self.ranges[index].kind = Kind::Done;
                    }
                    continue;
                }
                Kind::Heap | Kind::Done => continue,
            };
            self.marking.scan_used(start, end, source)?;
        }
        let bump = next::bump_area();
        self.marking.scan(bump.start, bump.end, Source::Root)
    }

    /// Scans all other memory.
    fn unknown(&mut self) -> Result<(), Stop> {
        let own = own_mappings(&self.ranges)?;
        for index in 0..self.ranges.len() {
            let Range {
                mut start,
                end,
                kind,
                ..
            } = self.ranges[index];
            if kind != Kind::Unknown || mappings::is_heap_of_glibc(start, end) {
                continue;
            }
            let first = own.partition_point(|it| it.end <= start);
            for own in own.iter().skip(first).take_while(|own| own.start < end) {
                if start < own.start {
                    self.marking.scan_used(start, own.start, Source::Unknown)?;
                }
                start = start.max(own.end);
            }
            if start < end {
                self.marking.scan_used(start, end, Source::Unknown)?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
struct OwnRange {
    start: u64,
    end: u64,
}

// SAFETY: numbers.
unsafe impl Plain for OwnRange {}

/// The private mappings of the recorder, by address. Of those that the scan has made itself only
/// the list of what is mapped is among them: the others came later.
fn own_mappings(ranges: &MappedList<Range>) -> Result<MappedList<OwnRange>, Stop> {
    /// What may be mapped meanwhile.
    const SLACK: usize = 64;
    let mut count = 0;
    live_blocks::each_mapping(|_, _| count += 1);
    process::each_mapping(|_, _| count += 1);
    let mut own = MappedList::new(count + SLACK).ok_or(Stop::NoMemory)?;
    let mut is_whole = true;
    let mut add = |start: usize, end: usize| {
        is_whole &= own.push(OwnRange {
            start: start as u64,
            end: end as u64,
        });
    };
    live_blocks::each_mapping(&mut add);
    process::each_mapping(&mut add);
    let list = ranges.addresses();
    add(list.start, list.end);
    if !is_whole {
        return Err(Stop::NoMemory);
    }
    own.sort_unstable_by_key(|it| it.start);
    Ok(own)
}

/// Writes what was found.
fn write(thread: OwnThread, tick: u64, result: Result<Scanned, Stop>) {
    let mut summary = wire::Reachability {
        outcome: ScanOutcome::Finished as u8,
        tick,
        blocks: 0,
        threads: 0,
    };
    match result {
        Ok(mut scanned) => {
            let blocks = scanned.blocks.list();
            summary.blocks = blocks.len() as u64;
            summary.threads = scanned.other_threads;
            let lost = blocks
                .iter()
                .filter(|block| class_of(block.found).is_some());
            if lost.clone().count() > MAX_LOST {
                summary.outcome = ScanOutcome::NoMemory as u8;
            } else if !lost.into_iter().all(|block| write_block(thread, block)) {
                return;
            }
        }
        Err(stop) => summary.outcome = ScanOutcome::from(stop) as u8,
    }
    let words = wire::reachability(summary);
    if let Some(space) = events::reserve_must_succeed(thread, words.len() as u64) {
        space.write(words);
    }
}

fn write_block(thread: OwnThread, block: &blocks::Block) -> bool {
    let Some(class) = class_of(block.found) else {
        return true;
    };
    let words = wire::lost_block(block.start, class);
    let space = events::reserve_must_succeed(thread, words.len() as u64);
    if let Some(space) = space {
        space.write(words);
    }
    space.is_some()
}

fn class_of(found: Found) -> Option<LostClass> {
    match found {
        Found::Reachable => None,
        Found::Possible => Some(LostClass::Possibly),
        Found::Indirect => Some(LostClass::Indirectly),
        Found::Nothing | Found::Referred | Found::Head => Some(LostClass::Definitely),
    }
}
