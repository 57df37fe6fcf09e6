//! The key of a live block: its address and its address space in one number.
//!
//! An address alone does not identify a live block: a pool's first block may have the
//! address of the block that the pool got from `malloc`, and both are live. So the aggregation
//! uses keys throughout, and turns them into addresses only for output.

use allotrope_trace::model::{AddressSpace, EntryPoint, Event};

/// The address space is in the highest two bits. No address uses them: x86-64 gives a
/// program less than 2^56 bytes.
const SPACE_SHIFT: u32 = u64::BITS - 2;

/// The key of the block that an event is about.
#[inline]
pub(crate) const fn block_key(event: &Event) -> u64 {
    event.address ^ space(event.entry) << SPACE_SHIFT
}

/// The key of the block at an address of this space.
#[inline]
pub(crate) const fn key_in(address: u64, space: AddressSpace) -> u64 {
    address ^ (space as u64) << SPACE_SHIFT
}

/// The address of an event about the block with this key: [`block_key`] reversed.
#[inline]
pub(crate) const fn event_address(key: u64, entry: EntryPoint) -> u64 {
    key ^ space(entry) << SPACE_SHIFT
}

/// The number of an entry point's address space, computed without a table: the last entry
/// points have one address space each, in the same order.
#[inline]
const fn space(entry: EntryPoint) -> u64 {
    (entry as u64).saturating_sub(EntryPoint::Pool as u64 - AddressSpace::Pools as u64)
}

const _: () = {
    let mut at = 0;
    while at < EntryPoint::ALL.len() {
        let entry = EntryPoint::ALL[at];
        assert!(space(entry) == entry.address_space() as u64);
        at += 1;
    }
};

/// The address of a key.
#[inline]
pub(crate) const fn address_of(key: u64) -> u64 {
    key & (u64::MAX >> (u64::BITS - SPACE_SHIFT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotrope_trace::model::EventKind;

    #[test]
    fn one_address_has_a_key_in_each_of_three_address_spaces() {
        let at = |entry| {
            block_key(&Event {
                kind: EventKind::Deallocation,
                entry,
                alignment_log2: 0,
                stack: 0,
                address: 0x7fff_ffff_fff0,
                size: 0,
            })
        };
        let keys = EntryPoint::ALL.map(at);
        let mut distinct = keys.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 3);
        assert_eq!(at(EntryPoint::Malloc), 0x7fff_ffff_fff0);
        assert!(keys.iter().all(|&p| address_of(p) == 0x7fff_ffff_fff0));
    }
}
