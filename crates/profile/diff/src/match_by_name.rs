//! Matches stacks by their names, from the strictest match level to the
//! loosest.
//!
//! First, groups of stacks with equal names whose figures balance (the same sum
//! before and after) are taken out. Then each remaining group that has stacks
//! on both sides becomes one match whose figures changed.

use std::cmp::Ordering;

use crate::Side;
use crate::classes::{Classes, runs_of};
use crate::keys;
use crate::match_level::MatchLevel;

/// Classes that are treated as one stack. Each matching step merges some of
/// them; one that nothing matched has a single class.
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

    /// Whether a class in it has no partner of another name at a match level.
    pub(crate) fn stays(&self, classes: &Classes<'_>, level: MatchLevel) -> bool {
        let mut members = self.classes.iter();
        members.any(|&class| classes.stays(class, level))
    }

    /// After minus before. Does not overflow: no total exceeds `i64::MAX`.
    pub(crate) fn difference(&self) -> i64 {
        self.after as i64 - self.before as i64
    }

    /// The side on which the match exists, if it exists on one only.
    pub(crate) fn only_side(&self) -> Option<Side> {
        match (self.before, self.after) {
            (0, 0) => None,
            (0, _) => Some(Side::After),
            (_, 0) => Some(Side::Before),
            _ => None,
        }
    }
}

/// The result of matching by name.
pub(crate) struct NameMatches {
    /// Equal figures on both sides, under different names.
    pub(crate) moved: Vec<Match>,
    /// All others: different figures on the two sides, or on one side only.
    pub(crate) unbalanced: Vec<Match>,
}

/// A class that is not in a balanced match yet.
#[derive(Clone, Copy)]
struct Unmatched {
    class: u32,
    /// Identifies the class; does not depend on the order of the input.
    key: u128,
    /// The hash of its names at each level of [`LEVELS`].
    match_keys: [u128; LEVELS.len()],
}

impl Unmatched {
    fn match_key(&self, level: MatchLevel) -> u128 {
        self.match_keys[level as usize - 1]
    }
}

/// The levels at which classes of different exact names can have equal keys.
const LEVELS: [MatchLevel; 5] = [
    MatchLevel::Canonical,
    MatchLevel::Unwrapped,
    MatchLevel::Untemplated,
    MatchLevel::GlueIgnored,
    MatchLevel::CommonOnly,
];

/// Matches all classes by name.
pub(crate) fn match_by_name(classes: &Classes<'_>) -> NameMatches {
    let mut unmatched = unmatched(classes);
    let mut moved = Vec::new();
    for level in LEVELS {
        unmatched = take_balanced(classes, unmatched, level, &mut moved);
    }
    let is_on_one_side = |unmatched: &Unmatched| {
        let class = &classes.classes[unmatched.class as usize];
        class.before == 0 || class.after == 0
    };
    let (mut one_sided, on_both): (Vec<Unmatched>, Vec<Unmatched>) =
        unmatched.into_iter().partition(is_on_one_side);
    let mut unbalanced: Vec<Match> = on_both
        .into_iter()
        .map(|unmatched| Match::new(classes, vec![unmatched.class], 1.0))
        .collect();
    for &level in &MatchLevel::BY_NAME[1..] {
        let staying = take_staying(classes, &mut one_sided, level).into_iter();
        unbalanced.extend(staying.map(|it| Match::new(classes, vec![it.class], 1.0)));
        one_sided = merge_sides(classes, one_sided, level, &mut unbalanced);
    }
    let one_sided = one_sided.into_iter();
    unbalanced.extend(one_sided.map(|unmatched| Match::new(classes, vec![unmatched.class], 1.0)));
    NameMatches { moved, unbalanced }
}

/// Removes and returns the classes that no class of another name may be matched with at a level.
fn take_staying(
    classes: &Classes<'_>,
    unmatched: &mut Vec<Unmatched>,
    level: MatchLevel,
) -> Vec<Unmatched> {
    let stays = |it: &mut Unmatched| classes.stays(it.class, level);
    unmatched.extract_if(.., stays).collect()
}

