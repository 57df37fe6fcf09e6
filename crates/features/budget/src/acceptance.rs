//! Accepts measured numbers: writes them as the new budgets.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::budgets::{Budget, BudgetError, BudgetFolder, BudgetScope, Budgets, Number, profile};
use crate::case_run::CaseRun;
use crate::check::{Check, CheckStatus};
use crate::outputs::wording;
use crate::result::{CaseResult, TestResult};
use crate::spread::Spread;
use allotrope_profile::Metric;

/// The result of accepting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepted {
    /// The numbers that changed.
    pub changes: Vec<Change>,
    /// The numbers of cases that were refused because one of them rose or is new.
    pub refused: Vec<Change>,
    /// Files that changed.
    pub files: Vec<PathBuf>,
}

/// What to accept, and how.
#[derive(Debug, Clone)]
pub struct Acceptance<'a> {
    /// The platforms whose numbers are written.
    pub scope: BudgetScope,
    /// The reason for the numbers that change.
    pub because: Option<&'a str>,
    /// The largest number of stacks of a case.
    pub max_stacks: usize,
    /// Leaves cases as they are in which a checked number rose or is new.
    pub only_improvements: bool,
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
        if is_empty_program(result, case) {
            return Some(Refusal::NotMeasured(format!(
                "{}: the whole program made no allocation: it did nothing, or the recorder did \
                 not see it (a window may have a budget of 0)",
                case.name
            )));
        }
        let mut checks = case.checks.iter();
        checks.find_map(|check| refusal_of(&case.name, check))
    })
}

/// Whether a case is a whole program without allocations whose budget is not 0. A program
/// that does nothing, for example because an argument is wrong, would pass for ever.
fn is_empty_program(result: &TestResult, case: &CaseResult) -> bool {
    let zero = |spread: Spread| spread.most == 0;
    let mut checks = case.checks.iter().filter(|check| check.is_gated);
    result.whole_program
        && checks.any(|check| {
            check.metric == Metric::Allocations
                && check.now.is_some_and(zero)
                && !check.budget.is_some_and(zero)
        })
}

