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
mod text_options;
mod wording;

pub use entry::sentences;
pub use selection::{Selection, Sum, sum};
pub use summary::noise_in_words;
pub use text_options::{DiffTextOptions, Hints};
pub use wording::{chance, function, kind_word, short_function};

#[cfg(test)]
mod tests;
