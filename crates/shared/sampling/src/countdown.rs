//! The sampling state of a thread.
//!
//! The *countdown* is the number of bytes that the thread may allocate before something is
//! to be done. An allocation subtracts its size; if that is as much as is left, or more,
//! [`Sampler::expire`] tells whether the allocation is sampled, and the next countdown.
//!
//! ```text
//!            countdown          beyond
//! ├───────────────────────────┼────────┤hit
//! ├ block ┤├ block ┤├   block    ┤
//!                             └──┴─ overshoot: less than beyond, so not sampled
//! ```
//!
//! A countdown is never longer than [`STRETCH`]: at its end the thread looks at the settings
//! that are in force by then. So sampling is switched on and off, and its period changed, without
//! a check at each allocation. If the hit is further away, the rest of the distance is kept in
//! `beyond`. When the period changes, the rest is drawn anew. That is right because distances
//! are memoryless: each allocation's probability is that of the period with which the
//! distance at its beginning was drawn. That period is returned with each sample.

use crate::exponential::Generator;
use crate::{Period, counted_bytes};

/// Largest number of bytes that a thread allocates between two looks at the settings: 64 KiB. After
/// sampling is switched on, a thread samples none of its allocations before that look.
///
/// A look costs 8 ns, which is nothing beside 64 KiB of small blocks. A thread that allocates a
/// kilobyte a second sees the switch after a minute; with 1 MiB it took 17.
pub const STRETCH: u64 = 64 << 10;

/// Draws the hits of one thread.
///
/// All zero, it is off and not seeded.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Sampler {
    generator: Generator,
    /// Period with which the next hit was drawn; `None`: sampling is off.
    period: Option<Period>,
    /// Bytes from the end of the countdown to the next hit.
    beyond: u64,
}

/// A countdown has come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// The allocation is sampled, at this period.
    pub sampled_at: Option<Period>,
    /// The next countdown, in bytes; at least 1.
    pub countdown: u64,
}

impl Sampler {
    /// A sampler that is off. Every thread needs a differently seeded `generator`.
    pub const fn new(generator: Generator) -> Self {
        Self {
            generator,
            period: None,
            beyond: 0,
        }
    }

    /// The first countdown. `setting`: the period; `None`: sampling is off.
    pub fn start(&mut self, setting: Option<Period>) -> u64 {
        self.period = setting;
        self.beyond = match setting {
            Some(period) => self.generator.distance(period),
            None => STRETCH,
        };
        self.arm()
    }

    /// An allocation has used up the countdown, and `overshoot` bytes more. `setting` is
    /// in force from the next allocation on.
    pub fn expire(&mut self, overshoot: u64, setting: Option<Period>) -> Expired {
        let is_hit = self.beyond <= overshoot;
        let sampled_at = self.period.filter(|_| is_hit);
        let countdown = if is_hit || self.period != setting {
            self.start(setting)
        } else {
            self.beyond -= overshoot;
            self.arm()
        };
        Expired {
            sampled_at,
            countdown,
        }
    }

    /// Moves the next bytes of `beyond` into a countdown.
    fn arm(&mut self) -> u64 {
        let countdown = self.beyond.min(STRETCH);
        self.beyond -= countdown;
        countdown
    }
}

/// A sampler with its countdown, where the two are in one place. (In hooks the countdown is
/// in thread-local storage.)
#[derive(Debug, Clone)]
pub struct Countdown {
    left: u64,
    sampler: Sampler,
}

impl Countdown {
    /// Begins with a setting, see [`Sampler::start`].
    pub fn new(generator: Generator, setting: Option<Period>) -> Self {
        let mut sampler = Sampler::new(generator);
        Self {
            left: sampler.start(setting),
            sampler,
        }
    }

