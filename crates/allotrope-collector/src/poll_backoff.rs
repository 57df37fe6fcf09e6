//! The draining thread's sleep between two rounds of polling: an exponential
//! backoff. A thread that writes much rings the doorbell, which ends the sleep; a
//! long sleep delays only what rings no doorbell (ends of processes, names).

use std::time::Duration;

use allotrope_shm::layout::RING_WORDS;

/// Words in the rings at which there is no sleep: a quarter of a ring, at which its
/// writer rings the doorbell, might fill during it.
const BUSY_WORDS: u64 = RING_WORDS as u64 / 8;
/// Words below which a round was hardly worth it: 16 KiB, which stay in the nearest
/// caches until they are read.
const FEW_WORDS: u64 = 2048;
/// The shortest sleep. Each round takes the rings' positions out of the programs'
/// caches; more rounds would cost the programs more than recording does.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest sleep: the delay with which the end of a process or the name of a
/// thread is noticed.
const LONGEST: Duration = Duration::from_millis(8);
/// The longest sleep while threads use the coarse clock, which advances after each
/// sleep: it shows them that time has passed.
const LONGEST_WATCHED: Duration = Duration::from_millis(1);
/// The same while such threads write nothing at all.
const LONGEST_WATCHED_QUIET: Duration = Duration::from_millis(4);
/// A sleep is longer than the one before by its `GROWTH`th part. The longest sleep is
/// reached after a tenth of a second, so that the ends of short programs are noticed
/// at once.
const GROWTH: u32 = 16;

/// The backoff of a recording.
#[derive(Debug)]
pub(crate) struct PollBackoff {
    sleep: Duration,
}

impl Default for PollBackoff {
    fn default() -> Self {
        Self { sleep: SHORTEST }
    }
}

impl PollBackoff {
    /// How long to sleep after a round that found `found` words; `None`: not at
    /// all. `watched`: threads use the coarse clock.
    pub(crate) fn after(&mut self, found: u64, watched: bool) -> Option<Duration> {
        if found >= BUSY_WORDS {
            self.sleep = SHORTEST;
            return None;
        }
        let longest = match (watched, found) {
            (false, _) => LONGEST,
            (true, 0) => LONGEST_WATCHED_QUIET,
            (true, _) => LONGEST_WATCHED,
        };
        self.sleep = if found < FEW_WORDS {
            (self.sleep + self.sleep / GROWTH).min(longest)
        } else {
            (self.sleep / 2).max(SHORTEST)
        };
        Some(self.sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sleep after 100 rounds that found the same.
    fn settled(backoff: &mut PollBackoff, found: u64, watched: bool) -> Option<Duration> {
        (0..100).map(|_| backoff.after(found, watched)).last()?
    }

    #[test]
    fn little_to_do_makes_long_sleeps_and_much_to_do_none() {
        let mut backoff = PollBackoff::default();
        assert_eq!(settled(&mut backoff, 0, false), Some(LONGEST));
        assert_eq!(settled(&mut backoff, FEW_WORDS - 1, false), Some(LONGEST));
        assert_eq!(backoff.after(FEW_WORDS, false), Some(LONGEST / 2));
        assert_eq!(settled(&mut backoff, BUSY_WORDS - 1, false), Some(SHORTEST));
        assert_eq!(backoff.after(BUSY_WORDS, false), None);
        assert!(backoff.after(0, false).unwrap() < SHORTEST * 2);
    }

    #[test]
    fn a_tenth_of_a_second_passes_until_sleeps_are_long() {
        let mut backoff = PollBackoff::default();
        let mut passed = Duration::ZERO;
        while let Some(sleep) = backoff.after(1, false)
            && sleep < LONGEST
        {
            passed += sleep;
        }
        // A sum of a geometric series: all but the last step, times the ratio.
        let expected = (LONGEST - SHORTEST) * GROWTH;
        let near = expected / 5;
        assert!(
            (expected - near..expected + near).contains(&passed),
            "{passed:?}"
        );
    }

    #[test]
    fn a_clock_that_is_watched_moves_on_every_millisecond() {
        let mut backoff = PollBackoff::default();
        assert_eq!(settled(&mut backoff, 1, true), Some(LONGEST_WATCHED));
        assert_eq!(settled(&mut backoff, 0, true), Some(LONGEST_WATCHED_QUIET));
        assert_eq!(backoff.after(1, true), Some(LONGEST_WATCHED));
    }
}
