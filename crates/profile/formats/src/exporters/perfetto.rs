//! A Perfetto trace with native heap profiles.
//!
//! Each process has dumps at several moments, as `heapprofd` makes them: what each stack
//! allocated and freed since the start, number and bytes. The moments divide the run evenly
//! and are starts of buckets of the time table, where its sums are exact, and the end. There
//! are at most [`MAX_DUMPS`], and fewer if that would be more than [`MAX_SAMPLES`] figures.
//! A second heap, `live at the peak`, has what was live when most bytes were live. Counters
//! show live bytes and resident memory; marks and windows are events of tracks.
//!
//! What the trace processor requires: sums of a stack must not decrease from dump to dump of a
//! sequence of packets, whatever the heap, unless a heap is new. So equal stacks are one, and
//! the peaks are a sequence of their own. Dumps have consecutive numbers in order of time. Their
//! time stamps are those of the clock MONOTONIC_COARSE, for which there is a clock snapshot.
//!
//! Stacks of other tools have no times: they become one dump, of a process with their pid or 1.
//! An image that replaced another one of the same process (`exec`) has heaps of its own, named
//! with its number, because Perfetto knows processes by pid.
//!
//! Times are nanoseconds since the start of the recording. Source: Perfetto,
//! `profile_packet.proto`, `profile_common.proto`, `track_event.proto`, and
//! `profile_module.cc` of the trace processor.

use std::io::{self, Write};

use allotrope_profile::{
    CountedStack, LIVE_AT_END, Metric, Module, Process, Profile, StackFrame, StackSet,
};
use allotrope_text::text_of_os;
use prost::Message;
use rustc_hash::{FxHashMap, FxHashSet};

use super::curve::{self, Point};
use super::input::process_name;
use super::naming::{NO_STACK, name, on_one_line};
use super::{ExportOptions, Exporter, Input, Wanted, require};
use crate::error::ExportError;
use crate::perfetto_message::{
    Callstack, Clock, ClockSnapshot, CounterDescriptor, Frame, HeapSample, InternedData,
    InternedString, Mapping, ProcessDescriptor, ProcessHeapSamples, ProfilePacket, Trace,
    TracePacket, TrackDescriptor, TrackEvent, UNIT_SIZE_BYTES, clock, flags, kind,
};

/// The most dumps over time.
const MAX_DUMPS: usize = 32;
/// The most figures of stacks in all dumps over time, unless one dump has more.
const MAX_SAMPLES: usize = 1_000_000;
/// Entries of one packet.
const ENTRIES: usize = 10_000;
/// The path of the module of frames without one.
const NO_MODULE: &str = "[unknown]";
/// The heap of the dumps over time, as `heapprofd` calls it.
const HEAP: &str = "libc.malloc";
/// The heap of what was live at the peak.
const PEAK_HEAP: &str = "live at the peak";
/// The figures of a dump.
const FIGURES: [Metric; 4] = [
    Metric::Allocations,
    Metric::Bytes,
    Metric::LeakedAllocations,
    Metric::LeakedBytes,
];

/// The tag of `Trace.packet`: field 1, with a length (protobuf's encoding).
const PACKET_FIELD: u8 = 0x0a;

/// The exporter; see the module documentation.
pub(super) struct Perfetto;

