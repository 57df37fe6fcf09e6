//! Groups differences that have one cause, and chooses the frame to blame.
//!
//! There are two steps:
//!
//! 1. From the inside out: differences whose stacks share their innermost own
//!    functions are grouped if they are at least half of the stacks with these
//!    functions. The glue frames in between may distinguish them too. If they are
//!    less than half, many callers use the function; then the next caller out is
//!    added to the comparison.
//! 2. From the outside in: groups below a call that explains them all are merged
//!    ([`call_changes`](crate::call_changes)).
//!
//! The blamed frame is the first of the user's own, or the function that
//! explains several stacks at once.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use crate::Side;
use crate::assign::main_class;
use crate::call_changes::CallChanges;
use crate::classes::Classes;
use crate::frames::FrameTable;
use crate::keys;
use crate::match_by_name::Match;
use crate::match_level::MatchLevel;

/// The largest number of own frames that stacks are compared by.
const MAX_OWN_FRAMES: usize = 24;

/// Differences with one cause.
pub(crate) struct Group {
    pub(crate) matches: Vec<Match>,
    /// The frame to blame.
    pub(crate) blame: u32,
}

/// Groups matches, none of which has the difference 0.
pub(crate) fn group(classes: &Classes<'_>, matches: Vec<Match>) -> Vec<Group> {
    let drafts = group_by_callee(classes, matches);
    group_by_call(classes, drafts)
        .into_iter()
        .map(|draft| draft.finish(classes))
        .collect()
}

/// The outermost frame that is not glue: the function that a thread runs.
pub(crate) fn thread_root(table: &FrameTable<'_>, stack: &[u32]) -> u32 {
    let own = stack.iter().rev().find(|&&frame| !table.is_glue(frame));
    own.or(stack.last()).copied().unwrap_or_default()
}

/// A group before its blamed frame is determined.
struct Draft {
    matches: Vec<Match>,
    /// The blamed frame is the own frame at this depth, counted from 1 ...
    depth: usize,
    /// ... unless it is this function (name at the loosest level).
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
            let frame = named
                .copied()
                .unwrap_or_else(|| own_frame(table, &stack, self.depth));
            line_that_changed(classes, &self.matches, frame)
        });
        Group {
            matches: self.matches,
            blame,
        }
    }
}

/// The frame with the name of `blamed` whose line has most of the difference: a
/// compiler may spread a statement over several lines, and the function may have lines
/// that did not change. A line's number may be another one after the change, so lines
/// with the same value on both sides are taken for unchanged.
fn line_that_changed(classes: &Classes<'_>, matches: &[Match], blamed: u32) -> u32 {
    let [before, after] = lines_of(classes, matches, blamed);
    let (mut lines, others) = match after.is_empty() {
        true => (before, after),
        false => (after, before),
    };
    let mut unchanged: FxHashMap<u64, usize> = FxHashMap::default();
    for line in &others {
        *unchanged.entry(line.sum).or_default() += 1;
    }
    lines.retain(|line| match unchanged.get_mut(&line.sum) {
        Some(left) if *left > 0 => {
            *left -= 1;
            false
        }
        _ => true,
    });
    let most = lines.iter().max_by(|a, b| {
        let position = (b.file, b.number).cmp(&(a.file, a.number));
        let known = (a.number > 0).cmp(&(b.number > 0));
        known.then(a.sum.cmp(&b.sum)).then(position)
    });
    most.map_or(blamed, |line| line.frame)
}

/// A source line in the stacks of a difference.
struct Line<'a> {
    file: &'a str,
    /// From 1; 0 if unknown.
    number: u32,
    /// The sum of the figures of its stacks.
    sum: u64,
    /// The largest figure of one of them, and the frame in that stack.
    largest: u64,
    frame: u32,
}

