//! Function names, source positions and inlined calls of code addresses, from
//! DWARF, for many addresses in one pass.
//!
//! Built on `gimli` rather than `addr2line`, which caches every line and function
//! of each unit it reads (gigabytes for a large program), recurses as deep as the
//! file demands and lets a file repeat work without bound. The tests compare the
//! results of both.

mod budget;
mod bytes;
mod functions;
mod lines;
mod names;
mod producer;
mod ranges;
mod scopes;
pub(crate) mod segments;
mod shape;
mod split;
mod units;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use gimli::{AbbreviationsCacheStrategy, DwarfSections, EndianSlice, LittleEndian, SectionId};

use self::budget::Budget;
use self::bytes::{Dwarf, UnitRef};
use self::functions::{Function, Inlined};
use self::lines::Position;
use self::names::Names;
pub(crate) use self::names::{Name, Objects};
pub(crate) use self::split::SplitFiles;
use self::split::WithUnit;
use self::units::Units;
use crate::elf::ElfFile;
use crate::intervals::Intervals;
use crate::progress::{Progress, Work};
use crate::shared_strings::SharedStrings;

type Sections = DwarfSections<Vec<u8>>;

/// The DWARF of a module, and of the supplementary file it shares with others.
#[derive(Debug)]
pub(crate) struct DebugInformation {
    main: Sections,
    supplementary: Option<Sections>,
    split: SplitFiles,
    /// Bytes of all these sections.
    size: u64,
}

/// The information that DWARF has about an address.
#[derive(Debug, Clone)]
pub(crate) struct Location<'a> {
    /// Innermost first; all but the last are inlined into the next. The last
    /// is the function's own, without a name if only the line is known.
    pub(crate) frames: Vec<LocationFrame<'a>>,
    /// Start of the function, or of that part of it.
    pub(crate) start: Option<u64>,
}

/// One frame of a [`Location`]; zeros and empty text for what is unknown.
#[derive(Debug, Clone)]
pub(crate) struct LocationFrame<'a> {
    pub(crate) name: Option<Name<'a>>,
    pub(crate) file: Arc<str>,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl DebugInformation {
    /// Reads the sections needed here.
    pub(crate) fn load(file: &ElfFile, supplementary: Option<&ElfFile>, split: SplitFiles) -> Self {
        let mut size = 0;
        let main = load_sections(file, &mut size);
        let supplementary = supplementary.map(|file| load_sections(file, &mut size));
        Self {
            main,
            supplementary,
            split,
            size,
        }
    }

    /// The location of each of `addresses`, which are sorted.
    pub(crate) fn locate(
        &self,
        addresses: &[u64],
        strings: &mut SharedStrings,
        progress: &Progress,
    ) -> Vec<Option<Location<'_>>> {
        let dwarf = self.borrow();
        let units = Units::new(&dwarf);
        let supplementary = dwarf.sup().map(Units::new);
        let budget = Budget::for_bytes(self.size);
        let mut search = Search {
            units: &units,
            split: &self.split,
            names: Names::new(&units, supplementary.as_ref(), &budget),
            budget: &budget,
            strings,
            addresses,
            found: vec![None; addresses.len()],
        };
        search.run(progress);
        search.found
    }

    /// Bytes of all sections, expanded.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// See [`crate::ModuleSymbols::unoptimised`].
    pub(crate) fn unoptimised(&self) -> Option<bool> {
        let dwarf = self.borrow();
        producer::unoptimised(
            &Units::new(&dwarf),
            &self.split,
            &Budget::for_bytes(self.size),
        )
    }

    /// The compilers that `.comment` may lack; see [`crate::ModuleSymbols::compilers`].
    pub(crate) fn compilers(&self) -> BTreeSet<String> {
        let dwarf = self.borrow();
        producer::compilers(&Units::new(&dwarf), &Budget::for_bytes(self.size))
    }

    fn borrow(&self) -> Dwarf<'_> {
        let mut main = borrow_sections(&self.main);
        if let Some(supplementary) = &self.supplementary {
            main.set_sup(borrow_sections(supplementary));
        }
        main
    }
}

/// The compilers of a file's units that `.comment` may lack, and those with options; see
/// [`crate::Compilers`].
pub(crate) fn compilers_of(file: &ElfFile) -> [BTreeSet<String>; 2] {
    let mut size = 0;
    let sections = load_sections(file, &mut size);
    let dwarf = borrow_sections(&sections);
    let units = Units::new(&dwarf);
    let budget = Budget::for_bytes(size);
    [
        producer::compilers(&units, &budget),
        producer::with_options(&units, &budget),
    ]
}

