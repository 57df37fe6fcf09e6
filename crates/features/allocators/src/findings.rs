//! Counters that cannot be right, as sentences with their evidence.

use crate::counters::figure;
use crate::cpu::doubts::MAX_PER_CYCLE;
pub(crate) use crate::cpu::doubts::agree;
use crate::report::Counter;

/// What is impossible, or contradicts another figure.
pub(crate) fn impossible(counters: &[Counter]) -> Vec<String> {
    let mut found = Vec::new();
    let of = |name| figure(counters, name);
    for name in ["instructions", "instructions (PMU)"] {
        if let Some(count) = of(name).filter(|it| *it < 1.0) {
            found.push(format!(
                "impossible counter: {count:.2} {name} an operation, but each operation executes at least its return"
            ));
        }
    }
    let instructions = of("instructions (PMU)");
    for name in ["cache misses", "branch misses"] {
        if let (Some(misses), Some(instructions)) = (of(name), instructions)
            && misses > instructions
        {
            found.push(format!(
                "impossible counter: {misses:.2} {name} an operation, more than the {instructions:.2} instructions that can cause them"
            ));
        }
    }
    if let (Some(instructions), Some(cycles)) = (instructions, of("cycles"))
        && instructions > MAX_PER_CYCLE * cycles
    {
        found.push(format!(
            "impossible counter: {instructions:.2} instructions in {cycles:.2} cycles an operation, more than a processor can execute"
        ));
    }
    if let (Some(counted), Some(stepped)) = (instructions, of("instructions"))
        && !agree(counted, stepped)
    {
        found.push(format!(
            "contradicting counters: the processor counted {counted:.2} instructions an operation, stepping {stepped:.2}; a counter that shares the processor's registers with others (multiplexed) counts only a part"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(figures: &[(&'static str, f64)]) -> Vec<String> {
        let counters = figures.iter().map(|(counter, figure)| Counter {
            counter,
            per_operation: Some(*figure),
            source: "PMU",
            why: None,
        });
        impossible(&counters.collect::<Vec<_>>())
    }

    #[test]
    fn impossible_counters_are_named() {
        let good = [
            ("instructions", 50.0),
            ("instructions (PMU)", 52.0),
            ("cycles", 20.0),
            ("cache misses", 0.1),
            ("branch misses", 0.1),
        ];
        assert_eq!(found(&good), Vec::<String>::new());
        for (name, figure, sentence) in [
            ("cache misses", 60.0, "60.00 cache misses"),
            ("branch misses", 60.0, "60.00 branch misses"),
            ("cycles", 2.0, "in 2.00 cycles"),
            ("instructions (PMU)", 20.0, "multiplexed"),
            ("instructions (PMU)", 0.5, "at least its return"),
            ("instructions", 0.5, "at least its return"),
        ] {
            let changed = good.map(|it| if it.0 == name { (name, figure) } else { it });
            let sentences = found(&changed);
            assert!(
                sentences.iter().any(|it| it.contains(sentence)),
                "{sentence}: {sentences:?}"
            );
        }
    }

    #[test]
    fn what_is_unavailable_is_not_impossible() {
        assert_eq!(found(&[]), Vec::<String>::new());
    }
}
