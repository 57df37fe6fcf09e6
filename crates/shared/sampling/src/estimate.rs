//! Estimates of all allocations from the sampled ones, with 95 % intervals.
//!
//! A block of *s* bytes that was sampled with period *P* stands for
//! *w* = 1/*p* blocks, *p* = 1 − e^(−max(*s*, 1)/*P*): the estimator of Horvitz and Thompson
//! ("A generalization of sampling without replacement from a finite universe", JASA 47,
//! 1952). It is unbiased whatever the sizes, and also if *P* changes, because every sample has
//! its own *p*.
//!
//! # The variance
//! Blocks are included independently of one another (that is *Poisson sampling* in the
//! language of surveys). So the sum *y* = Σ *w*·*x* over the samples (*x* = 1 for blocks, *x* =
//! *s* for bytes) has the variance Σ *x*²·(1 − *p*)/*p* over all blocks, of which
//! *v* = Σ *w*·(*w* − 1)·*x*² over the samples is an unbiased estimate (Särndal, Swensson and
//! Wretman, *Model Assisted Survey Sampling*, 1992, section 3.5). Blocks that are far larger
//! than the period add nothing to it: they are all sampled.
//!
//! # The interval
//! With few samples *y* ± 1.96·√*v* is wrong: the distribution is skewed, and without a sample
//! the interval would be empty. Instead the interval is that of Fay and Feuer for weighted sums of
//! counts ("Confidence intervals for directly standardized rates: a method based on the
//! gamma distribution", Statistics in Medicine 16, 1997), with *v* from above. *G*(*q*; *m*, *v*)
//! is the quantile *q* of the gamma distribution with mean *m* and variance *v*:
//!
//! - lower end: *G*(0.025; *y*, *v*), and at least what was sampled itself, Σ *x*;
//! - upper end: *G*(0.975; *y* + *c*, *v* + *c*²).
//!
//! *c* is what one further sample could add at most beyond itself, (*w* − 1)·*x*. For bytes
//! that is *P*: *s*/(e^(*s*/*P*) − 1) has its maximum at the smallest sizes.
//!
//! For blocks it grows without limit for smaller sizes, and small blocks may well exist without
//! any of them being sampled: a thousand blocks of 16 bytes with the usual period are
//! sampled once in 33 times. Therefore [`Figures::blocks`] takes the smallest size that blocks
//! can have. For the blocks of many sites that is [`MIN`], and the interval is wide
//! upwards, because their number is not known better. For the blocks of one site,
//! [`Figures::smallest_sample`] is the usual choice; the interval then is one of the blocks that
//! are not smaller than that. A smaller block that was sampled overrides the choice.
//!
//! Where all weights are equal and *p* is small this is Garwood's exact interval for a count
//! ("Fiducial limits for the Poisson distribution", Biometrika 28, 1936). Without a sample the
//! interval of bytes is from 0 to *P*·ln 40 = 3.69 *P*. That is exact for any sizes: the
//! probability that none of *B* bytes is a hit is e^(−*B*/*P*), which is 2.5 % there.

/// The smallest size, in bytes, of the blocks of the C library's allocator and most others.
/// Programs request less, but if they did so often, some of these requests would be sampled.
pub const MIN: u64 = 16;

use crate::gamma::{Tail, quantile};
use crate::{Period, counted_bytes};

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The unbiased estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// A figure without error.
    pub fn exact(value: f64) -> Self {
        Self {
            value,
            low: value,
            high: value,
        }
    }

    /// The upper end; `None`: it is not known.
    pub fn known_high(&self) -> Option<f64> {
        self.high.is_finite().then_some(self.high)
    }

    /// The value as a whole number, and the ends of the interval rounded outwards: so it does not
    /// become narrower.
    pub fn rounded(&self) -> Self {
        Self {
            value: self.value.round(),
            low: self.low.floor(),
            high: self.high.ceil(),
        }
    }

    /// The difference *d* = *a* − *b* of two independent estimates, of which this one is *a*. Its
    /// interval follows from theirs by the method of variance estimates recovery (Zou and Donner,
    /// "Construction of confidence limits about effect measures: a general approach", Statistics in
    /// Medicine 27, 2008):
    ///
    /// - lower end: *d* − √((*a* − *a*low)² + (*b*high − *b*)²);
    /// - upper end: *d* + √((*a*high − *a*)² + (*b* − *b*low)²).
    pub fn minus(&self, other: &Self) -> Self {
        let value = self.value - other.value;
        Self {
            value,
            low: value - (self.value - self.low).hypot(other.high - other.value),
            high: value + (self.high - self.value).hypot(other.value - other.low),
        }
    }
}

