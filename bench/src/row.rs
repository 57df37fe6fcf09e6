//! The rows of the standard table: which programs, how much of them, and what
//! is aimed at.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::figures::count;
use crate::job::Job;
use crate::real_programs;
use crate::workshop::Workshop;

/// Makes what is run.
pub type MakeJob = Box<dyn Fn(&Workshop) -> Result<Job>>;

/// A row: a program and what is aimed at.
pub struct Row {
    /// What `--only` is compared with.
    pub name: String,
    /// What it is, for a reader of the table.
    pub what: String,
    /// What recording may cost.
    pub aim: Option<Aim>,
    /// Threads that allocate.
    pub threads: u32,
    /// Whether counting without stacks is measured, too.
    pub is_counted: bool,
    /// Whether it is a C++ program, for which an aim of trace size stands.
    pub is_cpp: bool,
    /// Makes what is run; the machine may lack something.
    pub job: MakeJob,
}

/// What recording may cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Aim {
    /// At most so many nanoseconds an operation more than plain.
    Over(f64),
    /// At most so many times the plain time.
    Times(f64),
    /// At least this part of the plain throughput.
    Part(f64),
}

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What the aims are stated for.
    Full,
    /// About a twentieth: shows that everything works.
    Quick,
}

impl Extent {
    /// So much of an amount.
    pub fn of(self, amount: u64) -> u64 {
        match self {
            Self::Full => amount,
            Self::Quick => amount / 20,
        }
    }
}

/// A churn round makes about so many allocations.
pub const ALLOCATIONS_A_ROUND: u64 = 385;

/// All rows.
pub fn rows(extent: Extent) -> Vec<Row> {
    let mut rows = Vec::new();
    for (depth, most) in [(5, 20.0), (20, 40.0), (80, 100.0)] {
        for (size, text) in [(64, "64 B"), (16 << 10, "16 KiB"), (1 << 20, "1 MiB")] {
            rows.push(pair(extent, depth, most, size, text));
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

fn pair(extent: Extent, depth: u32, most: f64, size: u64, text: &str) -> Row {
    let pairs = extent.of(20_000_000);
    Row {
        name: format!("pair-{depth}-{size}"),
        what: format!("malloc({text})+free, {depth} frames deep"),
        aim: Some(Aim::Over(most)),
        threads: 1,
        is_counted: size == 64,
        is_cpp: false,
        job: Box::new(move |workshop| {
            let arguments = [depth.to_string(), size.to_string(), pairs.to_string()];
            Ok(Job::new(workshop.program("pair.c")?, arguments).printing())
        }),
    }
}

fn churn(extent: Extent, threads: u32, times: f64, amount: u64) -> Row {
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
        is_cpp: false,
        job: Box::new(move |workshop| {
            let arguments = ["200000".to_owned(), allocations.to_string()];
            Ok(Job::new(workshop.program("stacks.rs")?, arguments))
        }),
    }
}
