//! The functions of a unit and what was inlined into them.

use std::ops::Range;

use gimli::{Abbreviation, AttributeValue, EntriesRaw, UnitOffset};

use super::budget::Budget;
use super::bytes::{Slice, UnitRef};
use super::ranges::RangeAttributes;
use crate::intervals::Intervals;

/// The most frames inlined into one another at one address; more, the innermost, are
/// left out. Compilers stop far earlier.
const MAX_INLINED: usize = 512;

/// A function with code of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Function {
    /// Entry of the function in the unit.
    pub(super) entry: UnitOffset,
    /// Start of the range that an address was found in: a function that was
    /// split into a hot and a cold part has two.
    pub(super) start: u64,
}

/// A call that was inlined.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inlined {
    /// The entry in the unit that has its name: that of the inlined function, which all
    /// its calls share, or the call's own.
    pub(super) entry: UnitOffset,
    /// The call's source file, in the unit's file table.
    pub(super) call_file: Option<u64>,
    pub(super) call_line: u32,
    pub(super) call_column: u32,
}

/// The functions of the unit by their code, up to the first damaged entry.
pub(super) fn functions(unit: UnitRef<'_, '_>, budget: &Budget) -> Intervals<Function> {
    let mut ranges = Vec::new();
    let _ = scan_functions(unit, budget, &mut ranges);
    Intervals::new(ranges)
}

fn scan_functions(
    unit: UnitRef<'_, '_>,
    budget: &Budget,
    found: &mut Vec<(Range<u64>, Function)>,
) -> Option<()> {
    let mut entries = unit.entries_raw(None).ok()?;
    while !entries.is_empty() {
        let entry = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation().ok()? else {
            continue;
        };
        budget.spend(1 + abbreviation.attributes().len())?;
        if abbreviation.tag() != gimli::DW_TAG_subprogram {
            entries.skip_attributes(abbreviation.attributes()).ok()?;
            continue;
        }
        let mut ranges = RangeAttributes::default();
        for specification in abbreviation.attributes() {
            ranges.add(unit, &entries.read_attribute(*specification).ok()?);
        }
        // A damaged range list costs this function only.
        let _ = ranges.each(unit, budget, |range| {
            let start = range.start;
            found.push((range, Function { entry, start }));
        });
    }
    Some(())
}

/// A range of the code of an inlined call.
#[derive(Debug, Clone)]
pub(super) struct InlinedRange {
    pub(super) range: Range<u64>,
    /// Number of inlined calls around it.
    level: usize,
    inlined: Inlined,
}

/// The calls inlined into the function with this entry. Each comes before the calls
/// inlined into it.
pub(super) fn inlined_ranges(
    unit: UnitRef<'_, '_>,
    function: UnitOffset,
    budget: &Budget,
) -> Vec<InlinedRange> {
    let mut walk = InlineWalk {
        unit,
        budget,
        open: Vec::new(),
        found: Vec::new(),
    };
    let _ = walk.walk(function);
    walk.found
}

/// Returns, for each of the sorted `addresses`, the calls inlined around it, outermost first. An
/// address is in an inlined call only if it is in all calls around it, so a call counts if its
/// level is the number of calls found so far.
pub(super) fn chains_at(calls: &[InlinedRange], addresses: &[u64]) -> Vec<Vec<Inlined>> {
    let mut chains: Vec<Vec<Inlined>> = vec![Vec::new(); addresses.len()];
    for call in calls {
        let first = addresses.partition_point(|a| *a < call.range.start);
        let end = addresses.partition_point(|a| *a < call.range.end);
        for chain in chains.get_mut(first..end).unwrap_or_default() {
            if chain.len() == call.level {
                chain.push(call.inlined);
            }
        }
    }
    chains
}

/// One pass over a function's entries.
struct InlineWalk<'u, 'a> {
    unit: UnitRef<'u, 'a>,
    budget: &'u Budget,
    /// Depths of the inlined calls around the current entry.
    open: Vec<isize>,
    found: Vec<InlinedRange>,
}

impl<'a> InlineWalk<'_, 'a> {
    fn walk(&mut self, function: UnitOffset) -> Option<()> {
        let mut entries = self.unit.entries_raw(Some(function)).ok()?;
        let top = entries.next_depth();
        let abbreviation = entries.read_abbreviation().ok()??;
        entries.skip_attributes(abbreviation.attributes()).ok()?;
        // Depth of a function nested in this one. Its entries are skipped.
        let mut nested: Option<isize> = None;
        while !entries.is_empty() && entries.next_depth() > top {
            let entry = entries.next_offset();
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation().ok()? else {
                continue;
            };
            self.budget.spend(1 + abbreviation.attributes().len())?;
            nested = nested.filter(|nested| depth > *nested);
            while self.open.last().is_some_and(|open| *open >= depth) {
                self.open.pop();
            }
            match abbreviation.tag() {
                gimli::DW_TAG_inlined_subroutine if nested.is_none() => {
                    self.take_inlined(&mut entries, abbreviation, entry)?;
                    self.open.push(depth);
                }
                tag => {
                    if tag == gimli::DW_TAG_subprogram && nested.is_none() {
                        nested = Some(depth);
                    }
                    entries.skip_attributes(abbreviation.attributes()).ok()?;
                }
            }
        }
        Some(())
    }

    fn take_inlined(
        &mut self,
        entries: &mut EntriesRaw<'_, Slice<'a>>,
        abbreviation: &Abbreviation,
        entry: UnitOffset,
    ) -> Option<()> {
        let mut ranges = RangeAttributes::default();
        let mut inlined = Inlined {
            entry,
            call_file: None,
            call_line: 0,
            call_column: 0,
        };
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification).ok()?;
            let number = || attribute.udata_value().and_then(|n| u32::try_from(n).ok());
            match attribute.name() {
                gimli::DW_AT_abstract_origin => {
                    if let AttributeValue::UnitRef(origin) = attribute.value() {
                        inlined.entry = origin;
                    }
                }
                gimli::DW_AT_call_file => inlined.call_file = self.file_index(attribute.value()),
                gimli::DW_AT_call_line => inlined.call_line = number().unwrap_or(0),
                gimli::DW_AT_call_column => inlined.call_column = number().unwrap_or(0),
                _ => ranges.add(self.unit, &attribute),
            }
        }
        let (unit, budget) = (self.unit, self.budget);
        let level = self.open.len();
        if level < MAX_INLINED {
            let _ = ranges.each(unit, budget, |range| {
                self.found.push(InlinedRange {
                    range,
                    level,
                    inlined,
                });
            });
        }
        Some(())
    }

    /// Before DWARF 5, index 0 means no file; since then it is the first file.
    fn file_index(&self, value: AttributeValue<Slice<'a>>) -> Option<u64> {
        match value {
            AttributeValue::FileIndex(0) if self.unit.header.version() < 5 => None,
            AttributeValue::FileIndex(index) => Some(index),
            _ => None,
        }
    }
}