impl Exporter for Perfetto {
    fn name(&self) -> &'static str {
        "perfetto"
    }

    fn description(&self) -> &'static str {
        "heap profiles over time, for Perfetto (ui.perfetto.dev)"
    }

    fn extension(&self) -> &'static str {
        "pftrace"
    }

    fn wanted(&self) -> Wanted {
        Wanted::Times
    }

    fn check(&self, input: &Input<'_>) -> Result<(), ExportError> {
        FIGURES
            .into_iter()
            .try_for_each(|metric| require(input.set, metric))
    }

    fn notes(&self, input: &Input<'_>) -> Vec<String> {
        match input.recorded {
            Some(_) => Vec::new(),
            None => vec!["the source has no times, so there is one dump, at time 0".to_owned()],
        }
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn is_own(&self, head: &[u8]) -> bool {
        // The packet with the clocks, which are 0: see `Sequence::clocks`.
        let Some((&[PACKET_FIELD, length], rest)) = head.split_first_chunk() else {
            return false;
        };
        // Its length is below 128, a varint of one byte.
        let packet = rest.get(..usize::from(length));
        let Some(Ok(packet)) = packet.map(TracePacket::decode) else {
            return false;
        };
        let clocks = packet.clock_snapshot.unwrap_or_default().clocks;
        let is_start =
            |(clock, id): (&Clock, u32)| clock.clock_id == Some(id) && clock.timestamp == Some(0);
        packet.trusted_packet_sequence_id == Some(1)
            && clocks.len() >= 2
            && clocks
                .iter()
                .zip([clock::BOOTTIME, clock::MONOTONIC_COARSE])
                .all(is_start)
    }

    fn write(
        &self,
        input: &Input<'_>,
        _options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let set = input.set;
        let started = input
            .recorded
            .map(|it| it.profile.recording.started_unix_ns);
        let mut dumps = Sequence::new(1, out);
        dumps.clocks(started)?;
        let tables = Tables::new(set, input.recorded.map(|it| it.profile));
        dumps.tables(&tables, |_| true)?;
        let Some(recorded) = input.recorded else {
            return Ok(dumps.sums(set, &tables.ids)?);
        };
        let profile = recorded.profile;
        dumps.recording(profile, &tables.ids)?;
        let mut peaks = Sequence::new(2, out);
        let live = set.stacks.iter().zip(&tables.ids);
        let live = live.filter(|(stack, _)| stack.figures[Metric::PeakAllocations as usize] > 0);
        let live: FxHashSet<u64> = live.map(|(_, &id)| id).collect();
        peaks.tables(&tables, |id| live.contains(&id))?;
        peaks.peaks(profile, &tables.ids)?;
        Ok(())
    }
}

/// A sequence of packets, which has interned names and sums of its own.
struct Sequence<'a> {
    id: u32,
    out: &'a mut dyn Write,
    /// The next packet is the first one.
    is_first: bool,
    /// The number of the next dump's packet.
    index: u64,
}

/// What is interned. Ids begin with 1.
struct Tables<'a> {
    set: &'a StackSet,
    names: Vec<InternedString>,
    files: Vec<InternedString>,
    paths: Vec<InternedString>,
    build_ids: Vec<InternedString>,
    mappings: Vec<Mapping>,
    /// Frames in the order of the set, then that of stacks without frames.
    frames: Vec<Frame>,
    /// Id of each stack, by its index in the set. Equal stacks have that of the first one.
    ids: Vec<u64>,
}

impl<'a> Tables<'a> {
    fn new(set: &'a StackSet, profile: Option<&Profile>) -> Self {
        let modules = profile.map_or(&set.run.modules[..], |it| &it.modules);
        let (mut names, mut files) = (Strings::default(), Strings::default());
        let mut paths = Strings::default();
        let unknown = paths.id(NO_MODULE);
        let mut frames: Vec<Frame> = (1..)
            .zip(&set.frames)
            .map(|(iid, frame)| interned(iid, frame, &mut names, &mut files, &mut paths))
            .collect();
        frames.push(Frame {
            iid: Some(set.frames.len() as u64 + 1),
            function_name_id: Some(names.id(NO_STACK)),
            mapping_id: Some(unknown),
            rel_pc: Some(0),
            ..Frame::default()
        });
        let (build_ids, mappings) = mappings(&paths, modules);
        let mut first: FxHashMap<&[u32], u64> = FxHashMap::default();
        let ids = (1..).zip(&set.stacks);
        let ids = ids.map(|(id, stack)| *first.entry(&stack.frames).or_insert(id));
        Self {
            ids: ids.collect(),
            names: names.list,
            files: files.list,
            paths: paths.list,
            build_ids,
            mappings,
            frames,
            set,
        }
    }

    /// The stack with this id.
    fn stack(&self, id: u64) -> Callstack {
        let stack = &self.set.stacks[id as usize - 1];
        let frames = stack.frames.iter().rev().map(|&it| u64::from(it) + 1);
        Callstack {
            iid: Some(id),
            frame_ids: match stack.frames.is_empty() {
                true => vec![self.frames.len() as u64],
                false => frames.collect(),
            },
        }
    }
}

/// A process image, with the ids of the stacks of its sites.
struct Image<'a> {
    image: &'a Process,
    ids: &'a [u64],
    /// No other image of its process was there before.
    is_first: bool,
}

impl Image<'_> {
    fn heap(&self, name: &str, time_ns: u64) -> Heap {
        Heap {
            name: match self.is_first {
                true => name.to_owned(),
                false => format!("{name} (image {})", self.image.id),
            },
            pid: self.image.pid,
            time_ns,
        }
    }
}

