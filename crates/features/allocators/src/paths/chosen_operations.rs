//! Which operations of a recording are stepped: one of each `n` in a row, chosen by a fixed
//! sequence of pseudo-random numbers. Every `n`-th would be the same call of a loop in the
//! program whose rounds have `n` operations.

use std::io;

use crate::replay::{Call, Operations};

/// The sampled operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenOperations {
    /// One of so many is stepped.
    pub every: u64,
    /// Numbers of the operations, ascending.
    pub(crate) numbers: Vec<u64>,
    /// What they call, and the bytes of the block.
    pub(crate) calls: Vec<(Call, u64)>,
}

impl ChosenOperations {
    /// Chooses at most about `wanted` of the operations.
    ///
    /// # Errors
    /// If the operations cannot be read.
    pub fn new(operations: &Operations, wanted: u64) -> io::Result<Self> {
        let every = interval(operations.len(), wanted);
        let mut samples = Self {
            every,
            numbers: Vec::new(),
            calls: Vec::new(),
        };
        // The size of the block in each slot: deallocations do not state it.
        let mut sizes = vec![0_u64; operations.slots() as usize];
        for (number, record) in (0..).zip(operations.records(0..operations.len())) {
            let record = record?;
            let Some(call) = Call::from_number(record.call) else {
                continue;
            };
            let Some(slot) = sizes.get_mut(record.slot as usize) else {
                continue;
            };
            let size = match call {
                Call::Free => std::mem::take(slot),
                _ => record.size,
            };
            if call != Call::Free {
                *slot = size;
            }
            if number % every == mix(number / every) % every {
                samples.numbers.push(number);
                samples.calls.push((call, size));
            }
        }
        Ok(samples)
    }

    /// Returns the number of the operations.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

/// Operations for each sample, if there are at most `wanted` samples of `total`.
fn interval(total: u64, wanted: u64) -> u64 {
    total.div_ceil(wanted.max(1)).max(1)
}

/// The value that splitmix64 has after so many steps (Steele, Lea and Flood, OOPSLA 2014).
fn mix(steps: u64) -> u64 {
    let mut value = (steps.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_as_many_samples_as_wanted() {
        assert_eq!(interval(10, 100), 1);
        assert_eq!(interval(100, 100), 1);
        assert_eq!(interval(101, 100), 2);
        assert_eq!(interval(12_000_000, 6_000), 2_000);
        assert_eq!(interval(0, 0), 1);
    }

    /// The first value of splitmix64 with the seed 0, as published.
    #[test]
    fn the_sequence_is_splitmix64() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
    }
}
