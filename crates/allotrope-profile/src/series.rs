//! What was live over time, in a bounded number of samples.
//!
//! A span of time is split into buckets of equal width. When the recording
//! outgrows them, neighbours are merged and the width doubles, so that memory
//! stays the same however long it runs.

/// Most samples a series holds.
const CAPACITY: usize = 512;

/// One bucket of a [`Series`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LiveSample {
    /// Largest number of live bytes in the bucket.
    pub max_bytes: u64,
    /// Live bytes at its end.
    pub bytes: u64,
    /// Live allocations at its end.
    pub allocations: u64,
    /// Allocations made by its end.
    pub allocated: u64,
}

/// Live bytes over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// When the first bucket begins, nanoseconds since the start of the recording.
    pub from_ns: u64,
    /// Width of a bucket in nanoseconds.
    pub width_ns: u64,
    /// The buckets, at most 512.
    pub samples: Vec<LiveSample>,
}

/// Resident memory by the kernel's count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResidentSample {
    /// Microseconds since the start of the recording.
    pub time_us: u64,
    /// Resident bytes.
    pub bytes: u64,
}

impl Default for Series {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Series {
    pub(crate) fn new(from_ns: u64) -> Self {
        Self {
            from_ns,
            width_ns: 1_000,
            samples: Vec::new(),
        }
    }

    /// Takes what is live from `now` on. Times must not go backwards.
    #[inline]
    pub(crate) fn record(&mut self, now: u64, sample: LiveSample) {
        let covered = self.width_ns.saturating_mul(self.samples.len() as u64);
        if now >= self.from_ns.saturating_add(covered) {
            self.open(now);
        }
        if let Some(last) = self.samples.last_mut() {
            let max_bytes = last.max_bytes.max(sample.bytes);
            *last = LiveSample {
                max_bytes,
                ..sample
            };
        }
    }

    /// Opens the bucket that `now` lies in; those between repeat the last one's end.
    #[cold]
    fn open(&mut self, now: u64) {
        let mut index = (now.saturating_sub(self.from_ns) / self.width_ns) as usize;
        while index >= CAPACITY {
            self.halve();
            index = (now.saturating_sub(self.from_ns) / self.width_ns) as usize;
        }
        while self.samples.len() <= index {
            let mut next = self.samples.last().copied().unwrap_or_default();
            next.max_bytes = next.bytes;
            self.samples.push(next);
        }
    }

    fn halve(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let merged = self
            .samples
            .chunks(2)
            .map(|pair| {
                let last = pair[pair.len() - 1];
                LiveSample {
                    max_bytes: pair.iter().map(|s| s.max_bytes).max().unwrap_or(0),
                    ..last
                }
            })
            .collect();
        self.samples = merged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(bytes: u64) -> LiveSample {
        LiveSample {
            max_bytes: bytes,
            bytes,
            allocations: 1,
            allocated: 1,
        }
    }

    #[test]
    fn buckets_keep_the_largest_and_the_last() {
        let mut series = Series::new(5_000);
        series.record(5_000, live(10));
        series.record(5_400, live(70));
        series.record(5_900, live(20));
        series.record(7_000, live(30));
        let seen: Vec<_> = series
            .samples
            .iter()
            .map(|s| (s.max_bytes, s.bytes))
            .collect();
        assert_eq!(seen, [(70, 20), (20, 20), (30, 30)]);
    }

    #[test]
    fn a_long_recording_stays_within_the_capacity_and_keeps_the_peak() {
        let mut series = Series::new(0);
        for second in 0..100_000_u64 {
            let bytes = if second == 777 { 5_000 } else { second % 100 };
            series.record(second * 1_000_000_000, live(bytes));
        }
        assert!(series.samples.len() <= CAPACITY);
        assert_eq!(
            series.samples.iter().map(|s| s.max_bytes).max(),
            Some(5_000)
        );
        assert_eq!(series.samples.last().map(|s| s.bytes), Some(99_999 % 100));
    }

    #[test]
    fn the_end_of_time_is_no_panic() {
        let mut series = Series::new(u64::MAX - 1);
        series.record(u64::MAX, live(1));
        let mut from_zero = Series::new(0);
        from_zero.record(u64::MAX, live(1));
        assert!(from_zero.samples.len() <= CAPACITY);
    }
}
