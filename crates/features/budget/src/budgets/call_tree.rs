//! A call tree without source lines: the accepted stacks of a case. Two calls of a function
//! in different lines of their caller are two nodes, in the order of the lines.
//!
//! To compare the tree with measured stacks, its calls are aligned with theirs and take
//! their lines: so a line names what allocates now, however much was edited above it.

use std::collections::BTreeMap;

use allotrope_profile::{CountedStack, Metric, MetricSet, MetricValues, StackFrame, StackSet};
use rustc_hash::FxHashMap;

use super::Budget;
use crate::spread::Spread;

/// The function of the allocations that have no stack.
const NO_STACK: &str = "[no stack]";

/// A call tree.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallTree {
    /// Calls in depth-first order.
    pub(super) calls: Vec<Call>,
    /// The metrics whose figures it has.
    pub(super) metrics: MetricSet,
    /// Numbers of the case that are stored although they are not checked. They are here and
    /// not among the numbers, so that two branches that change one number do not conflict
    /// in further lines.
    pub(crate) watched: BTreeMap<Metric, Spread>,
}

/// A call, and the figures of the stacks that end there.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Call {
    pub(super) depth: usize,
    /// The frame. It has a line only if it is from an older file.
    pub(super) frame: StackFrame,
    pub(super) figures: MetricValues,
}

/// A node of the tree of measured stacks.
#[derive(Default)]
struct Node<'a> {
    figures: MetricValues,
    /// The allocations of all stacks through it.
    total: u64,
    callees: BTreeMap<&'a StackFrame, usize>,
}

/// The tree of measured stacks, whose root is the node 0.
struct Nodes<'a>(Vec<Node<'a>>);

impl<'a> Nodes<'a> {
    fn of(set: &'a StackSet, metrics: MetricSet) -> Self {
        let mut nodes = Self(vec![Node::default()]);
        for stack in &set.stacks {
            let mut figures = stack.figures;
            for metric in Metric::OF_STACKS {
                if !metrics.has(metric) {
                    figures[metric as usize] = 0;
                }
            }
            if figures != MetricValues::default() {
                nodes.add(set, stack, &figures);
            }
        }
        nodes
    }

    fn add(&mut self, set: &'a StackSet, stack: &CountedStack, figures: &MetricValues) {
        let mut at = 0;
        let allocations = figures[Metric::Allocations as usize];
        self.0[at].total += allocations;
        let frames = stack.frames.iter().rev();
        for frame in frames.filter_map(|frame| set.frames.get(*frame as usize)) {
            let new = self.0.len();
            let next = *self.0[at].callees.entry(frame).or_insert(new);
            if next == new {
                self.0.push(Node::default());
            }
            at = next;
            self.0[at].total += allocations;
        }
        for (sum, figure) in self.0[at].figures.iter_mut().zip(figures) {
            *sum = sum.saturating_add(*figure);
        }
    }
}

impl CallTree {
    /// The tree of measured stacks, with the figures of these metrics.
    pub fn of(set: &StackSet, metrics: MetricSet) -> Self {
        let Nodes(nodes) = Nodes::of(set, metrics);
        let mut calls = Vec::new();
        if nodes[0].figures != MetricValues::default() {
            let mut call = Call::default();
            call.frame.function = NO_STACK.into();
            call.figures = nodes[0].figures;
            calls.push(call);
        }
        // Iterative, because stacks may be thousands of calls deep.
        let callees = |node: usize, depth: usize| {
            let callees = nodes[node].callees.iter().rev();
            callees.map(move |(frame, callee)| (depth, *frame, *callee))
        };
        let mut pending: Vec<(usize, &StackFrame, usize)> = callees(0, 0).collect();
        while let Some((depth, frame, node)) = pending.pop() {
            calls.push(Call {
                depth,
                frame: StackFrame {
                    line: 0,
                    ..frame.clone()
                },
                figures: nodes[node].figures,
            });
            pending.extend(callees(node, depth + 1));
        }
        Self {
            calls,
            metrics,
            watched: BTreeMap::new(),
        }
    }

    /// Whether it has stacks, and not only numbers that are not checked.
    pub(crate) fn has_stacks(&self) -> bool {
        self.metrics.has(Metric::Allocations)
    }