/// The probability with which an allocation of `size` bytes is sampled.
pub fn probability(size: u64, period: Period) -> f64 {
    probability_of_mean(counted_bytes(size) as f64, period)
}

fn probability_of_mean(size: f64, period: Period) -> f64 {
    let hits = size.max(1.0) / period.bytes() as f64;
    -(-hits).exp_m1()
}

/// One figure of a set of samples.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    /// Σ x.
    sampled: f64,
    /// Σ w·x.
    value: f64,
    /// Σ w·(w − 1)·x².
    variance: f64,
}

impl Sum {
    /// Adds `count` samples with this amount each.
    fn add(&mut self, count: f64, amount: f64, probability: f64) {
        let weight = 1.0 / probability;
        self.sampled += count * amount;
        self.value += count * weight * amount;
        self.variance += count * weight * (weight - 1.0) * amount * amount;
    }

    fn merge(&mut self, other: &Self) {
        self.sampled += other.sampled;
        self.value += other.value;
        self.variance += other.variance;
    }

    /// See the module for `further`, *c*.
    fn estimate(&self, further: f64) -> Estimate {
        let low = gamma(self.value, self.variance, Tail::Lower);
        let high = gamma(
            self.value + further,
            self.variance + further * further,
            Tail::Upper,
        );
        Estimate {
            value: self.value,
            // What was sampled may exceed the estimate by rounding.
            low: low.max(self.sampled).min(self.value),
            high: high.max(self.value),
        }
    }
}

/// A quantile of the gamma distribution with this mean and variance.
fn gamma(mean: f64, variance: f64, tail: Tail) -> f64 {
    if mean <= 0.0 || variance <= 0.0 {
        return mean;
    }
    quantile(mean * mean / variance, tail) * variance / mean
}

/// What a set of samples says about all blocks among which they were sampled: those of a
/// site, of a process, or of several.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    samples: u64,
    blocks: Sum,
    bytes: Sum,
    longest_period: Period,
    /// The smallest size of a sample.
    smallest: Option<u64>,
    /// Blocks are among them that could not be sampled.
    is_open: bool,
}

impl Figures {
    /// Returns figures without samples yet, where sampling was on with this period.
    pub fn new(period: Period) -> Self {
        Self {
            samples: 0,
            blocks: Sum::default(),
            bytes: Sum::default(),
            longest_period: period,
            smallest: None,
            is_open: false,
        }
    }

    /// Some of the blocks may have been allocated while sampling was off. Nothing is known of these,
    /// so the intervals have no upper end: it is infinite.
    pub fn open_upwards(&mut self) {
        self.is_open = true;
    }

    /// The same without the blocks that could not be sampled.
    pub fn of_known_blocks(mut self) -> Self {
        self.is_open = false;
        self
    }

    /// Whether the intervals have no upper end.
    pub fn is_open_upwards(&self) -> bool {
        self.is_open
    }

    /// Adds a block of `size` bytes that was sampled with this period.
    pub fn add(&mut self, size: u64, period: Period) {
        self.add_weighted(1, size as f64, probability(size, period), size, period);
    }

    /// Adds `count` blocks of similar sizes that were sampled with this period, by the mean of
    /// their sizes in bytes.
    pub fn add_alike(&mut self, count: u64, mean_size: f64, period: Period) {
        let probability = probability_of_mean(mean_size, period);
        self.add_weighted(count, mean_size, probability, mean_size as u64, period);
    }

    /// Adds `count` blocks of together `bytes` bytes, each of one of these sizes. The two sums may
    /// belong to different moments: the mean stays within the sizes.
    pub fn add_sum(&mut self, count: u64, bytes: u64, sizes: (u64, u64), period: Period) {
        if count > 0 {
            let mean = bytes as f64 / count as f64;
            self.add_alike(count, mean.clamp(sizes.0 as f64, sizes.1 as f64), period);
        }
    }

    fn add_weighted(
        &mut self,
        count: u64,
        size: f64,
        probability: f64,
        smallest: u64,
        period: Period,
    ) {
        self.samples = self.samples.saturating_add(count);
        self.blocks.add(count as f64, 1.0, probability);
        self.bytes.add(count as f64, size, probability);
        self.longest_period = self.longest_period.max(period);
        self.smallest = Some(self.smallest.map_or(smallest, |it| it.min(smallest)));
    }

