//! The short way of events into the books, as in [`super::stretch`], of an image
//! with a single stream: the block of which an event speaks is known before.

use allotrope_trace::model::{Event, EventKind};

use super::stretch::{answers, gives_back};
use super::{Ledger, thread};
use crate::cursor::Stretch;
use crate::live::{BlockNumber, LiveBlock, NumberedBlocks};
use crate::place::place_of;

impl Ledger<'_> {
    /// Takes the first events of the stretch, up to one that needs a closer look,
    /// and gives their number.
    pub(crate) fn take_numbered(
        &mut self,
        stretch: &Stretch<'_>,
        blocks: &mut NumberedBlocks,
    ) -> usize {
        if self.sequences.is_some() {
            return 0;
        }
        thread(&mut self.threads, stretch.thread);
        let mut at = 0;
        while let Some(taken) = self.take_next(stretch, at, blocks) {
            at += taken;
        }
        at
    }

    /// Takes the event at this place in the stretch, and the next one too if that
    /// answers it; `None` if a closer look is needed and at the end.
    #[inline]
    fn take_next(
        &mut self,
        stretch: &Stretch<'_>,
        at: usize,
        blocks: &mut NumberedBlocks,
    ) -> Option<usize> {
        let event = stretch.events.get(at)?;
        let number = stretch.subjects.get(at)?.block_number()?;
        match event.kind {
            EventKind::Allocation => {
                self.pass_to(stretch.time(at));
                let next = stretch.events.get(at + 1);
                if let Some(next) = next.filter(|next| gives_back(next, event)) {
                    self.take_pair(stretch, (event, next), at);
                    return Some(2);
                }
                self.begin(stretch.thread, event, number, blocks, false);
                Some(1)
            }
            EventKind::Deallocation => {
                let block = blocks.live_at(number, place_of(event))?;
                self.pass_to(stretch.time(at));
                self.end(stretch.thread, event, number, &block, blocks);
                Some(1)
            }
            EventKind::ReallocationStart if stretch.moves => {
                let end = stretch.events.get(at + 1).filter(|next| answers(next))?;
                let moved = stretch.subjects.get(at + 1)?.block_number()?;
                let block = blocks.live_at(number, place_of(event))?;
                self.pass_to(stretch.time(at));
                self.end(stretch.thread, event, number, &block, blocks);
                self.pass_to(stretch.time(at + 1));
                self.begin(stretch.thread, end, moved, blocks, true);
                Some(2)
            }
            _ => None,
        }
    }

    #[inline]
    fn begin(
        &mut self,
        by: u32,
        event: &Event,
        number: BlockNumber,
        blocks: &mut NumberedBlocks,
        reallocation: bool,
    ) {
        let block = self.block_of(by, event);
        blocks.begin(number, block);
        self.threads[by as usize].latest = number;
        self.book_allocation(by, event, block.site, reallocation);
        self.note_level();
    }

    #[inline]
    fn end(
        &mut self,
        by: u32,
        event: &Event,
        number: BlockNumber,
        block: &LiveBlock,
        blocks: &mut NumberedBlocks,
    ) {
        blocks.end(number);
        self.book_deallocation(by, event, block, number);
        self.note_level();
    }
}
