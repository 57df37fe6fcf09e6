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

    /// The live bytes at `count + 1` times in equal distances, from `from_ns` to `to_ns`.
    pub(crate) fn sampled(&self, [from_ns, to_ns]: [u64; 2], count: u64) -> Vec<f64> {
        let span = to_ns.saturating_sub(from_ns);
        let time = |step: u64| {
            let passed = u128::from(span) * u128::from(step) / u128::from(count.max(1));
            from_ns + passed as u64
        };
        let steps = 0..=count;
        steps.map(|step| self.at(time(step)).bytes as f64).collect()
    }
}

/// The coefficient of determination (R²) of a straight line through these values at equal
/// distances; 0 without a slope.
pub(crate) fn straightness(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean_x = (count - 1.0) / 2.0;
    let mean_y = values.iter().sum::<f64>() / count;
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in values.iter().enumerate() {
        let (x, y) = (x as f64 - mean_x, y - mean_y);
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    if xx == 0.0 || yy == 0.0 {
        return 0.0;
    }
    xy * xy / (xx * yy)
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
    fn a_line_is_straight_and_a_constant_is_not_a_rise() {
        let line: Vec<f64> = (0..50).map(|x| 3.0 + 2.0 * f64::from(x)).collect();
        assert!((straightness(&line) - 1.0).abs() < 1e-9);
        assert_eq!(straightness(&[5.0; 20]), 0.0);
        let saw: Vec<f64> = (0..60).map(|x| f64::from(x % 10)).collect();
        assert!(straightness(&saw) < 0.2);
    }

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
