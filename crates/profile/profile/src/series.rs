//! Live bytes over time, in a bounded number of samples.
//!
//! Time is divided into buckets of equal width. When there are too many, each two
//! neighbours are merged and the width doubles. So memory does not grow with the length
//! of the recording.

/// Largest number of samples a series holds.
const CAPACITY: usize = 512;

/// One bucket of a [`Series`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LivePoint {
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
    /// Start of the first bucket, in nanoseconds since the start of the recording.
    pub from_ns: u64,
    /// Width of a bucket in nanoseconds.
    pub width_ns: u64,
    /// The buckets, at most 512.
    pub samples: Vec<LivePoint>,
}

/// Resident memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResidentPoint {
    /// Microseconds since the start of the recording.
    pub time_us: u64,
    /// Resident bytes as the kernel counts them: with those of the recorder.
    pub bytes: u64,
    /// Resident bytes of the recorder, as far as they are known.
    pub recorder_bytes: Option<u64>,
}

impl ResidentPoint {
    /// Resident bytes of the program: without those of the recorder, as far as they are known.
    pub fn program_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.recorder_bytes.unwrap_or(0))
    }
}

impl Default for Series {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Series {
    fn new(from_ns: u64) -> Self {
        Self {
            from_ns,
            width_ns: 1_000,
            samples: Vec::new(),
        }
    }

    /// Adds the buckets up to the one that contains `now`. The added buckets repeat the
    /// live bytes at the end of the one before.
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

    /// Returns the series with at most so many buckets, which is at least 1: wider ones, if there
    /// are more.
    #[must_use]
    pub fn with_at_most(&self, samples: usize) -> Self {
        let mut series = self.clone();
        while series.samples.len() > samples.max(1) {
            series.halve();
        }
        series
    }

    /// Merges each two neighbours and doubles the width.
    fn halve(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let merged = self
            .samples
            .chunks(2)
            .map(|pair| {
                let last = pair[pair.len() - 1];
                LivePoint {
                    max_bytes: pair.iter().map(|s| s.max_bytes).max().unwrap_or(0),
                    ..last
                }
            })
            .collect();
        self.samples = merged;
    }
}

/// Builds a [`Series`]. Most events cost one comparison, which finds that the last bucket
/// has not ended; what is live at its end is stored when the next one is opened.
pub(crate) struct Plotter {
    series: Series,
    /// End of the last bucket, in nanoseconds.
    until: u64,
    /// The largest number of live bytes in the last bucket.
    max_bytes: u64,
}

impl Plotter {
    /// A series that begins at `from_ns`.
    pub(crate) fn new(from_ns: u64) -> Self {
        Self {
            series: Series::new(from_ns),
            until: from_ns,
            max_bytes: 0,
        }
    }

    /// Whether [`Self::advance`] must be called before anything changes.
    #[inline]
    pub(crate) fn must_advance(&self, now: u64) -> bool {
        now >= self.until
    }

    /// The time from which on [`Self::must_advance`] is true.
    #[inline]
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    /// The largest number of live bytes noted in the last bucket.
    #[inline]
    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Opens the bucket that contains `now`. `before` is what was live until now; its
    /// `max_bytes` is ignored. Times must not decrease.
    #[cold]
    pub(crate) fn advance(&mut self, now: u64, before: LivePoint) {
        self.close(before);
        self.series.open(now);
        self.max_bytes = self.series.samples.last().map_or(0, |last| last.max_bytes);
        let covered = self
            .series
            .width_ns
            .saturating_mul(self.series.samples.len() as u64);
        self.until = self.series.from_ns.saturating_add(covered);
    }

    /// Notes that this many bytes are live now, in the last bucket.
    #[inline]
    pub(crate) fn note(&mut self, live_bytes: u64) {
        self.max_bytes = self.max_bytes.max(live_bytes);
    }

    /// The finished series; `last` is what is live at the end.
    pub(crate) fn finish(mut self, last: LivePoint) -> Series {
        self.close(last);
        self.series
    }

    /// Completes the last bucket, at whose end this is live.
    fn close(&mut self, end: LivePoint) {
        if let Some(last) = self.series.samples.last_mut() {
            *last = LivePoint {
                max_bytes: self.max_bytes,
                ..end
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The series of these live bytes at these times.
    fn series(from_ns: u64, live: impl IntoIterator<Item = (u64, u64)>) -> Series {
        let mut plotter = Plotter::new(from_ns);
        let mut last = LivePoint::default();
        for (now, bytes) in live {
            if plotter.must_advance(now) {
                plotter.advance(now, last);
            }
            last.bytes = bytes;
            plotter.note(bytes);
        }
        plotter.finish(last)
    }

    #[test]
    fn a_bucket_has_the_largest_and_the_last_number_of_live_bytes() {
        let series = series(5_000, [(5_000, 10), (5_400, 70), (5_900, 20), (7_000, 30)]);
        let seen: Vec<_> = series
            .samples
            .iter()
            .map(|s| (s.max_bytes, s.bytes))
            .collect();
        assert_eq!(seen, [(70, 20), (20, 20), (30, 30)]);
    }

    #[test]
    fn a_long_recording_stays_within_the_capacity_and_keeps_the_peak() {
        let series = series(
            0,
            (0..100_000_u64).map(|second| {
                let bytes = if second == 777 { 5_000 } else { second % 100 };
                (second * 1_000_000_000, bytes)
            }),
        );
        assert!(series.samples.len() <= CAPACITY);
        assert_eq!(
            series.samples.iter().map(|s| s.max_bytes).max(),
            Some(5_000)
        );
        assert_eq!(series.samples.last().map(|s| s.bytes), Some(99_999 % 100));
        let few = series.with_at_most(10);
        assert!((5..=10).contains(&few.samples.len()));
        assert_eq!(few.samples.iter().map(|s| s.max_bytes).max(), Some(5_000));
        assert_eq!(few.samples.last(), series.samples.last());
    }

    #[test]
    fn without_events_there_are_no_samples() {
        assert!(series(7, []).samples.is_empty());
    }

    #[test]
    fn the_largest_time_does_not_panic() {
        series(u64::MAX - 1, [(u64::MAX, 1), (u64::MAX, 2)]);
        let from_zero = series(0, [(u64::MAX, 1), (u64::MAX, 2)]);
        assert!(from_zero.samples.len() <= CAPACITY);
        assert_eq!(from_zero.samples.last().map(|s| s.bytes), Some(2));
    }
}
