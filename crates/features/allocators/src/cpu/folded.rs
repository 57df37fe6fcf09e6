//! The stacks with their samples: as folded text, a line a stack with the outermost function first,
//! and for a flame graph. Functions that are inlined stand in them, too.

use std::io::{self, Write};

use allotrope_text::shown;
use rustc_hash::FxHashMap;

use crate::cpu::names::Names;
use crate::cpu::stacks::Stack;

/// What stands for a sample of which nothing is known.
const UNKNOWN: &str = "[no stack]";

/// A stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    /// The functions, the outermost one first.
    pub frames: Vec<FoldedFrame>,
    /// Samples of CPU time.
    pub samples: u64,
}

/// A function of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FoldedFrame {
    /// The function.
    pub function: String,
    /// Whether it belongs to the allocator.
    pub allocator: bool,
}

/// The stacks with samples, each once, in the order of their functions.
pub(crate) fn of(stacks: &[Stack<'_>], names: &Names<'_>) -> Vec<Folded> {
    let mut sums: FxHashMap<Vec<FoldedFrame>, u64> = FxHashMap::default();
    for stack in stacks.iter().filter(|it| it.counts.samples > 0) {
        let steps = stack.steps.iter().rev();
        let keys = steps.flat_map(|it| names.functions(&it.frame));
        let mut frames: Vec<FoldedFrame> = keys
            .map(|key| FoldedFrame {
                function: key.function,
                allocator: key.allocator,
            })
            .collect();
        if frames.is_empty() {
            frames.push(FoldedFrame {
                function: UNKNOWN.to_owned(),
                allocator: false,
            });
        }
        *sums.entry(frames).or_default() += stack.counts.samples;
    }
    let sums = sums.into_iter();
    let mut stacks: Vec<Folded> = sums
        .map(|(frames, samples)| Folded { frames, samples })
        .collect();
    stacks.sort_by(|a, b| a.frames.cmp(&b.frames));
    stacks
}

/// Writes folded text, which flamegraph.pl, inferno and speedscope read. Semicolons in names
/// become `_`.
///
/// # Errors
/// Those of `out`.
pub fn write(stacks: &[Folded], out: &mut dyn Write) -> io::Result<()> {
    for stack in stacks {
        for (at, frame) in stack.frames.iter().enumerate() {
            let name = frame.function.replace(';', "_");
            let between = if at == 0 { "" } else { ";" };
            write!(out, "{between}{}", shown(&name))?;
        }
        writeln!(out, " {}", stack.samples)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_stack_with_the_outermost_function_first() {
        let frame = |function: &str| FoldedFrame {
            function: function.to_owned(),
            allocator: function == "free",
        };
        let stacks = [
            Folded {
                frames: vec![frame("main"), frame("free"), frame("get;env\n")],
                samples: 12,
            },
            Folded {
                frames: vec![frame("main")],
                samples: 3,
            },
        ];
        let mut text = Vec::new();
        write(&stacks, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, "main;free;get_env\\n 12\nmain 3\n");
    }
}
