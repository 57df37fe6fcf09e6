//! Chooses among findings about one fact, and puts the others in order.

use std::cmp::Ordering;

use crate::candidate::Candidate;
use crate::finding::{Finding, Mended, Rule};
use crate::tried::{AllTried, Outcome};

/// The most findings of a rule in a process.
const MAX_OF_A_RULE: usize = 5;
/// What grows, waits or leaks is worth at least this part of the whole.
const MIN_STAKE: f64 = 0.25;

impl Candidate {
    /// Whether a finding of this rule about the same function says more.
    fn is_weaker_than(&self, rule: Rule, is_weak: bool) -> bool {
        match (rule, self.finding.rule) {
            (Rule::Leak, Rule::Growth) => !is_weak,
            (Rule::Growth, Rule::Leak) => self.weak,
            (_, own) => stronger(own).contains(&rule),
        }
    }

    /// Whether this finding says more than another one about its function.
    fn says_more_than(&self, other: &Self) -> bool {
        let is_about = other.function.is_some_and(|function| {
            self.function == Some(function) || self.also.contains(&function)
        });
        self.finding.process == other.finding.process
            && is_about
            && other.is_weaker_than(self.finding.rule, self.weak)
    }
}

/// The rules that say the same as this one about a function, and say it better.
fn stronger(rule: Rule) -> &'static [Rule] {
    match rule {
        Rule::Growth | Rule::Leak => &[Rule::Queue],
        Rule::Spike => &[Rule::Queue, Rule::Growth, Rule::Leak, Rule::Stragglers],
        Rule::Peak => &[
            Rule::Queue,
            Rule::Growth,
            Rule::Leak,
            Rule::Stragglers,
            Rule::Spike,
            Rule::NotGivenBack,
            Rule::SmallBlocks,
        ],
        Rule::Temporaries => &[Rule::GrowthChain],
        Rule::Stragglers => &[Rule::Leak, Rule::Growth, Rule::Queue],
        Rule::NotGivenBack => &[Rule::Queue, Rule::Spike, Rule::Stragglers],
        Rule::SmallBlocks => &[
            Rule::Queue,
            Rule::Growth,
            Rule::Leak,
            Rule::Stragglers,
            Rule::Spike,
            Rule::NotGivenBack,
        ],
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
        Rule::Spike => 1,
        Rule::Peak => 2,
    }
}

