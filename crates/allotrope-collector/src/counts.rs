//! What a ring's counters have come to since they were last told, where calls
//! are only counted.
//!
//! The counters only grow while the ring belongs to its image. They are a
//! thread's until another takes the ring over, which says how they stood.

use std::sync::atomic::Ordering::Relaxed;

use allotrope_shm::layout::{COUNTED_ENTRIES, Counters, EntryCounters};
use allotrope_shm::wire::{COUNTS_WORDS, Sums};
use allotrope_trace::model::{EntryCounts, EntryPoint};

/// What was told of a ring's counters.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The second half is what was done by a thread opted out of windows.
    sums: [[Sums; COUNTED_ENTRIES]; 2],
}

/// The counters as they are now, by number.
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
        for (number, sums) in now {
            let told = self.sums.as_flattened_mut().get_mut(number);
            let point = EntryPoint::ALL.get(number % COUNTED_ENTRIES);
            let (Some(told), Some(&point)) = (told, point) else {
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
        // Opted out of windows it is an allocation all the same.
        counters.opted_out[EntryPoint::Malloc as usize]
            .allocations
            .store(2, Relaxed);
        assert_eq!(told.tell(read(&counters)), [malloc(2, 0)]);
        // As the next thread of the ring says it, which is once more.
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
