//! One row of the matrix for every case: what is expected, what was seen, the
//! verdict. A failed check also fails the test.

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use serde_json::json;

/// Variable that names the file to which rows are appended, one JSON object a
/// line.
const FILE: &str = "ALLOTROPE_MATRIX";

/// The result of a case in which nothing failed.
pub enum Outcome {
    /// The expectation holds: what was seen, in numbers.
    Seen(String),
    /// The machine does not allow the case, and why.
    Skipped(String),
}

/// Whether the long form was asked for.
pub fn is_slow() -> bool {
    std::env::var_os("ALLOTROPE_SLOW").is_some_and(|value| value != "0" && !value.is_empty())
}

/// A count of the short form, or the long form's.
pub fn count(short: u64, long: u64) -> u64 {
    if is_slow() { long } else { short }
}

/// Runs a case and writes its row.
pub fn case(group: &str, name: &str, expected: &str, check: impl FnOnce() -> Outcome) {
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(Outcome::Seen(seen)) => row(group, name, expected, &seen, "ok"),
        Ok(Outcome::Skipped(reason)) => {
            crate::support::skip(&format!("{group}, {name}: {reason}"));
            row(group, name, expected, &reason, "skipped");
        }
        Err(failure) => {
            row(group, name, expected, &first_line(&*failure), "failed");
            resume_unwind(failure);
        }
    }
}

fn first_line(failure: &(dyn std::any::Any + Send)) -> String {
    let text = failure
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| failure.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("it panicked");
    text.lines().next().unwrap_or_default().to_owned()
}

fn row(group: &str, name: &str, expected: &str, seen: &str, verdict: &str) {
    let Some(path) = std::env::var_os(FILE) else {
        return;
    };
    let mut line = json!({
        "group": group, "case": name, "expected": expected, "seen": seen, "verdict": verdict,
    })
    .to_string();
    line.push('\n');
    // One write, appended: tests run side by side.
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
