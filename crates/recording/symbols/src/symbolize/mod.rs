//! Puts the names that `allotrope-symbols` finds into traces of
//! `allotrope-trace`.
//!
//! The collector writes names when a recording ends ([`SymbolsBuilder`]) and for
//! JIT code while it runs ([`FrameTable`]). `allotrope symbolize` names a trace
//! again later, on a machine that has other debug files ([`Contents`], [`rewrite`]).
//!
//! Not here: where debug files are searched for and how they are read
//! (`allotrope-symbols`), and which file a trace is written to (the command).

mod contents;
mod frames;
mod missing;
mod rewrite;
mod source_files;

pub use contents::{Candidates, Contents, Naming, Warning};
pub use frames::{FileAddress, FrameTable, SymbolsBuilder};
pub use missing::{missing_names, reason, sources_of};
pub use rewrite::{RewriteError, rewrite};
