//! One stream in the merge: its cursor, its head (the step that comes next), and a stack
//! of steps that the merge placed and rolled back. These come again before the cursor's.

use crate::cursor::{Cursor, LOOK_AHEAD, Lookahead};
use crate::error::AggregateError;
use crate::source::TraceSource;
use crate::step::Step;

/// See the [module](self).
pub(super) struct Stream<'a, S: TraceSource> {
    pub cursor: Cursor<'a, S>,
    pub head: Option<Step>,
    /// Steps that were rolled back, the next one last.
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

    /// Makes the next step the head.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<(), AggregateError> {
        self.head = match self.returned.pop() {
            Some(step) => Some(step),
            None => self.cursor.next()?,
        };
        Ok(())
    }

    /// Whether an allocation (`allocates`) or deallocation at the key follows the head
    /// before the time `until`.
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