/// The lines of the frames with the name of `blamed`, before and after, in the order of
/// the classes.
fn lines_of<'a>(classes: &Classes<'a>, matches: &[Match], blamed: u32) -> [Vec<Line<'a>>; 2] {
    let table = &classes.table;
    let name = table.name(blamed, MatchLevel::Exact);
    let mut lines: [Vec<Line<'a>>; 2] = Default::default();
    let mut indexes: [FxHashMap<(&str, u32), usize>; 2] = Default::default();
    for &class in matches.iter().flat_map(|matched| &matched.classes) {
        for &occurrence in classes.occurrences(class) {
            let Some(side) = classes.side(occurrence) else {
                continue;
            };
            let mut frames = table.frames_of(occurrence.run, occurrence.stack);
            let named = |frame: &u32| table.name(*frame, MatchLevel::Exact) == name;
            let Some(frame) = frames.find(named) else {
                continue;
            };
            let (file, number) = (&*table.frame(frame).file, table.frame(frame).line);
            let figure = classes.value(occurrence);
            let lines = &mut lines[side as usize];
            let index = indexes[side as usize].entry((file, number));
            let index = *index.or_insert(lines.len());
            match lines.get_mut(index) {
                None => lines.push(Line {
                    file,
                    number,
                    sum: figure,
                    largest: figure,
                    frame,
                }),
                Some(line) => {
                    line.sum += figure;
                    if (figure, Reverse(frame)) > (line.largest, Reverse(line.frame)) {
                        (line.largest, line.frame) = (figure, frame);
                    }
                }
            }
        }
    }
    lines
}

/// The frames that represent a class in the output: those of the largest stack
/// after, or before if there is none after.
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
            Some((size, Reverse(frames.clone())))
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

/// The own frame at a depth, counted from 1, with recursion counted once; the
/// outermost if there are fewer; the innermost frame of a stack that has none.
fn own_frame(table: &FrameTable<'_>, stack: &[u32], depth: usize) -> u32 {
    let is_own = table.own_in(stack.iter().copied());
    let mut own = OwnFrames::default();
    let mut found = None;
    for &frame in stack {
        if own.count < depth && is_own(frame) && own.is_next(table, frame) {
            found = Some(frame);
        }
    }
    found.or(stack.first().copied()).unwrap_or_default()
}

/// Counts own frames from the inside out.
#[derive(Default)]
struct OwnFrames {
    count: usize,
    last: Option<u32>,
}

impl OwnFrames {
    /// Whether this own frame is the next one, and no recursion into the last.
    fn is_next(&mut self, table: &FrameTable<'_>, frame: u32) -> bool {
        let name = table.name(frame, MatchLevel::Canonical);
        let next = self.last.replace(name) != Some(name);
        self.count += usize::from(next);
        next
    }
}

/// Which of its innermost frames a stack is compared by.
#[derive(Clone, Copy)]
struct StackPrefix {
    /// The number of own frames.
    depth: usize,
    /// Include the frames in between.
    glue: bool,
}

impl StackPrefix {
    fn all() -> impl Iterator<Item = Self> {
        (1..=MAX_OWN_FRAMES).flat_map(|depth| [false, true].map(|glue| Self { depth, glue }))
    }

    /// A hash of these frames.
    fn hash(self, classes: &Classes<'_>, class: u32, names: &mut Vec<u32>) -> u128 {
        let table = &classes.table;
        let name = |frame| table.name(frame, MatchLevel::Canonical);
        let is_own = table.own_in(classes.frames_of(class));
        let mut own = OwnFrames::default();
        names.clear();
        for frame in classes.frames_of(class) {
            let is_next = is_own(frame) && own.is_next(table, frame);
            if is_next || (self.glue && !is_own(frame)) {
                names.push(name(frame));
            }
            if own.count == self.depth {
                break;
            }
        }
        if names.is_empty() {
            names.extend(classes.frames_of(class).take(1).map(name));
        }
        keys::hash(names.iter().copied())
    }
}

/// The stacks that share their innermost frames.
#[derive(Default)]
struct Node {
    /// The differences that fell, and those that rose.
    matches: [Vec<Match>; 2],
    stacks: usize,
}

fn group_by_callee(classes: &Classes<'_>, matches: Vec<Match>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let mut pending = matches;
    let mut candidates: Vec<u32> = (0..classes.classes.len() as u32).collect();
    for prefix in StackPrefix::all() {
        let mut nodes = nodes(classes, std::mem::take(&mut pending), prefix);
        count_stacks(classes, &mut nodes, &mut candidates, prefix);
        for node in nodes.into_values() {
            for matches in node.matches {
                let members: usize = matches.iter().map(|matched| matched.classes.len()).sum();
                if matches.is_empty() {
                    continue;
                }
                // A single stack of a function that many call is a difference of its
                // caller, unless only glue beyond the function distinguishes it.
                let by_glue = matches.len() == 1 && prefix.glue && prefix.depth > 1;
                if 2 * members >= node.stacks && !by_glue {
                    drafts.push(Draft::new(matches, prefix.depth));
                } else {
                    pending.extend(matches);
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

fn nodes(classes: &Classes<'_>, matches: Vec<Match>, prefix: StackPrefix) -> FxHashMap<u128, Node> {
    let mut nodes: FxHashMap<u128, Node> = FxHashMap::default();
    let mut names = Vec::new();
    for matched in matches {
        let key = prefix.hash(classes, main_class(classes, &matched), &mut names);
        let node = nodes.entry(key).or_default();
        node.matches[usize::from(matched.after > matched.before)].push(matched);
    }
    nodes
}

/// Counts, for each node, the stacks of both sides. Removes from `candidates`
/// the stacks that no later step can need.
fn count_stacks(
    classes: &Classes<'_>,
    nodes: &mut FxHashMap<u128, Node>,
    candidates: &mut Vec<u32>,
    prefix: StackPrefix,
) {
    let mut names = Vec::new();
    candidates.retain(|&class| {
        let node = nodes.get_mut(&prefix.hash(classes, class, &mut names));
        node.map(|node| node.stacks += 1).is_some() || prefix.glue
    });
}

/// Merges the groups that one call explains.
fn group_by_call(classes: &Classes<'_>, drafts: Vec<Draft>) -> Vec<Draft> {
    if drafts.len() < 2 {
        return drafts;
    }
    let calls = CallChanges::new(classes, drafts.iter().flat_map(|draft| &draft.matches));
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

/// The function whose call explains all stacks of a group, if there is one, and
/// whether they rose.
fn explained(calls: &CallChanges<'_, '_>, draft: &Draft) -> Option<(bool, u32)> {
    let mut functions = draft
        .matches
        .iter()
        .map(|matched| calls.explaining_call(matched));
    let first = functions.next()??;
    let rose = draft
        .matches
        .first()
        .is_some_and(|matched| matched.difference() > 0);
    functions
        .all(|function| function == Some(first))
        .then_some((rose, first))
}
