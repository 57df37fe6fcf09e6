//! Checks measured numbers against their budgets.

use std::collections::BTreeMap;

use crate::budgets::Budget;
use crate::case::Case;
use crate::configuration::Protocol;
use crate::spread::Spread;
use crate::tolerance::{Position, Tolerance};
use allotrope_profile::Metric;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckStatus {
    /// The number is its budget, or within the tolerance.
    WithinBudget,
    /// The number fluctuates, or did when it was accepted, and the difference is no larger
    /// than that.
    WithinNoise,
    /// The number exceeds its budget or, if less is not better for this metric, is below
    /// the tolerance.
    Exceeded,
    /// The number is above its limit, whatever its budget is.
    AboveLimit,
    /// The number is better than its budget.
    Improved,
    /// There is no budget.
    NoBudget,
    /// No allocations were measured, although the budget has some.
    NothingMeasured,
    /// The recording does not have this metric.
    NotRecorded,
}

impl CheckStatus {
    /// Whether the number is no different from its budget.
    pub fn passes(self) -> bool {
        matches!(self, Self::WithinBudget | Self::WithinNoise)
    }

    /// Whether the number is larger than allowed, or nothing says what is allowed.
    pub fn exceeds(self) -> bool {
        matches!(self, Self::Exceeded | Self::AboveLimit | Self::NoBudget)
    }

    /// Whether it fails the test.
    pub fn fails(self) -> bool {
        !self.passes() && self != Self::Improved
    }
}

/// A number and the result of its check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// The metric.
    pub metric: Metric,
    /// The accepted number.
    pub budget: Option<Spread>,
    /// The number now; `None` if a run did not record the metric.
    pub now: Option<Spread>,
    /// The tolerance.
    pub tolerance: Tolerance,
    /// The largest number that is allowed, whatever the budget is.
    pub limit: Option<i64>,
    /// How much of the number exceeds the budget and is allowed by a rule.
    pub allowed: u64,
    /// Whether the number is compared with its budget; otherwise only with its limit.
    pub is_gated: bool,
    /// The result.
    pub status: CheckStatus,
}

impl Check {
    /// The typical number now minus that of the budget.
    pub fn difference(&self) -> Option<i64> {
        Some(self.now?.typical.saturating_sub(self.budget?.typical))
    }

    /// Subtracts what allow-list rules cover (`of_runs`) from each run, at most down to the budget.
    pub fn allowing(self, case: &Case, of_runs: &[u64]) -> Self {
        let (Some(budget), CheckStatus::Exceeded) = (self.budget, self.status) else {
            return self;
        };
        let mut most = 0;
        let numbers = case.runs.iter().zip(of_runs).map(|(sample, &allowed)| {
            let number = sample.figure(self.metric)?;
            let excess = u64::try_from(number.saturating_sub(budget.typical)).unwrap_or(0);
            let allowed = allowed.min(excess);
            most = most.max(allowed);
            Some(number.saturating_sub_unsigned(allowed))
        });
        let numbers: Option<Vec<i64>> = numbers.collect();
        let Some(now) = numbers.and_then(Spread::of) else {
            return self;
        };
        Self {
            allowed: most,
            status: status(self.metric, budget, now, self.tolerance),
            ..self
        }
    }

    /// Checks against this limit. All runs must keep it.
    fn limited(self, limit: Option<i64>) -> Self {
        let most = self.now.map(|now| now.most);
        let is_above = most.zip(limit).is_some_and(|(most, limit)| most > limit);
        Self {
            limit,
            status: match is_above {
                true => CheckStatus::AboveLimit,
                false => self.status,
            },
            ..self
        }
    }

    /// Whether the number differs from the budget by more than noise.
    pub fn differs(&self) -> bool {
        let is_allowed = self.allowed > 0 || self.fluctuates();
        !self.status.passes() || !is_allowed && self.difference() != Some(0)
    }

    /// Whether the number differs between the runs, or did when it was accepted.
    pub fn fluctuates(&self) -> bool {
        let mut spreads = self.budget.iter().chain(&self.now);
        spreads.any(|spread| !spread.is_exact())
    }

    /// The numbers of runs that are no different from the budget; `None` if the budget is
    /// exact or has a tolerance.
    pub fn noise(&self) -> Option<[i64; 2]> {
        let budget = self.budget.filter(|budget| !budget.is_exact())?;
        self.tolerance
            .is_exact()
            .then(|| budget.noise(self.now.map_or(0, |now| now.runs)))
    }
}

/// Checks all metrics of a case that the protocol lists.
pub fn check_case(case: &Case, budget: Option<&Budget>, protocol: &Protocol) -> Vec<Check> {
    let gate = protocol.gate.iter();
    gate.map(|&metric| {
        let accepted = budget.and_then(|budget| budget.spread(metric));
        let tolerance = protocol.tolerance_of(metric);
        let mut check = check_metric(case, metric, accepted, tolerance);
        if let (Some(now), Some(accepted)) = (check.now, accepted)
            && protocol.least_counts
        {
            check.status = status(metric, accepted, Spread::exact(now.least), tolerance);
        }
        check.limited(protocol.limit.get(&metric).copied())
    })
    .chain(limited_only(case, protocol))
    .collect()
}

