//! Merges matches that rose with matches that fell where one turned into the
//! other piece by piece. Compilers that inline differently spread a function's
//! allocations over other stacks, so that no two of these balance.

use rustc_hash::FxHashMap;

use crate::assign::main_class;
use crate::classes::Classes;
use crate::keys::{self, MatchLevel};
use crate::match_by_name::Match;

/// Merges matches with the same own functions if some rose and some fell. A
/// match that balances is left alone.
pub(crate) fn same_functions(classes: &Classes<'_>, matches: Vec<Match>) -> Vec<Match> {
    let mut netted = Vec::new();
    for group in groups(classes, matches, MatchLevel::GlueIgnored) {
        let matches = group.into_iter().map(|(_, matched)| matched);
        let (balanced, others): (Vec<_>, Vec<_>) =
            matches.partition(|matched| matched.difference() == 0);
        netted.extend(balanced);
        let (rose, fell): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|matched| matched.difference() > 0);
        if rose.is_empty() || fell.is_empty() {
            netted.extend(rose.into_iter().chain(fell));
        } else {
            let all = rose.iter().chain(&fell);
            netted.push(merge(classes, all, MatchLevel::GlueIgnored));
        }
    }
    netted
}

/// Merges a match whose functions both sides have with those of the opposite
/// sign that equal it but for functions that only one side has. These were
/// inlined into its functions, or are no longer.
pub(crate) fn inlined_functions(classes: &Classes<'_>, matches: Vec<Match>) -> Vec<Match> {
    let mut netted = Vec::new();
    for group in groups(classes, matches, MatchLevel::CommonOnly) {
        let (plain, others): (Vec<_>, Vec<_>) = group.into_iter().partition(|(plain, _)| *plain);
        let plain: Vec<Match> = plain.into_iter().map(|(_, matched)| matched).collect();
        let change: i64 = plain.iter().map(Match::difference).sum();
        let others = others.into_iter().map(|(_, matched)| matched);
        let (opposite, same_sign): (Vec<_>, Vec<_>) =
            others.partition(|matched| matched.difference().signum() == -change.signum());
        netted.extend(same_sign);
        if plain.is_empty() || opposite.is_empty() {
            netted.extend(plain.into_iter().chain(opposite));
        } else {
            let all = plain.iter().chain(&opposite);
            netted.push(merge(classes, all, MatchLevel::CommonOnly));
        }
    }
    netted
}

fn merge<'t>(
    classes: &Classes<'_>,
    matches: impl Iterator<Item = &'t Match>,
    level: MatchLevel,
) -> Match {
    let mut confidence = level.confidence();
    let mut members = Vec::new();
    for matched in matches {
        confidence = confidence.min(matched.confidence);
        members.extend_from_slice(&matched.classes);
    }
    Match::new(classes, members, confidence)
}

/// The matches grouped by their key at a level, each with whether both sides
/// have all of its own functions.
fn groups(
    classes: &Classes<'_>,
    matches: Vec<Match>,
    level: MatchLevel,
) -> impl Iterator<Item = Vec<(bool, Match)>> {
    let mut groups: FxHashMap<u128, Vec<(bool, Match)>> = FxHashMap::default();
    let (mut frames, mut names) = (Vec::new(), Vec::new());
    let table = &classes.table;
    for matched in matches {
        classes.stack(main_class(classes, &matched), &mut frames);
        keys::reduce(table, &frames, level, &mut names);
        let own = |frame: &&u32| !table.is_glue(**frame);
        let plain = !frames
            .iter()
            .filter(own)
            .any(|&frame| table.is_replaceable(frame));
        let key = keys::hash(names.iter().copied());
        groups.entry(key).or_default().push((plain, matched));
    }
    groups.into_values()
}