/// The images of a profile; `ids` are the stacks of all sites.
fn images<'a>(profile: &'a Profile, mut ids: &'a [u64]) -> Vec<Image<'a>> {
    let mut pids = FxHashSet::default();
    let images = profile.processes.iter().map(|image| {
        let (own, others) = ids.split_at(image.sites.len().min(ids.len()));
        ids = others;
        Image {
            image,
            ids: own,
            is_first: pids.insert(image.pid),
        }
    });
    images.collect()
}

/// The process of a dump, and its heap.
struct Heap {
    pid: u32,
    name: String,
    time_ns: u64,
}

impl<'a> Sequence<'a> {
    fn new(id: u32, out: &'a mut dyn Write) -> Self {
        Self {
            id,
            out,
            is_first: true,
            index: 0,
        }
    }

    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        let cleared = match std::mem::take(&mut self.is_first) {
            true => flags::INCREMENTAL_STATE_CLEARED,
            false => 0,
        };
        let packet = TracePacket {
            trusted_packet_sequence_id: Some(self.id),
            sequence_flags: Some(flags::NEEDS_INCREMENTAL_STATE | cleared),
            ..packet
        };
        let trace = Trace {
            packet: vec![packet],
        };
        self.out.write_all(&trace.encode_to_vec())
    }

    /// States that all clocks are 0 when the recording starts, and that of the calendar what
    /// it was then.
    fn clocks(&mut self, started_unix_ns: Option<u64>) -> io::Result<()> {
        let clock = |clock_id, timestamp| Clock {
            clock_id: Some(clock_id),
            timestamp: Some(timestamp),
        };
        let mut clocks = vec![clock(clock::BOOTTIME, 0), clock(clock::MONOTONIC_COARSE, 0)];
        clocks.extend(started_unix_ns.map(|started| clock(clock::REALTIME, started)));
        self.packet(TracePacket {
            clock_snapshot: Some(ClockSnapshot { clocks }),
            ..TracePacket::default()
        })
    }

    /// Interns names, modules and frames, and the stacks whose ids are wanted.
    fn tables(&mut self, tables: &Tables<'_>, is_wanted: impl Fn(u64) -> bool) -> io::Result<()> {
        self.intern(tables.names.clone(), |data, list| {
            data.function_names = list
        })?;
        self.intern(tables.files.clone(), |data, list| data.source_paths = list)?;
        self.intern(tables.paths.clone(), |data, list| data.mapping_paths = list)?;
        self.intern(tables.build_ids.clone(), |data, list| data.build_ids = list)?;
        self.intern(tables.mappings.clone(), |data, list| data.mappings = list)?;
        self.intern(tables.frames.clone(), |data, list| data.frames = list)?;
        let ids = (1..).zip(&tables.ids);
        let wanted = ids.filter(|&(own, &id)| own == id && is_wanted(id));
        let stacks = wanted.map(|(id, _)| tables.stack(id));
        self.intern(stacks, |data, list| data.callstacks = list)
    }

    /// Writes the entries of one table, some in each packet.
    fn intern<T>(
        &mut self,
        entries: impl IntoIterator<Item = T>,
        set: impl Fn(&mut InternedData, Vec<T>),
    ) -> io::Result<()> {
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            let mut data = InternedData::default();
            set(&mut data, entries.by_ref().take(ENTRIES).collect());
            self.packet(TracePacket {
                interned_data: Some(data),
                ..TracePacket::default()
            })?;
        }
        Ok(())
    }

    /// Writes a dump, of several packets if it is large. Stacks that allocated nothing are
    /// left out, and the figures of equal ones added up.
    fn dump(&mut self, heap: &Heap, mut samples: Vec<HeapSample>) -> io::Result<()> {
        samples.retain(|sample| sample.alloc_count > Some(0));
        samples.sort_by_key(|sample| sample.callstack_id);
        samples.dedup_by(|other, sum| {
            let is_same = other.callstack_id == sum.callstack_id;
            if is_same {
                sum.add(other);
            }
            is_same
        });
        let mut samples = samples.into_iter().peekable();
        loop {
            let some: Vec<HeapSample> = samples.by_ref().take(ENTRIES).collect();
            let continued = samples.peek().is_some();
            let dump = ProcessHeapSamples {
                pid: Some(heap.pid.into()),
                samples: some,
                timestamp: Some(heap.time_ns),
                heap_name: Some(heap.name.clone()),
                sampling_interval_bytes: Some(1),
            };
            let packet = ProfilePacket {
                process_dumps: vec![dump],
                continued: Some(continued),
                index: Some(self.index),
            };
            self.index += 1;
            self.packet(TracePacket {
                timestamp: Some(heap.time_ns),
                profile_packet: Some(packet),
                ..TracePacket::default()
            })?;
            if !continued {
                return Ok(());
            }
        }
    }

    /// The only dump of a source without times.
    fn sums(&mut self, set: &StackSet, ids: &[u64]) -> io::Result<()> {
        let pid = set.run.pid.unwrap_or(1);
        let title = on_one_line(set.title.as_str().into(), None);
        self.describe_process(pid, &title, &[])?;
        let samples = ids.iter().zip(&set.stacks);
        let samples = samples.map(|(&id, stack)| of_sums(id, stack)).collect();
        let heap = Heap {
            pid,
            name: HEAP.to_owned(),
            time_ns: 0,
        };
        self.dump(&heap, samples)
    }

    /// Everything of a recording but its peaks; `ids` are the stacks of all sites.
    fn recording(&mut self, profile: &Profile, ids: &[u64]) -> io::Result<()> {
        for process in images(profile, ids) {
            if process.is_first {
                let words = process.image.command.iter();
                let words: Vec<String> = words.map(|it| text_of_os(it).into_owned()).collect();
                let name = process_name(process.image);
                self.describe_process(process.image.pid, &name, &words)?;
            }
            self.curves(process.image, profile.processes.len())?;
            self.windows(process.image)?;
        }
        self.marks(profile)?;
        let number = (MAX_SAMPLES / ids.len().max(1)).clamp(1, MAX_DUMPS);
        let images = images(profile, ids);
        let dumps = (0..).zip(&images).flat_map(|(at, it)| {
            let moments = moments(it.image, number).into_iter();
            moments.map(move |moment| (moment.time_ns, at, Some(moment.bucket)))
        });
        let ends = (0..)
            .zip(&images)
            .map(|(at, it)| (curve::end_ns(it.image), at, None));
        let mut dumps: Vec<(u64, usize, Option<usize>)> = dumps.chain(ends).collect();
        // That at the end is the last one of its process.
        dumps.sort_by_key(|&(time_ns, at, bucket)| (time_ns, at, bucket.is_none()));
        for (time_ns, at, bucket) in dumps {
            let it = &images[at];
            let samples = match bucket {
                Some(bucket) => until(it, bucket),
                None => at_the_end(it),
            };
            self.dump(&it.heap(HEAP, time_ns), samples)?;
        }
        Ok(())
    }

    /// A dump for each process of what was live at its peak.
    fn peaks(&mut self, profile: &Profile, ids: &[u64]) -> io::Result<()> {
        let mut images = images(profile, ids);
        let peak_us = |it: &Image<'_>| {
            let totals = &it.image.totals;
            it.image.started_us.saturating_add(totals.peak_time_us)
        };
        images.sort_by_key(peak_us);
        for it in images {
            let sites = it.ids.iter().zip(&it.image.sites);
            let samples = sites.map(|(&id, site)| HeapSample {
                callstack_id: Some(id),
                self_allocated: Some(site.bytes_at_peak),
                self_freed: Some(0),
                alloc_count: Some(site.allocations_at_peak),
                free_count: Some(0),
            });
            let heap = it.heap(PEAK_HEAP, peak_us(&it).saturating_mul(1000));
            self.dump(&heap, samples.collect())?;
        }
        Ok(())
    }

    fn describe(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.packet(TracePacket {
            track_descriptor: Some(track),
            ..TracePacket::default()
        })
    }

    fn describe_process(&mut self, pid: u32, name: &str, command: &[String]) -> io::Result<()> {
        self.describe(TrackDescriptor {
            uuid: Some(track_of(pid)),
            process: Some(ProcessDescriptor {
                pid: i32::try_from(pid).ok(),
                cmdline: command.to_vec(),
                process_name: Some(name.to_owned()),
            }),
            ..TrackDescriptor::default()
        })
    }

    fn event(&mut self, time_ns: u64, event: TrackEvent) -> io::Result<()> {
        self.packet(TracePacket {
            timestamp: Some(time_ns),
            track_event: Some(event),
            ..TracePacket::default()
        })
    }

    fn curves(&mut self, process: &Process, processes: usize) -> io::Result<()> {
        let curves = [
            ("live bytes", 1, curve::live(process, processes)),
            ("resident memory", 2, curve::resident(process, processes)),
        ];
        for (name, number, points) in curves {
            if points.is_empty() {
                continue;
            }
            let track = uuid(process, number);
            self.describe(TrackDescriptor {
                uuid: Some(track),
                name: Some(name.to_owned()),
                parent_uuid: Some(track_of(process.pid)),
                counter: Some(CounterDescriptor {
                    unit: Some(UNIT_SIZE_BYTES),
                }),
                ..TrackDescriptor::default()
            })?;
            for Point { time_ns, bytes, .. } in points {
                let event = TrackEvent {
                    kind: Some(kind::COUNTER),
                    track_uuid: Some(track),
                    counter_value: Some(i64::try_from(bytes).unwrap_or(i64::MAX)),
                    name: None,
                };
                self.event(time_ns, event)?;
            }
        }
        Ok(())
    }

    /// A track for each window, because windows may overlap.
    fn windows(&mut self, process: &Process) -> io::Result<()> {
        for (number, window) in (3..).zip(&process.windows) {
            let track = uuid(process, number);
            let name = on_one_line(window.name.as_str().into(), None).into_owned();
            self.describe(TrackDescriptor {
                uuid: Some(track),
                name: Some("window".to_owned()),
                parent_uuid: Some(track_of(process.pid)),
                ..TrackDescriptor::default()
            })?;
            let opened = process.started_us.saturating_add(window.opened_us);
            let closed = opened.saturating_add(window.duration_us);
            for (us, kind) in [(opened, kind::SLICE_BEGIN), (closed, kind::SLICE_END)] {
                let event = TrackEvent {
                    kind: Some(kind),
                    track_uuid: Some(track),
                    name: (kind == kind::SLICE_BEGIN).then(|| name.clone()),
                    counter_value: None,
                };
                self.event(us.saturating_mul(1000), event)?;
            }
        }
        Ok(())
    }

    fn marks(&mut self, profile: &Profile) -> io::Result<()> {
        if profile.marks.is_empty() {
            return Ok(());
        }
        self.describe(TrackDescriptor {
            uuid: Some(MARKS),
            name: Some("marks".to_owned()),
            ..TrackDescriptor::default()
        })?;
        for mark in &profile.marks {
            let event = TrackEvent {
                kind: Some(kind::INSTANT),
                track_uuid: Some(MARKS),
                name: Some(on_one_line(mark.name.as_str().into(), None).into_owned()),
                counter_value: None,
            };
            self.event(mark.time_ns, event)?;
        }
        Ok(())
    }
}