/// The metrics that have a limit and are not compared with a budget.
fn limited_only(case: &Case, protocol: &Protocol) -> impl Iterator<Item = Check> {
    let limits = protocol.limit.iter();
    let others = limits.filter(|(metric, _)| !protocol.gate.contains(metric));
    others.map(|(&metric, &limit)| {
        let now = case.spread(metric);
        let check = Check {
            metric,
            budget: None,
            now,
            tolerance: Tolerance::default(),
            limit: None,
            allowed: 0,
            is_gated: false,
            status: now.map_or(CheckStatus::NotRecorded, |_| CheckStatus::WithinBudget),
        };
        check.limited(Some(limit))
    })
}

/// The metrics that are stored without being checked, compared with what was stored. Those
/// that the runs did not record are left out.
pub fn watched(
    case: &Case,
    accepted: Option<&BTreeMap<Metric, Spread>>,
    protocol: &Protocol,
) -> Vec<Check> {
    let watch = protocol.watch.iter();
    let others = watch.filter(|metric| !protocol.gate.contains(metric));
    let checks = others.map(|&metric| {
        let accepted = accepted.and_then(|accepted| accepted.get(&metric).copied());
        let check = check_metric(case, metric, accepted, protocol.tolerance_of(metric));
        Check {
            is_gated: false,
            ..check
        }
    });
    checks.filter(|check| check.now.is_some()).collect()
}

fn check_metric(
    case: &Case,
    metric: Metric,
    budget: Option<Spread>,
    tolerance: Tolerance,
) -> Check {
    let now = case.spread(metric);
    let status = match (now, budget) {
        (None, _) => CheckStatus::NotRecorded,
        (_, None) => CheckStatus::NoBudget,
        (Some(now), Some(budget)) => status(metric, budget, now, tolerance),
    };
    Check {
        metric,
        budget,
        now,
        tolerance,
        limit: None,
        allowed: 0,
        is_gated: true,
        status,
    }
}

fn status(metric: Metric, budget: Spread, now: Spread, tolerance: Tolerance) -> CheckStatus {
    if metric == Metric::Allocations && now.least == 0 && budget.least > 0 {
        return CheckStatus::NothingMeasured;
    }
    let within = |number| tolerance.position(budget.typical, number) == Position::Within;
    match budget.position(&now, tolerance) {
        Position::Within if within(now.least) && within(now.most) => CheckStatus::WithinBudget,
        Position::Within => CheckStatus::WithinNoise,
        Position::Below if metric.less_is_better() => CheckStatus::Improved,
        Position::Above | Position::Below => CheckStatus::Exceeded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case_run::CaseRun;

    fn case(allocations: &[i64]) -> Case {
        let sample = |allocations: &i64| {
            let mut sample = CaseRun::default();
            sample.figures[Metric::Allocations as usize] = Some(*allocations);
            sample.figures[Metric::Net as usize] = Some(0);
            sample
        };
        Case {
            name: "x".into(),
            runs: allocations.iter().map(sample).collect(),
        }
    }

    fn status(metric: Metric, runs: &[i64], budget: Option<i64>) -> CheckStatus {
        let tolerance = Tolerance::absolute(1, 1);
        check_metric(&case(runs), metric, budget.map(Spread::exact), tolerance).status
    }

    #[test]
    fn all_runs_decide() {
        let allocations = |runs, budget| status(Metric::Allocations, runs, budget);
        assert_eq!(allocations(&[9, 11], Some(10)), CheckStatus::WithinBudget);
        assert_eq!(
            allocations(&[12, 11, 19], Some(10)),
            CheckStatus::WithinNoise
        );
        assert_eq!(allocations(&[12, 13], Some(10)), CheckStatus::Exceeded);
        assert_eq!(allocations(&[10, 8], Some(10)), CheckStatus::WithinNoise);
        assert_eq!(allocations(&[7, 8], Some(10)), CheckStatus::Improved);
        assert_eq!(allocations(&[10], None), CheckStatus::NoBudget);
    }

    #[test]
    fn measuring_nothing_fails() {
        assert_eq!(
            status(Metric::Allocations, &[0, 5], Some(10)),
            CheckStatus::NothingMeasured
        );
        assert_eq!(
            status(Metric::Allocations, &[0], Some(1)),
            CheckStatus::NothingMeasured
        );
        assert_eq!(
            status(Metric::Allocations, &[0], Some(0)),
            CheckStatus::WithinBudget
        );
        assert_eq!(
            status(Metric::LeakedFds, &[5], Some(0)),
            CheckStatus::NotRecorded
        );
        assert_eq!(
            status(Metric::Allocations, &[], Some(0)),
            CheckStatus::NotRecorded
        );
        assert!(CheckStatus::NothingMeasured.fails() && CheckStatus::NotRecorded.fails());
        assert!(CheckStatus::NoBudget.fails() && !CheckStatus::Improved.fails());
    }

    #[test]
    fn net_is_wrong_in_both_directions() {
        assert_eq!(status(Metric::Net, &[1], Some(2)), CheckStatus::Exceeded);
        assert_eq!(status(Metric::Net, &[1], Some(-2)), CheckStatus::Exceeded);
        assert_eq!(
            status(Metric::Net, &[1], Some(-1)),
            CheckStatus::WithinBudget
        );
    }
}
