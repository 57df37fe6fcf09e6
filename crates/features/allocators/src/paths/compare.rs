//! Compares two reports, and checks limits such as `instructions>+2%`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::limit::Rise;
use crate::paths::report::{Allocator, Instructions, Report};

/// What a limit limits.
pub const METRIC: &str = "instructions";

/// A limit: instructions an operation may rise by so much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit(Rise);

impl Limit {
    /// Parses `instructions>+2%` or `instructions>+10`.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rise = Rise::parse(text, METRIC).ok_or_else(|| {
            format!(
                "{text}: reports of `allotrope paths` are compared by instructions; write a limit such as `instructions>+2%`"
            )
        })?;
        Ok(Self(rise))
    }

    /// Whether a change exceeds it by more than the runs of each side differ.
    fn is_exceeded(self, row: &Row) -> bool {
        // Between the nearest runs of the two sides: 0 noise if the runs are identical.
        self.0
            .is_exceeded(row.after - row.before - row.noise, row.before)
    }
}

/// Instructions an operation of an entry point of an allocator, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The allocator.
    pub allocator: String,
    /// `all` or an entry point.
    pub entry_point: String,
    /// Operations before.
    pub operations: u64,
    /// Mean before.
    pub before: f64,
    /// Mean after.
    pub after: f64,
    /// Noise: by how much the means of the runs of the two sides differ together.
    pub noise: f64,
}

impl Row {
    /// The change relative to before; `None` if there was nothing.
    pub fn change(&self) -> Option<f64> {
        (self.before > 0.0).then(|| (self.after - self.before) / self.before)
    }
}

/// What only one of the two reports has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The allocator.
    pub allocator: String,
    /// The entry point; `null` if it is the whole allocator.
    pub entry_point: Option<String>,
    /// The report without it: `before` or `after`.
    pub missing_in: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = self.missing_in;
        match &self.entry_point {
            Some(entry) => write!(
                to,
                "{entry} of {} is not in the report {side}",
                self.allocator
            ),
            None => write!(to, "{} is not in the report {side}", self.allocator),
        }
    }
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// `allotrope-paths-diff/1`.
    pub format: &'static str,
    /// Rows by allocator, `all` first, then the entry points.
    pub rows: Vec<Row>,
    /// What cannot be compared, because only one report has it.
    pub missing: Vec<Missing>,
    /// What differs beside the allocators, as sentences.
    pub notes: Vec<String>,
    /// Functions that only one side calls, or that changed most, as sentences.
    pub callees: Vec<String>,
    /// Exceeded limits, as sentences.
    pub exceeded: Vec<String>,
}

/// Why two reports cannot be compared.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CompareError {
    /// They were made of other operations.
    #[error(
        "the two reports step through different operations ({0} and {1}): make both from the same recording, with the same --sample"
    )]
    OtherOperations(String, String),
    /// They are of other recordings with as many operations.
    #[error(
        "the two reports step through different operations ({what}: {before} before, {after} after): make both from the same recording, with the same --sample"
    )]
    OtherCalls {
        /// An entry point, with or without a size class.
        what: String,
        /// Operations of the entry point before.
        before: u64,
        /// Operations of the entry point after.
        after: u64,
    },
    /// No allocator is in both.
    #[error("no allocator is in both reports: before has {0}, after has {1}")]
    NoPair(String, String),
}

/// Compares. An allocator is compared with that of its name; if each report has only one,
/// these are compared, whatever their names are.
///
/// # Errors
/// If they have nothing in common.
pub fn compare(
    before: &Report,
    after: &Report,
    limits: &[Limit],
) -> Result<Comparison, CompareError> {
    let size = |it: &Report| (it.recorded_operations, it.every);
    if size(before) != size(after) {
        let text = |it: &Report| format!("one of {} of {}", it.every, it.recorded_operations);
        return Err(CompareError::OtherOperations(text(before), text(after)));
    }
    let pairs = pairs(before, after);
    if pairs.is_empty() {
        let names = |it: &Report| {
            let names: Vec<&str> = it.allocators.iter().map(|it| &*it.name).collect();
            names.join(", ")
        };
        return Err(CompareError::NoPair(names(before), names(after)));
    }
    for (a, b) in &pairs {
        same_operations(a, b)?;
    }
    let mut missing = missing_allocators(before, after, &pairs);
    missing.extend(pairs.iter().flat_map(|(a, b)| missing_entry_points(a, b)));
    let rows: Vec<Row> = pairs.iter().flat_map(|(a, b)| rows(a, b)).collect();
    let exceeded = rows.iter().flat_map(|row| {
        let exceeded = limits.iter().filter(|limit| limit.is_exceeded(row));
        exceeded.map(|_| sentence(row))
    });
    Ok(Comparison {
        format: "allotrope-paths-diff/1",
        exceeded: exceeded.collect(),
        notes: differing_environments(before, after).into_iter().collect(),
        missing,
        callees: pairs.iter().flat_map(|(a, b)| callees(a, b)).collect(),
        rows,
    })
}

