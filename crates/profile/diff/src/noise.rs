//! Separates changes from jitter: with several runs a side, a difference is
//! jitter if it is no larger than the differences among the runs of one side.

use std::cmp::Reverse;

use crate::Side;
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

/// Splits matches like [`split`] if the totals are known to differ by more than their
/// noise, although each stack alone may only jitter. Then the stacks whose medians moved
/// most in the direction of the totals are changes, too: as many as it takes to explain
/// half of the difference.
pub(crate) fn split_of_different_totals(
    classes: &Classes<'_>,
    matches: Vec<Match>,
) -> (Vec<Match>, Vec<Match>) {
    let (mut changed, jitter) = split(classes, matches);
    let [before, after] = classes
        .representative_runs
        .map(|run| classes.totals[run as usize] as i64);
    let direction = (after - before).signum();
    let mut missing = (after - before).abs();
    let explained: i64 = changed.iter().map(Match::difference).sum();
    missing = missing / 2 + missing % 2 - direction * explained;
    let mut jitter: Vec<(i64, u128, Match)> = jitter
        .into_iter()
        .map(|matched| {
            // The figures that are shown are those of one run a side.
            let moved = match direction * matched.difference() > 0 {
                true => direction * median_difference(classes, &matched),
                false => 0,
            };
            let keys = matched.classes.iter().map(|&class| classes.key(class));
            (moved, keys.min().unwrap_or_default(), matched)
        })
        .collect();
    jitter.sort_by_key(|(moved, key, _)| (Reverse(*moved), *key));
    let named = jitter.iter().take_while(|(moved, ..)| {
        let is_named = *moved > 0 && missing > 0;
        missing -= moved;
        is_named
    });
    let named = named.count();
    let rest = jitter.split_off(named);
    changed.extend(jitter.into_iter().map(|(.., matched)| matched));
    (
        changed,
        rest.into_iter().map(|(.., matched)| matched).collect(),
    )
}

/// The difference between the medians of the runs of the sides, the lower of two.
fn median_difference(classes: &Classes<'_>, matched: &Match) -> i64 {
    let counted = classes.by_run(&matched.classes);
    let [before, after] = [Side::Before, Side::After].map(|side| {
        let runs = classes.table.runs.iter().zip(&counted);
        let of_side = runs.filter(|(run, _)| run.side == side);
        let mut values: Vec<u64> = of_side.map(|(_, &value)| value).collect();
        values.sort_unstable();
        let middle = values.len().saturating_sub(1) / 2;
        values.get(middle).map_or(0, |&value| value as i64)
    });
    after - before
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
