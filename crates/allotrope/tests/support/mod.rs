//! What the test files share: compiling the programs whose truth is known,
//! recording them, and reading the report back. Expectations live in the test
//! files and in the programs themselves, not here.

#![allow(dead_code, unused_imports)] // every test file uses its own part of it

pub mod compile;
pub mod record;
pub mod report;
pub mod schema;
pub mod truth;
pub mod windows;

pub use compile::{column_of, compiled, compiled_with, line_of, source_path, source_text};
pub use record::{Record, Recording, allotrope, record, run};
pub use report::{Process, Report};

/// Says on the test's output why a test found nothing to do here.
pub fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// Whether this test runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
