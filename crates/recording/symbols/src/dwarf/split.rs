//! Split DWARF: units whose functions are in `.dwo` files or in a `.dwp` file
//! (DWARF 5, 7.3.2, and GCC's extension to DWARF 4). Such a file is opened when
//! an address of its unit is resolved, and then closed, because a large program has
//! thousands of them.

use std::cell::OnceCell;
use std::path::PathBuf;

use gimli::{
    DebugAbbrev, DebugAddr, DebugAddrBase, DebugCuIndex, DebugInfo, DebugRanges, DebugRngLists,
    DebugRngListsBase, DebugStr, DebugStrOffsets, DwarfSections, DwoId, EndianSlice,
    IndexSectionId, LittleEndian, RangeLists, Section, SectionId,
};

use super::bytes::{Dwarf, UnitRef};
use super::is_needed;
use super::units::Units;
use crate::elf::ElfFile;
use crate::locator::Locator;

/// Finds the split parts of one module's units.
#[derive(Debug)]
pub(crate) struct SplitFiles {
    locator: Locator,
    build_id: Vec<u8>,
    /// The module and its debug file.
    files: Vec<PathBuf>,
    package: OnceCell<Option<Package>>,
}

/// Called with the unit that was found and the units of its file.
pub(super) trait WithUnit<T> {
    fn with<'x>(self, units: &Units<'_, 'x>, unit: UnitRef<'_, 'x>) -> T;
}

impl SplitFiles {
    pub(crate) fn new(locator: &Locator, build_id: &[u8], files: &[&ElfFile]) -> Self {
        Self {
            locator: locator.clone(),
            build_id: build_id.to_vec(),
            files: files.iter().map(|file| file.path().to_owned()).collect(),
            package: OnceCell::new(),
        }
    }

    /// Calls `then` with the split part of a skeleton unit, if it is found.
    pub(super) fn find<T>(&self, unit: UnitRef<'_, '_>, then: impl WithUnit<T>) -> Option<T> {
        let skeleton = Skeleton::of(unit)?;
        let package = self.package.get_or_init(|| self.load_package());
        if let Some(package) = package
            && let Some(dwarf) = skeleton.in_package(package)
        {
            return skeleton.complete(&dwarf, then);
        }
        let candidates = self
            .locator
            .dwo_files(skeleton.folder, skeleton.name, &self.files);
        let mut then = Some(then);
        Locator::first_of(&candidates, |file| {
            let sections = load(&file)?;
            let mut dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
            dwarf.make_dwo(&skeleton.parent());
            // A file without the unit must not consume `then`.
            skeleton.unit_in(&Units::new(&dwarf))?;
            skeleton.complete(&dwarf, then.take()?)
        })
    }

    /// Whether split parts are in a package, so that no file is opened for each unit.
    pub(super) fn is_packaged(&self) -> bool {
        let package = self.package.get_or_init(|| self.load_package());
        package.is_some()
    }

    fn load_package(&self) -> Option<Package> {
        let candidates = self.locator.package_files(&self.build_id, &self.files);
        Locator::first_of(&candidates, |file| Package::load(&file))
    }
}

/// The sections of a `.dwp` file with functions and their names, and the index. Each
/// section contains the contributions of many units, one after another; the index has
/// the range of each unit's contribution.
#[derive(Debug)]
struct Package {
    index: Vec<u8>,
    info: Vec<u8>,
    abbrev: Vec<u8>,
    str: Vec<u8>,
    str_offsets: Vec<u8>,
    rnglists: Vec<u8>,
}

impl Package {
    fn load(file: &ElfFile) -> Option<Self> {
        file.has_section(".debug_cu_index").then(|| Self {
            index: file.contents(".debug_cu_index"),
            info: file.contents(".debug_info.dwo"),
            abbrev: file.contents(".debug_abbrev.dwo"),
            str: file.contents(".debug_str.dwo"),
            str_offsets: file.contents(".debug_str_offsets.dwo"),
            rnglists: file.contents(".debug_rnglists.dwo"),
        })
    }
}

/// The attributes of a skeleton unit by which its split part is found, and the
/// sections of the skeleton's file that the split part refers to.
#[derive(Clone, Copy)]
struct Skeleton<'x> {
    id: DwoId,
    /// The folder the compiler worked in, and the split file's name in it.
    folder: &'x [u8],
    name: &'x [u8],
    low_pc: u64,
    addr_base: DebugAddrBase,
    rnglists_base: DebugRngListsBase,
    debug_addr: &'x [u8],
    debug_ranges: &'x [u8],
}

