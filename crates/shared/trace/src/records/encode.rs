//! Encodes records: the inverse of [`super::decode`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::tag;
use crate::model::{
    Counts, Environment, Exit, ImageStart, Location, NamedFrame, Origin, Record, Recording,
    StackNode, Window, WindowEnd, WindowSums,
};
use crate::varint::{put, put_delta};

/// Appends the encoded record to `out`. `body` is scratch space. Appends nothing for
/// events, which [`crate::events`] encodes.
pub(crate) fn encode(record: &Record, body: &mut Vec<u8>, out: &mut Vec<u8>) {
    let Some(tag) = tag_of(record) else {
        return;
    };
    body.clear();
    fields(record, body);
    put(out, tag);
    put(out, body.len() as u64);
    out.extend_from_slice(body);
}

fn tag_of(record: &Record) -> Option<u64> {
    Some(match record {
        Record::Events(_) => return None,
        Record::Recording(_) => tag::RECORDING,
        Record::Clock(_) => tag::CLOCK,
        Record::ImageStart(_) => tag::IMAGE_START,
        Record::Environment(_) => tag::ENVIRONMENT,
        Record::ImageEnd(_) => tag::IMAGE_END,
        Record::ThreadStart(_) => tag::THREAD_START,
        Record::ThreadName(_) => tag::THREAD_NAME,
        Record::ThreadEnd(_) => tag::THREAD_END,
        Record::Module(_) => tag::MODULE,
        Record::Mapping(_) => tag::MAPPING,
        Record::Unmapped { .. } => tag::UNMAPPED,
        Record::Stacks { .. } => tag::STACKS,
        Record::ResidentSet { .. } => tag::RESIDENT_SET,
        Record::Loss(_) => tag::LOSS,
        Record::Waits(_) => tag::WAITS,
        Record::Counts(_) => tag::COUNTS,
        Record::Window(_) => tag::WINDOW,
        Record::WindowEnd(_) => tag::WINDOW_END,
        Record::WindowCounts(_) => tag::WINDOW_COUNTS,
        Record::Symbols(_) => tag::SYMBOLS,
        Record::JitSymbols(_) => tag::JIT_SYMBOLS,
        Record::Unrecorded(_) => tag::UNRECORDED,
        Record::Mark(_) => tag::MARK,
        Record::LostBlocks { .. } => tag::LOST_BLOCKS,
        Record::Reachability(_) => tag::REACHABILITY,
        Record::Sampling(_) => tag::SAMPLING,
        Record::Samples { .. } => tag::SAMPLES,
        Record::SampleTotals { .. } => tag::SAMPLE_TOTALS,
    })
}

