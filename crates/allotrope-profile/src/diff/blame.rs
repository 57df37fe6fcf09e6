//! Which differences are one difference, and whose it is.
//!
//! Seen from the inside out, stacks that change by way of one function belong
//! to it, provided that most of what goes through it changed: else it is a tool
//! that many use, and its callers are looked at one by one. Seen from the
//! outside in, everything below a call that is new as a whole belongs to that
//! call. The headline is the first frame of the user's own, or the function
//! that explains several stacks at once.

use rustc_hash::FxHashMap;

use super::Side;
use super::assign::main_class;
use super::classes::Classes;
use super::frames::FrameTable;
use super::keys::{self, Closeness};
use super::peel::Settled;

/// How many callers are followed outwards to find one that stacks have in
/// common.
const FURTHEST: usize = 24;

/// Differences with one cause.
pub(super) struct Group {
    pub(super) things: Vec<Settled>,
    /// The frame that answers for them.
    pub(super) blame: u32,
}

/// Groups differences, none of which is 0.
pub(super) fn group(classes: &Classes<'_>, things: Vec<Settled>) -> Vec<Group> {
    let drafts = inside_out(classes, things);
    outside_in(classes, drafts)
        .into_iter()
        .map(|draft| draft.finish(classes))
        .collect()
}

/// The outermost frame that is somebody's: what a thread runs.
pub(super) fn thread_root(table: &FrameTable<'_>, stack: &[u32]) -> u32 {
    let own = stack.iter().rev().find(|&&frame| !table.is_glue(frame));
    own.or(stack.last()).copied().unwrap_or_default()
}

/// A group whose blame is still to be shown.
struct Draft {
    things: Vec<Settled>,
    /// How many own frames out the blamed one is, counted from 1 ...
    depth: usize,
    /// ... unless it is this function, by its loosest name.
    function: Option<u32>,
}

impl Draft {
    fn new(things: Vec<Settled>, depth: usize) -> Self {
        Self {
            things,
            depth,
            function: None,
        }
    }

    fn finish(self, classes: &Classes<'_>) -> Group {
        let weight = |thing: &&Settled| {
            let class = main_class(classes, thing);
            (thing.difference().unsigned_abs(), classes.key(class))
        };
        let main = self.things.iter().max_by_key(weight);
        let blame = main.map_or(0, |thing| {
            let stack = shown_stack(classes, main_class(classes, thing));
            let table = &classes.table;
            let named = self.function.and_then(|name| {
                let mut outwards = stack.iter().rev();
                outwards.find(|&&frame| table.loosest(frame) == name)
            });
            let own = || own_frames(table, &stack).take(self.depth).last();
            named.copied().or_else(own).unwrap_or(stack[0])
        });
        Group {
            things: self.things,
            blame,
        }
    }
}

/// The frames of the stack of a class that people are shown: the largest of
/// what was counted after, or before if there is none after.
pub(super) fn shown_stack(classes: &Classes<'_>, class: u32) -> Vec<u32> {
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

/// The user's own frames, innermost first; the innermost frame of a stack that
/// has none.
fn own_frames<'s>(
    table: &'s FrameTable<'_>,
    stack: &'s [u32],
) -> impl Iterator<Item = u32> + use<'s> {
    let own = stack.iter().copied().filter(|&frame| !table.is_glue(frame));
    let none = stack.iter().all(|&frame| table.is_glue(frame));
    let fallback = stack.first().copied().filter(|_| none);
    own.chain(fallback)
}

/// The functions of the innermost own frames of a class, as one number.
fn path(classes: &Classes<'_>, class: u32, depth: usize) -> u128 {
    let table = &classes.table;
    let name = |frame| table.name(frame, Closeness::Canonical);
    let mut own = classes
        .outwards(class)
        .filter(|&frame| !table.is_glue(frame))
        .take(depth)
        .peekable();
    if own.peek().is_none() {
        return keys::hash(classes.outwards(class).take(1).map(name));
    }
    keys::hash(own.map(name))
}

/// A function as it is reached from the inside, and what goes through it.
#[derive(Default)]
struct Node {
    /// What fell and what rose.
    things: [Vec<Settled>; 2],
    stacks: usize,
}

