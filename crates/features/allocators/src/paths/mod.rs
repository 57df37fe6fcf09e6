//! Counts the instructions of allocator operations exactly: the replayer calls sampled
//! operations of a recording so that a tracer can single-step through them (ptrace(2)).
//!
//! | module | responsible for |
//! | --- | --- |
//! | `samples` | which operations are stepped, and their sizes |
//! | `tracer` | stepping; the protocol of `allotrope-replayer` |
//! | `code`, `instruction` | executed addresses, what their instructions are |
//! | `names` | functions, lines, which code is the allocator's |
//! | `analysis` | the tables: entry points, size classes, paths, callees, lines |
//! | `findings` | what stands out, in sentences |
//! | [`report`] | the saved report, `allotrope-paths/1` |
//! | [`compare`] | two reports, and limits that a script sets |
//! | [`text`] | both for people |
//!
//! A *path* is the sequence of functions that an operation executes, in the order of their
//! first instructions. An instruction that repeats itself (`rep stosb`) counts once.
//!
//! Two `unsafe` blocks, both in `tracer`: one lets the started replayer request to be traced, one
//! reads who sent a signal.

mod analysis;
mod chosen_operations;
mod code;
pub mod compare;
pub(crate) mod findings;
mod instruction;
mod measure;
mod names;
mod operation;
pub mod report;
pub mod text;
mod tracer;

pub(crate) use analysis::kind_of;
pub use chosen_operations::ChosenOperations;
pub use measure::{MeasureError, Request, measure};
pub use report::Report;
