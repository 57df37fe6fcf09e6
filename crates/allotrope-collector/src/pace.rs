//! How long the draining thread sleeps between two looks at the rings, by what
//! it finds. Who writes much wakes it with the bell, so that a sleep that is too
//! long makes nobody wait: what it delays is only what nobody rings for.

use std::time::Duration;

use allotrope_shm::layout::RING_WORDS;

/// With this much in the rings there is no sleep: a quarter of a ring, at which
/// its writer rings, may come to be while it lasts.
const BUSY_WORDS: u64 = RING_WORDS as u64 / 8;
/// With less than this a look was hardly worth it: 16 KiB, which stay in the
/// nearest caches until they are looked at.
const FEW_WORDS: u64 = 2048;
/// The shortest sleep. To look more often would take the rings' positions out of
/// the programs' caches with every look, and cost them more than recording does.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest sleep, after which a process's end or a thread's name is noticed
/// that nobody rings for.
const LONGEST: Duration = Duration::from_millis(8);
/// The longest sleep where threads look at the coarse clock, which moves on after
/// each: they know by it that time has passed.
const LONGEST_WATCHED: Duration = Duration::from_millis(1);
/// As long as nothing at all comes from such threads, either.
const LONGEST_WATCHED_QUIET: Duration = Duration::from_millis(4);
/// By which part a sleep is longer than the one before: a tenth of a second goes
/// by until it is the longest, so that the ends of short programs are noticed at
/// once.
const GROWTH: u32 = 16;

/// The pace of a recording.
#[derive(Debug)]
pub(crate) struct Pace {
    sleep: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { sleep: SHORTEST }
    }
}

impl Pace {
    /// How long to sleep after a look that found so many words; `None` for not at
    /// all. `watched`: threads look at the coarse clock.
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

    /// The sleep after so many looks that found the same.
    fn settled(pace: &mut Pace, found: u64, watched: bool) -> Option<Duration> {
        (0..100).map(|_| pace.after(found, watched)).last()?
    }

    #[test]
    fn little_to_do_makes_long_sleeps_and_much_to_do_none() {
        let mut pace = Pace::default();
        assert_eq!(settled(&mut pace, 0, false), Some(LONGEST));
        assert_eq!(settled(&mut pace, FEW_WORDS - 1, false), Some(LONGEST));
        assert_eq!(pace.after(FEW_WORDS, false), Some(LONGEST / 2));
        assert_eq!(settled(&mut pace, BUSY_WORDS - 1, false), Some(SHORTEST));
        assert_eq!(pace.after(BUSY_WORDS, false), None);
        assert!(pace.after(0, false).unwrap() < SHORTEST * 2);
    }

    #[test]
    fn a_tenth_of_a_second_passes_until_sleeps_are_long() {
        let mut pace = Pace::default();
        let mut passed = Duration::ZERO;
        while let Some(sleep) = pace.after(1, false)
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
        let mut pace = Pace::default();
        assert_eq!(settled(&mut pace, 1, true), Some(LONGEST_WATCHED));
        assert_eq!(settled(&mut pace, 0, true), Some(LONGEST_WATCHED_QUIET));
        assert_eq!(pace.after(1, true), Some(LONGEST_WATCHED));
    }
}
