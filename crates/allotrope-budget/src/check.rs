//! Checks measured numbers against their budgets.

use crate::budgets::Budget;
use crate::configuration::Protocol;
use crate::measure::Case;
use crate::tolerance::{Position, Tolerance};
use allotrope_profile::Metric;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckStatus {
    /// The number is within the tolerance of its budget.
    WithinBudget,
    /// The number exceeds its budget or, if less is not better for this metric, is below
    /// the tolerance.
    Exceeded,
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
    /// Whether it fails the test.
    pub fn fails(self) -> bool {
        !matches!(self, Self::WithinBudget | Self::Improved)
    }
}

/// A number and the result of its check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// The metric.
    pub metric: Metric,
    /// The accepted number.
    pub budget: Option<i64>,
    /// The minimum of all runs.
    pub minimum: Option<i64>,
    /// The maximum of all runs.
    pub maximum: Option<i64>,
    /// The tolerance.
    pub tolerance: Tolerance,
    /// The result.
    pub status: CheckStatus,
}

impl Check {
    /// The measured minimum minus the budget.
    pub fn difference(&self) -> Option<i64> {
        Some(self.minimum?.saturating_sub(self.budget?))
    }
}

/// Checks all metrics of a case that the protocol lists.
pub fn check_case(case: &Case, budget: Option<&Budget>, protocol: &Protocol) -> Vec<Check> {
    let gate = protocol.gate.iter();
    gate.map(|&metric| {
        let accepted = budget.and_then(|budget| budget.figures.get(&metric).copied());
        check_metric(case, metric, accepted, protocol.tolerance_of(metric))
    })
    .collect()
}

fn check_metric(case: &Case, metric: Metric, budget: Option<i64>, tolerance: Tolerance) -> Check {
    let [minimum, maximum] = range(case, metric);
    let status = match (minimum, budget) {
        (None, _) => CheckStatus::NotRecorded,
        (_, None) => CheckStatus::NoBudget,
        (Some(0), Some(1..)) if metric == Metric::Allocations => CheckStatus::NothingMeasured,
        (Some(number), Some(budget)) => match tolerance.position(budget, number) {
            Position::Within => CheckStatus::WithinBudget,
            Position::Below if metric.less_is_better() => CheckStatus::Improved,
            Position::Above | Position::Below => CheckStatus::Exceeded,
        },
    };
    Check {
        metric,
        budget,
        minimum,
        maximum,
        tolerance,
        status,
    }
}

/// The minimum and the maximum of all runs; `None` if a run did not record the
/// metric.
pub fn range(case: &Case, metric: Metric) -> [Option<i64>; 2] {
    let figures: Option<Vec<i64>> = case
        .samples
        .iter()
        .map(|sample| sample.figure(metric))
        .collect();
    let figures = figures.unwrap_or_default();
    [figures.iter().min().copied(), figures.iter().max().copied()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    fn case(allocations: &[i64]) -> Case {
        let sample = |allocations: &i64| {
            let mut sample = Sample::default();
            sample.figures[Metric::Allocations as usize] = Some(*allocations);
            sample.figures[Metric::Net as usize] = Some(0);
            sample
        };
        Case {
            name: "x".into(),
            samples: allocations.iter().map(sample).collect(),
        }
    }

    fn status(metric: Metric, runs: &[i64], budget: Option<i64>) -> CheckStatus {
        let tolerance = Tolerance::absolute(1, 1);
        check_metric(&case(runs), metric, budget, tolerance).status
    }

    #[test]
    fn the_minimum_of_the_runs_is_checked() {
        let allocations = |runs, budget| status(Metric::Allocations, runs, budget);
        assert_eq!(
            allocations(&[12, 11, 19], Some(10)),
            CheckStatus::WithinBudget
        );
        assert_eq!(allocations(&[12, 13], Some(10)), CheckStatus::Exceeded);
        assert_eq!(allocations(&[10, 8], Some(10)), CheckStatus::Improved);
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
