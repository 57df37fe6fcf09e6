//! The code that one process makes: which of its addresses are asked for, what
//! is known of them, what was told.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::time::SystemTime;

use allotrope_symbolize::FrameTable;
use allotrope_symbols::{JitClock, JitDump, PerfMap, RuntimeCode};
use allotrope_trace::model::{ImageId, Location, RuntimeSymbols};
use rustc_hash::FxHashSet;

use super::Begin;
use crate::clock::Conversion;
use crate::process::rooted;

/// Addresses of a process that are asked for.
const MOST_ADDRESSES: usize = 1 << 20;
/// Dumps of a process: one for each runtime in it.
const MOST_DUMPS: usize = 4;
/// How often the process's mappings are searched for new dumps, in looks.
const LOOKS_BETWEEN_SEARCHES: u32 = 50;
/// Bytes of a process's list of mappings that are read.
const MOST_MAPS_BYTES: u64 = 16 << 20;

/// What answers depend on beside the process itself.
pub(super) struct Sources<'a> {
    pub(super) clock: &'a Conversion,
    pub(super) parent: Option<&'a Process>,
}

/// One process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) image: ImageId,
    pid: u32,
    parent: Option<ImageId>,
    is_living: bool,
    map: PerfMap,
    dumps: Vec<Dump>,
    looks: u32,
    /// What is asked for, by the byte that is looked up.
    asked: BTreeMap<u64, Vec<Asked>>,
    asked_count: usize,
    fresh: Vec<u64>,
    /// Ranges of the map that changed since the last answers.
    changes: Vec<Range<u64>>,
    /// The map changed after this tick (its own last look), at the latest when
    /// it was written last.
    changed_at: u64,
    last_look: u64,
}

#[derive(Debug)]
struct Dump {
    path: String,
    dump: JitDump,
    has_grown: bool,
}

/// An address as it stands in stacks, and what was told of it.
#[derive(Debug)]
struct Asked {
    address: u64,
    exact: bool,
    /// The start and name of the code that a map told last.
    told: Option<(u64, std::sync::Arc<str>)>,
    /// Pieces of code of each dump that were told: its own, then the parent's.
    told_of_dumps: [u32; 2 * MOST_DUMPS],
}

impl Process {
    pub(super) fn new(begin: &Begin, since: SystemTime) -> Self {
        let mut process = Self::parent(begin.image, begin.pid);
        process.map = PerfMap::of_process(begin.pid).written_since(since);
        process.parent = begin.parent.map(|(image, _)| image);
        // Its end is told, and may still be to come.
        process.is_living = true;
        process
    }

    /// One that is known only as another's parent; its end may have been
    /// before anybody asked.
    pub(super) fn parent(image: ImageId, pid: u32) -> Self {
        Self {
            image,
            pid,
            parent: None,
            is_living: std::path::Path::new(&format!("/proc/{pid}")).exists(),
            map: PerfMap::of_process(pid),
            dumps: Vec::new(),
            looks: 0,
            asked: BTreeMap::new(),
            asked_count: 0,
            fresh: Vec::new(),
            changes: Vec::new(),
            changed_at: 0,
            last_look: 0,
        }
    }

    pub(super) fn is_living(&self) -> bool {
        self.is_living
    }

    pub(super) fn was_asked(&self) -> bool {
        self.asked_count > 0
    }

    pub(super) fn parent_image(&self) -> Option<ImageId> {
        self.parent
    }

    /// Nothing of it changes any more.
    pub(super) fn end(&mut self) {
        self.is_living = false;
        self.asked = BTreeMap::new();
    }

    /// Pieces of code that are known.
    pub(super) fn pieces(&self) -> usize {
        let dumps = self.dumps.iter().map(|dump| dump.dump.len());
        self.map.len() + dumps.sum::<usize>()
    }

    /// A stack holds this address.
    pub(super) fn ask(&mut self, address: u64, exact: bool) {
        let lookup = address.wrapping_sub(u64::from(!exact));
        let asked = self.asked.entry(lookup).or_default();
        if self.asked_count >= MOST_ADDRESSES || asked.iter().any(|it| it.exact == exact) {
            return;
        }
        self.asked_count += 1;
        self.fresh.push(lookup);
        asked.push(Asked {
            address,
            exact,
            told: None,
            told_of_dumps: [0; 2 * MOST_DUMPS],
        });
    }

    /// Reads what the process has written since the last time.
    pub(super) fn refresh(&mut self, clock: &Conversion) {
        let before = self.last_look;
        self.last_look = Conversion::now();
        // What can not be read names nothing.
        let _ = self.map.refresh();
        self.changes.extend(self.map.take_changes());
        let written = self.map.written().map_or(0, |time| clock.tick_of(time));
        self.changed_at = written.clamp(before, self.last_look);
        if self.looks.is_multiple_of(LOOKS_BETWEEN_SEARCHES) || self.has_nameless() {
            self.find_dumps();
        }
        self.looks = self.looks.wrapping_add(1);
        for dump in &mut self.dumps {
            let known = dump.dump.len();
            let _ = dump.dump.refresh();
            dump.has_grown |= dump.dump.len() > known;
        }
    }

