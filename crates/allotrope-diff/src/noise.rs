//! Separates changes from jitter: with several runs a side, a difference is
//! jitter if it is no larger than the differences among the runs of one side.

use crate::classes::Classes;
use crate::match_by_name::Match;

/// Splits matches into those that changed and those that jitter. With one run a
/// side all of them changed.
pub(crate) fn split(classes: &Classes<'_>, matches: Vec<Match>) -> (Vec<Match>, Vec<Match>) {
    if classes.table.runs.len() <= 2 {
        return (matches, Vec::new());
    }
    matches
        .into_iter()
        .partition(|matched| !is_jitter(classes, matched))
}

/// The figures of a side's runs span a range. A match jitters if at least one
/// range is wider than 0 and the gap between the two ranges is no wider than
/// the wider range. Ranges that just miss each other prove nothing, because two
/// or three runs rarely hit both ends of their range.
fn is_jitter(classes: &Classes<'_>, matched: &Match) -> bool {
    let [before, after] = classes.spreads(&classes.by_run(&matched.classes));
    let width = (before.end - before.start).max(after.end - after.start);
    let apart =
        (after.start.saturating_sub(before.end)).max(before.start.saturating_sub(after.end));
    width > 0 && apart <= width
}