fn borrow_sections(sections: &Sections) -> Dwarf<'_> {
    let mut dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    // Units written by dwz or link-time optimisation share their abbreviations.
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    dwarf
}

fn load_sections(file: &ElfFile, size: &mut u64) -> Sections {
    let mut load = |id: SectionId| {
        let bytes = match is_needed(id) {
            true => file.contents(id.name()),
            false => Vec::new(),
        };
        *size += bytes.len() as u64;
        Ok::<_, std::convert::Infallible>(bytes)
    };
    match Sections::load(&mut load) {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}

/// Variables, types and macros, half of a debug file, are not read.
fn is_needed(id: SectionId) -> bool {
    matches!(
        id,
        SectionId::DebugAbbrev
            | SectionId::DebugAddr
            | SectionId::DebugInfo
            | SectionId::DebugLine
            | SectionId::DebugLineStr
            | SectionId::DebugRanges
            | SectionId::DebugRngLists
            | SectionId::DebugStr
            | SectionId::DebugStrOffsets
    )
}

/// The search for many addresses in all units.
struct Search<'s, 'd, 'a> {
    units: &'d Units<'d, 'a>,
    split: &'s SplitFiles,
    names: Names<'d, 'a>,
    budget: &'s Budget,
    strings: &'s mut SharedStrings,
    addresses: &'s [u64],
    found: Vec<Option<Location<'a>>>,
}

impl<'a> Search<'_, '_, 'a> {
    fn run(&mut self, progress: &Progress) {
        let (ranges, without_ranges) = ranges_of_units(self.units, self.budget);
        let ranges = Intervals::new(ranges);
        let mut by_unit: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, address) in self.addresses.iter().enumerate() {
            for unit in ranges.containing(*address) {
                by_unit.entry(*unit).or_default().push(index);
            }
        }
        let total = by_unit.len() as u64;
        for (done, (unit, wanted)) in (0..).zip(by_unit) {
            progress.report(Work::Reading, done, total);
            let _ = self.search_unit(unit, &wanted);
        }
        // Some assemblers write no ranges for a unit.
        for unit in without_ranges {
            let missing = |index: &usize| self.found[*index].is_none();
            let wanted: Vec<usize> = (0..self.addresses.len()).filter(missing).collect();
            if wanted.is_empty() {
                break;
            }
            let _ = self.search_unit(unit, &wanted);
        }
    }

    /// Searches one unit for the addresses with these indexes.
    fn search_unit(&mut self, unit: usize, wanted: &[usize]) -> Option<()> {
        let unit = self.units.unit(unit)?;
        let unit = UnitRef::new(self.units.dwarf(), &unit);
        let addresses: Vec<u64> = wanted.iter().map(|index| self.addresses[*index]).collect();
        let in_split = self.split.find(
            unit,
            InSplitUnit {
                skeleton: unit,
                addresses: &addresses,
                budget: self.budget,
                strings: self.strings,
            },
        );
        let locations = in_split.unwrap_or_else(|| {
            let mut describe = Describe {
                lines: unit,
                functions: unit,
                names: &self.names,
                strings: self.strings,
            };
            describe.all(&addresses, self.budget)
        });
        for (index, location) in wanted.iter().zip(locations) {
            self.add(*index, location);
        }
        Some(())
    }

    /// Adds a location unless a better one is known: one with a function is better than
    /// one with only a line.
    fn add(&mut self, index: usize, location: Option<Location<'a>>) {
        let known = &mut self.found[index];
        let better = match (&known, &location) {
            (Some(known), Some(new)) => known.start.is_none() && new.start.is_some(),
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if better {
            *known = location;
        }
    }
}

/// The address ranges of each unit that has some, and the units without.
fn ranges_of_units(
    units: &Units<'_, '_>,
    budget: &Budget,
) -> (Vec<(Range<u64>, usize)>, Vec<usize>) {
    let mut ranges = Vec::new();
    let mut without_ranges = Vec::new();
    for index in 0..units.len() {
        match units.root(index, budget) {
            Some(root) if !root.is_compile_unit => {}
            Some(root) if root.ranges.is_empty() => without_ranges.push(index),
            Some(root) => ranges.extend(root.ranges.into_iter().map(|range| (range, index))),
            None => {}
        }
    }
    (ranges, without_ranges)
}

