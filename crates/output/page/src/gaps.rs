//! The times in which events of processes are missing, as columns.

use allotrope_profile::{Gap, Process};

use crate::columns::Columns;

/// The most gaps of a process; neighbours are joined.
const MAX_GAPS: usize = 200;

/// Encodes the gaps of all processes.
pub fn encode(columns: &mut Columns, all: &[&Process]) {
    let gaps: Vec<Vec<Gap>> = all.iter().map(|it| few(&it.gaps)).collect();
    let complete = all.iter().map(|it| it.complete.into());
    columns.numbers("process.complete", complete);
    columns.numbers("process.gaps", gaps.iter().map(|it| it.len() as u64));
    let each = || gaps.iter().flatten();
    columns.differences("gap.from_ns", each().map(|it| it.from_ns));
    // 0: it has no end.
    let lasted = |it: &Gap| Some(it.to_ns?.saturating_sub(it.from_ns) + 1);
    columns.numbers("gap.lasted_ns", each().map(|it| lasted(it).unwrap_or(0)));
    columns.numbers("gap.events", each().map(|it| it.events));
}

/// Returns at most [`MAX_GAPS`]: neighbours become one, from the start of the first to the end of
/// the last.
fn few(gaps: &[Gap]) -> Vec<Gap> {
    let step = gaps.len().div_ceil(MAX_GAPS).max(1);
    let joined = gaps.chunks(step).filter_map(|some| {
        let (first, last) = (some.first()?, some.last()?);
        Some(Gap {
            from_ns: first.from_ns,
            to_ns: last.to_ns,
            events: some.iter().fold(0, |sum, it| sum.saturating_add(it.events)),
        })
    });
    joined.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_gaps_become_few_and_their_events_stay() {
        let gap = |at: u64| Gap {
            from_ns: at * 100,
            to_ns: Some(at * 100 + 30),
            events: at,
        };
        let gaps: Vec<Gap> = (0..1_000).map(gap).collect();
        let joined = few(&gaps);
        assert_eq!(joined.len(), MAX_GAPS);
        let events: u64 = joined.iter().map(|it| it.events).sum();
        assert_eq!(events, 1_000 * 999 / 2);
        // Five become one.
        let first = Gap {
            from_ns: 0,
            to_ns: Some(430),
            events: 1 + 2 + 3 + 4,
        };
        assert_eq!(joined[0], first);
        assert_eq!(few(&gaps[..7]), gaps[..7]);
    }
}
