//! How the lifetimes of a site's blocks are distributed: a log-linear histogram, as HdrHistogram
//! is. Its memory is bounded, whatever the lifetimes are.

use crate::lifetime::Lifetimes;

/// Buckets of each power of two. The middle of a bucket is at most half of an eighth, 6.25 %, away
/// from every lifetime in it; lifetimes below 16 ns have buckets of their own.
const BUCKETS: u64 = 8;

/// Lifetimes that wait to be added to the list: it is on the heap, and looking there for each block costs a
/// fifth of the time of a JSON report. Most sites never need the list.
const MAX_WAITING: usize = 11;

/// The number of blocks by lifetime.
#[derive(Debug, Clone, Default)]
pub struct LifetimeHistogram {
    /// Buckets of the latest lifetimes.
    waiting: [u16; MAX_WAITING],
    waiting_count: u16,
    /// The blocks of each bucket from the lowest that is not empty to the highest: 496 at most. A
    /// count stops at the largest number.
    counts: Vec<u32>,
    /// The bucket of the first count.
    lowest: u16,
}

impl LifetimeHistogram {
    /// Counts a block that lived this long.
    #[inline]
    pub(crate) fn add(&mut self, ns: u64) {
        let count = usize::from(self.waiting_count);
        match self.waiting.get_mut(count) {
            Some(free) => {
                *free = bucket(ns);
                self.waiting_count += 1;
            }
            None => {
                self.take_waiting();
                self.waiting[0] = bucket(ns);
                self.waiting_count = 1;
            }
        }
    }

    /// Adds the blocks of another site.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.take_waiting();
        let mut other = other.clone();
        other.take_waiting();
        let Some(last) = other.counts.len().checked_sub(1) else {
            return;
        };
        self.make_room(&[other.lowest, other.lowest + last as u16]);
        for (bucket, blocks) in (other.lowest..).zip(other.counts) {
            self.add_to(bucket, blocks);
        }
    }

    #[cold]
    fn take_waiting(&mut self) {
        let waiting = self.waiting;
        let waiting = &waiting[..usize::from(self.waiting_count)];
        self.make_room(waiting);
        for bucket in waiting {
            self.add_to(*bucket, 1);
        }
        self.waiting_count = 0;
    }

    /// Makes room for the counts of these buckets.
    fn make_room(&mut self, buckets: &[u16]) {
        let (Some(&low), Some(&high)) = (buckets.iter().min(), buckets.iter().max()) else {
            return;
        };
        if self.counts.is_empty() {
            self.lowest = low;
        }
        if low < self.lowest {
            let more = usize::from(self.lowest - low);
            self.counts.splice(..0, std::iter::repeat_n(0, more));
            self.lowest = low;
        }
        let length = usize::from(high.saturating_sub(self.lowest)) + 1;
        if self.counts.len() < length {
            self.counts.resize(length, 0);
        }
    }

    fn add_to(&mut self, bucket: u16, blocks: u32) {
        let place = usize::from(bucket - self.lowest);
        if let Some(count) = self.counts.get_mut(place) {
            *count = count.saturating_add(blocks);
        }
    }

    /// The median in nanoseconds, at most 6.25 % away from the lifetime that half of the blocks
    /// did not exceed; `None` without blocks. `lifetimes`: of the same blocks.
    pub fn median_ns(&self, lifetimes: &Lifetimes) -> Option<u64> {
        let count = usize::from(self.waiting_count);
        let middle = if self.counts.is_empty() {
            let mut waiting = self.waiting;
            waiting[..count].sort_unstable();
            waiting[..count].get(count.saturating_sub(1) / 2).copied()
        } else {
            let mut all = self.clone();
            all.take_waiting();
            let blocks: u64 = all.counts.iter().map(|it| u64::from(*it)).sum();
            let mut below = 0;
            let mut buckets = (all.lowest..).zip(all.counts);
            let middle = buckets.find(|(_, blocks_in)| {
                below += u64::from(*blocks_in);
                below >= blocks.div_ceil(2)
            });
            middle.map(|it| it.0)
        };
        // The ends are known exactly.
        middle.map(|bucket| middle_of(bucket).clamp(lifetimes.min_ns, lifetimes.max_ns))
    }
}

/// Equal numbers of blocks, in whatever order they came.
impl PartialEq for LifetimeHistogram {
    fn eq(&self, other: &Self) -> bool {
        let [one, other] = [self, other].map(|it| {
            let mut all = it.clone();
            all.take_waiting();
            (all.lowest, all.counts)
        });
        one == other
    }
}

impl Eq for LifetimeHistogram {}

fn bucket(ns: u64) -> u16 {
    let shift = (ns / (2 * BUCKETS)).checked_ilog2().map_or(0, |it| it + 1);
    (u64::from(shift) * BUCKETS + (ns >> shift)) as u16
}

/// The middle of a bucket's lifetimes.
fn middle_of(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let shift = (bucket / BUCKETS).saturating_sub(1);
    let first = (bucket - shift * BUCKETS) << shift;
    first + ((1 << shift) / 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn median(lifetimes: &[u64]) -> Option<u64> {
        let (mut histogram, mut all) = (LifetimeHistogram::default(), Lifetimes::default());
        for ns in lifetimes {
            histogram.add(*ns);
            all.add(*ns);
        }
        histogram.median_ns(&all)
    }

    #[test]
    fn few_and_short_lifetimes_are_exact() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[123_456_789]), Some(123_456_789));
        assert_eq!(median(&[7; 9]), Some(7));
        assert_eq!(median(&[15, 3, 9]), Some(9));
        assert_eq!(median(&[15, 3, 9, 10]), Some(9), "the lower one of two");
        assert_eq!(median(&[u64::MAX]), Some(u64::MAX));
    }

    #[test]
    fn one_long_lifetime_does_not_move_it() {
        let mut lifetimes = vec![1_000; 999];
        lifetimes.push(u64::MAX);
        let median = median(&lifetimes).expect("there are blocks");
        assert!((1_000..=1_062).contains(&median), "{median}");
    }

    proptest! {
        #[test]
        fn it_is_as_near_as_it_says(mut lifetimes in prop::collection::vec(any::<u64>().prop_flat_map(|high| 0..=high), 1..200)) {
            let found = median(&lifetimes).expect("there are blocks") as f64;
            lifetimes.sort_unstable();
            let exact = lifetimes[(lifetimes.len() - 1) / 2] as f64;
            prop_assert!((found - exact).abs() <= exact / 16.0 + 1.0, "{found} {exact}");
        }

        #[test]
        fn merged_histograms_are_those_of_all_blocks(one: Vec<u32>, other: Vec<u32>) {
            let of = |lifetimes: &[u32]| {
                let mut histogram = LifetimeHistogram::default();
                lifetimes.iter().for_each(|ns| histogram.add(u64::from(*ns)));
                histogram
            };
            let mut merged = of(&one);
            merged.merge(&of(&other));
            prop_assert_eq!(merged, of(&[one, other].concat()));
        }
    }
}
