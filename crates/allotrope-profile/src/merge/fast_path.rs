//! The short cut for several streams whose events are all legal: a k-way merge by
//! estimated time. Nothing waits and nothing is rolled back; at the first illegal
//! event the general way goes on from there. The order is the same.
//!
//! A thread's turn is some fifteen events long even if four threads are busy. A turn is
//! placed as a whole and kept as a batch. Without this, four busy threads take 2.2
//! times as long to read.

use super::{Merge, Sink};
use crate::cursor::Step;
use crate::error::ReplayError;
use crate::source::TraceSource;

/// With more streams a sorted list is too slow to find the earliest.
const MOST_STREAMS: usize = 64;
/// Turns in the general way before the fast path is tried again.
const TURNS_BETWEEN: u32 = 32;

/// What became of a stream's turn.
enum Turn {
    /// Its next event has this time.
    Until(u64),
    /// It has no more events.
    Ended,
    /// Its head needs a closer look.
    Stuck(Step),
}

impl<S: TraceSource, K: Sink> Merge<'_, '_, S, K> {
    /// Merges as long as every event is legal, if it is time to try that again.
    pub(super) fn fast_path(&mut self) -> Result<(), ReplayError> {
        self.turns_left = self.turns_left.saturating_sub(1);
        let nothing_open = self.waiting.is_empty() && self.constraints.is_empty();
        if self.turns_left > 0 || !nothing_open {
            return Ok(());
        }
        self.turns_left = TURNS_BETWEEN;
        let returned = self.streams.iter().any(|at| !at.returned.is_empty());
        if returned || self.streams.len() > MOST_STREAMS {
            return Ok(());
        }
        self.turn = None;
        self.ready.clear();
        let heads = self.streams.iter().enumerate();
        let times = heads.filter_map(|(stream, at)| Some((at.head?.time, stream)));
        // The earliest last.
        let mut order: Vec<(u64, usize)> = times.collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        let ended = self.take_turns(&mut order)?;
        self.speculative.split_batches();
        self.read_heads(&order)?;
        if ended {
            self.pass_reached_forks()?;
        }
        Ok(())
    }

    /// Lets each of the streams go on in its turn; `true` if one ended where forks
    /// may wait for that.
    fn take_turns(&mut self, order: &mut Vec<(u64, usize)>) -> Result<bool, ReplayError> {
        while let Some((time, stream)) = order.pop() {
            if self.speculative.len() >= self.commit_at {
                let earliest = order.iter().map(|&(_, other)| self.earliest(other));
                let others = earliest.min();
                let own = self.earliest(stream);
                self.commit(others.map_or(own, |others| others.min(own)));
                self.pass_alone(stream, others)?;
                let Some(time) = self.time_ahead(stream)? else {
                    return Ok(true);
                };
                insert(order, (time, stream));
                continue;
            }
            let rival = order.last().copied().unwrap_or((u64::MAX, usize::MAX));
            match self.take_turn(stream, rival)? {
                Turn::Until(time) => insert(order, (time, stream)),
                Turn::Ended if self.forks.is_empty() => {}
                Turn::Ended => return Ok(true),
                Turn::Stuck(step) => {
                    self.streams[stream].head = Some(step);
                    order.push((time, stream));
                    return Ok(false);
                }
            }
        }
        Ok(false)
    }

    /// Places a stream's events as long as they come before the rival's.
    #[inline]
    fn take_turn(&mut self, stream: usize, rival: (u64, usize)) -> Result<Turn, ReplayError> {
        loop {
            if let Some(stuck) = self.place_next(stream, rival)? {
                return Ok(Turn::Stuck(stuck));
            }
            let Some(time) = self.time_ahead(stream)? else {
                return Ok(Turn::Ended);
            };
            if (time, stream) > rival || self.speculative.len() >= self.commit_at {
                return Ok(Turn::Until(time));
            }
        }
    }

    /// Places a stream's head or, where it has none, the simple events that come next
    /// and before the rival's. Gives the next step if it can not be placed.
    #[inline]
    fn place_next(
        &mut self,
        stream: usize,
        rival: (u64, usize),
    ) -> Result<Option<Step>, ReplayError> {
        let cut = self.open_forks.next(stream);
        let until = cut.map_or(u64::MAX, |(ordinal, _)| ordinal);
        let at = &mut self.streams[stream];
        if let Some(head) = at.head.take() {
            let placed = head.ordinal < until && self.speculative.place_legal(stream, &head);
            return Ok((!placed).then_some(head));
        }
        let Some(batch) = at.cursor.batch(until, self.speculative.live())? else {
            return Ok(None);
        };
        let (time, other) = rival;
        let latest = time.saturating_sub(u64::from(stream > other));
        let most = batch.times.count_until(latest, batch.events.len());
        let placed = self.speculative.place_batch(stream, &batch, most);
        at.cursor.pass(placed);
        Ok(if placed == 0 {
            at.cursor.next_simple()
        } else {
            None
        })
    }

    /// The time of a stream's next event; one that is no simple event is taken for
    /// its head. `None` at the stream's end.
    #[inline]
    fn time_ahead(&mut self, stream: usize) -> Result<Option<u64>, ReplayError> {
        let at = &mut self.streams[stream];
        if at.head.is_none() {
            let simple = at.cursor.time_of_simple()?;
            if simple.is_some() {
                return Ok(simple);
            }
            at.advance()?;
        }
        Ok(at.head.map(|head| head.time))
    }

    /// Before when nothing of the stream happened that is not placed.
    fn earliest(&self, stream: usize) -> u64 {
        let at = &self.streams[stream];
        at.head.map_or(at.cursor.lower(), |head| head.lower)
    }

    /// Reads the head of each of the streams again, for the general way.
    fn read_heads(&mut self, order: &[(u64, usize)]) -> Result<(), ReplayError> {
        for &(_, stream) in order {
            let at = &mut self.streams[stream];
            if at.head.is_none() {
                at.head = at.cursor.next()?;
            }
        }
        self.start_over();
        Ok(())
    }
}

/// Puts a stream back to where its next event belongs.
#[inline]
fn insert(order: &mut Vec<(u64, usize)>, entry: (u64, usize)) {
    let mut at = order.len();
    order.push(entry);
    while at > 0 && order[at - 1] < entry {
        order[at] = order[at - 1];
        at -= 1;
    }
    order[at] = entry;
}

#[cfg(test)]
mod tests {
    use super::insert;

    #[test]
    fn the_earliest_is_last_and_of_two_at_once_the_first_stream() {
        let mut order = Vec::new();
        for entry in [(5, 0), (1, 1), (9, 2), (5, 1), (1, 0)] {
            insert(&mut order, entry);
        }
        assert_eq!(order, [(9, 2), (5, 1), (5, 0), (1, 1), (1, 0)]);
    }
}
