//! Converts ticks of the recording machine's time stamp counter to nanoseconds since the
//! start of the recording: linear interpolation between two [`Clock`] readings, and
//! extrapolation before the first and after the last one.

use allotrope_trace::model::Clock;

/// Maps ticks to nanoseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    /// Ascending in both ticks and nanoseconds.
    readings: Vec<Clock>,
    /// Monotonic time of the start of the recording.
    origin_ns: i128,
}

impl Timeline {
    /// A timeline whose zero is `started_tick`. Readings whose tick or time is not larger
    /// than the one before are left out. With fewer than two readings, a tick counts as a
    /// nanosecond.
    pub(crate) fn new(mut readings: Vec<Clock>, started_tick: u64) -> Self {
        readings.sort_by_key(|clock| clock.tick);
        readings.dedup_by(|later, earlier| {
            later.tick == earlier.tick || later.monotonic_ns <= earlier.monotonic_ns
        });
        let mut timeline = Self {
            readings,
            origin_ns: 0,
        };
        timeline.origin_ns = timeline.absolute(started_tick);
        timeline
    }

    /// Nanoseconds since the start; 0 for ticks before it.
    pub(crate) fn ns(&self, tick: u64) -> u64 {
        let ns = self.absolute(tick) - self.origin_ns;
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }

    /// Monotonic time of a tick, in nanoseconds.
    fn absolute(&self, tick: u64) -> i128 {
        if self.readings.len() < 2 {
            return i128::from(tick);
        }
        let above = self
            .readings
            .partition_point(|clock| clock.tick <= tick)
            .clamp(1, self.readings.len() - 1);
        let (from, to) = (self.readings[above - 1], self.readings[above]);
        let slope_ns = i128::from(to.monotonic_ns) - i128::from(from.monotonic_ns);
        let slope_ticks = i128::from(to.tick) - i128::from(from.tick);
        let passed = i128::from(tick) - i128::from(from.tick);
        // Both factors may reach 2^64, so the product of hostile readings may not fit
        // 127 bits.
        let scaled = passed
            .checked_mul(slope_ns)
            .map_or(i128::from(u64::MAX), |p| p.div_euclid(slope_ticks));
        i128::from(from.monotonic_ns) + scaled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(tick: u64, monotonic_ns: u64) -> Clock {
        Clock { tick, monotonic_ns }
    }

    #[test]
    fn a_tick_is_a_nanosecond_without_two_readings() {
        assert_eq!(Timeline::new(vec![], 100).ns(150), 50);
        assert_eq!(Timeline::new(vec![clock(1, 1)], 100).ns(150), 50);
    }

    #[test]
    fn times_are_interpolated_between_readings_and_extrapolated_beyond() {
        // 2 ticks a nanosecond, then 4.
        let line = Timeline::new(
            vec![clock(1000, 0), clock(3000, 1000), clock(7000, 2000)],
            1000,
        );
        assert_eq!(line.ns(1000), 0);
        assert_eq!(line.ns(2000), 500);
        assert_eq!(line.ns(3000), 1000);
        assert_eq!(line.ns(5000), 1500);
        assert_eq!(line.ns(11000), 3000);
        assert_eq!(line.ns(0), 0, "before the start");
    }

    #[test]
    fn readings_that_go_backwards_are_left_out() {
        let line = Timeline::new(vec![clock(0, 0), clock(10, 100), clock(20, 90)], 0);
        assert_eq!(line.ns(20), 200);
    }

    #[test]
    fn hostile_readings_do_not_overflow() {
        let line = Timeline::new(vec![clock(0, 0), clock(1, u64::MAX)], 0);
        let _ = line.ns(u64::MAX);
    }
}
