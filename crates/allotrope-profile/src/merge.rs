//! Puts the events of an image's streams into one order that agrees with each
//! stream's own order, with the times between which each event lies, and with
//! the rule that allocation and deallocation of one key alternate.
//!
//! The stream whose next event has the earliest estimated time goes first. An event
//! that breaks the rule waits until another stream's event makes it legal. If none
//! can in the time that is left, the last choice at that key is rolled back and made
//! the other way round, then every other order is tried (`search`). If that fails
//! too, an event is missing from the trace, and the waiting one is placed although it
//! is illegal; the accumulator counts the loss.
//!
//! ```text
//! stream 0: a1 f2 │ a3 …      ┐
//! stream 1: a2 │ f1 …         ├─▶ SpeculativeLog: a1 a2 f2 f1 ─▶ Sink (accumulators)
//! stream 2: │ …   ▲           ┘                   ▲     can still      for good
//!                 head of each                    │     be rolled back
//!                                                 commit: all that no stream can
//!                                                 reach back to
//! ```
//!
//! Two short cuts lead to the same order: `alone`, for events of one stream before
//! all that the others hold, and `fast_path`, while every event is legal.
//!
//! At a fork all streams of the parent meet at the ordinals that the trace names, so
//! that the child inherits exactly what was live then.

mod alone;
mod fast_path;
mod forks;
mod search;
mod stream;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::cursor::{Cursor, EventBatch, Lookahead, Step};
use crate::error::ReplayError;
use crate::live::{Blocks, LiveBlocks};
use crate::source::TraceSource;
use crate::speculative::{Placed, SpeculativeLog};
use forks::OpenForks;
use stream::Stream;

/// Time stamp counters of two cores agree within this.
const SLACK_NS: u64 = 1_000;
/// After this many steps those that can be committed are.
const COMMIT_EACH: usize = 1 << 9;
/// Most steps whose order may still change.
const SPECULATIVE_LIMIT: usize = 1 << 16;
/// Steps that may be rolled back for each one committed, so that trying other orders
/// takes time in proportion to the trace, whatever it holds.
const ROLLBACK_BUDGET_EACH: u64 = 1;
const ROLLBACK_BUDGET_LIMIT: u64 = 1 << 20;
/// How many other orders are tried for the sake of one event.
const TRIES: u8 = 2;

/// Takes an image's events in their order.
pub(crate) trait Sink {
    /// Takes the next event and its blocks.
    fn step(&mut self, step: &Step, blocks: Blocks, live: &mut LiveBlocks);
    /// Takes events of one stream that come before all others: as many as are legal and
    /// need not be taken by themselves. Gives their number.
    fn batch(&mut self, batch: &EventBatch<'_>, live: &mut LiveBlocks) -> usize;
    /// The image forked here, when these blocks were live.
    fn fork(&mut self, fork: usize, live: &LiveBlocks) -> Result<(), ReplayError>;
}

/// Where a fork cut the parent's streams.
pub(crate) struct Fork {
    /// (index of the stream, ordinal of its first event after the fork).
    pub points: Vec<(usize, u64)>,
}

/// Gives the events of all cursors to the sink; `live` is what was inherited.
/// Gives what is live at the end.
pub(crate) fn merge<S: TraceSource, K: Sink>(
    cursors: Vec<Cursor<'_, S>>,
    live: LiveBlocks,
    forks: &[Fork],
    sink: &mut K,
) -> Result<LiveBlocks, ReplayError> {
    let count = cursors.len();
    let mut merge = Merge {
        streams: cursors.into_iter().map(Stream::new).collect(),
        ready: BinaryHeap::new(),
        turn: None,
        waiting: Vec::new(),
        overdue: u64::MAX,
        speculative: SpeculativeLog::new(live),
        constraints: Vec::new(),
        rollback_budget: ROLLBACK_BUDGET_LIMIT,
        commit_at: COMMIT_EACH,
        turns_left: 0,
        open_forks: OpenForks::new(forks, count),
        forks,
        sink,
    };
    merge.run()?;
    Ok(merge.speculative.into_live())
}

/// What a stream waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Until the key is freed, or allocated.
    Key(u64),
    /// Until the other order was followed that far (see [`OrderConstraint`]).
    OrderConstraint,
    /// Until all streams have reached the fork.
    Fork(usize),
}

