//! Puts the events of an image's streams into one order that agrees with each
//! stream's own order, with the times between which each event lies, and with
//! the rule that allocation and deallocation of one key alternate.
//!
//! An event that keeps the rule is *legal*; the next event of a stream is its *head*;
//! to *place* an event is to append it to the order. The aggregation calls [`merge()`] once
//! for each image.
//!
//! The merge always takes the stream whose head has the earliest estimated time. An
//! illegal head waits until an event of another stream makes it legal. If no stream can
//! do so before the head's latest possible time, the merge rolls back to the last choice
//! at that key and takes the waiting stream first (`try_other_order`). If that is not
//! possible, it tries every other order (`search`). If that fails too, an event is
//! missing from the trace: the merge places the waiting head although it is illegal
//! (`force`), and the accumulator counts the loss.
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
//! Two fast paths lead to the same order: `alone` takes the events of one stream that
//! precede all remaining events of the others; `fast_path` merges while every event is
//! legal.
//!
//! A fork is a barrier: each stream of the parent stops at the ordinal that the trace
//! names for it until all have reached theirs. So the child inherits exactly the blocks
//! that were live at the fork.

mod alone;
mod fast_path;
mod forks;
mod search;
mod stream;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::cursor::{Cursor, Lookahead};
use crate::error::AggregateError;
use crate::live::LiveBlocks;
use crate::sink::Sink;
use crate::source::TraceSource;
use crate::speculative::{Placed, SpeculativeLog};
use crate::step::Step;
use forks::OpenForks;
use stream::Stream;

/// Tolerance in nanoseconds: the time stamp counters of two cores agree within this.
const SLACK_NS: u64 = 1_000;
/// The merge commits after this many placed steps.
const COMMIT_EACH: usize = 1 << 9;
/// Largest number of steps whose order may still change.
const SPECULATIVE_LIMIT: usize = 1 << 16;
/// Each committed step adds this many steps to the rollback budget. The budget keeps the
/// time spent on other orders proportional to the length of the trace, whatever a
/// damaged or hostile trace contains.
const ROLLBACK_BUDGET_EACH: u64 = 1;
const ROLLBACK_BUDGET_LIMIT: u64 = 1 << 20;
/// How many times the merge tries another order because of one event.
const TRIES: u8 = 2;

/// The positions of a fork in the parent's streams.
pub(crate) struct Fork {
    /// (index of the stream, ordinal of its first event after the fork).
    pub points: Vec<(usize, u64)>,
}

