//! The call tree: all shown stacks laid over each other, weighed by one key,
//! without the branches that hardly matter.

use std::cmp::Reverse;
use std::io::{self, Write};

use allotrope_profile::Profile;
use rustc_hash::FxHashMap;

use crate::numbers::{bytes, count, share};
use crate::selection::{Key, Row, sum};
use crate::shorten::{columns, middle, name};
use crate::style::Role;
use crate::text::{Direction, TextOptions, describe, lists};

/// Columns of one step of indentation.
const STEP: usize = 2;

struct Tree {
    nodes: Vec<Node>,
    /// (parent, function's number) → child.
    edges: FxHashMap<(usize, u32), usize>,
}

struct Node {
    /// A frame that stands for all of its function here.
    frame: Option<u32>,
    value: u64,
    children: Vec<usize>,
    /// The only row that ends here.
    site: Option<u32>,
    ends: u32,
}

/// Writes the tree.
pub(super) fn write(
    profile: &Profile,
    rows: &[Row<'_>],
    key: Key,
    direction: Direction,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let whole = sum(rows).value(key);
    let tree = Tree::grow(profile, rows, key, direction);
    let (what, are_bytes) = describe(key);
    let from = match direction {
        Direction::FromAllocation => "from the allocation outwards",
        Direction::FromMain => "from main inwards",
    };
    let amount = |value| {
        if are_bytes {
            bytes(value)
        } else {
            count(value)
        }
    };
    let title = format!("Call tree {from}, by {what}: {}", amount(whole));
    writeln!(
        out,
        "\n{}",
        style.paint(Role::Title, &middle(&title, style.columns()))
    )?;
    let width = columns(&amount(whole)).max(columns(&amount(1023)));
    for line in tree.lines(whole, options) {
        let numbers = format!(
            "{:>7}  {:>width$}  ",
            share(line.value, whole),
            amount(line.value)
        );
        let used = columns(&numbers);
        // Deep branches stop moving to the right: half a line is for names.
        let most = style.columns().saturating_sub(used) / 2;
        let indent = (line.depth * STEP).min(most);
        let room = style.columns().saturating_sub(used + indent);
        let label = line.label(profile, room);
        writeln!(
            out,
            "{numbers}{:indent$}{}",
            "",
            style.paint(Role::Function, &label)
        )?;
    }
    Ok(())
}

struct Line {
    depth: usize,
    value: u64,
    what: What,
}

enum What {
    Frame {
        frame: Option<u32>,
        site: Option<u32>,
    },
    /// So many branches that are not shown.
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
                match lists::place(profile, frame, left) {
                    Some(place) if left >= 12 => format!("{function}  {place}{mark}"),
                    _ => format!("{function}{mark}"),
                }
            }
        }
    }
}

impl Tree {
    fn grow(profile: &Profile, rows: &[Row<'_>], key: Key, direction: Direction) -> Self {
        let functions = functions(profile);
        let mut tree = Self {
            nodes: vec![Node::new(None)],
            edges: FxHashMap::default(),
        };
        for row in rows.iter().filter(|row| row.figures.value(key) > 0) {
            let value = row.figures.value(key);
            let leaf = match direction {
                Direction::FromAllocation => tree.add(&functions, row.stack.iter(), value),
                Direction::FromMain => tree.add(&functions, row.stack.iter().rev(), value),
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

    /// The lines of the tree, from its root, most first. A single branch that
    /// carries all of its parent is not indented further.
    fn lines(&self, whole: u64, options: &TextOptions) -> Vec<Line> {
        let least = (whole as f64 * options.least_share).ceil() as u64;
        let mut lines = Vec::new();
        let mut pending: Vec<(What, u64, usize, usize)> = Vec::new();
        self.branch(0, 0, least, options.top, &mut pending);
        while let Some((what, value, depth, node)) = pending.pop() {
            let is_frame = matches!(what, What::Frame { .. });
            lines.push(Line { depth, value, what });
            if is_frame {
                let only = matches!(self.nodes[node].children.as_slice(),
                    [child] if self.nodes[*child].value == value);
                let deeper = if only { depth } else { depth + 1 };
                self.branch(node, deeper, least, options.top, &mut pending);
            }
        }
        lines
    }

    /// Puts a node's branches on the stack of what is still to be written.
    fn branch(
        &self,
        node: usize,
        depth: usize,
        least: u64,
        top: usize,
        pending: &mut Vec<(What, u64, usize, usize)>,
    ) {
        let mut children = self.nodes[node].children.clone();
        children.sort_by_key(|&child| (Reverse(self.nodes[child].value), child));
        let large = |child: &&usize| self.nodes[**child].value >= least.max(1);
        let shown = children.iter().take(top).take_while(large).count();
        let rest = &children[shown..];
        if !rest.is_empty() {
            let value = rest.iter().map(|&child| self.nodes[child].value).sum();
            pending.push((What::Rest(rest.len()), value, depth, node));
        }
        for &child in children[..shown].iter().rev() {
            let Node {
                frame, site, value, ..
            } = self.nodes[child];
            pending.push((What::Frame { frame, site }, value, depth, child));
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

/// A number for each frame's function.
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
