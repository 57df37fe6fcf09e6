//! Names for code addresses of ELF modules: functions, source files and lines,
//! inlined frames expanded, for C, C++, Rust and Swift on x86-64 Linux.
//!
//! A [`Locator`] says where separate debug files may lie, [`ModuleSymbols`]
//! holds what was found for one module and resolves addresses in batches, and
//! [`demangle`] turns a linkage name into the two spellings a profile shows.
//!
//! Code that a process made while it ran is in no module: [`PerfMap`] and
//! [`JitDump`] name it.
//!
//! Everything read here may be hostile: a corrupt or truncated file costs
//! names, never a panic, an endless loop or memory out of proportion to the
//! file's own size.
//!
//! Nothing here belongs into the process that is being recorded: it reads
//! files and allocates.
#![forbid(unsafe_code)]

mod content;
mod demangle;
mod dwarf;
mod elf;
mod error;
mod frame;
mod index;
mod intervals;
mod locator;
mod module;
mod progress;
mod runtime;
mod shared_strings;
mod symbol_table;

pub use demangle::{Names, demangle};
pub use error::SymbolError;
pub use frame::{Frame, Resolved};
pub use index::IndexCache;
pub use locator::Locator;
pub use module::ModuleSymbols;
pub use progress::Work;
pub use runtime::{JitClock, JitDump, PerfMap, RuntimeCode};
