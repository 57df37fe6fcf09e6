//! The call tree: a trie of all shown stacks, weighted by one metric, without the
//! branches whose share is small. Only the nodes that are shown are made: a node has the rows
//! below it, and its branches are these rows by their next function. So memory does not grow
//! with the depth of the stacks.

use std::cmp::Reverse;
use std::io::{self, Write};

use allotrope_profile::{Metric, Profile};
use rustc_hash::FxHashMap;

use crate::numbers::{count, share};
use crate::selection::{Row, sum};
use crate::shorten::name;
use crate::text::{TextOptions, TreeOrder, amount, describe, each, lists, write_suppressed};
use allotrope_text::{Role, columns, cut_middle};

/// Columns of one step of indentation.
const STEP: usize = 2;
/// Largest number of lines of a tree: branches have at least a hundredth of the whole, but each may
/// be as deep as a stack.
const MAX_LINES: usize = 100_000;

/// What trees are made of.
struct Tree<'r> {
    rows: &'r [Row<'r>],
    /// Value of each row.
    values: Vec<u64>,
    /// Number of each frame's function.
    functions: Vec<u32>,
    order: TreeOrder,
}

/// A node of the trie: the rows whose stacks begin with the same functions, counted from the root.
struct Node {
    /// The frame of the first row at this node.
    frame: Option<u32>,
    /// The number of these functions.
    depth: usize,
    value: u64,
    /// Indexes of the rows.
    rows: Vec<u32>,
    /// The number of the row that ends here, if there is only one.
    site: Option<u32>,
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
    let tree = Tree::new(profile, rows, metric, order);
    let what = describe(metric, options);
    let from = match order {
        TreeOrder::BottomUp => "bottom-up: branches are callers",
        TreeOrder::TopDown => "top-down, from main",
    };
    let amount = |value| amount(metric, value);
    let per = options.common_per(profile).filter(|_| !metric.is_level());
    let each = |value| per.map_or_else(String::new, |per| each(metric, value, per));
    let mut title = format!("Call tree {from}, by {what}: {}", amount(whole));
    if per.is_some() {
        title.push_str(&format!(", {}", each(whole)));
    }
    writeln!(
        out,
        "\n{}",
        style.paint(Role::Title, &cut_middle(&title, style.columns()))
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
    node: Option<Node>,
}

enum What {
    Frame {
        frame: Option<u32>,
        site: Option<u32>,
    },
    /// The number of branches that are not shown.
    Rest(usize),
    /// There are more lines than are shown.
    Cut,
}

impl Line {
    fn label(&self, profile: &Profile, room: usize) -> String {
        match self.what {
            What::Rest(branches) => cut_middle(&format!("… {} more", count(branches as u64)), room),
            What::Cut => format!(
                "… the tree has more than {} lines; --filter selects stacks",
                count(MAX_LINES as u64)
            ),
            What::Frame { frame, site } => {
                let mark = site.map_or(String::new(), |number| format!("  #{number}"));
                let frame = frame.and_then(|index| profile.frames.get(index as usize));
                let Some(frame) = frame else {
                    return cut_middle(&format!("[no stack]{mark}"), room);
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

impl<'r> Tree<'r> {
    fn new(profile: &Profile, rows: &'r [Row<'r>], metric: Metric, order: TreeOrder) -> Self {
        Self {
            values: rows.iter().map(|row| row.ranked.value(metric)).collect(),
            functions: functions(profile),
            rows,
            order,
        }
    }

    /// The frame of a row's stack at this depth, counted from the root.
    fn frame(&self, row: u32, depth: usize) -> Option<u32> {
        let stack = self.rows[row as usize].stack;
        match self.order {
            TreeOrder::BottomUp => stack.get(depth).copied(),
            TreeOrder::TopDown => {
                let from_end = stack.len().checked_sub(depth + 1)?;
                stack.get(from_end).copied()
            }
        }
    }

    fn node(&self, rows: Vec<u32>, depth: usize) -> Node {
        let length = |&&row: &&u32| self.rows[row as usize].stack.len() == depth;
        let mut ending = rows.iter().filter(length);
        let site = match (ending.next(), ending.next()) {
            (Some(&only), None) => Some(self.rows[only as usize].number()),
            _ => None,
        };
        let values = rows.iter().map(|&row| self.values[row as usize]);
        Node {
            frame: depth
                .checked_sub(1)
                .and_then(|last| self.frame(*rows.first()?, last)),
            depth,
            value: values.fold(0, u64::saturating_add),
            site,
            rows,
        }
    }

    fn root(&self) -> Node {
        let rows = 0..self.rows.len() as u32;
        self.node(
            rows.filter(|&row| self.values[row as usize] > 0).collect(),
            0,
        )
    }

    /// The branches of a node, in the order of their first rows.
    fn children(&self, node: &Node) -> Vec<Node> {
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut by_function: FxHashMap<u32, usize> = FxHashMap::default();
        // The group of the previous row: stacks mostly share their next function.
        let mut last = None;
        for &row in &node.rows {
            let Some(frame) = self.frame(row, node.depth) else {
                continue;
            };
            let function = self.functions.get(frame as usize).copied();
            let function = function.unwrap_or(u32::MAX);
            let group = match last {
                Some((same, group)) if same == function => group,
                _ => *by_function.entry(function).or_insert(groups.len()),
            };
            last = Some((function, group));
            match groups.get_mut(group) {
                Some(rows) => rows.push(row),
                None => groups.push(vec![row]),
            }
        }
        let depth = node.depth + 1;
        let nodes = groups.into_iter().map(|rows| self.node(rows, depth));
        nodes.collect()
    }

    /// The lines of the tree, depth first from its root, the largest branch first. A
    /// single branch with all of the value of its parent is not indented further.
    fn lines(&self, whole: u64, options: &TextOptions) -> Vec<Line> {
        let least = (whole as f64 * options.least_share).ceil() as u64;
        let mut lines = Vec::new();
        let mut pending = Vec::new();
        self.branch(&self.root(), 0, least, options.top, &mut pending);
        while let Some(Pending { line, node }) = pending.pop() {
            let depth = line.depth;
            if lines.len() == MAX_LINES {
                lines.push(Line {
                    depth: 0,
                    value: 0,
                    carries_on: true,
                    what: What::Cut,
                });
                break;
            }
            lines.push(line);
            if let Some(node) = node {
                self.branch(&node, depth + 1, least, options.top, &mut pending);
            }
        }
        lines
    }

    /// Pushes a node's branches on the stack of pending lines.
    fn branch(
        &self,
        parent: &Node,
        depth: usize,
        least: u64,
        top: usize,
        pending: &mut Vec<Pending>,
    ) {
        let mut children = self.children(parent);
        let is_only = children.len() == 1;
        // Stable: of equal ones the first row decides.
        children.sort_by_key(|child| Reverse(child.value));
        let large = |child: &&Node| child.value >= least.max(1);
        let shown = children.iter().take(top).take_while(large).count();
        let rest = children.split_off(shown);
        if !rest.is_empty() {
            pending.push(Pending {
                line: Line {
                    depth,
                    value: rest.iter().map(|child| child.value).sum(),
                    carries_on: false,
                    what: What::Rest(rest.len()),
                },
                node: None,
            });
        }
        for node in children.into_iter().rev() {
            let Node {
                frame, site, value, ..
            } = node;
            let carries_on = parent.frame.is_some() && is_only && value == parent.value;
            pending.push(Pending {
                line: Line {
                    depth: if carries_on { depth - 1 } else { depth },
                    value,
                    carries_on,
                    what: What::Frame { frame, site },
                },
                node: Some(node),
            });
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
