//! Differences of a ring's counters, in a recording that only counts calls.
//!
//! While the ring belongs to its image, the counters only grow. They count the calls of
//! the ring's current thread; a thread that takes over the ring first writes their
//! values at that moment (`Counts` event).

use std::sync::atomic::Ordering::Relaxed;

use allotrope_shm::layout::{COUNTED_ENTRIES, Counters, EntryCounters};
use allotrope_shm::wire::{COUNTS_WORDS, Sums};
use allotrope_trace::model::{EntryCounts, EntryPoint};

/// A ring's counters as last written to the trace.
#[derive(Debug, Default)]
pub(crate) struct CounterSnapshot {
    /// The second half counts the calls of threads while these opted out of windows.
    sums: [[Sums; COUNTED_ENTRIES]; 2],
}

/// The current values of the counters, each with its index in the snapshot.
pub(crate) fn read(counters: &Counters) -> impl Iterator<Item = (usize, Sums)> + use<> {
    let halves = [&counters.entries, &counters.opted_out];
    let sums = halves.map(|half| half.each_ref().map(sums));
    sums.into_iter().flatten().enumerate()
}

fn sums(it: &EntryCounters) -> Sums {
    [
        it.allocations.load(Relaxed),
        it.allocated_bytes.load(Relaxed),
        it.deallocations.load(Relaxed),
        it.reallocations.load(Relaxed),
    ]
}

/// The values in a `Counts` event, each with its index in the snapshot.
pub(crate) fn values(counts: &[[u64; COUNTS_WORDS]]) -> impl Iterator<Item = (usize, Sums)> + '_ {
    counts.iter().map(|&[entry, rest @ ..]| {
        // A number beyond the table is ignored later.
        (usize::try_from(entry).unwrap_or(usize::MAX), rest)
    })
}

impl CounterSnapshot {
    /// Differences to the snapshot, for the entry points that have any; updates
    /// the snapshot. A counter that decreases is corrupt and adds nothing.
    pub(crate) fn advance(&mut self, now: impl Iterator<Item = (usize, Sums)>) -> Vec<EntryCounts> {
        let mut differences = Vec::new();
        for (number, sums) in now {
            let last = self.sums.as_flattened_mut().get_mut(number);
            let point = EntryPoint::ALL.get(number % COUNTED_ENTRIES);
            let (Some(last), Some(&point)) = (last, point) else {
                continue;
            };
            let mut new = [0; COUNTS_WORDS - 1];
            for ((new, now), last) in new.iter_mut().zip(sums).zip(last) {
                *new = now.saturating_sub(*last);
                *last += *new;
            }
            let [allocations, allocated_bytes, deallocations, reallocations] = new;
            if new != [0; COUNTS_WORDS - 1] {
                differences.push(EntryCounts {
                    entry: point,
                    allocations,
                    allocated_bytes,
                    deallocations,
                    reallocations,
                });
            }
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_calls_are_written() {
        let counters = Counters::default();
        let mut snapshot = CounterSnapshot::default();
        assert!(snapshot.advance(read(&counters)).is_empty());
        counters.entries[EntryPoint::Malloc as usize]
            .allocations
            .store(3, Relaxed);
        counters.entries[EntryPoint::Malloc as usize]
            .allocated_bytes
            .store(70, Relaxed);
        let malloc = |allocations, allocated_bytes| EntryCounts {
            entry: EntryPoint::Malloc,
            allocations,
            allocated_bytes,
            deallocations: 0,
            reallocations: 0,
        };
        assert_eq!(snapshot.advance(read(&counters)), [malloc(3, 70)]);
        assert!(snapshot.advance(read(&counters)).is_empty());
        // Calls of a thread that opted out of windows count as well.
        counters.opted_out[EntryPoint::Malloc as usize]
            .allocations
            .store(2, Relaxed);
        assert_eq!(snapshot.advance(read(&counters)), [malloc(2, 0)]);
        // The event of the next thread contains one more allocation.
        let event = [[EntryPoint::Malloc as u64, 4, 70, 0, 0]];
        assert_eq!(snapshot.advance(values(&event)), [malloc(1, 0)]);
    }

    #[test]
    fn hostile_counters_are_bounded() {
        let mut snapshot = CounterSnapshot::default();
        let beyond = [[u64::MAX, 1, 1, 1, 1], [31, 1, 1, 1, 1]];
        assert!(snapshot.advance(values(&beyond)).is_empty());
        snapshot.advance(values(&[[0, u64::MAX, 5, 0, 0]]));
        assert!(snapshot.advance(values(&[[0, 1, 2, 0, 0]])).is_empty());
    }
}
