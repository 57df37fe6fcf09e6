//! The process's side of its memory.
//!
//! A [`Writer`] may be used by all threads at once, and in signal handlers: nothing here
//! waits, nothing is locked, and each operation takes a bounded number of steps.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::PAGE;
use crate::numbers::EntryPoint;
use allotrope_sampling::Period;

use crate::samples::byte_table::ByteTable;
use crate::samples::layout::{BYTES, EXITED, MAGIC, Memory, PAGES, TEXT, VERSION};

/// What the process must do for the writer.
pub trait Host {
    /// Makes sure that a page of the memory, by its number, exists and can be written: a file in
    /// memory for which there is no memory raises `SIGBUS` when it is touched. `false`: it
    /// cannot be.
    fn commit(&self, page: usize) -> bool;

    /// Now, by `CLOCK_MONOTONIC_COARSE`, in nanoseconds.
    fn now(&self) -> u64;
}

/// What belongs to the process alone. In memory that a fork wipes; all zero is right for a
/// new [`Memory`].
#[repr(C)]
pub struct Private {
    /// Addresses of live samples. `free` looks here first.
    pub recognised: ByteTable,
    /// One bit for each page of the memory that was committed.
    committed: [AtomicU64; PAGES.div_ceil(64)],
}

impl Private {
    /// Returns the state for a new memory.
    pub const fn new() -> Self {
        Self {
            recognised: ByteTable::new(),
            committed: [const { AtomicU64::new(0) }; PAGES.div_ceil(64)],
        }
    }
}

impl Default for Private {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes the state of the process.
#[derive(Clone, Copy)]
pub struct Writer<'a, H> {
    pub(crate) memory: &'a Memory,
    pub(crate) private: &'a Private,
    pub(crate) host: H,
}

/// What the header tells of the process.
#[derive(Debug, Clone, Copy)]
pub struct Process<'a> {
    /// Id of the process in its own pid namespace.
    pub id: u32,
    /// Now, by `CLOCK_MONOTONIC_COARSE`, in nanoseconds.
    pub now: u64,
    /// Now, by `CLOCK_REALTIME_COARSE`, in nanoseconds since 1970.
    pub real_now: u64,
    /// The path of its executable.
    pub executable: &'a [u8],
    /// Arguments of the process, each followed by a zero byte.
    pub command: &'a [u8],
    /// See [`Header`](crate::samples::layout::Header).
    pub other_malloc: u64,
    /// See [`Header`](crate::samples::layout::Header).
    pub next_malloc: u64,
    /// See [`Header`](crate::samples::layout::Header).
    pub state_bytes: u64,
    /// Its period is the one of a process that nobody watches: see
    /// [`Control::standby`](crate::samples::layout::Control::standby).
    pub is_standby: bool,
}

/// A sampled block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The block's address; even, and not 0.
    pub address: u64,
    /// The size requested, in bytes.
    pub size: u64,
    /// The period at which it was sampled.
    pub period: Period,
    /// When it was allocated, by `CLOCK_MONOTONIC_COARSE`, in nanoseconds.
    pub allocated: u64,
    /// The id of its stack, see [`crate::samples::stacks`].
    pub stack: u32,
    /// The thread that allocated it.
    pub thread: u32,
    /// The function that allocated it.
    pub entry: EntryPoint,
    /// The block's first allocation, if this one is a reallocation of a sampled block.
    pub first: Option<FirstAllocation>,
}

/// How a block was allocated that was reallocated since, and was sampled each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstAllocation {
    /// When the block was first allocated, by `CLOCK_MONOTONIC_COARSE`, in nanoseconds.
    pub allocated: u64,
    /// The id of the stack.
    pub stack: u32,
}

impl Sample {
    /// The first allocation of its block.
    pub fn first_allocation(&self) -> FirstAllocation {
        self.first.unwrap_or(FirstAllocation {
            allocated: self.allocated,
            stack: self.stack,
        })
    }
}