    /// A new address has no name in what is known.
    fn has_nameless(&self) -> bool {
        let mut fresh = self.fresh.iter();
        fresh.any(|lookup| self.map.code(*lookup).is_none()) && self.dumps.is_empty()
    }

    /// Looks for the marks of dumps among the process's mappings.
    fn find_dumps(&mut self) {
        if self.dumps.len() >= MOST_DUMPS {
            return;
        }
        let Ok(maps) = File::open(format!("/proc/{}/maps", self.pid)) else {
            return;
        };
        let known: FxHashSet<String> = self.dumps.iter().map(|it| it.path.clone()).collect();
        for line in BufReader::new(maps.take(MOST_MAPS_BYTES)).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line);
            let Some(path) = line.find('/').map(|at| &line[at..]) else {
                continue;
            };
            if !JitDump::is_marker(path) || known.contains(path) {
                continue;
            }
            if let Ok(dump) = JitDump::open(&rooted(self.pid, path))
                && self.dumps.len() < MOST_DUMPS
            {
                self.dumps.push(Dump {
                    path: path.to_owned(),
                    dump,
                    has_grown: true,
                });
            }
        }
    }

    /// What is new of what is asked for.
    pub(super) fn answers(&mut self, sources: &Sources<'_>, is_last: bool) -> Vec<RuntimeSymbols> {
        let fresh = std::mem::take(&mut self.fresh);
        let changes = std::mem::take(&mut self.changes);
        let has_grown = self.dumps.iter().any(|dump| dump.has_grown);
        let mut lookups: FxHashSet<u64> = fresh.iter().copied().collect();
        if has_grown || is_last {
            lookups.extend(self.asked.keys());
        } else {
            for range in changes {
                lookups.extend(self.asked.range(range).map(|(lookup, _)| *lookup));
            }
        }
        let mut answers = Answers::new(self.image);
        for lookup in lookups {
            self.answer_by_dumps(lookup, sources, &mut answers);
            // A dump says more than a map, but may say it later: programs write
            // it in large pieces.
            if self.dumps.is_empty() || is_last {
                self.answer_by_map(lookup, sources, &mut answers);
            }
        }
        for dump in &mut self.dumps {
            dump.has_grown = false;
        }
        answers.records()
    }

    fn answer_by_dumps(&mut self, lookup: u64, sources: &Sources<'_>, answers: &mut Answers) {
        let Some(asked) = self.asked.get_mut(&lookup) else {
            return;
        };
        let tick = |clock, time| match clock {
            JitClock::Monotonic => sources.clock.tick(time),
            JitClock::TimeStampCounter => time,
        };
        let own = self.dumps.iter().enumerate();
        let inherited = sources.parent.iter().flat_map(|it| it.dumps.iter());
        let inherited = inherited.enumerate().map(|(at, it)| (at + MOST_DUMPS, it));
        for (source, Dump { dump, .. }) in own.chain(inherited) {
            let history = dump.history(lookup);
            for asked in asked.iter_mut() {
                let told = asked.told_of_dumps[source];
                for (time, code) in history.iter().skip(told as usize) {
                    answers.add(tick(dump.clock(), *time), asked, code);
                }
                asked.told_of_dumps[source] = told.max(history.len() as u32);
            }
        }
    }

    fn answer_by_map(&mut self, lookup: u64, sources: &Sources<'_>, answers: &mut Answers) {
        let Some(asked) = self.asked.get_mut(&lookup) else {
            return;
        };
        let own = self.map.code(lookup);
        let inherited = || sources.parent.and_then(|parent| parent.map.code(lookup));
        let Some(code) = own.or_else(inherited) else {
            return;
        };
        let nameless = |asked: &&mut Asked| asked.told_of_dumps.iter().all(|told| *told == 0);
        for asked in asked.iter_mut().filter(nameless) {
            let is_same = |told: &(u64, _)| told == &(code.start, code.name.clone());
            if asked.told.as_ref().is_some_and(is_same) {
                continue;
            }
            // The first name an address has had from the beginning, as far as
            // one can know.
            let tick = asked.told.as_ref().map_or(0, |_| self.changed_at);
            asked.told = Some((code.start, code.name.clone()));
            answers.add(tick, asked, &code);
        }
    }
}

/// Answers by the time from which on they hold.
struct Answers {
    image: ImageId,
    by_tick: BTreeMap<u64, (Vec<Location>, FrameTable)>,
}

impl Answers {
    fn new(image: ImageId) -> Self {
        Self {
            image,
            by_tick: BTreeMap::new(),
        }
    }

    fn add(&mut self, tick: u64, asked: &Asked, code: &RuntimeCode) {
        let (locations, frames) = self.by_tick.entry(tick).or_default();
        let address = (asked.address, asked.exact);
        locations.push(frames.location(address, &[code.frame(asked.address)]));
    }

    fn records(self) -> Vec<RuntimeSymbols> {
        let image = self.image;
        let record = |(tick, (mut locations, frames)): (u64, (Vec<Location>, FrameTable))| {
            locations.sort_unstable_by_key(|it| it.address);
            RuntimeSymbols {
                image,
                tick,
                frames: frames.into_frames(),
                locations,
            }
        };
        self.by_tick.into_iter().map(record).collect()
    }
}
