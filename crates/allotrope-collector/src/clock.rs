//! Reads the two clocks of a recording together.

use allotrope_ring::arena::tick_now;
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
}
