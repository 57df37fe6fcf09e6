//! One stream in the merge: its cursor, its head (the step that comes next), and the
//! steps that were placed and rolled back.

use crate::cursor::{Cursor, LOOK_AHEAD, Lookahead, Step};
use crate::error::ReplayError;
use crate::source::TraceSource;

/// See the [module](self).
pub(super) struct Stream<'a, S: TraceSource> {
    pub cursor: Cursor<'a, S>,
    pub head: Option<Step>,
    /// Steps that were undone, the next one last.
    pub returned: Vec<Step>,
}

impl<'a, S: TraceSource> Stream<'a, S> {
    pub(super) fn new(cursor: Cursor<'a, S>) -> Self {
        Self {
            cursor,
            head: None,
            returned: Vec::new(),
        }
    }

    /// Takes the next step for the head.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<(), ReplayError> {
        self.head = match self.returned.pop() {
            Some(step) => Some(step),
            None => self.cursor.next()?,
        };
        Ok(())
    }

    /// Whether an allocation (or deallocation) at the key follows the head
    /// before `until`.
    pub(super) fn look_ahead(&self, key: u64, allocates: bool, until: u64) -> Lookahead {
        for step in self.returned.iter().rev().take(LOOK_AHEAD) {
            if step.lower > until {
                return Lookahead::Absent;
            }
            if (step.key, step.allocates) == (key, allocates) {
                return Lookahead::Found;
            }
        }
        if self.returned.len() > LOOK_AHEAD {
            return Lookahead::Unknown;
        }
        self.cursor.look_ahead(key, allocates, until)
    }
}
