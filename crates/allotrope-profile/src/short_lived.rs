//! Finds the blocks that live and die within one run of a stream's events.
//!
//! Most blocks of most programs do. Of an image with a single stream, whose
//! events have one order, they can be found where the run is decoded, by any
//! thread and before anything is known of what came earlier: in a table of the
//! run's own places, which fits a core's cache however many blocks are live. The
//! replay then finds such a block by a small number, and the [live
//! blocks](crate::live) need not know of it.
//!
//! The table remembers what it has room for: a place pushes out another one of the
//! same slot. What is not found so is looked for among all live blocks, as are
//! blocks of pools and at addresses that no allocator of this kind of processor
//! hands out.
//!
//! What a run alone can not tell is whether a place was free before its first
//! event there. A block for which that matters is not [told](Subject::is_told).

use allotrope_trace::model::{Event, EventKind};

use crate::place::place_of;
use crate::subject::Subject;

/// A block is live at the place.
const LIVE: u64 = 1;
/// Of a live block: whether the place was free before is not known.
const UNPROVEN: u64 = 2;
/// The place was given back.
const FREE: u64 = 2;
/// Neither is known.
const UNKNOWN: u64 = 0;
const STATE_BITS: u32 = 2;
/// How many bits of a slot are the position of an event; the place has room for its
/// others if it is a multiple of 8 and no higher than any program's address.
const POSITION_BITS: u32 = 16;
const KNOWN_BITS: u32 = POSITION_BITS + STATE_BITS;
const LOW_ZEROS: u32 = 3;
const PLACE_BITS: u32 = u64::BITS - KNOWN_BITS + LOW_ZEROS;
const NO_ROOM: u64 = u64::MAX << PLACE_BITS | !(u64::MAX << LOW_ZEROS);

/// Blocks lie so many bytes apart at least, as a power of two, in most allocators.
const APART: u32 = 4;
const FEWEST_SLOTS: usize = 1 << 8;
/// 128 KiB.
const MOST_SLOTS: usize = 1 << 14;
const _: () = assert!(MOST_SLOTS <= Subject::MOST_SHORT_LIVED);

/// The places of one run, the last one of each slot.
#[derive(Default)]
pub(crate) struct Places {
    /// Of each the place in the upper bits, then the position of the last event
    /// there, then what became of the place.
    slots: Vec<u64>,
}

/// A slot and what is known of a place from it.
struct Seen<'a> {
    /// Also the number of a block that is live there: no other short-lived one has
    /// it as long.
    number: usize,
    /// Position and state.
    known: u64,
    /// What stands in the slot if neither is known.
    place: u64,
    slot: &'a mut u64,
}

