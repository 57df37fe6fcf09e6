//! Turns reallocations into a deallocation and an allocation. A reallocation is two
//! events: a start, recorded before the program's allocator is called, and a result.
//!
//! A failed reallocation changes nothing. So its start must not be taken for a
//! deallocation and undone later: that would change the peak and which blocks are
//! temporary. The cursor looks ahead for the result, which nearly always is the next
//! event. If it is more than [`LOOK_AHEAD`] events away, the deallocation is held back
//! until the result is read.

use allotrope_trace::model::{EntryPoint, EventKind};

use super::{Cursor, LOOK_AHEAD, Step};
use crate::error::AggregateError;
use crate::source::TraceSource;
use crate::window_table::Rank;

/// How many open starts are stored. A start stays open for ever if a signal handler
/// jumped out of the call.
pub(super) const OPEN_LIMIT: usize = 1 << 12;

/// A reallocation whose result has not been read.
pub(super) struct OpenStart {
    key: u64,
    thread: u32,
    rank: Rank,
    opted_out: bool,
    entry: EntryPoint,
    /// The cursor has returned the deallocation already.
    pub emitted: bool,
}

enum ReallocationResult {
    Moved,
    Failed,
    Unknown,
}

impl<S: TraceSource> Cursor<'_, S> {
    /// The step that an event of a reallocation leads to, if any. A held-back
    /// deallocation is returned before the allocation, which is then queued.
    pub(super) fn reallocate(
        &mut self,
        kind: EventKind,
        step: Step,
    ) -> Result<Option<Step>, AggregateError> {
        match kind {
            EventKind::ReallocationStart => {
                let emitted = matches!(self.find_result()?, ReallocationResult::Moved);
                if self.open.len() >= OPEN_LIMIT {
                    self.open.remove(0);
                }
                self.open.push(OpenStart {
                    key: step.key,
                    thread: step.thread,
                    rank: step.rank,
                    opted_out: step.opted_out,
                    entry: step.entry,
                    emitted,
                });
                Ok(emitted.then_some(Step {
                    reallocation: true,
                    ..step
                }))
            }
            EventKind::ReallocationEnd => {
                let moved = Step {
                    allocates: true,
                    reallocation: true,
                    ..step
                };
                if let Some(late) = self.late_deallocation(&step) {
                    self.queued = Some(moved);
                    return Ok(Some(Step {
                        reallocation: true,
                        ..late
                    }));
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

    /// Removes the innermost open start. Returns its deallocation, at the time of the
    /// result, if it was held back.
    fn late_deallocation(&mut self, result: &Step) -> Option<Step> {
        let start = self.open.pop()?;
        (!start.emitted).then_some(Step {
            key: start.key,
            thread: start.thread,
            rank: start.rank,
            opted_out: start.opted_out,
            entry: start.entry,
            size: 0,
            allocates: false,
            ..*result
        })
    }

    /// Looks ahead for the result of the start that was just read. Calls nest: a signal
    /// handler may reallocate while a reallocation is open.
    fn find_result(&mut self) -> Result<ReallocationResult, AggregateError> {
        let mut depth = 0_usize;
        for ahead in 0..LOOK_AHEAD {
            while self.position + ahead >= self.buffer.len() {
                if !self.extend()? {
                    // The stream ends: the call never completed, its block stays live.
                    return Ok(ReallocationResult::Failed);
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
                    return Ok(ReallocationResult::Moved);
                }
                EventKind::ReallocationFailed => return Ok(ReallocationResult::Failed),
                _ => {}
            }
        }
        Ok(ReallocationResult::Unknown)
    }
}
