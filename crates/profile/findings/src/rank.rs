//! Chooses among findings about one fact, and puts the others in order.

use std::cmp::Ordering;

use crate::finding::{Finding, Rule, Severity};

/// The most findings of a rule in a process.
const MAX_OF_A_RULE: usize = 5;
/// What grows, waits or leaks is worth at least this part of the whole.
const MIN_STAKE: f64 = 0.25;

/// What a rule found, and what decides about its rank.
pub(crate) struct Candidate {
    pub finding: Finding,
    /// The function it is about, by its number; `None` for the process as a whole.
    pub function: Option<u32>,
    /// Other functions whose blocks it also explains.
    pub also: Vec<u32>,
    /// The part of the peak, or of all allocations, that it is about: 0 to 1.
    pub stake: f64,
}

/// The rules that say the same as this one about a function, and say it better.
fn stronger(rule: Rule) -> &'static [Rule] {
    match rule {
        Rule::Growth => &[Rule::Queue],
        Rule::Leak => &[Rule::Queue, Rule::Growth],
        Rule::KeptBurst => &[Rule::Queue, Rule::Growth, Rule::Leak],
        Rule::Spike => &[Rule::Queue, Rule::Growth, Rule::Leak],
        Rule::Peak => &[
            Rule::Queue,
            Rule::Growth,
            Rule::KeptBurst,
            Rule::Leak,
            Rule::Spike,
        ],
        Rule::Temporaries => &[Rule::GrowthChain],
        Rule::Stragglers => &[Rule::Leak],
        _ => &[],
    }
}

/// What comes first whatever is at stake: what goes wrong the longer a program runs,
/// then what costs, then what only tells where memory is.
fn tier(rule: Rule) -> u8 {
    match rule {
        Rule::Queue | Rule::Growth | Rule::Leak => 0,
        Rule::Temporaries
        | Rule::GrowthChain
        | Rule::SmallBlocks
        | Rule::Stragglers
        | Rule::ForkCopies
        | Rule::SignalHandler
        | Rule::NotGivenBack => 1,
        Rule::KeptBurst | Rule::Spike | Rule::Peak => 2,
    }
}

fn weight(candidate: &Candidate) -> f64 {
    let stake = candidate.stake.clamp(0.0, 1.0);
    match candidate.finding.rule {
        Rule::Queue => 4.0 * stake.max(MIN_STAKE),
        Rule::Growth => 2.0 * stake.max(MIN_STAKE),
        Rule::Leak => 1.5 * stake.max(MIN_STAKE),
        // Undefined behaviour, however often it happens.
        Rule::SignalHandler => 2.0,
        Rule::Temporaries | Rule::SmallBlocks => 0.5 * stake,
        _ => stake,
    }
}

/// Whether the growth of a function is mostly a leak, which names the path as well.
fn is_leak(growth: &Candidate, leak: &Candidate) -> bool {
    growth.finding.rule == Rule::Growth
        && leak.finding.rule == Rule::Leak
        && leak.finding.severity == Severity::Problem
        && growth.function == leak.function
        && leak.stake >= growth.stake / 2.0
}

/// The findings of a process without those that others say better.
pub(crate) fn without_repetitions(found: Vec<Candidate>) -> Vec<Candidate> {
    let (leaks, mut found): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|it| it.finding.rule == Rule::Leak);
    found.retain(|growth| !leaks.iter().any(|leak| is_leak(growth, leak)));
    found.extend(leaks);
    let said = found.iter().flat_map(|candidate| {
        let functions = candidate.function.iter().chain(&candidate.also);
        functions.map(|&function| (candidate.finding.rule, Some(function)))
    });
    let said: Vec<(Rule, Option<u32>)> = said.collect();
    found.retain(|candidate| {
        let better = stronger(candidate.finding.rule);
        candidate.function.is_none()
            || !said
                .iter()
                .any(|(rule, function)| *function == candidate.function && better.contains(rule))
    });
    found.sort_by(by_rank);
    let mut counts = [0; Rule::ALL.len()];
    found.retain(|candidate| {
        let count = &mut counts[candidate.finding.rule as usize];
        *count += 1;
        *count <= MAX_OF_A_RULE
    });
    found
}

/// The findings in order of rank.
pub(crate) fn best_first(mut found: Vec<Candidate>) -> Vec<Finding> {
    found.sort_by(by_rank);
    found.into_iter().map(|it| it.finding).collect()
}

fn by_rank(a: &Candidate, b: &Candidate) -> Ordering {
    let key = |it: &Candidate| (tier(it.finding.rule), it.finding.severity);
    let order = tier(a.finding.rule).cmp(&tier(b.finding.rule));
    order
        .then_with(|| weight(b).total_cmp(&weight(a)))
        .then_with(|| key(a).cmp(&key(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(rule: Rule, function: u32, stake: f64) -> Candidate {
        Candidate {
            finding: Finding {
                rule,
                severity: Severity::Hint,
                title: String::new(),
                measure: String::new(),
                text: String::new(),
                advice: String::new(),
                process: 0,
                frame: None,
                sites: Vec::new(),
                numbers: Vec::new(),
            },
            function: Some(function),
            also: Vec::new(),
            stake,
        }
    }

    fn ranked(found: Vec<Candidate>) -> Vec<Rule> {
        let found = best_first(without_repetitions(found));
        found.into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn queue_growth_leak_peak_is_the_order_of_equals() {
        let rules = [
            Rule::Peak,
            Rule::Leak,
            Rule::Growth,
            Rule::Temporaries,
            Rule::Queue,
        ];
        let found = rules
            .into_iter()
            .zip(1..)
            .map(|(rule, at)| candidate(rule, at, 0.5));
        assert_eq!(
            ranked(found.collect()),
            [
                Rule::Queue,
                Rule::Growth,
                Rule::Leak,
                Rule::Temporaries,
                Rule::Peak
            ]
        );
    }

    #[test]
    fn one_fact_is_one_finding() {
        let found = vec![
            candidate(Rule::Peak, 1, 0.9),
            candidate(Rule::Growth, 1, 0.9),
            candidate(Rule::KeptBurst, 1, 0.9),
            candidate(Rule::Temporaries, 2, 0.9),
            candidate(Rule::GrowthChain, 2, 0.9),
            candidate(Rule::Peak, 3, 0.6),
        ];
        assert_eq!(ranked(found), [Rule::Growth, Rule::GrowthChain, Rule::Peak]);
    }

    #[test]
    fn growth_that_is_a_leak_is_one() {
        let ranked_with = |leaked: f64, severity| {
            let mut leak = candidate(Rule::Leak, 1, leaked);
            leak.finding.severity = severity;
            ranked(vec![leak, candidate(Rule::Growth, 1, 0.9)])
        };
        assert_eq!(ranked_with(0.5, Severity::Problem), [Rule::Leak]);
        assert_eq!(ranked_with(0.4, Severity::Problem), [Rule::Growth]);
        assert_eq!(ranked_with(0.5, Severity::Hint), [Rule::Growth]);
    }

    #[test]
    fn a_small_growth_is_before_a_large_table() {
        let found = vec![
            candidate(Rule::Peak, 1, 0.9),
            candidate(Rule::Growth, 2, 0.05),
        ];
        assert_eq!(ranked(found), [Rule::Growth, Rule::Peak]);
    }
}