    /// The thread allocates a block of `size` bytes: the period at which it is
    /// sampled, if it is. `setting` is only called at the end of a countdown.
    #[inline(always)]
    pub fn allocate(
        &mut self,
        size: u64,
        setting: impl FnOnce() -> Option<Period>,
    ) -> Option<Period> {
        let bytes = counted_bytes(size);
        if bytes < self.left {
            self.left -= bytes;
            return None;
        }
        let expired = self.sampler.expire(bytes - self.left, setting());
        self.left = expired.countdown;
        expired.sampled_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(bytes: u64) -> Option<Period> {
        Period::new(bytes)
    }

    fn countdown(seed: u64, setting: Option<Period>) -> Countdown {
        Countdown::new(Generator::seeded(&[seed]), setting)
    }

    #[test]
    fn one_block_is_one_sample_however_large() {
        let setting = period(512 << 10);
        let mut countdown = countdown(1, setting);
        for size in [1 << 30, 1 << 40, u64::MAX, i64::MAX as u64] {
            assert_eq!(countdown.allocate(size, || setting), setting);
        }
    }

    #[test]
    fn while_off_nothing_is_sampled_and_the_setting_is_read_every_stretch() {
        let mut countdown = countdown(2, None);
        let mut reads = 0;
        const SIZE: u64 = 64;
        const BLOCKS: u64 = 40 * STRETCH / SIZE;
        for _ in 0..BLOCKS {
            let sampled_at = countdown.allocate(SIZE, || {
                reads += 1;
                None
            });
            assert_eq!(sampled_at, None);
        }
        assert_eq!(reads, 40);
    }

    #[test]
    fn a_setting_is_in_force_after_a_stretch_at_most() {
        for before in [None, period(1 << 40), period(1 << 19)] {
            for after in [None, period(1)] {
                let mut countdown = countdown(3, before);
                for _ in 0..STRETCH {
                    countdown.allocate(1, || after);
                }
                // A block of 64 periods is missed with probability e^-64.
                assert_eq!(countdown.allocate(64, || after), after);
            }
        }
    }

    /// Each sample comes with the period with which its hit was drawn, and the share of
    /// samples is that of this period, wherever in the sequence the change falls.
    #[test]
    fn a_change_of_period_changes_no_probability_of_the_past() {
        let (long, short) = (period(1 << 24), period(1 << 16));
        let mut samples = [0u64; 2];
        let mut blocks = [0u64; 2];
        let mut countdown = countdown(4, long);
        let mut current = long;
        const SIZE: u64 = 1 << 12;
        for step in 0..4_000_000u64 {
            let wanted = if step / 1_000 % 2 == 0 { long } else { short };
            // Counts a block for the setting that its thread has read.
            blocks[usize::from(current == short)] += 1;
            let mut read = current;
            let sampled_at = countdown.allocate(SIZE, || {
                read = wanted;
                wanted
            });
            if let Some(at) = sampled_at {
                assert_eq!(Some(at), current);
                samples[usize::from(current == short)] += 1;
            }
            current = read;
        }
        for (setting, (samples, blocks)) in
            [long, short].iter().zip(samples.into_iter().zip(blocks))
        {
            let p = -(-(SIZE as f64) / setting.unwrap().bytes() as f64).exp_m1();
            let expected = p * blocks as f64;
            let deviation = (expected * (1.0 - p)).sqrt();
            assert!(
                (samples as f64 - expected).abs() < 4.0 * deviation,
                "{samples} instead of {expected} of {blocks}"
            );
        }
    }

    #[test]
    fn blocks_without_bytes_count_as_one_byte() {
        let setting = period(100);
        let mut countdown = countdown(5, setting);
        let blocks = 1_000_000;
        let samples = (0..blocks).filter(|_| countdown.allocate(0, || setting).is_some());
        let (samples, p) = (samples.count() as f64, -(-0.01f64).exp_m1());
        let expected = f64::from(blocks) * p;
        assert!((samples - expected).abs() < 4.0 * (expected * (1.0 - p)).sqrt());
    }
}