/// "Not before that one": a choice that was found wrong once.
#[derive(Clone, Copy, PartialEq, Eq)]
struct OrderConstraint {
    first: (usize, u64),
    then: (usize, u64),
}

struct Merge<'a, 'k, S: TraceSource, K> {
    streams: Vec<Stream<'a, S>>,
    /// Streams whose head may be tried, by its estimated time.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    /// The stream whose head was read last, not yet in `ready`: mostly it goes next
    /// again.
    turn: Option<(u64, usize)>,
    waiting: Vec<(usize, Wait)>,
    /// The earliest time by which a waiting event must have happened.
    overdue: u64,
    speculative: SpeculativeLog,
    constraints: Vec<OrderConstraint>,
    rollback_budget: u64,
    commit_at: usize,
    /// How many turns are taken before [`Self::fast_path`] is tried.
    turns_left: u32,
    forks: &'k [Fork],
    open_forks: OpenForks,
    sink: &'k mut K,
}

impl<S: TraceSource, K: Sink> Merge<'_, '_, S, K> {
    fn run(&mut self) -> Result<(), ReplayError> {
        for stream in 0..self.streams.len() {
            self.read_head(stream)?;
        }
        self.pass_reached_forks()?;
        loop {
            self.fast_path()?;
            if let Some(stream) = self.choose() {
                self.attempt(stream)?;
            } else if self.waiting.is_empty() {
                break;
            } else {
                self.resolve()?;
            }
            if self.speculative.len() >= self.commit_at {
                let heads = self.streams.iter().filter_map(|at| at.head);
                let frontier = heads.map(|head| head.lower).min();
                self.commit(frontier.unwrap_or(u64::MAX));
                self.follow_alone()?;
            }
        }
        self.commit_all();
        for fork in self.open_forks.take_all() {
            self.sink.fork(fork, self.speculative.live())?;
        }
        Ok(())
    }

    /// Goes on to a stream's next event.
    fn advance(&mut self, stream: usize) -> Result<(), ReplayError> {
        if self.read_head(stream)? {
            return Ok(());
        }
        self.pass_reached_forks()
    }

    /// Takes a stream's next event for its head; `false` at the stream's end.
    fn read_head(&mut self, stream: usize) -> Result<bool, ReplayError> {
        self.requeue_last();
        let at = &mut self.streams[stream];
        at.advance()?;
        self.turn = at.head.map(|head| (head.time, stream));
        Ok(at.head.is_some())
    }

    /// Moves the stream whose head was read last to `ready`.
    fn requeue_last(&mut self) {
        self.ready.extend(self.turn.take().map(Reverse));
    }

    /// The stream to try next. While an event waits, only streams go on that may still
    /// have events before it; the others would run ahead.
    fn choose(&mut self) -> Option<usize> {
        if let Some((time, stream)) = self.turn
            && self.overdue == u64::MAX
            && self
                .ready
                .peek()
                .is_none_or(|&Reverse(next)| (time, stream) < next)
        {
            self.turn = None;
            return Some(stream);
        }
        self.requeue_last();
        let &Reverse((_, first)) = self.ready.peek()?;
        let deadline = self.overdue.saturating_add(SLACK_NS);
        if self.overdue == u64::MAX || self.lower(first) <= deadline {
            self.ready.pop();
            return Some(first);
        }
        let candidates = self.ready.iter();
        let &Reverse((time, late)) = candidates
            .filter(|Reverse((_, stream))| self.lower(*stream) <= deadline)
            .filter(|Reverse((_, stream))| self.can_unblock(*stream))
            .max()?;
        self.ready.retain(|entry| *entry != Reverse((time, late)));
        Some(late)
    }

