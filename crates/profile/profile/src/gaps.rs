//! When events of a process are missing. A recorder counts what it could not record; the
//! collector looks at the counts each 100 ms or so and writes what has been added, before it
//! reads the resident memory. So events were lost after the sample of the resident memory
//! before the last one, and before the record.

use allotrope_trace::model::LossReason;

use crate::gap::Gap;
use crate::index::{Image, Index};

/// The gaps of an image that ended, or was last seen, at `end_ns`.
pub(crate) fn gaps_of<H>(index: &Index<H>, image: &Image<H>, end_ns: u64) -> Vec<Gap> {
    let ns = |tick| index.timeline.ns(tick);
    let start_ns = ns(image.start.tick);
    let mut gaps = Vec::new();
    for loss in &image.lost {
        let looked = image
            .resident
            .partition_point(|sample| sample.tick < loss.tick);
        let before = looked.checked_sub(2).map(|at| ns(image.resident[at].tick));
        let noticed_ns = ns(loss.tick).clamp(start_ns, end_ns.max(start_ns));
        let from_ns = before.unwrap_or(start_ns).clamp(start_ns, noticed_ns);
        // What follows damage in a buffer is not read.
        let is_last = loss.reason == LossReason::Corrupt;
        gaps.push(Gap {
            from_ns,
            to_ns: Some(if is_last { end_ns } else { noticed_ns }),
            events: loss.events,
        });
    }
    let is_whole = image.end.is_some_and(|end| end.complete);
    if !is_whole && !image.lost.iter().any(|it| it.reason == LossReason::Corrupt) {
        let chunks = image.streams.values().flatten();
        let last = chunks.filter_map(|chunk| chunk.last_tick).max();
        gaps.push(Gap {
            from_ns: last
                .map_or(start_ns, ns)
                .clamp(start_ns, end_ns.max(start_ns)),
            to_ns: image.end.map(|_| end_ns),
            events: 0,
        });
    }
    joined(gaps)
}

/// Sorts gaps and joins those that overlap.
fn joined(mut gaps: Vec<Gap>) -> Vec<Gap> {
    gaps.sort_by_key(|gap| gap.from_ns);
    let mut joined: Vec<Gap> = Vec::new();
    for gap in gaps {
        match joined.last_mut() {
            // A gap without a known number stays one.
            Some(last)
                if last.to_ns.is_none_or(|to| gap.from_ns < to)
                    && (last.events == 0) == (gap.events == 0) =>
            {
                let ends = last.to_ns.zip(gap.to_ns);
                last.to_ns = ends.map(|(a, b)| a.max(b));
                last.events = last.events.saturating_add(gap.events);
            }
            _ => joined.push(gap),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(from_ns: u64, to_ns: Option<u64>, events: u64) -> Gap {
        Gap {
            from_ns,
            to_ns,
            events,
        }
    }

    #[test]
    fn gaps_that_overlap_are_joined() {
        let gaps = vec![
            gap(20, Some(30), 5),
            gap(0, Some(10), 1),
            gap(5, Some(12), 2),
            gap(12, Some(15), 4),
            gap(25, None, 0),
        ];
        let expected = [
            gap(0, Some(12), 3),
            gap(12, Some(15), 4),
            gap(20, Some(30), 5),
            gap(25, None, 0),
        ];
        assert_eq!(joined(gaps), expected);
    }
}
