//! Sets off against each other what rose and what fell where one became the
//! other in parts: compilers that inline differently spread the allocations of
//! a function over other stacks, so that no two of them balance.

use rustc_hash::FxHashMap;

use crate::assign::main_class;
use crate::classes::Classes;
use crate::keys::{self, Closeness};
use crate::peel::Settled;

/// Makes one thing of all with the same own functions that rose or fell, if some
/// did the one and some the other. What balances by itself has nothing to set off.
pub(crate) fn same_functions(classes: &Classes<'_>, things: Vec<Settled>) -> Vec<Settled> {
    let mut netted = Vec::new();
    for group in groups(classes, things, Closeness::GlueIgnored) {
        let things = group.into_iter().map(|(_, thing)| thing);
        let (balanced, others): (Vec<_>, Vec<_>) =
            things.partition(|thing| thing.difference() == 0);
        netted.extend(balanced);
        let (rose, fell): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|thing| thing.difference() > 0);
        if rose.is_empty() || fell.is_empty() {
            netted.extend(rose.into_iter().chain(fell));
        } else {
            let all = rose.iter().chain(&fell);
            netted.push(merge(classes, all, Closeness::GlueIgnored));
        }
    }
    netted
}

/// Makes one thing of a stack whose functions both sides have, and of those
/// that are it but for functions which one side has: these came out of its
/// functions or went into them.
pub(crate) fn inlined_functions(classes: &Classes<'_>, things: Vec<Settled>) -> Vec<Settled> {
    let mut netted = Vec::new();
    for group in groups(classes, things, Closeness::CommonOnly) {
        let (plain, others): (Vec<_>, Vec<_>) = group.into_iter().partition(|(plain, _)| *plain);
        let plain: Vec<Settled> = plain.into_iter().map(|(_, thing)| thing).collect();
        let change: i64 = plain.iter().map(Settled::difference).sum();
        let others = others.into_iter().map(|(_, thing)| thing);
        let (opposite, alike): (Vec<_>, Vec<_>) =
            others.partition(|thing| thing.difference().signum() == -change.signum());
        netted.extend(alike);
        if plain.is_empty() || opposite.is_empty() {
            netted.extend(plain.into_iter().chain(opposite));
        } else {
            let all = plain.iter().chain(&opposite);
            netted.push(merge(classes, all, Closeness::CommonOnly));
        }
    }
    netted
}

fn merge<'t>(
    classes: &Classes<'_>,
    things: impl Iterator<Item = &'t Settled>,
    closeness: Closeness,
) -> Settled {
    let mut confidence = closeness.confidence();
    let mut members = Vec::new();
    for thing in things {
        confidence = confidence.min(thing.confidence);
        members.extend_from_slice(&thing.classes);
    }
    Settled::new(classes, members, confidence)
}

/// The things by what they look like, each with whether both sides have all its
/// own functions.
fn groups(
    classes: &Classes<'_>,
    things: Vec<Settled>,
    closeness: Closeness,
) -> impl Iterator<Item = Vec<(bool, Settled)>> {
    let mut groups: FxHashMap<u128, Vec<(bool, Settled)>> = FxHashMap::default();
    let (mut frames, mut names) = (Vec::new(), Vec::new());
    let table = &classes.table;
    for thing in things {
        classes.stack(main_class(classes, &thing), &mut frames);
        keys::reduce(table, &frames, closeness, &mut names);
        let own = |frame: &&u32| !table.is_glue(**frame);
        let plain = !frames
            .iter()
            .filter(own)
            .any(|&frame| table.is_replaceable(frame));
        let key = keys::hash(names.iter().copied());
        groups.entry(key).or_default().push((plain, thing));
    }
    groups.into_values()
}