fn fields(record: &Record, out: &mut Vec<u8>) {
    match record {
        Record::Events(_) => {}
        Record::Recording(it) => recording(it, out),
        Record::Clock(it) => numbers(out, &[it.tick, it.monotonic_ns]),
        Record::ImageStart(it) => image_start(it, out),
        Record::Environment(it) => environment(it, out),
        Record::ImageEnd(it) => {
            numbers(out, &[it.image.into(), it.tick, it.complete.into()]);
            exit(it.exit, out);
        }
        Record::ThreadStart(it) => {
            let fields = [it.image.into(), it.thread.into(), it.tid.into(), it.tick];
            numbers(out, &fields);
        }
        Record::ThreadName(it) => {
            put(out, it.thread.into());
            string(&it.name, out);
        }
        Record::ThreadEnd(it) => numbers(out, &[it.thread.into(), it.tick]),
        Record::Module(it) => {
            put(out, it.module.into());
            raw(&it.path, out);
            bytes(&it.build_id, out);
            // An addition of minor version 5, left out where there is nothing.
            if it.file.is_known() {
                numbers(out, &it.file.to_words());
            }
        }
        Record::Mapping(it) => {
            let ids = [it.image.into(), it.mapping.into(), it.module.into()];
            numbers(out, &ids);
            numbers(out, &[it.start, it.end, it.bias, it.tick]);
        }
        Record::Unmapped {
            image,
            mapping,
            tick,
        } => numbers(out, &[(*image).into(), (*mapping).into(), *tick]),
        Record::Stacks {
            image,
            first,
            nodes,
        } => {
            numbers(out, &[(*image).into(), (*first).into(), nodes.len() as u64]);
            stacks(*first, nodes, out);
        }
        Record::ResidentSet {
            image,
            tick,
            bytes,
            recorder_bytes,
        } => {
            numbers(out, &[(*image).into(), *tick, *bytes]);
            // An addition of minor version 5, left out where it is unknown.
            if let Some(bytes) = recorder_bytes {
                put(out, *bytes);
            }
        }
        Record::Loss(it) => numbers(
            out,
            &[it.image.into(), it.reason as u64, it.events, it.tick],
        ),
        Record::Waits(it) => {
            put(out, it.image.into());
            optional(it.thread.map(u64::from), out);
            numbers(out, &[it.tick, it.waits, it.waited_ticks]);
        }
        Record::Counts(it) => counts(it, out),
        Record::Window(it) => window(it, out),
        Record::WindowEnd(it) => window_end(it, out),
        Record::WindowCounts(it) => {
            numbers(out, &[it.image.into(), it.epoch]);
            optional(it.thread.map(u64::from), out);
            window_sums(&it.all, out);
            window_sums(&it.of_thread, out);
        }
        Record::Symbols(it) => {
            let unoptimised = match it.unoptimised {
                None => 0,
                Some(false) => 1,
                Some(true) => 2,
            };
            numbers(out, &[it.module.into(), unoptimised]);
            let has_generated = frames_and_locations(&it.frames, &it.locations, out);
            // Additions of minor version 2, 5 and 7, after that of minor version 1. One is left
            // out if none follows it.
            let typed = (0_u64..).zip(&it.frames);
            let typed = typed.filter_map(|(index, frame)| Some((index, frame.allocates.as_ref()?)));
            let typed: Vec<_> = typed.collect();
            let has_missing = it.missing.is_some() || !it.sources.is_empty() || !typed.is_empty();
            if !it.compilers.is_empty() || has_missing {
                if !has_generated {
                    put(out, 0);
                }
                put(out, it.compilers.len() as u64);
                for compiler in &it.compilers {
                    string(compiler, out);
                }
            }
            if has_missing {
                put(out, it.missing.map_or(0, |reason| reason as u64));
                put(out, it.sources.len() as u64);
                for (file, md5) in &it.sources {
                    string(file, out);
                    bytes(md5, out);
                }
            }
            if !typed.is_empty() {
                put(out, typed.len() as u64);
                for (index, of_type) in typed {
                    put(out, index);
                    string(&of_type.name, out);
                    numbers(out, &[of_type.object_bytes, of_type.is_array.into()]);
                }
            }
        }
        Record::JitSymbols(it) => {
            numbers(out, &[it.image.into(), it.tick]);
            frames_and_locations(&it.frames, &it.locations, out);
        }
        Record::Unrecorded(it) => {
            put(out, it.pid.into());
            raw(&it.executable, out);
            string(&it.reason, out);
            put(out, it.partly.into());
        }
        Record::Mark(it) => {
            put(out, it.tick);
            string(&it.name, out);
        }
        Record::LostBlocks { image, blocks } => {
            numbers(out, &[(*image).into(), blocks.len() as u64]);
            let mut before = 0;
            for block in blocks {
                let word = block.address | block.class as u64;
                put_delta(out, before, word);
                before = word;
            }
        }
        Record::Reachability(it) => {
            let fields = [it.image.into(), it.tick, it.outcome as u64, it.blocks];
            numbers(out, &fields);
            put(out, it.other_threads.into());
        }
        Record::Sampling(it) => {
            let fields = [it.image.into(), it.period, it.longest_period];
            numbers(out, &fields);
            let losses = [it.lost_samples, it.lost_stacks, it.lost_totals];
            numbers(out, &losses);
            put(out, it.unreadable);
            if let Some(times) = it.times {
                numbers(out, &[times.on_since, times.off_since]);
            }
        }
        Record::Samples { image, samples } => {
            numbers(out, &[(*image).into(), samples.len() as u64]);
            for it in samples {
                let fields = [it.stack.into(), it.size, it.period, it.tick];
                numbers(out, &fields);
                numbers(out, &[it.tid.into(), it.entry as u64]);
            }
        }
        Record::SampleTotals { image, totals } => {
            numbers(out, &[(*image).into(), totals.len() as u64]);
            for it in totals {
                let fields = [it.stack.into(), it.period, it.smallest, it.largest];
                numbers(out, &fields);
                numbers(out, &[it.allocated, it.allocated_bytes]);
                numbers(out, &[it.freed, it.freed_bytes]);
            }
        }
    }
}

