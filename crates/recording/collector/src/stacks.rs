//! Converts the stack ids of rings to those of the trace.
//!
//! A recorder numbers the stack nodes of each ring by itself, until its table is full
//! and it resets the ring's ids. The trace has one trie of stack nodes for each image.
//! [`RingStacks`] maps a ring's ids to the image's ([`ImageStacks`]), and
//! [`StackBudget`] limits the memory of both for all rings and images together.
//! `stream` calls them for each stack node and each event with a stack.

use std::hash::BuildHasher;

use allotrope_shm::wire::STACK_IDS;
use allotrope_trace::model::{MappingId, StackId, StackNode, stack_end};
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// Ids in a page of a ring's table, the unit in which it grows.
const PAGE_IDS: usize = 1024;
const PAGES: usize = STACK_IDS as usize / PAGE_IDS;

/// Largest number of pages of all rings together: 256 MiB.
const MAX_PAGES: usize = 64 << 10;
/// Largest number of nodes of all running images together: about 500 MiB.
const MAX_NODES: usize = 8 << 20;

/// The pages and nodes that rings and images may still allocate.
#[derive(Debug)]
pub(crate) struct StackBudget {
    pages: usize,
    nodes: usize,
}

impl Default for StackBudget {
    fn default() -> Self {
        Self {
            pages: MAX_PAGES,
            nodes: MAX_NODES,
        }
    }
}

/// Maps the stack ids of one ring to those of its image. The recorder assigns ids in
/// ascending order, so an array indexed by them has few gaps.
#[derive(Debug, Default)]
pub(crate) struct RingStacks {
    /// The image's id by the ring's; 0 if the ring's id is not defined.
    stacks: Vec<StackId>,
}

impl RingStacks {
    /// The image's id for a ring's id, if that is defined.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<StackId> {
        let stack = *self.stacks.get(id as usize)?;
        (stack != 0).then_some(stack)
    }

    /// Defines or redefines the ring's `id`. Returns `false` if the id is out of range
    /// or the budget is used up.
    #[inline]
    pub(crate) fn define(&mut self, id: u32, stack: StackId, budget: &mut StackBudget) -> bool {
        if !(stack_end::FIRST_NODE..STACK_IDS).contains(&id) {
            return false;
        }
        if id as usize >= self.stacks.len() && !self.grow(id as usize + 1, budget) {
            return false;
        }
        self.stacks[id as usize] = stack;
        true
    }

    /// Extends the table to at least `ids` entries, and if the budget allows it to
    /// twice its length, so that it is rarely copied. Returns `false` if the budget is
    /// too small.
    #[cold]
    fn grow(&mut self, ids: usize, budget: &mut StackBudget) -> bool {
        let needed = ids.div_ceil(PAGE_IDS);
        let doubled = (2 * self.pages()).min(PAGES);
        for pages in [needed.max(doubled), needed] {
            if let Some(left) = budget.pages.checked_sub(pages - self.pages()) {
                budget.pages = left;
                self.stacks.resize(pages * PAGE_IDS, 0);
                return true;
            }
        }
        false
    }

    /// The length of the table in pages.
    pub(crate) fn pages(&self) -> usize {
        self.stacks.len() / PAGE_IDS
    }

    /// Removes all ids and returns the memory to the budget.
    pub(crate) fn clear(&mut self, budget: &mut StackBudget) {
        budget.pages += self.pages();
        self.stacks = Vec::new();
    }
}

/// A node of an image's trie of stacks. The children of a node form a linked list; a
/// child that is found in it or added to it moves to its front.
///
/// Most nodes that arrive are in the trie already: a thread whose ids were reset sends
/// its paths again. The nodes of a path got consecutive ids when the path was new, so
/// walking from child to child touches few cache lines, whereas each look-up in a hash
/// table of all nodes would miss the cache. Most nodes have one or two children;
/// only the children of nodes with more than [`LISTED_CHILDREN`] are also in a table.
#[derive(Debug, Clone, Copy, Default)]
struct TrieNode {
    /// The address in the lower 48 bits, which is all that a ring carries, and the
    /// `exact` flag in bit 63.
    address_and_exact: u64,
    parent: StackId,
    mapping: MappingId,
    /// The first child; 0 if there is none.
    child: StackId,
    /// The next child of the same parent; 0 if there is none.
    sibling: StackId,
}

/// Children that a search of a node's list compares at most.
const LISTED_CHILDREN: usize = 4;

impl TrieNode {
    #[inline]
    fn new(node: StackNode) -> Self {
        Self {
            address_and_exact: node.address | u64::from(node.exact) << 63,
            parent: node.parent,
            mapping: node.mapping,
            child: 0,
            sibling: 0,
        }
    }

    /// Whether both are the same node of the trie; ignores the links.
    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        self.address_and_exact == other.address_and_exact
            && self.parent == other.parent
            && self.mapping == other.mapping
    }

    fn hash(&self) -> u64 {
        FxBuildHasher.hash_one((self.address_and_exact, self.parent, self.mapping))
    }
}

