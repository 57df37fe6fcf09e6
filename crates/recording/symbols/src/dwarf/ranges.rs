//! The address ranges of a debugging information entry (DWARF 5, 2.17).

use std::ops::Range;

use gimli::{Attribute, AttributeValue};

use super::budget::Budget;
use super::bytes::{Slice, UnitRef};

/// The attributes of one entry that give the addresses of its code.
#[derive(Default)]
pub(super) struct RangeAttributes<'a> {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    list: Option<AttributeValue<Slice<'a>>>,
}

impl<'a> RangeAttributes<'a> {
    /// Stores an attribute if it is one of these.
    pub(super) fn add(&mut self, unit: UnitRef<'_, 'a>, attribute: &Attribute<Slice<'a>>) {
        let address = |value| unit.attr_address(value).ok().flatten();
        match attribute.name() {
            gimli::DW_AT_low_pc => self.low = address(attribute.value()),
            gimli::DW_AT_high_pc => match attribute.value() {
                AttributeValue::Udata(size) => self.size = Some(size),
                value => self.high = address(value),
            },
            gimli::DW_AT_ranges => self.list = Some(attribute.value()),
            _ => {}
        }
    }

    /// Calls `each` with every range. Code that the linker dropped has a range
    /// from address 0, where an ELF file has its header and never code.
    pub(super) fn each(
        self,
        unit: UnitRef<'_, 'a>,
        budget: &Budget,
        mut each: impl FnMut(Range<u64>),
    ) -> Option<()> {
        let mut emit = |range: Range<u64>| {
            if range.start != 0 && !range.is_empty() {
                each(range);
            }
        };
        if let Some(list) = self.list {
            let mut ranges = unit.attr_ranges(list).ok()??;
            while let Some(range) = ranges.next().ok()? {
                budget.spend(1)?;
                emit(range.begin..range.end);
            }
            return Some(());
        }
        if let Some(low) = self.low {
            let end = self.size.and_then(|size| low.checked_add(size));
            emit(low..end.or(self.high).unwrap_or(low));
        }
        Some(())
    }
}
