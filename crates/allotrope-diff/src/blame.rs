//! Which differences are one difference, and whose it is.
//!
//! Seen from the inside out, stacks that change by way of one function belong
//! to it, provided that most of what goes through it changed; or most of what
//! it does that way, by the same runtime's functions. Else it is a tool that
//! many use, and its callers are looked at one by one. Seen from the outside
//! in, everything below a call that explains it belongs to that call (`calls`).
//! The headline is the first frame of the user's own, or the function that
//! explains several stacks at once.

use rustc_hash::FxHashMap;

use crate::Side;
use crate::assign::main_class;
use crate::calls::Calls;
use crate::classes::Classes;
use crate::frames::FrameTable;
use crate::keys::{self, MatchLevel};
use crate::match_by_name::Match;

/// How many callers are followed outwards to find one that stacks have in
/// common.
const FURTHEST: usize = 24;

/// Differences with one cause.
pub(crate) struct Group {
    pub(crate) matches: Vec<Match>,
    /// The frame that answers for them.
    pub(crate) blame: u32,
}

/// Groups differences, none of which is 0.
pub(crate) fn group(classes: &Classes<'_>, matches: Vec<Match>) -> Vec<Group> {
    let drafts = inside_out(classes, matches);
    outside_in(classes, drafts)
        .into_iter()
        .map(|draft| draft.finish(classes))
        .collect()
}

/// The outermost frame that is somebody's: what a thread runs.
pub(crate) fn thread_root(table: &FrameTable<'_>, stack: &[u32]) -> u32 {
    let own = stack.iter().rev().find(|&&frame| !table.is_glue(frame));
    own.or(stack.last()).copied().unwrap_or_default()
}

/// A group whose blame is still to be shown.
struct Draft {
    matches: Vec<Match>,
    /// How many own frames out the blamed one is, counted from 1 ...
    depth: usize,
    /// ... unless it is this function, by its loosest name.
    function: Option<u32>,
}

impl Draft {
    fn new(matches: Vec<Match>, depth: usize) -> Self {
        Self {
            matches,
            depth,
            function: None,
        }
    }

    fn finish(self, classes: &Classes<'_>) -> Group {
        let weight = |matched: &&Match| {
            let class = main_class(classes, matched);
            (matched.difference().unsigned_abs(), classes.key(class))
        };
        let main = self.matches.iter().max_by_key(weight);
        let blame = main.map_or(0, |matched| {
            let stack = shown_stack(classes, main_class(classes, matched));
            let table = &classes.table;
            let named = self.function.and_then(|name| {
                let mut outwards = stack.iter().rev();
                outwards.find(|&&frame| table.loosest(frame) == name)
            });
            named
                .copied()
                .unwrap_or_else(|| own_frame(table, &stack, self.depth))
        });
        Group {
            matches: self.matches,
            blame,
        }
    }
}

/// The frames of the stack of a class that people are shown: the largest of
/// what was counted after, or before if there is none after.
pub(crate) fn shown_stack(classes: &Classes<'_>, class: u32) -> Vec<u32> {
    let mut frames = Vec::new();
    let best = classes
        .occurrences(class)
        .iter()
        .filter_map(|&occurrence| {
            let side = classes.side(occurrence)?;
            classes
                .table
                .stack(occurrence.run, occurrence.stack, &mut frames);
            let size = (side == Side::After, classes.value(occurrence));
            Some((size, std::cmp::Reverse(frames.clone())))
        })
        .max();
    match best {
        Some((_, frames)) => frames.0,
        None => {
            classes.stack(class, &mut frames);
            frames
        }
    }
}

/// The user's own frame that many out, counted from 1 with recursion as one; the
/// outermost if there are fewer, the innermost frame of a stack that has none.
fn own_frame(table: &FrameTable<'_>, stack: &[u32], depth: usize) -> u32 {
    let mut own = Own::default();
    let mut found = None;
    for &frame in stack {
        if own.count < depth && own.is_next(table, frame) {
            found = Some(frame);
        }
    }
    found.or(stack.first().copied()).unwrap_or_default()
}

/// Counts the user's own frames outwards.
#[derive(Default)]
struct Own {
    count: usize,
    last: Option<u32>,
}

impl Own {
    /// Whether this is one more of them.
    fn is_next(&mut self, table: &FrameTable<'_>, frame: u32) -> bool {
        let name = table.name(frame, MatchLevel::Canonical);
        let next = !table.is_glue(frame) && self.last.replace(name) != Some(name);
        self.count += usize::from(next);
        next
    }
}

/// How far stacks are followed outwards.
#[derive(Clone, Copy)]
struct Reach {
    /// Own frames.
    depth: usize,
    /// The glue in between counts too: not only who, but how.
    glue: bool,
}

