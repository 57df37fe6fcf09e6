//! Finds for each event of a single stream the block of which it speaks.
//!
//! A stream's events have one order, so that this needs no times and no books,
//! and can be done where its runs are decoded: one run after the other, by
//! whichever thread has time, while another keeps the books of what came before.
//! The books then find a block by its number and know long before which numbers
//! they will need.
//!
//! What becomes of reallocations the cursor decides, which may look into the
//! next run for that. Here a place is given back as early as the rest of the
//! run shows that it will be; which event counts for it does not matter here.

use std::collections::VecDeque;

use allotrope_trace::model::{Event, EventKind};
use rustc_hash::FxHashSet;

use crate::cursor::{LOOK_AHEAD, OPEN_LIMIT};
use crate::error::ReplayError;
use crate::live::{AHEAD, BlockNumber, CellNumber, LivePlaces, NO_BLOCK};
use crate::place::place_of;
use crate::read_ahead::Decoded;
use crate::subject::Subject;

/// An allocation on a block that was believed live: the new block's number and
/// that of the old one.
pub(crate) type Replaced = (BlockNumber, BlockNumber);

/// A reallocation that began and is not answered yet, whose block is still at its
/// place as far as is known.
#[derive(Clone, Copy)]
struct Open {
    place: u64,
    block: BlockNumber,
    /// Another event than the answer ended the block.
    has_ended: bool,
}

/// What is live where the stream's runs were resolved so far.
pub(crate) struct Resolver {
    live: LivePlaces,
    /// The reallocations that are not answered yet; `None` of those whose block
    /// was taken from its place, or not known, at their beginning.
    open: Vec<Option<Open>>,
    /// Of the run: blocks that were taken for short-lived, but at whose place
    /// another was live.
    not_short_lived: FxHashSet<usize>,
}

impl Resolver {
    /// Before the first run of an image's stream, which inherited `live`.
    pub(crate) fn new(live: LivePlaces) -> Self {
        Self {
            live,
            open: Vec::new(),
            not_short_lived: FxHashSet::default(),
        }
    }

    /// Sets the subjects of those events of the next run that the run alone does
    /// not tell, and gives what was replaced by those allocations that have none.
    pub(crate) fn resolve(&mut self, run: &mut Decoded) -> Result<(), ReplayError> {
        self.not_short_lived.clear();
        let Decoded {
            events,
            subjects,
            replaced,
            untold,
            ..
        } = run;
        let (events, subjects) = (events.as_slice(), subjects.as_mut_slice());
        let mut untold = untold.as_slice();
        let mut cells = self.approach(events, untold);
        while !untold.is_empty() {
            let (next, after) = untold.split_at(untold.len().min(AHEAD));
            let coming = self.approach(events, after);
            for (&at, &cell) in next.iter().zip(&cells) {
                let (event, coming) = (&events[at as usize], &events[at as usize + 1..]);
                let subject = &mut subjects[at as usize];
                *subject = match self.resolve_plain(event.kind, cell, *subject) {
                    Some(subject) => subject,
                    None => self.resolve_any(event, coming, *subject, replaced)?,
                };
            }
            (untold, cells) = (after, coming);
        }
        Ok(())
    }

    /// The cells of the first of the events at these positions, which are brought near.
    #[inline]
    fn approach(&self, events: &[Event], untold: &[u32]) -> [CellNumber; AHEAD] {
        let mut cells = [CellNumber::NONE; AHEAD];
        for (cell, &at) in cells.iter_mut().zip(untold) {
            *cell = self.live.approach(place_of(&events[at as usize]));
        }
        cells
    }

    /// The subject of an event of this kind at this cell, of which so much is known
    /// before; `None` if it is not as simple as nearly always.
    #[inline]
    fn resolve_plain(
        &mut self,
        kind: EventKind,
        cell: CellNumber,
        subject: Subject,
    ) -> Option<Subject> {
        if !self.open.is_empty() {
            return None;
        }
        match (kind, subject) {
            (EventKind::Allocation, Subject::NONE) => {
                let block = self.live.add(cell)?;
                (block < Subject::MOST).then(|| Subject::block(block))
            }
            (EventKind::Deallocation, Subject::NONE) => {
                let block = self.live.end(cell)?;
                self.live.recycle(block);
                Some(Subject::block(block))
            }
            (EventKind::Allocation, _) => self.live.is_free(cell).then(|| subject.proven()),
            (EventKind::Deallocation, _) => {
                (self.not_short_lived.is_empty()).then(|| subject.proven())
            }
            _ => None,
        }
    }

