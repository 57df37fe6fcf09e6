//! Steps whose order was chosen and may still be undone, the newest last.
//!
//! Two streams may want the same address at about the same time. Which came
//! first shows only later, when the wrong choice leaves one of them stuck; then
//! the choice is taken back. What no stream can reach back to any more is
//! settled and goes to the books.

mod ring;

use crate::cursor::{Step, Stretch};
use crate::live::{Blocks, LiveBlocks};
use crate::merge::Sink;
use ring::Ring;

/// Slots of the table of latest steps.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 14;
/// How many steps before a step is settled what is known of its block is asked for.
const AHEAD: usize = 8;

/// A step in its tentative place.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
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
    placed: Ring,
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
            placed: Ring::new(),
            settled: 0,
            live,
            latest: vec![0; SLOTS].into_boxed_slice(),
            now: 0,
            settled_at: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.placed.len()
    }

    /// Whether the step agrees with what is live.
    #[inline]
    pub(crate) fn allows(&self, step: &Step) -> bool {
        self.live.contains(step.address) != step.allocates
    }

    /// The tentative steps, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Placed> {
        self.placed.iter()
    }

    /// Gives the step to the sink at once, for good, if it agrees with what is
    /// live; nothing may be tentative.
    #[inline]
    pub(crate) fn pass<K: Sink>(&mut self, step: &mut Step, sink: &mut K) -> bool {
        let Some(blocks) = self.live.apply_legal(step) else {
            return false;
        };
        self.now = self.now.max(step.time);
        step.time = self.now;
        self.settled_at = self.now;
        sink.step(step, blocks, &mut self.live);
        self.live.forget(step.allocates, blocks);
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

    /// As [`Self::place`] of a step that agrees with what is live; otherwise
    /// nothing happens.
    #[inline]
    pub(crate) fn place_legal(&mut self, stream: usize, step: &Step) -> bool {
        let Some(blocks) = self.live.apply_legal(step) else {
            return false;
        };
        let estimate = step.time;
        self.now = self.now.max(estimate);
        let step = Step {
            time: self.now,
            ..*step
        };
        self.push(Placed {
            stream,
            step,
            estimate,
            blocks,
        });
        true
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

    /// Gives the oldest step to the sink, for good, if `settled` says so.
    #[inline]
    pub(crate) fn settle_if<K: Sink>(
        &mut self,
        settled: impl FnOnce(&Step) -> bool,
        sink: &mut K,
    ) -> bool {
        match self.placed.front() {
            Some(placed) if settled(&placed.step) => {
                if let Some(coming) = self.placed.get(AHEAD) {
                    self.live.ask_for(coming.blocks.block);
                }
                sink.step(&placed.step, placed.blocks, &mut self.live);
                self.live.forget(placed.step.allocates, placed.blocks);
                self.settled += 1;
                self.settled_at = placed.step.time;
                self.placed.pop_front();
                true
            }
            _ => false,
        }
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
