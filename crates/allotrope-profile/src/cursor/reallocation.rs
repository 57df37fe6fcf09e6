//! Finds out what became of reallocations, which are two events: a start, before the
//! program's allocator is called, and a result.
//!
//! A failed reallocation changes nothing. So its start must not be taken for a
//! deallocation and undone later: that would change the peak and what is temporary.
//! The cursor looks ahead for the result, which nearly always is the next event. Where
//! it is far away, the deallocation is held back until the result is read.

use allotrope_trace::model::{EntryPoint, EventKind};

use super::{Cursor, LOOK_AHEAD, Step};
use crate::error::ReplayError;
use crate::source::TraceSource;
use crate::window_table::Rank;

/// How many open starts are remembered; a start that a handler jumped out of
/// stays open for ever.
pub(super) const OPEN_LIMIT: usize = 1 << 12;

/// A reallocation that began and is not answered yet.
pub(super) struct OpenStart {
    key: u64,
    thread: u32,
    rank: Rank,
    opted_out: bool,
    entry: EntryPoint,
    /// The deallocation was given out already.
    pub shown: bool,
}

enum Answer {
    Moved,
    Failed,
    Unknown,
}

impl<S: TraceSource> Cursor<'_, S> {
    /// Takes an event of a reallocation; `None` if nothing comes of it yet.
    pub(super) fn reallocate(
        &mut self,
        kind: EventKind,
        step: Step,
    ) -> Result<Option<Step>, ReplayError> {
        match kind {
            EventKind::ReallocationStart => {
                let shown = matches!(self.answer()?, Answer::Moved);
                if self.open.len() >= OPEN_LIMIT {
                    self.open.remove(0);
                }
                self.open.push(OpenStart {
                    key: step.key,
                    thread: step.thread,
                    rank: step.rank,
                    opted_out: step.opted_out,
                    entry: step.entry,
                    shown,
                });
                Ok(shown.then_some(step))
            }
            EventKind::ReallocationEnd => {
                let moved = Step {
                    allocates: true,
                    reallocation: true,
                    ..step
                };
                let late = self.late_deallocation(&step);
                if late.is_some() {
                    self.queued = Some(moved);
                    return Ok(late);
                }
                Ok(Some(moved))
            }
            EventKind::ReallocationFreed => Ok(self.late_deallocation(&step)),
            _ => {
                self.open.pop();
                Ok(None)
            }
        }
    }

    /// The deallocation of the innermost open start, if it was held.
    fn late_deallocation(&mut self, answer: &Step) -> Option<Step> {
        let start = self.open.pop()?;
        (!start.shown).then_some(Step {
            key: start.key,
            thread: start.thread,
            rank: start.rank,
            opted_out: start.opted_out,
            entry: start.entry,
            size: 0,
            allocates: false,
            ..*answer
        })
    }

    /// What answers the start that was just read. Calls nest: a signal handler
    /// may reallocate while a reallocation is open.
    fn answer(&mut self) -> Result<Answer, ReplayError> {
        let mut depth = 0_usize;
        for ahead in 0..LOOK_AHEAD {
            while self.position + ahead >= self.buffer.len() {
                if !self.extend()? {
                    // The call never completed: its block stays as it was.
                    return Ok(Answer::Failed);
                }
            }
            match self.buffer[self.position + ahead].kind {
                EventKind::ReallocationStart => depth += 1,
                EventKind::ReallocationEnd
                | EventKind::ReallocationFreed
                | EventKind::ReallocationFailed
                    if depth > 0 =>
                {
                    depth -= 1;
                }
                EventKind::ReallocationEnd | EventKind::ReallocationFreed => {
                    return Ok(Answer::Moved);
                }
                EventKind::ReallocationFailed => return Ok(Answer::Failed),
                _ => {}
            }
        }
        Ok(Answer::Unknown)
    }
}