    /// Whether a stream's going on may lead to what the overdue one waits for.
    /// A thread that slept for long could have done its next events at any
    /// time in between; without need they must not be drawn forward.
    fn can_unblock(&self, stream: usize) -> bool {
        let mut waiting = self.waiting.iter().filter_map(|&(waiting, wait)| {
            let head = self.streams[waiting].head?;
            (head.upper == self.overdue).then_some((waiting, wait, head))
        });
        let Some((overdue, Wait::Key(_), head)) = waiting.next() else {
            return true;
        };
        let until = head.upper.saturating_add(SLACK_NS);
        let helps = |stream| self.look_ahead(stream, overdue, &head, until) != Lookahead::Absent;
        let mut others = self.waiting.iter().map(|&(other, _)| other);
        helps(stream) || others.any(|other| other != overdue && helps(other))
    }

    fn lower(&self, stream: usize) -> u64 {
        self.streams[stream]
            .head
            .map_or(u64::MAX, |head| head.lower)
    }

    fn attempt(&mut self, stream: usize) -> Result<(), ReplayError> {
        let Some(head) = self.streams[stream].head else {
            return Ok(());
        };
        if let Some(fork) = self.open_forks.before(stream, head.ordinal) {
            self.wait(stream, Wait::Fork(fork));
            return self.pass_reached_forks();
        }
        let place = (stream, head.ordinal);
        if self
            .constraints
            .iter()
            .any(|constraint| constraint.then == place)
        {
            self.wait(stream, Wait::OrderConstraint);
            return Ok(());
        }
        if !self.speculative.allows(&head) {
            if self.is_lost_event(stream, &head) {
                return self.place(stream, head);
            }
            let ambiguous = !head.ambiguous && !head.ordered && self.competes(stream, &head);
            if let Some(head) = self.streams[stream].head.as_mut() {
                head.ambiguous |= ambiguous;
            }
            self.wait(stream, Wait::Key(head.key));
            return Ok(());
        }
        self.place(stream, head)
    }

    /// Places the head of a stream and wakes those who waited for it.
    fn place(&mut self, stream: usize, head: Step) -> Result<(), ReplayError> {
        self.speculative.place(stream, head, self.overdue);
        if !self.waiting.is_empty() {
            self.wake(|wait| wait == Wait::Key(head.key));
        }
        if !self.constraints.is_empty() {
            let place = (stream, head.ordinal);
            let before = self.constraints.len();
            self.constraints
                .retain(|constraint| constraint.first != place);
            if self.constraints.len() != before {
                self.wake(|wait| wait == Wait::OrderConstraint);
            }
        }
        self.advance(stream)
    }

    fn wait(&mut self, stream: usize, wait: Wait) {
        let upper = self.streams[stream]
            .head
            .map_or(u64::MAX, |head| head.upper);
        self.overdue = self.overdue.min(upper);
        self.waiting.push((stream, wait));
    }

    fn wake(&mut self, woken: impl Fn(Wait) -> bool) {
        let mut overdue = u64::MAX;
        let (streams, ready) = (&self.streams, &mut self.ready);
        self.waiting.retain(|&(stream, wait)| {
            let Some(head) = streams[stream].head else {
                return false;
            };
            if woken(wait) {
                ready.push(Reverse((head.time, stream)));
                return false;
            }
            overdue = overdue.min(head.upper);
            true
        });
        self.overdue = overdue;
    }

    /// Whether the waiting head and the step that took its key could have come in the
    /// other order: their times overlap, and another stream than that step's could have
    /// freed (or allocated) the key again in time.
    fn competes(&self, stream: usize, head: &Step) -> bool {
        let Some(rival) = self.speculative.recent(head.key) else {
            return false;
        };
        let step = rival.step;
        let rivals = rival.stream != stream && step.allocates == head.allocates;
        if !rivals || step.lower > head.upper || head.lower > step.upper {
            return false;
        }
        let mut others = (0..self.streams.len()).filter(|&other| other != rival.stream);
        others.any(|other| self.look_ahead(other, stream, head, step.upper) == Lookahead::Found)
    }

