//! The stacks of the page as a trie: a node for each stack and each caller of one, so that
//! what stacks share is written once. Nodes are numbered in depth-first order, and a node
//! is written as how far up the tree it begins, and its frame.

use allotrope_profile::Stack;

/// The trie of some stacks.
pub struct Trie {
    /// Number of levels, for each node but the root, that the walk goes up before it descends
    /// to this node.
    pub up: Vec<u64>,
    /// The frame of each node but the root.
    pub frames: Vec<u32>,
    /// The node of each stack; 0, the root, is the empty stack.
    pub nodes: Vec<u32>,
}

impl Trie {
    /// Returns the trie of these stacks, innermost frames first.
    pub fn new(stacks: &[&Stack]) -> Self {
        let mut order: Vec<usize> = (0..stacks.len()).collect();
        order.sort_by(|&a, &b| stacks[a].iter().rev().cmp(stacks[b].iter().rev()));
        let mut trie = Self {
            up: Vec::new(),
            frames: Vec::new(),
            nodes: vec![0; stacks.len()],
        };
        // The path to the last node that was written.
        let mut path: Vec<(u32, u32)> = Vec::new();
        for index in order {
            let frames = stacks[index].iter().rev();
            let same = path.iter().zip(frames.clone());
            let shared = same.take_while(|&(at, frame)| at.0 == *frame).count();
            let mut up = (path.len() - shared) as u64;
            path.truncate(shared);
            for &frame in frames.skip(shared) {
                trie.up.push(std::mem::take(&mut up));
                trie.frames.push(frame);
                path.push((frame, trie.frames.len() as u32));
            }
            trie.nodes[index] = path.last().map_or(0, |&(_, node)| node);
        }
        trie
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_callers_are_one_node() {
        // Outermost first: 1 2 3, 1 2, 1 4 5, 6 and an empty one.
        let stacks = [
            Stack::from(vec![3, 2, 1]),
            Stack::from(vec![6]),
            Stack::from(vec![2, 1]),
            Stack::default(),
            Stack::from(vec![5, 4, 1]),
            Stack::from(vec![3, 2, 1]),
        ];
        let trie = Trie::new(&stacks.each_ref());
        assert_eq!(trie.frames, [1, 2, 3, 4, 5, 6]);
        assert_eq!(trie.up, [0, 0, 0, 2, 0, 3]);
        assert_eq!(trie.nodes, [3, 6, 2, 0, 5, 3]);
    }
}
