//! What a lane's counters have come to since they were last told, where calls
//! are only counted.
//!
//! The counters only grow while the lane belongs to its image. They are a
//! thread's until another takes the lane over, which says how they stood.

use std::sync::atomic::Ordering::Relaxed;

use allotrope_ring::layout::{COUNTED_ENTRIES, Counters};
use allotrope_ring::words::COUNTS_WORDS;
use allotrope_trace::model::{EntryCounts, EntryPoint};

/// Allocations, bytes, deallocations, reallocations of an entry point.
pub(crate) type Sums = [u64; COUNTS_WORDS - 1];

/// What was told of a lane's counters.
#[derive(Debug, Default)]
pub(crate) struct Told {
    sums: [Sums; COUNTED_ENTRIES],
}

/// The counters as they are now.
pub(crate) fn read(counters: &Counters) -> [Sums; COUNTED_ENTRIES] {
    counters.entries.each_ref().map(|it| {
        [
            it.allocations.load(Relaxed),
            it.allocated_bytes.load(Relaxed),
            it.deallocations.load(Relaxed),
            it.reallocations.load(Relaxed),
        ]
    })
}

/// The counters as a `Counts` event says that they were.
pub(crate) fn said(counts: &[[u64; COUNTS_WORDS]]) -> impl Iterator<Item = (usize, Sums)> + '_ {
    counts.iter().map(|&[entry, rest @ ..]| {
        // Beyond the table is what no honest recorder says.
        (usize::try_from(entry).unwrap_or(usize::MAX), rest)
    })
}

impl Told {
    /// What was added since, of the entry points with anything new; it counts
    /// as told. A counter that goes back is a hostile one and adds nothing.
    pub(crate) fn tell(&mut self, now: impl Iterator<Item = (usize, Sums)>) -> Vec<EntryCounts> {
        let mut news = Vec::new();
        for (entry, sums) in now {
            let (Some(told), Some(&point)) = (self.sums.get_mut(entry), EntryPoint::ALL.get(entry))
            else {
                continue;
            };
            let mut new = [0; COUNTS_WORDS - 1];
            for ((new, now), told) in new.iter_mut().zip(sums).zip(told) {
                *new = now.saturating_sub(*told);
                *told += *new;
            }
            let [allocations, allocated_bytes, deallocations, reallocations] = new;
            if new != [0; COUNTS_WORDS - 1] {
                news.push(EntryCounts {
                    entry: point,
                    allocations,
                    allocated_bytes,
                    deallocations,
                    reallocations,
                });
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_told() {
        let counters = Counters::default();
        let mut told = Told::default();
        let read = |counters| read(counters).into_iter().enumerate();
        assert!(told.tell(read(&counters)).is_empty());
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
        assert_eq!(told.tell(read(&counters)), [malloc(3, 70)]);
        assert!(told.tell(read(&counters)).is_empty());
        // As the next thread of the lane says it, which is once more.
        let event = [[EntryPoint::Malloc as u64, 4, 70, 0, 0]];
        assert_eq!(told.tell(said(&event)), [malloc(1, 0)]);
    }

    #[test]
    fn hostile_counters_are_bounded() {
        let mut told = Told::default();
        let beyond = [[u64::MAX, 1, 1, 1, 1], [31, 1, 1, 1, 1]];
        assert!(told.tell(said(&beyond)).is_empty());
        told.tell(said(&[[0, u64::MAX, 5, 0, 0]]));
        assert!(told.tell(said(&[[0, 1, 2, 0, 0]])).is_empty());
    }
}
