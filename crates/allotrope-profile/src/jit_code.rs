//! Code that an image compiled while it ran (JIT code). Its addresses have names only
//! for a time: where other code was placed at an address later, one stack of the trace
//! is several, and the time of an allocation decides which. Those stacks get ids of
//! their own here, after those of the trace.

use allotrope_trace::model::{
    Frame, JitSymbols, Location, NO_MAPPING, StackId, StackNode, stack_end,
};
use rustc_hash::FxHashMap;

use crate::clock::Timeline;
use crate::stack_tree::StackTree;

/// Nodes that stacks may get beyond those of the trace.
const MOST_NODES: usize = 4 << 20;

/// A code address and whether it is exact.
type Address = (u64, bool);

/// An image's names of code in no module.
#[derive(Default)]
pub(crate) struct JitCode {
    records: Vec<JitSymbols>,
    /// In order of time: since when (ns), record, location.
    names: FxHashMap<Address, Vec<(u64, u32, u32)>>,
    /// When some address got another name than it had.
    changes: Vec<u64>,
    /// Stack and number of changes before the allocation → the stack's id.
    known: FxHashMap<(StackId, u32), StackId>,
    /// Nodes that are not the trace's own, from `first` on, with the number of
    /// the name that its address had.
    nodes: Vec<(StackNode, u32)>,
    ids: FxHashMap<(StackId, u64, bool, u32), StackId>,
    first: StackId,
}

impl JitCode {
    /// Takes a record of the trace.
    pub(crate) fn add(&mut self, record: JitSymbols) {
        self.records.push(record);
    }

    /// Sorts what was taken; `nodes` are all nodes of the image's stacks.
    pub(crate) fn build(&mut self, timeline: &Timeline, nodes: &StackTree) {
        for (r, record) in (0..).zip(&self.records) {
            let since = timeline.ns(record.tick);
            for (l, location) in (0..).zip(&record.locations) {
                let address = (location.address, location.exact);
                self.names.entry(address).or_default().push((since, r, l));
            }
        }
        for names in self.names.values_mut() {
            names.sort();
            let changes = names.iter().skip(1).map(|(since, ..)| *since);
            self.changes.extend(changes);
        }
        self.changes.sort_unstable();
        self.changes.dedup();
        self.first = nodes.next_id();
    }

    /// Some address had more than one name.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The id for a stack that allocated at `time` (ns).
    pub(crate) fn stack_at(&mut self, stack: StackId, time: u64, nodes: &StackTree) -> StackId {
        let changes = self.changes.partition_point(|change| *change <= time) as u32;
        // Outwards until something is known, then back inwards.
        let mut path = Vec::new();
        let mut outer = stack;
        let mut id = loop {
            if outer < stack_end::FIRST_NODE {
                break outer;
            }
            if let Some(known) = self.known.get(&(outer, changes)) {
                break *known;
            }
            match nodes.get(outer) {
                Some(node) if node.parent < outer => {
                    path.push((outer, node));
                    outer = node.parent;
                }
                _ => break outer,
            }
        };
        for (own, node) in path.into_iter().rev() {
            let name = self.name_at(&node, time);
            id = if id == node.parent && name == 0 {
                own
            } else {
                self.id_of(id, node, name).unwrap_or(own)
            };
            self.known.insert((own, changes), id);
        }
        id
    }

    /// Which of its names the address of a node had.
    fn name_at(&self, node: &StackNode, time: u64) -> u32 {
        let names = self.names.get(&(node.address, node.exact));
        let Some(names) = names.filter(|_| node.mapping == NO_MAPPING) else {
            return 0;
        };
        let begun = names.partition_point(|(since, ..)| *since <= time);
        begun.saturating_sub(1) as u32
    }

    fn id_of(&mut self, parent: StackId, node: StackNode, name: u32) -> Option<StackId> {
        let key = (parent, node.address, node.exact, name);
        if let Some(id) = self.ids.get(&key) {
            return Some(*id);
        }
        if self.nodes.len() >= MOST_NODES {
            return None;
        }
        let id = self.first.checked_add(self.nodes.len() as StackId)?;
        self.nodes.push((StackNode { parent, ..node }, name));
        self.ids.insert(key, id);
        Some(id)
    }

    /// A node that is not the trace's own, and which name its address had.
    pub(crate) fn node(&self, id: StackId) -> Option<(StackNode, u32)> {
        let index = id.checked_sub(self.first)?;
        self.nodes.get(index as usize).copied()
    }

    /// The frames of an address under one of its names, innermost first.
    pub(crate) fn frames(
        &self,
        address: u64,
        exact: bool,
        name: u32,
    ) -> impl Iterator<Item = &Frame> {
        let names = self.names.get(&(address, exact));
        let found = names.and_then(|names| names.get(name as usize));
        let found = found.map(|(_, r, l)| {
            let record = &self.records[*r as usize];
            (record, &record.locations[*l as usize])
        });
        found
            .into_iter()
            .flat_map(|(record, location): (_, &Location)| {
                let indexes = location.frames.iter();
                indexes.filter_map(|index| record.frames.get(*index as usize))
            })
    }
}