    /// The subject of an event, of which so much is known before, and which these
    /// follow.
    #[inline(never)]
    fn resolve_any(
        &mut self,
        event: &Event,
        coming: &[Event],
        subject: Subject,
        replaced: &mut VecDeque<Replaced>,
    ) -> Result<Subject, ReplayError> {
        let place = place_of(event);
        Ok(match event.kind {
            EventKind::Allocation if self.is_short_lived(place, subject) => subject.proven(),
            EventKind::Allocation => self.hand_out(place, replaced)?,
            EventKind::Deallocation if self.is_short_lived_still(subject) => subject.proven(),
            EventKind::Deallocation => self.give_back(place),
            EventKind::ReallocationStart => self.begin_reallocation(place, coming),
            EventKind::ReallocationEnd => {
                self.end_reallocation();
                self.hand_out(place, replaced)?
            }
            EventKind::ReallocationFreed => {
                self.end_reallocation();
                Subject::NONE
            }
            _ => {
                let failed = self.open.pop().flatten();
                self.close(failed);
                Subject::NONE
            }
        })
    }

    /// Whether the block of an allocation is short-lived, which can be the case
    /// only if nothing is live at its place.
    #[inline]
    fn is_short_lived(&mut self, place: u64, subject: Subject) -> bool {
        if !subject.is_short_lived() {
            return false;
        }
        let live = self.live.at(place).is_some();
        if live {
            self.not_short_lived.extend(subject.number());
        }
        !live
    }

    /// Whether the block of a deallocation was found short-lived by
    /// [`Self::is_short_lived`].
    #[inline]
    fn is_short_lived_still(&mut self, subject: Subject) -> bool {
        let number = subject.number().filter(|_| subject.is_short_lived());
        let none = self.not_short_lived.is_empty();
        number.is_some_and(|number| none || !self.not_short_lived.remove(&number))
    }

    #[inline]
    fn hand_out(
        &mut self,
        place: u64,
        replaced: &mut VecDeque<Replaced>,
    ) -> Result<Subject, ReplayError> {
        let blocks = self.live.hand_out(place);
        if blocks.block >= Subject::MOST {
            return Err(ReplayError::TooManyLiveBlocks);
        }
        if blocks.replaced == NO_BLOCK {
            return Ok(Subject::block(blocks.block));
        }
        self.recycle(blocks.replaced);
        replaced.push_back((blocks.block, blocks.replaced));
        Ok(Subject::NONE)
    }

    #[inline]
    fn give_back(&mut self, place: u64) -> Subject {
        let Some(block) = self.live.take(place) else {
            return Subject::NONE;
        };
        self.recycle(block);
        Subject::block(block)
    }

    /// The number may be another block's, but not before an open reallocation has
    /// been answered that was told it.
    #[inline]
    fn recycle(&mut self, block: BlockNumber) {
        let mut open = self.open.iter_mut().flatten();
        match open.find(|open| open.block == block) {
            Some(open) => open.has_ended = true,
            None => self.live.recycle(block),
        }
    }

    /// A reallocation begins, and these events follow it.
    #[inline]
    fn begin_reallocation(&mut self, place: u64, coming: &[Event]) -> Subject {
        if self.open.len() >= OPEN_LIMIT {
            let forgotten = self.open.remove(0);
            self.close(forgotten);
        }
        if is_answered(coming) {
            let subject = self.give_back(place);
            self.open.push(None);
            return subject;
        }
        let block = self.live.at(place);
        self.open.push(block.map(|block| Open {
            place,
            block,
            has_ended: false,
        }));
        block.map_or(Subject::NONE, Subject::block)
    }

    /// The innermost open reallocation is answered, and gave back its block.
    #[inline]
    fn end_reallocation(&mut self) {
        let open = self.open.pop().flatten();
        if let Some(open) = open
            && self.live.at(open.place) == Some(open.block)
        {
            self.live.take(open.place);
            self.recycle(open.block);
        }
        self.close(open);
    }

    /// Nobody speaks any more of an open reallocation's block, unless it is live.
    #[inline]
    fn close(&mut self, open: Option<Open>) {
        if let Some(open) = open.filter(|open| open.has_ended) {
            self.recycle(open.block);
        }
    }
}

