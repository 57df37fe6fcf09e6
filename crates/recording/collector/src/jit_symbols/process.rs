//! The JIT code of one process: the addresses whose names were requested, what the
//! process's perf map and jitdumps contain about them, and which names were sent to the
//! trace already. `reader` calls it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::time::SystemTime;

use allotrope_symbols::symbolize::FrameTable;
use allotrope_symbols::{JitClock, JitCode, JitDump, PerfMap};
use allotrope_trace::model::{ImageId, JitSymbols, Location};
use rustc_hash::FxHashSet;

use super::Begin;
use crate::clock::Conversion;
use crate::process::rooted;

/// Largest number of requested addresses of a process.
const MAX_ADDRESSES: usize = 1 << 20;
/// Largest number of dumps of a process; each runtime in it writes one.
const MAX_DUMPS: usize = 4;
/// Reads between two searches of the process's mappings for new dumps.
const READS_BETWEEN_SEARCHES: u32 = 50;
/// Bytes of `/proc/PID/maps` that are read.
const MAX_MAPS_BYTES: u64 = 16 << 20;

/// What naming a process's addresses needs besides the process.
pub(super) struct Sources<'a> {
    pub(super) clock: &'a Conversion,
    pub(super) parent: Option<&'a Process>,
}

/// The files and requested addresses of one process image.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) image: ImageId,
    pid: u32,
    parent: Option<ImageId>,
    is_living: bool,
    map: PerfMap,
    dumps: Vec<Dump>,
    /// Number of calls of [`Self::refresh`].
    reads: u32,
    /// The requested addresses by the address that is looked up: one less than a return
    /// address.
    requested: BTreeMap<u64, Vec<Requested>>,
    requested_count: usize,
    /// Look-up addresses requested since the last records.
    unnamed: Vec<u64>,
    /// Ranges of the map that changed since the last records.
    changes: Vec<Range<u64>>,
    /// Tick of the map's last change: its modification time, limited to the time
    /// between the last two reads.
    changed_at: u64,
    /// Tick of the last read.
    last_read: u64,
}

/// A jitdump of the process.
#[derive(Debug)]
struct Dump {
    path: String,
    dump: JitDump,
    has_grown: bool,
}

/// A requested address as stacks contain it, and which of its names were sent.
#[derive(Debug)]
struct Requested {
    address: u64,
    exact: bool,
    /// Start and name of the code that was last sent from a map.
    sent: Option<(u64, std::sync::Arc<str>)>,
    /// Number of names sent from each dump: the process's own dumps, then the parent's.
    sent_from_dumps: [u32; 2 * MAX_DUMPS],
}

impl Process {
    pub(super) fn new(begin: Begin, since: SystemTime) -> Self {
        let mut process = Self::parent(begin.image, begin.pid);
        let map = begin.map.unwrap_or_else(|| PerfMap::of_process(begin.pid));
        process.map = map.written_since(since);
        process.parent = begin.parent.map(|(image, _)| image);
        // Not from /proc: `Request::End` reports the end of a recorded process.
        process.is_living = true;
        process
    }

    /// A process of which only a forked child has requested addresses so far. It may
    /// have ended already.
    pub(super) fn parent(image: ImageId, pid: u32) -> Self {
        Self {
            image,
            pid,
            parent: None,
            is_living: std::path::Path::new(&format!("/proc/{pid}")).exists(),
            map: PerfMap::of_process(pid),
            dumps: Vec::new(),
            reads: 0,
            requested: BTreeMap::new(),
            requested_count: 0,
            unnamed: Vec::new(),
            changes: Vec::new(),
            changed_at: 0,
            last_read: 0,
        }
    }

    pub(super) fn is_living(&self) -> bool {
        self.is_living
    }

    pub(super) fn was_requested(&self) -> bool {
        self.requested_count > 0
    }

    pub(super) fn parent_image(&self) -> Option<ImageId> {
        self.parent
    }

    /// The process has ended: its code no longer changes.
    pub(super) fn end(&mut self) {
        self.is_living = false;
        self.requested = BTreeMap::new();
    }

    /// Number of pieces of code (functions) read from the map and the dumps.
    pub(super) fn pieces(&self) -> usize {
        let dumps = self.dumps.iter().map(|dump| dump.dump.len());
        self.map.len() + dumps.sum::<usize>()
    }

    /// Requests the name of an address in a stack.
    pub(super) fn request(&mut self, address: u64, exact: bool) {
        let lookup = address.wrapping_sub(u64::from(!exact));
        let requested = self.requested.entry(lookup).or_default();
        if self.requested_count >= MAX_ADDRESSES || requested.iter().any(|it| it.exact == exact) {
            return;
        }
        self.requested_count += 1;
        self.unnamed.push(lookup);
        requested.push(Requested {
            address,
            exact,
            sent: None,
            sent_from_dumps: [0; 2 * MAX_DUMPS],
        });
    }

    /// Reads what the process has written since the last call.
    pub(super) fn refresh(&mut self, clock: &Conversion) {
        let before = self.last_read;
        self.last_read = Conversion::now();
        // A map that cannot be read provides no names.
        let _ = self.map.refresh();
        self.changes.extend(self.map.take_changes());
        let written = self.map.written().map_or(0, |time| clock.tick_of(time));
        self.changed_at = written.clamp(before, self.last_read);
        if self.reads.is_multiple_of(READS_BETWEEN_SEARCHES) || self.has_nameless() {
            self.find_dumps();
        }
        self.reads = self.reads.wrapping_add(1);
        for dump in &mut self.dumps {
            let known = dump.dump.len();
            let _ = dump.dump.refresh();
            dump.has_grown |= dump.dump.len() > known;
        }
    }