    /// Whether a stream's coming events, from its head on, will undo what
    /// keeps the head of the waiting stream from its turn.
    fn look_ahead(&self, stream: usize, waiting: usize, head: &Step, until: u64) -> Lookahead {
        let at = &self.streams[stream];
        let Some(next) = at.head else {
            return Lookahead::Absent;
        };
        if stream != waiting {
            if next.lower > until {
                return Lookahead::Absent;
            }
            if next.key == head.key && next.allocates != head.allocates {
                return Lookahead::Found;
            }
        }
        at.look_ahead(head.key, !head.allocates, until)
    }

    /// Whether it is simple at once that no order makes the head legal: nothing
    /// at its address can be put after it, and no other stream will undo it in
    /// time. To wait would only hold up others that are in order.
    fn is_lost_event(&self, stream: usize, head: &Step) -> bool {
        if self.speculative.recent(head.key).is_none() {
            return self.speculative.is_untouched(head.key) && self.is_alone(stream);
        }
        // The whole log is searched only if no other stream can unblock the head.
        let before = |step: &Step| step.upper.saturating_add(SLACK_NS) < head.lower;
        self.is_alone(stream) && self.speculative.all_at(head.key, before)
    }

    /// Whether no other stream will undo in time what the stream waits for.
    fn is_alone(&self, stream: usize) -> bool {
        let Some(head) = self.streams[stream].head else {
            return false;
        };
        let until = head.upper.saturating_add(SLACK_NS);
        let mut others = (0..self.streams.len()).filter(|&other| other != stream);
        others.all(|other| self.look_ahead(other, stream, &head, until) == Lookahead::Absent)
    }

    /// No stream can go on in time: finds a way out.
    #[cold]
    fn resolve(&mut self) -> Result<(), ReplayError> {
        let mut order = std::mem::take(&mut self.waiting);
        order.sort_by_key(|&(stream, _)| {
            let head = self.streams[stream].head;
            (head.map_or(u64::MAX, |head| head.upper), stream)
        });
        self.waiting = order.clone();
        if !self.ready.is_empty() {
            // The others may still find what they wait for.
            order.truncate(1);
        }
        for &(stream, wait) in &order {
            if matches!(wait, Wait::Key(_)) && self.try_other_order(stream) {
                return Ok(());
            }
        }
        for &(_, wait) in &order {
            if let Wait::Fork(fork) = wait {
                return self.pass_fork(fork);
            }
        }
        if !self.constraints.is_empty() {
            self.constraints.clear();
            self.wake(|wait| wait == Wait::OrderConstraint);
            return Ok(());
        }
        // Best the one that no other stream will unblock.
        let lonely = order.iter().find(|(stream, _)| self.is_alone(*stream));
        let Some(&(stream, _)) = lonely.or(order.first()) else {
            return Ok(());
        };
        if self.search(stream)? {
            return Ok(());
        }
        self.force(stream)
    }

    /// Places the head of a waiting stream although nothing makes it legal.
    fn force(&mut self, stream: usize) -> Result<(), ReplayError> {
        self.requeue_last();
        self.waiting.retain(|&(waiting, _)| waiting != stream);
        self.ready.retain(|&Reverse((_, ready))| ready != stream);
        self.wake(|_| false);
        match self.streams[stream].head {
            Some(head) => self.place(stream, head),
            None => Ok(()),
        }
    }

