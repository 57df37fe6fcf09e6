//! The figures of an image whose calls were counted and not recorded (`--counts-only`):
//! sums by thread and by entry point, from the trace's `Counts` records.

use std::collections::BTreeMap;

use allotrope_trace::model::{EntryCounts, EntryPoint};

use crate::model::{EntryTotals, Process, Totals};

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    allocations: u64,
    allocated_bytes: u64,
    deallocations: u64,
    reallocations: u64,
}

impl Sums {
    /// Adds with saturation: a damaged file may contain any numbers.
    fn add(&mut self, counts: &EntryCounts) {
        let add = |sum: &mut u64, number| *sum = sum.saturating_add(number);
        add(&mut self.allocations, counts.allocations);
        add(&mut self.allocated_bytes, counts.allocated_bytes);
        add(&mut self.deallocations, counts.deallocations);
        add(&mut self.reallocations, counts.reallocations);
    }
}

/// An image's counts.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    all: Sums,
    /// Sums of each thread, by the thread's dense number.
    threads: BTreeMap<u32, Sums>,
    entries: BTreeMap<EntryPoint, Sums>,
}

impl Counted {
    /// Adds the counts of a thread (dense number).
    pub(crate) fn add(&mut self, thread: u32, entries: &[EntryCounts]) {
        for counts in entries {
            self.all.add(counts);
            self.threads.entry(thread).or_default().add(counts);
            self.entries.entry(counts.entry).or_default().add(counts);
        }
    }

    /// Writes the counts into the process, in place of the figures of the aggregation, which
    /// are all 0 without events.
    pub(crate) fn write_into(&self, process: &mut Process) {
        process.totals = Totals {
            allocations: self.all.allocations,
            allocated_bytes: self.all.allocated_bytes,
            deallocations: self.all.deallocations,
            reallocations: self.all.reallocations,
            ..Totals::default()
        };
        for (&number, sums) in &self.threads {
            if let Some(thread) = process.threads.get_mut(number as usize) {
                thread.allocations = sums.allocations;
                thread.allocated_bytes = sums.allocated_bytes;
                thread.deallocations = sums.deallocations;
            }
        }
        let entries = self.entries.iter().map(|(&entry, sums)| EntryTotals {
            entry,
            allocations: sums.allocations,
            allocated_bytes: sums.allocated_bytes,
            deallocations: sums.deallocations,
        });
        process.entries = entries.collect();
    }
}