/// Passes the events of all cursors to the sink in one order. `live` holds the inherited
/// blocks. Returns the blocks that are live at the end.
pub(crate) fn merge<S: TraceSource, K: Sink>(
    cursors: Vec<Cursor<'_, S>>,
    live: LiveBlocks,
    forks: &[Fork],
    sink: &mut K,
) -> Result<LiveBlocks, AggregateError> {
    let count = cursors.len();
    let mut merge = Merge {
        streams: cursors.into_iter().map(Stream::new).collect(),
        ready: BinaryHeap::new(),
        last_read: None,
        waiting: Vec::new(),
        overdue: u64::MAX,
        speculative: SpeculativeLog::new(live),
        constraints: Vec::new(),
        rollback_budget: ROLLBACK_BUDGET_LIMIT,
        commit_at: COMMIT_EACH,
        steps_until_fast_path: 0,
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
    /// An event at this key that makes the head legal.
    Key(u64),
    /// The event that an [`OrderConstraint`] puts before the head.
    OrderConstraint,
    /// All streams reaching the fork.
    Fork(usize),
}

/// Event `then` must not be placed before event `first`: the opposite order led to a
/// dead end and was rolled back. Events are (stream, ordinal).
#[derive(Clone, Copy, PartialEq, Eq)]
struct OrderConstraint {
    first: (usize, u64),
    then: (usize, u64),
}

struct Merge<'a, 'k, S: TraceSource, K> {
    streams: Vec<Stream<'a, S>>,
    /// (estimated time of the head, stream) of the streams that do not wait: a priority
    /// queue, the earliest first.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    /// (Estimated time of the head, stream) of the stream whose head was read last. It is kept out
    /// of the queue because it is mostly the earliest again.
    last_read: Option<(u64, usize)>,
    waiting: Vec<(usize, Wait)>,
    /// The earliest `upper` of the waiting heads; `u64::MAX` if none waits.
    overdue: u64,
    speculative: SpeculativeLog,
    constraints: Vec<OrderConstraint>,
    rollback_budget: u64,
    /// The length of the log at which to commit next.
    commit_at: usize,
    /// Iterations of [`Self::run`] before [`Self::fast_path`] is tried again.
    steps_until_fast_path: u32,
    forks: &'k [Fork],
    open_forks: OpenForks,
    sink: &'k mut K,
}

impl<S: TraceSource, K: Sink> Merge<'_, '_, S, K> {
    fn run(&mut self) -> Result<(), AggregateError> {
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
                self.resolve_deadlock()?;
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

    /// Makes a stream's next event its head. The end of a stream may complete a fork.
    fn advance(&mut self, stream: usize) -> Result<(), AggregateError> {
        if self.read_head(stream)? {
            return Ok(());
        }
        self.pass_reached_forks()
    }

    /// Makes a stream's next event its head; `false` at the stream's end.
    fn read_head(&mut self, stream: usize) -> Result<bool, AggregateError> {
        self.requeue_last();
        let at = &mut self.streams[stream];
        at.advance()?;
        self.last_read = at.head.map(|head| (head.time, stream));
        Ok(at.head.is_some())
    }

    /// Moves the stream whose head was read last to `ready`.
    fn requeue_last(&mut self) {
        self.ready.extend(self.last_read.take().map(Reverse));
    }

    /// Takes the stream to try next out of the queue. While an event waits, this is only
    /// a stream that may still have events before the waiting one; the others would run
    /// ahead.
    fn choose(&mut self) -> Option<usize> {
        if let Some((time, stream)) = self.last_read
            && self.overdue == u64::MAX
            && self
                .ready
                .peek()
                .is_none_or(|&Reverse(next)| (time, stream) < next)
        {
            self.last_read = None;
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

    /// Whether placing events of `stream` may make the overdue head legal, directly or
    /// through another waiting stream. Other streams are not tried: the next events of a
    /// thread that slept for long could lie anywhere in that time, and must not be
    /// placed earlier than their estimate without need.
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

    /// Places a stream's head, or makes the stream wait.
    fn attempt(&mut self, stream: usize) -> Result<(), AggregateError> {
        let Some(head) = self.streams[stream].head else {
            return Ok(());
        };
        if let Some(fork) = self.open_forks.before(stream, head.ordinal) {
            self.wait(stream, Wait::Fork(fork));
            return self.pass_reached_forks();
        }
        let event = (stream, head.ordinal);
        if self
            .constraints
            .iter()
            .any(|constraint| constraint.then == event)
        {
            self.wait(stream, Wait::OrderConstraint);
            return Ok(());
        }
        if !self.speculative.allows(&head) {
            if self.is_lost_event(stream, &head) {
                return self.place(stream, head);
            }
            let ambiguous = !head.ambiguous && !head.ordered && self.is_ambiguous(stream, &head);
            if let Some(head) = self.streams[stream].head.as_mut() {
                head.ambiguous |= ambiguous;
            }
            self.wait(stream, Wait::Key(head.key));
            return Ok(());
        }
        self.place(stream, head)
    }

    /// Places the head of a stream and wakes the streams that waited for it.
    fn place(&mut self, stream: usize, head: Step) -> Result<(), AggregateError> {
        self.speculative.place(stream, head, self.overdue);
        if !self.waiting.is_empty() {
            self.wake(|wait| wait == Wait::Key(head.key));
        }
        if !self.constraints.is_empty() {
            let event = (stream, head.ordinal);
            let before = self.constraints.len();
            self.constraints
                .retain(|constraint| constraint.first != event);
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

    /// Returns the streams whose wait is over to the queue, and recomputes `overdue`.
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

    /// Whether the waiting head and the last step at its key (the rival) could also have
    /// happened in the opposite order: their times overlap, and a stream other than the
    /// rival's has an event that makes the rival legal in time after the head.
    fn is_ambiguous(&self, stream: usize, head: &Step) -> bool {
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

    /// Whether `stream` has an event before `until`, from its head on, that makes the
    /// head of the waiting stream legal.
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

    /// Whether no order can make the illegal head legal, because an event is missing from
    /// the trace: every speculative step at its key precedes it for certain, and no other
    /// stream has an event that makes it legal in time. Waiting would only delay streams
    /// whose events are in order.
    fn is_lost_event(&self, stream: usize, head: &Step) -> bool {
        if self.speculative.recent(head.key).is_none() {
            return self.speculative.is_untouched(head.key) && self.none_can_unblock(stream);
        }
        // The whole log is searched only if no other stream can unblock the head.
        let before = |step: &Step| step.upper.saturating_add(SLACK_NS) < head.lower;
        self.none_can_unblock(stream) && self.speculative.all_at(head.key, before)
    }

    /// Whether certainly no other stream has an event that makes the stream's head legal
    /// in time.
    fn none_can_unblock(&self, stream: usize) -> bool {
        let Some(head) = self.streams[stream].head else {
            return false;
        };
        let until = head.upper.saturating_add(SLACK_NS);
        let mut others = (0..self.streams.len()).filter(|&other| other != stream);
        others.all(|other| self.look_ahead(other, stream, &head, until) == Lookahead::Absent)
    }

    /// Resolves a deadlock: streams wait, and no other stream can be tried in time.
    #[cold]
    fn resolve_deadlock(&mut self) -> Result<(), AggregateError> {
        let mut order = std::mem::take(&mut self.waiting);
        order.sort_by_key(|&(stream, _)| {
            let head = self.streams[stream].head;
            (head.map_or(u64::MAX, |head| head.upper), stream)
        });
        self.waiting = order.clone();
        if !self.ready.is_empty() {
            // Only the overdue one: events that the others wait for may still come.
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
        // Preferably a stream that no other one can unblock.
        let blocked = order
            .iter()
            .find(|(stream, _)| self.none_can_unblock(*stream));
        let Some(&(stream, _)) = blocked.or(order.first()) else {
            return Ok(());
        };
        if self.search(stream)? {
            return Ok(());
        }
        self.force(stream)
    }

    /// Places the head of a waiting stream although nothing makes it legal.
    fn force(&mut self, stream: usize) -> Result<(), AggregateError> {
        self.requeue_last();
        self.waiting.retain(|&(waiting, _)| waiting != stream);
        self.ready.retain(|&Reverse((_, ready))| ready != stream);
        self.wake(|_| false);
        match self.streams[stream].head {
            Some(head) => self.place(stream, head),
            None => Ok(()),
        }
    }

    /// Rolls back to before the last step at the key that the stream waits for, and
    /// constrains the stream's head to come first. `false`, and nothing changed but the
    /// count of tries and the budget, if the head cannot have come before that step.
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
        let (index, searched) = self.speculative.last_at(head.key, most);
        self.rollback_budget = self.rollback_budget.saturating_sub(searched as u64);
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

    /// Rolls back the step at this index of the log and all after it. That step is the
    /// one whose order is changed on purpose.
    fn rollback_to(&mut self, index: usize) {
        while self.speculative.len() > index {
            let Some(placed) = self.speculative.undo() else {
                break;
            };
            self.return_to_stream(&placed, self.speculative.len() == index);
        }
        self.requeue_all();
    }

    /// Makes a step that was rolled back its stream's head again. With `ordered` it is
    /// no longer counted as ambiguous.
    fn return_to_stream(&mut self, placed: &Placed, ordered: bool) {
        let at = &mut self.streams[placed.stream];
        at.returned.extend(at.head.take());
        at.head = Some(Step {
            time: placed.estimate,
            ambiguous: false,
            ordered: placed.step.ordered || ordered,
            ..placed.step
        });
    }

    /// Ends all waits and rebuilds the queue from the heads, after these were changed.
    fn requeue_all(&mut self) {
        self.waiting.clear();
        self.overdue = u64::MAX;
        self.last_read = None;
        let heads = self.streams.iter().enumerate();
        self.ready = heads
            .filter_map(|(stream, at)| Some(Reverse((at.head?.time, stream))))
            .collect();
        self.commit_at = self.speculative.len() + COMMIT_EACH;
    }

    /// Commits the steps that certainly happened before `frontier`, the earliest time
    /// that any stream's next event can have; and the older half of the log if it is
    /// full.
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

    /// Passes every fork that all its streams have reached.
    fn pass_reached_forks(&mut self) -> Result<(), AggregateError> {
        // A fork that all its streams have reached is the next one of some stream, unless
        // the fork points contradict each other.
        let next_of = |merge: &Self, stream| {
            let (_, fork) = merge.open_forks.next(stream)?;
            merge.reached(fork).then_some(fork)
        };
        while let Some(fork) = (0..self.streams.len()).find_map(|it| next_of(self, it)) {
            self.pass_fork(fork)?;
        }
        Ok(())
    }

    /// Whether all streams of the fork have reached it.
    fn reached(&self, fork: usize) -> bool {
        let points = &self.forks[fork].points;
        let passed = |&(stream, point): &(usize, u64)| {
            let head = self.streams[stream].head;
            head.is_none_or(|head| head.ordinal >= point)
        };
        !points.is_empty() && points.iter().all(passed)
    }

    /// Commits everything, lets the sink aggregate the child, and wakes the streams that
    /// waited for the fork.
    fn pass_fork(&mut self, fork: usize) -> Result<(), AggregateError> {
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
