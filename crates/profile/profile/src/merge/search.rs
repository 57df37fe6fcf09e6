//! The last resort before an event is taken for lost: a depth-first search with
//! backtracking. It rolls back step by step and tries every other order, until one gets
//! past the dead end.
//!
//! Which keys are live depends only on the position of each stream, not on the order in
//! which the streams got there. So the search stores a hash of each combination of
//! positions that led to a dead end, and does not enter it again.

use rustc_hash::FxHashSet;

use super::{Merge, SLACK_NS, Sink};
use crate::error::AggregateError;
use crate::source::TraceSource;

/// Largest number of steps placed or rolled back in one search.
const LIMIT: u64 = 1 << 14;

/// What the search must reach: every stream at least at its position at the dead end, and
/// the stuck stream one step further.
struct Goal {
    /// Number of steps, by stream, that are missing to that position; negative beyond it.
    missing: Vec<i64>,
    /// Number of streams that miss steps.
    unmet: usize,
}

impl Goal {
    fn new(streams: usize, stuck: usize) -> Self {
        let mut missing = vec![0; streams];
        missing[stuck] = 1;
        Self { missing, unmet: 1 }
    }

    fn placed(&mut self, stream: usize) {
        self.missing[stream] -= 1;
        self.unmet -= usize::from(self.missing[stream] == 0);
    }

    fn undone(&mut self, stream: usize) {
        self.unmet += usize::from(self.missing[stream] == 0);
        self.missing[stream] += 1;
    }
}

impl<S: TraceSource, K: Sink> Merge<'_, '_, S, K> {
    /// Searches an order that places the head of the stuck stream and leaves no other
    /// stream behind its present position. `false` if none was found; then the log is
    /// as before.
    pub(super) fn search(&mut self, stuck: usize) -> Result<bool, AggregateError> {
        let mut goal = Goal::new(self.streams.len(), stuck);
        let mut dead = FxHashSet::default();
        // Streams of the steps that were in the log before, the newest first.
        let mut before: Vec<usize> = Vec::new();
        let mut depth = self.speculative.len();
        let mut shallowest = depth;
        let budget = self.rollback_budget.min(LIMIT);
        let mut spent = 0;
        while goal.unmet > 0 && spent < budget {
            if let Some(stream) = self.next_untried(&goal, &dead) {
                self.place_head(stream)?;
                goal.placed(stream);
                depth += 1;
            } else {
                dead.insert(key(&goal.missing));
                let Some(stream) = self.undo_one() else {
                    break;
                };
                goal.undone(stream);
                depth -= 1;
                if depth < shallowest {
                    shallowest = depth;
                    before.push(stream);
                }
            }
            spent += 1;
        }
        self.rollback_budget = self.rollback_budget.saturating_sub(spent);
        if goal.unmet > 0 {
            while self.speculative.len() > shallowest {
                self.undo_one();
            }
            for stream in before.into_iter().rev() {
                self.place_head(stream)?;
            }
        }
        self.requeue_all();
        Ok(goal.unmet == 0)
    }

    /// The stream with the earliest head that may be placed next and does not lead to a
    /// known dead end.
    fn next_untried(&self, goal: &Goal, dead: &FxHashSet<u64>) -> Option<usize> {
        let heads = || self.streams.iter().enumerate();
        let uppers = heads().filter_map(|(_, at)| at.head.map(|head| head.upper));
        let deadline = uppers.min()?.saturating_add(SLACK_NS);
        let here = key(&goal.missing);
        heads()
            .filter_map(|(stream, at)| Some((at.head?, stream)))
            .filter(|(head, stream)| {
                head.lower <= deadline
                    && self.speculative.allows(head)
                    && !dead.contains(&moved(here, *stream, goal.missing[*stream]))
                    && self.open_forks.before(*stream, head.ordinal).is_none()
            })
            .min_by_key(|(head, stream)| (head.time, *stream))
            .map(|(_, stream)| stream)
    }

    fn place_head(&mut self, stream: usize) -> Result<(), AggregateError> {
        if let Some(head) = self.streams[stream].head {
            self.speculative.place(stream, head, head.upper);
            self.read_head(stream)?;
        }
        Ok(())
    }

    fn undo_one(&mut self) -> Option<usize> {
        let placed = self.speculative.undo()?;
        self.return_to_stream(&placed, true);
        Some(placed.stream)
    }
}

/// Hash of a combination of positions: the parts of all streams combined by exclusive or
/// (Zobrist hashing), so that [`moved`] can update it.
fn key(missing: &[i64]) -> u64 {
    let positions = missing.iter().enumerate();
    positions.fold(0, |sum, (stream, &steps)| sum ^ part(stream, steps))
}

/// The hash after this stream has advanced by one step.
fn moved(key: u64, stream: usize, missing: i64) -> u64 {
    key ^ part(stream, missing) ^ part(stream, missing - 1)
}

/// Hash of one stream's position, by splitmix64.
fn part(stream: usize, steps: i64) -> u64 {
    let mut x = (stream as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ steps.cast_unsigned();
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
