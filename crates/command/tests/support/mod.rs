//! What the test files share: compiling the programs whose counts their sources
//! state, recording them, and reading the report back. Expectations are in the test
//! files and in the programs themselves, not here.

#![allow(dead_code, unused_imports)] // every test file uses its own part of it

use std::process::Command;

pub mod compile;
pub mod ended;
pub mod http;
pub mod record;
pub mod report;
pub mod schema;
pub mod started;
pub mod truth;
pub mod watched;
pub mod windows;

pub use compile::{
    column_of, compiled, compiled_with, line_of, linked_bench, source_path, source_text,
};
pub use ended::{Ended, Text, check_each};
pub use record::{Record, Recording, allotrope, command, record, run};
pub use report::{Process, Report};
pub use started::{Started, until};

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

/// Whether a program is in a folder of `PATH`.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether this command can be started here and succeeds.
pub fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|it| it.status.success())
}

/// Whether this test runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
