//! The allocator laboratory: measures allocators on a program's own calls, and composes one report
//! of what it measures: is switching worth it, which functions and lines execute the instructions,
//! what removing one would save, and how all of it was checked.
//!
//! | module | responsible for |
//! | --- | --- |
//! | [`replay`] | a recording's calls as an operations file, replays with other allocators, benchmarks |
//! | [`paths`] | single-stepping sampled operations of a replay: instructions, paths, callees |
//! | [`cpu`] | sampling running programs, shares of CPU time inside of an allocator |
//! | `measure` | the order of the measurements: time, instructions, counters |
//! | `counters` | the processor's counters during a replay; figures an operation with their source |
//! | `what_if` | hot functions, estimates of removing a callee or a path, changes beside their estimate |
//! | `verification` | the same figure counted in two ways |
//! | `findings` | impossible and contradicting counters, as sentences |
//! | `limit` | by how much a figure may rise |
//! | `source` | source text around a line |
//! | `commands` | the commands that reproduce each section |
//! | [`report`] | the report, `allotrope-allocators/1`, and its summary |
//! | `document` | its sections, as text and as Markdown |
//!
//! It knows no command line. `unsafe` is in `paths/tracer.rs` and `cpu/events.rs` alone.
#![deny(unsafe_code)]

mod commands;
mod counters;
pub mod cpu;
mod document;
mod findings;
mod hot_functions;
mod limit;
mod measure;
pub mod paths;
pub mod replay;
pub mod report;
mod source;
mod tables;
mod verification;
mod what_if;

pub use commands::Invocation;
pub use document::document;
pub use measure::{Pair, PairError, Request, Stage, measure, pairs};
pub use report::Report;
