//! Matching by what stacks look like: level by level, the closest
//! first, what balances is taken off. What is left of both sides and still
//! looks alike is one stack whose figures changed.

use std::cmp::Ordering;

use crate::Side;
use crate::classes::{Classes, runs_of};
use crate::keys::{self, MatchLevel};

/// Classes of both sides that are the same matched, or a class that is alone.
#[derive(Debug, Clone)]
pub(crate) struct Match {
    pub(crate) classes: Vec<u32>,
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) confidence: f64,
}

impl Match {
    pub(crate) fn new(classes: &Classes<'_>, members: Vec<u32>, confidence: f64) -> Self {
        let sum = |of: fn(&crate::classes::Class) -> u64| {
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
    pub(crate) fn difference(&self) -> i64 {
        self.after as i64 - self.before as i64
    }

    /// The side on which it exists, if that is one only.
    pub(crate) fn only_side(&self) -> Option<Side> {
        match (self.before, self.after) {
            (0, 0) => None,
            (0, _) => Some(Side::After),
            (_, 0) => Some(Side::Before),
            _ => None,
        }
    }
}

/// What peeling came to.
pub(crate) struct NameMatches {
    /// Balanced, but spelled differently on the two sides.
    pub(crate) moved: Vec<Match>,
    /// All others: on both sides with different figures, or on one only.
    pub(crate) unbalanced: Vec<Match>,
}

/// A class that does not balance by itself, and what it looks like.
#[derive(Clone, Copy)]
struct Active {
    class: u32,
    /// What tells it from others, whatever its position.
    key: u128,
    /// The hash of its names at each level of [`LEVELS`].
    match_keys: [u128; LEVELS.len()],
}

impl Active {
    fn match_key(&self, level: MatchLevel) -> u128 {
        self.match_keys[level as usize - 1]
    }
}

/// The match levels at which classes of different spellings meet.
const LEVELS: [MatchLevel; 5] = [
    MatchLevel::Canonical,
    MatchLevel::Unwrapped,
    MatchLevel::Untemplated,
    MatchLevel::GlueIgnored,
    MatchLevel::CommonOnly,
];

/// Peels all classes.
pub(crate) fn match_by_name(classes: &Classes<'_>) -> NameMatches {
    let mut active = active(classes);
    let mut moved = Vec::new();
    for level in LEVELS {
        active = take_balanced(classes, active, level, &mut moved);
    }
    let is_alone = |active: &Active| {
        let class = &classes.classes[active.class as usize];
        class.before == 0 || class.after == 0
    };
    let (mut alone, on_both): (Vec<Active>, Vec<Active>) = active.into_iter().partition(is_alone);
    let mut unbalanced: Vec<Match> = on_both
        .into_iter()
        .map(|active| Match::new(classes, vec![active.class], 1.0))
        .collect();
    for level in LEVELS
        .into_iter()
        .filter(|&level| level != MatchLevel::CommonOnly)
    {
        alone = merge_sides(classes, alone, level, &mut unbalanced);
    }
    let alone = alone.into_iter();
    unbalanced.extend(alone.map(|active| Match::new(classes, vec![active.class], 1.0)));
    NameMatches { moved, unbalanced }
}

fn active(classes: &Classes<'_>) -> Vec<Active> {
    let (mut frames, mut names) = (Vec::new(), Vec::new());
    let unbalanced = (0..classes.classes.len() as u32)
        .filter(|&class| !classes.classes[class as usize].is_balanced());
    unbalanced
        .map(|class| {
            classes.stack(class, &mut frames);
            Active {
                class,
                key: classes.key(class),
                match_keys: LEVELS.map(|level| {
                    keys::reduce(&classes.table, &frames, level, &mut names);
                    keys::hash(names.iter().copied())
                }),
            }
        })
        .collect()
}

/// Takes off the groups that balance as a whole and, in the others, classes of
/// one side that balance one of the other, if their names say that they can.
/// Gives what is left.
fn take_balanced(
    classes: &Classes<'_>,
    mut active: Vec<Active>,
    level: MatchLevel,
    moved: &mut Vec<Match>,
) -> Vec<Active> {
    let mut left = Vec::new();
    for group in groups(&mut active, level) {
        let whole = match_of(classes, group, level);
        if whole.before == whole.after {
            moved.push(whole);
        } else if group.len() > 1 && level != MatchLevel::CommonOnly {
            pair_equals(classes, group, level, moved, &mut left);
        } else {
            left.extend_from_slice(group);
        }
    }
    left
}

/// Pairs the classes of one side that have an equal on the other.
fn pair_equals(
    classes: &Classes<'_>,
    group: &[Active],
    level: MatchLevel,
    moved: &mut Vec<Match>,
    left: &mut Vec<Active>,
) {
    let (mut gone, mut new) = (Vec::new(), Vec::new());
    for active in group {
        let class = &classes.classes[active.class as usize];
        match (class.before, class.after) {
            (before, 0) => gone.push((before, active)),
            (0, after) => new.push((after, active)),
            _ => left.push(*active),
        }
    }
    gone.sort_unstable_by_key(|(count, active)| (*count, active.key));
    new.sort_unstable_by_key(|(count, active)| (*count, active.key));
    let (mut g, mut n) = (0, 0);
    while g < gone.len() && n < new.len() {
        let (lost, won) = (gone[g], new[n]);
        match lost.0.cmp(&won.0) {
            Ordering::Less => left.push(*lost.1),
            Ordering::Greater => left.push(*won.1),
            Ordering::Equal => {
                let pair = vec![lost.1.class, won.1.class];
                moved.push(Match::new(classes, pair, level.confidence()));
            }
        }
        g += usize::from(lost.0 <= won.0);
        n += usize::from(won.0 <= lost.0);
    }
    left.extend(
        gone[g..]
            .iter()
            .chain(&new[n..])
            .map(|(_, active)| **active),
    );
}

/// Makes one changed matched of each group that is on both sides. Gives the
/// classes of the others.
fn merge_sides(
    classes: &Classes<'_>,
    mut alone: Vec<Active>,
    level: MatchLevel,
    changed: &mut Vec<Match>,
) -> Vec<Active> {
    let mut left = Vec::new();
    for group in groups(&mut alone, level) {
        let whole = match_of(classes, group, level);
        if whole.only_side().is_some() {
            left.extend_from_slice(group);
        } else {
            changed.push(whole);
        }
    }
    left
}

fn match_of(classes: &Classes<'_>, group: &[Active], level: MatchLevel) -> Match {
    let members = group.iter().map(|active| active.class).collect();
    Match::new(classes, members, level.confidence())
}

/// The classes by what they look like, each group and its members in an order
/// that their contents give.
fn groups(members: &mut [Active], level: MatchLevel) -> impl Iterator<Item = &[Active]> {
    members.sort_unstable_by_key(|active| (active.match_key(level), active.key));
    let members = &*members;
    runs_of(members, move |a, b| {
        a.match_key(level) == b.match_key(level)
    })
    .map(|range| &members[range])
}
