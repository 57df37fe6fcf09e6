//! Which operations of a recording are stepped: every `n`-th, with `n` prime, so that they do
//! not fall into step with a loop of the program.

use std::io;

use allotrope_replay::{Call, Operations};

/// The sampled operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Samples {
    /// One of so many is stepped.
    pub every: u64,
    /// Their numbers, ascending.
    pub(crate) numbers: Vec<u64>,
    /// What they call, and the bytes of the block.
    pub(crate) calls: Vec<(Call, u64)>,
}

impl Samples {
    /// At most about `wanted` of the operations.
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
            if number % every == every / 2 {
                samples.numbers.push(number);
                samples.calls.push((call, size));
            }
        }
        Ok(samples)
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

/// The smallest prime that gives at most `wanted` samples of `total`; 1 if all are wanted.
fn interval(total: u64, wanted: u64) -> u64 {
    let least = total.div_ceil(wanted.max(1));
    if least <= 1 {
        return 1;
    }
    (least..).find(|it| is_prime(*it)).unwrap_or(least)
}

fn is_prime(number: u64) -> bool {
    number > 1
        && (2..)
            .take_while(|it| it * it <= number)
            .all(|it| !number.is_multiple_of(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_prime() {
        assert_eq!(interval(10, 100), 1);
        assert_eq!(interval(100, 100), 1);
        assert_eq!(interval(101, 100), 2);
        assert_eq!(interval(1_000, 250), 5);
        assert_eq!(interval(12_000_000, 6_000), 2003);
        assert_eq!(interval(0, 0), 1);
    }
}
