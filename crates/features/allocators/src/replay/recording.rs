//! Turns a process of a recording into an operations file.
//!
//! | the program called | the replay calls |
//! | --- | --- |
//! | `operator new`, `mallocx`, a reported allocator | `malloc`, or `aligned_alloc` with an alignment |
//! | `rallocx`, a reported allocator's reallocation | `realloc` |
//! | `operator delete`, `dallocx`, `free_sized`, `cfree`, … | `free` |
//! | `realloc(p, 0)` that freed | `free` |
//! | anything else | the same function |
//!
//! `calloc` and `reallocarray` get one element of the whole size, since the recording does not
//! have the factors.

use std::io;

use allotrope_profile::operations::{
    Operation, OperationKind, OperationOptions, RecordedProcess, operations,
};
use allotrope_profile::{AggregateError, ResidentPoint, TraceSource};
use allotrope_trace::model::EntryPoint;
use thiserror::Error;

use crate::replay::operations_file::{Operations, OperationsError, OperationsWriter};
use allotrope_replayer::operations::{Call, MAX_THREADS, Record, ThreadExit};

/// Why a recording could not be turned into operations.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] AggregateError),
    /// The operations cannot be written.
    #[error(transparent)]
    Operations(#[from] OperationsError),
}

impl From<io::Error> for RecordingError {
    fn from(error: io::Error) -> Self {
        Self::Operations(error.into())
    }
}

/// Calls that the replay does not make, or makes although the program did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Deallocations of blocks whose allocation the recording does not have: left out.
    pub foreign_frees: u64,
    /// Reallocations of such blocks: replayed as allocations.
    pub foreign_reallocations: u64,
    /// Blocks whose deallocation the recording does not have, although their address was
    /// given out again: freed before that.
    pub lost_frees: u64,
}

/// A process's operations.
#[derive(Debug)]
pub struct RecordedOperations {
    /// The file.
    pub operations: Operations,
    /// What is different from the program.
    pub dropped: Dropped,
    /// The program's resident memory in order of time: number of the first operation after it
    /// was read, and bytes.
    pub resident: Vec<(u64, u64)>,
}

/// Writes the operations of a process to a temporary file without a name. Memory is bounded
/// by the live blocks.
///
/// # Errors
///
/// If the recording cannot be read, the file cannot be written, or there are no operations.
pub fn operations_of<S: TraceSource>(
    source: &S,
    process: &RecordedProcess,
    options: &OperationOptions<'_>,
) -> Result<RecordedOperations, RecordingError> {
    let mut conversion = Conversion {
        writer: OperationsWriter::temporary()?,
        dropped: Dropped::default(),
        threads: Vec::new(),
        ends: Ends::new(&process.thread_ends),
        resident: Vec::new(),
        samples: process.resident.clone(),
    };
    conversion.samples.reverse();
    let mut result = Ok(());
    operations(source, process.id, options, &mut |operation| {
        if result.is_ok() {
            result = conversion.take(operation);
        }
    })?;
    result?;
    conversion.take_resident(u64::MAX);
    let exits = conversion.exits();
    Ok(RecordedOperations {
        operations: conversion.writer.finish(exits)?,
        dropped: conversion.dropped,
        resident: conversion.resident,
    })
}

struct Conversion {
    writer: OperationsWriter,
    dropped: Dropped,
    /// Threads by their number in the recording.
    threads: Vec<Option<Thread>>,
    ends: Ends,
    resident: Vec<(u64, u64)>,
    /// Coming samples of resident memory, the latest first.
    samples: Vec<ResidentPoint>,
}

#[derive(Clone, Copy)]
struct Thread {
    /// Number of the thread, in order of first operations.
    number: u16,
    /// Number of the operation after its last one.
    after_last: u64,
}

/// When threads ended.
struct Ends {
    /// (time, thread), the latest first.
    coming: Vec<(u64, u32)>,
    /// (thread, number of the first operation after the end).
    passed: Vec<(u32, u64)>,
}

