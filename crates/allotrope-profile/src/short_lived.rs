//! Finds the blocks that live and die within one run of a stream's events.
//!
//! Most blocks of most programs do. Of an image with a single stream, whose
//! events have one order, they can be found where the run is decoded, by any
//! thread and before anything is known of what came earlier: in a table of the
//! run's own places, which fits a core's cache however many blocks are live. The
//! replay then finds such a block by a small number, and the [live
//! blocks](crate::live) need not know of it.
//!
//! What a run alone can not tell is whether a place was free before its first
//! event there. A block for which that matters is not [told](Subject::is_told).

use allotrope_trace::model::{Event, EventKind};

use crate::live::hash_of;
use crate::place::place_of;
use crate::subject::Subject;

/// In [`Seen::latest`]: whether the place was free before is not known.
const UNPROVEN: u32 = 1 << 31;

/// A place at which the run has events.
#[derive(Clone, Copy, Default)]
struct Seen {
    place: u64,
    /// Number of the place, from 1 on, in order of the first event there; 0 in
    /// an empty slot.
    number: u32,
    /// Position of the allocation whose block is live there, plus one, and
    /// [`UNPROVEN`] if so; or one of the two below.
    latest: u32,
}

/// Whether the place is free is not known.
const UNKNOWN: u32 = 0;
/// The place was given back.
const FREE: u32 = u32::MAX;
const FEWEST_SLOTS: usize = 1 << 10;

/// The places of one run: open addressing with linear probing, at most half of
/// the slots taken.
#[derive(Default)]
pub(crate) struct Places {
    slots: Vec<Seen>,
    taken: u32,
}

impl Places {
    /// Sets the subject of each event of a run that speaks of a short-lived block,
    /// and gives the number of these blocks.
    pub(crate) fn find_short_lived(&mut self, events: &[Event], into: &mut [Subject]) -> usize {
        if events.len() > Subject::MOST_SHORT_LIVED {
            return 0;
        }
        let mut found = 0;
        self.forget_all();
        for (at, event) in (1..).zip(events) {
            match event.kind {
                EventKind::Allocation => {
                    let seen = self.seen(place_of(event));
                    seen.latest = match seen.latest {
                        FREE => at,
                        UNKNOWN => at | UNPROVEN,
                        // What is live there was not given back.
                        _ => UNKNOWN,
                    };
                }
                EventKind::Deallocation => {
                    let seen = self.seen(place_of(event));
                    let allocation = std::mem::replace(&mut seen.latest, FREE);
                    if allocation != FREE && allocation != UNKNOWN {
                        let number = seen.number - 1;
                        let allocated = (allocation & !UNPROVEN) as usize - 1;
                        found += 1;
                        let unproven = allocation & UNPROVEN != 0;
                        into[allocated] = Subject::short_lived(number, unproven);
                        into[at as usize - 1] = Subject::short_lived(number, unproven);
                    }
                }
                // When and whether a reallocation gives a place back, and takes
                // one, only the cursor knows.
                EventKind::ReallocationStart | EventKind::ReallocationEnd => {
                    self.seen(place_of(event)).latest = UNKNOWN;
                }
                _ => {}
            }
        }
        found
    }

    fn forget_all(&mut self) {
        if self.taken > 0 {
            self.slots.fill(Seen::default());
            self.taken = 0;
        }
    }

    /// What was seen at the place, of which nothing is known if it is new.
    #[inline]
    fn seen(&mut self, place: u64) -> &mut Seen {
        if self.taken as usize >= self.slots.len() / 2 {
            self.grow();
        }
        let at = self.find(place);
        let seen = &mut self.slots[at];
        if seen.number == 0 {
            self.taken += 1;
            seen.place = place;
            seen.number = self.taken;
        }
        seen
    }

    /// The slot of the place, or the empty one in which it belongs.
    #[inline]
    fn find(&self, place: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (hash_of(place) >> 32) as usize & mask;
        loop {
            let seen = &self.slots[at];
            if seen.place == place || seen.number == 0 {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(FEWEST_SLOTS);
        let before = std::mem::replace(&mut self.slots, vec![Seen::default(); size]);
        for seen in before.into_iter().filter(|seen| seen.number != 0) {
            let at = self.find(seen.place);
            self.slots[at] = seen;
        }
    }
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

    #[test]
    fn a_place_is_proven_free_by_a_deallocation_only() {
        let first = [(Allocation, 16), (Deallocation, 16)];
        let second = [(Allocation, 16), (Allocation, 32), (Deallocation, 16)];
        let subjects = found(&[&first[..], &second[..]].concat());
        let (unproven, proven) = (
            Subject::short_lived(0, true),
            Subject::short_lived(0, false),
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
            let mut numbers = BTreeMap::new();
            for (place, events) in &by_place {
                for (at, &(kind, subject)) in events.iter().enumerate() {
                    let before = at.checked_sub(1).map(|at| events[at]);
                    let after = events.get(at + 1).copied();
                    let gives_back = after.is_some_and(|(kind, _)| kind == Deallocation);
                    let free = before.is_none_or(|(kind, _)| kind == Deallocation);
                    if kind == Allocation && gives_back && free {
                        prop_assert!(subject.is_short_lived());
                    }
                    if !subject.is_short_lived() {
                        prop_assert_eq!(subject, Subject::NONE);
                        continue;
                    }
                    let number = subject.number();
                    prop_assert_eq!(*numbers.entry(number).or_insert(*place), *place);
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
