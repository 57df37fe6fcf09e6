//! The draining thread's sleep between two rounds of polling: an exponential backoff. A
//! recorded thread that has filled part of its ring rings the doorbell, which ends the
//! sleep. A long sleep delays only what does not ring it (ends of processes, names).

use std::time::Duration;

use allotrope_shm::layout::RING_WORDS;

/// Words read in a round from which on there is no sleep. During a sleep a ring might
/// fill to a quarter, at which its writer rings the doorbell.
const BUSY_WORDS: u64 = RING_WORDS as u64 / 8;
/// Words read in a round below which the sleep gets longer: 16 KiB, which stay in the
/// first-level caches until they are read.
const FEW_WORDS: u64 = 2048;
/// The shortest sleep. Each round takes the cache lines with the rings' positions from
/// the programs; more rounds would cost the programs more than recording does.
const MIN: Duration = Duration::from_millis(1);
/// The longest sleep: the delay with which the end of a process or the name of a
/// thread is noticed.
const MAX: Duration = Duration::from_millis(8);
/// The longest sleep while threads use the coarse clock, which shows them that time has
/// passed: it advances after each sleep.
const MAX_WITH_COARSE_CLOCK: Duration = Duration::from_millis(1);
/// The longest sleep while threads use the coarse clock and none of them writes anything.
const MAX_WITH_COARSE_CLOCK_IDLE: Duration = Duration::from_millis(4);
/// Each sleep is longer than the one before by a `GROWTH`th. The longest sleep is
/// reached after a tenth of a second, so the ends of short programs are noticed early.
const GROWTH: u32 = 16;

/// The backoff of a recording.
#[derive(Debug)]
pub(crate) struct PollBackoff {
    sleep: Duration,
}

impl Default for PollBackoff {
    fn default() -> Self {
        Self { sleep: MIN }
    }
}

impl PollBackoff {
    /// How long to sleep after a round that read `found` words; `None` for no sleep.
    /// `coarse_clock_used`: threads use the coarse clock.
    pub(crate) fn after(&mut self, found: u64, coarse_clock_used: bool) -> Option<Duration> {
        if found >= BUSY_WORDS {
            self.sleep = MIN;
            return None;
        }
        let longest = match (coarse_clock_used, found) {
            (false, _) => MAX,
            (true, 0) => MAX_WITH_COARSE_CLOCK_IDLE,
            (true, _) => MAX_WITH_COARSE_CLOCK,
        };
        self.sleep = if found < FEW_WORDS {
            (self.sleep + self.sleep / GROWTH).min(longest)
        } else {
            (self.sleep / 2).max(MIN)
        };
        Some(self.sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sleep after 100 rounds that read the same number of words.
    fn settled(backoff: &mut PollBackoff, found: u64, coarse_clock_used: bool) -> Option<Duration> {
        (0..100)
            .map(|_| backoff.after(found, coarse_clock_used))
            .last()?
    }

    #[test]
    fn rounds_with_few_words_lengthen_the_sleep_and_busy_rounds_end_it() {
        let mut backoff = PollBackoff::default();
        assert_eq!(settled(&mut backoff, 0, false), Some(MAX));
        assert_eq!(settled(&mut backoff, FEW_WORDS - 1, false), Some(MAX));
        assert_eq!(backoff.after(FEW_WORDS, false), Some(MAX / 2));
        assert_eq!(settled(&mut backoff, BUSY_WORDS - 1, false), Some(MIN));
        assert_eq!(backoff.after(BUSY_WORDS, false), None);
        assert!(backoff.after(0, false).unwrap() < MIN * 2);
    }

    #[test]
    fn the_longest_sleep_is_reached_after_a_tenth_of_a_second() {
        let mut backoff = PollBackoff::default();
        let mut passed = Duration::ZERO;
        while let Some(sleep) = backoff.after(1, false)
            && sleep < MAX
        {
            passed += sleep;
        }
        // The sum of the geometric series from the shortest to the longest sleep.
        let expected = (MAX - MIN) * GROWTH;
        let near = expected / 5;
        assert!(
            (expected - near..expected + near).contains(&passed),
            "{passed:?}"
        );
    }

    #[test]
    fn the_coarse_clock_advances_every_millisecond_while_it_is_used() {
        let mut backoff = PollBackoff::default();
        assert_eq!(settled(&mut backoff, 1, true), Some(MAX_WITH_COARSE_CLOCK));
        assert_eq!(
            settled(&mut backoff, 0, true),
            Some(MAX_WITH_COARSE_CLOCK_IDLE)
        );
        assert_eq!(backoff.after(1, true), Some(MAX_WITH_COARSE_CLOCK));
    }
}