    /// Adds the samples of another set. The two have no block in common.
    pub fn merge(&mut self, other: &Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.blocks.merge(&other.blocks);
        self.bytes.merge(&other.bytes);
        self.longest_period = self.longest_period.max(other.longest_period);
        self.smallest = self.smallest.into_iter().chain(other.smallest).min();
        self.is_open |= other.is_open;
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The smallest size of a sample, in bytes; [`MIN`] without a sample.
    pub fn smallest_sample(&self) -> u64 {
        self.smallest_of_samples().unwrap_or(MIN)
    }

    /// The smallest size of a sample, in bytes, if there is a sample.
    pub fn smallest_of_samples(&self) -> Option<u64> {
        self.smallest
    }

    /// Number of blocks. The upper end holds if no block, sampled or not, is smaller than
    /// `smallest` bytes, or than the smallest sample.
    pub fn blocks(&self, smallest: u64) -> Estimate {
        let smallest = smallest.min(self.smallest.unwrap_or(u64::MAX));
        let further = 1.0 / probability(smallest, self.longest_period) - 1.0;
        self.opened(self.blocks.estimate(further))
    }

    /// Requested bytes of the blocks.
    pub fn bytes(&self) -> Estimate {
        let further = self.longest_period.bytes() as f64;
        self.opened(self.bytes.estimate(further))
    }

    /// The bytes that would have been sampled with a probability of 95 %: without a sample, fewer
    /// are there. `None`: there are samples, or blocks that could not be sampled.
    pub fn bytes_below(&self) -> Option<f64> {
        let is_known = self.samples == 0 && !self.is_open;
        // The probability that none of B bytes is a hit is e^(-B/P).
        is_known.then(|| self.longest_period.bytes() as f64 * 20f64.ln())
    }

    /// The longest period at which blocks may have been missed.
    pub fn longest_period(&self) -> Period {
        self.longest_period
    }

    fn opened(&self, mut estimate: Estimate) -> Estimate {
        if self.is_open {
            estimate.high = f64::INFINITY;
        }
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Period = Period::DEFAULT;

    #[track_caller]
    fn assert_near(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() <= 1e-3 * expected.abs(),
            "{found} instead of {expected}"
        );
    }

    #[test]
    fn a_difference_is_as_uncertain_as_its_parts() {
        let estimate = |value, low, high| Estimate { value, low, high };
        let found = estimate(10.0, 7.0, 14.0).minus(&estimate(5.0, 2.0, 9.0));
        // 3-4-5 triangles: 10 - 7 and 9 - 5; 14 - 10 and 5 - 2.
        assert_eq!(found, estimate(5.0, 0.0, 10.0));
        let exact = Estimate::exact(10.0).minus(&Estimate::exact(4.0));
        assert_eq!(exact, estimate(6.0, 6.0, 6.0));
    }

    #[test]
    fn a_rounded_interval_does_not_become_narrower() {
        let estimate = |value, low, high| Estimate { value, low, high };
        let rounded = estimate(2.6, 1.9, 5.2).rounded();
        assert_eq!(rounded, estimate(3.0, 1.0, 6.0));
    }

    #[test]
    fn without_a_sample_bytes_are_bounded_by_the_probability_of_seeing_none() {
        let bytes = Figures::new(PERIOD).bytes();
        assert_eq!((bytes.value, bytes.low), (0.0, 0.0));
        assert_near(bytes.high, PERIOD.bytes() as f64 * 40f64.ln());
        let blocks = Figures::new(PERIOD).blocks(MIN);
        assert_eq!((blocks.value, blocks.low), (0.0, 0.0));
        // All of them may be as small as blocks are.
        assert_near(blocks.high, PERIOD.bytes() as f64 * 40f64.ln() / 16.0);
    }

    /// Garwood's limits for 1, 10 and 30 events: Ulm, "A simple method to calculate the
    /// confidence interval of a standardized mortality ratio", American Journal of
    /// Epidemiology 131, 1990, table 1.
    #[test]
    fn equal_small_blocks_have_the_exact_interval_of_a_count() {
        for (samples, low, high) in [
            (1, 0.0253, 5.5716),
            (10, 4.7954, 18.3904),
            (30, 20.2409, 42.8269),
        ] {
            let mut figures = Figures::new(PERIOD);
            for _ in 0..samples {
                figures.add(16, PERIOD);
            }
            let weight = PERIOD.bytes() as f64 / 16.0;
            let blocks = figures.blocks(MIN);
            assert_near(blocks.value, f64::from(samples) * weight);
            assert_near(blocks.low, low * weight);
            assert_near(blocks.high, high * weight);
            let bytes = figures.bytes();
            assert_near(bytes.low, low * weight * 16.0);
            assert_near(bytes.high, high * weight * 16.0);
        }
    }

    #[test]
    fn blocks_far_larger_than_the_period_are_known_exactly() {
        let mut figures = Figures::new(PERIOD);
        for _ in 0..7 {
            figures.add(1 << 30, PERIOD);
        }
        assert_eq!(
            figures.blocks(figures.smallest_sample()),
            Estimate {
                value: 7.0,
                low: 7.0,
                high: 7.0
            }
        );
        let bytes = figures.bytes();
        assert_eq!(
            (bytes.value, bytes.low),
            ((7u64 << 30) as f64, (7u64 << 30) as f64)
        );
        // There may be small blocks of which none was sampled.
        let unseen = bytes.high - bytes.value;
        let most = 4.0 * PERIOD.bytes() as f64;
        assert!(unseen > 0.0 && unseen < most, "{unseen}");
    }

    #[test]
    fn blocks_that_cannot_be_small_have_a_narrow_interval() {
        let mut figures = Figures::new(PERIOD);
        for _ in 0..10 {
            figures.add(4096, PERIOD);
        }
        let weight = PERIOD.bytes() as f64 / 4096.0;
        // Garwood's limit is 18.39; this probability is not quite small.
        let high = figures.blocks(figures.smallest_sample()).high / weight;
        assert!((18.3..18.5).contains(&high), "{high}");
        // Ten large blocks tell nothing about small ones.
        assert!(figures.blocks(MIN).high > PERIOD.bytes() as f64 / 16.0);
        figures.add(2048, PERIOD);
        assert_eq!(figures.blocks(4096), figures.blocks(2048));
    }

    #[test]
    fn sets_add_up() {
        let short = Period::new(1000).unwrap();
        let (mut left, mut right) = (Figures::new(PERIOD), Figures::new(short));
        let mut both = Figures::new(PERIOD);
        for size in [0, 1, 16, 4000, 100_000, 10_000_000] {
            left.add(size, PERIOD);
            right.add(size / 2, short);
            both.add(size, PERIOD);
            both.add(size / 2, short);
        }
        left.merge(&right);
        assert_eq!(left.samples(), both.samples());
        for (found, expected) in [
            (left.blocks(MIN), both.blocks(MIN)),
            (left.bytes(), both.bytes()),
        ] {
            assert_near(found.value, expected.value);
            assert_near(found.low, expected.low);
            assert_near(found.high, expected.high);
        }
    }

    #[test]
    fn samples_may_be_added_one_by_one_or_together() {
        for size in [0, 1, 64, 4096, 1 << 19, 1 << 24] {
            let (mut one_by_one, mut together) = (Figures::new(PERIOD), Figures::new(PERIOD));
            for _ in 0..50 {
                one_by_one.add(size, PERIOD);
            }
            together.add_alike(50, size as f64, PERIOD);
            assert_eq!(together.samples(), 50);
            assert_eq!(together.smallest_sample(), size);
            for (found, expected) in [
                (together.blocks(MIN), one_by_one.blocks(MIN)),
                (together.bytes(), one_by_one.bytes()),
            ] {
                assert_near(found.value, expected.value);
                assert_near(found.low, expected.low);
                assert_near(found.high, expected.high);
            }
        }
    }

    /// What the mean of an eighth of a power of two leaves out.
    #[test]
    fn the_mean_of_similar_sizes_is_nearly_as_good_as_the_sizes() {
        for first in [16u64 << 10, 448 << 10, 1 << 20] {
            let (mut exact, mut by_mean) = (Figures::new(PERIOD), Figures::new(PERIOD));
            let step = first / 8 / 64;
            let sizes = (0..64).map(|at| first + at * step);
            let mean = sizes.clone().sum::<u64>() as f64 / 64.0;
            sizes.for_each(|size| exact.add(size, PERIOD));
            by_mean.add_alike(64, mean, PERIOD);
            let bytes = by_mean.bytes().value / exact.bytes().value;
            assert!((bytes - 1.0).abs() < 2e-4, "{bytes}");
            let blocks = by_mean.blocks(MIN).value / exact.blocks(MIN).value;
            assert!((0.9987..=1.0).contains(&blocks), "{blocks}");
        }
    }

    #[test]
    fn intervals_enclose_the_value_and_what_was_sampled() {
        for size in [0, 1, 64, 1 << 16, 1 << 19, 1 << 22] {
            let mut figures = Figures::new(PERIOD);
            for samples in 1..200u64 {
                figures.add(size, PERIOD);
                for (estimate, sampled) in [
                    (figures.blocks(figures.smallest_sample()), samples),
                    (figures.bytes(), samples * size),
                ] {
                    assert!(estimate.low <= estimate.value && estimate.value <= estimate.high);
                    assert!(estimate.low >= sampled as f64);
                }
            }
        }
    }
}
