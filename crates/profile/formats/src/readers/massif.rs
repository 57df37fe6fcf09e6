//! massif's output files (`massif.out.PID`): a tree of what was live at the peak.
//!
//! ```text
//! desc: --massif-out-file=massif.out
//! cmd: ./app
//! time_unit: i
//! #-----------
//! snapshot=7
//! #-----------
//! time=140510
//! mem_heap_B=141000
//! heap_tree=peak
//! n1: 141000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
//!  n2: 141000 0x109160: g (app.c:3)
//!   n0: 140000 0x1091A7: main (app.c:5)
//!   n0: 1000 in 1 place, below massif's threshold (1.00%)
//! ```
//!
//! A line has the number of branches below it, the bytes, and the frame; it is indented by one
//! space a level. The first level is the caller of the allocation function, the next its caller.
//!
//! Read: the command, and the tree of the peak; without one, the detailed tree with the most bytes,
//! with a note. Bytes below massif's threshold have the stack of the branch that they are in, and a
//! note says how many they are. Ignored: snapshots without a tree, massif's estimate of what the
//! allocator itself needs (`mem_heap_extra_B`), sizes of stacks.
//!
//! Source: Valgrind, `massif/ms_print.in` and `massif/ms_main.c`.

use allotrope_demangle::Demangler;
use allotrope_profile::{Metric, MetricSet, StackFrame};
use allotrope_text::numbers::bytes;

use crate::budget::check_depth;
use crate::error::{Fault, Problem};
use crate::format::Format;
use crate::function_names::{file_name, parse_name};
use crate::lines::Lines;
use crate::readers::{Parsed, excerpt};
use crate::stack_set_builder::StackSetBuilder;

/// Whether the file begins as massif's do.
pub(crate) fn begins<'a>(mut lines: impl Iterator<Item = &'a str>) -> bool {
    let mut starts = |with: &str| lines.next().is_some_and(|line| line.starts_with(with));
    starts("desc: ") && starts("cmd: ") && starts("time_unit: ")
}

fn malformed(what: &str) -> Problem {
    Problem::Malformed {
        format: Format::Massif,
        what: what.to_owned(),
    }
}

/// A node of the tree whose branches are being read.
struct Node {
    bytes: u64,
    /// Bytes of its branches so far.
    in_branches: u64,
}

/// A tree that is being read.
struct Tree {
    builder: StackSetBuilder,
    /// From the root to the last node.
    path: Vec<Node>,
    /// The frames of the path, without those of its nodes that have none: the root and what is
    /// below the threshold, which are its first and its last node.
    frames: Vec<u32>,
    /// Bytes below massif's threshold.
    below_threshold: u64,
    is_peak: bool,
}

/// Reads the whole file.
pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Parsed, Fault> {
    let mut title = String::new();
    let mut best: Option<(u64, Tree)> = None;
    let mut tree: Option<Tree> = None;
    loop {
        let budget = lines.budget();
        let line = lines.next_text()?;
        let ended = line.as_ref().is_none_or(|line| line.starts_with('#'));
        if ended && let Some(mut whole) = tree.take() {
            let bytes = whole.path.first().map_or(0, |root| root.bytes);
            let closed = whole.close(0);
            let is_better = match &best {
                None => true,
                Some((_, best)) if best.is_peak => false,
                Some((most, _)) => whole.is_peak || bytes > *most,
            };
            if is_better {
                best = Some((bytes, whole));
            }
            closed.map_err(|problem| lines.fault(problem))?;
            continue;
        }
        let Some(line) = line else { break };
        if let Some(command) = line.strip_prefix("cmd: ") {
            title = command.trim().to_owned();
        } else if let Some(kind) = line.strip_prefix("heap_tree=") {
            let is_peak = kind == "peak";
            tree = (is_peak || kind == "detailed").then(|| Tree {
                builder: StackSetBuilder::new(budget),
                path: Vec::new(),
                frames: Vec::new(),
                below_threshold: 0,
                is_peak,
            });
        } else if let Some(tree) = &mut tree {
            let node = tree.node(&line);
            node.map_err(|problem| lines.fault(problem))?;
        }
    }
    let Some((_, tree)) = best else {
        return Err(Fault::whole(Problem::NoStacks(Format::Massif)));
    };
    let mut notes = Vec::new();
    if !tree.is_peak {
        notes.push("the file has no tree of the peak; this is its largest tree".to_owned());
    }
    if tree.below_threshold > 0 {
        notes.push(format!(
            "{} are below massif's threshold, and their stacks end early; valgrind --threshold=0 writes them in full",
            bytes(tree.below_threshold)
        ));
    }
    let known = MetricSet::of(&[Metric::PeakBytes]);
    Ok(Parsed {
        set: tree.builder.finish(title, known),
        notes,
    })
}

