//! Frames as the trace stores them: each once a record, referred to by index.
//! This is the only place where frames of `allotrope-symbols` and of the trace are
//! converted into each other.

use allotrope_symbols::Frame;
use allotrope_trace::model::{self, Location, ModuleId, Symbols};
use rustc_hash::FxHashMap;

/// An address in a module's file, and whether it is looked up as it is (else it
/// is a return address, and the byte before it is looked up).
pub type FileAddress = (u64, bool);

/// Locations of one record.
const LOCATIONS_PER_RECORD: usize = 16 << 10;
/// Bytes of names in one record, roughly; a frame beyond begins a new one.
const BYTES_PER_RECORD: usize = 4 << 20;

/// The frames of one record, without duplicates, in the order of their first use.
#[derive(Debug, Default)]
pub struct FrameTable {
    indexes: FxHashMap<Frame, u32>,
    frames: Vec<model::Frame>,
    /// Bytes of the strings in `frames`.
    bytes: usize,
}

impl FrameTable {
    /// The location that gives `frames`, innermost first, to an address.
    pub fn location(&mut self, (address, exact): FileAddress, frames: &[Frame]) -> Location {
        let frames = frames.iter().map(|frame| self.index_of(frame));
        Location {
            address,
            exact,
            frames: frames.collect(),
        }
    }

    /// The frames that the indexes refer to.
    pub fn into_frames(self) -> Vec<model::Frame> {
        self.frames
    }

    fn index_of(&mut self, frame: &Frame) -> u32 {
        if let Some(index) = self.indexes.get(frame) {
            return *index;
        }
        let index = self.frames.len() as u32;
        self.bytes += frame.function.len() + frame.signature.len() + frame.file.len();
        self.frames.push(to_trace(frame));
        self.indexes.insert(frame.clone(), index);
        index
    }
}

fn to_trace(frame: &Frame) -> model::Frame {
    model::Frame {
        function: frame.function.to_string(),
        signature: frame.signature.to_string(),
        file: frame.file.to_string(),
        line: frame.line,
        column: frame.column,
        offset: frame.offset,
        inlined: frame.inlined,
    }
}

pub(crate) fn from_trace(frame: &model::Frame) -> Frame {
    Frame {
        function: frame.function.as_str().into(),
        signature: frame.signature.as_str().into(),
        file: frame.file.as_str().into(),
        line: frame.line,
        column: frame.column,
        offset: frame.offset,
        inlined: frame.inlined,
    }
}

/// Builds the symbol records of one module.
#[derive(Debug)]
pub struct SymbolsBuilder {
    module: ModuleId,
    unoptimised: Option<bool>,
    table: FrameTable,
    locations: Vec<Location>,
}

impl SymbolsBuilder {
    /// An empty record. `unoptimised`: whether the module was compiled without
    /// optimisation, if that is known.
    pub fn new(module: ModuleId, unoptimised: Option<bool>) -> Self {
        Self {
            module,
            unoptimised,
            table: FrameTable::default(),
            locations: Vec::new(),
        }
    }

    /// Adds the frames of an address; an address without frames is left out.
    pub fn add(&mut self, address: FileAddress, frames: &[Frame]) {
        if !frames.is_empty() {
            self.locations.push(self.table.location(address, frames));
        }
    }

    /// Whether the record is large enough to be written.
    pub fn is_full(&self) -> bool {
        self.locations.len() >= LOCATIONS_PER_RECORD || self.table.bytes >= BYTES_PER_RECORD
    }

    /// The record so far; an empty one for the same module takes its place.
    pub fn take(&mut self) -> Symbols {
        let next = Self::new(self.module, self.unoptimised);
        let full = std::mem::replace(self, next);
        Symbols {
            module: full.module,
            unoptimised: full.unoptimised,
            frames: full.table.into_frames(),
            locations: full.locations,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn frames(names: &[&str]) -> Vec<Frame> {
        let frame = |name: &&str| Frame {
            function: Arc::from(*name),
            ..Frame::default()
        };
        names.iter().map(frame).collect()
    }

    #[test]
    fn frames_are_shared_between_locations_and_start_anew_with_each_record() {
        let mut record = SymbolsBuilder::new(3, Some(true));
        record.add((1, false), &frames(&["inner", "outer"]));
        record.add((2, true), &frames(&["outer"]));
        record.add((3, false), &[]);
        let symbols = record.take();
        assert_eq!((symbols.module, symbols.unoptimised), (3, Some(true)));
        let locations: Vec<_> = symbols.locations.iter().map(|it| &it.frames[..]).collect();
        assert_eq!(locations, [&[0, 1][..], &[1]]);
        assert_eq!(symbols.frames[1].function, "outer");
        record.add((4, false), &frames(&["outer"]));
        let symbols = record.take();
        assert_eq!((symbols.frames.len(), symbols.module), (1, 3));
    }

    #[test]
    fn frames_survive_the_way_there_and_back() {
        let frame = Frame {
            function: "f".into(),
            signature: "f()".into(),
            file: "f.c".into(),
            line: 1,
            column: 2,
            offset: 3,
            inlined: true,
        };
        assert_eq!(from_trace(&to_trace(&frame)), frame);
    }
}
