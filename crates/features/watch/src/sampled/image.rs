//! The records of one process.

use std::collections::BTreeSet;

use allotrope_shm::numbers::stack_end::{FIRST_NODE, NOT_RECORDED};
use allotrope_shm::samples::reader::{State, Total};
use allotrope_trace::model::{
    ImageEnd, ImageId, ImageStart, Mapping, NO_MAPPING, Origin, Record, Sample, SampleTotal,
    Sampling, SamplingTimes, StackId, StackNode,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::sampled::MAX_DEPTH;
use crate::sampled::modules::{ModuleTable, arguments, path_of};
use crate::snapshot::Snapshot;

/// Samples, and totals, of one record.
const PART: usize = 4096;

/// Appends the records of a process.
pub(crate) fn add(
    image: ImageId,
    snapshot: &Snapshot,
    modules: &mut ModuleTable,
    records: &mut Vec<Record>,
) {
    let state = &snapshot.state;
    let process = &state.process;
    records.push(Record::ImageStart(ImageStart {
        image,
        pid: snapshot.process,
        parent_pid: snapshot.parent,
        origin: Origin::First,
        forked_from: None,
        fork_points: Vec::new(),
        executable: path_of(&process.executable),
        command: arguments(&process.command),
        tick: process.began,
    }));
    let counters = &state.counters;
    records.push(Record::Sampling(Sampling {
        image,
        period: state.period.map_or(0, |it| it.bytes()),
        longest_period: state.periods.longest.map_or(0, |it| it.bytes()),
        lost_samples: counters.lost_samples,
        lost_stacks: counters.lost_stacks,
        lost_totals: counters.lost_totals,
        unreadable: state.unstable.saturating_add(state.malformed),
        times: Some(SamplingTimes {
            on_since: state.periods.on_since.unwrap_or(0),
            off_since: state.periods.off_since.unwrap_or(0),
        }),
    }));
    let known = add_modules(image, state, modules, records);
    let stacks = add_stacks(image, state, &known, records);
    add_samples(image, state, &stacks, records);
    records.push(Record::ImageEnd(ImageEnd {
        image,
        tick: snapshot.time,
        exit: snapshot.exit,
        complete: true,
    }));
}

/// Returns the numbers of the modules.
fn add_modules(
    image: ImageId,
    state: &State,
    modules: &mut ModuleTable,
    records: &mut Vec<Record>,
) -> FxHashSet<u16> {
    for (number, module) in &state.modules {
        let id = modules.id(module, records);
        let mapping = u32::from(*number);
        records.push(Record::Mapping(Mapping {
            image,
            mapping,
            module: id,
            start: module.start,
            end: module.end,
            bias: module.bias,
            tick: module.mapped,
        }));
        records.extend(module.unmapped.map(|tick| Record::Unmapped {
            image,
            mapping,
            tick,
        }));
    }
    state.modules.iter().map(|(number, _)| *number).collect()
}

/// A map from the process's stack ids to those of the file.
struct StackIds(FxHashMap<u32, StackId>);

impl StackIds {
    fn get(&self, id: u32) -> StackId {
        match id < FIRST_NODE {
            true => id,
            false => self.0.get(&id).copied().unwrap_or(NOT_RECORDED),
        }
    }
}

/// Appends the nodes that samples and totals need, numbered without gaps.
fn add_stacks(
    image: ImageId,
    state: &State,
    modules: &FxHashSet<u16>,
    records: &mut Vec<Record>,
) -> StackIds {
    let of_samples = state.samples.iter().map(|it| it.stack);
    let of_totals = state.totals.iter().map(|it| it.stack);
    let mut needed = BTreeSet::new();
    for stack in of_samples.chain(of_totals) {
        let mut id = stack;
        // Stops at the first node that another stack has brought already.
        while let Some((_, callers)) = state.node(id) {
            if !needed.insert(id) {
                break;
            }
            id = callers;
        }
    }
    let mut ids = StackIds(FxHashMap::default());
    let mut depths: Vec<u32> = Vec::with_capacity(needed.len());
    let mut nodes = Vec::with_capacity(needed.len());
    // Callers have smaller ids, so they come first.
    for id in needed {
        let Some((frame, callers)) = state.node(id) else {
            continue;
        };
        let parent = ids.get(callers);
        let above = parent.checked_sub(FIRST_NODE);
        let depth = 1 + above.map_or(0, |at| depths[at as usize]);
        if depth > MAX_DEPTH {
            continue;
        }
        ids.0.insert(id, FIRST_NODE + nodes.len() as u32);
        depths.push(depth);
        nodes.push(StackNode {
            parent,
            address: frame.address,
            mapping: match modules.contains(&frame.mapping) {
                true => frame.mapping.into(),
                false => NO_MAPPING,
            },
            exact: frame.exact,
        });
    }
    if !nodes.is_empty() {
        records.push(Record::Stacks {
            image,
            first: FIRST_NODE,
            nodes,
        });
    }
    ids
}

fn add_samples(image: ImageId, state: &State, stacks: &StackIds, records: &mut Vec<Record>) {
    let mut samples: Vec<_> = state.samples.iter().collect();
    samples.sort_unstable_by_key(|it| (it.allocated, it.address));
    for part in samples.chunks(PART) {
        let part = part.iter().map(|it| Sample {
            stack: stacks.get(it.stack),
            size: it.size,
            period: it.period.bytes(),
            tick: it.allocated,
            tid: it.thread,
            entry: it.entry,
        });
        records.push(Record::Samples {
            image,
            samples: part.collect(),
        });
    }
    let mut totals: Vec<&Total> = state.totals.iter().collect();
    totals.sort_unstable_by_key(|it| (it.stack, it.sizes, it.period));
    for part in totals.chunks(PART) {
        let part = part.iter().map(|it| SampleTotal {
            stack: stacks.get(it.stack),
            period: it.period.bytes(),
            smallest: it.sizes.0,
            largest: it.sizes.1,
            allocated: it.allocated,
            allocated_bytes: it.allocated_bytes,
            freed: it.freed,
            freed_bytes: it.freed_bytes,
        });
        records.push(Record::SampleTotals {
            image,
            totals: part.collect(),
        });
    }
}
