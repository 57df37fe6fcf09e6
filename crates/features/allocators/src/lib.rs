//! Composes what `allotrope-replay` and `allotrope-paths` measure into one report of
//! allocators: is switching worth it, which functions and lines execute the instructions, what
//! removing one would save, and how all of it was checked.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `measure` | the order of the measurements: time, instructions, counters |
//! | `counters` | the processor's counters during a replay; figures an operation with their source |
//! | `what_if` | hot functions, estimates of removing a callee or a path, changes beside their estimate |
//! | `verification` | the same figure counted in two ways |
//! | `findings` | impossible and contradicting counters, as sentences |
//! | `commands` | the commands that reproduce each section |
//! | [`report`] | the report, `allotrope-allocators/1`, and its summary |
//! | [`document`] | its sections; as text and as Markdown |
//!
//! It measures nothing by itself, and knows no command line.
#![forbid(unsafe_code)]

mod commands;
mod counters;
pub mod document;
mod findings;
mod hot_functions;
mod measure;
pub mod report;
mod verification;
mod what_if;

pub use commands::Invocation;
pub use measure::{PairError, Request, Stage, measure, pairs};
pub use report::Report;
