//! The key of a live block: its address together with its address space.
//!
//! A pool's first block may have the address of the block that the pool got from
//! `malloc`; both are live then. So everything that follows blocks from event to event
//! uses keys, and only what is shown to people is an address again.

use allotrope_trace::model::{AddressSpace, EntryPoint, Event};

/// The address space stands above what any program's address needs: x86-64
/// gives a program less than 2^56 bytes.
const SPACE_SHIFT: u32 = u64::BITS - 2;

/// The key of the block that an event is about.
#[inline]
pub(crate) const fn block_key(event: &Event) -> u64 {
    event.address ^ space(event.entry) << SPACE_SHIFT
}

/// The number of an entry point's address space: those of the last entry points
/// follow one another, so that three instructions find it.
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
pub(crate) const fn address_of(place: u64) -> u64 {
    place & (u64::MAX >> (u64::BITS - SPACE_SHIFT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotrope_trace::model::EventKind;

    #[test]
    fn one_address_is_three_places() {
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
        let places = EntryPoint::ALL.map(at);
        let mut distinct = places.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 3);
        assert_eq!(at(EntryPoint::Malloc), 0x7fff_ffff_fff0);
        assert!(places.iter().all(|&p| address_of(p) == 0x7fff_ffff_fff0));
    }
}