fn unmatched(classes: &Classes<'_>) -> Vec<Unmatched> {
    let (mut frames, mut names) = (Vec::new(), Vec::new());
    let unbalanced = (0..classes.classes.len() as u32)
        .filter(|&class| !classes.classes[class as usize].is_balanced());
    unbalanced
        .map(|class| {
            classes.stack(class, &mut frames);
            Unmatched {
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

/// Moves the groups that balance as a whole to `moved`. In the other groups,
/// pairs a class of one side with a class of the other that has the same
/// figure, at all levels that compare names. Returns the classes that are left.
fn take_balanced(
    classes: &Classes<'_>,
    mut unmatched: Vec<Unmatched>,
    level: MatchLevel,
    moved: &mut Vec<Match>,
) -> Vec<Unmatched> {
    let mut left = take_staying(classes, &mut unmatched, level);
    for group in groups(&mut unmatched, level) {
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

/// Pairs the classes of one side with those of the other that have equal
/// figures.
fn pair_equals(
    classes: &Classes<'_>,
    group: &[Unmatched],
    level: MatchLevel,
    moved: &mut Vec<Match>,
    left: &mut Vec<Unmatched>,
) {
    let (mut gone, mut new) = (Vec::new(), Vec::new());
    for unmatched in group {
        let class = &classes.classes[unmatched.class as usize];
        match (class.before, class.after) {
            (before, 0) => gone.push((before, unmatched)),
            (0, after) => new.push((after, unmatched)),
            _ => left.push(*unmatched),
        }
    }
    gone.sort_unstable_by_key(|(count, unmatched)| (*count, unmatched.key));
    new.sort_unstable_by_key(|(count, unmatched)| (*count, unmatched.key));
    let (mut g, mut n) = (0, 0);
    while g < gone.len() && n < new.len() {
        let (gone_class, new_class) = (gone[g], new[n]);
        match gone_class.0.cmp(&new_class.0) {
            Ordering::Less => left.push(*gone_class.1),
            Ordering::Greater => left.push(*new_class.1),
            Ordering::Equal => {
                let pair = vec![gone_class.1.class, new_class.1.class];
                moved.push(Match::new(classes, pair, level.confidence()));
            }
        }
        g += usize::from(gone_class.0 <= new_class.0);
        n += usize::from(new_class.0 <= gone_class.0);
    }
    left.extend(
        gone[g..]
            .iter()
            .chain(&new[n..])
            .map(|(_, unmatched)| **unmatched),
    );
}

/// Merges each group that has classes on both sides into one changed match.
/// Returns the classes of the other groups.
fn merge_sides(
    classes: &Classes<'_>,
    mut one_sided: Vec<Unmatched>,
    level: MatchLevel,
    changed: &mut Vec<Match>,
) -> Vec<Unmatched> {
    let mut left = Vec::new();
    for group in groups(&mut one_sided, level) {
        let whole = match_of(classes, group, level);
        if whole.only_side().is_some() {
            left.extend_from_slice(group);
        } else {
            changed.push(whole);
        }
    }
    left
}

fn match_of(classes: &Classes<'_>, group: &[Unmatched], level: MatchLevel) -> Match {
    let members = group.iter().map(|unmatched| unmatched.class).collect();
    Match::new(classes, members, level.confidence())
}

/// The classes grouped by their key at a level. The order of groups and members
/// depends on their contents only.
fn groups(members: &mut [Unmatched], level: MatchLevel) -> impl Iterator<Item = &[Unmatched]> {
    members.sort_unstable_by_key(|unmatched| (unmatched.match_key(level), unmatched.key));
    let members = &*members;
    runs_of(members, move |a, b| {
        a.match_key(level) == b.match_key(level)
    })
    .map(|range| &members[range])
}