fn inside_out(classes: &Classes<'_>, things: Vec<Settled>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let mut pending = things;
    let mut looked_at: Vec<u32> = (0..classes.classes.len() as u32).collect();
    for depth in 1..=FURTHEST {
        let mut nodes = nodes(classes, std::mem::take(&mut pending), depth);
        count_stacks(classes, &mut nodes, &mut looked_at, depth);
        for node in nodes.into_values() {
            for things in node.things {
                let members: usize = things.iter().map(|thing| thing.classes.len()).sum();
                if things.len() > 1 && 2 * members >= node.stacks {
                    drafts.push(Draft::new(things, depth));
                } else if things.len() > 1 {
                    pending.extend(things);
                } else if !things.is_empty() {
                    // One stack alone is headlined by its first own frame.
                    drafts.push(Draft::new(things, 1));
                }
            }
        }
        if pending.is_empty() {
            break;
        }
    }
    drafts.extend(pending.into_iter().map(|thing| Draft::new(vec![thing], 1)));
    drafts
}

fn nodes(classes: &Classes<'_>, things: Vec<Settled>, depth: usize) -> FxHashMap<u128, Node> {
    let mut nodes: FxHashMap<u128, Node> = FxHashMap::default();
    for thing in things {
        let path = path(classes, main_class(classes, &thing), depth);
        let node = nodes.entry(path).or_default();
        node.things[usize::from(thing.after > thing.before)].push(thing);
    }
    nodes
}

/// Counts the stacks of both sides that go through the nodes, and forgets the
/// others.
fn count_stacks(
    classes: &Classes<'_>,
    nodes: &mut FxHashMap<u128, Node>,
    looked_at: &mut Vec<u32>,
    depth: usize,
) {
    let mut contested = nodes.values().flat_map(|node| &node.things);
    if contested.all(|things| things.len() < 2) {
        return;
    }
    looked_at.retain(|&class| {
        let node = nodes.get_mut(&path(classes, class, depth));
        node.map(|node| node.stacks += 1).is_some()
    });
}

/// Takes together the groups that lie whole below one call to a function which
/// the other side does not have.
fn outside_in(classes: &Classes<'_>, drafts: Vec<Draft>) -> Vec<Draft> {
    let mut below: FxHashMap<(Side, u32), Vec<Draft>> = FxHashMap::default();
    let mut grouped = Vec::new();
    for draft in drafts {
        match entered(classes, &draft) {
            Some(call) => below.entry(call).or_default().push(draft),
            None => grouped.push(draft),
        }
    }
    for ((_, function), drafts) in below {
        if drafts.len() == 1 {
            grouped.extend(drafts);
        } else {
            grouped.push(Draft {
                things: drafts.into_iter().flat_map(|draft| draft.things).collect(),
                depth: 1,
                function: Some(function),
            });
        }
    }
    grouped
}

/// The call by which all stacks of a group enter what the other side does not
/// have, if it is one.
fn entered(classes: &Classes<'_>, draft: &Draft) -> Option<(Side, u32)> {
    let mut calls = draft.things.iter().map(|thing| entered_by(classes, thing));
    let first = calls.next()??;
    calls.all(|call| call == Some(first)).then_some(first)
}

fn entered_by(classes: &Classes<'_>, thing: &Settled) -> Option<(Side, u32)> {
    let side = thing.only_side()?;
    let other = match side {
        Side::Before => Side::After,
        Side::After => Side::Before,
    };
    let table = &classes.table;
    let mut stack = Vec::new();
    classes.stack(main_class(classes, thing), &mut stack);
    let own = |frame: &&u32| !table.is_glue(**frame);
    let is_one_sided = |&&frame: &&u32| table.occurrences(table.loosest(frame), other) == 0;
    let mut outside_in = stack.iter().rev().filter(own);
    // The outermost function has no call that could be new.
    let outermost = outside_in.next()?;
    if is_one_sided(&outermost) {
        return None;
    }
    let entered = outside_in.find(is_one_sided)?;
    Some((side, table.loosest(*entered)))
}
