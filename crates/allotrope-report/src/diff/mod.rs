//! A comparison of two sets of stacks, as text for people, as JSON for
//! programs, as the sections that `stackdiff` scripts print, and as a flame
//! graph.
//!
//! What is compared and how entries come about is `allotrope-profile`'s; here
//! it is laid out. Thresholds apply here and nowhere before.

mod entry;
pub mod flame;
pub mod json;
pub mod sections;
mod selection;
mod summary;
pub mod text;
mod wording;

pub use selection::Selection;
pub use text::DiffTextOptions;

#[cfg(test)]
mod tests;
