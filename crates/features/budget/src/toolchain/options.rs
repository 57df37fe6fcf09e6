//! The options with which a module was compiled, as far as its file or its folder says:
//! gcc writes its options into the debug information (`DW_AT_producer`: `GNU C17 12.2.0
//! -mtune=generic -g -O2`), clang only with `-grecord-command-line`. rustc writes none;
//! there the folder of Cargo's profile says whether it optimises.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use allotrope_profile::Module;
use gimli::{AttributeValue, Dwarf, DwarfSections, EndianSlice, LittleEndian, SectionId};
use object::{Object, ObjectSection};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The compilers with options of the units of a module, sorted. Assemblers, which do not
/// optimise, are left out.
pub(super) fn of_units(file: &[u8]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let Ok(object) = object::File::parse(file) else {
        return all;
    };
    let load = |id: SectionId| -> Result<Cow<'_, [u8]>, gimli::Error> {
        let section = object.section_by_name(id.name());
        let data = section.and_then(|section| section.uncompressed_data().ok());
        Ok(data.unwrap_or_default())
    };
    let Ok(sections) = DwarfSections::load(load) else {
        return all;
    };
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    let mut units = dwarf.units();
    // Of damaged debug information, what is before the damage is used.
    while let Ok(Some(header)) = units.next() {
        let producer = producer(&dwarf, header);
        let text = producer.map(|producer| producer.to_string_lossy());
        let with_options =
            |text: &Cow<'_, str>| text.contains(" -") && !text.starts_with("GNU AS ");
        all.extend(text.filter(with_options).map(Cow::into_owned));
    }
    all
}

fn producer<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    header: gimli::UnitHeader<Slice<'a>>,
) -> Option<Slice<'a>> {
    let unit = dwarf.unit(header).ok()?;
    let mut entries = unit.entries_raw(None).ok()?;
    let abbreviation = entries.read_abbreviation().ok()??;
    let mut producer: Option<AttributeValue<Slice<'a>>> = None;
    for specification in abbreviation.attributes() {
        let attribute = entries.read_attribute(*specification).ok()?;
        if attribute.name() == gimli::DW_AT_producer {
            producer = Some(attribute.value());
        }
    }
    dwarf.attr_string(&unit, producer?).ok()
}

/// The folder of the Cargo profile in which a module is: `debug`, `release`, or one with
/// the name of another profile. Cargo puts a file `.cargo-lock` into these folders.
pub(super) fn cargo_profile(module: &Path) -> Option<&str> {
    // In it, in `deps` or `examples`, or in `build/PACKAGE`.
    let mut folders = module.ancestors().skip(1).take(3);
    let folder = folders.find(|folder| folder.join(".cargo-lock").is_file())?;
    folder.file_name()?.to_str()
}

/// Whether a module was compiled with optimisation; `None` if nothing says so. Cargo's
/// profiles may be changed; their usual settings are assumed.
pub(super) fn is_optimised(module: &Module) -> Option<bool> {
    let by_profile = || match cargo_profile(&module.path)? {
        "debug" => Some(false),
        "release" => Some(true),
        _ => None,
    };
    let by_options = module.unoptimised.map(|unoptimised| !unoptimised);
    by_options.or_else(by_profile)
}