/// Result of searching the first [`LISTED_CHILDREN`] children of a node.
enum ListSearch {
    /// The child's id.
    Found(StackId),
    /// The node has this many children, none of which is the one searched for.
    Absent(usize),
    /// The node has more children, which are in the table.
    More,
}

/// The trie of one image's stacks. A stack is a path from a root, one of the
/// [`stack_end`] ids, to a node.
#[derive(Debug)]
pub(crate) struct ImageStacks {
    /// Nodes of the trie, by id. Of a root only `child` is used.
    nodes: Vec<TrieNode>,
    /// The children of nodes with more than [`LISTED_CHILDREN`] children, by
    /// [`TrieNode::hash`].
    children_table: HashTable<StackId>,
    /// Nodes that are not in the trace yet: the last ones of `nodes`, in order.
    new_nodes: Vec<StackNode>,
}

impl Default for ImageStacks {
    fn default() -> Self {
        Self {
            nodes: vec![TrieNode::default(); stack_end::FIRST_NODE as usize],
            children_table: HashTable::new(),
            new_nodes: Vec::new(),
        }
    }
}

impl ImageStacks {
    /// Finds or adds a node; returns its id and whether it is new. `None` if the budget
    /// is used up or the node's parent does not exist.
    #[inline]
    pub(crate) fn intern(
        &mut self,
        node: StackNode,
        budget: &mut StackBudget,
    ) -> Option<(StackId, bool)> {
        if node.parent as usize >= self.nodes.len() {
            return None;
        }
        let trie_node = TrieNode::new(node);
        let siblings = match self.find_in_list(&trie_node) {
            ListSearch::Found(id) => return Some((id, false)),
            ListSearch::Absent(siblings) => siblings,
            ListSearch::More => match self.find_in_table(&trie_node) {
                Some(id) => return Some((id, false)),
                None => usize::MAX,
            },
        };
        budget.nodes = budget.nodes.checked_sub(1)?;
        self.new_nodes.push(node);
        Some((self.add(trie_node, siblings), true))
    }

    /// Searches the first children of the node's parent for the node; moves it to the
    /// front of the list.
    #[inline]
    fn find_in_list(&mut self, trie_node: &TrieNode) -> ListSearch {
        let first = self.nodes[trie_node.parent as usize].child;
        let mut before = 0;
        let mut id = first;
        for siblings in 0..LISTED_CHILDREN {
            if id == 0 {
                return ListSearch::Absent(siblings);
            }
            let child = self.nodes[id as usize];
            if child.is_same(trie_node) {
                if before != 0 {
                    self.nodes[before as usize].sibling = child.sibling;
                    self.nodes[id as usize].sibling = first;
                    self.nodes[trie_node.parent as usize].child = id;
                }
                return ListSearch::Found(id);
            }
            before = id;
            id = child.sibling;
        }
        match id {
            0 => ListSearch::Absent(LISTED_CHILDREN),
            _ => ListSearch::More,
        }
    }

    /// Searches the table of children for the node.
    fn find_in_table(&self, trie_node: &TrieNode) -> Option<StackId> {
        let is_it = |id: &StackId| self.nodes[*id as usize].is_same(trie_node);
        self.children_table.find(trie_node.hash(), is_it).copied()
    }

    /// Adds a node whose parent has `siblings` children so far.
    fn add(&mut self, mut trie_node: TrieNode, siblings: usize) -> StackId {
        // MAX_NODES keeps the ids far below 2^32.
        let id = self.nodes.len() as StackId;
        let parent = &mut self.nodes[trie_node.parent as usize];
        trie_node.sibling = std::mem::replace(&mut parent.child, id);
        self.nodes.push(trie_node);
        if siblings >= LISTED_CHILDREN {
            self.add_to_table(id);
            if siblings == LISTED_CHILDREN {
                self.add_siblings_to_table(trie_node.sibling);
            }
        }
        id
    }

    /// Adds `id` and the siblings after it to the table. Called when their parent gets
    /// more than [`LISTED_CHILDREN`] children.
    #[cold]
    fn add_siblings_to_table(&mut self, mut id: StackId) {
        while id != 0 {
            self.add_to_table(id);
            id = self.nodes[id as usize].sibling;
        }
    }

    fn add_to_table(&mut self, id: StackId) {
        let hash_of = |id: &StackId| self.nodes[*id as usize].hash();
        self.children_table.insert_unique(hash_of(&id), id, hash_of);
    }

    /// Number of nodes, without the roots.
    fn node_count(&self) -> usize {
        self.nodes.len() - stack_end::FIRST_NODE as usize
    }

    /// Takes the nodes that are not in the trace yet; returns them with the id of the
    /// first one. Their ids are consecutive.
    pub(crate) fn take_new_nodes(&mut self) -> Option<(StackId, Vec<StackNode>)> {
        if self.new_nodes.is_empty() {
            return None;
        }
        let nodes = std::mem::take(&mut self.new_nodes);
        let written = self.nodes.len() - nodes.len();
        Some((written as StackId, nodes))
    }

    /// Number of nodes that are not in the trace yet.
    pub(crate) fn new_nodes(&self) -> usize {
        self.new_nodes.len()
    }

