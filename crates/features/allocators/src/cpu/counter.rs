//! What a counter of the processor or the kernel has counted, with the rates of misses.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cpu::quantity::Quantity;

/// What a counter has counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Counter {
    /// Amount in all code: exact if `counted_part` is 1, unless threads had to be counted twice
    /// (those of a process that began while others were opened); then estimated from samples.
    pub total: u64,
    /// The part of the time in which it was counted, 0 to 1, from which `total` is scaled: a
    /// processor has fewer registers than there are counters.
    pub counted_part: f64,
    /// Of misses, their part of what can miss (`cache-references`, `L1-dcache-loads`,
    /// `branches`), in all code; `null` if it is none or that is unavailable.
    pub rate: Option<f64>,
    /// The same inside the allocator.
    pub rate_inside: Option<f64>,
    /// Amount inside the allocator, estimated from samples.
    pub inside: u64,
    /// Amount inside the allocator, an operation; `null` if the operations are not known, or if too
    /// little was counted for a sample of it. Never 0.
    pub per_operation: Option<f64>,
}

impl Counter {
    /// A counter that was counted all the time.
    pub(crate) fn of(total: u64, inside: u64) -> Self {
        Self {
            total,
            counted_part: 1.0,
            rate: None,
            rate_inside: None,
            inside,
            per_operation: None,
        }
    }
}

/// Adds the rates of misses.
pub(crate) fn add_rates(counters: &mut BTreeMap<&'static str, Option<Counter>>) {
    for quantity in Quantity::COUNTERS {
        let Some(of) = quantity.missed_of() else {
            continue;
        };
        let Some(Some(all)) = counters.get(of.name()).copied() else {
            continue;
        };
        if let Some(Some(misses)) = counters.get_mut(quantity.name()) {
            let rate = |misses: u64, all: u64| (all > 0).then(|| misses as f64 / all as f64);
            misses.rate = rate(misses.total, all.total);
            misses.rate_inside = rate(misses.inside, all.inside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(total: u64, inside: u64) -> Option<Counter> {
        Some(Counter::of(total, inside))
    }

    /// The document's figures: 50,668,784 misses of 2,385,756,311 references are 2.12 %, and
    /// 415,332,039 of 525,435,317,593 loads are 0.08 %.
    #[test]
    fn misses_have_rates() {
        let mut counters = BTreeMap::from([
            ("cache-references", counter(2_385_756_311, 1000)),
            ("cache-misses", counter(50_668_784, 10)),
            ("L1-dcache-loads", counter(525_435_317_593, 0)),
            ("L1-dcache-load-misses", counter(415_332_039, 0)),
            ("branches", None),
            ("branch-misses", counter(5, 5)),
        ]);
        add_rates(&mut counters);
        let rate = |name: &str| counters[name].unwrap().rate;
        assert!((rate("cache-misses").unwrap() - 0.0212).abs() < 0.00005);
        assert!((rate("L1-dcache-load-misses").unwrap() - 0.0008).abs() < 0.00005);
        assert_eq!(counters["cache-misses"].unwrap().rate_inside, Some(0.01));
        assert_eq!(counters["L1-dcache-load-misses"].unwrap().rate_inside, None);
        assert_eq!(rate("branch-misses"), None);
        assert_eq!(rate("cache-references"), None);
    }
}