/// The search of a unit whose functions are in a split file.
struct InSplitUnit<'s, 'u, 'a> {
    skeleton: UnitRef<'u, 'a>,
    addresses: &'s [u64],
    budget: &'s Budget,
    strings: &'s mut SharedStrings,
}

impl WithUnit<Vec<Option<Location<'static>>>> for InSplitUnit<'_, '_, '_> {
    fn with<'x>(
        self,
        units: &Units<'_, 'x>,
        unit: UnitRef<'_, 'x>,
    ) -> Vec<Option<Location<'static>>> {
        let names = Names::new(units, None, self.budget);
        let mut describe = Describe {
            lines: self.skeleton,
            functions: unit,
            names: &names,
            strings: self.strings,
        };
        let locations = describe.all(self.addresses, self.budget).into_iter();
        locations.map(|it| Some(it?.into_owned())).collect()
    }
}

impl Location<'_> {
    fn into_owned(self) -> Location<'static> {
        let frames = self.frames.into_iter().map(|frame| LocationFrame {
            name: frame.name.map(Name::into_owned),
            ..frame
        });
        Location {
            frames: frames.collect(),
            start: self.start,
        }
    }
}

/// Builds locations from one unit. The line table and the functions are in two
/// units if the functions are in a split file.
struct Describe<'s, 'u, 'n, 'l, 'a> {
    lines: UnitRef<'u, 'l>,
    functions: UnitRef<'u, 'a>,
    names: &'s Names<'n, 'a>,
    strings: &'s mut SharedStrings,
}

impl<'a> Describe<'_, '_, '_, '_, 'a> {
    fn all(&mut self, addresses: &[u64], budget: &Budget) -> Vec<Option<Location<'a>>> {
        let positions = lines::positions(self.lines, addresses, budget);
        let functions = functions::functions(self.functions, budget);
        let mut locations = vec![None; addresses.len()];
        for (function, members) in by_function(&functions, addresses) {
            let inside: Vec<u64> = members.iter().map(|member| addresses[*member]).collect();
            let calls = function.map_or_else(Vec::new, |function| {
                functions::inlined_ranges(self.functions, function.entry, budget)
            });
            let chains = functions::chains_at(&calls, &inside);
            for (member, chain) in members.into_iter().zip(chains) {
                locations[member] = self.location(function, &chain, positions[member]);
            }
        }
        locations
    }

    fn location(
        &mut self,
        function: Option<Function>,
        chain: &[Inlined],
        position: Option<Position>,
    ) -> Option<Location<'a>> {
        if function.is_none() && position.is_none() {
            return None;
        }
        let mut frames = Vec::with_capacity(chain.len() + 1);
        let mut file = position.map(|position| position.file);
        let mut line = position.map_or(0, |position| position.line);
        let mut column = position.map_or(0, |position| position.column);
        for inlined in chain.iter().rev() {
            frames.push(LocationFrame {
                name: self.names.name(self.functions, inlined.entry),
                file: self.file(file),
                line,
                column,
            });
            // The caller's position is that of the call.
            (file, line, column) = (inlined.call_file, inlined.call_line, inlined.call_column);
        }
        frames.push(LocationFrame {
            name: function.and_then(|function| self.names.name(self.functions, function.entry)),
            file: self.file(file),
            line,
            column,
        });
        Some(Location {
            frames,
            start: function.map(|function| function.start),
        })
    }

    fn file(&mut self, index: Option<u64>) -> Arc<str> {
        let Some(index) = index else {
            return self.strings.share("");
        };
        let path = lines::file_path(self.lines, index).unwrap_or_default();
        match lines::file_md5(self.lines, index) {
            Some(md5) => self.strings.share_source(&path, md5),
            None => self.strings.share(&path),
        }
    }
}

/// The innermost function around each address, and the indexes of the
/// addresses in it.
fn by_function(
    functions: &Intervals<Function>,
    addresses: &[u64],
) -> BTreeMap<Option<Function>, Vec<usize>> {
    let mut members: BTreeMap<Option<Function>, Vec<usize>> = BTreeMap::new();
    for (index, address) in addresses.iter().enumerate() {
        let function = functions.containing(*address).next().copied();
        members.entry(function).or_default().push(index);
    }
    members
}
