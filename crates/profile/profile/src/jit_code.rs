//! JIT code: code that an image compiled while it ran. An address of JIT code may have
//! several names, one after another, as other code replaces the first. Then one stack id
//! of the trace stands for several stacks, and the time of an allocation decides which.
//! These stacks get additional ids here, after those of the trace.

use allotrope_trace::model::{
    JitSymbols, Location, NO_MAPPING, NamedFrame, StackId, StackNode, stack_end,
};
use rustc_hash::FxHashMap;

use crate::clock::Timeline;
use crate::stack_tree::StackTree;

/// Largest number of additional nodes; later stacks keep the trace's ids.
const MAX_NODES: usize = 4 << 20;

/// A code address, and [`StackNode::exact`].
type Address = (u64, bool);

/// The names of an image's JIT code, and the additional stack nodes.
#[derive(Default)]
pub(crate) struct JitCode {
    records: Vec<JitSymbols>,
    /// Names of each address, in order of time: (time in ns from which on the name holds, index of
    /// the record, index of the location in it).
    names: FxHashMap<Address, Vec<(u64, u32, u32)>>,
    /// Times in ns at which some address got another name, ascending.
    changes: Vec<u64>,
    /// Id of the stack, by (stack id of the trace, number of changes before the allocation).
    known: FxHashMap<(StackId, u32), StackId>,
    /// The additional nodes, whose ids begin with `first`; each with the index of the
    /// name that its address had.
    nodes: Vec<(StackNode, u32)>,
    /// Id in `nodes`, by (parent, address, exact, name).
    ids: FxHashMap<(StackId, u64, bool, u32), StackId>,
    first: StackId,
}

impl JitCode {
    /// Adds a record of the trace.
    pub(crate) fn add(&mut self, record: JitSymbols) {
        self.records.push(record);
    }

    /// Builds the tables, after all records have been added; `nodes` are all nodes of the
    /// image's stacks.
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

    /// Whether some address had more than one name.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The id of the stack that a stack of the trace stands for at `time` (ns).
    pub(crate) fn stack_at(&mut self, stack: StackId, time: u64, nodes: &StackTree) -> StackId {
        let changes = self.changes.partition_point(|change| *change <= time) as u32;
        // Walks outwards to a stack whose id is known, then back inwards.
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

    /// The index of the name that the address of a node had at `time` (ns).
    fn name_at(&self, node: &StackNode, time: u64) -> u32 {
        let names = self.names.get(&(node.address, node.exact));
        let Some(names) = names.filter(|_| node.mapping == NO_MAPPING) else {
            return 0;
        };
        let begun = names.partition_point(|(since, ..)| *since <= time);
        begun.saturating_sub(1) as u32
    }

    /// The id of an additional node; adds the node if it is new. `None` if there are too
    /// many.
    fn id_of(&mut self, parent: StackId, node: StackNode, name: u32) -> Option<StackId> {
        let key = (parent, node.address, node.exact, name);
        if let Some(id) = self.ids.get(&key) {
            return Some(*id);
        }
        if self.nodes.len() >= MAX_NODES {
            return None;
        }
        let id = self.first.checked_add(self.nodes.len() as StackId)?;
        self.nodes.push((StackNode { parent, ..node }, name));
        self.ids.insert(key, id);
        Some(id)
    }

    /// An additional node, and the index of the name that its address had.
    pub(crate) fn node(&self, id: StackId) -> Option<(StackNode, u32)> {
        let index = id.checked_sub(self.first)?;
        self.nodes.get(index as usize).copied()
    }

    /// The frames of an address under the name with this index, innermost first.
    pub(crate) fn frames(
        &self,
        address: u64,
        exact: bool,
        name: u32,
    ) -> impl Iterator<Item = &NamedFrame> {
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
