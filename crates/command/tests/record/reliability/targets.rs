//! The programs of `tests/record/reliability/programs` and what holds for every
//! recording of one: complete images and no lost event.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use crate::support::{Process, Report, compiled_with};

/// A program of `programs/`, compiled.
pub fn target(source: &str) -> PathBuf {
    target_with(source, &[])
}

/// Same as [`target`], with more flags.
pub fn target_with(source: &str, flags: &[&str]) -> PathBuf {
    // Compiled programs are cached by source and flags: a flag stands for the header.
    let mut hasher = DefaultHasher::new();
    include_str!("programs/completed.h").hash(&mut hasher);
    let header = format!("-DHEADER={}", hasher.finish());
    let flags: Vec<&str> = flags.iter().copied().chain([header.as_str()]).collect();
    compiled_with(&path(source), &flags)
}

/// A file of `programs/` that is not compiled.
pub fn script(name: &str) -> PathBuf {
    crate::support::compile::source_path(&path(name))
}

fn path(source: &str) -> String {
    format!("../record/reliability/programs/{source}")
}

/// Fails unless every image is complete and nothing is lost anywhere.
#[track_caller]
pub fn expect_complete(report: &Report) {
    for process in report.processes() {
        assert_eq!(process.number("lost_events"), 0, "{}", report.summary());
        assert_eq!(process.json["complete"], true, "{}", report.summary());
    }
}

/// Fails unless the function made exactly this number of allocations, with this sum
/// of bytes.
#[track_caller]
pub fn expect_work(process: &Process<'_>, function: &str, allocations: u64, bytes: u64) {
    let sums = process.under(function);
    assert_eq!(
        (sums.allocations, sums.bytes),
        (allocations, bytes),
        "{function} in {:?}",
        process.command()
    );
}
