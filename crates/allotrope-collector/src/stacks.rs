//! From a ring's own stack ids to those of its image.
//!
//! The recorder numbers the nodes of a ring's stacks as it meets them, for as
//! long as its table lasts; the trace has one tree for an image. Both sides of
//! that are here, and the limits that keep them bounded.

use std::hash::BuildHasher;

use allotrope_shm::wire::STACK_IDS;
use allotrope_trace::model::{MappingId, StackId, StackNode, stack_end};
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// Ids of a page of a ring's table.
const PAGE_IDS: usize = 1024;
const PAGES: usize = STACK_IDS as usize / PAGE_IDS;

/// Pages that all rings together may have: 256 MiB.
const MOST_PAGES: usize = 64 << 10;
/// Nodes that all images together may have, about 500 MiB.
const MOST_NODES: usize = 8 << 20;

/// What the tables of all rings and images together may still take.
#[derive(Debug)]
pub(crate) struct StackBudget {
    pages: usize,
    nodes: usize,
}

impl Default for StackBudget {
    fn default() -> Self {
        Self {
            pages: MOST_PAGES,
            nodes: MOST_NODES,
        }
    }
}

/// One ring's table. The recorder gives its ids out one after another, so a
/// table as long as the largest one is hardly longer than needed.
#[derive(Debug, Default)]
pub(crate) struct RingStacks {
    /// By the ring's id; 0 where one is not defined.
    stacks: Vec<StackId>,
}

impl RingStacks {
    /// The image's id for a ring's, if that was defined.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<StackId> {
        let stack = *self.stacks.get(id as usize)?;
        (stack != 0).then_some(stack)
    }

    /// Defines `id`, anew if need be. `false`: no such id may be, or the
    /// budget is used up.
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

    /// Makes the table as long as `ids`, or twice as long as it is: then it is
    /// not copied often. `false`: the budget does not allow it.
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

    /// Pages that it takes.
    pub(crate) fn pages(&self) -> usize {
        self.stacks.len() / PAGE_IDS
    }

    /// Forgets every id and gives the memory back.
    pub(crate) fn forget(&mut self, budget: &mut StackBudget) {
        budget.pages += self.pages();
        self.stacks = Vec::new();
    }
}

/// A node's place in the tree.
///
/// Most nodes that are told were known before: a thread that has lost its ids
/// tells a path again. The nodes of a path were numbered one after the other
/// when it was new, so going from child to child stays in few cache lines,
/// where a look-up in a table of all nodes misses the cache every time. Most
/// nodes have one child or two, so there is a table only of those with more
/// siblings than are looked at.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Ring addresses have 48 bits; the upper ones are free.
    address_and_exact: u64,
    parent: StackId,
    mapping: MappingId,
    /// Its child that was asked for last; 0: none.
    child: StackId,
    /// The next child of the same parent; 0: none.
    sibling: StackId,
}

/// Children that are looked at one after the other. Those of a node that has
/// more are in the table.
const NEAR_CHILDREN: usize = 4;

impl Place {
    #[inline]
    fn of(node: StackNode) -> Self {
        Self {
            address_and_exact: node.address | u64::from(node.exact) << 63,
            parent: node.parent,
            mapping: node.mapping,
            child: 0,
            sibling: 0,
        }
    }

    /// Whether they are the same node.
    #[inline]
    fn is(&self, other: &Self) -> bool {
        self.address_and_exact == other.address_and_exact
            && self.parent == other.parent
            && self.mapping == other.mapping
    }

    fn hash(&self) -> u64 {
        FxBuildHasher.hash_one((self.address_and_exact, self.parent, self.mapping))
    }
}

/// What looking at a node's nearest children has shown.
enum Near {
    /// The child is known.
    Found(StackId),
    /// It is none of the children, of which there are so many.
    None(usize),
    /// There are more.
    More,
}

/// One image's tree.
#[derive(Debug)]
pub(crate) struct ImageStacks {
    /// By id. In the stack ends' places only `child` means something.
    places: Vec<Place>,
    /// The children of nodes with more than [`NEAR_CHILDREN`].
    crowded: HashTable<StackId>,
    /// Nodes that are not in the trace yet: the last ones of `places`.
    new_nodes: Vec<StackNode>,
}

impl Default for ImageStacks {
    fn default() -> Self {
        Self {
            places: vec![Place::default(); stack_end::FIRST_NODE as usize],
            crowded: HashTable::new(),
            new_nodes: Vec::new(),
        }
    }
}

impl ImageStacks {
    /// The id of a node and whether it is new. `None`: the budget is used up,
    /// or the node's parent is none of this tree.
    #[inline]
    pub(crate) fn intern(
        &mut self,
        node: StackNode,
        budget: &mut StackBudget,
    ) -> Option<(StackId, bool)> {
        if node.parent as usize >= self.places.len() {
            return None;
        }
        let place = Place::of(node);
        let siblings = match self.near_child(&place) {
            Near::Found(id) => return Some((id, false)),
            Near::None(siblings) => siblings,
            Near::More => match self.far_child(&place) {
                Some(id) => return Some((id, false)),
                None => usize::MAX,
            },
        };
        budget.nodes = budget.nodes.checked_sub(1)?;
        self.new_nodes.push(node);
        Some((self.add(place, siblings), true))
    }