impl Reach {
    fn all() -> impl Iterator<Item = Self> {
        (1..=FURTHEST).flat_map(|depth| [false, true].map(|glue| Self { depth, glue }))
    }

    /// What a class looks like so far, as one number.
    fn path(self, classes: &Classes<'_>, class: u32, names: &mut Vec<u32>) -> u128 {
        let table = &classes.table;
        let name = |frame| table.name(frame, MatchLevel::Canonical);
        let mut own = Own::default();
        names.clear();
        for frame in classes.outwards(class) {
            if own.is_next(table, frame) || (self.glue && table.is_glue(frame)) {
                names.push(name(frame));
            }
            if own.count == self.depth {
                break;
            }
        }
        if names.is_empty() {
            names.extend(classes.outwards(class).take(1).map(name));
        }
        keys::hash(names.iter().copied())
    }
}

/// A function as it is reached from the inside, and what goes through it.
#[derive(Default)]
struct Node {
    /// What fell and what rose.
    matches: [Vec<Match>; 2],
    stacks: usize,
}

fn inside_out(classes: &Classes<'_>, matches: Vec<Match>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let mut pending = matches;
    let mut looked_at: Vec<u32> = (0..classes.classes.len() as u32).collect();
    for reach in Reach::all() {
        let mut nodes = nodes(classes, std::mem::take(&mut pending), reach);
        count_stacks(classes, &mut nodes, &mut looked_at, reach);
        for node in nodes.into_values() {
            for matches in node.matches {
                let members: usize = matches.iter().map(|matched| matched.classes.len()).sum();
                if matches.len() > 1 && 2 * members >= node.stacks {
                    drafts.push(Draft::new(matches, reach.depth));
                } else if matches.len() > 1 {
                    pending.extend(matches);
                } else if !matches.is_empty() {
                    // One stack alone is headlined by its first own frame.
                    drafts.push(Draft::new(matches, 1));
                }
            }
        }
        if pending.is_empty() {
            break;
        }
    }
    drafts.extend(
        pending
            .into_iter()
            .map(|matched| Draft::new(vec![matched], 1)),
    );
    drafts
}

fn nodes(classes: &Classes<'_>, matches: Vec<Match>, reach: Reach) -> FxHashMap<u128, Node> {
    let mut nodes: FxHashMap<u128, Node> = FxHashMap::default();
    let mut names = Vec::new();
    for matched in matches {
        let path = reach.path(classes, main_class(classes, &matched), &mut names);
        let node = nodes.entry(path).or_default();
        node.matches[usize::from(matched.after > matched.before)].push(matched);
    }
    nodes
}

/// Counts the stacks of both sides that go through the nodes. Forgets the
/// others where no later step can come to them.
fn count_stacks(
    classes: &Classes<'_>,
    nodes: &mut FxHashMap<u128, Node>,
    looked_at: &mut Vec<u32>,
    reach: Reach,
) {
    let mut contested = nodes.values().flat_map(|node| &node.matches);
    if contested.all(|matches| matches.len() < 2) {
        return;
    }
    let mut names = Vec::new();
    looked_at.retain(|&class| {
        let node = nodes.get_mut(&reach.path(classes, class, &mut names));
        node.map(|node| node.stacks += 1).is_some() || reach.glue
    });
}

/// Takes together the groups that one call explains.
fn outside_in(classes: &Classes<'_>, drafts: Vec<Draft>) -> Vec<Draft> {
    if drafts.len() < 2 {
        return drafts;
    }
    let calls = Calls::new(classes, drafts.iter().flat_map(|draft| &draft.matches));
    let mut below: FxHashMap<(bool, u32), Vec<Draft>> = FxHashMap::default();
    let mut grouped = Vec::new();
    for draft in drafts {
        match explained(&calls, &draft) {
            Some(call) => below.entry(call).or_default().push(draft),
            None => grouped.push(draft),
        }
    }
    for ((_, function), drafts) in below {
        if drafts.len() == 1 {
            grouped.extend(drafts);
        } else {
            grouped.push(Draft {
                matches: drafts.into_iter().flat_map(|draft| draft.matches).collect(),
                depth: 1,
                function: Some(function),
            });
        }
    }
    grouped
}

/// The function whose call explains all stacks of a group, if it is one, and
/// whether they rose.
fn explained(calls: &Calls<'_, '_>, draft: &Draft) -> Option<(bool, u32)> {
    let mut functions = draft
        .matches
        .iter()
        .map(|matched| calls.explaining(matched));
    let first = functions.next()??;
    let rose = draft
        .matches
        .first()
        .is_some_and(|matched| matched.difference() > 0);
    functions
        .all(|function| function == Some(first))
        .then_some((rose, first))
}
