//! From a lane's own stack ids to those of its image.
//!
//! The recorder numbers the nodes of a lane's stacks as it meets them, for as
//! long as its table lasts; the trace has one tree for an image. Both sides of
//! that are here, and the limits that keep them bounded.

use allotrope_ring::words::STACK_IDS;
use allotrope_trace::model::{MappingId, StackId, StackNode, stack_end};
use rustc_hash::FxHashMap;

/// Ids of a page of a lane's table.
const PAGE_IDS: usize = 1024;
const PAGES: usize = STACK_IDS as usize / PAGE_IDS;

/// Pages that all lanes together may have: 256 MiB.
const MOST_PAGES: usize = 64 << 10;
/// Nodes that all images together may have, about 500 MiB.
const MOST_NODES: usize = 8 << 20;

/// What the tables of all lanes and images together may still take.
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

/// One lane's table.
#[derive(Debug, Default)]
pub(crate) struct LaneStacks {
    /// 0 where an id is not defined.
    pages: Vec<Option<Box<[StackId; PAGE_IDS]>>>,
}

impl LaneStacks {
    /// The image's id for a lane's, if that was defined.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<StackId> {
        let page = self.pages.get(id as usize / PAGE_IDS)?.as_ref()?;
        let stack = page[id as usize % PAGE_IDS];
        (stack != 0).then_some(stack)
    }

    /// Defines `id`, anew if need be. `false`: no such id may be, or the
    /// budget is used up.
    pub(crate) fn define(&mut self, id: u32, stack: StackId, budget: &mut StackBudget) -> bool {
        if !(stack_end::FIRST_NODE..STACK_IDS).contains(&id) {
            return false;
        }
        if self.pages.is_empty() {
            self.pages.resize_with(PAGES, || None);
        }
        let page = &mut self.pages[id as usize / PAGE_IDS];
        if page.is_none() {
            let Some(left) = budget.pages.checked_sub(1) else {
                return false;
            };
            budget.pages = left;
        }
        let page = page.get_or_insert_with(|| Box::new([0; PAGE_IDS]));
        page[id as usize % PAGE_IDS] = stack;
        true
    }

    /// Pages that are in use.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> usize {
        self.pages.iter().flatten().count()
    }

    /// Forgets every id and gives the memory back.
    pub(crate) fn forget(&mut self, budget: &mut StackBudget) {
        budget.pages += self.pages.iter().flatten().count();
        self.pages = Vec::new();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    /// Ring addresses have 48 bits; the upper ones are free.
    address_and_exact: u64,
    parent: StackId,
    mapping: MappingId,
}

/// One image's tree.
#[derive(Debug)]
pub(crate) struct ImageStacks {
    ids: FxHashMap<Key, StackId>,
    /// Nodes that are not in the trace yet; the first one's id is `written`.
    fresh: Vec<StackNode>,
    written: StackId,
}

impl Default for ImageStacks {
    fn default() -> Self {
        Self {
            ids: FxHashMap::default(),
            fresh: Vec::new(),
            written: stack_end::FIRST_NODE,
        }
    }
}

impl ImageStacks {
    /// The id of a node and whether it is new. `None`: the budget is used up.
    pub(crate) fn intern(
        &mut self,
        node: StackNode,
        budget: &mut StackBudget,
    ) -> Option<(StackId, bool)> {
        let key = Key {
            address_and_exact: node.address | u64::from(node.exact) << 63,
            parent: node.parent,
            mapping: node.mapping,
        };
        if let Some(id) = self.ids.get(&key) {
            return Some((*id, false));
        }
        budget.nodes = budget.nodes.checked_sub(1)?;
        // MOST_NODES keeps the ids far below 2^32.
        let id = self.written + self.fresh.len() as StackId;
        self.ids.insert(key, id);
        self.fresh.push(node);
        Some((id, true))
    }

    /// Takes the nodes that are not in the trace yet, with the first one's id.
    pub(crate) fn take_fresh(&mut self) -> Option<(StackId, Vec<StackNode>)> {
        if self.fresh.is_empty() {
            return None;
        }
        let first = self.written;
        let nodes = std::mem::take(&mut self.fresh);
        self.written += nodes.len() as StackId;
        Some((first, nodes))
    }

    /// Number of nodes that are not in the trace yet.
    pub(crate) fn fresh_nodes(&self) -> usize {
        self.fresh.len()
    }

    /// Gives the memory of an ended image back.
    pub(crate) fn release(&mut self, budget: &mut StackBudget) {
        budget.nodes += self.ids.len();
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
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
        let (from, nodes) = stacks.take_fresh().unwrap();
        assert_eq!(
            (from, nodes),
            (stack_end::FIRST_NODE, vec![node(0, 10), exact])
        );
        stacks.intern(node(8, 20), &mut budget);
        let (from, _) = stacks.take_fresh().unwrap();
        assert_eq!(from, stack_end::FIRST_NODE + 2);
        assert_eq!(stacks.take_fresh(), None);
        stacks.release(&mut budget);
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
    fn a_lane_forgets_what_it_is_told_to() {
        let (mut lane, mut budget) = (LaneStacks::default(), StackBudget::default());
        assert_eq!(lane.get(8), None);
        for id in [8, 5000, STACK_IDS - 1] {
            assert!(lane.define(id, id + 1, &mut budget));
            assert_eq!(lane.get(id), Some(id + 1));
        }
        assert_eq!(lane.get(9), None);
        assert_eq!(budget.pages, MOST_PAGES - 3);
        lane.forget(&mut budget);
        assert_eq!((lane.get(8), budget.pages), (None, MOST_PAGES));
    }

    #[test]
    fn ids_out_of_range_and_beyond_the_budget_are_refused() {
        let mut lane = LaneStacks::default();
        let mut budget = StackBudget { pages: 1, nodes: 0 };
        assert!(!lane.define(stack_end::FIRST_NODE - 1, 9, &mut budget));
        assert!(!lane.define(STACK_IDS, 9, &mut budget));
        assert!(lane.define(8, 9, &mut budget));
        assert!(!lane.define(8 + PAGE_IDS as u32, 9, &mut budget));
    }
}