/// What mending brings, or, if that is not known, what it is about; weighted by rule.
fn weight(candidate: &Candidate) -> f64 {
    let mended = candidate.finding.mended.as_ref();
    let stake = mended
        .map_or(candidate.stake, Mended::value)
        .clamp(0.0, 1.0);
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

/// The rule of another finding of the same process that says the same about the candidate's function,
/// and says it better.
fn said_better(candidate: &Candidate, others: &[(Rule, bool, Option<u32>)]) -> Option<Rule> {
    candidate.function?;
    let mut others = others.iter();
    let better = others.find(|&&(rule, weak, function)| {
        function == candidate.function && candidate.is_weaker_than(rule, weak)
    });
    better.map(|&(rule, ..)| rule)
}

/// The findings of a process without those that others say better.
pub(crate) fn without_repetitions(found: Vec<Candidate>, all: &mut AllTried<'_>) -> Vec<Candidate> {
    let said = found.iter().flat_map(|candidate| {
        let functions = candidate.function.iter().chain(&candidate.also);
        let (rule, weak) = (candidate.finding.rule, candidate.weak);
        functions.map(move |&function| (rule, weak, Some(function)))
    });
    let said: Vec<(Rule, bool, Option<u32>)> = said.collect();
    let mut rest = Vec::new();
    for candidate in found {
        match said_better(&candidate, &said) {
            Some(rule) => {
                all.end(candidate.tried, Outcome::SaidBetter(rule, None));
                all.keep_weaker(candidate);
            }
            None => rest.push(candidate),
        }
    }
    let mut found = rest;
    found.sort_by(by_rank);
    let mut counts = [0; Rule::ALL.len()];
    found.retain(|candidate| {
        let count = &mut counts[candidate.finding.rule as usize];
        *count += 1;
        if *count > MAX_OF_A_RULE {
            all.end(candidate.tried, Outcome::TooMany(MAX_OF_A_RULE));
        }
        *count <= MAX_OF_A_RULE
    });
    found
}

/// The findings in order of rank.
pub(crate) fn best_first(mut found: Vec<Candidate>, all: &mut AllTried<'_>) -> Vec<Finding> {
    found.sort_by(by_rank);
    for (index, candidate) in found.iter().enumerate() {
        all.end(candidate.tried, Outcome::Shown(index));
    }
    for weaker in all.take_weaker() {
        let better = found.iter().position(|it| it.says_more_than(&weaker));
        if let Some(index) = better {
            let rule = found[index].finding.rule;
            all.end(weaker.tried, Outcome::SaidBetter(rule, Some(index)));
        }
    }
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
    use crate::finding::Severity;
    use crate::tried::Why;

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
                parts: Vec::new(),
                numbers: Vec::new(),
                mended: None,
            },
            function: Some(function),
            also: Vec::new(),
            weak: false,
            stake,
            tried: None,
        }
    }

    fn ranked(found: Vec<Candidate>) -> Vec<Rule> {
        let why = Why::default();
        let mut all = AllTried::new(&why);
        let found = without_repetitions(found, &mut all);
        let found = best_first(found, &mut all);
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
            candidate(Rule::SmallBlocks, 1, 0.9),
            candidate(Rule::Temporaries, 2, 0.9),
            candidate(Rule::GrowthChain, 2, 0.9),
            candidate(Rule::Peak, 3, 0.6),
        ];
        assert_eq!(ranked(found), [Rule::Growth, Rule::GrowthChain, Rule::Peak]);
    }

    #[test]
    fn the_cause_is_named_and_not_its_consequence() {
        let found = vec![
            candidate(Rule::NotGivenBack, 1, 0.9),
            candidate(Rule::Spike, 1, 0.9),
            candidate(Rule::Stragglers, 1, 0.3),
        ];
        assert_eq!(ranked(found), [Rule::Stragglers]);
    }

    #[test]
    fn a_part_of_what_another_finding_explains_is_no_finding() {
        let mut leak = candidate(Rule::Leak, 1, 0.5);
        leak.also = vec![2];
        let found = vec![leak, candidate(Rule::Growth, 2, 0.9)];
        assert_eq!(ranked(found), [Rule::Leak]);
    }

    #[test]
    fn growth_is_named_if_nothing_says_that_blocks_are_to_be_freed() {
        let ranked_with = |weak: bool| {
            let mut leak = candidate(Rule::Leak, 1, 0.9);
            leak.weak = weak;
            ranked(vec![leak, candidate(Rule::Growth, 1, 0.9)])
        };
        assert_eq!(ranked_with(false), [Rule::Leak]);
        assert_eq!(ranked_with(true), [Rule::Growth]);
    }

    #[test]
    fn what_mending_brings_decides() {
        let mut small = candidate(Rule::Temporaries, 1, 0.9);
        small.finding.mended = Some(Mended {
            less: [0.0, 0.1, 0.0],
            ..Mended::default()
        });
        let found = vec![small, candidate(Rule::GrowthChain, 2, 0.2)];
        assert_eq!(ranked(found), [Rule::GrowthChain, Rule::Temporaries]);
    }

    #[test]
    fn a_small_growth_is_before_a_large_table() {
        let found = vec![
            candidate(Rule::Peak, 1, 0.9),
            candidate(Rule::Growth, 2, 0.05),
        ];
        assert_eq!(ranked(found), [Rule::Growth, Rule::Peak]);
    }

    #[test]
    fn each_silent_candidate_has_its_reason() {
        let why = Why::default();
        let mut all = AllTried::new(&why);
        // Seven tables, of which the last two are one too many each; and a table that leaks.
        let mut found: Vec<Candidate> = (0..7)
            .map(|at| candidate(Rule::Peak, 10 + at, 0.9 - f64::from(at) * 0.1))
            .collect();
        found.push(candidate(Rule::Peak, 1, 0.9));
        let mut leak = candidate(Rule::Leak, 2, 0.5);
        leak.also = vec![1];
        found.push(leak);
        let found = found.into_iter();
        let found = found.map(|candidate| {
            let id = all.for_test(candidate.finding.rule);
            candidate.tried_as(Some(id))
        });
        let found = without_repetitions(found.collect(), &mut all);
        let findings = best_first(found, &mut all);
        assert_eq!(findings.len(), 6);
        let mut expected: Vec<Outcome> = (1..6).map(Outcome::Shown).collect();
        expected.extend([Outcome::TooMany(5), Outcome::TooMany(5)]);
        expected.push(Outcome::SaidBetter(Rule::Leak, Some(0)));
        expected.push(Outcome::Shown(0));
        assert_eq!(all.outcomes(), expected);
    }
}
