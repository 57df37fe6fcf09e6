//! What a run of tests came to, as every output shows it. How it looks is the
//! outputs'.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use allotrope_diff::Diff;

use crate::budgets::{BudgetScope, Budgets};
use crate::check::{Check, CheckStatus};
use crate::fluctuation::Fluctuation;
use crate::measure::Problem;
use crate::metric::Metric;
use crate::sample::Sample;
use crate::toolchain::{Suspect, Toolchain};

/// What a run of tests came to.
#[derive(Debug, Default)]
pub struct Report {
    /// The tests, in the order in which they ran.
    pub tests: Vec<TestResult>,
    /// Files of budgets whose tests no longer exist.
    pub orphaned_budgets: Vec<PathBuf>,
    /// Where recordings were put, if they are still there.
    pub scratch: Option<PathBuf>,
    /// Whether allocations were recorded at all.
    pub recorded: bool,
}

/// What a test came to.
#[derive(Debug, Default)]
pub struct TestResult {
    /// Its name.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it ran.
    pub folder: PathBuf,
    /// Variables that were set for it.
    pub environment: Vec<(OsString, OsString)>,
    /// How long it took.
    pub duration: Duration,
    /// Why it could not be measured to its end.
    pub problem: Option<Problem>,
    /// What was measured.
    pub cases: Vec<CaseResult>,
    /// Cases that have a budget and were not measured.
    pub not_measured: Vec<String>,
    /// What is not as it was when the numbers were accepted.
    pub suspects: Vec<Suspect>,
    /// What a person should know before trusting the numbers.
    pub notes: Vec<String>,
    /// The end of what it printed.
    pub output: String,
    /// Its last recording.
    pub trace: Option<PathBuf>,
    /// What it was built with.
    pub toolchain: Option<Toolchain>,
    /// The numbers that it was compared with.
    pub budgets: Option<Budgets>,
    /// It was counted without stacks.
    pub counts_only: bool,
    /// A line for a shell that runs it again, with stacks.
    pub reproduce: String,
}

/// What a case came to.
#[derive(Debug)]
pub struct CaseResult {
    /// `TEST`, or `TEST/WINDOW`.
    pub name: String,
    /// Iterations of a run, if known.
    pub iterations: Option<u64>,
    /// Every run.
    pub samples: Vec<Sample>,
    /// Every gated number.
    pub checks: Vec<Check>,
    /// The stacks that explain the numbers that are not kept, and leaks.
    pub explanations: Vec<Explanation>,
    /// What differs between the runs.
    pub fluctuations: Vec<Fluctuation>,
    /// Runs that left more behind than another did, which the least hides.
    pub leaks: Vec<Leak>,
}

/// The stacks that explain a number.
#[derive(Debug)]
pub struct Explanation {
    /// The number.
    pub metric: Metric,
    /// The run whose stacks these are, from 1.
    pub run: usize,
    /// Whether there is an accepted profile; all stacks of the run otherwise.
    pub accepted: bool,
    /// The accepted profile against the run.
    pub diff: Diff,
}

/// A run that left something behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// The run, from 1.
    pub run: usize,
    /// [`Metric::Remaining`] or [`Metric::LeakedFds`].
    pub metric: Metric,
    /// How many.
    pub figure: i64,
    /// Of file descriptors what they are open on.
    pub names: Vec<String>,
}

/// How a test or case ended, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It keeps its budgets.
    Passed,
    /// It is better than its budgets know.
    Improved,
    /// It does not keep them, or could not be measured.
    Failed,
}

impl CaseResult {
    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        let statuses = self.checks.iter().map(|check| check.status);
        let outcomes = statuses.map(|status| match status {
            CheckStatus::WithinBudget => Outcome::Passed,
            CheckStatus::Improved => Outcome::Improved,
            _ => Outcome::Failed,
        });
        outcomes.max().unwrap_or(Outcome::Failed)
    }

    /// The smallest figure of all runs.
    pub fn least(&self, metric: Metric) -> Option<i64> {
        let figures: Option<Vec<i64>> = self
            .samples
            .iter()
            .map(|sample| sample.figure(metric))
            .collect();
        figures?.into_iter().min()
    }
}

impl TestResult {
    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        if self.problem.is_some() || self.cases.is_empty() || !self.not_measured.is_empty() {
            return Outcome::Failed;
        }
        let outcomes = self.cases.iter().map(CaseResult::outcome);
        outcomes.max().unwrap_or(Outcome::Failed)
    }

    /// Whether its numbers are those of one platform alone.
    pub fn of_platform(&self) -> bool {
        let scope = self.budgets.as_ref().map(|budgets| &budgets.scope);
        matches!(scope, Some(BudgetScope::Platform(_)))
    }
}

impl Report {
    /// How all of it ended. Nothing is judged where nothing was recorded.
    pub fn outcome(&self) -> Outcome {
        if !self.recorded {
            let failed = self.tests.iter().any(|test| test.problem.is_some());
            return if failed {
                Outcome::Failed
            } else {
                Outcome::Passed
            };
        }
        let outcomes = self.tests.iter().map(TestResult::outcome);
        outcomes.max().unwrap_or(Outcome::Passed)
    }
}
