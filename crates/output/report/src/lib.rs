//! Profiles as text for people and as JSON for programs.
//!
//! [`json::write`] is a stable contract: its fields and their meaning do not
//! change within a format number. [`text`] is for people and changes when it
//! can be made clearer; do not parse it. The caller reads the trace, and passes the
//! width and whether to use colours.
#![forbid(unsafe_code)]

mod block_figures;
mod block_records;
mod common_caller;
pub mod diff;
pub mod flame_graph;
mod free_frames;
mod groups;
pub mod json;
mod json_append;
mod json_blocks;
mod json_details;
mod json_findings;
mod json_recording;
mod json_series;
mod json_sites;
mod json_why;
mod json_windows;
pub mod markdown;
pub use allotrope_text::numbers;
mod reachability;
pub mod sampled;
mod selected_blocks;
mod selection;
mod shorten;
mod signal;
mod source_lines;
mod suppressed;
pub mod text;

pub use allotrope_text::Style;
pub use block_figures::BlockFigures;
pub use block_records::{BlockRecords, RecordFormat};
pub use groups::Grouping;
pub use json_blocks::write_selected_blocks as write_blocks_json;
pub use json_why::write_why_json;
pub use selected_blocks::{BlockOrder, SelectedBlocks};
pub use selection::{LISTED, sites_of_row};
pub use signal::signal_name;
pub use source_lines::SourceLines;
pub use text::options::Blocks;
