//! The live bytes of some sites over time.

use allotrope_profile::{BlockSum, TimeCell, TimeTable};

/// The live blocks of some sites at the end of each bucket of the time table.
pub(crate) struct Curve {
    ends_ns: Vec<u64>,
    live: Vec<BlockSum>,
}

impl Curve {
    /// Returns the curve of these cells.
    pub(crate) fn new<'c>(
        table: &TimeTable,
        cells: impl IntoIterator<Item = &'c TimeCell>,
    ) -> Self {
        let later = table.starts_ns.iter().skip(1).copied();
        Self {
            ends_ns: later.chain([table.end_ns]).collect(),
            live: table.live_at_ends(cells),
        }
    }

    /// The live blocks at the end of each bucket.
    pub(crate) fn live(&self) -> &[BlockSum] {
        &self.live
    }

    /// The end of a bucket, in nanoseconds.
    pub(crate) fn end_ns(&self, bucket: usize) -> u64 {
        self.ends_ns.get(bucket).copied().unwrap_or(0)
    }

    /// What is live at the last end of a bucket that is not after `ns`.
    pub(crate) fn at(&self, ns: u64) -> BlockSum {
        let passed = self.ends_ns.partition_point(|&end| end <= ns);
        let before = passed.checked_sub(1);
        before.map_or(BlockSum::default(), |bucket| self.live[bucket])
    }

    /// The last bucket at whose end the most bytes are live.
    pub(crate) fn highest(&self) -> Option<usize> {
        let numbered = self.live.iter().enumerate();
        numbered
            .max_by_key(|(bucket, live)| (live.bytes, *bucket))
            .map(|(bucket, _)| bucket)
    }

    /// The largest number of live blocks at the end of a bucket.
    pub(crate) fn most_blocks(&self) -> u64 {
        self.live.iter().map(|live| live.blocks).max().unwrap_or(0)
    }
}

/// The rise of a process's live bytes to their peak, above what is usually live.
pub(crate) struct Hump {
    /// The median of the live bytes while the program allocates.
    pub usual: u64,
    /// When they first are above a quarter of the rise, in nanoseconds.
    pub from_ns: u64,
    /// For how long they are above it, in nanoseconds, in one piece or several.
    pub above_ns: u64,
    /// Whether it happens within one step of the program: what else the program does again and
    /// again, it does not in this time.
    pub in_one_step: bool,
    /// Whether they fall below it again before the end.
    pub falls: bool,
    /// The most that is live apart from the rise and its flanks.
    pub rest: u64,
    /// The buckets of the time table in which they are not above it.
    pub below: Vec<usize>,
}

/// The median; 0 without values.
pub(crate) fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// The times at which these parts (0 to 1) of the weights have passed: the ends of the
/// weights' buckets, whose order is given.
pub(crate) fn quantiles<const N: usize>(weights: &[(u64, u64)], parts: [f64; N]) -> [u64; N] {
    let all: u64 = weights.iter().map(|(_, weight)| weight).sum();
    parts.map(|part| {
        let wanted = (all as f64 * part).ceil().max(1.0) as u64;
        let mut passed = 0;
        for &(time, weight) in weights {
            passed += weight;
            if passed >= wanted {
                return time;
            }
        }
        weights.last().map_or(0, |&(time, _)| time)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_times_of_their_weights() {
        let weights = [(10, 1), (20, 2), (30, 1)];
        assert_eq!(
            quantiles(&weights, [0.0, 0.25, 0.5, 0.75, 1.0]),
            [10, 10, 20, 20, 30]
        );
        assert_eq!(quantiles(&[], [0.5]), [0]);
    }
}
