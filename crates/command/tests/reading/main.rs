//! Reading recordings and files of other tools: reports, comparisons, pages, exports, and what damaged or hostile files cost.

#[path = "../../../features/watch/tests/support/mod.rs"]
mod story;
#[path = "../support/mod.rs"]
mod support;

mod blame;
mod block_types;
mod blocks_shown;
mod bombs;
mod diff;
mod diff_compilers;
mod diff_page;
mod exports;
mod figures_agree;
mod findings;
mod first_screen;
mod front_door;
mod imported;
mod marks;
mod metrics;
mod reader_fuzz;
mod recording_bounds;
mod report_input;
mod report_json;
mod report_page;
mod report_source;
mod report_text;
mod sampled;
mod shown_names;
mod stat;
mod time_ranges;
mod view;
mod why;
mod windows_shown;
mod workers;
