//! The newest tentative steps, as they came: strands of one stream's events between
//! two marks, placed one after the other. What a strand's steps have in common is
//! kept once, so that a step takes little memory, of which there is much to go
//! through: tens of thousands of them may wait.

use std::collections::VecDeque;

use allotrope_trace::model::{EntryPoint, Event, EventKind, StackId};

use crate::cursor::{Pace, Step};
use crate::live::{BlockId, Blocks, NO_BLOCK};

/// Steps of one stream that follow each other in the order and lie between the same
/// two marks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strand {
    pub stream: usize,
    /// Its first step, without what is in the links.
    pub first: Step,
    pub pace: Pace,
    length: usize,
}

impl Strand {
    pub(super) fn new(stream: usize, first: Step, pace: Pace, length: usize) -> Self {
        Self {
            stream,
            first,
            pace,
            length,
        }
    }

    /// The step at this place, at its estimated time.
    #[inline]
    pub(crate) fn step(&self, place: usize, link: &Link) -> Step {
        Step {
            address: link.place,
            size: link.size,
            time: self.pace.time(place),
            ordinal: self.first.ordinal + place as u64,
            stack: link.stack,
            entry: link.entry,
            allocates: link.allocates,
            ..self.first
        }
    }

    /// Takes its first steps away.
    fn cut(&mut self, steps: usize) {
        self.first.ordinal += steps as u64;
        self.pace = self.pace.after(steps);
        self.length -= steps;
    }
}

/// What is a step's own: half a cache line, and aligned so.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Link {
    /// See [`crate::place`].
    pub place: u64,
    pub size: u64,
    /// The block that it handed out or gave back.
    pub block: BlockId,
    pub stack: StackId,
    pub entry: EntryPoint,
    pub allocates: bool,
}

impl Link {
    const NONE: Self = Self {
        place: 0,
        size: 0,
        block: NO_BLOCK,
        stack: 0,
        entry: EntryPoint::Malloc,
        allocates: false,
    };

    /// That of a plain event.
    #[inline]
    pub(super) fn new(event: &Event, place: u64, block: BlockId) -> Self {
        Self {
            place,
            size: event.size,
            block,
            stack: event.stack,
            entry: event.entry,
            allocates: event.kind == EventKind::Allocation,
        }
    }

    /// That of a step.
    pub(super) fn of(step: &Step, block: BlockId) -> Self {
        Self {
            place: step.address,
            size: step.size,
            block,
            stack: step.stack,
            entry: step.entry,
            allocates: step.allocates,
        }
    }

    /// The blocks of which the step speaks: it agreed with what was live.
    #[inline]
    pub(crate) fn blocks(&self) -> Blocks {
        Blocks {
            block: self.block,
            replaced: NO_BLOCK,
        }
    }
}

/// Strands, the oldest first.
pub(super) struct Strands {
    order: VecDeque<Strand>,
    /// A ring: empty, or as many as a power of two. No strand goes beyond the end.
    links: Vec<Link>,
    first: usize,
    length: usize,
}

impl Strands {
    pub(super) fn new() -> Self {
        Self {
            order: VecDeque::new(),
            links: Vec::new(),
            first: 0,
            length: 0,
        }
    }

    /// Number of steps.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Where the next strand's links go; there is room for at least one.
    #[inline]
    pub(super) fn room(&mut self) -> &mut [Link] {
        if self.length == self.links.len() {
            self.grow();
        }
        let end = self.first + self.length;
        match end.checked_sub(self.links.len()) {
            Some(again) => &mut self.links[again..self.first],
            None => &mut self.links[end..],
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.links.rotate_left(self.first);
        self.first = 0;
        let room = (self.links.len() * 2).max(1 << 6);
        self.links.resize(room, Link::NONE);
    }

    /// Adds a strand whose links were put where there was [room](Self::room).
    #[inline]
    pub(super) fn push(&mut self, strand: Strand) {
        self.length += strand.length;
        self.order.push_back(strand);
    }

    /// The oldest strand.
    #[inline]
    pub(super) fn front(&self) -> Option<&Strand> {
        self.order.front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Strand> {
        self.order.iter()
    }

    /// The oldest strand and its links, but at most the first so many of them.
    #[inline]
    pub(super) fn oldest(&self, most: usize) -> Option<(&Strand, &[Link])> {
        let strand = self.order.front()?;
        let end = self.first + strand.length.min(most);
        Some((strand, &self.links[self.first..end]))
    }

    /// Takes so many of the oldest strand's steps away.
    #[inline]
    pub(super) fn pass(&mut self, steps: usize) {
        let Some(strand) = self.order.front_mut() else {
            return;
        };
        if steps < strand.length {
            strand.cut(steps);
        } else {
            self.order.pop_front();
        }
        self.length -= steps;
        self.first = (self.first + steps) & (self.links.len() - 1);
        if self.length == 0 {
            // What was used last is nearest.
            self.first = 0;
        }
    }
}
