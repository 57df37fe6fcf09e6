//! A comparison of two sets of stacks, as text for people, as JSON for
//! programs, as the sections that `stackdiff` scripts print, and as a flame
//! graph.
//!
//! `allotrope-diff` computes the entries; this folder lays them out and applies
//! thresholds.

mod entry;
pub mod flame;
pub mod json;
pub mod sections;
mod selection;
mod summary;
pub mod text;
mod wording;

pub use selection::Selection;
pub use text::{DiffTextOptions, Hints};
pub(crate) use wording::function;
pub use wording::short_function;

#[cfg(test)]
mod tests;
