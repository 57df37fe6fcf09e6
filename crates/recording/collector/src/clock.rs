//! The clocks of a recording: reads the tick counter and the monotonic clock together
//! ([`reading`]), converts between ticks and other clocks ([`Conversion`]), and records
//! when the arena's coarse clock advanced ([`CoarseClock`]).

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

/// Reads tick counter and monotonic clock at the same moment: the fastest of three
/// attempts, since a preemption between the two readings would falsify their relation.
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

/// Converts between ticks and other clocks by the line through two readings. It gets
/// more precise the further these are apart.
#[derive(Debug)]
pub(crate) struct Conversion {
    first: Clock,
    last: Clock,
}

/// Least time between the two readings.
const APART: Duration = Duration::from_millis(5);

impl Conversion {
    /// Reads the clocks twice; sleeps in between.
    pub(crate) fn begin() -> Self {
        let first = reading();
        std::thread::sleep(APART);
        Self {
            first,
            last: reading(),
        }
    }

    /// Replaces the second reading by one of now.
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

    /// The tick at a time of the monotonic clock, in nanoseconds.
    pub(crate) fn tick(&self, monotonic_ns: u64) -> u64 {
        let since = monotonic_ns as f64 - self.last.monotonic_ns as f64;
        (self.last.tick as f64 + since * self.ticks_per_ns()) as u64
    }

    /// The tick at a past time of the system clock.
    pub(crate) fn tick_of(&self, time: SystemTime) -> u64 {
        let age = SystemTime::now().duration_since(time).unwrap_or_default();
        tick_now().saturating_sub((age.as_nanos() as f64 * self.ticks_per_ns()) as u64)
    }

    /// The time of the system clock at a past tick.
    pub(crate) fn system_time(&self, tick: u64) -> SystemTime {
        let ticks = tick_now().saturating_sub(tick) as f64;
        let age = Duration::from_nanos((ticks / self.ticks_per_ns()) as u64);
        let now = SystemTime::now();
        now.checked_sub(age).unwrap_or(UNIX_EPOCH)
    }
}

/// The ticks at which the arena's coarse clock reached its latest values: an array
/// indexed by the value modulo its length. The draining thread advances the clock.
///
/// A thread that uses the coarse clock writes a new timestamp before an event if the
/// clock has advanced since the thread's last timestamp. Events after a timestamp
/// therefore happened before the clock left the value that it had at the timestamp.
/// This bounds the times of the last events before a thread becomes idle.
#[derive(Debug)]
pub(crate) struct CoarseClock {
    /// Each value with a tick at which all threads could see it.
    moves: Box<[(u32, u64)]>,
    /// A thread uses the coarse clock.
    is_used: bool,
}

/// Values in the array: at least four seconds.
const MOVES: usize = 1 << 12;

impl Default for CoarseClock {
    fn default() -> Self {
        Self {
            moves: vec![(0, 0); MOVES].into(),
            is_used: false,
        }
    }
}

impl CoarseClock {
    /// Records that the clock has advanced to `value` now.
    pub(crate) fn moved_to(&mut self, value: u32) {
        self.moves[value as usize % MOVES] = (value, tick_now());
    }

    /// Whether any thread has used the coarse clock. Threads that detect preemption by
    /// rseq do not need it.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// A tick by which the clock had left `value`, which a thread saw (0: the thread
    /// does not use the clock). `None` if the clock still has the value or left it too
    /// long ago.
    pub(crate) fn left(&mut self, value: u32) -> Option<u64> {
        if value == 0 {
            return None;
        }
        self.is_used = true;
        let next = value.wrapping_add(1).max(1);
        let (found, tick) = self.moves[next as usize % MOVES];
        (found == next).then_some(tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_advance() {
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
        assert!(!clock.is_used());
        let before = tick_now();
        clock.moved_to(7);
        clock.moved_to(8);
        let left = clock.left(7).expect("it has advanced");
        assert!((before..=tick_now()).contains(&left));
        assert!(clock.left(6).is_some_and(|at| at <= left));
        assert_eq!(clock.left(8), None, "its current value");
        assert!(clock.is_used());
        assert_eq!(clock.left(0), None, "unknown");
        assert_eq!(clock.left(7 + MOVES as u32), None, "another value's entry");
    }

    #[test]
    fn the_coarse_clock_skips_0_when_it_wraps_around() {
        let mut clock = CoarseClock::default();
        clock.moved_to(u32::MAX);
        clock.moved_to(1);
        assert!(clock.left(u32::MAX).is_some());
    }
}
