//! Symbol records of the trace: each frame is stored once per record, and locations
//! refer to it by index.

use allotrope_trace::model::{Location, MissingNames, ModuleId, NamedFrame, Symbols};
use rustc_hash::FxHashMap;

use crate::symbolize::source_files::SourceFiles;

/// An address in a module's file, and whether it is exact: then it is looked up as it
/// is. Otherwise it is a return address, and the byte before it is looked up.
pub type FileAddress = (u64, bool);

/// Largest number of locations of one record.
const LOCATIONS_PER_RECORD: usize = 16 << 10;
/// Bytes of names after which a record is full.
const BYTES_PER_RECORD: usize = 4 << 20;

/// The frames of one record: an interning table, in the order of first use.
#[derive(Debug, Default)]
pub struct FrameTable {
    sources: SourceFiles,
    indexes: FxHashMap<NamedFrame, u32>,
    frames: Vec<NamedFrame>,
    /// Bytes of the strings in `frames`.
    bytes: usize,
}

impl FrameTable {
    /// The location record for an address with these frames, innermost first.
    pub fn location(&mut self, (address, exact): FileAddress, frames: &[NamedFrame]) -> Location {
        let frames = frames.iter().map(|frame| self.index_of(frame));
        Location {
            address,
            exact,
            frames: frames.collect(),
        }
    }

    /// The frames that the indexes refer to.
    pub fn into_frames(self) -> Vec<NamedFrame> {
        self.frames
    }

    fn index_of(&mut self, frame: &NamedFrame) -> u32 {
        if let Some(index) = self.indexes.get(frame) {
            return *index;
        }
        let index = self.frames.len() as u32;
        self.bytes += frame.function.len() + frame.signature.len() + frame.file.len();
        let generated = frame.generated || self.sources.is_generated(frame);
        self.frames.push(NamedFrame {
            generated,
            ..frame.clone()
        });
        self.indexes.insert(frame.clone(), index);
        index
    }
}

/// Builds the symbol records of one module.
#[derive(Debug)]
pub struct SymbolsBuilder {
    module: ModuleId,
    unoptimised: Option<bool>,
    compilers: Vec<String>,
    missing: Option<MissingNames>,
    sources: Vec<(String, [u8; 16])>,
    table: FrameTable,
    locations: Vec<Location>,
}

impl SymbolsBuilder {
    /// An empty record. `unoptimised`: whether the module was compiled without
    /// optimisation, if that is known. `compilers`: those that made it.
    pub fn new(module: ModuleId, unoptimised: Option<bool>, compilers: Vec<String>) -> Self {
        Self {
            module,
            unoptimised,
            compilers,
            missing: None,
            sources: Vec::new(),
            table: FrameTable::default(),
            locations: Vec::new(),
        }
    }

    /// Sets why addresses have no names.
    pub fn set_missing(&mut self, reason: Option<MissingNames>) {
        self.missing = reason;
    }

    /// Sets the MD5 sums of source files.
    pub fn set_sources(&mut self, sources: Vec<(String, [u8; 16])>) {
        self.sources = sources;
    }

    /// Adds the frames of an address; an address without frames is left out.
    pub fn add(&mut self, address: FileAddress, frames: &[NamedFrame]) {
        if !frames.is_empty() {
            self.locations.push(self.table.location(address, frames));
        }
    }

    /// Whether the record is large enough to be written.
    pub fn is_full(&self) -> bool {
        self.locations.len() >= LOCATIONS_PER_RECORD || self.table.bytes >= BYTES_PER_RECORD
    }

    /// Returns the record so far and begins an empty one for the same module.
    pub fn take(&mut self) -> Symbols {
        // The module's first record has the compilers.
        let mut next = Self::new(self.module, self.unoptimised, Vec::new());
        next.table.sources = std::mem::take(&mut self.table.sources);
        next.missing = self.missing;
        let full = std::mem::replace(self, next);
        Symbols {
            module: full.module,
            unoptimised: full.unoptimised,
            compilers: full.compilers,
            missing: full.missing,
            sources: full.sources,
            frames: full.table.into_frames(),
            locations: full.locations,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn frames(names: &[&str]) -> Vec<NamedFrame> {
        let frame = |name: &&str| NamedFrame {
            function: Arc::from(*name),
            ..NamedFrame::default()
        };
        names.iter().map(frame).collect()
    }

    #[test]
    fn locations_of_a_record_share_frames_and_records_do_not() {
        let mut record = SymbolsBuilder::new(3, Some(true), vec!["GCC: 12".to_owned()]);
        record.add((1, false), &frames(&["inner", "outer"]));
        record.add((2, true), &frames(&["outer"]));
        record.add((3, false), &[]);
        let symbols = record.take();
        assert_eq!((symbols.module, symbols.unoptimised), (3, Some(true)));
        assert_eq!(symbols.compilers, ["GCC: 12"]);
        let locations: Vec<_> = symbols.locations.iter().map(|it| &it.frames[..]).collect();
        assert_eq!(locations, [&[0, 1][..], &[1]]);
        assert_eq!(&*symbols.frames[1].function, "outer");
        record.add((4, false), &frames(&["outer"]));
        let symbols = record.take();
        assert_eq!((symbols.frames.len(), symbols.module), (1, 3));
    }
}
