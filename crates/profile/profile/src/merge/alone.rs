//! The fast path for events of one stream that precede all remaining events of the other
//! streams, and for images with a single stream. Their order is certain, so the merge
//! commits them at once.

use std::cmp::Reverse;

use super::{Merge, ROLLBACK_BUDGET_EACH, ROLLBACK_BUDGET_LIMIT, SLACK_NS, Sink};
use crate::error::AggregateError;
use crate::source::TraceSource;

impl<S: TraceSource, K: Sink> Merge<'_, '_, S, K> {
    /// Commits events of the earliest stream while no other stream can precede them.
    /// Does nothing if a stream waits, or if another stream has speculative steps.
    pub(super) fn follow_alone(&mut self) -> Result<(), AggregateError> {
        if !self.waiting.is_empty() || !self.constraints.is_empty() {
            return Ok(());
        }
        self.requeue_last();
        let Some(&Reverse((_, stream))) = self.ready.peek() else {
            return Ok(());
        };
        if !self.streams[stream].returned.is_empty() {
            return Ok(());
        }
        let others = self.earliest_of_others(stream);
        self.ready.pop();
        self.pass_alone(stream, others)?;
        let at = &mut self.streams[stream];
        if at.head.is_none() {
            at.head = at.cursor.next()?;
        }
        match at.head {
            Some(head) => {
                self.ready.push(Reverse((head.time, stream)));
                Ok(())
            }
            None => self.pass_reached_forks(),
        }
    }

    /// Commits the stream's events that certainly precede `others`, the earliest time
    /// that an event of another stream can have (`None` if these have all ended). Does
    /// nothing if another stream has speculative steps. Afterwards the stream may have no
    /// head although it has not ended.
    pub(super) fn pass_alone(
        &mut self,
        stream: usize,
        others: Option<u64>,
    ) -> Result<(), AggregateError> {
        let precedes = |upper: u64| others.is_none_or(|at| upper.saturating_add(SLACK_NS) < at);
        // The oldest is the likeliest not to be certain.
        let mut oldest_first = self.speculative.uppers();
        let certain = oldest_first.all(|(of, upper)| of == stream && precedes(upper));
        drop(oldest_first);
        let at = &self.streams[stream];
        let next = at.head.map_or(at.cursor.upper(), |head| head.upper);
        if !certain || !precedes(next) {
            return Ok(());
        }
        self.commit_all();
        let until = self.open_forks.next(stream);
        let until = until.map_or(u64::MAX, |(ordinal, _)| ordinal);
        let mut steps = 0;
        let at = &mut self.streams[stream];
        loop {
            if let Some(head) = &mut at.head {
                let next = precedes(head.upper) && head.ordinal < until;
                if !next || !self.speculative.commit_directly(head, self.sink) {
                    break;
                }
                at.head = None;
                steps += 1;
            }
            while let Some(batch) = at.cursor.batch(until, self.speculative.live())?
                && precedes(batch.times.upper)
            {
                let taken = self.speculative.commit_batch_directly(&batch, self.sink);
                at.cursor.pass(taken);
                steps += taken as u64;
                if taken == 0 {
                    break;
                }
            }
            at.head = at.cursor.next()?;
            if at.head.is_none() {
                break;
            }
        }
        self.rollback_budget =
            (self.rollback_budget + steps * ROLLBACK_BUDGET_EACH).min(ROLLBACK_BUDGET_LIMIT);
        Ok(())
    }

    /// The earliest time that an event of another stream can have; `None` if these have
    /// all ended.
    fn earliest_of_others(&self, stream: usize) -> Option<u64> {
        let streams = self.streams.iter().enumerate();
        let others = streams.filter(|&(other, _)| other != stream);
        others.filter_map(|(_, at)| Some(at.head?.lower)).min()
    }
}