impl<'a, H: Host> Writer<'a, H> {
    /// Takes a new memory, all zero, and writes what the process is and how it is to be sampled.
    /// `None`: there is no memory for the first pages.
    pub fn begin(
        memory: &'a Memory,
        private: &'a Private,
        host: H,
        process: &Process<'_>,
        period: Option<Period>,
    ) -> Option<Self> {
        let writer = Self::resume(memory, private, host);
        if !(writer.commits(&memory.header)
            && writer.commits(&memory.control)
            && writer.commits(&memory.counters))
        {
            return None;
        }
        let header = &memory.header.0;
        header.version.store(VERSION, Relaxed);
        header.bytes.store(BYTES as u64, Relaxed);
        header.process.store(process.id.into(), Relaxed);
        header.began.store(process.now, Relaxed);
        header.began_real.store(process.real_now, Relaxed);
        let executable = &process.executable[..process.executable.len().min(TEXT)];
        let command = &process.command[..process.command.len().min(TEXT)];
        store_bytes(&header.executable, executable);
        store_bytes(&header.command, command);
        let lengths = executable.len() as u64 | (command.len() as u64) << 32;
        header.lengths.store(lengths, Relaxed);
        header.other_malloc.store(process.other_malloc, Relaxed);
        header.next_malloc.store(process.next_malloc, Relaxed);
        let address = core::ptr::from_ref(memory).addr();
        header.address.store(address as u64, Relaxed);
        header.state_bytes.store(process.state_bytes, Relaxed);
        let period = period.map_or(0, Period::bytes);
        memory.control.0.period.store(period, Relaxed);
        memory.control.0.of_children.store(period, Relaxed);
        if process.is_standby {
            memory.control.0.standby.store(period, Relaxed);
        }
        writer.begin_period(process.now, period);
        header.magic.store(MAGIC, Release);
        Some(writer)
    }

    /// A writer of a memory that this process has begun, with the private part that belongs to
    /// it.
    pub fn resume(memory: &'a Memory, private: &'a Private, host: H) -> Self {
        Self {
            memory,
            private,
            host,
        }
    }

    /// The period with which a forked child begins; `None`: sampling is off there.
    pub fn setting_of_children(&self) -> Option<Period> {
        Period::new(self.memory.control.0.of_children.load(Relaxed))
    }

    /// The process exits with this status. What it does in handlers of its exit comes later.
    pub fn note_exit(&self, status: i32) {
        let status = EXITED | u64::from(status as u32);
        self.memory.header.0.exit.store(status, Relaxed);
    }

    /// Where the recorder keeps the state of a thread, by the number of the state.
    pub fn note_state(&self, number: usize, address: u64) {
        if let Some(state) = self.memory.states.get(number)
            && self.commits(state)
        {
            state.store(address, Relaxed);
        }
    }

    /// A thread could not sample: it has no place for its own state.
    pub fn count_lost_sample(&self) {
        self.memory.counters.0.lost_samples.fetch_add(1, Relaxed);
    }

    /// The page of a structure in the memory; no structure lies on two.
    fn page_of<T>(&self, structure: &T) -> usize {
        let start = core::ptr::from_ref(self.memory).addr();
        (core::ptr::from_ref(structure).addr() - start) / PAGE
    }

    /// Whether a structure in the memory lies on a committed page. Another one is all zero and
    /// must not be read: reading would commit it.
    pub(crate) fn is_committed<T>(&self, structure: &T) -> bool {
        let page = self.page_of(structure);
        self.private.committed[page / 64].load(Relaxed) & 1 << (page % 64) != 0
    }

    /// Commits the page of a structure in the memory, unless it is; `false`: that is not
    /// possible.
    pub(crate) fn commits<T>(&self, structure: &T) -> bool {
        if self.is_committed(structure) {
            return true;
        }
        let page = self.page_of(structure);
        if !self.host.commit(page) {
            // The page of the counters is committed before any that is not needed.
            if self.is_committed(&self.memory.counters) {
                self.memory.counters.0.uncommitted.fetch_add(1, Relaxed);
            }
            return false;
        }
        let bit = 1 << (page % 64);
        self.private.committed[page / 64].fetch_or(bit, Relaxed);
        self.memory.header.0.committed[page / 64].fetch_or(bit, Relaxed);
        true
    }
}

/// Stores bytes, little-endian.
pub(crate) fn store_bytes(into: &[AtomicU64], bytes: &[u8]) {
    for (word, part) in into.iter().zip(bytes.chunks(8)) {
        let mut value = [0; 8];
        value[..part.len()].copy_from_slice(part);
        word.store(u64::from_le_bytes(value), Relaxed);
    }
}
