//! Figures that cannot be right, or that others make doubtful, as sentences with their evidence.

use std::collections::BTreeMap;

use allotrope_text::numbers::count;

use crate::cpu::counter::Counter;
use crate::cpu::operations::Operations;

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

/// The processor's count and the stepped one may differ by this part: the former is estimated
/// from samples and has the call itself, the latter is of a sample of the operations.
const TOLERANCE: f64 = 0.25;

/// Whether the processor's count and the stepped one fit together.
pub(crate) fn agree(counted: f64, stepped: f64) -> bool {
    (counted - stepped).abs() <= TOLERANCE * stepped
}

/// An instruction reads at most this often from memory; gathers, which do so more often, are rare.
const LOADS: f64 = 2.0;

/// Counters of one run that contradict each other: the first cannot be so many times the second.
const BOUNDS: [(&str, f64, &str); 6] = [
    ("cache-misses", 1.0, "cache-references"),
    ("L1-dcache-load-misses", 1.0, "L1-dcache-loads"),
    ("branch-misses", 1.0, "branches"),
    ("L1-dcache-loads", LOADS, "instructions"),
    ("branches", 1.0, "instructions"),
    ("instructions", MAX_PER_CYCLE, "cycles"),
];
/// No processor of today retires so many instructions in a cycle.
pub(crate) const MAX_PER_CYCLE: f64 = 10.0;

/// What contradicts other counters of the run.
pub(crate) fn among(counters: &BTreeMap<&'static str, Option<Counter>>) -> Vec<String> {
    let total = |name: &str| Some((*counters.get(name)?)?.total);
    let found = BOUNDS.into_iter().filter_map(|(name, bound, of)| {
        let (counted, all) = (total(name)?, total(of)?);
        (counted as f64 > bound * all as f64 && all > 0).then(|| {
            format!(
                "{} {name} cannot be right beside {} {of}: a counter shares the processor's registers with others (multiplexed)",
                count(counted),
                count(all)
            )
        })
    });
    found.collect()
}

/// What contradicts the number of instructions an operation that stepping has counted exactly:
/// counters an operation, by name.
pub(crate) fn against<'a>(
    counters: impl IntoIterator<Item = (&'a str, f64)>,
    exact: f64,
) -> Vec<String> {
    let counters = counters.into_iter().filter_map(|(name, counted)| {
        let is_wrong = match name {
            "instructions" => !agree(counted, exact),
            "cycles" | "page-faults" => false,
            "L1-dcache-loads" => counted > LOADS * exact,
            _ => counted > exact,
        };
        is_wrong.then(|| {
            format!(
                "{counted:.0} {name} an operation cannot be right: an operation has {exact:.0} instructions, counted by stepping; the number of operations is wrong, or the counter shares the processor's registers with others (multiplexed)"
            )
        })
    });
    counters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document's 2,625 loads of a pair of operations, of which stepping counts about 300
    /// instructions each.
    #[test]
    fn counters_that_instructions_exclude_are_said() {
        let found = against([("L1-dcache-loads", 1312.5), ("cache-misses", 0.3)], 300.0);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("1312 L1-dcache-loads"), "{found:?}");
        assert_eq!(
            against([("instructions", 310.0), ("cycles", 900.0)], 300.0),
            [""; 0]
        );
        assert_eq!(against([("instructions", 30.0)], 300.0).len(), 1);
        assert_eq!(against([("cache-references", 301.0)], 300.0).len(), 1);
    }

    #[test]
    fn counters_that_contradict_each_other_are_said() {
        let counter = |total| Some(Counter::of(total, 0));
        let good = BTreeMap::from([
            ("instructions", counter(1000)),
            ("L1-dcache-loads", counter(400)),
            ("branches", counter(200)),
            ("branch-misses", counter(3)),
            ("cycles", None),
        ]);
        assert_eq!(among(&good), [""; 0]);
        let mut bad = good.clone();
        bad.insert("L1-dcache-loads", counter(2001));
        let found = among(&bad);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("2,001 L1-dcache-loads cannot be right"));
        bad.insert("branch-misses", counter(201));
        assert_eq!(among(&bad).len(), 2);
    }

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
