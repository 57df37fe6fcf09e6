//! Measured numbers against their budgets: what is exceeded, what is better
//! than its budget, what was not measured at all.

use crate::budgets::Budget;
use crate::configuration::Protocol;
use crate::protocol::Case;
use crate::tolerance::{Place, Tolerance};
use allotrope_profile::Metric;

/// What is to be said of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It keeps its budget.
    Kept,
    /// It exceeds it (or, where less is not better, is outside).
    Exceeded,
    /// It is better than its budget knows.
    Improved,
    /// There is no budget.
    NoBudget,
    /// There is nothing where the budget has something.
    Nothing,
    /// The recording does not give this number.
    Unknown,
}

impl Verdict {
    /// Whether it makes the test fail.
    pub fn fails(self) -> bool {
        !matches!(self, Self::Kept | Self::Improved)
    }
}

/// A number and what is to be said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// What was counted.
    pub metric: Metric,
    /// What was accepted.
    pub budget: Option<i64>,
    /// The least of all runs.
    pub least: Option<i64>,
    /// The most of all runs.
    pub most: Option<i64>,
    /// How far it may be from the budget.
    pub tolerance: Tolerance,
    /// What is to be said of it.
    pub verdict: Verdict,
}

impl Judgement {
    /// Number minus budget.
    pub fn difference(&self) -> Option<i64> {
        Some(self.least?.saturating_sub(self.budget?))
    }
}

/// Judges all numbers of a case that are gated.
pub fn judge(case: &Case, budget: Option<&Budget>, protocol: &Protocol) -> Vec<Judgement> {
    let gate = protocol.gate.iter();
    gate.map(|&metric| {
        let accepted = budget.and_then(|budget| budget.figures.get(&metric).copied());
        judge_one(case, metric, accepted, protocol.tolerance_of(metric))
    })
    .collect()
}

fn judge_one(case: &Case, metric: Metric, budget: Option<i64>, tolerance: Tolerance) -> Judgement {
    let [least, most] = range(case, metric);
    let verdict = match (least, budget) {
        (None, _) => Verdict::Unknown,
        (_, None) => Verdict::NoBudget,
        (Some(0), Some(1..)) if metric == Metric::Allocations => Verdict::Nothing,
        (Some(number), Some(budget)) => match tolerance.place(budget, number) {
            Place::Within => Verdict::Kept,
            Place::Below if metric.less_is_better() => Verdict::Improved,
            Place::Above | Place::Below => Verdict::Exceeded,
        },
    };
    Judgement {
        metric,
        budget,
        least,
        most,
        tolerance,
        verdict,
    }
}

/// The least and the most of all runs; `None` if a run does not know it.
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

    fn verdict(metric: Metric, runs: &[i64], budget: Option<i64>) -> Verdict {
        let tolerance = Tolerance::absolute(1, 1);
        judge_one(&case(runs), metric, budget, tolerance).verdict
    }

    #[test]
    fn the_least_run_is_judged() {
        let allocations = |runs, budget| verdict(Metric::Allocations, runs, budget);
        assert_eq!(allocations(&[12, 11, 19], Some(10)), Verdict::Kept);
        assert_eq!(allocations(&[12, 13], Some(10)), Verdict::Exceeded);
        assert_eq!(allocations(&[10, 8], Some(10)), Verdict::Improved);
        assert_eq!(allocations(&[10], None), Verdict::NoBudget);
    }

    #[test]
    fn measuring_nothing_fails() {
        assert_eq!(
            verdict(Metric::Allocations, &[0, 5], Some(10)),
            Verdict::Nothing
        );
        assert_eq!(
            verdict(Metric::Allocations, &[0], Some(1)),
            Verdict::Nothing
        );
        assert_eq!(verdict(Metric::Allocations, &[0], Some(0)), Verdict::Kept);
        assert_eq!(verdict(Metric::LeakedFds, &[5], Some(0)), Verdict::Unknown);
        assert_eq!(verdict(Metric::Allocations, &[], Some(0)), Verdict::Unknown);
        assert!(Verdict::Nothing.fails() && Verdict::Unknown.fails());
        assert!(Verdict::NoBudget.fails() && !Verdict::Improved.fails());
    }

    #[test]
    fn net_is_wrong_in_both_directions() {
        assert_eq!(verdict(Metric::Net, &[1], Some(2)), Verdict::Exceeded);
        assert_eq!(verdict(Metric::Net, &[1], Some(-2)), Verdict::Exceeded);
        assert_eq!(verdict(Metric::Net, &[1], Some(-1)), Verdict::Kept);
    }
}