/// The track of the marks.
const MARKS: u64 = 1 << 62;

/// The track of a process.
fn track_of(pid: u32) -> u64 {
    1 << 61 | u64::from(pid)
}

/// The track of a process image with a number of its own.
fn uuid(process: &Process, number: u64) -> u64 {
    (u64::from(process.id) + 1) << 24 | number
}

/// Distinct texts with ids from 1.
#[derive(Default)]
struct Strings {
    ids: FxHashMap<String, u64>,
    list: Vec<InternedString>,
}

impl Strings {
    fn id(&mut self, text: &str) -> u64 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.list.len() as u64 + 1;
        self.list.push(InternedString {
            iid: Some(id),
            str: Some(text.as_bytes().to_vec()),
        });
        self.ids.insert(text.to_owned(), id);
        id
    }
}

/// A frame. The id of its mapping is that of the module's name.
fn interned(
    iid: u64,
    frame: &StackFrame,
    names: &mut Strings,
    files: &mut Strings,
    paths: &mut Strings,
) -> Frame {
    let module = match frame.module.is_empty() {
        true => NO_MODULE,
        false => &frame.module,
    };
    let has_file = !frame.file.is_empty();
    Frame {
        iid: Some(iid),
        function_name_id: Some(names.id(&on_one_line(name(frame), None))),
        mapping_id: Some(paths.id(module)),
        // Frames are looked up by it; the real address is unknown.
        rel_pc: Some(iid),
        source_path_iid: has_file.then(|| files.id(&frame.file)),
        line_number: Some(frame.line).filter(|&line| has_file && line > 0),
    }
}

