//! Explains a number that differs from its budget by the stacks of the run that has it.
//!
//! Nothing of the difference is left out: the entries of the comparison and the *rest*, the
//! part that no stack has, sum to the number minus the accepted one. A remark says where a
//! rest comes from. A number without stacks has a remark only.

use std::path::Path;

use allotrope_attribution::Origin;
use allotrope_diff::{Diff, DiffOptions};
use allotrope_profile::{Metric, MetricSet, StackSet};

use crate::budgets::{Budget, CallTree, fold_like};
use crate::case::Case;
use crate::configuration::Protocol;
use crate::definition::exists;
use crate::limit::number;
use crate::outputs::wording::{explaining_entries, signed};
use crate::result::{Explanation, Unexplained};

/// What explains the numbers of a case.
pub(crate) struct Explainer<'a> {
    /// The case.
    pub case: &'a Case,
    /// Whose code frames are, and which leaks are expected.
    pub protocol: &'a Protocol,
    /// Iterations in a run, if known.
    pub iterations: Option<u64>,
    /// The accepted numbers.
    pub budget: Option<&'a Budget>,
    /// Stacks of the accepted numbers.
    pub profile: Option<&'a CallTree>,
    /// The numbers are those of a log, which has no stacks of its own.
    pub is_of_log: bool,
    /// The folder of the repository.
    pub root: &'a Path,
    /// The command that accepts the numbers and stacks of the test.
    pub accept: &'a str,
    /// The program and its arguments, as a shell command.
    pub program: &'a str,
}

impl Explainer<'_> {
    /// Compares the stacks of one run, by its index, with the accepted ones. The error is
    /// for a number without stacks; `None` if there is nothing to say.
    pub fn explain(&self, metric: Metric, run: usize) -> Option<Result<Explanation, Unexplained>> {
        let sample = self.case.runs.get(run)?;
        let figure = sample.figure(metric)?;
        let unexplained = |remark| Some(Err(Unexplained { metric, remark }));
        let Some(of_stacks) = metric.of_stacks() else {
            return unexplained(without_stacks(metric, self.program));
        };
        let now = &sample.stacks;
        if !now.known.has(of_stacks) {
            // Counted without stacks: the report says it once for the test.
            return None;
        }
        let number = self.budget.and_then(|budget| budget.spread(metric));
        let number = number.map(|spread| spread.typical);
        let nothing = StackSet {
            known: MetricSet::OF_STACKS,
            ..StackSet::default()
        };
        let profile = self.profile.filter(|_| number.is_some());
        let accepted = profile.map(|profile| profile.stacks(now));
        let accepted = accepted.filter(|accepted| accepted.known.has(of_stacks));
        let has_profile = accepted.is_some();
        if let Some(number) = number.filter(|&it| it != 0 && self.is_of_log && !has_profile) {
            // All stacks of the run would be listed as if each were a difference.
            return unexplained(format!(
                "{metric}: the log has no stacks, and no accepted ones sum to {}, so the lines \
                 of this difference are not known; `{}` with the older version stores its stacks",
                self::number(number),
                self.accept
            ));
        }
        let accepted = &accepted.unwrap_or(nothing);
        let options = options(self.protocol, of_stacks, self.iterations);
        let now = fold_like(now, accepted);
        let before = std::slice::from_ref(accepted);
        let diff = match allotrope_diff::compare(before, &[now], &options) {
            Ok(diff) => diff,
            Err(error) => {
                return unexplained(format!("the stacks cannot be compared: {error}"));
            }
        };
        let of_number = [number.unwrap_or(0), figure];
        let rest = Rest::of(of_number, &diff);
        let because = match number {
            Some(_) if !has_profile => format!(
                "no stacks of the accepted number are stored; `{}` stores them",
                self.accept
            ),
            _ if metric == Metric::Net && rest.are_deallocations() => rest.deallocations(),
            Some(number) if rest.before != 0 && self.is_of_log => format!(
                "the log has {}, the accepted stacks sum to {}",
                self::number(number),
                self::number(number.saturating_sub(rest.before)),
            ),
            Some(number) if rest.before != 0 => format!(
                "the accepted number is {}, but the accepted stacks sum to {}: one of them was \
                 edited or merged alone; `{}` writes both",
                self::number(number),
                self::number(number.saturating_sub(rest.before)),
                self.accept
            ),
            _ => "the recording has no stacks of it".to_owned(),
        };
        Some(Ok(Explanation {
            metric,
            run: run + 1,
            accepted: has_profile || number == Some(0),
            difference: figure.saturating_sub(of_number[0]),
            rest: rest.difference(),
            remarks: rest.remark(&because).into_iter().collect(),
            location: location(&diff, self.root),
            diff,
        }))
    }
}

/// The options for the stacks of a metric.
pub(crate) fn options(
    protocol: &Protocol,
    of_stacks: Metric,
    iterations: Option<u64>,
) -> DiffOptions {
    DiffOptions {
        metric: of_stacks,
        per: iterations
            .filter(|&number| number > 1)
            .map(|number| number as f64),
        glue: protocol.glue.clone(),
        suppressions: protocol.suppressions.clone(),
        ..DiffOptions::default()
    }
}

/// Why a metric has no stacks, and what shows more.
pub(crate) fn without_stacks(metric: Metric, program: &str) -> String {
    let known = match metric {
        Metric::LeakedFds => "a window records which files stay open, not who opened them",
        _ => "recordings have no stacks of it",
    };
    format!("{metric}: {known}; `valgrind --track-fds=yes {program}` shows the stacks")
}

/// The parts of a number and of its accepted one that no stack has.
pub(crate) struct Rest {
    before: i64,
    after: i64,
}

impl Rest {
    /// The numbers before and after minus the sums of their stacks.
    pub fn of([before, after]: [i64; 2], diff: &Diff) -> Self {
        let sum = |sum: u64| i64::try_from(sum).unwrap_or(i64::MAX);
        Self {
            before: before.saturating_sub(sum(diff.before)),
            after: after.saturating_sub(sum(diff.after)),
        }
    }

    /// What is missing from the sum of the entries.
    pub fn difference(&self) -> i64 {
        self.after.saturating_sub(self.before)
    }

    /// Whether it can be deallocations of blocks that were not allocated in the case, as in
    /// [`Metric::Net`].
    pub fn are_deallocations(&self) -> bool {
        self.before <= 0 && self.after <= 0
    }

    /// The sentence about such deallocations.
    pub fn deallocations(&self) -> String {
        let [was, is] = [self.before, self.after].map(|it| number(-it));
        format!("deallocations of blocks from before the case: {was} → {is}")
    }

    /// The line about the rest; `None` if there is none.
    pub fn remark(&self, because: &str) -> Option<String> {
        let rest = self.difference();
        (rest != 0).then(|| format!("rest {}: {because}", signed(rest)))
    }
}

/// The line of the frame that is blamed for the largest entry, if it is in a file of the
/// repository.
pub(crate) fn location(diff: &Diff, root: &Path) -> Option<(String, u32)> {
    let blamed = explaining_entries(diff).next()?.blame as usize;
    let frame = diff.frames.get(blamed)?;
    let is_ours = diff.origins.get(blamed) == Some(&Origin::Repository);
    (is_ours && exists(root, &frame.file)).then(|| (frame.file.to_string(), frame.line.max(1)))
}

#[cfg(test)]
mod tests;
