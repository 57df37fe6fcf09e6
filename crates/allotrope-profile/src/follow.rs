//! Replays an image with a single stream, whose events have one order.

use crate::cursor::Cursor;
use crate::error::ReplayError;
use crate::live::NumberedBlocks;
use crate::merge::{Fork, Sink};
use crate::source::TraceSource;
use crate::subject::Subject;

/// Gives the events of the cursor, if there is one, to the sink; `live` is what
/// was inherited. Gives what is live at the end.
pub(crate) fn follow<S: TraceSource, K: Sink>(
    cursor: Option<Cursor<'_, S>>,
    mut live: NumberedBlocks,
    forks: &[Fork],
    sink: &mut K,
) -> Result<NumberedBlocks, ReplayError> {
    let point = |fork: usize| forks[fork].points.first().map_or(u64::MAX, |point| point.1);
    let mut order: Vec<usize> = (0..forks.len()).collect();
    order.sort_by_key(|&fork| point(fork));
    let mut next = order.into_iter().peekable();
    let Some(mut cursor) = cursor else {
        return finish(next, live, sink);
    };
    loop {
        let until = next.peek().map_or(u64::MAX, |&fork| point(fork));
        if let Some(stretch) = cursor.numbered_stretch(until)? {
            let taken = sink.numbered(&stretch, &mut live);
            if taken > 0 {
                cursor.pass(taken);
                continue;
            }
        }
        let Some(step) = cursor.next()? else {
            return finish(next, live, sink);
        };
        while let Some(fork) = next.next_if(|&fork| point(fork) <= step.ordinal) {
            sink.fork(fork, &live)?;
        }
        let without_subject = step.allocates && step.subject == Subject::NONE;
        let replaced = without_subject.then(|| cursor.take_replaced()).flatten();
        let blocks = live.apply(&step, replaced);
        sink.step(&step, blocks, &mut live);
        live.forget(step.allocates, blocks);
    }
}

/// The forks that lie behind the last event.
fn finish<K: Sink>(
    forks: impl Iterator<Item = usize>,
    live: NumberedBlocks,
    sink: &mut K,
) -> Result<NumberedBlocks, ReplayError> {
    for fork in forks {
        sink.fork(fork, &live)?;
    }
    Ok(live)
}
