//! Finds the stacks that stay: they are on both sides, and what they gained or lost of the
//! compared metric did not come or go with their allocations.
//!
//! A stack whose blocks are freed later than before loses its temporary allocations and
//! still makes its allocations. It was not renamed or moved, so a stack of another name
//! that gained as many is no partner for it but a difference of its own. A stack whose
//! allocations changed with its figure may have been moved in part, as by a compiler that
//! inlines only some of the calls.

use rustc_hash::FxHashMap;

use crate::classes::{Classes, Occurrence};
use crate::keys;
use crate::match_level::MatchLevel;
use allotrope_profile::{Metric, Unit};

/// The sums of a group of stacks with equal names at a match level.
#[derive(Default)]
struct Group {
    /// Whether a run of the side has one of the stacks, by whatever metric.
    is_present: [bool; 2],
    /// The compared figures of the representative runs.
    figures: [u64; 2],
    /// The allocations, or their bytes, of the representative runs.
    evidence: [u64; 2],
}

impl Group {
    /// After minus before, if the group stays.
    fn difference_if_staying(&self, has_evidence: bool) -> Option<i128> {
        let change = |[before, after]: [u64; 2]| i128::from(after) - i128::from(before);
        let difference = change(self.figures);
        if self.is_present != [true; 2] || difference == 0 {
            return None;
        }
        let stays = match has_evidence {
            true => {
                let with_allocations = change(self.evidence) * difference.signum();
                2 * with_allocations < difference.abs()
            }
            false => self.figures.contains(&0),
        };
        stays.then_some(difference)
    }
}

/// The metric that says how many blocks, or bytes, a stack allocates, in the unit of the
/// compared metric.
fn evidence_of(metric: Metric) -> Option<Metric> {
    match metric.unit() {
        Unit::Count => Some(Metric::Allocations),
        Unit::Bytes => Some(Metric::Bytes),
        Unit::Microseconds => None,
    }
}

/// Returns, for each class, the strictest match level at which its stack stays. Empty if the
/// compared metric is that of allocations itself, by which a stack cannot stay.
pub(crate) fn staying(classes: &Classes<'_>) -> Vec<Option<MatchLevel>> {
    let evidence = evidence_of(classes.metric);
    if evidence == Some(classes.metric) {
        return Vec::new();
    }
    let runs = &classes.table.runs;
    let is_known = |metric: &Metric| runs.iter().all(|run| run.set.known.has(*metric));
    let evidence = evidence.filter(is_known);
    let mut staying = vec![None; classes.classes.len()];
    for level in MatchLevel::BY_NAME {
        let groups = groups(classes, evidence, level);
        let (mut frames, mut names) = (Vec::new(), Vec::new());
        for (class, stays) in (0..).zip(&mut staying) {
            if stays.is_some() {
                continue;
            }
            classes.stack(class, &mut frames);
            keys::reduce(&classes.table, &frames, level, &mut names);
            let group = groups.get(&keys::hash(names.iter().copied()));
            let difference = group.and_then(|it| it.difference_if_staying(evidence.is_some()));
            let own = &classes.classes[class as usize];
            let own = i128::from(own.after) - i128::from(own.before);
            if difference.is_some_and(|it| it.signum() == own.signum()) {
                *stays = Some(level);
            }
        }
    }
    staying
}

/// All stacks of both sides by their names at a level, those without a figure of the compared
/// metric, too.
fn groups(
    classes: &Classes<'_>,
    evidence: Option<Metric>,
    level: MatchLevel,
) -> FxHashMap<u128, Group> {
    let mut groups: FxHashMap<u128, Group> = FxHashMap::default();
    let (mut frames, mut names) = (Vec::new(), Vec::new());
    for (r, run) in (0..).zip(&classes.table.runs) {
        for (s, stack) in (0..).zip(&run.set.stacks) {
            if stack.figures.iter().all(|&figure| figure == 0) {
                continue;
            }
            classes.table.stack(r, s, &mut frames);
            keys::reduce(&classes.table, &frames, level, &mut names);
            let key = keys::hash(names.iter().copied());
            let group = groups.entry(key).or_default();
            group.is_present[run.side as usize] = true;
            let occurrence = Occurrence {
                key,
                run: r,
                stack: s,
            };
            let Some(side) = classes.side(occurrence) else {
                continue;
            };
            group.figures[side as usize] += classes.value(occurrence);
            let counted = evidence.map_or(0, |metric| stack.figures[metric as usize]);
            let sum = &mut group.evidence[side as usize];
            *sum = sum.saturating_add(counted);
        }
    }
    groups
}
