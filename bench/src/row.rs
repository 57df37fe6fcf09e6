//! The rows of the standard table: the programs, their amounts of work, and their aims.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::figures::count;
use crate::job::Job;
use crate::real_programs;
use crate::workshop::Workshop;

/// Makes the job of a row.
pub type MakeJob = Box<dyn Fn(&Workshop) -> Result<Job>>;

/// A row: a program and its aim.
pub struct Row {
    /// The name for `--only`.
    pub name: String,
    /// Description of the row in the table.
    pub what: String,
    /// The largest cost of recording, if there is an aim.
    pub aim: Option<Aim>,
    /// Number of allocating threads.
    pub threads: u32,
    /// Whether `--counts-only` is measured, too.
    pub is_counted: bool,
    /// Whether `--free-stacks` is measured, too.
    pub has_free_stacks: bool,
    /// Whether it is a C++ program: these have an aim for the size of the trace.
    pub is_cpp: bool,
    /// Makes the job; an error if a program is not installed.
    pub job: MakeJob,
}

/// The largest cost of recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Aim {
    /// Recording costs at most this many nanoseconds per operation more than plain.
    Over(f64),
    /// Recording takes at most this multiple of the plain time.
    Times(f64),
    /// Recording reaches at least this fraction of the plain throughput.
    Part(f64),
}

/// The amount of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The amount for which the aims are stated.
    Full,
    /// About a twentieth: a functional check.
    Quick,
}

impl Extent {
    /// The part of a full amount.
    pub fn of(self, amount: u64) -> u64 {
        match self {
            Self::Full => amount,
            Self::Quick => amount / 20,
        }
    }
}

/// Approximate number of allocations in a round of container churn.
pub const ALLOCATIONS_A_ROUND: u64 = 385;

/// All rows.
pub fn rows(extent: Extent) -> Vec<Row> {
    let mut rows = Vec::new();
    for (depth, most) in [(5, 20.0), (20, 40.0), (80, 100.0)] {
        for (size, text) in [(64, "64 B"), (16 << 10, "16 KiB"), (1 << 20, "1 MiB")] {
            rows.push(pair((depth, PAIRS), extent, most, size, text));
        }
    }
    for (threads, times) in [(1, 2.0), (4, 3.0)] {
        for amount in [4_000_000, 40_000_000] {
            rows.push(churn(extent, threads, times, amount));
        }
    }
    rows.push(stacks(extent));
    rows.extend(real_programs::rows(extent));
    rows
}

/// The number of pairs in the standard table.
pub const PAIRS: u64 = 20_000_000;

/// Returns the row of so many pairs of `malloc` and `free` of one size, so many frames deep.
pub fn pair((depth, pairs): (u32, u64), extent: Extent, most: f64, size: u64, text: &str) -> Row {
    let pairs = extent.of(pairs);
    Row {
        name: format!("pair-{depth}-{size}"),
        what: format!("malloc({text})+free, {depth} frames deep"),
        aim: Some(Aim::Over(most)),
        threads: 1,
        is_counted: size == 64,
        has_free_stacks: size == 64 && depth == 20,
        is_cpp: false,
        job: Box::new(move |workshop| {
            let arguments = [depth.to_string(), size.to_string(), pairs.to_string()];
            Ok(Job::new(workshop.program("pair.c")?, arguments).printing())
        }),
    }
}

/// Containers filled and emptied.
pub fn churn(extent: Extent, threads: u32, times: f64, amount: u64) -> Row {
    let rounds = extent.of(amount) / ALLOCATIONS_A_ROUND / u64::from(threads);
    let plural = if threads == 1 { "" } else { "s" };
    Row {
        name: format!("churn-{threads}-{}m", amount / 1_000_000),
        what: format!(
            "C++ container churn, {threads} thread{plural}, {} allocations",
            count(amount)
        ),
        aim: Some(Aim::Times(times)),
        threads,
        is_counted: amount == 40_000_000,
        has_free_stacks: amount == 40_000_000 && threads == 1,
        is_cpp: true,
        job: Box::new(move |workshop| {
            let arguments = [threads.to_string(), rounds.to_string()];
            Ok(Job::new(workshop.program("churn.cc")?, arguments))
        }),
    }
}

fn stacks(extent: Extent) -> Row {
    let allocations = extent.of(4_000_000);
    Row {
        name: "rust-stacks".to_owned(),
        what: "Rust, 200 K distinct stacks, 4 M allocations".to_owned(),
        aim: None,
        threads: 1,
        is_counted: false,
        has_free_stacks: false,
        is_cpp: false,
        job: Box::new(move |workshop| {
            let arguments = ["200000".to_owned(), allocations.to_string()];
            Ok(Job::new(workshop.program("stacks.rs")?, arguments))
        }),
    }
}
