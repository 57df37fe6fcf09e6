//! Sentences about a test that change no verdict: what moved without being checked, and
//! what somebody should know before they trust a number.

use crate::allowance::{Allowance, Allowed};
use crate::check::Check;
use crate::configuration::Protocol;
use crate::configuration::window_of;
use crate::limit::number;
use crate::outputs::wording::signed;
use crate::result::{CaseResult, TestResult};

/// Changes of metrics that are not checked are mentioned from this share of the stored
/// number on, in percent: the length of a path in a text is no news.
const MENTIONED_PERCENT: u64 = 1;

/// Says that a metric moved that is not checked; `None` if it did not by more than noise
/// and 1 %.
pub fn ungated(case: &str, check: &Check) -> Option<String> {
    let (budget, now) = (check.budget?, check.now?);
    let difference = check.difference().filter(|_| !check.status.passes())?;
    let (away, stored) = (difference.unsigned_abs(), budget.typical.unsigned_abs());
    if u128::from(away) * 100 < u128::from(stored) * u128::from(MENTIONED_PERCENT) {
        return None;
    }
    let share = match stored {
        0 => signed(difference),
        stored => {
            let percent = (difference as f64 / stored as f64 * 100.0).round();
            format!("{percent:+} %")
        }
    };
    Some(format!(
        "{case}: {} is not gated: {} now, {} accepted ({share})",
        check.metric,
        number(now.typical),
        number(budget.typical)
    ))
}

/// Says how much of a number a rule of the allow-list allowed, and why.
pub fn allowed(case: &CaseResult, allowed: &Allowed) -> String {
    let (metric, name) = (allowed.metric, &case.name);
    let check = case.checks.iter().find(|check| check.metric == metric);
    let difference = check.and_then(Check::difference).unwrap_or_default();
    let count = number(i64::try_from(allowed.number).unwrap_or(i64::MAX));
    format!(
        "{name}: {metric} {}, {count} of them allowed: {}",
        signed(difference),
        allowed.reason
    )
}

/// Says that a rule of the allow-list matches no stack.
pub fn unused_rule(rule: &Allowance) -> String {
    format!(
        "the rule that allows `{}` ({}) matches no stack any more: remove it from allotrope.toml",
        rule.stacks.pattern(),
        rule.reason
    )
}

/// Says that a test's program was compiled without optimisation.
pub fn unoptimised(test: &TestResult) -> Option<String> {
    let names = test.unoptimised.join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "built without optimisation: {names}; its numbers say little about an optimised build"
        )
    })
}

/// Says which windows of the configuration the program did not open.
pub fn unopened_windows(test: &str, protocol: &Protocol, cases: &[CaseResult]) -> Vec<String> {
    let opened = |name: &str| cases.iter().any(|case| window_of(test, &case.name) == name);
    let names = protocol.windows.keys().filter(|name| !opened(name));
    names
        .map(|name| {
            let like = |case: &&CaseResult| strsim::jaro_winkler(name, window_of(test, &case.name));
            let nearest = cases.iter().max_by(|a, b| like(a).total_cmp(&like(b)));
            let remedy = nearest.map_or_else(String::new, |case| {
                format!("; did you mean `{}`?", window_of(test, &case.name))
            });
            format!(
                "allotrope.toml has a section for the window `{name}`, which was not opened{remedy}"
            )
        })
        .collect()
}
