//! Accepts measured numbers: writes them as the new budgets.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::budgets::{Budget, BudgetError, BudgetFolder, BudgetScope, Budgets, Number, profile};
use crate::check::{Check, CheckStatus};
use crate::outputs::wording;
use crate::result::{CaseResult, TestResult};
use crate::sample::Sample;
use crate::spread::Spread;
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
    pub was: Option<Spread>,
    /// The number now; `None` if it is gone.
    pub is: Option<Spread>,
}

/// Why a test's numbers cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It has no numbers, or none that mean anything.
    NotMeasured(String),
    /// A number is larger than it may ever be.
    AboveLimit(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotMeasured(why) | Self::AboveLimit(why)) = self;
        to.write_str(why)
    }
}

/// Why a test's numbers cannot be accepted; `None` if they can.
pub fn refusal(result: &TestResult) -> Option<Refusal> {
    if let Some(problem) = &result.problem {
        return Some(Refusal::NotMeasured(problem.to_string()));
    }
    if result.cases.is_empty() {
        return Some(Refusal::NotMeasured("nothing was measured".to_owned()));
    }
    result.cases.iter().find_map(|case| {
        let mut checks = case.checks.iter();
        checks.find_map(|check| refusal_of(&case.name, check))
    })
}

fn refusal_of(case: &str, check: &Check) -> Option<Refusal> {
    match check.status {
        CheckStatus::NotRecorded => Some(Refusal::NotMeasured(format!(
            "`{}` names {}, which {case} does not give",
            if check.is_gated { "gate" } else { "limit" },
            check.metric
        ))),
        CheckStatus::AboveLimit => Some(Refusal::AboveLimit(format!(
            "{case}: {}",
            wording::sentence(check)
        ))),
        _ => None,
    }
}

/// Writes the numbers of a test that changed, for all platforms or one. A number that is
/// no different from its budget stays as it is, with its reason, so that accepting
/// unchanged code changes no file. `because` is the reason for the others.
///
/// # Errors
/// Files that cannot be read or written.
pub fn accept(
    result: &TestResult,
    folder: &BudgetFolder,
    scope: BudgetScope,
    because: Option<&str>,
    max_stacks: usize,
) -> Result<Accepted, BudgetError> {
    let before = result.budgets.as_ref().map(|budgets| &budgets.cases);
    let none = BTreeMap::new();
    let before = before.unwrap_or(&none);
    let own = result.budgets.as_ref();
    let own = own.is_some_and(|budgets| budgets.scope == scope);
    // Stacks that cannot be read are written again.
    let mut profiles = folder.profiles(&result.name, &scope).unwrap_or_default();
    let mut cases = BTreeMap::new();
    let mut repaired = false;
    for case in &result.cases {
        let old = before.get(&case.name);
        let run = representative_run(case);
        let mut budget = budget(case, old, run, because);
        let has_stacks = case
            .samples
            .iter()
            .any(|sample| sample.stacks.known.has(Metric::Allocations));
        let fits = |old: &Budget| match profiles.get(&case.name) {
            Some(tree) => tree.disagreement(old).is_none(),
            None => !has_stacks,
        };
        match old {
            Some(old) if *old == budget && own && fits(old) => {}
            _ => {
                repaired = true;
                adjust_typical(&mut budget, case, run);
                let stacks = case.samples.get(run).map(|sample| &sample.stacks);
                match stacks.filter(|stacks| !stacks.stacks.is_empty()) {
                    Some(stacks) => {
                        let gated = case.checks.iter().filter(|check| check.is_gated);
                        let metrics: Vec<Metric> = gated.map(|check| check.metric).collect();
                        let tree = profile(stacks, &metrics, max_stacks);
                        profiles.insert(case.name.clone(), tree);
                    }
                    None => drop(profiles.remove(&case.name)),
                }
            }
        }
        cases.insert(case.name.clone(), budget);
    }
    let changes = changes(before, &cases);
    if own && *before == cases && !repaired {
        return Ok(Accepted::default());
    }
    profiles.retain(|case, _| cases.contains_key(case));
    let budgets = Budgets {
        scope,
        toolchain: result.toolchain.clone(),
        cases,
    };
    let files = folder.write(&result.name, &budgets, &profiles)?;
    Ok(Accepted { changes, files })
}

/// The new budget of a case: the numbers of the old one that are no different, and the
/// others as measured.
fn budget(case: &CaseResult, old: Option<&Budget>, run: usize, because: Option<&str>) -> Budget {
    let gated = case.checks.iter().filter(|check| check.is_gated);
    let stored = gated.chain(&case.watched);
    let numbers = stored.filter_map(|check| {
        let now = check.now?;
        let old = old.and_then(|old| old.numbers.get(&check.metric));
        if let Some(old) = old.filter(|_| !check.differs()) {
            return Some((check.metric, old.clone()));
        }
        let spread = if now.is_exact() {
            Spread::exact(now.least)
        } else {
            let typical = case.samples.get(run)?.figure(check.metric)?;
            Spread { typical, ..now }
        };
        let because = because.map(str::to_owned);
        Some((check.metric, Number { spread, because }))
    });
    Budget {
        iterations: case.iterations,
        numbers: numbers.collect(),
    }
}

/// Makes the typical numbers those of the run whose stacks are written, including those of
/// numbers that stay as they are.
fn adjust_typical(budget: &mut Budget, case: &CaseResult, run: usize) {
    for (&metric, Number { spread, .. }) in &mut budget.numbers {
        let figure = case.samples.get(run).and_then(|run| run.figure(metric));
        if let Some(figure) = figure.filter(|_| !spread.is_exact()) {
            spread.typical = figure;
            spread.least = spread.least.min(figure);
            spread.most = spread.most.max(figure);
        }
    }
}

/// The run whose stacks are written: the one whose numbers are nearest to the medians, in
/// units of their spreads.
fn representative_run(case: &CaseResult) -> usize {
    let distance = |sample: &Sample| -> f64 {
        let distances = case.checks.iter().filter_map(|check| {
            let now = check.now.filter(|now| !now.is_exact())?;
            let away = sample.figure(check.metric)?.abs_diff(now.typical);
            Some(away as f64 / now.most.abs_diff(now.least) as f64)
        });
        distances.sum()
    };
    let runs = case.samples.iter().enumerate();
    let nearest = runs.min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
    nearest.map_or(0, |(run, _)| run)
}

fn changes(before: &BTreeMap<String, Budget>, after: &BTreeMap<String, Budget>) -> Vec<Change> {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let mut changes = Vec::new();
    for name in names {
        for metric in Metric::OF_RUNS {
            let spread = |cases: &BTreeMap<String, Budget>| cases.get(name)?.spread(metric);
            let (was, is) = (spread(before), spread(after));
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
