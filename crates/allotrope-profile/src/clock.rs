//! Turns ticks of the recording machine's counter into nanoseconds since the
//! start of the recording: a straight line between two [`Clock`] readings, the
//! outer lines prolonged beyond the first and the last reading.

use allotrope_trace::model::Clock;

/// Ticks to nanoseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    readings: Vec<Clock>,
    origin_ns: i128,
}

impl Timeline {
    /// A timeline whose zero is `started_tick`. Readings that do not grow are
    /// left out. With fewer than two, a tick is taken for a nanosecond.
    pub(crate) fn new(mut readings: Vec<Clock>, started_tick: u64) -> Self {
        readings.sort_by_key(|clock| clock.tick);
        readings.dedup_by(|later, kept| {
            later.tick == kept.tick || later.monotonic_ns <= kept.monotonic_ns
        });
        let mut timeline = Self {
            readings,
            origin_ns: 0,
        };
        timeline.origin_ns = timeline.absolute(started_tick);
        timeline
    }

    /// Nanoseconds since the start; 0 for what lies before.
    pub(crate) fn ns(&self, tick: u64) -> u64 {
        self.since_start(self.absolute(tick))
    }

    /// As [`Self::ns`], of ticks that follow each other.
    pub(crate) fn walk(&self) -> Walk<'_> {
        Walk {
            timeline: self,
            line: Line::default(),
        }
    }

    fn since_start(&self, absolute_ns: i128) -> u64 {
        let ns = absolute_ns - self.origin_ns;
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }

    fn absolute(&self, tick: u64) -> i128 {
        if self.readings.len() < 2 {
            return i128::from(tick);
        }
        self.line_at(tick).absolute(tick)
    }

    /// The line on which a tick lies; there must be two readings.
    fn line_at(&self, tick: u64) -> Line {
        let above = self
            .readings
            .partition_point(|clock| clock.tick <= tick)
            .clamp(1, self.readings.len() - 1);
        Line {
            from: self.readings[above - 1],
            to: self.readings[above],
        }
    }
}

/// Gives the times of ticks that follow each other: most lie on one line with the
/// tick before, which is then not looked for.
pub(crate) struct Walk<'a> {
    timeline: &'a Timeline,
    line: Line,
}

impl Walk<'_> {
    /// See [`Timeline::ns`].
    pub(crate) fn ns(&mut self, tick: u64) -> u64 {
        if !(self.line.from.tick..self.line.to.tick).contains(&tick) {
            if self.timeline.readings.len() < 2 {
                return self.timeline.ns(tick);
            }
            self.line = self.timeline.line_at(tick);
        }
        self.timeline.since_start(self.line.absolute(tick))
    }
}

/// Between two readings, or prolonged beyond them.
#[derive(Clone, Copy)]
struct Line {
    from: Clock,
    to: Clock,
}

impl Default for Line {
    /// One on which no tick lies.
    fn default() -> Self {
        let nowhere = Clock {
            tick: 0,
            monotonic_ns: 0,
        };
        Self {
            from: nowhere,
            to: nowhere,
        }
    }
}

impl Line {
    fn absolute(&self, tick: u64) -> i128 {
        let (from, to) = (self.from, self.to);
        let slope_ns = i128::from(to.monotonic_ns) - i128::from(from.monotonic_ns);
        let slope_ticks = i128::from(to.tick) - i128::from(from.tick);
        let passed = i128::from(tick) - i128::from(from.tick);
        // Both factors are below 2^65, so the product stays within 2^127 only
        // for sane slopes; a hostile one must not overflow.
        let scaled = quick_scale(passed, slope_ns, slope_ticks).unwrap_or_else(|| {
            passed
                .checked_mul(slope_ns)
                .map_or(i128::from(u64::MAX), |p| p.div_euclid(slope_ticks))
        });
        i128::from(from.monotonic_ns) + scaled
    }
}

/// `passed * ns / ticks`, rounded down, without a division of 128 bits, which
/// takes longer than all else that is done with an event: a guess in floating
/// point, then the remainder says whether it is right. Where the numbers are
/// too large for that there is no answer.
#[inline]
fn quick_scale(passed: i128, ns: i128, ticks: i128) -> Option<i128> {
    let fits = |n: i128| u64::try_from(n).ok().filter(|&n| n < 1 << 62);
    let (passed, ns, ticks) = (fits(passed)?, fits(ns)?, fits(ticks)?);
    let mut quotient = (passed as f64 * (ns as f64 / ticks as f64)) as u64;
    let exact = u128::from(passed) * u128::from(ns);
    for _ in 0..3 {
        let reached = u128::from(quotient) * u128::from(ticks);
        if reached > exact {
            quotient = quotient.checked_sub(1)?;
        } else if exact - reached >= u128::from(ticks) {
            quotient = quotient.checked_add(1)?;
        } else {
            return Some(i128::from(quotient));
        }
    }
    None
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
    fn lines_are_drawn_between_readings_and_prolonged_beyond() {
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

    proptest::proptest! {
        #[test]
        fn the_quick_way_gives_what_a_division_gives(
            passed in 0..u64::MAX >> 2, ns in 1..u64::MAX >> 3, ticks in 1..u64::MAX >> 3,
            shifts in (0..62_u32, 0..60_u32, 0..60_u32),
        ) {
            let (passed, ns, ticks) = (passed >> shifts.0, ns >> shifts.1, (ticks >> shifts.2).max(1));
            let (passed, ns, ticks) = (i128::from(passed), i128::from(ns), i128::from(ticks));
            if let Some(quick) = quick_scale(passed, ns, ticks) {
                proptest::prop_assert_eq!(quick, (passed * ns).div_euclid(ticks));
            }
        }

        #[test]
        fn the_quick_way_does_for_ordinary_recordings(
            passed in 0..1_u64 << 52, ns in 1_u64 << 20..1 << 50, hertz in 1..8_u64,
        ) {
            let (passed, ns) = (i128::from(passed), i128::from(ns));
            proptest::prop_assert!(quick_scale(passed, ns, ns * i128::from(hertz) + 7).is_some());
        }
    }

    #[test]
    fn on_a_walk_the_time_is_the_same() {
        let readings = [clock(1000, 0), clock(3000, 1000), clock(7000, 2000)];
        let ticks = [0, 999, 1000, 2999, 3000, 2000, 6999, 7000, 9000, 8000, 1500];
        for count in 0..=readings.len() {
            let line = Timeline::new(readings[..count].to_vec(), 1200);
            let mut walk = line.walk();
            for tick in ticks {
                assert_eq!(walk.ns(tick), line.ns(tick), "at {tick} of {count}");
            }
        }
    }

    #[test]
    fn hostile_readings_do_not_overflow() {
        let line = Timeline::new(vec![clock(0, 0), clock(1, u64::MAX)], 0);
        let _ = line.ns(u64::MAX);
    }
}