impl Tree {
    /// Reads the line of a node.
    fn node(&mut self, line: &str) -> Result<(), Problem> {
        let text = line.trim_start_matches(' ');
        let depth = line.len() - text.len();
        let bad = || malformed(&format!("'{}' is no line of a tree", excerpt(line)));
        let (branches, text) = text.split_once(": ").ok_or_else(bad)?;
        let branches = branches.strip_prefix('n').ok_or_else(bad)?;
        let branches: u64 = branches.parse().map_err(|_| bad())?;
        let (bytes, text) = text.split_once(' ').ok_or_else(bad)?;
        let bytes: u64 = bytes.parse().map_err(|_| bad())?;
        if depth > self.path.len() || (depth == 0 && !self.path.is_empty()) {
            return Err(malformed("a line of the tree is indented too far"));
        }
        self.close(depth)?;
        check_depth(depth)?;
        self.frames.truncate(depth.saturating_sub(1));
        if let Some(parent) = self.path.last_mut() {
            parent.in_branches = parent.in_branches.saturating_add(bytes);
        }
        if depth == 0 {
            // The root: the allocation functions.
        } else if text.starts_with("0x") {
            self.frames.push(self.builder.frame_of_text(text, frame)?);
        } else if branches == 0 {
            self.below_threshold = self.below_threshold.saturating_add(bytes);
        } else {
            return Err(bad());
        }
        self.path.push(Node {
            bytes,
            in_branches: 0,
        });
        Ok(())
    }

    /// Ends the nodes at this depth and deeper: what is in none of their branches is their own.
    fn close(&mut self, depth: usize) -> Result<(), Problem> {
        while self.path.len() > depth {
            let Some(node) = self.path.pop() else { break };
            let own = node.bytes.saturating_sub(node.in_branches);
            if own > 0 {
                let frames = self.frames.get(..self.path.len());
                let frames = frames.unwrap_or(&self.frames);
                self.builder.add_one(frames, Metric::PeakBytes, own)?;
            }
        }
        Ok(())
    }
}

/// `0x109160: g (app.c:3)`, `0x4A2: ??? (in /usr/lib/libx.so)`, `0x4A2: ???`.
fn frame(demangler: &Demangler, text: &str) -> StackFrame {
    let (address, symbol) = text.split_once(": ").unwrap_or((text, "???"));
    let (name, place) = match symbol.rsplit_once(" (") {
        Some((name, place)) if place.ends_with(')') => (name, &place[..place.len() - 1]),
        _ => (symbol, ""),
    };
    let (module, file, line) = match (place.strip_prefix("in "), place.rsplit_once(':')) {
        (Some(module), _) => (file_name(module), "", 0),
        (None, Some((file, line))) => ("", file, line.parse().unwrap_or(0)),
        (None, None) => ("", place, 0),
    };
    if name == "???" {
        return StackFrame {
            function: address.into(),
            module: module.into(),
            ..StackFrame::default()
        };
    }
    let names = parse_name(demangler, name, file);
    StackFrame {
        function: names.function.into(),
        signature: names.signature.into(),
        module: module.into(),
        file: file.into(),
        line,
        ..StackFrame::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::readers::tests::{describe, parse};

    const HEAD: &str = "desc: (none)\ncmd: ./app -x\ntime_unit: i\n";

    fn snapshot(kind: &str, tree: &str) -> String {
        format!(
            "#-----------\nsnapshot=1\n#-----------\ntime=5\nmem_heap_B=9\nheap_tree={kind}\n{tree}"
        )
    }

    #[test]
    fn the_tree_of_the_peak_is_read() {
        let small = "n1: 900000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n n0: 900000 0x1: h (a.c:1)\n";
        let peak = "n1: 141000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n n3: 141000 0x109160: g(int) (m.cc:3)\n  n0: 100000 0x1091A7: main (m.cc:5)\n  n1: 40000 0x109170: ??? (in /usr/lib/libx.so.1)\n   n0: 40000 0x109188: main (m.cc:5)\n  n0: 1000 in 1 place, below massif's threshold (1.00%)\n";
        for text in [
            [HEAD, &snapshot("detailed", small), &snapshot("peak", peak)].concat(),
            [HEAD, &snapshot("peak", peak), &snapshot("detailed", small)].concat(),
        ] {
            let text = format!("{text}{}", snapshot("empty", ""));
            let mut parsed = parse(&text, read);
            assert_eq!(parsed.set.title, "./app -x");
            let metric = Metric::PeakBytes as usize;
            assert_eq!(parsed.set.total(Metric::PeakBytes), 141_000);
            assert!(parsed.set.known.has(Metric::PeakBytes));
            assert!(!parsed.set.known.has(Metric::Allocations));
            for stack in &mut parsed.set.stacks {
                stack.figures[0] = stack.figures[metric];
            }
            assert_eq!(
                describe(&parsed.set),
                [
                    "`g `main = 100000",
                    "`g libx.so.1`0x109170 `main = 40000",
                    "`g = 1000"
                ]
            );
            assert_eq!(parsed.notes.len(), 1);
        }
    }

    #[test]
    fn damaged_trees_are_errors_with_their_line() {
        let root = "n1: 10 (heap allocation functions) malloc\n";
        for (tree, line) in [
            ("n1: ten (heap\n", 10),
            ("tree\n", 10),
            (&format!("{root}   n0: 10 0x1: f (a.c:1)\n"), 11),
            (&format!("{root}n1: 10 (again) malloc\n"), 11),
            (&format!("{root} n2: 10 no address\n"), 11),
        ] {
            let text = format!("{HEAD}{}", snapshot("peak", tree));
            let mut input = text.as_bytes();
            let fault = read(&mut Lines::new(&mut input, &Budget::default())).unwrap_err();
            assert_eq!(fault.location, crate::error::Location::Line(line), "{text}");
        }
    }
}
