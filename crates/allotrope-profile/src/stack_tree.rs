//! The nodes of an image's stacks, a tree with parent pointers: each node is a return
//! address and the node of its caller. There may be millions of nodes but far fewer
//! addresses, so a node stores the number of its address.

use std::hash::BuildHasher;

use allotrope_trace::model::{ImageId, MappingId, StackId, StackNode, stack_end};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::error::ReplayError;
use crate::source::{StackPart, TraceSource};

/// An image's stack nodes, of which there may be millions.
#[derive(Default)]
pub(crate) struct StackTree {
    nodes: Vec<PackedNode>,
    /// By number.
    addresses: Vec<CodeAddress>,
    /// Their numbers by what they are.
    numbers: HashTable<u32>,
    /// Nodes beyond a gap, which a damaged file may have.
    beyond: FxHashMap<StackId, StackNode>,
}

/// A [`StackNode`].
#[derive(Clone, Copy)]
struct PackedNode {
    parent: StackId,
    /// Number of its address.
    address: u32,
}

/// All of a [`StackNode`] but its caller.
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
    /// Adds nodes, the first of which has this id.
    pub(crate) fn add(&mut self, first: StackId, nodes: &[StackNode]) {
        if first == self.next_dense() {
            self.nodes.reserve(nodes.len());
        }
        // Ids that are pairs with nodes in a loop are put together in memory and
        // waited for there.
        let mut id = first;
        for node in nodes {
            if id == self.next_dense() {
                self.push(node);
            } else {
                self.add_elsewhere(id, *node);
            }
            let Some(next) = id.checked_add(1) else {
                return;
            };
            id = next;
        }
    }

    /// A node that does not follow upon those without a gap.
    #[cold]
    fn add_elsewhere(&mut self, id: StackId, node: StackNode) {
        if id >= stack_end::FIRST_NODE && self.get(id).is_none() {
            self.beyond.insert(id, node);
        }
    }

    #[inline]
    fn push(&mut self, node: &StackNode) {
        let address = self.number(CodeAddress::of(node));
        self.nodes.push(PackedNode {
            parent: node.parent,
            address,
        });
    }

    /// The number of an address; there are no more than nodes.
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

    /// The id behind those without a gap.
    fn next_dense(&self) -> StackId {
        stack_end::FIRST_NODE.saturating_add(self.nodes.len() as StackId)
    }

    /// An id that no node has, and none after it.
    pub(crate) fn next_id(&self) -> StackId {
        let beyond = self.beyond.keys().map(|id| id.saturating_add(1)).max();
        self.next_dense().max(beyond.unwrap_or(0))
    }

    /// The node of this id.
    #[inline]
    pub(crate) fn get(&self, id: StackId) -> Option<StackNode> {
        match self.packed(id) {
            Some(node) => Some(self.addresses[node.address as usize].called_by(node.parent)),
            None => self.beyond.get(&id).copied(),
        }
    }

    /// The number of the node's address, for most nodes.
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

/// The trees of images.
pub(crate) type StackTrees = FxHashMap<ImageId, StackTree>;

/// Reads the nodes of these parts, which are in file order.
pub(crate) fn read<S: TraceSource>(
    source: &S,
    parts: &[StackPart<S::Stacks>],
) -> Result<StackTrees, ReplayError> {
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
    fn nodes_are_found_by_id_even_beyond_a_gap() {
        let mut tree = StackTree::default();
        tree.add(8, &[node(1), node(2)]);
        tree.add(u32::MAX, &[node(9), node(10)]);
        assert_eq!(tree.get(9).map(|n| n.address), Some(2));
        assert_eq!(tree.get(u32::MAX).map(|n| n.address), Some(9));
        assert_eq!(tree.get(10), None);
        assert_eq!(tree.get(3), None);
    }

    #[test]
    fn nodes_come_back_as_they_were() {
        // Those of the second part follow upon the first, the third part overlaps both.
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
