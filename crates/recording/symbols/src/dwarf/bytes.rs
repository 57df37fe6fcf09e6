//! gimli's types, over bytes in memory.

use gimli::{EndianSlice, LittleEndian};

pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;
pub(super) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
pub(super) type Unit<'a> = gimli::Unit<Slice<'a>>;
pub(super) type UnitRef<'u, 'a> = gimli::UnitRef<'u, Slice<'a>>;