impl Ends {
    fn new(ends: &[(u32, u64)]) -> Self {
        let mut coming: Vec<_> = ends.iter().map(|&(thread, ns)| (ns, thread)).collect();
        coming.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            coming,
            passed: Vec::new(),
        }
    }

    fn pass(&mut self, now: u64, number: u64) {
        while let Some(&(ns, thread)) = self.coming.last()
            && ns <= now
        {
            self.coming.pop();
            self.passed.push((thread, number));
        }
    }
}

impl Conversion {
    fn take(&mut self, operation: &Operation) -> Result<(), OperationsError> {
        self.ends.pass(operation.time_ns, self.writer.len());
        self.take_resident(operation.time_ns / 1_000);
        match operation.kind {
            OperationKind::FreeForeign => {
                self.dropped.foreign_frees += 1;
                return Ok(());
            }
            OperationKind::ReallocateForeign => self.dropped.foreign_reallocations += 1,
            OperationKind::FreeLost => self.dropped.lost_frees += 1,
            _ => {}
        }
        let thread = self.thread(operation.thread)?;
        let call = call_of(operation);
        let alignment_log2 = match call {
            // It accepts no less than the size of a pointer.
            Call::PosixMemalign => operation.alignment_log2.max(3),
            _ if call.has_alignment() => operation.alignment_log2,
            _ => 0,
        };
        self.writer.push(Record {
            call: call as u8,
            alignment_log2,
            thread,
            slot: operation.block,
            size: operation.size,
        })?;
        Ok(())
    }

    /// Places the samples of resident memory up to this time (in microseconds).
    fn take_resident(&mut self, now_us: u64) {
        while let Some(sample) = self.samples.last()
            && sample.time_us <= now_us
        {
            self.resident
                .push((self.writer.len(), sample.program_bytes()));
            self.samples.pop();
        }
    }

    /// The number of a thread in the operations file.
    fn thread(&mut self, recorded: u32) -> Result<u16, OperationsError> {
        let index = recorded as usize;
        if index >= self.threads.len() {
            self.threads.resize(index + 1, None);
        }
        let after_last = self.writer.len() + 1;
        if let Some(thread) = &mut self.threads[index] {
            thread.after_last = after_last;
            return Ok(thread.number);
        }
        let known = self.threads.iter().flatten().count();
        if known >= MAX_THREADS as usize {
            return Err(OperationsError::TooManyThreads);
        }
        let number = known as u16;
        self.threads[index] = Some(Thread { number, after_last });
        Ok(number)
    }

    /// The ends of threads, none before its thread's last operation.
    fn exits(&self) -> Vec<ThreadExit> {
        let passed = self.ends.passed.iter();
        let exits = passed.filter_map(|&(recorded, before)| {
            let thread = (*self.threads.get(recorded as usize)?)?;
            Some(ThreadExit {
                thread: thread.number.into(),
                before: before.max(thread.after_last),
            })
        });
        exits.collect()
    }
}

/// The function that the replay calls; see the [module](self).
fn call_of(operation: &Operation) -> Call {
    match operation.kind {
        OperationKind::Free | OperationKind::FreeLost | OperationKind::ReallocateToNothing => {
            return Call::Free;
        }
        OperationKind::Reallocate | OperationKind::ReallocateForeign => {
            return match operation.entry {
                EntryPoint::Reallocarray => Call::Reallocarray,
                _ => Call::Realloc,
            };
        }
        OperationKind::Allocate | OperationKind::FreeForeign => {}
    }
    match operation.entry {
        EntryPoint::Calloc => Call::Calloc,
        EntryPoint::Realloc | EntryPoint::Rallocx => Call::Realloc,
        EntryPoint::Reallocarray => Call::Reallocarray,
        EntryPoint::PosixMemalign => Call::PosixMemalign,
        EntryPoint::AlignedAlloc => Call::AlignedAlloc,
        EntryPoint::Memalign => Call::Memalign,
        EntryPoint::Valloc => Call::Valloc,
        EntryPoint::Pvalloc => Call::Pvalloc,
        _ if operation.alignment_log2 > 0 => Call::AlignedAlloc,
        _ => Call::Malloc,
    }
}