impl<'x> Skeleton<'x> {
    fn of(unit: UnitRef<'_, 'x>) -> Option<Self> {
        let name = unit.unit.dwo_name().ok()??;
        Some(Self {
            id: unit.dwo_id?,
            folder: unit.comp_dir.map_or(&b""[..], |folder| folder.slice()),
            name: unit.attr_string(name).ok()?.slice(),
            low_pc: unit.low_pc,
            addr_base: unit.addr_base,
            rnglists_base: unit.rnglists_base,
            debug_addr: unit.dwarf.debug_addr.reader().slice(),
            debug_ranges: unit.dwarf.ranges.debug_ranges().reader().slice(),
        })
    }

    /// The sections of the skeleton's file that the split part refers to.
    fn parent<'y>(&self) -> Dwarf<'y>
    where
        'x: 'y,
    {
        let debug_ranges = DebugRanges::new(self.debug_ranges, LittleEndian);
        Dwarf {
            debug_addr: DebugAddr::from(EndianSlice::new(self.debug_addr, LittleEndian)),
            ranges: RangeLists::new(debug_ranges, DebugRngLists::default()),
            ..Dwarf::default()
        }
    }

    /// The unit's contributions to a package. gimli's `find_cu` would also require those
    /// to sections that are not read here.
    fn in_package<'y>(&self, package: &'y Package) -> Option<Dwarf<'y>>
    where
        'x: 'y,
    {
        let index = DebugCuIndex::new(&package.index, LittleEndian)
            .index()
            .ok()?;
        let mut dwarf = Dwarf {
            debug_str: DebugStr::new(&package.str, LittleEndian),
            ..Dwarf::default()
        };
        let mut lists = DebugRngLists::default();
        for part in index.sections(index.find(self.id.0)?).ok()? {
            let of = |section: &'y Vec<u8>| -> Option<&'y [u8]> {
                let start = part.offset as usize;
                section.get(start..start.checked_add(part.size as usize)?)
            };
            match part.section {
                IndexSectionId::DebugInfo => {
                    dwarf.debug_info = DebugInfo::new(of(&package.info)?, LittleEndian);
                }
                IndexSectionId::DebugAbbrev => {
                    dwarf.debug_abbrev = DebugAbbrev::new(of(&package.abbrev)?, LittleEndian);
                }
                IndexSectionId::DebugStrOffsets => {
                    let bytes = EndianSlice::new(of(&package.str_offsets)?, LittleEndian);
                    dwarf.debug_str_offsets = DebugStrOffsets::from(bytes);
                }
                IndexSectionId::DebugRngLists => {
                    lists = DebugRngLists::new(of(&package.rnglists)?, LittleEndian);
                }
                _ => {}
            }
        }
        dwarf.ranges = RangeLists::new(DebugRanges::default(), lists);
        dwarf.make_dwo(&self.parent());
        Some(dwarf)
    }

    /// Index of the split part; type units may come before it.
    fn unit_in(&self, units: &Units<'_, '_>) -> Option<usize> {
        (0..units.len()).find(|index| {
            let unit = units.unit(*index);
            unit.is_some_and(|unit| unit.dwo_id == Some(self.id))
        })
    }

    /// Copies the skeleton's attributes to the split part and calls `then`. Like gimli's
    /// `copy_relocated_attributes`, which would require equal lifetimes of the two files.
    fn complete<'y, T>(&self, dwarf: &Dwarf<'y>, then: impl WithUnit<T>) -> Option<T> {
        let units = Units::new(dwarf);
        let index = self.unit_in(&units)?;
        units.amend(index, |unit| {
            unit.low_pc = self.low_pc;
            unit.addr_base = self.addr_base;
            if unit.header.version() < 5 {
                unit.rnglists_base = self.rnglists_base;
            }
        });
        let unit = units.unit(index)?;
        Some(then.with(&units, UnitRef::new(dwarf, &unit)))
    }
}

fn load(file: &ElfFile) -> Option<DwarfSections<Vec<u8>>> {
    if !file.has_section(".debug_info.dwo") {
        return None;
    }
    let load = |id: SectionId| Ok::<_, gimli::Error>(contents(file, id));
    DwarfSections::load(load).ok()
}

/// A section as split files name it.
fn contents(file: &ElfFile, id: SectionId) -> Vec<u8> {
    let name = id.dwo_name().filter(|_| is_needed(id));
    name.map_or_else(Vec::new, |name| file.contents(name))
}
