//! Steps whose order was chosen and may still be undone, the newest last.
//!
//! Two streams may want the same address at about the same time. Which came
//! first shows only later, when the wrong choice leaves one of them stuck; then
//! the choice is taken back. What no stream can reach back to any more is
//! settled and goes to the books.
//!
//! Nearly all steps agree with what is live and are never undone. They are kept in
//! [strands] until something goes wrong; then the strands are [taken
//! apart](Tentative::take_apart), for steps are looked for, undone and forced one
//! by one.

mod strands;

use std::collections::VecDeque;

use allotrope_trace::model::EventKind;

use crate::block_key::block_key;
use crate::cursor::{Pace, Plain, Step, Stretch, is_plain};
use crate::live::{Blocks, LiveBlocks};
use crate::merge::Sink;
use strands::Strands;
pub(crate) use strands::{Link, Strand};

/// Slots of the table of latest steps.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 14;
/// How many steps before a step is settled what is known of its block is asked for.
const AHEAD: usize = 8;

/// A step in its tentative place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    pub step: Step,
    /// The blocks of which it speaks.
    pub blocks: Blocks,
    /// What the step's time was before its place decided it.
    pub estimate: u64,
    pub stream: usize,
}

/// The tentative order, and what is live at its end.
pub(crate) struct Tentative {
    placed: VecDeque<Placed>,
    /// Those that came after all in `placed`.
    strands: Strands,
    /// Number of steps that were settled.
    settled: u64,
    live: LiveBlocks,
    /// Number + 1 of a late step by its address's slot.
    latest: Box<[u64]>,
    /// Time of the last step.
    now: u64,
    settled_at: u64,
}

