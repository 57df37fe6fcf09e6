//! The index of a module: a file with the names and source positions of all its code,
//! from its symbol tables and debug information. Resolving a few addresses takes a few
//! reads. Indexes are in the user's cache, named by build id ([`IndexCache`]), and can
//! be deleted at any time.
//!
//! Layout, little-endian: a header (magic, version, checksums, build id, offsets
//! of the tables), then the tables, each an array of records of one size:
//!
//! | table | record | sorted by |
//! | --- | --- | --- |
//! | segments (of addresses with the same frames) | start, node | start |
//! | nodes (a frame and the frame it is inlined into) | name, file, line, column, parent, start | |
//! | symbol segments (of addresses in the same symbol) | start, symbol start, name | start |
//! | names | offset and length in the text | |
//! | files | offset and length in the text, MD5 sum of the source if there is one | |
//! | text | bytes | |
//! | compilers | bytes of their names, each with a newline at its end | |
//! | objects (that a function constructs or allocates space for) | name of the function, offset and length of their type in the text, bytes of one | name |
//!
//! Addresses are relative to the lowest one and have 32 bits: larger modules get no
//! index. Names are linkage names and are demangled on look-up.

mod build;
mod cache;
mod pages;
mod read;

use std::collections::BTreeSet;

pub(crate) use build::write;
pub use cache::IndexCache;
pub(crate) use read::Index;

const MAGIC: [u8; 8] = *b"ALTINDEX";
/// Must change with the layout and with the information that is read from DWARF, so
/// that indexes of older versions are not used.
const VERSION: u32 = 4;

/// Magic, version, checksum of what follows in the header, checksum of the
/// tables, whether unoptimised, length of the build id, build id, base address,
/// and for each table its offset and its length in bytes.
const HEADER: usize = 8 + 4 + 4 + 4 + 1 + 1 + MAX_BUILD_ID + 8 + TABLES * 16;
/// Offset from which on the header's own checksum covers it.
const CHECKED: usize = 16;
const MAX_BUILD_ID: usize = 32;

/// The tables, in the order of the file.
#[derive(Debug, Clone, Copy)]
enum Table {
    Segments = 0,
    Nodes = 1,
    Symbols = 2,
    Names = 3,
    Files = 4,
    Text = 5,
    Compilers = 6,
    Objects = 7,
}
const TABLES: usize = 8;

/// What an index has of the module as a whole.
pub(crate) struct Facts {
    /// See [`crate::ModuleSymbols::unoptimised`].
    pub(crate) unoptimised: Option<bool>,
    /// The compilers in the debug information.
    pub(crate) compilers: BTreeSet<String>,
}

/// Start, node.
const SEGMENT: usize = 8;
/// Name, file, line, column, parent, start.
const NODE: usize = 24;
/// Start, start of the symbol, name.
const SYMBOL: usize = 12;
/// Offset in the text table, length. The highest bit of a name's length is `LINKAGE`.
const TEXT_RANGE: usize = 8;
/// Flag in the length of a name: it is a linkage name.
const LINKAGE: u32 = 1 << 31;
/// Name, offset and length of the type in the text table, bytes.
const OBJECTS: usize = 16;
/// Offset and length of the path in the text table, MD5 sum.
const FILE: usize = TEXT_RANGE + 16;
/// Flag in the length of a path: the compiler wrote an MD5 sum of the file.
const SUMMED: u32 = 1 << 31;
