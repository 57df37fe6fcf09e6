//! The payload of a record chunk: records other than events, one after another, each
//! as tag, length and fields (type-length-value coding). A reader skips records with
//! an unknown tag, and ignores bytes after the fields that it knows.

mod decode;
mod encode;
mod split;

pub(crate) use decode::{decode, decode_stacks, skip_stacks};
pub(crate) use encode::encode;
pub(crate) use split::split;

use crate::model::{
    Location, LostBlock, MAX_PERIOD, NamedFrame, Record, SampleTotal, StackId, StackNode, stack_end,
};

/// The tags of the records.
pub(crate) mod tag {
    pub(crate) const RECORDING: u64 = 1;
    pub(crate) const CLOCK: u64 = 2;
    pub(crate) const IMAGE_START: u64 = 3;
    pub(crate) const IMAGE_END: u64 = 4;
    pub(crate) const THREAD_START: u64 = 5;
    pub(crate) const THREAD_NAME: u64 = 6;
    pub(crate) const THREAD_END: u64 = 7;
    pub(crate) const MODULE: u64 = 8;
    pub(crate) const MAPPING: u64 = 9;
    pub(crate) const UNMAPPED: u64 = 10;
    pub(crate) const STACKS: u64 = 11;
    pub(crate) const RESIDENT_SET: u64 = 12;
    pub(crate) const LOSS: u64 = 13;
    pub(crate) const WINDOW: u64 = 14;
    pub(crate) const SYMBOLS: u64 = 15;
    pub(crate) const UNRECORDED: u64 = 16;
    pub(crate) const WINDOW_END: u64 = 17;
    pub(crate) const JIT_SYMBOLS: u64 = 18;
    pub(crate) const COUNTS: u64 = 19;
    pub(crate) const WINDOW_COUNTS: u64 = 20;
    pub(crate) const WAITS: u64 = 21;
    pub(crate) const MARK: u64 = 22;
    pub(crate) const SAMPLING: u64 = 23;
    pub(crate) const SAMPLES: u64 = 24;
    pub(crate) const SAMPLE_TOTALS: u64 = 25;
    pub(crate) const ENVIRONMENT: u64 = 26;
    pub(crate) const REACHABILITY: u64 = 27;
    pub(crate) const LOST_BLOCKS: u64 = 28;
}

/// Describes the inconsistency of a record, if there is one. Writer and reader both
/// check, so that the writer never writes what the reader rejects. Users of decoded
/// records may index frames without a check, and following the parents of a stack
/// node always ends.
pub(crate) fn inconsistency(record: &Record) -> Option<&'static str> {
    match record {
        Record::Stacks { first, nodes, .. } => inconsistent_nodes(*first, nodes),
        Record::Symbols(it) => missing_frame(&it.frames, &it.locations),
        Record::JitSymbols(it) => missing_frame(&it.frames, &it.locations),
        Record::Environment(it) => it.inconsistency(),
        Record::LostBlocks { blocks, .. } => blocks
            .iter()
            .any(|it| !it.address.is_multiple_of(LostBlock::ALIGNMENT))
            .then_some("the address of a lost block is not aligned"),
        Record::Sampling(it) => (it.period > MAX_PERIOD || it.longest_period > MAX_PERIOD)
            .then_some("a period is longer than 1 TiB"),
        Record::Samples { samples, .. } => samples
            .iter()
            .find_map(|sample| impossible_period(sample.period)),
        Record::SampleTotals { totals, .. } => totals.iter().find_map(inconsistent_total),
        _ => None,
    }
}

fn impossible_period(period: u64) -> Option<&'static str> {
    let is_possible = (1..=MAX_PERIOD).contains(&period);
    (!is_possible).then_some("the period of a sample is not 1 byte to 1 TiB")
}

fn inconsistent_total(total: &SampleTotal) -> Option<&'static str> {
    let reversed = total.smallest > total.largest;
    let reversed = reversed.then_some("the smallest size of samples exceeds the largest");
    impossible_period(total.period).or(reversed)
}

fn inconsistent_nodes(first: StackId, nodes: &[StackNode]) -> Option<&'static str> {
    if first < stack_end::FIRST_NODE {
        return Some("a stack node has the id of a stack end");
    }
    if (first as usize).saturating_add(nodes.len()) > u32::MAX as usize {
        return Some("stack ids exceed 32 bits");
    }
    let child_first = nodes
        .iter()
        .zip(first..)
        .any(|(node, id)| node.parent >= id);
    child_first.then_some("a stack node comes before its caller")
}

/// Whether a location refers to a frame that is not in the list.
fn missing_frame(frames: &[NamedFrame], locations: &[Location]) -> Option<&'static str> {
    let mut indexes = locations.iter().flat_map(|location| &location.frames);
    let outside = indexes.any(|&index| index as usize >= frames.len());
    outside.then_some("a location refers to a missing frame")
}
