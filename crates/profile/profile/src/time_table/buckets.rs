//! The buckets of time: equal widths, divided at further times.

/// Buckets of equal width before they are divided. With four times as many, programs whose
/// blocks live for random times have sixteen times as many cells, and reading takes twice
/// as long.
const EQUAL: usize = 256;
/// The most further boundaries; those that come last are left out.
const MAX_FURTHER: usize = 4096;

/// Finds the bucket of a time in a few instructions.
#[derive(Debug, Clone)]
pub(crate) struct Buckets {
    /// The start of each bucket, ascending, and `u64::MAX` as the end of the last one.
    starts: Vec<u64>,
    from: u64,
    /// 2^64 / width of the equal buckets.
    inverse: u64,
    /// Bucket that begins at the start of each equal bucket, by the latter's number.
    first: Vec<u16>,
}

impl Buckets {
    /// The buckets of an image from `from` to `end`, with further boundaries at `at`, all
    /// in nanoseconds.
    pub(crate) fn new(from: u64, end: u64, at: &[u64]) -> Self {
        let span = end.saturating_sub(from);
        // Nanoseconds cannot be divided.
        let width = span.div_ceil(EQUAL as u64).max(1);
        let equal = (0..EQUAL as u64).map(|number| from.saturating_add(number * width));
        let mut starts: Vec<u64> = equal
            .take_while(|&start| start == from || start < end)
            .collect();
        let further = at.iter().take(MAX_FURTHER);
        starts.extend(further.copied().filter(|&time| from < time && time < end));
        starts.sort_unstable();
        starts.dedup();
        let mut first = Vec::with_capacity(EQUAL + 1);
        for number in 0..=EQUAL as u64 {
            let start = from.saturating_add(number.saturating_mul(width));
            let bucket = starts.partition_point(|&other| other <= start) - 1;
            // There are at most `EQUAL + MAX_FURTHER`.
            first.push(bucket as u16);
        }
        starts.push(u64::MAX);
        Self {
            starts,
            from,
            inverse: u64::MAX / width,
            first,
        }
    }

    /// The start of each bucket.
    pub(crate) fn starts(&self) -> &[u64] {
        &self.starts[..self.starts.len() - 1]
    }

    /// The bucket of a time; the first one for a time before it.
    #[inline]
    pub(crate) fn of(&self, time: u64) -> u16 {
        let passed = time.saturating_sub(self.from);
        let number = ((u128::from(passed) * u128::from(self.inverse)) >> 64) as usize;
        let mut bucket = self.first[number.min(EQUAL)];
        // The number may be one too small, because the inverse is rounded down.
        while self.starts[usize::from(bucket) + 1] <= time {
            bucket += 1;
        }
        bucket
    }

    /// The end of a bucket, in nanoseconds.
    #[inline]
    pub(crate) fn end_of(&self, bucket: u16) -> u64 {
        self.starts[usize::from(bucket) + 1]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_bucket_of_a_time_begins_at_it_or_before(
            from in 0..u64::MAX / 2,
            span in prop_oneof![0..5_000_u64, 0..u64::MAX / 2],
            at in prop::collection::vec(any::<u64>(), 0..20),
            near in prop::collection::vec(0.0..1.0_f64, 0..20),
            times in prop::collection::vec(0.0..1.0_f64, 1..50),
        ) {
            let inside = |part: &f64| from + (span as f64 * part) as u64;
            let mut further: Vec<u64> = near.iter().map(inside).collect();
            further.extend(at);
            let buckets = Buckets::new(from, from + span, &further);
            prop_assert!(buckets.starts().is_sorted());
            for &time in further.iter().filter(|&&time| from < time && time < from + span) {
                prop_assert!(buckets.starts().binary_search(&time).is_ok());
            }
            let times = times.iter().map(inside);
            for time in times.chain(further.iter().copied()).chain([from, from + span, u64::MAX - 1]) {
                let bucket = buckets.of(time);
                let start = buckets.starts()[usize::from(bucket)];
                prop_assert!(start <= time || bucket == 0);
                prop_assert!(time < buckets.end_of(bucket));
            }
        }
    }

    #[test]
    fn an_image_without_a_duration_has_one_bucket() {
        let buckets = Buckets::new(7, 7, &[7, 8]);
        assert_eq!(buckets.starts(), [7]);
        assert_eq!(buckets.of(7), 0);
        assert_eq!(buckets.of(u64::MAX - 1), 0);
        assert_eq!(buckets.of(0), 0);
    }
}
