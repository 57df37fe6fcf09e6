//! Matching by what stacks look like: closeness by closeness, the closest
//! first, what balances is taken off. What is left of both sides and still
//! looks alike is one stack whose figures changed.

use super::Side;
use super::classes::{Classes, runs_of};
use super::keys::{self, Closeness};

/// Classes of both sides that are the same thing, or a class that is alone.
#[derive(Debug, Clone)]
pub(super) struct Settled {
    pub(super) classes: Vec<u32>,
    pub(super) before: u64,
    pub(super) after: u64,
    pub(super) confidence: f64,
}

impl Settled {
    pub(super) fn new(classes: &Classes<'_>, members: Vec<u32>, confidence: f64) -> Self {
        let sum = |of: fn(&super::classes::Class) -> u64| {
            let members = members.iter();
            members
                .map(|&class| of(&classes.classes[class as usize]))
                .sum()
        };
        Self {
            before: sum(|class| class.before),
            after: sum(|class| class.after),
            classes: members,
            confidence,
        }
    }

    /// After minus before. Fits: no total is larger than a signed number.
    pub(super) fn difference(&self) -> i64 {
        self.after as i64 - self.before as i64
    }

    /// The side on which it exists, if that is one only.
    pub(super) fn only_side(&self) -> Option<Side> {
        match (self.before, self.after) {
            (0, 0) => None,
            (0, _) => Some(Side::After),
            (_, 0) => Some(Side::Before),
            _ => None,
        }
    }
}

/// What peeling came to.
pub(super) struct Peeled {
    /// Balanced, but spelled differently on the two sides.
    pub(super) moved: Vec<Settled>,
    /// All others: on both sides with different figures, or on one only.
    pub(super) unlike: Vec<Settled>,
}

/// Peels all classes.
pub(super) fn peel(classes: &Classes<'_>) -> Peeled {
    let mut active: Vec<u32> = (0..classes.classes.len() as u32)
        .filter(|&class| !classes.classes[class as usize].is_balanced())
        .collect();
    let mut moved = Vec::new();
    for closeness in &Closeness::OF_NAMES[1..] {
        active = take_balanced(classes, active, *closeness, &mut moved);
    }
    active = take_balanced(classes, active, Closeness::CommonOnly, &mut moved);
    let is_alone = |class: &u32| {
        let class = &classes.classes[*class as usize];
        class.before == 0 || class.after == 0
    };
    let (mut alone, on_both): (Vec<u32>, Vec<u32>) = active.into_iter().partition(is_alone);
    let mut changed: Vec<Settled> = on_both
        .into_iter()
        .map(|class| Settled::new(classes, vec![class], 1.0))
        .collect();
    for closeness in &Closeness::OF_NAMES[1..] {
        alone = merge_sides(classes, alone, *closeness, &mut changed);
    }
    let alone = alone.into_iter();
    changed.extend(alone.map(|class| Settled::new(classes, vec![class], 1.0)));
    Peeled {
        moved,
        unlike: changed,
    }
}

/// Takes off the groups that balance as a whole and, in the others, classes of
/// one side that balance one of the other, if their names say that they can.
/// Gives what is left.
fn take_balanced(
    classes: &Classes<'_>,
    active: Vec<u32>,
    closeness: Closeness,
    moved: &mut Vec<Settled>,
) -> Vec<u32> {
    let mut left = Vec::new();
    for group in groups(classes, active, closeness) {
        let whole = Settled::new(classes, group, closeness.confidence());
        if whole.before == whole.after {
            moved.push(whole);
        } else if whole.classes.len() > 1 && closeness != Closeness::CommonOnly {
            pair_equals(classes, &whole.classes, closeness, moved, &mut left);
        } else {
            left.extend(whole.classes);
        }
    }
    left
}

/// Pairs the classes of one side that have an equal on the other.
fn pair_equals(
    classes: &Classes<'_>,
    group: &[u32],
    closeness: Closeness,
    moved: &mut Vec<Settled>,
    left: &mut Vec<u32>,
) {
    let (mut gone, mut new) = (Vec::new(), Vec::new());
    for &id in group {
        let class = &classes.classes[id as usize];
        match (class.before, class.after) {
            (before, 0) => gone.push((before, classes.key(id), id)),
            (0, after) => new.push((after, classes.key(id), id)),
            _ => left.push(id),
        }
    }
    gone.sort_unstable();
    new.sort_unstable();
    let (mut g, mut n) = (0, 0);
    while g < gone.len() && n < new.len() {
        match gone[g].0.cmp(&new[n].0) {
            std::cmp::Ordering::Less => {
                left.push(gone[g].2);
                g += 1;
            }
            std::cmp::Ordering::Greater => {
                left.push(new[n].2);
                n += 1;
            }
            std::cmp::Ordering::Equal => {
                let pair = vec![gone[g].2, new[n].2];
                moved.push(Settled::new(classes, pair, closeness.confidence()));
                g += 1;
                n += 1;
            }
        }
    }
    left.extend(gone[g..].iter().chain(&new[n..]).map(|&(_, _, id)| id));
}

/// Makes one changed thing of each group that is on both sides. Gives the
/// classes of the others.
fn merge_sides(
    classes: &Classes<'_>,
    alone: Vec<u32>,
    closeness: Closeness,
    changed: &mut Vec<Settled>,
) -> Vec<u32> {
    let mut left = Vec::new();
    for group in groups(classes, alone, closeness) {
        let whole = Settled::new(classes, group, closeness.confidence());
        if whole.only_side().is_some() {
            left.extend(whole.classes);
        } else {
            changed.push(whole);
        }
    }
    left
}

/// The classes by what they look like, each group and its members in an order
/// that their contents give.
fn groups(classes: &Classes<'_>, members: Vec<u32>, closeness: Closeness) -> Vec<Vec<u32>> {
    let (mut frames, mut names) = (Vec::new(), Vec::new());
    let mut keyed: Vec<(u128, u128, u32)> = members
        .into_iter()
        .map(|class| {
            classes.stack(class, &mut frames);
            keys::reduce(&classes.table, &frames, closeness, &mut names);
            let key = keys::hash(names.iter().copied());
            (key, classes.key(class), class)
        })
        .collect();
    keyed.sort_unstable();
    runs_of(&keyed, |a, b| a.0 == b.0)
        .map(|range| keyed[range].iter().map(|&(_, _, class)| class).collect())
        .collect()
}
