//! Names for code addresses of ELF modules: functions, source files and lines,
//! inlined frames expanded, for C, C++, Rust and Swift on x86-64 Linux.
//!
//! A [`Locator`] finds separate debug files, [`ModuleSymbols`]
//! holds the symbols of one module and resolves addresses in batches. Linkage
//! names are demangled by `allotrope-demangle`. JIT code is in no module;
//! [`PerfMap`] and [`JitDump`] read the files in which runtimes write its names.
//!
//! Everything read here may be hostile: a corrupt or truncated file loses names,
//! but never causes a panic, an endless loop or memory use out of proportion to
//! the file's size.
//!
//! This crate reads files and allocates: it must not run in a recorded process.
#![forbid(unsafe_code)]

mod block_types;
mod compilers;
mod constructors;
mod content;
mod dwarf;
mod elf;
mod error;
mod file_identity;
mod index;
mod intervals;
mod jit;
mod locator;
mod module;
mod nearest;
mod progress;
mod proof;
mod resolved;
mod shared_strings;
mod symbol_table;
pub mod symbolize;

pub use allotrope_trace::model::NamedFrame;
pub use compilers::Compilers;
pub use error::SymbolError;
pub use file_identity::identity_of;
pub use index::IndexCache;
pub use jit::{JitClock, JitCode, JitDump, PerfMap};
pub use locator::Locator;
pub use module::ModuleSymbols;
pub use nearest::{Nearby, Nearest};
pub use progress::Work;
pub use proof::{FileIdentity, Ran, open_at, open_mapped};
pub use resolved::Resolved;
