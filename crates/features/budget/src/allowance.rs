//! Allow-lists: additional allocations of some stacks that somebody has approved, with a
//! reason. A number may exceed its budget by as much as such stacks have more than the
//! accepted ones, up to a bound.

use allotrope_profile::{Filter, Metric, StackSet};

use crate::budgets::{Budget, CallTree};
use crate::case::Case;

/// A rule of an allow-list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// The stacks: those with a frame that the filter matches.
    pub stacks: Filter,
    /// What they may have more of. Stacks have figures of it.
    pub metric: Metric,
    /// Largest amount by which they may have more than the accepted stacks, in each case.
    pub up_to: u64,
    /// Why.
    pub reason: String,
}

/// How much a rule allows of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// The metric.
    pub metric: Metric,
    /// The largest part of a run's number that is allowed.
    pub number: u64,
    /// Why.
    pub reason: String,
}

impl Allowance {
    /// Whether the sums of stacks are numbers of this metric, so that a rule can be about it.
    pub fn is_possible(metric: Metric) -> bool {
        matches!(
            metric,
            Metric::Allocations | Metric::Bytes | Metric::Remaining | Metric::Temporary
        )
    }

    /// Whether a stack of a run of any of these cases matches.
    pub fn matches_any(&self, cases: &[Case]) -> bool {
        let runs = cases.iter().flat_map(|case| &case.runs);
        let mut sets = runs.map(|run| &run.stacks);
        sets.any(|set| {
            let matching = self.matching_frames(set);
            let mut frames = set.stacks.iter().flat_map(|stack| &stack.frames);
            frames.any(|frame| matching.get(*frame as usize) == Some(&true))
        })
    }

    fn matching_frames(&self, set: &StackSet) -> Vec<bool> {
        let frames = set.frames.iter();
        frames
            .map(|it| self.stacks.matches(&it.function, &it.file, &it.module))
            .collect()
    }

    /// The sum over the matching stacks.
    fn sum(&self, set: &StackSet) -> u64 {
        let Some(of_stacks) = self.metric.of_stacks() else {
            return 0;
        };
        let matching = self.matching_frames(set);
        let matches = |frame: &u32| matching.get(*frame as usize) == Some(&true);
        let stacks = set.stacks.iter().filter(|it| it.frames.iter().any(matches));
        stacks
            .map(|stack| stack.figures[of_stacks as usize])
            .fold(0, u64::saturating_add)
    }
}

/// What the rules allow of a metric in each run of a case, beyond the accepted stacks; and
/// the rules that allow something. Nothing without accepted stacks, unless the budget is 0.
pub fn allowed(
    rules: &[Allowance],
    case: &Case,
    metric: Metric,
    budget: Option<&Budget>,
    accepted: Option<&CallTree>,
) -> (Vec<u64>, Vec<Allowed>) {
    let mut of_runs = vec![0_u64; case.runs.len()];
    let mut by_rule = Vec::new();
    let is_zero = budget.and_then(|budget| budget.spread(metric));
    let is_zero = is_zero.is_some_and(|spread| spread.most == 0);
    let rules = rules.iter().filter(|rule| rule.metric == metric);
    for rule in rules {
        let mut most = 0;
        for (sample, of_run) in case.runs.iter().zip(&mut of_runs) {
            let before = match accepted {
                Some(tree) => rule.sum(&tree.stacks(&sample.stacks)),
                None if is_zero => 0,
                None => continue,
            };
            let more = rule.sum(&sample.stacks).saturating_sub(before);
            let number = more.min(rule.up_to);
            *of_run = of_run.saturating_add(number);
            most = most.max(number);
        }
        if most > 0 {
            by_rule.push(Allowed {
                metric,
                number: most,
                reason: rule.reason.clone(),
            });
        }
    }
    (of_runs, by_rule)
}
