//! How long a site's blocks lived.

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
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            blocks: 0,
            total_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

impl Lifetimes {
    /// Adds the blocks of another site.
    pub fn merge(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.total_ns += other.total_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Mean in microseconds; 0 without blocks.
    pub fn mean_us(&self) -> f64 {
        if self.blocks == 0 {
            return 0.0;
        }
        self.total_ns as f64 / self.blocks as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_lifetimes_are_those_of_all_blocks() {
        let of = |ns: u64| Lifetimes {
            blocks: 1,
            total_ns: ns.into(),
            min_ns: ns,
            max_ns: ns,
        };
        let mut lifetimes = Lifetimes::default();
        assert_eq!(lifetimes.mean_us(), 0.0);
        lifetimes.merge(&of(4_000));
        lifetimes.merge(&of(1_000));
        assert_eq!(lifetimes.mean_us(), 2.5);
        assert_eq!((lifetimes.min_ns, lifetimes.max_ns), (1_000, 4_000));
        assert_eq!(lifetimes.blocks, 2);
    }
}
