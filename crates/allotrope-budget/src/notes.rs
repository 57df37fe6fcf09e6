//! Sentences about a test that change no verdict: what moved without being checked, and
//! what somebody should know before they trust a number.

use crate::check::Check;
use crate::configuration::Protocol;
use crate::configuration::window_of;
use crate::outputs::wording::{number, signed};
use crate::result::CaseResult;

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
