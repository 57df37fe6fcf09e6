//! Writes the log of SwiftNIO's allocation counter tests, in both versions of its
//! format, for scripts that read such logs.
//!
//! ```text
//! - /path/of/the/program
//! test_x.remaining_allocations: 0
//! test_x.total_allocations: 75001
//! test_x.total_allocated_bytes: 4138056
//! DEBUG: [["remaining_allocations": 0, "total_allocations": 75001, "total_allocated_bytes": 4138056]]
//! ```
//!
//! The newer version has an additional line `leaked_fds`, and prints the runs
//! as a Swift structure. The log's "remaining" is allocations minus
//! deallocations, our `net`.

use std::io::{self, Write};
use std::path::Path;

use allotrope_text::Shown;

use crate::case_run::CaseRun;
use crate::result::{CaseResult, Report, TestResult};
use allotrope_profile::Metric;

/// A version of the log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Generation {
    /// Prints runs as dictionaries.
    Dictionaries,
    /// Prints runs as structures, with file descriptors.
    Structures,
}

/// Writes the log.
///
/// # Errors
/// Errors of `out`.
pub fn write(report: &Report, generation: Generation, out: &mut dyn Write) -> io::Result<()> {
    for test in &report.tests {
        writeln!(out, "- {}", executable(test))?;
        if !report.recorded {
            // Zeros, as SwiftNIO's tests print without their hooks.
            let runs = vec![CaseRun::default(); 10];
            block(&test.name, &runs, generation, out)?;
        }
        for case in &test.cases {
            block(window(case), &case.runs, generation, out)?;
        }
    }
    Ok(())
}

/// The absolute path of the program.
fn executable(test: &TestResult) -> String {
    let word = test.command.first().map_or("", String::as_str);
    let path = if word.contains('/') {
        let path = test.folder.join(word);
        path.canonicalize().unwrap_or(path)
    } else {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let mut candidates = std::env::split_paths(&folders).map(|folder| folder.join(word));
        candidates
            .find(|path| path.is_file())
            .unwrap_or_else(|| Path::new(word).to_owned())
    };
    path.shown().into_owned()
}

/// The name of the window, without the test, which the log format does not
/// have.
fn window(case: &CaseResult) -> &str {
    case.name
        .split_once('/')
        .map_or(case.name.as_str(), |(_, window)| window)
}

fn block(
    name: &str,
    runs: &[CaseRun],
    generation: Generation,
    out: &mut dyn Write,
) -> io::Result<()> {
    let least = |metric: Metric| {
        runs.iter()
            .map(|run| figure(run, metric))
            .min()
            .unwrap_or(0)
    };
    let (total, remaining) = (least(Metric::Allocations), least(Metric::Net));
    let bytes = least(Metric::Bytes);
    match generation {
        Generation::Dictionaries => {
            writeln!(out, "{name}.remaining_allocations: {remaining}")?;
            writeln!(out, "{name}.total_allocations: {total}")?;
            writeln!(out, "{name}.total_allocated_bytes: {bytes}")?;
        }
        Generation::Structures => {
            writeln!(out, "{name}.total_allocations: {total}")?;
            writeln!(out, "{name}.remaining_allocations: {remaining}")?;
            writeln!(out, "{name}.total_allocated_bytes: {bytes}")?;
            writeln!(out, "{name}.leaked_fds: {}", least(Metric::LeakedFds))?;
        }
    }
    let runs: Vec<String> = runs
        .iter()
        .map(|run| debug(name, run, generation))
        .collect();
    writeln!(out, "DEBUG: [{}]", runs.join(", "))
}

fn figure(run: &CaseRun, metric: Metric) -> i64 {
    run.figure(metric).unwrap_or(0)
}

fn debug(name: &str, run: &CaseRun, generation: Generation) -> String {
    let (total, remaining) = (figure(run, Metric::Allocations), figure(run, Metric::Net));
    let bytes = figure(run, Metric::Bytes);
    match generation {
        Generation::Dictionaries => format!(
            "[\"remaining_allocations\": {remaining}, \"total_allocations\": {total}, \
             \"total_allocated_bytes\": {bytes}]"
        ),
        Generation::Structures => {
            let descriptors: Vec<String> = run
                .leaked_descriptors
                .iter()
                .map(|it| format!("{it:?}"))
                .collect();
            format!(
                "{}.Measurement(totalAllocations: {total}, totalAllocatedBytes: {bytes}, \
                 remainingAllocations: {remaining}, leakedFDs: [{}])",
                module(name),
                descriptors.join(", ")
            )
        }
    }
}

/// The name of the Swift module into which SwiftNIO's harness compiles a test:
/// `Test_NAME`.
fn module(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("Test_{}", name.chars().map(plain).collect::<String>())
}