/// The mappings of all module names, and the build ids of those that are known.
fn mappings(paths: &Strings, modules: &[Module]) -> (Vec<InternedString>, Vec<Mapping>) {
    let mut by_name: FxHashMap<String, &[u8]> = FxHashMap::default();
    for module in modules.iter().filter(|it| !it.build_id.is_empty()) {
        by_name.insert(module.name().into_owned(), &module.build_id);
    }
    let mut build_ids = Vec::new();
    let mappings = paths.list.iter().map(|path| {
        let text = path
            .str
            .as_deref()
            .and_then(|it| std::str::from_utf8(it).ok());
        let build_id = text.and_then(|name| by_name.get(name)).map(|bytes| {
            let iid = build_ids.len() as u64 + 1;
            build_ids.push(InternedString {
                iid: Some(iid),
                str: Some(bytes.to_vec()),
            });
            iid
        });
        Mapping {
            iid: path.iid,
            build_id,
            path_string_ids: path.iid.into_iter().collect(),
        }
    });
    let mappings = mappings.collect();
    (build_ids, mappings)
}

/// The figures of a stack at the end.
fn of_sums(id: u64, stack: &CountedStack) -> HeapSample {
    let figure = |metric: Metric| stack.figures[metric as usize];
    let freed = |all, left| figure(all).saturating_sub(figure(left));
    HeapSample {
        callstack_id: Some(id),
        self_allocated: Some(figure(Metric::Bytes)),
        self_freed: Some(freed(Metric::Bytes, Metric::LeakedBytes)),
        alloc_count: Some(figure(Metric::Allocations)),
        free_count: Some(freed(Metric::Allocations, Metric::LeakedAllocations)),
    }
}

