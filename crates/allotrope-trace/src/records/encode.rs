//! Records to bytes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::tag;
use crate::model::{
    Counts, Exit, Frame, ImageStart, Location, Origin, Record, Recording, StackNode, Symbols,
    Waits, Window, WindowCounts, WindowEnd,
};
use crate::varint::{put, put_delta};

/// Appends the record to `out`; `body` is memory to work in. Events are no
/// business of this function and append nothing.
pub(crate) fn encode(record: &Record, body: &mut Vec<u8>, out: &mut Vec<u8>) {
    body.clear();
    let Some(tag) = fields(record, body) else {
        return;
    };
    put(out, tag);
    put(out, body.len() as u64);
    out.extend_from_slice(body);
}

fn fields(record: &Record, out: &mut Vec<u8>) -> Option<u64> {
    let tag = match record {
        Record::Events(_) => return None,
        Record::Recording(it) => recording(it, out),
        Record::Clock(it) => numbers(out, tag::CLOCK, &[it.tick, it.monotonic_ns]),
        Record::ImageStart(it) => image_start(it, out),
        Record::ImageEnd(it) => {
            numbers(
                out,
                tag::IMAGE_END,
                &[it.image.into(), it.tick, it.complete.into()],
            );
            exit(it.exit, out);
            tag::IMAGE_END
        }
        Record::ThreadStart(it) => {
            let fields = [it.image.into(), it.thread.into(), it.tid.into(), it.tick];
            numbers(out, tag::THREAD_START, &fields)
        }
        Record::ThreadName(it) => {
            put(out, it.thread.into());
            string(&it.name, out);
            tag::THREAD_NAME
        }
        Record::ThreadEnd(it) => numbers(out, tag::THREAD_END, &[it.thread.into(), it.tick]),
        Record::Module(it) => {
            put(out, it.module.into());
            raw(&it.path, out);
            bytes(&it.build_id, out);
            tag::MODULE
        }
        Record::Mapping(it) => {
            let ids = [it.image.into(), it.mapping.into(), it.module.into()];
            numbers(out, tag::MAPPING, &ids);
            numbers(out, tag::MAPPING, &[it.start, it.end, it.bias, it.tick])
        }
        Record::Unmapped {
            image,
            mapping,
            tick,
        } => numbers(
            out,
            tag::UNMAPPED,
            &[(*image).into(), (*mapping).into(), *tick],
        ),
        Record::Stacks {
            image,
            first,
            nodes,
        } => {
            numbers(
                out,
                tag::STACKS,
                &[(*image).into(), (*first).into(), nodes.len() as u64],
            );
            stacks(*first, nodes, out);
            tag::STACKS
        }
        Record::ResidentSet { image, tick, bytes } => {
            numbers(out, tag::RESIDENT_SET, &[(*image).into(), *tick, *bytes])
        }
        Record::Loss(it) => {
            let fields = [it.image.into(), it.reason as u64, it.events, it.tick];
            numbers(out, tag::LOSS, &fields)
        }
        Record::Waits(it) => waits(it, out),
        Record::Counts(it) => counts(it, out),
        Record::Window(it) => window(it, out),
        Record::WindowEnd(it) => window_end(it, out),
        Record::WindowCounts(it) => window_counts(it, out),
        Record::Symbols(it) => symbols(it, out),
        Record::JitSymbols(it) => {
            numbers(out, tag::JIT_SYMBOLS, &[it.image.into(), it.tick]);
            frames_and_locations(&it.frames, &it.locations, out);
            tag::JIT_SYMBOLS
        }
        Record::Unrecorded(it) => {
            put(out, it.pid.into());
            raw(&it.executable, out);
            string(&it.reason, out);
            put(out, it.partly.into());
            tag::UNRECORDED
        }
    };
    Some(tag)
}

fn numbers(out: &mut Vec<u8>, tag: u64, fields: &[u64]) -> u64 {
    for &field in fields {
        put(out, field);
    }
    tag
}

