//! Gives the addresses of a recording their names, module after module, so
//! that only one module's symbols are in memory at a time.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use allotrope_symbols::{Locator, ModuleSymbols, Resolved, Work};
use allotrope_trace::model::{Frame, Location, Record, Symbols};
use rustc_hash::FxHashMap;

use crate::launcher::{Launcher, Teller};
use crate::modules::{FileAddress, KnownModule};
use crate::protocol::{Part, ToLauncher};
use crate::trace_file::TraceFile;

/// How often a large module's progress is told.
const PROGRESS_EACH: Duration = Duration::from_millis(100);
/// Locations of one record.
const LOCATIONS_PER_RECORD: usize = 16 << 10;
/// Bytes of names of one record, roughly; a frame beyond begins a new one.
const BYTES_PER_RECORD: usize = 4 << 20;

/// Writes names for every address that stacks refer to. A module without
/// symbols stays without.
pub(crate) fn symbolise(
    modules: Vec<KnownModule>,
    locator: &Locator,
    trace: &mut TraceFile,
    launcher: &Launcher,
) {
    let wanted = modules.iter().filter(|it| !it.addresses.is_empty());
    let total = wanted.count() as u32;
    // Progress that is not read is not missed.
    let tell = move |teller: &Teller, done, part| {
        teller.tell(ToLauncher::Symbolising { done, total, part });
    };
    let mut done = 0;
    for known in modules {
        if known.addresses.is_empty() {
            continue;
        }
        tell(&launcher.teller(), done, None);
        let (teller, last) = (launcher.teller(), Mutex::new(Instant::now()));
        let locator = locator.clone().with_progress(move |work, part, parts| {
            // It comes with every unit of debug information.
            let Ok(mut last) = last.lock() else { return };
            if last.elapsed() >= PROGRESS_EACH {
                *last = Instant::now();
                let part = Part {
                    fetching: work == Work::Fetching,
                    done: part,
                    total: parts,
                };
                tell(&teller, done, Some(part));
            }
        });
        symbolise_module(known, &locator, trace);
        done += 1;
    }
    tell(&launcher.teller(), done, None);
}

fn symbolise_module(known: KnownModule, locator: &Locator, trace: &mut TraceFile) {
    let mut addresses: Vec<FileAddress> = known.addresses.into_iter().collect();
    addresses.sort_unstable();
    let module = known.module;
    let path = &module.path;
    let Ok(symbols) = ModuleSymbols::load(locator, path, &module.build_id, known.file) else {
        return;
    };
    let unoptimised = symbols.unoptimised();
    let mut record = RecordBuilder::new(module.module, unoptimised);
    for (address, resolved) in addresses.iter().zip(symbols.resolve(&addresses)) {
        if record.is_full() {
            trace.write(&Record::Symbols(record.take()));
        }
        record.add(*address, &resolved);
    }
    trace.write(&Record::Symbols(record.take()));
    trace.flush();
}

/// Two frames are the same if all that is shown of them is.
type FrameKey = (Arc<str>, Arc<str>, Arc<str>, u32, u32, u64, bool);

struct RecordBuilder {
    symbols: Symbols,
    indexes: FxHashMap<FrameKey, u32>,
    bytes: usize,
}

impl RecordBuilder {
    fn new(module: u32, unoptimised: Option<bool>) -> Self {
        Self {
            symbols: Symbols {
                module,
                unoptimised,
                ..Symbols::default()
            },
            indexes: FxHashMap::default(),
            bytes: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.symbols.locations.len() >= LOCATIONS_PER_RECORD || self.bytes >= BYTES_PER_RECORD
    }

    /// The record so far; another one begins.
    fn take(&mut self) -> Symbols {
        let next = Self::new(self.symbols.module, self.symbols.unoptimised);
        std::mem::replace(self, next).symbols
    }

    fn add(&mut self, (address, exact): FileAddress, resolved: &Resolved) {
        if resolved.frames.is_empty() {
            return;
        }
        let frames = resolved.frames.iter().map(|frame| self.frame(frame));
        let frames = frames.collect();
        self.symbols.locations.push(Location {
            address,
            exact,
            frames,
        });
    }

    fn frame(&mut self, frame: &allotrope_symbols::Frame) -> u32 {
        let key = (
            Arc::clone(&frame.function),
            Arc::clone(&frame.signature),
            Arc::clone(&frame.file),
            frame.line,
            frame.column,
            frame.offset,
            frame.inlined,
        );
        if let Some(index) = self.indexes.get(&key) {
            return *index;
        }
        let index = self.symbols.frames.len() as u32;
        self.bytes += frame.function.len() + frame.signature.len() + frame.file.len();
        self.symbols.frames.push(Frame {
            function: frame.function.to_string(),
            signature: frame.signature.to_string(),
            file: frame.file.to_string(),
            line: frame.line,
            column: frame.column,
            offset: frame.offset,
            inlined: frame.inlined,
        });
        self.indexes.insert(key, index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(names: &[&str]) -> Resolved {
        let frame = |name: &&str| allotrope_symbols::Frame {
            function: Arc::from(*name),
            ..Default::default()
        };
        Resolved {
            frames: names.iter().map(frame).collect(),
        }
    }

    #[test]
    fn frames_are_shared_between_locations_and_start_anew_with_each_record() {
        let mut record = RecordBuilder::new(3, Some(true));
        record.add((1, false), &resolved(&["inner", "outer"]));
        record.add((2, true), &resolved(&["outer"]));
        record.add((3, false), &resolved(&[]));
        let symbols = record.take();
        assert_eq!((symbols.module, symbols.unoptimised), (3, Some(true)));
        let locations: Vec<_> = symbols.locations.iter().map(|it| &it.frames[..]).collect();
        assert_eq!(locations, [&[0, 1][..], &[1]]);
        assert_eq!(symbols.frames[1].function, "outer");
        record.add((4, false), &resolved(&["outer"]));
        let symbols = record.take();
        assert_eq!((symbols.frames.len(), symbols.module), (1, 3));
    }
}