fn refusal_of(case: &str, check: &Check) -> Option<Refusal> {
    match check.status {
        CheckStatus::NotRecorded => Some(Refusal::NotMeasured(format!(
            "`{}` names {}, which {case} does not give",
            if check.is_gated { "gate" } else { "limit" },
            check.metric
        ))),
        CheckStatus::NothingMeasured => Some(Refusal::NotMeasured(format!(
            "{case}: {}; if that is intended, remove its budget first",
            wording::sentence(check)
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
/// unchanged code changes no file. If only some cases were selected, the others stay as
/// they are, too.
///
/// # Errors
/// Files that cannot be read or written.
pub fn accept(
    result: &TestResult,
    folder: &BudgetFolder,
    acceptance: &Acceptance<'_>,
) -> Result<Accepted, BudgetError> {
    let scope = &acceptance.scope;
    let before = result.budgets.as_ref().map(|budgets| &budgets.cases);
    let none = BTreeMap::new();
    let before = before.unwrap_or(&none);
    let own = result.budgets.as_ref();
    let own = own.is_some_and(|budgets| budgets.scope == *scope);
    // Stacks that cannot be read are written again.
    let mut profiles = folder.profiles(&result.name, scope).unwrap_or_default();
    let mut cases = BTreeMap::new();
    if result.has_selected_cases || acceptance.only_improvements {
        cases.clone_from(before);
    }
    let (mut refused, mut moved) = (Vec::new(), Vec::new());
    let mut repaired = false;
    for case in &result.cases {
        let old = before.get(&case.name);
        if acceptance.only_improvements {
            let rises = rises(case);
            if !rises.is_empty() {
                refused.extend(rises);
                continue;
            }
        }
        let run = representative_run(case);
        let mut budget = budget(case, old, run, acceptance.because);
        let has_stacks = case
            .runs
            .iter()
            .any(|run| run.stacks.known.has(Metric::Allocations));
        let tree = profiles.get(&case.name);
        let tree = tree.filter(|tree| tree.has_stacks());
        let fits = |old: &Budget| match tree {
            Some(tree) => tree.disagreement(old).is_none(),
            None => !has_stacks,
        };
        match old {
            Some(old) if *old == budget && own && fits(old) => {}
            _ => {
                repaired = true;
                adjust_typical(&mut budget, case, run);
                let stacks = case.runs.get(run).map(|run| &run.stacks);
                match stacks.filter(|stacks| !stacks.stacks.is_empty()) {
                    Some(stacks) => {
                        let gated = case.checks.iter().filter(|check| check.is_gated);
                        let metrics: Vec<Metric> = gated.map(|check| check.metric).collect();
                        let tree = profile(stacks, &metrics, acceptance.max_stacks);
                        profiles.insert(case.name.clone(), tree);
                    }
                    None => drop(profiles.remove(&case.name)),
                }
            }
        }
        let watched = watched(case);
        moved.extend(watched_changes(case));
        let stored = profiles.get(&case.name).map(|tree| &tree.watched);
        if stored.unwrap_or(&BTreeMap::new()) != &watched {
            repaired = true;
            profiles.entry(case.name.clone()).or_default().watched = watched;
        }
        cases.insert(case.name.clone(), budget);
    }
    let mut changes = changes(before, &cases);
    changes.extend(moved);
    if own && *before == cases && !repaired {
        return Ok(Accepted {
            refused,
            ..Accepted::default()
        });
    }
    if cases.is_empty() {
        // Everything was refused, and there was nothing before.
        return Ok(Accepted {
            refused,
            ..Accepted::default()
        });
    }
    profiles.retain(|case, _| cases.contains_key(case));
    let budgets = Budgets {
        scope: scope.clone(),
        toolchain: result.toolchain.clone(),
        cases,
    };
    let files = folder.write(&result.name, &budgets, &profiles)?;
    Ok(Accepted {
        changes,
        refused,
        files,
    })
}

/// The checked numbers of a case that rose or are new.
fn rises(case: &CaseResult) -> Vec<Change> {
    let gated = case.checks.iter().filter(|check| check.is_gated);
    let rises = gated.filter(|check| check.status.exceeds());
    let change = |check: &Check| Change {
        case: case.name.clone(),
        metric: check.metric,
        was: check.budget,
        is: check.now,
    };
    rises.map(change).collect()
}

/// The new budget of a case: the numbers of the old one that are no different, and the
/// others as measured.
fn budget(case: &CaseResult, old: Option<&Budget>, run: usize, because: Option<&str>) -> Budget {
    let gated = case.checks.iter().filter(|check| check.is_gated);
    // The numbers of new stacks are those of one run.
    let has_new_stacks = gated.clone().any(Check::differs);
    let numbers = gated.filter_map(|check| {
        let now = check.now?;
        let old = old.and_then(|old| old.numbers.get(&check.metric));
        let is_new = check.differs() || has_new_stacks && check.allowed > 0;
        if let Some(old) = old.filter(|_| !is_new) {
            return Some((check.metric, old.clone()));
        }
        let spread = if now.is_exact() {
            Spread::exact(now.least)
        } else {
            let typical = case.runs.get(run)?.figure(check.metric)?;
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

/// The numbers of a case that are stored without being checked: the old ones that are no
/// different, and the others as measured.
fn watched(case: &CaseResult) -> BTreeMap<Metric, Spread> {
    let spread = |check: &Check| match check.budget {
        Some(budget) if !check.differs() => Some(budget),
        _ => check.now,
    };
    let watched = case.watched.iter();
    watched
        .filter_map(|check| Some((check.metric, spread(check)?)))
        .collect()
}

/// Returns those of the watched numbers that change.
fn watched_changes(case: &CaseResult) -> impl Iterator<Item = Change> {
    let changed = case.watched.iter().filter(|check| check.differs());
    changed.map(|check| Change {
        case: case.name.clone(),
        metric: check.metric,
        was: check.budget,
        is: check.now,
    })
}

/// Makes the typical numbers those of the run whose stacks are written, including those of
/// numbers that stay as they are.
fn adjust_typical(budget: &mut Budget, case: &CaseResult, run: usize) {
    for (&metric, Number { spread, .. }) in &mut budget.numbers {
        let figure = case.runs.get(run).and_then(|run| run.figure(metric));
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
    let distance = |sample: &CaseRun| -> f64 {
        let distances = case.checks.iter().filter_map(|check| {
            let now = check.now.filter(|now| !now.is_exact())?;
            let away = sample.figure(check.metric)?.abs_diff(now.typical);
            Some(away as f64 / now.most.abs_diff(now.least) as f64)
        });
        distances.sum()
    };
    let runs = case.runs.iter().enumerate();
    let nearest = runs.min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
    nearest.map_or(0, |(run, _)| run)
}

impl Change {
    /// The number now minus the number before, if it had both.
    pub fn difference(&self) -> Option<i64> {
        Some(self.is?.typical.saturating_sub(self.was?.typical))
    }
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
