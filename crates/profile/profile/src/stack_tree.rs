//! The nodes of an image's stacks: a tree with parent pointers, in which each node is a
//! code address and the id of its caller's node. There may be millions of nodes but far
//! fewer addresses, so each distinct address is stored once and a node has its number.

use std::hash::BuildHasher;

use allotrope_trace::model::{ImageId, MappingId, StackId, StackNode, stack_end};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::error::AggregateError;
use crate::source::{StackPart, TraceSource};

/// An image's stack nodes, by id.
#[derive(Default)]
pub(crate) struct StackTree {
    /// Nodes by id, from [`stack_end::FIRST_NODE`] on without a gap.
    nodes: Vec<PackedNode>,
    /// Distinct addresses, by number.
    addresses: Vec<CodeAddress>,
    /// Hash table from an address to its number.
    numbers: HashTable<u32>,
    /// The nodes after a gap in the ids, which only a damaged file has.
    after_gap: FxHashMap<StackId, StackNode>,
}

/// A [`StackNode`] in 8 bytes.
#[derive(Clone, Copy)]
struct PackedNode {
    parent: StackId,
    /// Index into [`StackTree::addresses`].
    address: u32,
}

/// A [`StackNode`] without its parent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CodeAddress {
    address: u64,
    mapping: MappingId,
    exact: bool,
}

impl CodeAddress {
    #[inline]
    fn of(node: &StackNode) -> Self {
        Self {
            address: node.address,
            mapping: node.mapping,
            exact: node.exact,
        }
    }

    /// The node with this address and parent.
    #[inline]
    fn called_by(self, parent: StackId) -> StackNode {
        StackNode {
            parent,
            address: self.address,
            mapping: self.mapping,
            exact: self.exact,
        }
    }
}

impl StackTree {
    /// Adds nodes with consecutive ids; `first` is the id of the first. An id that exists
    /// already keeps its node.
    pub(crate) fn add(&mut self, first: StackId, nodes: &[StackNode]) {
        if first == self.next_dense() {
            self.nodes.reserve(nodes.len());
        }
        // A counter of its own and not `zip`: the compiler would build the pairs of id
        // and node in memory, and the loop would wait for them.
        let mut id = first;
        for node in nodes {
            if id == self.next_dense() {
                self.push(node);
            } else {
                self.add_after_gap(id, *node);
            }
            let Some(next) = id.checked_add(1) else {
                return;
            };
            id = next;
        }
    }

    /// Adds a node whose id is not the next one.
    #[cold]
    fn add_after_gap(&mut self, id: StackId, node: StackNode) {
        if id >= stack_end::FIRST_NODE && self.get(id).is_none() {
            self.after_gap.insert(id, node);
        }
    }

    /// Adds the node of the next id.
    #[inline]
    fn push(&mut self, node: &StackNode) {
        let address = self.number(CodeAddress::of(node));
        self.nodes.push(PackedNode {
            parent: node.parent,
            address,
        });
    }

    /// The number of an address; adds the address if it is new. There are no more
    /// addresses than nodes, so 32 bits suffice.
    #[inline]
    fn number(&mut self, address: CodeAddress) -> u32 {
        let hash = |address: &CodeAddress| FxBuildHasher.hash_one(address);
        let at = |&number: &u32| &self.addresses[number as usize];
        let is_it = |number: &u32| *at(number) == address;
        let known = (self.numbers).entry(hash(&address), is_it, |number| hash(at(number)));
        match known {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let number = self.addresses.len() as u32;
                new.insert(number);
                self.addresses.push(address);
                number
            }
        }
    }

    /// The id after those of `nodes`.
    fn next_dense(&self) -> StackId {
        stack_end::FIRST_NODE.saturating_add(self.nodes.len() as StackId)
    }

    /// The first id after those of all nodes.
    pub(crate) fn next_id(&self) -> StackId {
        let after_gap = self.after_gap.keys().map(|id| id.saturating_add(1)).max();
        self.next_dense().max(after_gap.unwrap_or(0))
    }

    /// The node with this id.
    #[inline]
    pub(crate) fn get(&self, id: StackId) -> Option<StackNode> {
        match self.packed(id) {
            Some(node) => Some(self.addresses[node.address as usize].called_by(node.parent)),
            None => self.after_gap.get(&id).copied(),
        }
    }

    /// The number of the node's address; `None` for a node after a gap, and for no node.
    #[inline]
    pub(crate) fn address_number(&self, id: StackId) -> Option<u32> {
        self.packed(id).map(|node| node.address)
    }

    #[inline]
    fn packed(&self, id: StackId) -> Option<PackedNode> {
        let index = id.checked_sub(stack_end::FIRST_NODE)?;
        self.nodes.get(index as usize).copied()
    }
}

/// The trees of all images.
pub(crate) type StackTrees = FxHashMap<ImageId, StackTree>;

/// Reads the nodes of these parts, which are in file order, into trees.
pub(crate) fn read<S: TraceSource>(
    source: &S,
    parts: &[StackPart<S::Stacks>],
) -> Result<StackTrees, AggregateError> {
    let mut trees = StackTrees::default();
    source.read_stacks(parts, &mut |image, first, nodes| {
        trees.entry(image).or_default().add(first, nodes);
    })?;
    Ok(trees)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(address: u64) -> StackNode {
        StackNode {
            parent: 0,
            address,
            mapping: 0,
            exact: false,
        }
    }

    #[test]
    fn nodes_are_found_by_id_even_after_a_gap() {
        let mut tree = StackTree::default();
        tree.add(8, &[node(1), node(2)]);
        tree.add(u32::MAX, &[node(9), node(10)]);
        assert_eq!(tree.get(9).map(|n| n.address), Some(2));
        assert_eq!(tree.get(u32::MAX).map(|n| n.address), Some(9));
        assert_eq!(tree.get(10), None);
        assert_eq!(tree.get(3), None);
    }

    #[test]
    fn a_node_is_returned_as_it_was_added() {
        // The second part follows the first, the third overlaps both.
        let node = |n: u32| StackNode {
            parent: n,
            address: u64::MAX - u64::from(n),
            mapping: n ^ 5,
            exact: n.is_multiple_of(3) || n == 64,
        };
        let mut tree = StackTree::default();
        tree.add(3, &(3..100).map(node).collect::<Vec<_>>());
        tree.add(100, &(100..300).map(node).collect::<Vec<_>>());
        tree.add(50, &[node(1); 400]);
        for n in stack_end::FIRST_NODE..300 {
            assert_eq!(tree.get(n), Some(node(n)));
        }
        assert_eq!(tree.get(449), Some(node(1)));
        assert_eq!(tree.get(450), None);
        assert_eq!(tree.next_id(), 450);
    }
}
