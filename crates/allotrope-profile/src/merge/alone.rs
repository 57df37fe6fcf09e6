//! A stretch in which one stream's events lie before everything that the other
//! streams still hold: they have one order, and go to the books at once.

use std::cmp::Reverse;

use super::{CREDIT_EACH, CREDIT_LIMIT, Merge, SLACK_NS, Sink};
use crate::error::ReplayError;
use crate::source::TraceSource;

impl<S: TraceSource, K: Sink> Merge<'_, '_, S, K> {
    /// Follows the stream whose turn it is while no other can interfere, if
    /// nothing waits and nothing of another stream is tentative.
    pub(super) fn follow_alone(&mut self) -> Result<(), ReplayError> {
        if !self.waiting.is_empty() || !self.detours.is_empty() {
            return Ok(());
        }
        self.give_up_turn();
        let Some(&Reverse((_, stream))) = self.ready.peek() else {
            return Ok(());
        };
        let others = self.earliest_of_others(stream);
        let apart = |upper: u64| others.is_none_or(|at| upper.saturating_add(SLACK_NS) < at);
        let mut newest_first = self.tentative.iter().rev();
        let settled = newest_first.all(|p| p.stream == stream && apart(p.step.upper));
        drop(newest_first);
        let next = self.streams[stream].head;
        if !settled || !next.is_some_and(|head| apart(head.upper)) {
            return Ok(());
        }
        self.settle_all();
        self.ready.pop();
        let mut steps = 0;
        loop {
            let ordinal = match &self.streams[stream].head {
                Some(head) if apart(head.upper) => head.ordinal,
                _ => break,
            };
            if self.fork_before(stream, ordinal).is_some() {
                break;
            }
            let at = &mut self.streams[stream];
            let head = at.head.as_mut();
            if !head.is_some_and(|head| self.tentative.pass(head, self.sink)) {
                break;
            }
            steps += 1;
            if at.returned.is_empty() {
                let until = self.open_forks.next(stream).map_or(u64::MAX, |next| next.0);
                while let Some(stretch) = at.cursor.stretch(until, self.tentative.live())?
                    && apart(stretch.upper)
                {
                    let taken = self.tentative.pass_stretch(&stretch, self.sink);
                    at.cursor.pass(taken);
                    steps += taken as u64;
                    if taken == 0 {
                        break;
                    }
                }
            }
            at.advance()?;
        }
        self.credit = (self.credit + steps * CREDIT_EACH).min(CREDIT_LIMIT);
        match self.streams[stream].head {
            Some(head) => {
                self.ready.push(Reverse((head.time, stream)));
                Ok(())
            }
            None => self.pass_reached_forks(),
        }
    }

    /// Before when no event of another stream happened; `None` if they have all ended.
    fn earliest_of_others(&self, stream: usize) -> Option<u64> {
        let streams = self.streams.iter().enumerate();
        let others = streams.filter(|&(other, _)| other != stream);
        others.filter_map(|(_, at)| Some(at.head?.lower)).min()
    }
}