/// What an allocator that asks the environment executes depends on it.
fn differing_environments(before: &Report, after: &Report) -> Option<String> {
    if before.environment == after.environment {
        return None;
    }
    let text = |it: &Report| match &it.environment {
        Some(environment) => environment.text(),
        None => "a fixed one, of an earlier version".to_owned(),
    };
    Some(format!(
        "the environments of the replays differ, which changes what looking up a variable costs; before: {}; after: {}",
        text(before),
        text(after)
    ))
}

fn pairs<'a>(before: &'a Report, after: &'a Report) -> Vec<(&'a Allocator, &'a Allocator)> {
    if let ([a], [b]) = (&before.allocators[..], &after.allocators[..]) {
        return vec![(a, b)];
    }
    let same = before.allocators.iter().filter_map(|a| {
        let b = after.allocators.iter().find(|b| a.name == b.name)?;
        Some((a, b))
    });
    same.collect()
}

/// The allocators in no pair.
fn missing_allocators(
    before: &Report,
    after: &Report,
    pairs: &[(&Allocator, &Allocator)],
) -> Vec<Missing> {
    let missing = |it: &Allocator, missing_in| Missing {
        allocator: it.name.clone(),
        entry_point: None,
        missing_in,
    };
    let gone = before.allocators.iter();
    let gone = gone.filter(|it| !pairs.iter().any(|(a, _)| a.name == it.name));
    let new = after.allocators.iter();
    let new = new.filter(|it| !pairs.iter().any(|(_, b)| b.name == it.name));
    let gone = gone.map(|it| missing(it, "after"));
    gone.chain(new.map(|it| missing(it, "before"))).collect()
}

fn missing_entry_points(before: &Allocator, after: &Allocator) -> Vec<Missing> {
    let only = |it: &Allocator, other: &Allocator, missing_in| -> Vec<Missing> {
        let rows = it.instructions.iter();
        let rows = rows.filter(|row| entry_point(other, &row.entry_point).is_none());
        let missing = rows.map(|row| Missing {
            allocator: after.name.clone(),
            entry_point: Some(row.entry_point.clone()),
            missing_in,
        });
        missing.collect()
    };
    let mut missing = only(before, after, "after");
    missing.extend(only(after, before, "before"));
    missing
}

fn entry_point<'a>(allocator: &'a Allocator, name: &str) -> Option<&'a Instructions> {
    let mut rows = allocator.instructions.iter();
    rows.find(|it| it.entry_point == name)
}

/// Whether the operations of both are the same, as far as their reports tell: two recordings may
/// have as many operations by chance.
fn same_operations(before: &Allocator, after: &Allocator) -> Result<(), CompareError> {
    let other = |what: String, before, after| CompareError::OtherCalls {
        what,
        before,
        after,
    };
    for a in &before.instructions {
        let b = entry_point(after, &a.entry_point);
        if let Some(b) = b.filter(|b| a.operations != b.operations) {
            let what = format!("operations of {}", a.entry_point);
            return Err(other(what, a.operations, b.operations));
        }
    }
    let mut classes: BTreeMap<(&str, u64), [u64; 2]> = BTreeMap::new();
    for (side, allocator) in [before, after].into_iter().enumerate() {
        for class in &allocator.size_classes {
            let key = (&*class.entry_point, class.up_to_bytes);
            classes.entry(key).or_default()[side] = class.operations;
        }
    }
    match classes.into_iter().find(|(_, [a, b])| a != b) {
        None => Ok(()),
        Some(((entry, bytes), [a, b])) => {
            let what = format!("operations of {entry} up to {bytes} bytes");
            Err(other(what, a, b))
        }
    }
}