/// Whether these events tell that the reallocation before them gives back its
/// block. Calls nest: a signal handler may reallocate while a reallocation is
/// open.
#[inline]
fn is_answered(coming: &[Event]) -> bool {
    let mut depth = 0_usize;
    for event in coming.iter().take(LOOK_AHEAD) {
        match event.kind {
            EventKind::ReallocationStart => depth += 1,
            EventKind::ReallocationEnd | EventKind::ReallocationFreed if depth == 0 => return true,
            EventKind::ReallocationFailed if depth == 0 => return false,
            EventKind::ReallocationEnd
            | EventKind::ReallocationFreed
            | EventKind::ReallocationFailed => depth -= 1,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_events::event;
    use EventKind::{
        Allocation, Deallocation, ReallocationEnd, ReallocationFailed, ReallocationFreed,
        ReallocationStart,
    };
    use proptest::prelude::*;

    fn run(deeds: &[(EventKind, u64)]) -> Decoded {
        Decoded {
            events: deeds.iter().map(|&(kind, at)| event(kind, at)).collect(),
            subjects: vec![Subject::NONE; deeds.len()],
            untold: (0..deeds.len() as u32).collect(),
            ..Decoded::default()
        }
    }

    /// After two blocks, 0 and 1, at 16 and 32 were inherited.
    fn resolver() -> Resolver {
        Resolver::new(LivePlaces::new([16, 32].into_iter()))
    }

    fn numbers(resolver: &mut Resolver, deeds: &[(EventKind, u64)]) -> Vec<Option<usize>> {
        let mut run = run(deeds);
        resolver.resolve(&mut run).expect("few blocks");
        run.subjects
            .iter()
            .map(|subject| subject.number())
            .collect()
    }

    #[test]
    fn a_number_is_used_again_when_its_block_is_gone() {
        let deeds = [
            (Deallocation, 16),
            (Allocation, 48),
            (Allocation, 64),
            (Deallocation, 48),
            (Deallocation, 80),
        ];
        let found = numbers(&mut resolver(), &deeds);
        assert_eq!(found, [Some(0), Some(0), Some(2), Some(0), None]);
    }

    #[test]
    fn an_allocation_on_a_live_block_tells_both() {
        let mut run = run(&[(Allocation, 32)]);
        resolver().resolve(&mut run).expect("few blocks");
        assert_eq!(run.subjects, [Subject::NONE]);
        assert_eq!(run.replaced, [(2, 1)]);
    }

    #[test]
    fn a_reallocation_that_fails_or_is_never_answered_keeps_its_block() {
        for answer in [&[(ReallocationFailed, 0)][..], &[]] {
            let mut resolver = resolver();
            let start = [(ReallocationStart, 16)];
            let found = numbers(&mut resolver, &[&start[..], answer].concat());
            assert_eq!(found[0], Some(0));
            let later = numbers(&mut resolver, &[(Allocation, 48), (Deallocation, 16)]);
            assert_eq!(later, [Some(2), Some(0)]);
        }
    }

    #[test]
    fn a_reallocation_is_answered_in_the_next_run() {
        for (answer, number) in [(ReallocationEnd, Some(0)), (ReallocationFreed, None)] {
            let mut resolver = resolver();
            assert_eq!(
                numbers(&mut resolver, &[(ReallocationStart, 16)]),
                [Some(0)]
            );
            let later = [(answer, 48), (Deallocation, 16), (Deallocation, 32)];
            let found = numbers(&mut resolver, &later);
            assert_eq!(found, [number, None, Some(1)]);
        }
    }

    #[test]
    fn calls_nest() {
        let deeds = [
            (ReallocationStart, 16),
            (ReallocationStart, 32),
            (ReallocationFailed, 0),
            (ReallocationEnd, 48),
            (Deallocation, 32),
            (Deallocation, 48),
        ];
        let found = numbers(&mut resolver(), &deeds);
        let expected = [Some(0), Some(1), None, Some(0), Some(1), Some(0)];
        assert_eq!(found, expected);
    }

    /// The answer may yet be held against the number that its beginning was told.
    #[test]
    fn the_number_of_a_block_in_an_open_reallocation_is_not_used_again() {
        let mut resolver = resolver();
        let deeds = [
            (ReallocationStart, 16),
            (Deallocation, 16),
            (Allocation, 16),
        ];
        assert_eq!(numbers(&mut resolver, &deeds), [Some(0), Some(0), Some(2)]);
        let answered = [(ReallocationEnd, 48), (Allocation, 64), (Deallocation, 16)];
        assert_eq!(
            numbers(&mut resolver, &answered),
            [Some(0), Some(3), Some(2)]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// What is asked for ahead is nothing that an event before it changes.
        #[test]
        fn in_which_runs_the_events_come_makes_no_difference(
            deeds in prop::collection::vec((any::<bool>(), 0..200_u64), 0..400),
            distance in prop::sample::select(vec![16_u64, 1 << 12, 1 << 20]),
        ) {
            let deed = |&(allocates, at): &(bool, u64)| {
                (if allocates { Allocation } else { Deallocation }, at * distance)
            };
            let deeds: Vec<_> = deeds.iter().map(deed).collect();
            let together = numbers(&mut resolver(), &deeds);
            let mut resolver = resolver();
            let alone = deeds.iter().flat_map(|&deed| numbers(&mut resolver, &[deed]));
            prop_assert_eq!(together, alone.collect::<Vec<_>>());
        }
    }
}
