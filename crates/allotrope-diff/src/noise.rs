//! What several runs of one program say about chance: whether a difference lies
//! within what the runs of a side differ by among themselves.

use crate::classes::Classes;
use crate::match_by_name::Match;

/// Splits matches into those that changed and those that only jitter. With one
/// run a side nothing is known to jitter.
pub(crate) fn split(classes: &Classes<'_>, matches: Vec<Match>) -> (Vec<Match>, Vec<Match>) {
    if classes.table.runs.len() <= 2 {
        return (matches, Vec::new());
    }
    matches
        .into_iter()
        .partition(|matched| !is_jitter(classes, matched))
}

/// The runs of a side scatter, and the two sides are no further apart than a
/// side is wide: two or three runs seldom hit both ends of their range, so that
/// ranges which only just miss each other prove nothing.
fn is_jitter(classes: &Classes<'_>, matched: &Match) -> bool {
    let [before, after] = classes.spreads(&classes.by_run(&matched.classes));
    let width = (before.end - before.start).max(after.end - after.start);
    let apart =
        (after.start.saturating_sub(before.end)).max(before.start.saturating_sub(after.end));
    width > 0 && apart <= width
}
