//! Sampled profiles as text and JSON: every figure is an estimate with its 95 % interval.

pub mod json;
mod rows;
pub mod text;
mod wording;

pub use rows::{SiteRow, rows};
pub use wording::{interval, value, words};
