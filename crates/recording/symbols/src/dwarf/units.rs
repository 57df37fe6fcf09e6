//! The units of a file's `.debug_info`: where each begins, its root entry, and which
//! units have code at an address.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use gimli::{DebugInfoOffset, UnitHeader};
use rustc_hash::FxHashMap;

use super::budget::Budget;
use super::bytes::{Dwarf, Slice, Unit, UnitRef};
use super::ranges::RangeAttributes;

/// The units of one file, each parsed on first use.
pub(super) struct Units<'d, 'a> {
    dwarf: &'d Dwarf<'a>,
    /// Headers of the units, in order of their offsets.
    headers: Vec<UnitHeader<Slice<'a>>>,
    parsed: RefCell<FxHashMap<usize, Option<Rc<Unit<'a>>>>>,
}

/// A unit's root entry.
pub(super) struct Root<'a> {
    /// It describes code: it is a compile unit, or the skeleton of one.
    pub(super) is_compile_unit: bool,
    /// The rest of it is in a split file.
    pub(super) is_skeleton: bool,
    pub(super) ranges: Vec<Range<u64>>,
    pub(super) producer: Option<&'a [u8]>,
    pub(super) language: Option<gimli::DwLang>,
    /// `DW_AT_APPLE_optimized`, which LLVM writes only if it is true: for Swift always, for others
    /// only on request.
    pub(super) is_optimised: bool,
}

impl<'d, 'a> Units<'d, 'a> {
    /// Finds the units up to the first damaged header.
    pub(super) fn new(dwarf: &'d Dwarf<'a>) -> Self {
        let mut units = dwarf.units();
        let headers = std::iter::from_fn(|| units.next().ok().flatten());
        Self {
            dwarf,
            headers: headers.collect(),
            parsed: RefCell::default(),
        }
    }

    /// Parses a unit again, changes it by `amend` and caches the result.
    pub(super) fn amend(&self, index: usize, amend: impl FnOnce(&mut Unit<'a>)) {
        if let Some(mut unit) = self.parse(index) {
            amend(&mut unit);
            self.parsed.borrow_mut().insert(index, Some(Rc::new(unit)));
        }
    }

    pub(super) fn dwarf(&self) -> &'d Dwarf<'a> {
        self.dwarf
    }

    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }

    /// The unit, which is then cached.
    pub(super) fn unit(&self, index: usize) -> Option<Rc<Unit<'a>>> {
        let mut parsed = self.parsed.borrow_mut();
        let parse = || self.parse(index).map(Rc::new);
        parsed.entry(index).or_insert_with(parse).clone()
    }

    /// The unit, without caching it.
    pub(super) fn parse(&self, index: usize) -> Option<Unit<'a>> {
        self.dwarf.unit(*self.headers.get(index)?).ok()
    }

    /// Index of the unit that contains an offset.
    pub(super) fn holding(&self, offset: DebugInfoOffset) -> Option<usize> {
        let starts_before = |header: &UnitHeader<_>| header.offset().0 <= offset.0;
        self.headers.partition_point(starts_before).checked_sub(1)
    }

    /// The unit's root entry; the unit is not cached.
    pub(super) fn root(&self, index: usize, budget: &Budget) -> Option<Root<'a>> {
        read_root(UnitRef::new(self.dwarf, &self.parse(index)?), budget)
    }
}

/// Reads the root entry of a unit.
pub(super) fn read_root<'a>(unit: UnitRef<'_, 'a>, budget: &Budget) -> Option<Root<'a>> {
    let mut entries = unit.entries_raw(None).ok()?;
    let abbreviation = entries.read_abbreviation().ok()??;
    budget.spend(abbreviation.attributes().len())?;
    let mut ranges = RangeAttributes::default();
    let mut root = Root {
        is_compile_unit: matches!(
            abbreviation.tag(),
            gimli::DW_TAG_compile_unit | gimli::DW_TAG_skeleton_unit
        ),
        is_skeleton: unit.dwo_id.is_some(),
        ranges: Vec::new(),
        producer: None,
        language: None,
        is_optimised: false,
    };
    for specification in abbreviation.attributes() {
        let attribute = entries.read_attribute(*specification).ok()?;
        match attribute.name() {
            gimli::DW_AT_producer => {
                let producer = unit.attr_string(attribute.value()).ok();
                root.producer = producer.map(|producer| producer.slice());
            }
            gimli::DW_AT_language => {
                if let gimli::AttributeValue::Language(language) = attribute.value() {
                    root.language = Some(language);
                }
            }
            gimli::DW_AT_APPLE_optimized => root.is_optimised = true,
            _ => ranges.add(unit, &attribute),
        }
    }
    // Of a damaged list, the ranges before the damage are used.
    let _ = ranges.each(unit, budget, |range| root.ranges.push(range));
    Some(root)
}
