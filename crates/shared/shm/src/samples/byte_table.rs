//! A counting Bloom filter with one hash function (Fan, Cao, Almeida and Broder, "Summary
//! Cache", IEEE/ACM Transactions on Networking 8(3), 2000): one byte for each hash of an
//! address, which counts the sampled live blocks with this hash.
//!
//! `free` loads one byte. If it is 0 the block was not sampled; if not, `free` looks into the
//! table of samples. The table is private to the process: nobody else can make it wrong.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Bits of a hash. 256 KiB stay in a second-level cache; with 10,000 samples, one call of
/// `free` in 26 looks further.
pub const BITS: u32 = 18;
/// 2^64 divided by the golden ratio: a multiplier that mixes all bits (Knuth, *The Art of Computer
/// Programming*, volume 3, section 6.4).
pub const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Factor by which addresses are multiplied; the upper bits of the product are the hash. It is so
/// small that the hashes of neighbours are neighbours, too: 16 bytes further is 1.24 bytes of the
/// table further. So the calls of `free` touch one cache line of the table for 830 bytes of blocks,
/// not one for each block. It is so large that blocks of a megabyte, whose low bits are all the
/// same, are spread over the table.
pub const SPREAD: u64 = MULTIPLIER >> 21;

/// The table; all zero, it is empty.
#[repr(C, align(64))]
pub struct ByteTable([AtomicU8; 1 << BITS]);

impl Default for ByteTable {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of an address's byte.
#[inline(always)]
pub const fn index(address: u64) -> usize {
    (address.wrapping_mul(SPREAD) >> (u64::BITS - BITS)) as usize
}

impl ByteTable {
    /// An empty table.
    pub const fn new() -> Self {
        Self([const { AtomicU8::new(0) }; 1 << BITS])
    }

    /// Whether a block at this address may have been sampled. `false` is certain.
    #[inline(always)]
    pub fn may_contain(&self, address: u64) -> bool {
        self.0[index(address)].load(Relaxed) != 0
    }

    /// Adds a block. A byte that has reached 255 stays so: then its count is not known.
    pub fn add(&self, address: u64) {
        let byte = &self.0[index(address)];
        let _ = byte.fetch_update(Relaxed, Relaxed, |count| count.checked_add(1));
    }

    /// Removes a block that was added.
    pub fn remove(&self, address: u64) {
        let byte = &self.0[index(address)];
        let _ = byte.fetch_update(Relaxed, Relaxed, |count| match count {
            0 | u8::MAX => None,
            _ => Some(count - 1),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_was_added_may_be_there_until_it_is_removed() {
        let table = Box::new(ByteTable::new());
        let addresses = (1..10_000u64).map(|it| it * 4096 + 16);
        for address in addresses.clone() {
            table.add(address);
        }
        assert!(addresses.clone().all(|it| table.may_contain(it)));
        for address in addresses {
            table.remove(address);
        }
        assert!(table.0.iter().all(|it| it.load(Relaxed) == 0));
    }

    #[test]
    fn large_blocks_have_different_bytes() {
        let table = Box::new(ByteTable::new());
        for block in 0..10_000u64 {
            table.add(0x7f00_0000_0010 + block * (1 << 20));
        }
        let hits = (10_000..110_000u64)
            .filter(|block| table.may_contain(0x7f00_0000_0010 + block * (1 << 20)))
            .count();
        // 10,000 of 262,144 bytes are in use: 3.8 %.
        assert!(hits < 5_000, "{hits}");
    }

    #[test]
    fn neighbours_have_bytes_of_their_own_in_few_cache_lines() {
        // The smallest chunks of glibc's.
        let numbers: BTreeSet<_> = (0..10_000u64)
            .map(|block| index(0x5555_5555_0010 + block * 32))
            .collect();
        assert_eq!(numbers.len(), 10_000);
        // 320,000 bytes of blocks at 830 bytes a line are 386 lines; one may be cut twice.
        let lines: BTreeSet<_> = numbers.iter().map(|number| number / 64).collect();
        assert!(lines.len() <= 390, "{}", lines.len());
    }

    #[test]
    fn a_count_that_is_too_large_is_never_too_small() {
        let table = Box::new(ByteTable::new());
        for _ in 0..300 {
            table.add(64);
        }
        for _ in 0..299 {
            table.remove(64);
        }
        assert!(table.may_contain(64));
    }
}