    /// Takes back the last choice at the address that the stream waits for, if
    /// the stream could have come first.
    fn try_other_order(&mut self, stream: usize) -> bool {
        let Some(head) = self.streams[stream].head.as_mut() else {
            return false;
        };
        if head.tries >= TRIES {
            return false;
        }
        head.tries += 1;
        let head = *head;
        let most = usize::try_from(self.rollback_budget).unwrap_or(usize::MAX);
        let (index, looked_at) = self.speculative.last_at(head.key, most);
        self.rollback_budget = self.rollback_budget.saturating_sub(looked_at as u64);
        let Some((index, rival)) = index.and_then(|i| Some((i, self.speculative.get(i)?))) else {
            return false;
        };
        let cost = (self.speculative.len() - index) as u64;
        let step = rival.step;
        let rivals = rival.stream != stream && step.allocates == head.allocates;
        if !rivals
            || head.lower > step.upper.saturating_add(SLACK_NS)
            || cost > self.rollback_budget
        {
            return false;
        }
        self.rollback_budget -= cost;
        if let Some(head) = self.streams[stream].head.as_mut() {
            head.ambiguous = false;
            head.ordered = true;
        }
        self.constraints.push(OrderConstraint {
            first: (stream, head.ordinal),
            then: (rival.stream, step.ordinal),
        });
        self.rollback_to(index);
        true
    }

    fn rollback_to(&mut self, index: usize) {
        while self.speculative.len() > index {
            let Some(placed) = self.speculative.undo() else {
                break;
            };
            self.take_back(&placed, self.speculative.len() == index);
        }
        self.start_over();
    }

    /// Makes a step that was undone its stream's head again.
    fn take_back(&mut self, placed: &Placed, ordered: bool) {
        let at = &mut self.streams[placed.stream];
        at.returned.extend(at.head.take());
        at.head = Some(Step {
            time: placed.estimate,
            ambiguous: false,
            ordered: placed.step.ordered || ordered,
            ..placed.step
        });
    }

    /// Lets every stream try its head again.
    fn start_over(&mut self) {
        self.waiting.clear();
        self.overdue = u64::MAX;
        self.turn = None;
        let heads = self.streams.iter().enumerate();
        self.ready = heads
            .filter_map(|(stream, at)| Some(Reverse((at.head?.time, stream))))
            .collect();
        self.commit_at = self.speculative.len() + COMMIT_EACH;
    }

    /// Gives the sink what no stream can reach back to: those that go on from
    /// `frontier`.
    fn commit(&mut self, frontier: u64) {
        let committed = |upper: u64| upper.saturating_add(SLACK_NS) < frontier;
        let mut count = self.speculative.commit(usize::MAX, committed, self.sink);
        if self.speculative.len() >= SPECULATIVE_LIMIT {
            let most = SPECULATIVE_LIMIT / 2;
            count += self.speculative.commit(most, |_| true, self.sink);
        }
        self.rollback_budget =
            (self.rollback_budget + count as u64 * ROLLBACK_BUDGET_EACH).min(ROLLBACK_BUDGET_LIMIT);
        self.commit_at = self.speculative.len() + COMMIT_EACH;
    }

    fn commit_all(&mut self) {
        self.speculative.commit(usize::MAX, |_| true, self.sink);
    }

    /// Passes every fork to which all its streams have come.
    fn pass_reached_forks(&mut self) -> Result<(), ReplayError> {
        // One that all have come to is the next of a stream, unless the points
        // contradict each other.
        let next_of = |merge: &Self, stream| {
            let (_, fork) = merge.open_forks.next(stream)?;
            merge.reached(fork).then_some(fork)
        };
        while let Some(fork) = (0..self.streams.len()).find_map(|it| next_of(self, it)) {
            self.pass_fork(fork)?;
        }
        Ok(())
    }

    fn reached(&self, fork: usize) -> bool {
        let points = &self.forks[fork].points;
        let passed = |&(stream, point): &(usize, u64)| {
            let head = self.streams[stream].head;
            head.is_none_or(|head| head.ordinal >= point)
        };
        !points.is_empty() && points.iter().all(passed)
    }

    fn pass_fork(&mut self, fork: usize) -> Result<(), ReplayError> {
        if !self.open_forks.is_open(fork) {
            return Ok(());
        }
        self.open_forks.close(fork, &self.forks[fork]);
        self.commit_all();
        self.constraints.clear();
        self.sink.fork(fork, self.speculative.live())?;
        self.wake(|wait| matches!(wait, Wait::Fork(_) | Wait::OrderConstraint));
        Ok(())
    }
}
