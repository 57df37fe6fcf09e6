//! The stacks that a process has written, by id.

use crate::numbers::stack_end::{FIRST_NODE, NOT_RECORDED};
use crate::wire::ADDRESS_MASK;

use crate::samples::layout::{EXACT, WRITTEN};
use crate::samples::stacks::Frame;

/// Largest number of frames of a stack, as in a recording.
const MAX_DEPTH: usize = 4096;

/// A copy of the nodes, by id.
#[derive(Debug)]
pub struct Nodes(Box<[[u64; 2]]>);

/// A call stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The innermost frame first.
    pub frames: Vec<Frame>,
    /// Why it ends there (`stack_end` of `allotrope-shm`). `NOT_RECORDED`: there was no
    /// place for it, or what the process wrote cannot be right.
    pub end: u32,
}

impl Nodes {
    pub(super) fn new(nodes: Box<[[u64; 2]]>) -> Self {
        Self(nodes)
    }

    pub(super) fn node(&self, id: u32) -> Option<(Frame, u32)> {
        let node = self.0.get(id as usize).filter(|_| id >= FIRST_NODE);
        let [place, parent] = node.filter(|it| it[1] & WRITTEN != 0)?;
        let callers = *parent as u32;
        let frame = Frame {
            address: place & ADDRESS_MASK,
            exact: parent & EXACT != 0,
            mapping: (place >> 48) as u16,
        };
        (callers < id).then_some((frame, callers))
    }

    pub(super) fn stack(&self, id: u32) -> Stack {
        let mut frames = Vec::new();
        let mut id = id;
        while id >= FIRST_NODE {
            // Ids of callers are smaller, so this ends.
            let node = self.node(id).filter(|_| frames.len() < MAX_DEPTH);
            let Some((frame, callers)) = node else {
                return Stack {
                    frames,
                    end: NOT_RECORDED,
                };
            };
            frames.push(frame);
            id = callers;
        }
        Stack { frames, end: id }
    }
}