fn bytes(value: &[u8], out: &mut Vec<u8>) {
    put(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn string(value: &str, out: &mut Vec<u8>) {
    bytes(value.as_bytes(), out);
}

/// A path or an argument, which may hold any bytes.
fn raw(value: impl AsRef<OsStr>, out: &mut Vec<u8>) {
    bytes(value.as_ref().as_bytes(), out);
}

fn raws(values: &[OsString], out: &mut Vec<u8>) {
    put(out, values.len() as u64);
    for value in values {
        raw(value, out);
    }
}

/// 0 for nothing, else the value behind a 1.
fn optional(value: Option<u64>, out: &mut Vec<u8>) {
    put(out, value.is_some().into());
    if let Some(value) = value {
        put(out, value);
    }
}

fn recording(it: &Recording, out: &mut Vec<u8>) -> u64 {
    string(&it.tool_version, out);
    raws(&it.command, out);
    numbers(out, tag::RECORDING, &[it.started_unix_ns, it.started_tick]);
    string(&it.system, out);
    string(&it.architecture, out);
    numbers(
        out,
        tag::RECORDING,
        &[it.depth_limit.into(), it.counts_only.into()],
    )
}

fn counts(it: &Counts, out: &mut Vec<u8>) -> u64 {
    let fields = [
        it.image.into(),
        it.thread.into(),
        it.tick,
        it.entries.len() as u64,
    ];
    numbers(out, tag::COUNTS, &fields);
    for it in &it.entries {
        let fields = [
            it.entry as u64,
            it.allocations,
            it.allocated_bytes,
            it.deallocations,
            it.reallocations,
        ];
        numbers(out, tag::COUNTS, &fields);
    }
    tag::COUNTS
}

fn image_start(it: &ImageStart, out: &mut Vec<u8>) -> u64 {
    let origin = match it.origin {
        Origin::First => 0,
        Origin::Fork => 1,
        Origin::Exec => 2,
    };
    let fields = [it.image.into(), it.pid.into(), it.parent_pid.into(), origin];
    numbers(out, tag::IMAGE_START, &fields);
    optional(it.forked_from.map(u64::from), out);
    put(out, it.fork_points.len() as u64);
    for point in &it.fork_points {
        numbers(out, tag::IMAGE_START, &[point.stream.into(), point.ordinal]);
    }
    raw(&it.executable, out);
    raws(&it.command, out);
    put(out, it.tick);
    tag::IMAGE_START
}

fn exit(exit: Exit, out: &mut Vec<u8>) {
    let (how, number) = match exit {
        Exit::Status(status) => (0, status),
        Exit::Signal(signal) => (1, signal),
        Exit::Exec => (2, 0),
        Exit::Running => (3, 0),
        Exit::Unknown => (4, 0),
    };
    put(out, how);
    put_delta(out, 0, i64::from(number) as u64);
}

/// A caller is told by its distance, an address by its distance from the last:
/// both are small where the nodes of one stack stand together.
fn stacks(first: u32, nodes: &[StackNode], out: &mut Vec<u8>) {
    let mut address = 0;
    for (id, node) in (u64::from(first)..).zip(nodes) {
        put(
            out,
            (id - u64::from(node.parent)) << 1 | u64::from(node.exact),
        );
        put_delta(out, address, node.address);
        // NO_MAPPING, the largest number, becomes the smallest.
        put(out, node.mapping.wrapping_add(1).into());
        address = node.address;
    }
}

fn window(it: &Window, out: &mut Vec<u8>) -> u64 {
    numbers(out, tag::WINDOW, &[it.image.into(), it.opened]);
    optional(it.thread.map(u64::from), out);
    put(out, it.this_thread_only.into());
    string(&it.name, out);
    numbers(out, tag::WINDOW, &[it.iterations, it.quiet as u64, it.tick])
}

fn window_end(it: &WindowEnd, out: &mut Vec<u8>) -> u64 {
    let fields = [
        it.image.into(),
        it.opened,
        it.closed,
        it.quiet as u64,
        it.tick,
        it.descriptors.is_some().into(),
    ];
    numbers(out, tag::WINDOW_END, &fields);
    if let Some(descriptors) = &it.descriptors {
        let count = descriptors.left.len() as u64;
        let ends = [descriptors.before.into(), descriptors.after.into(), count];
        numbers(out, tag::WINDOW_END, &ends);
        for left in &descriptors.left {
            string(&left.name, out);
            put(out, left.count.into());
        }
        put(out, descriptors.more);
    }
    tag::WINDOW_END
}

fn waits(it: &Waits, out: &mut Vec<u8>) -> u64 {
    put(out, it.image.into());
    optional(it.thread.map(u64::from), out);
    numbers(out, tag::WAITS, &[it.tick, it.waits, it.waited_ticks])
}

fn window_counts(it: &WindowCounts, out: &mut Vec<u8>) -> u64 {
    numbers(out, tag::WINDOW_COUNTS, &[it.image.into(), it.epoch]);
    optional(it.thread.map(u64::from), out);
    for sums in [it.all, it.of_thread] {
        let fields = [
            sums.allocations,
            sums.allocated_bytes,
            sums.deallocations,
            sums.reallocations,
        ];
        numbers(out, tag::WINDOW_COUNTS, &fields);
    }
    tag::WINDOW_COUNTS
}

fn symbols(it: &Symbols, out: &mut Vec<u8>) -> u64 {
    let unoptimised = match it.unoptimised {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    };
    numbers(out, tag::SYMBOLS, &[it.module.into(), unoptimised]);
    frames_and_locations(&it.frames, &it.locations, out);
    tag::SYMBOLS
}

fn frames_and_locations(frames: &[Frame], locations: &[Location], out: &mut Vec<u8>) {
    put(out, frames.len() as u64);
    for each in frames {
        frame(each, out);
    }
    put(out, locations.len() as u64);
    let mut last = Last::default();
    for each in locations {
        location(each, &mut last, out);
    }
}

fn frame(it: &Frame, out: &mut Vec<u8>) {
    string(&it.function, out);
    string(&it.signature, out);
    string(&it.file, out);
    let fields = [
        it.line.into(),
        it.column.into(),
        it.offset,
        it.inlined.into(),
    ];
    numbers(out, tag::SYMBOLS, &fields);
}

/// What the next location is told relative to.
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
