//! What the test files share: compiling the programs whose counts their sources
//! state, recording them, and reading the report back. Expectations are in the test
//! files and in the programs themselves, not here.

#![allow(dead_code, unused_imports)] // every test file uses its own part of it

pub mod compile;
pub mod http;
pub mod record;
pub mod report;
pub mod schema;
pub mod truth;
pub mod watched;
pub mod windows;

pub use compile::{column_of, compiled, compiled_with, line_of, source_path, source_text};
pub use record::{Record, Recording, allotrope, record, run};
pub use report::{Process, Report};

/// Options of a benchmark that is done in a moment; `--runs` is the test's.
pub const SHORT_BENCH: [&str; 8] = [
    "--pattern",
    "lifo",
    "--size",
    "16",
    "--threads",
    "1",
    "--blocks",
    "1024",
];

/// Prints why a test has nothing to do here. (In continuous integration, the reason
/// must be among `scripts/expected-skips`.)
pub fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// Whether this test runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