impl Places {
    /// Sets the subject of each event of a run that speaks of a short-lived block,
    /// and gives the number of these blocks.
    pub(crate) fn find_short_lived(&mut self, events: &[Event], into: &mut [Subject]) -> usize {
        if events.len() > 1 << POSITION_BITS {
            return 0;
        }
        self.forget_all(events.len());
        let mut found = 0;
        for (at, event) in events.iter().enumerate() {
            let position = (at as u64) << STATE_BITS;
            match event.kind {
                EventKind::Allocation => {
                    let Some(seen) = self.seen(event) else {
                        continue;
                    };
                    // What is live there was not given back.
                    let is_lost = seen.known & LIVE != 0;
                    let begun = position | LIVE | (seen.known & FREE ^ UNPROVEN);
                    *seen.slot = seen.place | if is_lost { UNKNOWN } else { begun };
                }
                EventKind::Deallocation => {
                    let Some(seen) = self.seen(event) else {
                        continue;
                    };
                    *seen.slot = seen.place | position | FREE;
                    if seen.known & LIVE != 0 {
                        let unproven = seen.known & UNPROVEN != 0;
                        let subject = Subject::short_lived(seen.number as u32, unproven);
                        into[(seen.known >> STATE_BITS) as usize] = subject;
                        into[at] = subject;
                        found += 1;
                    }
                }
                // When and whether a reallocation gives a place back, and takes
                // one, only the cursor knows.
                EventKind::ReallocationStart | EventKind::ReallocationEnd => {
                    if let Some(seen) = self.seen(event) {
                        *seen.slot = seen.place | UNKNOWN;
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// So many events come.
    fn forget_all(&mut self, events: usize) {
        self.slots.clear();
        self.slots.resize(slots_for(events), 0);
    }

    /// What was seen at the place of an event; `None` if there is no room for such
    /// a place.
    #[inline(always)]
    fn seen(&mut self, event: &Event) -> Option<Seen<'_>> {
        let place = place_of(event);
        if place & NO_ROOM != 0 {
            return None;
        }
        let number = slot_of(place, self.slots.len());
        let place = place << (KNOWN_BITS - LOW_ZEROS);
        let slot = self.slots.get_mut(number)?;
        let known = *slot ^ place;
        Some(Seen {
            number,
            known: if known < 1 << KNOWN_BITS {
                known
            } else {
                UNKNOWN
            },
            place,
            slot,
        })
    }
}

/// The number of slots for so many events.
fn slots_for(events: usize) -> usize {
    events.next_power_of_two().clamp(FEWEST_SLOTS, MOST_SLOTS)
}

/// The slot of a place. Neighbours have theirs side by side, so that they share
/// cache lines; those of the next region begin elsewhere.
#[inline(always)]
fn slot_of(place: u64, slots: usize) -> usize {
    let region = place >> (APART + MOST_SLOTS.ilog2());
    (place >> APART ^ region) as usize & (slots - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_events::event;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn found(deeds: &[(EventKind, u64)]) -> Vec<Subject> {
        let events: Vec<Event> = deeds.iter().map(|&(kind, at)| event(kind, at)).collect();
        let mut subjects = vec![Subject::NONE; events.len()];
        let count = Places::default().find_short_lived(&events, &mut subjects);
        let found = subjects.iter().filter(|subject| subject.is_short_lived());
        assert_eq!(found.count(), 2 * count);
        subjects
    }

    use EventKind::{Allocation, Deallocation, ReallocationEnd, ReallocationStart};

    const SLOTS: usize = FEWEST_SLOTS;

    #[test]
    fn a_place_is_proven_free_by_a_deallocation_only() {
        let first = [(Allocation, 16), (Deallocation, 16)];
        let second = [(Allocation, 16), (Allocation, 32), (Deallocation, 16)];
        assert_ne!(slot_of(16, SLOTS), slot_of(32, SLOTS));
        let subjects = found(&[&first[..], &second[..]].concat());
        let number = slot_of(16, SLOTS) as u32;
        let (unproven, proven) = (
            Subject::short_lived(number, true),
            Subject::short_lived(number, false),
        );
        let expected = [unproven, unproven, proven, Subject::NONE, proven];
        assert_eq!(subjects, expected);
    }

    #[test]
    fn blocks_of_reallocations_and_of_lost_deallocations_are_left_alone() {
        let subjects = found(&[
            (Allocation, 16),
            (ReallocationStart, 16),
            (ReallocationEnd, 32),
            (Deallocation, 32),
            (Allocation, 48),
            (Allocation, 48),
            (Deallocation, 48),
        ]);
        assert_eq!(subjects, [Subject::NONE; 7]);
    }

    #[test]
    fn a_place_pushes_out_another_of_its_slot() {
        let other = (2..)
            .map(|n| n * 16)
            .find(|&place| slot_of(place, SLOTS) == slot_of(16, SLOTS));
        let other = other.expect("a place of the same slot");
        let subjects = found(&[
            (Allocation, 16),
            (Allocation, other),
            (Deallocation, other),
            (Deallocation, 16),
        ]);
        let other = Subject::short_lived(slot_of(other, SLOTS) as u32, true);
        assert_eq!(subjects, [Subject::NONE, other, other, Subject::NONE]);
    }

    #[test]
    fn what_was_live_after_a_run_is_not_known_in_the_next() {
        let mut places = Places::default();
        let mut find = |deeds: &[(EventKind, u64)]| {
            let events: Vec<Event> = deeds.iter().map(|&(kind, at)| event(kind, at)).collect();
            let mut subjects = vec![Subject::NONE; events.len()];
            places.find_short_lived(&events, &mut subjects);
            subjects
        };
        assert_eq!(find(&[(Allocation, 16)]), [Subject::NONE]);
        assert_eq!(find(&[(Deallocation, 16)]), [Subject::NONE]);
        let unproven = Subject::short_lived(slot_of(16, SLOTS) as u32, true);
        let pair = [(Allocation, 16), (Deallocation, 16)];
        assert_eq!(find(&pair), [unproven; 2]);
    }

    #[test]
    fn places_that_there_is_no_room_for_are_left_alone() {
        let most = 1 << PLACE_BITS;
        for (place, is_found) in [(most - 8, true), (most, false), (12, false)] {
            let subjects = found(&[(Allocation, place), (Deallocation, place)]);
            assert_eq!(subjects[0].is_short_lived(), is_found);
        }
    }

    proptest! {
        #[test]
        fn what_is_found_is_sound_and_nearly_all(
            deeds in prop::collection::vec((0..4_u8, 0..200_u64), 0..2_000),
        ) {
            let kinds = [Allocation, Deallocation, ReallocationStart, ReallocationEnd];
            let place = |at: u64| at.wrapping_mul(0x1_0000_1000);
            let deeds: Vec<_> = deeds.iter().map(|&(k, at)| (kinds[k as usize], place(at))).collect();
            let subjects = found(&deeds);
            let mut by_place = BTreeMap::<u64, Vec<(EventKind, Subject)>>::new();
            for (&(kind, place), &subject) in deeds.iter().zip(&subjects) {
                by_place.entry(place).or_default().push((kind, subject));
            }
            let slots = slots_for(deeds.len());
            let mut sharing = BTreeMap::new();
            for &place in by_place.keys() {
                *sharing.entry(slot_of(place, slots)).or_insert(0) += 1;
            }
            for (place, events) in &by_place {
                for (at, &(kind, subject)) in events.iter().enumerate() {
                    let before = at.checked_sub(1).map(|at| events[at]);
                    let after = events.get(at + 1).copied();
                    let gives_back = after.is_some_and(|(kind, _)| kind == Deallocation);
                    let free = before.is_none_or(|(kind, _)| kind == Deallocation);
                    let alone = sharing[&slot_of(*place, slots)] == 1;
                    if kind == Allocation && gives_back && free && alone {
                        prop_assert!(subject.is_short_lived());
                    }
                    if !subject.is_short_lived() {
                        prop_assert_eq!(subject, Subject::NONE);
                        continue;
                    }
                    prop_assert_eq!(subject.number(), Some(slot_of(*place, slots)));
                    // The next event of the pair, or the one before.
                    let other = if kind == Allocation { after } else { before };
                    let pair = if kind == Allocation { Deallocation } else { Allocation };
                    prop_assert_eq!(other, Some((pair, subject)));
                    if kind == Allocation && subject.is_told() {
                        prop_assert_eq!(before.map(|(kind, _)| kind), Some(Deallocation));
                    }
                }
            }
        }
    }
}
