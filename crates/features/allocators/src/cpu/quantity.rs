//! What is counted while the clock samples: names, periods and the kernel's events.

use perf_event::Builder;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Software};

/// An event that is counted by sampling it beside the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// The clock: nanoseconds, or cycles.
    Clock,
    /// Retired instructions.
    Instructions,
    /// Cycles, if they are not the clock.
    Cycles,
    /// Accesses to the last level cache.
    CacheReferences,
    /// Misses of the last level cache.
    CacheMisses,
    /// Loads from the first level's data cache.
    L1Loads,
    /// Loads that it did not have.
    L1LoadMisses,
    /// Branches.
    Branches,
    /// Mispredicted branches.
    BranchMisses,
    /// Page faults.
    PageFaults,
}

impl Quantity {
    /// All quantities beside the clock.
    pub const COUNTERS: [Self; 9] = [
        Self::Instructions,
        Self::Cycles,
        Self::CacheReferences,
        Self::CacheMisses,
        Self::L1Loads,
        Self::L1LoadMisses,
        Self::Branches,
        Self::BranchMisses,
        Self::PageFaults,
    ];
    /// How many quantities there are.
    pub const COUNT: usize = 10;

    /// Returns what a quantity of misses is a part of.
    pub fn missed_of(self) -> Option<Self> {
        match self {
            Self::CacheMisses => Some(Self::CacheReferences),
            Self::L1LoadMisses => Some(Self::L1Loads),
            Self::BranchMisses => Some(Self::Branches),
            _ => None,
        }
    }

    /// Returns the quantity's name in reports, which is that of perf(1).
    pub fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Instructions => "instructions",
            Self::Cycles => "cycles",
            Self::CacheReferences => "cache-references",
            Self::CacheMisses => "cache-misses",
            Self::L1Loads => "L1-dcache-loads",
            Self::L1LoadMisses => "L1-dcache-load-misses",
            Self::Branches => "branches",
            Self::BranchMisses => "branch-misses",
            Self::PageFaults => "page-faults",
        }
    }

    /// One of so many is sampled. The periods are fixed, so that samples are spread like what is
    /// counted; prime, so that they do not follow a loop.
    pub(crate) fn period(self) -> u64 {
        match self {
            Self::Clock | Self::Instructions | Self::Cycles | Self::L1Loads | Self::Branches => {
                1_000_003
            }
            Self::CacheReferences | Self::L1LoadMisses => 100_003,
            Self::CacheMisses | Self::BranchMisses => 10_007,
            // A program can have a million a second; each sample has 8 KiB.
            Self::PageFaults => 251,
        }
    }

    /// The event that counts it.
    pub(super) fn builder(self) -> Builder<'static> {
        let l1_loads = |result| Cache {
            which: CacheId::L1D,
            operation: CacheOp::READ,
            result,
        };
        match self {
            Self::Clock => Builder::new(Software::CPU_CLOCK),
            Self::Instructions => Builder::new(Hardware::INSTRUCTIONS),
            Self::Cycles => Builder::new(Hardware::CPU_CYCLES),
            Self::CacheReferences => Builder::new(Hardware::CACHE_REFERENCES),
            Self::CacheMisses => Builder::new(Hardware::CACHE_MISSES),
            Self::L1Loads => Builder::new(l1_loads(CacheResult::ACCESS)),
            Self::L1LoadMisses => Builder::new(l1_loads(CacheResult::MISS)),
            Self::Branches => Builder::new(Hardware::BRANCH_INSTRUCTIONS),
            Self::BranchMisses => Builder::new(Hardware::BRANCH_MISSES),
            Self::PageFaults => Builder::new(Software::PAGE_FAULTS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_belong_to_what_can_miss() {
        let pairs = Quantity::COUNTERS
            .iter()
            .filter_map(|it| Some((it.name(), it.missed_of()?.name())));
        assert_eq!(
            pairs.collect::<Vec<_>>(),
            [
                ("cache-misses", "cache-references"),
                ("L1-dcache-load-misses", "L1-dcache-loads"),
                ("branch-misses", "branches"),
            ]
        );
        for (at, quantity) in Quantity::COUNTERS.into_iter().enumerate() {
            assert_eq!(quantity as usize, at + 1);
        }
        assert_eq!(Quantity::COUNTERS.len() + 1, Quantity::COUNT);
    }
}
