//! The clocks of a recording: reads ticks and the monotonic clock together, and
//! remembers when the arena's coarse clock moved.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use allotrope_shm::arena::tick_now;
use allotrope_trace::model::Clock;
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in nanoseconds.
fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // The monotonic clock counts from boot: never negative.
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// A pair of readings that belong together: of a few attempts the one that
/// took the shortest time, so that an interruption between the two readings
/// does not bend the clock.
pub(crate) fn reading() -> Clock {
    let attempt = || {
        let before = tick_now();
        let monotonic_ns = monotonic_ns();
        let span = tick_now().wrapping_sub(before);
        let clock = Clock {
            tick: before.wrapping_add(span / 2),
            monotonic_ns,
        };
        (span, clock)
    };
    let attempts = [attempt(), attempt(), attempt()];
    let shortest = attempts.into_iter().min_by_key(|(span, _)| *span);
    shortest.map_or_else(|| attempt().1, |(_, clock)| clock)
}

/// Converts between ticks and the other clocks, by two readings that lie as far
/// apart as can be.
#[derive(Debug)]
pub(crate) struct Conversion {
    first: Clock,
    last: Clock,
}

/// The least time between the two readings.
const APART: Duration = Duration::from_millis(5);

impl Conversion {
    /// Reads the clocks twice, and waits in between.
    pub(crate) fn begin() -> Self {
        let first = reading();
        std::thread::sleep(APART);
        Self {
            first,
            last: reading(),
        }
    }

    /// Makes it more exact.
    pub(crate) fn read_again(&mut self) {
        self.last = reading();
    }

    /// The tick now.
    pub(crate) fn now() -> u64 {
        tick_now()
    }

    fn ticks_per_ns(&self) -> f64 {
        let ns = self
            .last
            .monotonic_ns
            .saturating_sub(self.first.monotonic_ns);
        self.last.tick.wrapping_sub(self.first.tick) as f64 / ns.max(1) as f64
    }

    /// The tick at a time of the monotonic clock in nanoseconds.
    pub(crate) fn tick(&self, monotonic_ns: u64) -> u64 {
        let since = monotonic_ns as f64 - self.last.monotonic_ns as f64;
        (self.last.tick as f64 + since * self.ticks_per_ns()) as u64
    }

    /// The tick at a time of day.
    pub(crate) fn tick_of(&self, time: SystemTime) -> u64 {
        let age = SystemTime::now().duration_since(time).unwrap_or_default();
        tick_now().saturating_sub((age.as_nanos() as f64 * self.ticks_per_ns()) as u64)
    }

    /// The time of day at a tick in the past.
    pub(crate) fn system_time(&self, tick: u64) -> SystemTime {
        let ticks = tick_now().saturating_sub(tick) as f64;
        let age = Duration::from_nanos((ticks / self.ticks_per_ns()) as u64);
        let now = SystemTime::now();
        now.checked_sub(age).unwrap_or(UNIX_EPOCH)
    }
}

/// When the coarse clock of the arena moved, for the last movements.
///
/// An event is recorded only while its thread sees the coarse clock at the
/// value of its last mark: it happened before that clock moved on. This bounds
/// the time of events of threads that are idle after them.
#[derive(Debug)]
pub(crate) struct CoarseClock {
    /// (value, tick at which it was there for everybody), by value.
    moves: Box<[(u32, u64)]>,
    /// Some thread has looked at it.
    is_watched: bool,
}

/// Movements that are remembered: four seconds and more.
const MOVES: usize = 1 << 12;

impl Default for CoarseClock {
    fn default() -> Self {
        Self {
            moves: vec![(0, 0); MOVES].into(),
            is_watched: false,
        }
    }
}

impl CoarseClock {
    /// The clock has come to `value` just now.
    pub(crate) fn moved_to(&mut self, value: u32) {
        self.moves[value as usize % MOVES] = (value, tick_now());
    }

    /// Whether threads look at it: those that the kernel tells of their breaks do
    /// not.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// The tick by which the clock had left `value`, at which a thread saw it (0:
    /// it did not look); `None` if it has not, or that is long past.
    pub(crate) fn left(&mut self, value: u32) -> Option<u64> {
        if value == 0 {
            return None;
        }
        self.is_watched = true;
        let next = value.wrapping_add(1).max(1);
        let (found, tick) = self.moves[next as usize % MOVES];
        (found == next).then_some(tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_move_on() {
        let first = reading();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let second = reading();
        assert!(second.tick > first.tick);
        assert!(second.monotonic_ns >= first.monotonic_ns + 2_000_000);
    }

    #[test]
    fn times_and_ticks_are_converted_into_each_other() {
        let conversion = Conversion::begin();
        let (tick, time) = (tick_now(), SystemTime::now());
        let clock = reading();
        std::thread::sleep(Duration::from_millis(20));
        let second = 1e9 * conversion.ticks_per_ns();
        let is_near = |a: u64, b: u64| (a.abs_diff(b) as f64) < second;
        assert!(is_near(conversion.tick(clock.monotonic_ns), clock.tick));
        assert!(is_near(conversion.tick_of(time), tick));
        let found = conversion.system_time(tick);
        let apart = found
            .duration_since(time)
            .or_else(|_| time.duration_since(found));
        assert!(apart.unwrap() < Duration::from_secs(1));
    }

    #[test]
    fn the_coarse_clock_remembers_when_it_left_a_value() {
        let mut clock = CoarseClock::default();
        assert_eq!(clock.left(0), None);
        assert!(!clock.is_watched());
        let before = tick_now();
        clock.moved_to(7);
        clock.moved_to(8);
        let left = clock.left(7).expect("it moved on");
        assert!((before..=tick_now()).contains(&left));
        assert!(clock.left(6).is_some_and(|at| at <= left));
        assert_eq!(clock.left(8), None, "it still stands there");
        assert!(clock.is_watched());
        assert_eq!(clock.left(0), None, "unknown");
        assert_eq!(clock.left(7 + MOVES as u32), None, "another movement");
    }

    #[test]
    fn the_coarse_clock_skips_0_when_it_comes_round() {
        let mut clock = CoarseClock::default();
        clock.moved_to(u32::MAX);
        clock.moved_to(1);
        assert!(clock.left(u32::MAX).is_some());
    }
}