    /// Whether a new address has no name in the files read so far.
    fn has_nameless(&self) -> bool {
        let mut unnamed = self.unnamed.iter();
        unnamed.any(|lookup| self.map.code(*lookup).is_none()) && self.dumps.is_empty()
    }

    /// Searches the process's mappings for dumps.
    fn find_dumps(&mut self) {
        if self.dumps.len() >= MAX_DUMPS {
            return;
        }
        let Ok(maps) = File::open(format!("/proc/{}/maps", self.pid)) else {
            return;
        };
        let known: FxHashSet<String> = self.dumps.iter().map(|it| it.path.clone()).collect();
        for line in BufReader::new(maps.take(MAX_MAPS_BYTES)).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line);
            let Some(path) = line.find('/').map(|at| &line[at..]) else {
                continue;
            };
            if !JitDump::is_marker(path) || known.contains(path) {
                continue;
            }
            if let Ok(dump) = JitDump::open(&rooted(self.pid, path))
                && self.dumps.len() < MAX_DUMPS
            {
                self.dumps.push(Dump {
                    path: path.to_owned(),
                    dump,
                    has_grown: true,
                });
            }
        }
    }

    /// Records with the new names of requested addresses. `is_last`: the process has
    /// ended, so the dumps are complete.
    pub(super) fn records(&mut self, sources: &Sources<'_>, is_last: bool) -> Vec<JitSymbols> {
        let unnamed = std::mem::take(&mut self.unnamed);
        let changes = std::mem::take(&mut self.changes);
        let has_grown = self.dumps.iter().any(|dump| dump.has_grown);
        let mut lookups: FxHashSet<u64> = unnamed.iter().copied().collect();
        if has_grown || is_last {
            lookups.extend(self.requested.keys());
        } else {
            for range in changes {
                lookups.extend(self.requested.range(range).map(|(lookup, _)| *lookup));
            }
        }
        let mut records = RecordBuilder::new(self.image);
        for lookup in lookups {
            self.name_by_dumps(lookup, sources, &mut records);
            // A dump contains more than a map, but may lag behind it: programs write it
            // in large pieces.
            if self.dumps.is_empty() || is_last {
                self.name_by_map(lookup, sources, &mut records);
            }
        }
        for dump in &mut self.dumps {
            dump.has_grown = false;
        }
        records.build()
    }

    fn name_by_dumps(&mut self, lookup: u64, sources: &Sources<'_>, records: &mut RecordBuilder) {
        let Some(requested) = self.requested.get_mut(&lookup) else {
            return;
        };
        let tick = |clock, time| match clock {
            JitClock::Monotonic => sources.clock.tick(time),
            JitClock::TimeStampCounter => time,
        };
        let own = self.dumps.iter().enumerate();
        let inherited = sources.parent.iter().flat_map(|it| it.dumps.iter());
        let inherited = inherited.enumerate().map(|(at, it)| (at + MAX_DUMPS, it));
        for (source, Dump { dump, .. }) in own.chain(inherited) {
            let history = dump.history(lookup);
            for requested in requested.iter_mut() {
                let sent = requested.sent_from_dumps[source];
                for (time, code) in history.iter().skip(sent as usize) {
                    records.add(tick(dump.clock(), *time), requested, code);
                }
                requested.sent_from_dumps[source] = sent.max(history.len() as u32);
            }
        }
    }

    fn name_by_map(&mut self, lookup: u64, sources: &Sources<'_>, records: &mut RecordBuilder) {
        let Some(requested) = self.requested.get_mut(&lookup) else {
            return;
        };
        let own = self.map.code(lookup);
        let inherited = || sources.parent.and_then(|parent| parent.map.code(lookup));
        let Some(code) = own.or_else(inherited) else {
            return;
        };
        let nameless =
            |requested: &&mut Requested| requested.sent_from_dumps.iter().all(|sent| *sent == 0);
        for requested in requested.iter_mut().filter(nameless) {
            let is_same = |sent: &(u64, _)| sent == &(code.start, code.name.clone());
            if requested.sent.as_ref().is_some_and(is_same) {
                continue;
            }
            // The first name is valid from the beginning (tick 0): nothing shows that
            // the address had another one before.
            let tick = requested.sent.as_ref().map_or(0, |_| self.changed_at);
            requested.sent = Some((code.start, code.name.clone()));
            records.add(tick, requested, &code);
        }
    }
}

/// Collects names by the tick from which on they are valid; each tick becomes a record.
struct RecordBuilder {
    image: ImageId,
    by_tick: BTreeMap<u64, (Vec<Location>, FrameTable)>,
}

impl RecordBuilder {
    fn new(image: ImageId) -> Self {
        Self {
            image,
            by_tick: BTreeMap::new(),
        }
    }

    fn add(&mut self, tick: u64, requested: &Requested, code: &JitCode) {
        let (locations, frames) = self.by_tick.entry(tick).or_default();
        let address = (requested.address, requested.exact);
        locations.push(frames.location(address, &[code.frame(requested.address)]));
    }

    fn build(self) -> Vec<JitSymbols> {
        let image = self.image;
        let record = |(tick, (mut locations, frames)): (u64, (Vec<Location>, FrameTable))| {
            locations.sort_unstable_by_key(|it| it.address);
            JitSymbols {
                image,
                tick,
                frames: frames.into_frames(),
                locations,
            }
        };
        self.by_tick.into_iter().map(record).collect()
    }
}