impl Tentative {
    pub(crate) fn new(live: LiveBlocks) -> Self {
        Self {
            placed: VecDeque::new(),
            strands: Strands::new(),
            settled: 0,
            live,
            latest: vec![0; SLOTS].into_boxed_slice(),
            now: 0,
            settled_at: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.placed.len() + self.strands.len()
    }

    /// Whether the step agrees with what is live.
    #[inline]
    pub(crate) fn allows(&self, step: &Step) -> bool {
        self.live.contains(step.address) != step.allocates
    }

    /// Stream of each tentative step and the time before which it happened, of
    /// those that lie side by side once, in their order.
    pub(crate) fn uppers(&self) -> impl Iterator<Item = (usize, u64)> {
        let placed = self.placed.iter();
        let placed = placed.map(|placed| (placed.stream, placed.step.upper));
        let strands = self.strands.iter();
        placed.chain(strands.map(|strand| (strand.stream, strand.first.upper)))
    }

    /// Gives the step to the sink at once, for good, if it agrees with what is
    /// live; nothing may be tentative.
    #[inline]
    pub(crate) fn pass<K: Sink>(&mut self, step: &mut Step, sink: &mut K) -> bool {
        if !self.allows(step) {
            return false;
        }
        let blocks = self.live.apply(step);
        self.now = self.now.max(step.time);
        step.time = self.now;
        self.settled_at = self.now;
        sink.step(step, blocks, &mut self.live);
        self.live.release(step.allocates, blocks);
        true
    }

    /// Gives the sink what it takes of the stretch, for good; nothing may be
    /// tentative. Gives the number of these events.
    #[inline]
    pub(crate) fn pass_stretch<K: Sink>(&mut self, stretch: &Stretch<'_>, sink: &mut K) -> usize {
        let taken = sink.stretch(stretch, &mut self.live);
        if let Some(last) = taken.checked_sub(1) {
            self.now = self.now.max(stretch.time(last));
            self.settled_at = self.now;
        }
        taken
    }

    /// Places the step at the end, not later than `latest` where its own
    /// stream leaves that open.
    #[inline]
    pub(crate) fn place(&mut self, stream: usize, mut step: Step, latest: u64) {
        let estimate = step.time;
        self.now = self.now.max(estimate.min(latest));
        step.time = self.now;
        let blocks = self.live.apply(&step);
        self.push(Placed {
            stream,
            step,
            estimate,
            blocks,
        });
    }

    /// As [`Self::place`] of a step that agrees with what is live, for a strand;
    /// otherwise nothing happens.
    #[inline]
    pub(crate) fn place_legal(&mut self, stream: usize, step: &Step) -> bool {
        if !self.allows(step) {
            return false;
        }
        let blocks = self.live.apply(step);
        self.strands.room()[0] = Link::of(step, blocks.block);
        let pace = Pace::of_one(step.time);
        self.strands.push(Strand::new(stream, *step, pace, 1));
        self.now = self.now.max(step.time);
        true
    }

    /// Places as many of the first `most` events as agree with what is live, for
    /// which there is room side by side, and gives their number.
    #[inline]
    pub(crate) fn place_plain(&mut self, stream: usize, plain: &Plain<'_>, most: usize) -> usize {
        let mut taken = 0_usize;
        let room = self.strands.room();
        for (event, link) in plain.events.iter().take(most).zip(room) {
            if !is_plain(event) {
                break;
            }
            let place = block_key(event);
            let allocates = event.kind == EventKind::Allocation;
            let applied = if allocates {
                self.live.add(place)
            } else {
                self.live.end(place)
            };
            let Some(block) = applied else {
                break;
            };
            *link = Link::new(event, place, block);
            taken += 1;
        }
        if let Some(last) = taken.checked_sub(1) {
            self.now = self.now.max(plain.pace.time(last));
            let strand = Strand::new(stream, plain.first, plain.pace, taken);
            self.strands.push(strand);
        }
        taken
    }

    /// Makes single steps of all strands.
    pub(crate) fn take_apart(&mut self) {
        let mut now = self.placed.back().map_or(self.settled_at, |p| p.step.time);
        while let Some((strand, links)) = self.strands.oldest(usize::MAX) {
            let (stream, count) = (strand.stream, links.len());
            for (place, link) in links.iter().enumerate() {
                let step = strand.step(place, link);
                let estimate = step.time;
                now = now.max(estimate);
                self.placed.push_back(Placed {
                    stream,
                    step: Step { time: now, ..step },
                    estimate,
                    blocks: link.blocks(),
                });
                self.latest[slot(step.address)] = self.settled + self.placed.len() as u64;
            }
            self.strands.pass(count);
        }
    }

    #[inline(always)]
    fn push(&mut self, placed: Placed) {
        self.placed.push_back(placed);
        self.latest[slot(placed.step.address)] = self.settled + self.placed.len() as u64;
    }

    /// Takes the last step back.
    pub(crate) fn undo(&mut self) -> Option<Placed> {
        let last = self.placed.pop_back()?;
        self.live.undo(&last.step, last.blocks);
        self.now = self.placed.back().map_or(self.settled_at, |p| p.step.time);
        Some(last)
    }

    /// Gives the oldest steps to the sink, for good, as long as `settled` says so of
    /// the time before which one happened, but so many at most. Gives their number.
    pub(crate) fn settle<K: Sink>(
        &mut self,
        most: usize,
        settled: impl Fn(u64) -> bool,
        sink: &mut K,
    ) -> usize {
        let mut count = 0;
        while count < most
            && let Some(oldest) = self.placed.front()
            && settled(oldest.step.upper)
        {
            self.settle_one(sink);
            count += 1;
        }
        while count < most
            && self.placed.is_empty()
            && let Some(oldest) = self.strands.front()
            && settled(oldest.first.upper)
        {
            count += self.settle_strand(most - count, sink);
        }
        count
    }

    fn settle_one<K: Sink>(&mut self, sink: &mut K) {
        let Some(placed) = self.placed.front() else {
            return;
        };
        if let Some(coming) = self.placed.get(AHEAD) {
            self.live.prefetch_block(coming.blocks.block);
        }
        sink.step(&placed.step, placed.blocks, &mut self.live);
        self.live.release(placed.step.allocates, placed.blocks);
        self.settled += 1;
        self.settled_at = placed.step.time;
        self.placed.pop_front();
    }

    /// Gives the oldest strand to the sink, at most so many steps of it.
    #[inline]
    fn settle_strand<K: Sink>(&mut self, most: usize, sink: &mut K) -> usize {
        let Some((strand, links)) = self.strands.oldest(most) else {
            return 0;
        };
        if !sink.strand(strand, links, &mut self.live) {
            let mut now = self.settled_at;
            for (place, link) in links.iter().enumerate() {
                let mut step = strand.step(place, link);
                now = now.max(step.time);
                step.time = now;
                sink.step(&step, link.blocks(), &mut self.live);
                self.live.release(link.allocates, link.blocks());
            }
        }
        let count = links.len();
        let last = strand.pace.time(count.saturating_sub(1));
        self.settled_at = self.settled_at.max(last);
        self.settled += count as u64;
        self.strands.pass(count);
        count
    }

    /// What is live at the end of the tentative order.
    pub(crate) fn live(&self) -> &LiveBlocks {
        &self.live
    }

    /// As [`Self::live`], when nothing is tentative any more.
    pub(crate) fn into_live(self) -> LiveBlocks {
        self.live
    }

    /// A late step at this address, unless it is forgotten: quick, not sure.
    pub(crate) fn recent(&self, address: u64) -> Option<&Placed> {
        let index = self.latest[slot(address)].checked_sub(self.settled + 1)?;
        let placed = self.placed.get(usize::try_from(index).ok()?)?;
        (placed.step.address == address).then_some(placed)
    }

    /// Whether no step at this address is tentative, for sure.
    pub(crate) fn is_untouched(&self, address: u64) -> bool {
        self.latest[slot(address)] <= self.settled
    }

    /// Index of the last step at this address among the last `most` steps, and
    /// how many were looked at.
    pub(crate) fn last_at(&self, address: u64, most: usize) -> (Option<usize>, usize) {
        if self.is_untouched(address) {
            return (None, 1);
        }
        if self.recent(address).is_some() {
            let number = self.latest[slot(address)] - self.settled;
            return (usize::try_from(number - 1).ok(), 1);
        }
        let mut newest_first = self.placed.iter().rev().take(most);
        let back = newest_first.position(|p| p.step.address == address);
        let index = back.map(|back| self.placed.len() - 1 - back);
        (
            index,
            back.map_or(most.min(self.placed.len()), |back| back + 1),
        )
    }

    /// Whether this holds for every tentative step at the address.
    pub(crate) fn all_at(&self, address: u64, holds: impl Fn(&Step) -> bool) -> bool {
        // The newest are the likeliest not to.
        let mut newest_first = self.placed.iter().rev();
        newest_first.all(|placed| placed.step.address != address || holds(&placed.step))
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Placed> {
        self.placed.get(index)
    }
}

#[inline]
fn slot(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS)) as usize
}
