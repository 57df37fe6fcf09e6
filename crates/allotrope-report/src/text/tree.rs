//! The call tree: a trie of all shown stacks, weighted by one metric, without the
//! branches whose share is small.

use std::cmp::Reverse;
use std::io::{self, Write};

use allotrope_profile::{Metric, Profile};
use rustc_hash::FxHashMap;

use crate::numbers::{count, share};
use crate::selection::{Row, sum};
use crate::shorten::{columns, middle, name};
use crate::style::Role;
use crate::text::{TextOptions, TreeOrder, amount, describe, each, lists, write_suppressed};

/// Columns of one step of indentation.
const STEP: usize = 2;

struct Tree {
    nodes: Vec<Node>,
    /// (parent, function's number) → child.
    edges: FxHashMap<(usize, u32), usize>,
}

struct Node {
    /// The first frame of the function at this node.
    frame: Option<u32>,
    value: u64,
    children: Vec<usize>,
    /// The number of the row that ends here, if there is only one.
    site: Option<u32>,
    ends: u32,
}

/// Writes the tree.
pub(super) fn write(
    profile: &Profile,
    rows: &[Row<'_>],
    metric: Metric,
    order: TreeOrder,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let whole = sum(rows).value(metric);
    let tree = Tree::grow(profile, rows, metric, order);
    let what = describe(metric, options);
    let from = match order {
        TreeOrder::BottomUp => "bottom-up: branches are callers",
        TreeOrder::TopDown => "top-down, from main",
    };
    let amount = |value| amount(metric, value);
    let per = options.common_per(profile);
    let each = |value| per.map_or_else(String::new, |per| each(metric, value, per));
    let mut title = format!("Call tree {from}, by {what}: {}", amount(whole));
    if per.is_some() {
        title.push_str(&format!(", {}", each(whole)));
    }
    writeln!(
        out,
        "\n{}",
        style.paint(Role::Title, &middle(&title, style.columns()))
    )?;
    let lines = tree.lines(whole, options);
    let amounts = lines.iter().map(|line| columns(&amount(line.value)));
    let width = amounts.max().unwrap_or(0);
    let parts = lines.iter().map(|line| columns(&each(line.value)));
    let part_width = parts.max().map_or(0, |width| match width {
        0 => 0,
        width => width + 2,
    });
    for line in lines {
        // A frame with all of the value of the frame above it repeats no numbers.
        let numbers = match line.carries_on {
            true => " ".repeat(width + part_width + 9),
            false => format!(
                "{:>7}  {:>width$}{:>part_width$}",
                share(line.value, whole),
                amount(line.value),
                each(line.value)
            ),
        };
        let mark = if line.carries_on { "    " } else { "  • " };
        let used = columns(&numbers) + columns(mark);
        // The indentation of deep branches is limited: half a line is for names.
        let most = style.columns().saturating_sub(used) / 2;
        let indent = (line.depth * STEP).min(most);
        let room = style.columns().saturating_sub(used + indent);
        let label = line.label(profile, room);
        let label = style.paint(Role::Function, &label);
        writeln!(out, "{numbers}{:indent$}{mark}{label}", "")?;
    }
    write_suppressed(rows, metric, options, out)
}

struct Line {
    depth: usize,
    value: u64,
    /// It is the only branch of the line above, and has all of its value.
    carries_on: bool,
    what: What,
}

/// A line that is still to be written, with its branches.
struct Pending {
    line: Line,
    node: usize,
}

enum What {
    Frame {
        frame: Option<u32>,
        site: Option<u32>,
    },
    /// The number of branches that are not shown.
    Rest(usize),
}

impl Line {
    fn label(&self, profile: &Profile, room: usize) -> String {
        match self.what {
            What::Rest(branches) => middle(&format!("… {} more", count(branches as u64)), room),
            What::Frame { frame, site } => {
                let mark = site.map_or(String::new(), |number| format!("  #{number}"));
                let frame = frame.and_then(|index| profile.frames.get(index as usize));
                let Some(frame) = frame else {
                    return middle(&format!("[no stack]{mark}"), room);
                };
                let room = room.saturating_sub(columns(&mark));
                let function = name(&frame.function, room);
                let left = room.saturating_sub(columns(&function) + 2);
                match lists::location(profile, frame, left) {
                    Some(location) if left >= 12 => format!("{function}  {location}{mark}"),
                    _ => format!("{function}{mark}"),
                }
            }
        }
    }
}

impl Tree {
    fn grow(profile: &Profile, rows: &[Row<'_>], metric: Metric, order: TreeOrder) -> Self {
        let functions = functions(profile);
        let mut tree = Self {
            nodes: vec![Node::new(None)],
            edges: FxHashMap::default(),
        };
        for row in rows.iter().filter(|row| row.ranked.value(metric) > 0) {
            let value = row.ranked.value(metric);
            let leaf = match order {
                TreeOrder::BottomUp => tree.add(&functions, row.stack.iter(), value),
                TreeOrder::TopDown => tree.add(&functions, row.stack.iter().rev(), value),
            };
            let leaf = &mut tree.nodes[leaf];
            leaf.ends += 1;
            leaf.site = (leaf.ends == 1).then(|| row.number());
        }
        tree
    }

    fn add<'f>(
        &mut self,
        functions: &[u32],
        stack: impl Iterator<Item = &'f u32>,
        value: u64,
    ) -> usize {
        let mut at = 0;
        self.nodes[at].value = self.nodes[at].value.saturating_add(value);
        for &frame in stack {
            let function = functions.get(frame as usize).copied().unwrap_or(u32::MAX);
            let next = self.nodes.len();
            let child = *self.edges.entry((at, function)).or_insert(next);
            if child == next {
                self.nodes.push(Node::new(Some(frame)));
                self.nodes[at].children.push(child);
            }
            self.nodes[child].value = self.nodes[child].value.saturating_add(value);
            at = child;
        }
        at
    }

    /// The lines of the tree, depth first from its root, the largest branch first. A
    /// single branch with all of the value of its parent is not indented further.
    fn lines(&self, whole: u64, options: &TextOptions) -> Vec<Line> {
        let least = (whole as f64 * options.least_share).ceil() as u64;
        let mut lines = Vec::new();
        let mut pending = Vec::new();
        self.branch(0, 0, least, options.top, &mut pending);
        while let Some(Pending { line, node }) = pending.pop() {
            let depth = line.depth;
            let is_frame = matches!(line.what, What::Frame { .. });
            lines.push(line);
            if is_frame {
                self.branch(node, depth + 1, least, options.top, &mut pending);
            }
        }
        lines
    }

    /// Pushes a node's branches on the stack of pending lines.
    fn branch(
        &self,
        node: usize,
        depth: usize,
        least: u64,
        top: usize,
        pending: &mut Vec<Pending>,
    ) {
        let mut children = self.nodes[node].children.clone();
        children.sort_by_key(|&child| (Reverse(self.nodes[child].value), child));
        let large = |child: &&usize| self.nodes[**child].value >= least.max(1);
        let shown = children.iter().take(top).take_while(large).count();
        let (shown, rest) = children.split_at(shown);
        if !rest.is_empty() {
            pending.push(Pending {
                line: Line {
                    depth,
                    value: rest.iter().map(|&child| self.nodes[child].value).sum(),
                    carries_on: false,
                    what: What::Rest(rest.len()),
                },
                node,
            });
        }
        let parent = &self.nodes[node];
        for &child in shown.iter().rev() {
            let Node {
                frame, site, value, ..
            } = self.nodes[child];
            let carries_on =
                parent.frame.is_some() && parent.children.len() == 1 && value == parent.value;
            pending.push(Pending {
                line: Line {
                    depth: if carries_on { depth - 1 } else { depth },
                    value,
                    carries_on,
                    what: What::Frame { frame, site },
                },
                node: child,
            });
        }
    }
}

impl Node {
    fn new(frame: Option<u32>) -> Self {
        Self {
            frame,
            value: 0,
            children: Vec::new(),
            site: None,
            ends: 0,
        }
    }
}

/// Numbers the functions; the result has the number of each frame's function.
fn functions(profile: &Profile) -> Vec<u32> {
    let mut numbers = FxHashMap::default();
    let frames = profile.frames.iter();
    frames
        .map(|frame| {
            let next = numbers.len() as u32;
            *numbers
                .entry((&frame.function, frame.module))
                .or_insert(next)
        })
        .collect()
}
