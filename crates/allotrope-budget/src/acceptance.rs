//! Accepts measured numbers: writes them as the new budgets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::budgets::{Budget, BudgetError, BudgetFolder, BudgetScope, Budgets};
use crate::check::CheckStatus;
use crate::result::{CaseResult, TestResult};
use allotrope_profile::Metric;

/// The result of accepting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepted {
    /// The numbers that changed.
    pub changes: Vec<Change>,
    /// Files that changed.
    pub files: Vec<PathBuf>,
}

/// A number that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The case.
    pub case: String,
    /// The metric.
    pub metric: Metric,
    /// The number before; `None` if it is new.
    pub was: Option<i64>,
    /// The number now; `None` if it is gone.
    pub is: Option<i64>,
}

/// Why a test's numbers cannot be accepted; `None` if they can.
pub fn refusal(result: &TestResult) -> Option<String> {
    if let Some(problem) = &result.problem {
        return Some(problem.to_string());
    }
    if result.cases.is_empty() {
        return Some("nothing was measured".to_owned());
    }
    result.cases.iter().find_map(|case| {
        let mut unknown = case.checks.iter();
        let unknown = unknown.find(|check| check.status == CheckStatus::NotRecorded)?;
        let (name, metric) = (&case.name, unknown.metric);
        Some(format!("`gate` names {metric}, which {name} does not give"))
    })
}

/// Writes the numbers of a test, for all platforms or one.
///
/// # Errors
/// Files that cannot be read or written.
pub fn accept(
    result: &TestResult,
    folder: &BudgetFolder,
    scope: BudgetScope,
    max_stacks: usize,
) -> Result<Accepted, BudgetError> {
    let cases: BTreeMap<String, Budget> = result
        .cases
        .iter()
        .map(|case| (case.name.clone(), budget(case)))
        .collect();
    let profiles = result.cases.iter().filter_map(|case| {
        let run = representative_run(case)?;
        let stacks = &case.samples[run].stacks;
        (!stacks.stacks.is_empty()).then(|| (case.name.clone(), stacks.clone()))
    });
    let before = result.budgets.as_ref().map(|budgets| &budgets.cases);
    let changes = changes(before.unwrap_or(&BTreeMap::new()), &cases);
    let budgets = Budgets {
        scope,
        toolchain: result.toolchain.clone(),
        cases,
    };
    let files = folder.write(&result.name, &budgets, &profiles.collect(), max_stacks)?;
    Ok(Accepted { changes, files })
}

fn budget(case: &CaseResult) -> Budget {
    let figures = case.checks.iter();
    Budget {
        iterations: case.iterations,
        figures: figures
            .filter_map(|check| Some((check.metric, check.minimum?)))
            .collect(),
    }
}

/// The run whose stacks are written: the first with the fewest allocations.
fn representative_run(case: &CaseResult) -> Option<usize> {
    let least = case.least(Metric::Allocations)?;
    let mut samples = case.samples.iter();
    samples.position(|sample| sample.figure(Metric::Allocations) == Some(least))
}

fn changes(before: &BTreeMap<String, Budget>, after: &BTreeMap<String, Budget>) -> Vec<Change> {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let mut changes = Vec::new();
    for name in names {
        for metric in Metric::OF_RUNS {
            let figure = |cases: &BTreeMap<String, Budget>| {
                cases
                    .get(name)
                    .and_then(|case| case.figures.get(&metric).copied())
            };
            let (was, is) = (figure(before), figure(after));
            if was != is {
                changes.push(Change {
                    case: name.clone(),
                    metric,
                    was,
                    is,
                });
            }
        }
    }
    changes
}