    /// Removes all nodes and returns their memory to the budget.
    pub(crate) fn release(&mut self, budget: &mut StackBudget) {
        budget.nodes += self.node_count();
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn node(parent: StackId, address: u64) -> StackNode {
        StackNode {
            parent,
            address,
            mapping: 0,
            exact: false,
        }
    }

    #[test]
    fn the_same_node_has_one_id() {
        let (mut stacks, mut budget) = (ImageStacks::default(), StackBudget::default());
        let first = stacks.intern(node(0, 10), &mut budget);
        assert_eq!(first, Some((stack_end::FIRST_NODE, true)));
        let again = stacks.intern(node(0, 10), &mut budget);
        assert_eq!(again, Some((stack_end::FIRST_NODE, false)));
        let exact = StackNode {
            exact: true,
            ..node(0, 10)
        };
        let second = stacks.intern(exact, &mut budget);
        assert_eq!(second, Some((stack_end::FIRST_NODE + 1, true)));
        let (from, nodes) = stacks.take_new_nodes().unwrap();
        assert_eq!(
            (from, nodes),
            (stack_end::FIRST_NODE, vec![node(0, 10), exact])
        );
        stacks.intern(node(8, 20), &mut budget);
        let (from, _) = stacks.take_new_nodes().unwrap();
        assert_eq!(from, stack_end::FIRST_NODE + 2);
        assert_eq!(stacks.take_new_nodes(), None);
        stacks.release(&mut budget);
        assert_eq!(budget.nodes, MAX_NODES);
    }

    #[test]
    fn each_of_many_children_has_one_id() {
        let (mut stacks, mut budget) = (ImageStacks::default(), StackBudget::default());
        let (root, _) = stacks.intern(node(0, 1), &mut budget).unwrap();
        let mut expected = HashMap::new();
        for round in 0..5 {
            for i in 0..100 {
                // In this order some children are found in the list, some in the table.
                let address = 10 + (i * (round * 2 + 1) / 2) % 40;
                let (child, is_new) = stacks.intern(node(root, address), &mut budget).unwrap();
                assert_eq!(is_new, !expected.contains_key(&(root, address)));
                assert_eq!(*expected.entry((root, address)).or_insert(child), child);
                let (leaf, _) = stacks.intern(node(child, 7), &mut budget).unwrap();
                assert_eq!(*expected.entry((child, 7)).or_insert(leaf), leaf);
            }
        }
        let (first, nodes) = stacks.take_new_nodes().unwrap();
        assert_eq!(nodes.len(), expected.len() + 1);
        for ((parent, address), id) in expected {
            assert_eq!(nodes[(id - first) as usize], node(parent, address));
        }
    }

    #[test]
    fn a_node_whose_parent_does_not_exist_is_refused() {
        let (mut stacks, mut budget) = (ImageStacks::default(), StackBudget::default());
        assert_eq!(
            stacks.intern(node(stack_end::FIRST_NODE, 1), &mut budget),
            None
        );
        assert_eq!(stacks.intern(node(StackId::MAX, 1), &mut budget), None);
        assert_eq!(budget.nodes, MAX_NODES);
    }

    #[test]
    fn nodes_beyond_the_budget_are_refused() {
        let mut budget = StackBudget { pages: 0, nodes: 1 };
        let mut stacks = ImageStacks::default();
        assert!(stacks.intern(node(0, 1), &mut budget).is_some());
        assert_eq!(stacks.intern(node(0, 2), &mut budget), None);
        assert!(stacks.intern(node(0, 1), &mut budget).is_some(), "known");
    }

    #[test]
    fn a_cleared_ring_has_no_ids_and_no_memory() {
        let (mut ring, mut budget) = (RingStacks::default(), StackBudget::default());
        assert_eq!(ring.get(8), None);
        for id in [8, 5000, STACK_IDS - 1] {
            assert!(ring.define(id, id + 1, &mut budget));
            assert_eq!(ring.get(id), Some(id + 1));
        }
        assert_eq!(ring.get(9), None);
        // The largest id makes the table as long as it can be.
        assert_eq!(budget.pages, MAX_PAGES - PAGES);
        ring.clear(&mut budget);
        assert_eq!((ring.get(8), budget.pages), (None, MAX_PAGES));
    }

    #[test]
    fn ids_out_of_range_and_beyond_the_budget_are_refused() {
        let mut ring = RingStacks::default();
        let mut budget = StackBudget { pages: 1, nodes: 0 };
        assert!(!ring.define(stack_end::FIRST_NODE - 1, 9, &mut budget));
        assert!(!ring.define(STACK_IDS, 9, &mut budget));
        assert!(ring.define(8, 9, &mut budget));
        assert!(!ring.define(8 + PAGE_IDS as u32, 9, &mut budget));
        // One more page is enough, although doubling would need two.
        budget.pages = 1;
        assert!(ring.define(8 + PAGE_IDS as u32, 9, &mut budget));
        assert_eq!((ring.get(8), budget.pages), (Some(9), 0));
    }
}
