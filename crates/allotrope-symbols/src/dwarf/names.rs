//! The name of a function's entry, followed through declarations and abstract
//! instances, across units and into the supplementary file.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use allotrope_demangle::demangle;
use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};
use rustc_hash::FxHashMap;

use super::budget::Budget;
use super::scopes::{Scope, ScopeTable};
use super::units::{Slice, UnitRef, Units};

/// References from entry to entry that are followed; compilers make two.
const MAX_REFERENCES: usize = 16;

/// Functions around a function that are followed for its name.
const MAX_ENCLOSING: usize = 8;

/// A function's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Name<'a> {
    pub(crate) text: Cow<'a, [u8]>,
    /// It is the linkage name, not the one in the source.
    pub(crate) is_linkage: bool,
}

impl Name<'_> {
    /// The name, independent of what it was read from.
    pub(super) fn into_owned(self) -> Name<'static> {
        Name {
            text: Cow::Owned(self.text.into_owned()),
            is_linkage: self.is_linkage,
        }
    }
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
    budget: &'d Budget,
    known: RefCell<FxHashMap<Place, Option<Name<'a>>>>,
    /// By supplementary or not, and index of the unit.
    scopes: RefCell<FxHashMap<(bool, usize), Rc<ScopeTable>>>,
}

impl<'d, 'a> Names<'d, 'a> {
    pub(super) fn new(
        primary: &'d Units<'d, 'a>,
        supplementary: Option<&'d Units<'d, 'a>>,
        budget: &'d Budget,
    ) -> Self {
        Self {
            primary,
            supplementary,
            budget,
            known: RefCell::default(),
            scopes: RefCell::default(),
        }
    }

    /// The name of the entry at `offset` in `unit` of the primary file, which
    /// `unit` belongs to.
    pub(super) fn name(&self, unit: UnitRef<'_, 'a>, offset: UnitOffset) -> Option<Name<'a>> {
        let start = Place {
            supplementary: false,
            offset: offset.to_debug_info_offset(&unit.header)?.0,
        };
        if let Some(known) = self.known.borrow().get(&start) {
            return known.clone();
        }
        let name = self.follow(start, MAX_ENCLOSING);
        self.known.borrow_mut().insert(start, name.clone());
        name
    }

    fn follow(&self, start: Place, enclosing: usize) -> Option<Name<'a>> {
        let mut place = start;
        let mut in_source = None;
        for _ in 0..MAX_REFERENCES {
            let entry = self.read(place);
            if let Some(text) = entry.linkage_name {
                return Some(Name {
                    text: Cow::Borrowed(text),
                    is_linkage: true,
                });
            }
            // The reference leads to the declaration, which is in its scope.
            in_source = entry.name.map(|name| (name, place)).or(in_source);
            match entry.origin {
                Some(origin) => place = origin,
                None => break,
            }
        }
        let (name, place) = in_source?;
        let text = match self.scope(place, enclosing) {
            Some(scope) => Cow::Owned([scope.as_bytes(), b"::", name].concat()),
            None => Cow::Borrowed(name),
        };
        Some(Name {
            text,
            is_linkage: false,
        })
    }

    /// The scope of an entry without a linkage name, spelled as in one:
    /// compilers leave it out for what no other unit can name, such as the
    /// lambdas of functions that are not exported.
    fn scope(&self, place: Place, enclosing: usize) -> Option<String> {
        let enclosing = enclosing.checked_sub(1)?;
        let units = self.units(place)?;
        let offset = DebugInfoOffset(place.offset);
        let index = units.holding(offset)?;
        let unit = units.unit(index)?;
        let unit = UnitRef::new(units.dwarf(), &unit);
        let table = self.scope_table(unit, (place.supplementary, index));
        let scopes = table.around(unit, offset.to_unit_offset(&unit.header)?)?;
        let mut path: Vec<String> = Vec::new();
        for scope in scopes {
            match scope {
                Scope::Named(name) => path.push(name),
                Scope::Function(offset) => {
                    let place = Place {
                        offset: offset.to_debug_info_offset(&unit.header)?.0,
                        ..place
                    };
                    // It has the scopes around it in its own name.
                    path.clear();
                    let name = self.follow(place, enclosing)?;
                    let text = String::from_utf8_lossy(&name.text);
                    path.push(match name.is_linkage {
                        true => demangle(&text).function,
                        false => text.into_owned(),
                    });
                }
            }
        }
        Some(path.join("::"))
    }

    fn scope_table(&self, unit: UnitRef<'_, 'a>, key: (bool, usize)) -> Rc<ScopeTable> {
        let mut tables = self.scopes.borrow_mut();
        let read = || Rc::new(ScopeTable::read(unit, self.budget));
        tables.entry(key).or_insert_with(read).clone()
    }

    fn units(&self, place: Place) -> Option<&'d Units<'d, 'a>> {
        if place.supplementary {
            self.supplementary
        } else {
            Some(self.primary)
        }
    }

    fn read(&self, place: Place) -> Entry<'a> {
        let mut entry = Entry::default();
        // A damaged entry has the attributes before the damage.
        let _ = self.read_into(place, &mut entry);
        entry
    }

    fn read_into(&self, place: Place, entry: &mut Entry<'a>) -> Option<()> {
        let units = self.units(place)?;
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

/// The attributes of an entry that give its name.
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