    /// The source files of its calls.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().map(|call| &*call.frame.file)
    }

    /// A metric of which the sum of the stacks is not the accepted number: somebody edited
    /// or merged only one of them. With the sum and the number.
    pub fn disagreement(&self, budget: &Budget) -> Option<(Metric, i64, i64)> {
        budget.numbers.iter().find_map(|(&metric, number)| {
            let of_stacks = metric.of_stacks()?;
            let summed = !matches!(metric, Metric::Net | Metric::PeakBytes);
            if !summed || !self.metrics.has(of_stacks) {
                return None;
            }
            let figures = self
                .calls
                .iter()
                .map(|call| call.figures[of_stacks as usize]);
            let sum = figures.fold(0, u64::saturating_add);
            let sum = i64::try_from(sum).unwrap_or(i64::MAX);
            let number = number.spread.typical;
            (sum != number).then_some((metric, sum, number))
        })
    }

    /// Returns the tree's stacks, with the source lines of the same calls among measured stacks.
    pub fn stacks(&self, now: &StackSet) -> StackSet {
        let lines = if self.calls.iter().any(|call| call.frame.line > 0) {
            self.calls.iter().map(|call| call.frame.line).collect()
        } else {
            self.lines(now)
        };
        let mut set = StackSet {
            known: self.metrics,
            ..StackSet::default()
        };
        let mut numbers: FxHashMap<StackFrame, u32> = FxHashMap::default();
        let mut path: Vec<u32> = Vec::new();
        for (call, line) in self.calls.iter().zip(lines) {
            let frame = StackFrame {
                line,
                ..call.frame.clone()
            };
            path.truncate(call.depth);
            path.push(*numbers.entry(frame).or_insert_with_key(|frame| {
                set.frames.push(frame.clone());
                u32::try_from(set.frames.len() - 1).unwrap_or(u32::MAX)
            }));
            if call.figures != MetricValues::default() {
                set.stacks.push(CountedStack {
                    frames: path.iter().rev().copied().collect(),
                    figures: call.figures,
                    maximum: None,
                });
            }
        }
        set
    }

    /// The line of each call: that of the call at the same position among those of the
    /// same function by the same caller; 0 if there is none.
    fn lines(&self, now: &StackSet) -> Vec<u32> {
        let Nodes(nodes) = Nodes::of(now, self.metrics);
        let (roots, callees, totals) = self.structure();
        let mut lines = vec![0; self.calls.len()];
        let mut pending = vec![(roots, 0)];
        while let Some((calls, node)) = pending.pop() {
            let mut groups: FxHashMap<Key<'_>, Group> = FxHashMap::default();
            for call in calls {
                let group = groups.entry(key(&self.calls[call].frame)).or_default();
                group.accepted.push(call);
            }
            for (frame, callee) in &nodes[node].callees {
                if let Some(group) = groups.get_mut(&key(frame)) {
                    group.measured.push((frame.line, *callee));
                }
            }
            for group in groups.into_values() {
                let same = |call: usize, node: usize| totals[call] == nodes[node].total;
                for (call, (line, node)) in group.paired(same) {
                    lines[call] = line;
                    pending.push((callees[call].clone(), node));
                }
            }
        }
        lines
    }

    /// The outermost calls, and for each call its callees and the allocations of all
    /// stacks through it.
    fn structure(&self) -> (Vec<usize>, Vec<Vec<usize>>, Vec<u64>) {
        let mut roots = Vec::new();
        let mut callees = vec![Vec::new(); self.calls.len()];
        let mut totals = vec![0; self.calls.len()];
        let mut callers = Vec::new();
        let mut path: Vec<usize> = Vec::new();
        for (index, call) in self.calls.iter().enumerate() {
            path.truncate(call.depth);
            match path.last() {
                Some(&caller) => callees[caller].push(index),
                None => roots.push(index),
            }
            path.push(index);
            callers.push(path.iter().rev().nth(1).copied());
            totals[index] = call.figures[Metric::Allocations as usize];
        }
        for (index, caller) in callers.into_iter().enumerate().rev() {
            if let Some(caller) = caller {
                totals[caller] = totals[caller].saturating_add(totals[index]);
            }
        }
        (roots, callees, totals)
    }
}

