//! What stands out in a profile: queues, growth, leaks and other findings, best first.
//!
//! A finding is what one of the [`Rule`]s found in one process. It has the numbers and
//! the thresholds of the rule, so that whoever reads it can judge it. `docs/findings.md`
//! has the formula of each rule and how often it was wrong.
//!
//! The rules look at *groups*: the sites of a process that findings name by the same function
//! (`heads.rs`), and at *families*: groups whose blocks are parts of one object (`families.rs`).
//! For each finding it is computed what the run would have been without the mistake ([`Mended`]);
//! that decides about the order. The rules need a profile with [time tables](allotrope_profile::Options::time_table)
//! and [evidence](allotrope_profile::Options::evidence); without them there are no
//! findings.
#![forbid(unsafe_code)]

mod callers;
mod candidate;
mod conditions;
mod context;
mod curve;
mod families;
mod finding;
mod heads;
mod hump;
mod mended;
mod numbers;
mod rank;
mod rules;
mod shape;
mod together;
mod tried;

use std::collections::BTreeSet;

use allotrope_attribution::{Attributed, Suppressions};

pub use conditions::{Ask, Check, Limit};
pub use finding::{Finding, Mended, Number, Rule, Severity, Value};

pub use tried::{Outcome, Tried, Why};

use context::Context;
use tried::AllTried;

/// How findings are made.
#[derive(Debug, Clone, Default)]
pub struct FindingOptions {
    /// Leaks that are expected.
    pub suppressions: Suppressions,
    /// The rules that are switched off.
    pub off: BTreeSet<Rule>,
}

/// The findings of each process, best first.
pub fn find(attributed: &Attributed<'_>, options: &FindingOptions) -> Vec<Finding> {
    find_and_explain(attributed, options, &Why::default()).0
}

/// The findings of all processes, best first; those that are the same in several processes as one.
pub fn find_together(attributed: &Attributed<'_>, options: &FindingOptions) -> Vec<Finding> {
    together::together(attributed, find(attributed, options)).0
}

/// The best candidates of some rules with their conditions: why there are such findings, or none. Indexes
/// of findings are those of [`find_together`].
pub fn explain(attributed: &Attributed<'_>, options: &FindingOptions, why: &Why) -> Vec<Tried> {
    let (findings, mut tried) = find_and_explain(attributed, options, why);
    let (_, places) = together::together(attributed, findings);
    for tried in &mut tried {
        if let Outcome::Shown(index) | Outcome::SaidBetter(_, Some(index)) = &mut tried.outcome {
            *index = places[*index];
        }
    }
    tried
}

/// The findings of each process, and the best candidates of some rules.
fn find_and_explain(
    attributed: &Attributed<'_>,
    options: &FindingOptions,
    why: &Why,
) -> (Vec<Finding>, Vec<Tried>) {
    let mut all = AllTried::new(why);
    let mut found = Vec::new();
    for process in &attributed.profile.processes {
        let Some(mut context) = Context::new(attributed, process, options) else {
            continue;
        };
        context.families = families::of(&context);
        let mut of_process = rules::find(&context, &mut all);
        of_process.retain(|candidate| {
            let is_off = options.off.contains(&candidate.finding.rule);
            if is_off {
                all.end(candidate.tried, Outcome::Off);
            }
            !is_off
        });
        for candidate in &mut of_process {
            if let Some(mended) = &candidate.finding.mended {
                // What only holds memory is perhaps no mistake.
                let begin = match candidate.finding.rule {
                    Rule::Peak => "If it were freed early",
                    _ => "Mended",
                };
                candidate.finding.text += &mended::text(mended, begin);
            }
        }
        found.extend(rank::without_repetitions(of_process, &mut all));
    }
    let findings = rank::best_first(found, &mut all);
    (findings, all.best())
}
