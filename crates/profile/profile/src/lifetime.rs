//! Statistics of how long the blocks of a site lived.

/// Lifetimes of all blocks of a site, in nanoseconds. The lifetime of a block that is
/// live at the end of the image ends there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Number of blocks.
    pub blocks: u64,
    /// Sum, in nanoseconds.
    total_ns: Sum,
    /// Shortest, in nanoseconds; `u64::MAX` if there are no blocks.
    pub min_ns: u64,
    /// Longest, in nanoseconds.
    pub max_ns: u64,
}

/// A number of 128 bits with the alignment of one of 64: a site has one, and 8 bytes of
/// padding would put it on a third cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, packed(8))]
struct Sum(u128);

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            blocks: 0,
            total_ns: Sum(0),
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

impl Lifetimes {
    /// So many blocks of which only the sum of the lifetimes is known, in microseconds.
    pub(crate) fn of_sum(blocks: u64, total_us: u64) -> Self {
        Self {
            blocks,
            total_ns: Sum(u128::from(total_us) * 1000),
            ..Self::default()
        }
    }

    /// Adds a block that lived this long.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.blocks += 1;
        self.extend(ns);
    }

    /// Adds a lifetime without counting its block; the caller counts it.
    #[inline]
    pub(crate) fn extend(&mut self, ns: u64) {
        self.total_ns.0 += u128::from(ns);
        // Most lifetimes are neither: the branches are predicted and nothing is written.
        if ns < self.min_ns {
            self.min_ns = ns;
        }
        if ns > self.max_ns {
            self.max_ns = ns;
        }
    }

    /// Adds the blocks of another site.
    pub fn merge(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.total_ns.0 += other.total_ns.0;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Sum, in nanoseconds.
    #[inline]
    pub fn total_ns(&self) -> u128 {
        self.total_ns.0
    }

    /// Mean in microseconds; 0 if there are no blocks.
    pub fn mean_us(&self) -> f64 {
        if self.blocks == 0 {
            return 0.0;
        }
        self.total_ns() as f64 / self.blocks as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_lifetimes_are_those_of_all_blocks() {
        let of = |ns: u64| {
            let mut one = Lifetimes::default();
            one.add(ns);
            one
        };
        let mut lifetimes = Lifetimes::default();
        assert_eq!(lifetimes.mean_us(), 0.0);
        lifetimes.merge(&of(4_000));
        lifetimes.merge(&of(1_000));
        assert_eq!(lifetimes.mean_us(), 2.5);
        assert_eq!((lifetimes.min_ns, lifetimes.max_ns), (1_000, 4_000));
        assert_eq!(lifetimes.blocks, 2);
    }

    #[test]
    fn lifetimes_are_summed_beyond_64_bits() {
        let long = [u64::MAX, 5, u64::MAX - 7];
        let sum: u128 = long.into_iter().map(u128::from).sum();
        let mut lifetimes = Lifetimes::default();
        long.into_iter().for_each(|ns| lifetimes.add(ns));
        assert_eq!(lifetimes.total_ns(), sum);
        assert_eq!((lifetimes.min_ns, lifetimes.max_ns), (5, u64::MAX));
        let mut twice = lifetimes;
        twice.merge(&lifetimes);
        assert_eq!((twice.total_ns(), twice.blocks), (2 * sum, 6));
    }
}
