//! The name of a function's entry, followed through declarations and abstract
//! instances, across units and into the supplementary file.

use std::cell::RefCell;

use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};
use rustc_hash::FxHashMap;

use super::units::{Slice, UnitRef, Units};

/// References from entry to entry that are followed; compilers make two.
const MAX_REFERENCES: usize = 16;

/// A function's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Name<'a> {
    pub(crate) text: &'a [u8],
    /// It is the name the linker knows, not the one in the source.
    pub(crate) is_linkage: bool,
}

/// Where an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    supplementary: bool,
    offset: usize,
}

/// Names by entry, each read once.
pub(super) struct Names<'d, 'a> {
    primary: &'d Units<'d, 'a>,
    supplementary: Option<&'d Units<'d, 'a>>,
    known: RefCell<FxHashMap<Place, Option<Name<'a>>>>,
}

impl<'d, 'a> Names<'d, 'a> {
    pub(super) fn new(
        primary: &'d Units<'d, 'a>,
        supplementary: Option<&'d Units<'d, 'a>>,
    ) -> Self {
        Self {
            primary,
            supplementary,
            known: RefCell::default(),
        }
    }

    /// The name of the entry at `offset` in `unit` of the primary file.
    pub(super) fn name(&self, unit: UnitRef<'_, 'a>, offset: UnitOffset) -> Option<Name<'a>> {
        let start = Place {
            supplementary: false,
            offset: offset.to_debug_info_offset(&unit.header)?.0,
        };
        if let Some(known) = self.known.borrow().get(&start) {
            return *known;
        }
        let name = self.follow(start);
        self.known.borrow_mut().insert(start, name);
        name
    }

    fn follow(&self, start: Place) -> Option<Name<'a>> {
        let mut place = start;
        let mut in_source = None;
        for _ in 0..MAX_REFERENCES {
            let entry = self.read(place);
            if let Some(text) = entry.linkage_name {
                return Some(Name {
                    text,
                    is_linkage: true,
                });
            }
            in_source = in_source.or(entry.name);
            match entry.origin {
                Some(origin) => place = origin,
                None => break,
            }
        }
        in_source.map(|text| Name {
            text,
            is_linkage: false,
        })
    }

    fn read(&self, place: Place) -> Entry<'a> {
        let mut entry = Entry::default();
        // A damaged entry has what stands before the damage.
        let _ = self.read_into(place, &mut entry);
        entry
    }

    fn read_into(&self, place: Place, entry: &mut Entry<'a>) -> Option<()> {
        let units = if place.supplementary {
            self.supplementary?
        } else {
            self.primary
        };
        let offset = DebugInfoOffset(place.offset);
        let unit = units.unit(units.holding(offset)?)?;
        let unit = UnitRef::new(units.dwarf(), &unit);
        let offset = offset.to_unit_offset(&unit.header)?;
        let mut entries = unit.entries_raw(Some(offset)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification).ok()?;
            let text = || Some(unit.attr_string(attribute.value()).ok()?.slice());
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    entry.linkage_name = text();
                }
                gimli::DW_AT_name => entry.name = text(),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    entry.origin = referred(unit, place, attribute.value());
                }
                _ => {}
            }
        }
        Some(())
    }
}

/// What an entry says of its name.
#[derive(Default)]
struct Entry<'a> {
    linkage_name: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    origin: Option<Place>,
}

fn referred<'a>(
    unit: UnitRef<'_, 'a>,
    from: Place,
    value: AttributeValue<Slice<'a>>,
) -> Option<Place> {
    let (supplementary, offset) = match value {
        AttributeValue::UnitRef(offset) => (
            from.supplementary,
            offset.to_debug_info_offset(&unit.header)?,
        ),
        AttributeValue::DebugInfoRef(offset) => (from.supplementary, offset),
        AttributeValue::DebugInfoRefSup(offset) => (true, offset),
        _ => return None,
    };
    Some(Place {
        supplementary,
        offset: offset.0,
    })
}