/// What calls must have in common to be aligned: function, module, file, inlined.
type Key<'a> = (&'a str, &'a str, &'a str, bool);

fn key(frame: &StackFrame) -> Key<'_> {
    let StackFrame {
        function,
        module,
        file,
        inlined,
        ..
    } = frame;
    (function, module, file, *inlined)
}

/// The calls of one function by one caller, in the order of their lines.
#[derive(Default)]
struct Group {
    /// Indexes of accepted calls.
    accepted: Vec<usize>,
    /// Line and node of measured calls.
    measured: Vec<(u32, usize)>,
}

impl Group {
    /// Pairs accepted calls with measured ones: in their order if there are as many of
    /// them, else those with the same figure first.
    fn paired(mut self, same: impl Fn(usize, usize) -> bool) -> Vec<(usize, (u32, usize))> {
        if self.accepted.len() == self.measured.len() {
            return self.accepted.into_iter().zip(self.measured).collect();
        }
        let mut pairs = Vec::new();
        let mut others = Vec::new();
        for call in self.accepted {
            let mut measured = self.measured.iter();
            match measured.position(|&(_, node)| same(call, node)) {
                Some(found) => pairs.push((call, self.measured.remove(found))),
                None => others.push(call),
            }
        }
        pairs.extend(others.into_iter().zip(self.measured));
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks `main` ← `f` at lines of `main`, with these allocations.
    fn set(stacks: &[(u32, u64)]) -> StackSet {
        let mut set = StackSet {
            known: MetricSet::OF_STACKS,
            ..StackSet::default()
        };
        let frame = |function: &str, line| StackFrame {
            function: function.into(),
            line,
            ..StackFrame::default()
        };
        set.frames.push(frame("f", 3));
        for &(line, allocations) in stacks {
            let mut figures = MetricValues::default();
            figures[Metric::Allocations as usize] = allocations;
            set.frames.push(frame("main", line));
            set.stacks.push(CountedStack {
                frames: Box::new([0, set.frames.len() as u32 - 1]),
                figures,
                maximum: None,
            });
        }
        set
    }

    /// The allocations by line of `main`.
    fn by_line(set: &StackSet) -> Vec<(u32, u64)> {
        let stacks = set.stacks.iter().map(|stack| {
            let main = &set.frames[stack.frames[1] as usize];
            (main.line, stack.figures[Metric::Allocations as usize])
        });
        let mut stacks: Vec<(u32, u64)> = stacks.collect();
        stacks.sort_unstable();
        stacks
    }

    fn accepted(stacks: &[(u32, u64)]) -> CallTree {
        CallTree::of(&set(stacks), MetricSet::OF_STACKS)
    }

    #[test]
    fn moved_lines_are_those_of_now() {
        let tree = accepted(&[(10, 5), (20, 7)]);
        let now = set(&[(12, 6), (22, 7)]);
        assert_eq!(by_line(&tree.stacks(&now)), [(12, 5), (22, 7)]);
    }

    #[test]
    fn a_new_line_among_others_is_new() {
        let tree = accepted(&[(10, 5), (20, 7)]);
        let now = set(&[(10, 5), (15, 1), (21, 7)]);
        assert_eq!(by_line(&tree.stacks(&now)), [(10, 5), (21, 7)]);
        // One is gone: no line is known for it.
        let now = set(&[(20, 7)]);
        assert_eq!(by_line(&tree.stacks(&now)), [(0, 5), (20, 7)]);
    }

    #[test]
    fn the_tree_does_not_depend_on_lines() {
        let tree = accepted(&[(10, 5), (20, 7)]);
        assert_eq!(tree, accepted(&[(110, 5), (120, 7)]));
        assert_eq!(tree.calls.len(), 4);
    }

    #[test]
    fn figures_of_other_metrics_are_left_out() {
        let metrics = MetricSet::of(&[Metric::Bytes]);
        let tree = CallTree::of(&set(&[(10, 5)]), metrics);
        assert_eq!(tree.calls, []);
    }
}
