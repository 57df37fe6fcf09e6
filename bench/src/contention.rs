//! Measures whether recorded threads slow each other down: the cost of an allocation
//! with one, two and four threads, and the system calls of the program. Waiting for a
//! lock is a `futex` call.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::growth::{Cause, Point, causes, measure};
use crate::row::{ALLOCATIONS_A_ROUND, Extent};
use crate::run::Runner;
use crate::tool::Tool;
use crate::workshop::installed;

/// Threads of the program whose system calls are counted.
pub const THREADS: u64 = 4;
/// Allocations of that program, in all threads together.
pub const ALLOCATIONS: u64 = 4_000_000;

/// What was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Contention {
    /// Measured points, by the number of threads.
    pub points: Vec<Point>,
    /// System calls by name, plain and recorded; without those whose numbers are equal.
    pub calls: BTreeMap<String, (u64, u64)>,
    /// All system calls, plain and recorded.
    pub all_calls: (u64, u64),
}

/// Measures it.
pub fn contention(runner: &Runner, allotrope: &Tool, runs: usize) -> Result<Contention> {
    let threads = causes(Extent::Full)
        .into_iter()
        .find(|cause| cause.name == "threads");
    let threads = Cause {
        values: vec![1, 2, 4],
        ..threads.context("no cause of that name")?
    };
    let points = measure(runner, allotrope, &threads, runs)?.points;
    let plain = calls(runner, &Tool::Plain)?;
    let ours = calls(runner, allotrope)?;
    let sum = |calls: &BTreeMap<String, u64>| calls.values().sum();
    let of =
        |calls: &BTreeMap<String, u64>, name: &str| calls.get(name).copied().unwrap_or_default();
    let mut names: Vec<_> = plain.keys().chain(ours.keys()).cloned().collect();
    names.sort();
    names.dedup();
    Ok(Contention {
        points,
        all_calls: (sum(&plain), sum(&ours)),
        calls: names
            .into_iter()
            .map(|name| (of(&plain, &name), of(&ours, &name), name))
            .filter(|(plain, ours, _)| plain != ours)
            .map(|(plain, ours, name)| (name, (plain, ours)))
            .collect(),
    })
}

/// Runs container churn under strace and returns its system calls by name.
fn calls(runner: &Runner, tool: &Tool) -> Result<BTreeMap<String, u64>> {
    let workshop = runner.workshop;
    let (trace, counted) = (workshop.path("trace"), workshop.path("calls"));
    let mut command = tool.prefix(&trace);
    command.push(installed("strace")?.into());
    command.extend(["-f", "-c", "-U", "calls,name", "-o"].map(Into::into));
    command.push(counted.clone().into());
    command.push(workshop.program("churn.cc")?.into());
    command.push(THREADS.to_string().into());
    command.push(
        (ALLOCATIONS / ALLOCATIONS_A_ROUND / THREADS)
            .to_string()
            .into(),
    );
    let output = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .output()?;
    let _ = std::fs::remove_file(trace);
    ensure!(
        output.status.success(),
        "strace failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(counts(&std::fs::read_to_string(counted)?))
}

fn counts(table: &str) -> BTreeMap<String, u64> {
    let lines = table.lines().filter_map(|line| {
        let (number, name) = line.trim().split_once(char::is_whitespace)?;
        Some((name.trim().to_owned(), number.parse().ok()?))
    });
    lines.filter(|(name, _)| name != "total").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_strace_is_read() {
        let table = "    calls syscall\n--------- ----------------\n        12 futex\n         3 mmap\n--------- ----------------\n       15 total\n";
        let expected = BTreeMap::from([("futex".to_owned(), 12), ("mmap".to_owned(), 3)]);
        assert_eq!(counts(table), expected);
    }
}
