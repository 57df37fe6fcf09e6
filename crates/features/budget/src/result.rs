//! The results of a session, from which all outputs are written.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use allotrope_diff::Diff;

use crate::allowance::Allowed;
use crate::budgets::{BudgetScope, Budgets};
use crate::case_run::CaseRun;
use crate::check::{Check, CheckStatus};
use crate::fluctuation::Fluctuation;
use crate::problem::Problem;
use crate::toolchain::{Suspect, Toolchain};
use allotrope_profile::Metric;

/// The results of a session.
#[derive(Debug, Default)]
pub struct Report {
    /// The tests in the order of their runs.
    pub tests: Vec<TestResult>,
    /// Programs that could be tests and opened no window.
    pub without_windows: Vec<String>,
    /// Budget files whose tests no longer exist.
    pub orphaned_budgets: Vec<PathBuf>,
    /// Tests and cases that seem to have got another name.
    pub renames: Vec<Rename>,
    /// The folder of the recordings, if it was kept.
    pub scratch: Option<PathBuf>,
    /// Whether the programs were recorded.
    pub recorded: bool,
    /// The shell command that runs the tests, up to their names.
    pub command: String,
}

/// The result of a test.
#[derive(Debug, Default)]
pub struct TestResult {
    /// The name.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Working directory of the program.
    pub folder: PathBuf,
    /// The file that was its standard input.
    pub stdin: Option<PathBuf>,
    /// Variables that were set for it.
    pub environment: Vec<(OsString, OsString)>,
    /// The time that it took.
    pub duration: Duration,
    /// Why the measurement failed.
    pub problem: Option<Problem>,
    /// The cases that were measured.
    pub cases: Vec<CaseResult>,
    /// Cases with a budget that were not measured.
    pub not_measured: Vec<String>,
    /// What has changed in the toolchain since the numbers were accepted.
    pub suspects: Vec<Suspect>,
    /// Notes on how far the numbers can be trusted.
    pub notes: Vec<String>,
    /// The end of its output.
    pub output: String,
    /// The path of the last recording.
    pub trace: Option<PathBuf>,
    /// The toolchain that built it.
    pub toolchain: Option<Toolchain>,
    /// The names of its own modules that were compiled without optimisation.
    pub unoptimised: Vec<String>,
    /// The accepted numbers.
    pub budgets: Option<Budgets>,
    /// Whether it was recorded.
    pub is_recorded: bool,
    /// The only case of the test is the whole program, which opened no window.
    pub whole_program: bool,
    /// Some of its cases were selected, and the others left out.
    pub has_selected_cases: bool,
    /// The test was recorded without stacks.
    pub counts_only: bool,
    /// A shell command that runs the test again, with stacks.
    pub reproduce: String,
    /// The configuration's path in the repository and the line that defines the test.
    pub definition: Option<(String, u32)>,
}

/// The result of a case.
#[derive(Debug)]
pub struct CaseResult {
    /// `TEST`, or `TEST/WINDOW`.
    pub name: String,
    /// Iterations in a run, if known.
    pub iterations: Option<u64>,
    /// The figures of every run.
    pub runs: Vec<CaseRun>,
    /// The result for each checked metric.
    pub checks: Vec<Check>,
    /// Metrics that are stored and not checked, compared with what was stored.
    pub watched: Vec<Check>,
    /// What rules of the allow-list allowed.
    pub allowed: Vec<Allowed>,
    /// The stacks that explain failed checks and leaks.
    pub explanations: Vec<Explanation>,
    /// Failed checks that no stacks can explain.
    pub unexplained: Vec<Unexplained>,
    /// What differs between the runs.
    pub fluctuations: Vec<Fluctuation>,
    /// Runs that left more behind than the run with the minimum.
    pub leaks: Vec<Leak>,
}

/// The stacks that explain a figure.
#[derive(Debug)]
pub struct Explanation {
    /// The metric.
    pub metric: Metric,
    /// The run that has the stacks, from 1.
    pub run: usize,
    /// Whether there are accepted stacks; without any, the diff lists all
    /// stacks of the run.
    pub accepted: bool,
    /// The run's number minus the accepted one, or the number if none was accepted: the
    /// sum of the entries of `diff` and the `rest`.
    pub difference: i64,
    /// The part of the difference that no stack has.
    pub rest: i64,
    /// Sentences about the rest. The first begins with `rest +1,234:` if there is one.
    pub remarks: Vec<String>,
    /// File and line of the frame that is blamed for the largest entry, if it is a file of
    /// the repository.
    pub location: Option<(String, u32)>,
    /// The difference between the accepted stacks and those of the run.
    pub diff: Diff,
}

/// A number that differs from its budget and has no stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unexplained {
    /// The metric.
    pub metric: Metric,
    /// What is known, and what shows more.
    pub remark: String,
}

/// Allocations or file descriptors that a run left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// The run, from 1.
    pub run: usize,
    /// [`Metric::Remaining`] or [`Metric::LeakedFds`].
    pub metric: Metric,
    /// The number of allocations or descriptors.
    pub figure: i64,
    /// The files that the descriptors refer to.
    pub names: Vec<String>,
}

/// The outcome of a test or case, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All numbers are within their budgets.
    Passed,
    /// At least one number is better than its budget; none is worse.
    Improved,
    /// A number exceeds its budget, or the measurement failed.
    Failed,
}

impl CaseResult {
    /// The worst outcome of the checks.
    pub fn outcome(&self) -> Outcome {
        let statuses = self.checks.iter().map(|check| check.status);
        let outcomes = statuses.map(|status| match status {
            status if status.passes() => Outcome::Passed,
            CheckStatus::Improved => Outcome::Improved,
            _ => Outcome::Failed,
        });
        outcomes.max().unwrap_or(Outcome::Failed)
    }
}

impl TestResult {
    /// The worst outcome of the cases, or failure if the measurement failed.
    pub fn outcome(&self) -> Outcome {
        if self.problem.is_some() || self.cases.is_empty() || !self.not_measured.is_empty() {
            return Outcome::Failed;
        }
        let outcomes = self.cases.iter().map(CaseResult::outcome);
        outcomes.max().unwrap_or(Outcome::Failed)
    }

    /// Whether it has no case, no problem and no budget. Only a program that counts for its
    /// windows alone can have that result.
    pub fn has_nothing(&self) -> bool {
        self.cases.is_empty() && self.problem.is_none() && self.not_measured.is_empty()
    }

    /// Whether its budgets apply to one platform only.
    pub fn of_platform(&self) -> bool {
        let scope = self.budgets.as_ref().map(|budgets| &budgets.scope);
        matches!(scope, Some(BudgetScope::Platform(_)))
    }
}

impl Report {
    /// Whether a number exceeds its budget or has none. A report that failed for no such
    /// number has tests that could not be measured.
    pub fn exceeds(&self) -> bool {
        let cases = self.tests.iter().flat_map(|test| &test.cases);
        let mut checks = cases.flat_map(|case| &case.checks);
        checks.any(|check| check.status.exceeds())
    }

    /// Whether the budget of a test cannot be read.
    pub fn has_unreadable_budget(&self) -> bool {
        let mut problems = self.tests.iter().filter_map(|test| test.problem.as_ref());
        problems.any(|problem| matches!(problem, Problem::Budget(_)))
    }

    /// The worst outcome of all tests. Unrecorded tests fail only if their
    /// program does.
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

/// A test or case that seems to have got another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    /// The name of its budgets.
    pub old: String,
    /// The name of the test or case now.
    pub new: String,
}
