//! Merges matches that rose with matches that fell. A compiler that inlines
//! differently distributes a function's allocations over other stacks: the figures
//! of single stacks then differ, but their sum hardly does.

use rustc_hash::FxHashMap;

use crate::assign::main_class;
use crate::classes::Classes;
use crate::keys;
use crate::match_by_name::Match;
use crate::match_level::MatchLevel;

/// Merges matches with the same own functions if some rose and some fell. A
/// match that balances or whose stack stays is not merged.
pub(crate) fn same_functions(classes: &Classes<'_>, matches: Vec<Match>) -> Vec<Match> {
    let mut netted = Vec::new();
    for group in groups(classes, matches, MatchLevel::GlueIgnored) {
        let matches = group.into_iter().map(|(_, matched)| matched);
        let (kept, others): (Vec<_>, Vec<_>) = matches.partition(|matched| {
            matched.difference() == 0 || matched.stays(classes, MatchLevel::GlueIgnored)
        });
        netted.extend(kept);
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

/// Merges a match whose functions exist on both sides with matches of the
/// opposite sign that differ from it only by functions that one side lacks. Those
/// functions were inlined into the match's functions, or are no longer inlined.
pub(crate) fn inlined_functions(classes: &Classes<'_>, matches: Vec<Match>) -> Vec<Match> {
    let mut netted = Vec::new();
    let (staying, matches): (Vec<_>, Vec<_>) = matches
        .into_iter()
        .partition(|matched| matched.stays(classes, MatchLevel::CommonOnly));
    netted.extend(staying);
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