/// The start of a bucket.
struct Moment {
    bucket: usize,
    time_ns: u64,
}

/// The moments of the dumps before the end: starts of buckets, about evenly distributed.
fn moments(process: &Process, dumps: usize) -> Vec<Moment> {
    let Some(table) = &process.times else {
        return Vec::new();
    };
    let start = table.starts_ns.first().copied().unwrap_or(0);
    let span = table.end_ns.saturating_sub(start);
    let mut moments: Vec<Moment> = Vec::new();
    for number in 1..dumps {
        let part = u128::from(span) * number as u128 / dumps as u128;
        let bucket = table.bucket_at(start.saturating_add(part as u64));
        let is_new = moments.last().is_none_or(|last| last.bucket < bucket);
        if bucket > 0 && is_new {
            let time_ns = table.starts_ns[bucket];
            moments.push(Moment { bucket, time_ns });
        }
    }
    moments
}

/// What each site had allocated and freed when a bucket began.
fn until(it: &Image<'_>, bucket: usize) -> Vec<HeapSample> {
    let Some(table) = &it.image.times else {
        return Vec::new();
    };
    let sample = |(site, &id): (u32, &u64)| {
        let mut sum = HeapSample::nothing(id);
        for cell in table.cells_of(site) {
            let is_before = |at: u16| usize::from(at) < bucket;
            if is_before(cell.allocated) {
                let freed = cell.freed != LIVE_AT_END && is_before(cell.freed);
                let freed = if freed {
                    (cell.blocks, cell.bytes)
                } else {
                    (0, 0)
                };
                sum.add(&HeapSample {
                    callstack_id: None,
                    self_allocated: Some(cell.bytes),
                    self_freed: Some(freed.1),
                    alloc_count: Some(cell.blocks),
                    free_count: Some(freed.0),
                });
            }
        }
        sum
    };
    (0..).zip(it.ids).map(sample).collect()
}

/// What each site had allocated and freed at the end.
fn at_the_end(it: &Image<'_>) -> Vec<HeapSample> {
    let sites = it.ids.iter().zip(&it.image.sites);
    let samples = sites.map(|(&id, site)| HeapSample {
        callstack_id: Some(id),
        self_allocated: Some(site.allocated_bytes),
        self_freed: Some(site.allocated_bytes.saturating_sub(site.leaked_bytes)),
        alloc_count: Some(site.allocations),
        free_count: Some(site.allocations.saturating_sub(site.leaked_allocations)),
    });
    samples.collect()
}

impl HeapSample {
    fn nothing(id: u64) -> Self {
        Self {
            callstack_id: Some(id),
            self_allocated: Some(0),
            self_freed: Some(0),
            alloc_count: Some(0),
            free_count: Some(0),
        }
    }

    fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| {
            let sum = a.unwrap_or(0).saturating_add(b.unwrap_or(0));
            Some(sum)
        };
        self.self_allocated = sum(self.self_allocated, other.self_allocated);
        self.self_freed = sum(self.self_freed, other.self_freed);
        self.alloc_count = sum(self.alloc_count, other.alloc_count);
        self.free_count = sum(self.free_count, other.free_count);
    }
}