    /// Looks for the node among its parent's children, and puts it first.
    #[inline]
    fn near_child(&mut self, place: &Place) -> Near {
        let first = self.places[place.parent as usize].child;
        let mut before = 0;
        let mut id = first;
        for siblings in 0..NEAR_CHILDREN {
            if id == 0 {
                return Near::None(siblings);
            }
            let child = self.places[id as usize];
            if child.is(place) {
                if before != 0 {
                    self.places[before as usize].sibling = child.sibling;
                    self.places[id as usize].sibling = first;
                    self.places[place.parent as usize].child = id;
                }
                return Near::Found(id);
            }
            before = id;
            id = child.sibling;
        }
        match id {
            0 => Near::None(NEAR_CHILDREN),
            _ => Near::More,
        }
    }

    /// Looks for the node among the children of nodes with many.
    fn far_child(&self, place: &Place) -> Option<StackId> {
        let is_it = |id: &StackId| self.places[*id as usize].is(place);
        self.crowded.find(place.hash(), is_it).copied()
    }

    /// Adds a node to its parent's children, of which there are `siblings`.
    fn add(&mut self, mut place: Place, siblings: usize) -> StackId {
        // MOST_NODES keeps the ids far below 2^32.
        let id = self.places.len() as StackId;
        let parent = &mut self.places[place.parent as usize];
        place.sibling = std::mem::replace(&mut parent.child, id);
        self.places.push(place);
        if siblings >= NEAR_CHILDREN {
            self.crowd(id);
            if siblings == NEAR_CHILDREN {
                self.crowd_after(place.sibling);
            }
        }
        id
    }

    /// The node's parent has many children now: they all go into the table.
    #[cold]
    fn crowd_after(&mut self, mut id: StackId) {
        while id != 0 {
            self.crowd(id);
            id = self.places[id as usize].sibling;
        }
    }

    fn crowd(&mut self, id: StackId) {
        let hash_of = |id: &StackId| self.places[*id as usize].hash();
        self.crowded.insert_unique(hash_of(&id), id, hash_of);
    }

    /// Number of nodes.
    fn nodes(&self) -> usize {
        self.places.len() - stack_end::FIRST_NODE as usize
    }

    /// Takes the nodes that are not in the trace yet, with the first one's id.
    pub(crate) fn take_new_nodes(&mut self) -> Option<(StackId, Vec<StackNode>)> {
        if self.new_nodes.is_empty() {
            return None;
        }
        let nodes = std::mem::take(&mut self.new_nodes);
        let written = self.places.len() - nodes.len();
        Some((written as StackId, nodes))
    }

    /// Number of nodes that are not in the trace yet.
    pub(crate) fn new_nodes(&self) -> usize {
        self.new_nodes.len()
    }

    /// Gives the memory of an ended image back.
    pub(crate) fn release(&mut self, budget: &mut StackBudget) {
        budget.nodes += self.nodes();
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
        assert_eq!(budget.nodes, MOST_NODES);
    }

    #[test]
    fn each_of_many_children_keeps_its_id() {
        let (mut stacks, mut budget) = (ImageStacks::default(), StackBudget::default());
        let (root, _) = stacks.intern(node(0, 1), &mut budget).unwrap();
        let mut expected = HashMap::new();
        for round in 0..5 {
            for i in 0..100 {
                // The last one again, near ones and far ones.
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
    fn a_node_whose_parent_is_none_is_refused() {
        let (mut stacks, mut budget) = (ImageStacks::default(), StackBudget::default());
        assert_eq!(
            stacks.intern(node(stack_end::FIRST_NODE, 1), &mut budget),
            None
        );
        assert_eq!(stacks.intern(node(StackId::MAX, 1), &mut budget), None);
        assert_eq!(budget.nodes, MOST_NODES);
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
    fn a_ring_forgets_what_it_is_told_to() {
        let (mut ring, mut budget) = (RingStacks::default(), StackBudget::default());
        assert_eq!(ring.get(8), None);
        for id in [8, 5000, STACK_IDS - 1] {
            assert!(ring.define(id, id + 1, &mut budget));
            assert_eq!(ring.get(id), Some(id + 1));
        }
        assert_eq!(ring.get(9), None);
        // As long as the largest id needs.
        assert_eq!(budget.pages, MOST_PAGES - PAGES);
        ring.forget(&mut budget);
        assert_eq!((ring.get(8), budget.pages), (None, MOST_PAGES));
    }

    #[test]
    fn ids_out_of_range_and_beyond_the_budget_are_refused() {
        let mut ring = RingStacks::default();
        let mut budget = StackBudget { pages: 1, nodes: 0 };
        assert!(!ring.define(stack_end::FIRST_NODE - 1, 9, &mut budget));
        assert!(!ring.define(STACK_IDS, 9, &mut budget));
        assert!(ring.define(8, 9, &mut budget));
        assert!(!ring.define(8 + PAGE_IDS as u32, 9, &mut budget));
        // One more page is enough, although two would be nicer.
        budget.pages = 1;
        assert!(ring.define(8 + PAGE_IDS as u32, 9, &mut budget));
        assert_eq!((ring.get(8), budget.pages), (Some(9), 0));
    }
}
