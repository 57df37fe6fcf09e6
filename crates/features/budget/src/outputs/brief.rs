//! Findings in a sentence each, for logs that a person reads on one screen.

use allotrope_profile::Metric;
use allotrope_report::diff::short_function;

use super::wording;
use crate::fluctuation::Fluctuation;
use crate::limit::{self, number};
use crate::result::{CaseResult, Explanation, Leak, TestResult};

/// The columns of a function's name in a sentence.
const NAME: usize = 48;
/// The most entries that a sentence names.
const NAMED: usize = 3;

/// An iteration's share of a number: `75 each`, `75.00 each, 1 over`, `0.50 each`. `None`
/// without a number of iterations, and for zero.
pub fn share(number: i64, iterations: Option<u64>) -> Option<String> {
    let iterations = iterations.filter(|&iterations| iterations > 1 && number != 0)?;
    let iterations = i64::try_from(iterations).ok()?;
    let (whole, over) = (number.div_euclid(iterations), number.rem_euclid(iterations));
    if over == 0 {
        return Some(format!("{} each", limit::number(whole)));
    }
    // A remainder that two decimals do not show is set-up, or a buffer that grew.
    if whole > 0 && over.saturating_mul(200) < iterations {
        let whole = limit::number(whole);
        return Some(format!("{whole}.00 each, {} over", limit::number(over)));
    }
    let each = number as f64 / iterations as f64;
    let decimals = if each.abs() < 0.1 { 4 } else { 2 };
    Some(format!("{each:.decimals$} each"))
}

/// What is not the same in all runs of a case: one sentence for each number that
/// fluctuates, one for the descriptors that were left open, one for blocks that were left
/// behind by a number that is not checked.
pub fn unsteady(case: &CaseResult) -> Vec<String> {
    let fluctuating = case.fluctuations.iter();
    let mut sentences: Vec<String> = fluctuating.map(|it| fluctuation(case, it)).collect();
    for metric in [Metric::Remaining, Metric::LeakedFds] {
        let known = case.fluctuations.iter().any(|it| it.metric == metric);
        let leaks = case.leaks.iter().filter(|leak| leak.metric == metric);
        let leaks: Vec<&Leak> = leaks
            .filter(|_| !known || metric == Metric::LeakedFds)
            .collect();
        let worst = leaks.iter().rev().max_by_key(|leak| leak.figure);
        if let Some(worst) = worst {
            let mut sentence = wording::leak(worst);
            if leaks.len() > 1 {
                let (runs, of) = (leaks.len(), case.runs.len());
                sentence.push_str(&format!(" ({runs} of {of} runs left some)"));
            }
            sentences.push(sentence);
        }
    }
    sentences
}

fn fluctuation(case: &CaseResult, fluctuation: &Fluctuation) -> String {
    let metric = fluctuation.metric;
    let check = case.checks.iter().find(|check| check.metric == metric);
    let mut sentence = match check.and_then(|check| check.budget) {
        Some(budget) => format!("{metric}: accepted {}", wording::spread(budget)),
        None => {
            let [least, most] = fluctuation.range.map(number);
            format!("{metric}: {least} to {most} in {} runs", case.runs.len())
        }
    };
    if let Some((range, frames)) = fluctuation.stacks.first() {
        let name = frames.first().map(|frame| short_function(frame, NAME));
        let [least, most] = range.map(|it| number(it.try_into().unwrap_or(i64::MAX)));
        let name = name.unwrap_or_else(|| "a stack without frames".to_owned());
        sentence.push_str(&format!("; {name} {least} to {most}"));
        let others = fluctuation.stacks.len() - 1 + fluctuation.more_stacks;
        if others > 0 {
            sentence.push_str(&format!(", {others} more (--samples)"));
        }
    }
    sentence
}

/// The frame that has most of the first number of a test that fails, and how much of it: `encode,
/// src/codec.cc:12 (+4,000 of +4,000 allocations)`.
pub fn culprit(test: &TestResult) -> Option<String> {
    let (check, explanation) = test.cases.iter().find_map(|case| {
        let mut checks = case.checks.iter().filter(|check| check.status.fails());
        checks.find_map(|check| {
            let explains = |it: &&Explanation| it.metric == check.metric;
            Some((check, case.explanations.iter().find(explains)?))
        })
    })?;
    let difference = check.difference().filter(|&difference| difference != 0)?;
    let entry = wording::explaining_entries(&explanation.diff)
        .find(|entry| entry.difference.signum() == difference.signum())?;
    let frame = wording::blamed(&explanation.diff, entry)?;
    let of = match entry.difference == difference {
        true => String::new(),
        false => format!(" of {}", wording::signed(difference)),
    };
    Some(format!(
        "{}, {} ({}{of} {})",
        short_function(frame, NAME),
        wording::location(frame),
        wording::signed(entry.difference),
        check.metric
    ))
}

/// Whether the stacks of a number were shown for another one already: its largest entry
/// is blamed on the same function.
pub fn is_explained_by(shown: &Explanation, explanation: &Explanation) -> bool {
    let of = |explanation: &Explanation, most: usize| {
        let entries = wording::explaining_entries(&explanation.diff).take(most);
        let blamed = entries.filter_map(|entry| wording::blamed(&explanation.diff, entry));
        let named = blamed.map(|frame| (frame.function.clone(), frame.module.clone()));
        named.collect::<Vec<_>>()
    };
    let largest = of(explanation, 1);
    let shown = of(shown, NAMED);
    !largest.is_empty() && largest.iter().all(|named| shown.contains(named))
}

/// A sentence instead of stacks that were shown for another number already.
pub fn same_stacks(shown: &Explanation, explanation: &Explanation) -> String {
    let diff = &explanation.diff;
    let entries: Vec<(i64, String)> = wording::explaining_entries(diff)
        .map(|entry| {
            let frame = wording::blamed(diff, entry);
            let name = frame.map(|frame| short_function(frame, NAME));
            (entry.difference, name.unwrap_or_else(|| "??".to_owned()))
        })
        .collect();
    let named = entries.iter().take(NAMED);
    let named = named.map(|(difference, name)| format!("{} {name}", wording::signed(*difference)));
    let mut named = named.collect::<Vec<_>>().join(", ");
    let rest = entries.get(NAMED..).unwrap_or_default();
    if !rest.is_empty() {
        let sum = rest.iter().map(|(difference, _)| difference).sum();
        named.push_str(&format!(
            ", {} more with {}",
            rest.len(),
            wording::signed(sum)
        ));
    }
    for remark in &explanation.remarks {
        named.push_str(&format!("; {remark}"));
    }
    format!(
        "Stacks of {}, like those of {} above: {named}",
        explanation.metric, shown.metric
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iterations_share() {
        let share = |number, iterations| share(number, Some(iterations));
        assert_eq!(share(75_001, 1000).as_deref(), Some("75.00 each, 1 over"));
        assert_eq!(share(75_000, 1000).as_deref(), Some("75 each"));
        assert_eq!(share(1_234_000, 1000).as_deref(), Some("1,234 each"));
        assert_eq!(share(75_500, 1000).as_deref(), Some("75.50 each"));
        assert_eq!(share(5, 1000).as_deref(), Some("0.0050 each"));
        assert_eq!(share(500, 1000).as_deref(), Some("0.50 each"));
        assert_eq!(share(-2000, 1000).as_deref(), Some("-2 each"));
        assert_eq!(share(0, 1000), None);
        assert_eq!(share(7, 1), None);
        assert_eq!(super::share(7, None), None);
    }
}
