//! Figures that cannot be right, or that others make doubtful, as sentences with their evidence.

use allotrope_text::numbers::count;

use crate::cpu::profile::Operations;

/// No allocator takes so long for an operation on average, in nanoseconds: what was counted are
/// not the calls of what was sampled.
const MAX_NS: f64 = 100_000.0;
/// Counts of two runs of a program that does the same each time differ by less: its start may
/// depend on the environment.
const SAME: f64 = 0.01;

/// What is doubtful in the figures an operation.
pub(crate) fn of(operations: Option<Operations>, ns: Option<f64>) -> Vec<String> {
    let mut found = Vec::new();
    let Some(operations) = operations else {
        return found;
    };
    if let Some(ns) = ns.filter(|it| *it > MAX_NS) {
        found.push(format!(
            "{:.0} µs an operation cannot be right: {} operations are not those of the program that was sampled (a wrapper that starts it without the recorder, an allocator that is linked into it, or a wrong number); figures an operation mean nothing here",
            ns / 1e3,
            count(operations.number),
        ));
    }
    if let Some(again) = operations.again {
        let most = operations.number.max(again) as f64;
        if operations.number.abs_diff(again) as f64 > SAME * most {
            found.push(format!(
                "two runs made {} and {} operations, so that those of the run that was sampled are not known; a program that runs for a fixed time must be told a fixed number of rounds instead",
                count(operations.number),
                count(again),
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_figures_are_said() {
        let operations = |number, again| {
            Some(Operations {
                number,
                source: Operations::SECOND_RUN,
                again,
            })
        };
        assert_eq!(
            of(operations(1_000_000, Some(1_000_100)), Some(40.0)),
            [""; 0]
        );
        assert_eq!(of(None, None), [""; 0]);
        let slow = of(operations(263, Some(263)), Some(1_506_420.0));
        assert!(slow[0].starts_with("1506 µs an operation"), "{slow:?}");
        let other = of(operations(1_000_000, Some(1_200_000)), None);
        assert!(other[0].contains("1,000,000 and 1,200,000"), "{other:?}");
    }
}