fn rows(before: &Allocator, after: &Allocator) -> Vec<Row> {
    let rows = before.instructions.iter().filter_map(|a| {
        let b = entry_point(after, &a.entry_point)?;
        let spread = |it: &Instructions| it.high - it.low;
        Some(Row {
            allocator: after.name.clone(),
            entry_point: a.entry_point.clone(),
            operations: a.operations,
            before: a.mean,
            after: b.mean,
            noise: spread(a).max(spread(b)),
        })
    });
    rows.collect()
}

fn sentence(row: &Row) -> String {
    let change = row.change();
    let change = change.map_or_else(String::new, |it| format!(" ({:+.2}%)", it * 100.0));
    format!(
        "{}, {}: {:.2} instructions an operation, {:.2} before{change}",
        row.allocator, row.entry_point, row.after, row.before
    )
}

/// Differences of callees from this share of all instructions before on are worth a sentence.
const CALLEE: f64 = 0.005;

fn callees(before: &Allocator, after: &Allocator) -> Vec<String> {
    let mean = |allocator: &Allocator| allocator.instructions.first().map_or(0.0, |it| it.mean);
    // Instructions an operation: a share changes with everything else.
    let amount = |allocator: &Allocator, function: &str| -> f64 {
        let all = allocator.callees.iter();
        let same = all.filter(|it| it.function == function);
        same.fold(0.0, |sum, it| sum + it.share_of_instructions) * mean(allocator)
    };
    let both = before.callees.iter().chain(&after.callees);
    let mut names: Vec<&str> = both.map(|it| &*it.function).collect();
    names.sort_unstable();
    names.dedup();
    let changed = names.into_iter().filter_map(|function| {
        let (a, b) = (amount(before, function), amount(after, function));
        ((a - b).abs() >= CALLEE * mean(before)).then(|| {
            format!(
                "{}: {function} takes {b:.2} instructions an operation, {a:.2} before",
                after.name
            )
        })
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::report::FORMAT;

    fn report(name: &str, means: &[(&str, f64, f64, f64)]) -> Report {
        let instructions = means.iter().map(|(entry, low, mean, high)| Instructions {
            entry_point: (*entry).to_owned(),
            operations: 100,
            mean: *mean,
            low: *low,
            high: *high,
            median: 0,
            p99: 0,
            locked: 0.0,
            system_calls: 0.0,
        });
        Report {
            format: FORMAT.to_owned(),
            recording: String::new(),
            recorded_operations: 1000,
            every: 11,
            environment: None,
            allocators: vec![Allocator {
                name: name.to_owned(),
                library: String::new(),
                runs: 2,
                operations: 100,
                cut: 0,
                instructions: instructions.collect(),
                size_classes: Vec::new(),
                paths: Vec::new(),
                callees: Vec::new(),
                lines: Vec::new(),
                findings: Vec::new(),
            }],
        }
    }

    /// Reported: `diff` of two reports of `paths` is silent on their environments.
    #[test]
    fn environments_that_differ_are_said() {
        let means = [("all", 100.0, 100.0, 100.0)];
        let (before, mut after) = (report("a", &means), report("a", &means));
        let notes = |before: &Report, after: &Report| compare(before, after, &[]).unwrap().notes;
        assert_eq!(notes(&before, &after), [""; 0]);
        let environment = |variables| crate::replay::EnvironmentRow {
            source: crate::replay::Source::Recording,
            variables,
            bytes: 100,
            names: true,
            renamed: Vec::new(),
            set: Vec::new(),
        };
        after.environment = Some(environment(3));
        let found = notes(&before, &after);
        assert!(found[0].contains("of an earlier version; after: environment of the recorded"));
        let mut same = before.clone();
        same.environment = Some(environment(3));
        assert_eq!(notes(&same, &after), [""; 0]);
        same.environment = Some(environment(4));
        assert!(notes(&same, &after)[0].contains("4 variables"));
    }

    fn exceeded(limit: &str, before: &Report, after: &Report) -> usize {
        let limit = Limit::parse(limit).unwrap();
        compare(before, after, &[limit]).unwrap().exceeded.len()
    }

    #[test]
    fn limits() {
        for wrong in [
            "bytes>+2%",
            "instructions",
            "instructions>2%",
            "instructions>+x",
            "instructions>+-1",
            "instructions>+-0",
            "instructions>++2",
            "instructions>++2%",
            "instructions>+.5",
            "instructions>+inf",
            "INSTRUCTIONS>+2",
        ] {
            assert!(Limit::parse(wrong).is_err(), "{wrong}");
        }
        let before = report("a", &[("all", 100.0, 100.0, 100.0)]);
        let after = |mean| report("b", &[("all", mean, mean, mean)]);
        assert_eq!(exceeded("instructions>+2%", &before, &after(102.0)), 0);
        assert_eq!(exceeded("instructions>+2%", &before, &after(102.1)), 1);
        assert_eq!(exceeded("instructions > +2 %", &before, &after(102.1)), 1);
        assert_eq!(exceeded("instructions>+2", &before, &after(102.0)), 0);
        assert_eq!(exceeded("instructions>+2", &before, &after(102.5)), 1);
        assert_eq!(exceeded("instructions>+0%", &before, &after(50.0)), 0);
    }

    #[test]
    fn a_limit_is_above_the_spread_of_the_runs() {
        let before = report("a", &[("all", 99.0, 100.0, 101.0)]);
        let after = |mean| report("a", &[("all", mean, mean, mean)]);
        // The spread is 2: a rise of 3 may be 1, and one of 4.5 is at least 2.5.
        assert_eq!(exceeded("instructions>+2%", &before, &after(103.0)), 0);
        assert_eq!(exceeded("instructions>+2%", &before, &after(104.5)), 1);
    }

    #[test]
    fn each_entry_point_counts() {
        let before = report(
            "a",
            &[("all", 50.0, 50.0, 50.0), ("free", 10.0, 10.0, 10.0)],
        );
        let after = report(
            "a",
            &[("all", 50.5, 50.5, 50.5), ("free", 11.0, 11.0, 11.0)],
        );
        assert_eq!(exceeded("instructions>+2%", &before, &after), 1);
    }

    /// A regression that crashes has no figures.
    #[test]
    fn what_only_one_report_has_is_missing() {
        let row = ("all", 1.0, 1.0, 1.0);
        let mut before = report("a", &[row, ("free", 1.0, 1.0, 1.0)]);
        let mut after = report("a", &[row, ("malloc", 1.0, 1.0, 1.0)]);
        let other = |name: &str| report(name, &[row]).allocators.remove(0);
        before.allocators.push(other("b"));
        after.allocators.push(other("c"));
        let comparison = compare(&before, &after, &[]).unwrap();
        let sentences: Vec<String> = comparison.missing.iter().map(Missing::to_string).collect();
        assert_eq!(
            sentences,
            [
                "b is not in the report after",
                "c is not in the report before",
                "free of a is not in the report after",
                "malloc of a is not in the report before",
            ]
        );
        // Two that are alone are compared, whatever their names are.
        let (a, b) = (report("a", &[row]), report("b", &[row]));
        assert_eq!(compare(&a, &b, &[]).unwrap().missing, []);
    }

    #[test]
    fn recordings_with_as_many_operations_are_told_apart() {
        let class = |entry: &str, up_to_bytes, operations| crate::paths::report::SizeClass {
            entry_point: entry.to_owned(),
            up_to_bytes,
            operations,
            mean: 1.0,
            median: 1,
        };
        let rows = [("all", 1.0, 1.0, 1.0), ("malloc", 1.0, 1.0, 1.0)];
        let mut a = report("a", &rows);
        let mut b = a.clone();
        b.allocators[0].instructions[1].operations = 99;
        let error = compare(&a, &b, &[]).unwrap_err().to_string();
        assert!(
            error.contains("operations of malloc: 100 before, 99 after"),
            "{error}"
        );
        b = a.clone();
        a.allocators[0].size_classes = vec![class("malloc", 16, 60), class("malloc", 64, 40)];
        b.allocators[0].size_classes = vec![class("malloc", 16, 60), class("malloc", 32, 40)];
        let error = compare(&a, &b, &[]).unwrap_err().to_string();
        assert!(
            error.contains("operations of malloc up to 32 bytes: 0 before, 40 after"),
            "{error}"
        );
        assert!(compare(&a, &a.clone(), &[]).is_ok());
    }

    #[test]
    fn reports_of_other_operations_cannot_be_compared() {
        let a = report("a", &[]);
        let mut b = report("a", &[]);
        b.every = 13;
        assert!(compare(&a, &b, &[]).is_err());
        let mut b = report("b", &[]);
        b.allocators.push(a.allocators[0].clone());
        b.allocators[1].name = "c".to_owned();
        assert!(matches!(
            compare(&a, &b, &[]),
            Err(CompareError::NoPair(..))
        ));
    }
}