fn numbers(out: &mut Vec<u8>, fields: &[u64]) {
    for &field in fields {
        put(out, field);
    }
}

fn bytes(value: &[u8], out: &mut Vec<u8>) {
    put(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn string(value: &str, out: &mut Vec<u8>) {
    bytes(value.as_bytes(), out);
}

/// Encodes a path or an argument, which may contain any bytes.
fn raw(value: impl AsRef<OsStr>, out: &mut Vec<u8>) {
    bytes(value.as_ref().as_bytes(), out);
}

fn raws(values: &[OsString], out: &mut Vec<u8>) {
    put(out, values.len() as u64);
    for value in values {
        raw(value, out);
    }
}

/// Encodes `None` as 0, and a value as 1 followed by the value.
fn optional(value: Option<u64>, out: &mut Vec<u8>) {
    put(out, value.is_some().into());
    if let Some(value) = value {
        put(out, value);
    }
}

fn recording(it: &Recording, out: &mut Vec<u8>) {
    string(&it.tool_version, out);
    raws(&it.command, out);
    numbers(out, &[it.started_unix_ns, it.started_tick]);
    string(&it.system, out);
    string(&it.architecture, out);
    numbers(out, &[it.depth_limit.into(), it.counts_only.into()]);
    // An addition of minor version 4, left out where there is nothing.
    if it.free_stacks {
        put(out, 1);
    }
}

fn counts(it: &Counts, out: &mut Vec<u8>) {
    let fields = [
        it.image.into(),
        it.thread.into(),
        it.tick,
        it.entries.len() as u64,
    ];
    numbers(out, &fields);
    for it in &it.entries {
        let fields = [
            it.entry as u64,
            it.allocations,
            it.allocated_bytes,
            it.deallocations,
            it.reallocations,
        ];
        numbers(out, &fields);
    }
}

fn image_start(it: &ImageStart, out: &mut Vec<u8>) {
    let origin = match it.origin {
        Origin::First => 0,
        Origin::Fork => 1,
        Origin::Exec => 2,
    };
    let fields = [it.image.into(), it.pid.into(), it.parent_pid.into(), origin];
    numbers(out, &fields);
    optional(it.forked_from.map(u64::from), out);
    put(out, it.fork_points.len() as u64);
    for point in &it.fork_points {
        numbers(out, &[point.stream.into(), point.ordinal]);
    }
    raw(&it.executable, out);
    raws(&it.command, out);
    put(out, it.tick);
}

/// Encodes for each variable the length of its name, whether the name follows, and one more
/// than the length of its value (0: an entry without `=`).
fn environment(it: &Environment, out: &mut Vec<u8>) {
    numbers(out, &[it.image.into(), it.variables.len() as u64]);
    for variable in &it.variables {
        let bytes = variable.name.as_ref().map(|name| name.as_bytes());
        let length = bytes.map_or(u64::from(variable.name_bytes), |it| it.len() as u64);
        put(out, length << 1 | u64::from(bytes.is_some()));
        out.extend_from_slice(bytes.unwrap_or_default());
        put(out, variable.value_bytes.map_or(0, |it| u64::from(it) + 1));
    }
}

fn exit(exit: Exit, out: &mut Vec<u8>) {
    let (kind, number) = match exit {
        Exit::Status(status) => (0, status),
        Exit::Signal(signal) => (1, signal),
        Exit::Exec => (2, 0),
        Exit::Running => (3, 0),
        Exit::Unknown => (4, 0),
    };
    put(out, kind);
    put_delta(out, 0, i64::from(number) as u64);
}

/// Encodes a parent as the difference of the ids, and an address as a delta from that
/// of the preceding node. Both are small for consecutive nodes of one stack.
fn stacks(first: u32, nodes: &[StackNode], out: &mut Vec<u8>) {
    let mut address = 0;
    for (id, node) in (u64::from(first)..).zip(nodes) {
        put(
            out,
            (id - u64::from(node.parent)) << 1 | u64::from(node.exact),
        );
        put_delta(out, address, node.address);
        // NO_MAPPING, the largest number, wraps around to 0.
        put(out, node.mapping.wrapping_add(1).into());
        address = node.address;
    }
}

fn window(it: &Window, out: &mut Vec<u8>) {
    numbers(out, &[it.image.into(), it.opened]);
    optional(it.thread.map(u64::from), out);
    put(out, it.this_thread_only.into());
    string(&it.name, out);
    numbers(out, &[it.iterations, it.quiet as u64, it.tick]);
}

fn window_end(it: &WindowEnd, out: &mut Vec<u8>) {
    let fields = [
        it.image.into(),
        it.opened,
        it.closed,
        it.quiet as u64,
        it.tick,
        it.descriptors.is_some().into(),
    ];
    numbers(out, &fields);
    if let Some(descriptors) = &it.descriptors {
        let count = descriptors.left.len() as u64;
        let ends = [descriptors.before.into(), descriptors.after.into(), count];
        numbers(out, &ends);
        for left in &descriptors.left {
            string(&left.name, out);
            put(out, left.count.into());
        }
        put(out, descriptors.more);
    }
}

fn window_sums(it: &WindowSums, out: &mut Vec<u8>) {
    let fields = [
        it.allocations,
        it.allocated_bytes,
        it.deallocations,
        it.reallocations,
    ];
    numbers(out, &fields);
}

/// Returns whether the list of generated frames was written.
fn frames_and_locations(frames: &[NamedFrame], locations: &[Location], out: &mut Vec<u8>) -> bool {
    put(out, frames.len() as u64);
    for each in frames {
        frame(each, out);
    }
    put(out, locations.len() as u64);
    let mut last = Last::default();
    for each in locations {
        location(each, &mut last, out);
    }
    // An addition of minor version 1, at the end: left out where there is nothing.
    let generated = (0..).zip(frames).filter(|(_, frame)| frame.generated);
    let generated: Vec<u64> = generated.map(|(index, _)| index).collect();
    if !generated.is_empty() {
        put(out, generated.len() as u64);
        numbers(out, &generated);
    }
    !generated.is_empty()
}

fn frame(it: &NamedFrame, out: &mut Vec<u8>) {
    string(&it.function, out);
    string(&it.signature, out);
    string(&it.file, out);
    let fields = [
        it.line.into(),
        it.column.into(),
        it.offset.unwrap_or(0),
        it.inlined.into(),
    ];
    numbers(out, &fields);
}

/// The previous location: the next one is encoded relative to it.
#[derive(Default)]
struct Last {
    address: u64,
    frame: u32,
}

fn location(it: &Location, last: &mut Last, out: &mut Vec<u8>) {
    put_delta(out, last.address, it.address);
    put(out, (it.frames.len() as u64) << 1 | u64::from(it.exact));
    for &index in &it.frames {
        put_delta(out, last.frame.into(), index.into());
        last.frame = index;
    }
    last.address = it.address;
}
