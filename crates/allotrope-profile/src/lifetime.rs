//! How long a site's blocks lived.

/// Number of classes in [`Lifetimes::histogram`].
pub const LIFETIME_CLASSES: usize = 32;

/// Lifetimes of all blocks of a site; those alive at the end of the image lived
/// until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifetimes {
    /// Number of blocks.
    pub blocks: u64,
    /// Sum, in nanoseconds.
    pub total_ns: u128,
    /// Shortest, in nanoseconds; `u64::MAX` without blocks.
    pub min_ns: u64,
    /// Longest, in nanoseconds.
    pub max_ns: u64,
    /// Blocks by lifetime: class 0 is below 1 µs, class n from 2^(n-1) µs to
    /// below 2^n µs, the last one everything longer. Stays at `u32::MAX`.
    pub histogram: [u32; LIFETIME_CLASSES],
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            blocks: 0,
            total_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            histogram: [0; LIFETIME_CLASSES],
        }
    }
}

impl Lifetimes {
    /// Adds one block.
    #[inline]
    pub(crate) fn add(&mut self, ns: u64) {
        self.blocks += 1;
        self.total_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        let class = class_of(ns);
        self.histogram[class] = self.histogram[class].saturating_add(1);
    }

    /// Adds the blocks of another site.
    pub fn merge(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.total_ns += other.total_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (into, from) in self.histogram.iter_mut().zip(other.histogram) {
            *into = into.saturating_add(from);
        }
    }

    /// Mean in microseconds; 0 without blocks.
    pub fn mean_us(&self) -> f64 {
        if self.blocks == 0 {
            return 0.0;
        }
        self.total_ns as f64 / self.blocks as f64 / 1000.0
    }
}

/// Class of a lifetime in the histogram.
fn class_of(ns: u64) -> usize {
    let bits = u64::BITS - (ns / 1000).leading_zeros();
    (bits as usize).min(LIFETIME_CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_double_from_a_microsecond() {
        assert_eq!(class_of(999), 0);
        assert_eq!(class_of(1_000), 1);
        assert_eq!(class_of(1_999), 1);
        assert_eq!(class_of(2_000), 2);
        assert_eq!(class_of(1_024_000), 11);
        assert_eq!(class_of(u64::MAX), LIFETIME_CLASSES - 1);
    }

    #[test]
    fn mean_min_max_and_sum_come_from_the_same_blocks() {
        let mut lifetimes = Lifetimes::default();
        lifetimes.add(1_000);
        lifetimes.add(4_000);
        assert_eq!(lifetimes.mean_us(), 2.5);
        assert_eq!((lifetimes.min_ns, lifetimes.max_ns), (1_000, 4_000));
        let mut twice = lifetimes.clone();
        twice.merge(&lifetimes);
        assert_eq!(twice.blocks, 4);
        assert_eq!(twice.mean_us(), 2.5);
    }
}
