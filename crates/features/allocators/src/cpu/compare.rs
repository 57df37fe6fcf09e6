//! Two saved reports: what changed in each function, each group and the program's own figure, and
//! what is proven of it.
//!
//! A function's share rises if another one gets faster, so CPU time an operation is compared where
//! both reports have it. The 95 % intervals are those of the shares (Wilson), times what the run took
//! an operation, which is measured and not sampled. What differs by less than the intervals is *not
//! proven*. If neither side has the true value outside of its interval more often than in 5 of 100
//! reports, both intervals lie apart by chance in less than 1 of 100 comparisons (Schenker and
//! Gentleman, The American Statistician 55, 2001).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::cpu::breakdown::WhatIf;
use crate::cpu::rows::wilson;
use crate::cpu::saved::{Saved, Sum};
use crate::limit::Rise;

/// What a limit limits.
pub const METRIC: &str = "cpu-time";

/// A limit: CPU time inside the allocator, an operation, may rise by so much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit(Rise);

impl Limit {
    /// Parses `cpu-time>+2%` or `cpu-time>+10`, nanoseconds.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rise = Rise::parse(text, METRIC).ok_or_else(|| {
            format!(
                "{text}: reports of `allotrope cpu` are compared by CPU time an operation; write a limit such as `cpu-time>+5%`"
            )
        })?;
        Ok(Self(rise))
    }
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// `allotrope-cpu-diff/1`.
    pub format: &'static str,
    /// By what verdicts are made: `time an operation` or `share`.
    pub basis: &'static str,
    /// Why it is the share, as a sentence; `null` otherwise.
    pub basis_why: Option<String>,
    /// What differs beside the program's code, and what makes figures doubtful, as sentences.
    pub notes: Vec<String>,
    /// The run before.
    pub before: Side,
    /// The run after.
    pub after: Side,
    /// Time before divided by time after, of the whole program, an operation; `null` if it is
    /// unknown. It is measured, and so has no interval of samples.
    pub factor: Option<f64>,
    /// Everything inside the allocator.
    pub inside: Change,
    /// Functions, the largest change first.
    pub functions: Vec<FunctionChange>,
    /// Groups, the largest change first.
    pub groups: Vec<GroupChange>,
    /// The program's own figures, in the order in which it printed them; empty if the two runs
    /// printed different numbers of them.
    pub scores: Vec<ScoreChange>,
    /// Exceeded limits, as sentences.
    pub exceeded: Vec<String>,
    /// Why limits could not be checked, as a sentence.
    pub not_checked: Option<String>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Start of the sampling.
    pub date: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The process, if a running one was sampled.
    pub process: Option<u32>,
    /// Samples of CPU time.
    pub samples: u64,
    /// CPU seconds; `null` if the clock counts cycles.
    pub cpu_seconds: Option<f64>,
    /// Calls of the allocator; `null` if they are not known.
    pub operations: Option<u64>,
    /// CPU time of the whole program an operation, in nanoseconds.
    pub ns_per_operation: Option<f64>,
}

impl Side {
    fn of(saved: &Saved) -> Self {
        Self {
            date: saved.origin.date.clone(),
            command: saved.origin.command.clone(),
            process: saved.origin.process,
            samples: saved.samples,
            cpu_seconds: saved.cpu_seconds,
            operations: saved.operations,
            ns_per_operation: saved.ns_per_operation().ok(),
        }
    }
}

/// A part of the samples of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Samples.
    pub samples: u64,
    /// Part of all samples, 0 to 1, with its 95 % interval.
    pub share: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Nanoseconds of CPU time an operation; `null` if unknown.
    pub ns: Option<f64>,
    /// Lower end of the interval.
    pub ns_low: Option<f64>,
    /// Upper end of the interval.
    pub ns_high: Option<f64>,
}

impl Figures {
    fn of(samples: u64, side: &Side) -> Self {
        let (low, high) = wilson(samples, side.samples);
        let share = samples as f64 / side.samples.max(1) as f64;
        let ns = |share: f64| side.ns_per_operation.map(|it| it * share);
        Self {
            samples,
            share,
            low,
            high,
            ns: ns(share),
            ns_low: ns(low),
            ns_high: ns(high),
        }
    }

    /// The figure that is compared, and its interval.
    fn by(&self, is_time: bool) -> (f64, f64, f64) {
        match (is_time, self.ns, self.ns_low, self.ns_high) {
            (true, Some(ns), Some(low), Some(high)) => (ns, low, high),
            _ => (self.share, self.low, self.high),
        }
    }
}

/// What is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Less than before: the intervals do not meet.
    Less,
    /// More than before: the intervals do not meet.
    More,
    /// The intervals overlap.
    NotProven,
}

impl Verdict {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Less => "less",
            Self::More => "more",
            Self::NotProven => "not proven",
        }
    }
}

/// A part of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Before.
    pub before: Figures,
    /// After.
    pub after: Figures,
    /// What is proven, by the basis of the comparison.
    pub verdict: Verdict,
}

impl Change {
    fn of(samples: [u64; 2], sides: [&Side; 2], is_time: bool) -> Self {
        let before = Figures::of(samples[0], sides[0]);
        let after = Figures::of(samples[1], sides[1]);
        let (_, before_low, before_high) = before.by(is_time);
        let (_, after_low, after_high) = after.by(is_time);
        let verdict = match () {
            () if after_high < before_low => Verdict::Less,
            () if after_low > before_high => Verdict::More,
            () => Verdict::NotProven,
        };
        Self {
            before,
            after,
            verdict,
        }
    }

    /// By how much the compared figure differs.
    fn size(&self, is_time: bool) -> f64 {
        (self.after.by(is_time).0 - self.before.by(is_time).0).abs()
    }
}

/// A function of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionChange {
    /// The function.
    pub function: String,
    /// Its module, without folders.
    pub module: String,
    /// Whether it belongs to the allocator.
    pub allocator: bool,
    /// Whether the allocator calls it, in one of the runs.
    pub inside: bool,
    /// The change.
    #[serde(flatten)]
    pub change: Change,
}

/// A group of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupChange {
    /// Its name.
    pub name: String,
    /// The change.
    #[serde(flatten)]
    pub change: Change,
    /// How many times as fast the run before was estimated to be without the group.
    pub estimate: Option<WhatIf>,
}

/// A figure that the program printed in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreChange {
    /// The line in which it stands, in the run after.
    pub line: String,
    /// The number before.
    pub before: f64,
    /// The number after.
    pub after: f64,
    /// After divided by before; `null` if that was 0.
    pub ratio: Option<f64>,
}

/// Compares two runs.
pub fn compare(before: &Saved, after: &Saved, limits: &[Limit]) -> Comparison {
    let sides = [Side::of(before), Side::of(after)];
    let [before_side, after_side] = &sides;
    let both = [before_side, after_side];
    let basis_why = why_not_time(both);
    let is_time = basis_why.is_none();
    let change = |samples| Change::of(samples, both, is_time);
    let inside = change([before.inside.samples, after.inside.samples]);
    let times = before_side
        .ns_per_operation
        .zip(after_side.ns_per_operation);
    let factor = times.filter(|(_, after)| *after > 0.0);
    let mut notes = notes(before, after);
    if before.scores.len() != after.scores.len() {
        notes.push(format!(
            "the program printed {} figures before and {} after, which are not compared",
            before.scores.len(),
            after.scores.len()
        ));
    }
    let (exceeded, not_checked) = checked(limits, &inside, basis_why.as_deref());
    Comparison {
        format: "allotrope-cpu-diff/1",
        basis: match is_time {
            true => "time an operation",
            false => "share",
        },
        notes,
        factor: factor.map(|(before, after)| before / after),
        inside,
        functions: functions([before, after], &change, is_time),
        groups: groups([before, after], &change, is_time),
        scores: scores(before, after),
        exceeded,
        not_checked,
        basis_why,
        before: before_side.clone(),
        after: after_side.clone(),
    }
}

/// Why CPU time an operation cannot be compared.
fn why_not_time(sides: [&Side; 2]) -> Option<String> {
    let lacks = |is_it: &dyn Fn(&Side) -> bool| match sides.map(is_it) {
        [true, true] => Some("both runs"),
        [true, false] => Some("the run before"),
        [false, true] => Some("the run after"),
        [false, false] => None,
    };
    if let Some(which) = lacks(&|it| it.cpu_seconds.is_none()) {
        return Some(format!(
            "the clock of {which} counted cycles, so CPU time is not known"
        ));
    }
    lacks(&|it| it.operations.is_none()).map(|which| {
        format!(
            "the number of operations of {which} is not known (`allotrope cpu --count`), so shares are compared: the share of a function rises if another one gets faster"
        )
    })
}

/// The functions of both sides. One that has only one side is paired with the same name in another
/// module of the other side, such as a library that was renamed.
fn functions(
    [before, after]: [&Saved; 2],
    change: &dyn Fn([u64; 2]) -> Change,
    is_time: bool,
) -> Vec<FunctionChange> {
    let [mut before, mut after] = [before.by_function(), after.by_function()];
    let keys: BTreeSet<(String, String)> = before.keys().chain(after.keys()).cloned().collect();
    let mut pairs: Vec<((String, String), [Sum; 2])> = Vec::new();
    for key in &keys {
        if let (Some(a), Some(b)) = (before.get(key), after.get(key)) {
            pairs.push((key.clone(), [*a, *b]));
            before.remove(key);
            after.remove(key);
        }
    }
    let only = |side: &BTreeMap<(String, String), Sum>, name: &str| -> Vec<(String, String)> {
        let keys = side.keys().filter(|(function, _)| function == name);
        keys.cloned().collect()
    };
    for key in &keys {
        let name = &key.0;
        if let ([a], [b]) = (&only(&before, name)[..], &only(&after, name)[..]) {
            let sums = [before.remove(a), after.remove(b)].map(Option::unwrap_or_default);
            pairs.push((b.clone(), sums));
        }
    }
    let none = Sum::default();
    pairs.extend(before.into_iter().map(|(key, sum)| (key, [sum, none])));
    pairs.extend(after.into_iter().map(|(key, sum)| (key, [none, sum])));
    let mut rows: Vec<FunctionChange> = pairs
        .into_iter()
        .map(|((function, module), sums)| FunctionChange {
            function,
            module,
            allocator: sums.iter().any(|it| it.allocator),
            inside: sums.iter().any(|it| it.inside > 0),
            change: change(sums.map(|it| it.samples)),
        })
        .collect();
    rows.sort_by(|a, b| {
        let sizes = b.change.size(is_time).total_cmp(&a.change.size(is_time));
        sizes.then_with(|| (&a.function, &a.module).cmp(&(&b.function, &b.module)))
    });
    rows
}

fn groups(
    [before, after]: [&Saved; 2],
    change: &dyn Fn([u64; 2]) -> Change,
    is_time: bool,
) -> Vec<GroupChange> {
    let names: BTreeSet<&str> = [before, after]
        .into_iter()
        .flat_map(|it| it.groups.iter().map(|it| &*it.name))
        .collect();
    let mut rows: Vec<GroupChange> = names
        .into_iter()
        .map(|name| {
            let of = |side: &Saved| side.groups.iter().find(|it| it.name == name).cloned();
            let groups = [of(before), of(after)];
            let samples = |it: &Option<_>| -> u64 {
                it.as_ref()
                    .map_or(0, |it: &crate::cpu::saved::SavedGroup| it.share.samples)
            };
            GroupChange {
                name: name.to_owned(),
                change: change([samples(&groups[0]), samples(&groups[1])]),
                estimate: groups[0].as_ref().map(|it| it.what_if),
            }
        })
        .collect();
    rows.sort_by(|a, b| {
        let sizes = b.change.size(is_time).total_cmp(&a.change.size(is_time));
        sizes.then_with(|| a.name.cmp(&b.name))
    });
    rows
}

fn scores(before: &Saved, after: &Saved) -> Vec<ScoreChange> {
    if before.scores.len() != after.scores.len() {
        return Vec::new();
    }
    let pairs = before.scores.iter().zip(&after.scores);
    pairs
        .map(|(before, after)| ScoreChange {
            line: after.line.clone(),
            before: before.value,
            after: after.value,
            ratio: (before.value != 0.0).then(|| after.value / before.value),
        })
        .collect()
}

fn checked(
    limits: &[Limit],
    inside: &Change,
    why_not: Option<&str>,
) -> (Vec<String>, Option<String>) {
    let (before, after) = (inside.before, inside.after);
    let figures = before.ns.zip(after.ns);
    let nearest = before.ns_high.zip(after.ns_low);
    let (Some((ns, ns_after)), Some((high, low)), None) = (figures, nearest, why_not) else {
        let why = why_not.unwrap_or("CPU time an operation is not known");
        return (Vec::new(), (!limits.is_empty()).then(|| why.to_owned()));
    };
    let exceeded = limits.iter().filter(|it| it.0.is_exceeded(low - high, ns));
    let exceeded = exceeded.map(|_| {
        format!(
            "{ns_after:.2} ns of CPU time an operation inside the allocator, {ns:.2} before ({:+.1}%)",
            (ns_after / ns.max(f64::MIN_POSITIVE) - 1.0) * 100.0
        )
    });
    (exceeded.collect(), None)
}

/// What differs beside the code, and what makes figures doubtful.
fn notes(before: &Saved, after: &Saved) -> Vec<String> {
    let mut notes = Vec::new();
    let (a, b) = (&before.origin, &after.origin);
    let mut differ = |what: &str, before: String, after: String| {
        if before != after {
            let text = |it: String| match it.is_empty() {
                true => "none".to_owned(),
                false => it,
            };
            notes.push(format!(
                "{what} differs: {} before, {} after",
                text(before),
                text(after)
            ));
        }
    };
    differ("the command", a.command_text(), b.command_text());
    differ("the machine", a.machine.text(), b.machine.text());
    differ(
        "the environment",
        a.environment.text(),
        b.environment.text(),
    );
    differ(
        "the allocator",
        before.allocators.join(", "),
        after.allocators.join(", "),
    );
    let clock = |it: &Saved| match it.kernel {
        true => format!("{} of user space and kernel", it.clock),
        false => format!("{} of user space", it.clock),
    };
    differ("the clock", clock(before), clock(after));
    for (side, saved) in [("before", before), ("after", after)] {
        if saved.lost > 0 {
            notes.push(format!(
                "the run {side} lost {} records, so its shares can be wrong",
                saved.lost
            ));
        }
        let doubts = saved.doubts.iter();
        notes.extend(doubts.map(|it| format!("of the run {side}: {it}")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn share(samples: u64) -> Value {
        json!({"samples": samples, "kernel_samples": 0, "share": 0.0, "low": 0.0, "high": 0.0})
    }

    fn row(function: &str, module: &str, allocator: bool, samples: u64) -> Value {
        let mut row = share(samples);
        row["function"] = function.into();
        row["module"] = module.into();
        row["allocator"] = allocator.into();
        row["file"] = "".into();
        row["line"] = 0.into();
        row
    }

    /// A run of 10 s and 10,000 samples, of which so many are in `getenv`, in `free` and outside.
    fn json_of(getenv: u64, free: u64, operations: Option<u64>) -> Value {
        let mut group = share(getenv);
        group["name"] = "environment".into();
        group["what_if"] = json!({"factor": 1.78, "low": 1.7, "high": 1.9});
        json!({
            "format": "allotrope-cpu/1",
            "clock": "cpu-clock",
            "kernel": true,
            "samples": 10_000,
            "lost": 0,
            "cpu_seconds": 10.0,
            "allocators": ["/a/bench"],
            "inside": share(getenv + free),
            "functions": [
                row("getenv", "/lib/libc.so.6", false, getenv),
                row("free", "/a/bench", true, free),
            ],
            "outside": [row("work", "/a/bench", false, 10_000 - getenv - free)],
            "groups": [group],
            "operations": operations,
            "scores": [{"line": "60 M ops/sec", "value": 60.0}],
            "origin": {
                "date": "2026-01-01 00:00:00 UTC",
                "command": ["./bench"],
                "process": null,
                "machine": {"processor": "x", "processors": 2, "memory_bytes": 1, "kernel": "6"},
                "environment": {"variables": 3, "bytes": 90, "of_allocators": []},
            },
            "doubts": [],
        })
    }

    fn saved(json: &Value) -> Saved {
        Saved::read(json.to_string().as_bytes()).expect("a report")
    }

    fn of<'a>(comparison: &'a Comparison, function: &str) -> &'a FunctionChange {
        let mut all = comparison.functions.iter();
        all.find(|it| it.function == function).expect("a function")
    }

    /// 1000 ns an operation before, of which `getenv` takes 440 and `free` 100; 560 after, of which
    /// `free` takes 100, too: its share rises, its time does not.
    #[test]
    fn a_function_whose_share_rises_is_not_slower() {
        let before = saved(&json_of(4400, 1000, Some(10_000_000)));
        let mut after = json_of(0, 1786, Some(17_857_143));
        after["scores"][0]["value"] = 107.0.into();
        let comparison = compare(&before, &saved(&after), &[]);
        assert_eq!(comparison.basis, "time an operation");
        assert!((comparison.factor.unwrap() - 1.7857).abs() < 0.001);
        let getenv = of(&comparison, "getenv");
        assert_eq!(getenv.change.verdict, Verdict::Less);
        assert!((getenv.change.before.ns.unwrap() - 440.0).abs() < 0.1);
        assert_eq!(getenv.change.after.ns, Some(0.0));
        assert_eq!(comparison.functions[0].function, "getenv");
        let free = of(&comparison, "free");
        assert!(free.change.after.share > 1.7 * free.change.before.share);
        assert!((free.change.after.ns.unwrap() - 100.0).abs() < 0.1);
        assert_eq!(free.change.verdict, Verdict::NotProven);
        assert_eq!(of(&comparison, "work").change.verdict, Verdict::NotProven);
        assert_eq!(comparison.groups[0].change.verdict, Verdict::Less);
        assert_eq!(comparison.inside.verdict, Verdict::Less);
        assert!((comparison.scores[0].ratio.unwrap() - 107.0 / 60.0).abs() < 1e-9);
        assert_eq!(comparison.notes, [""; 0]);
        // Without the number of operations the share is all that there is.
        let after = saved(&json_of(0, 1786, None));
        let comparison = compare(&before, &after, &[]);
        assert_eq!(comparison.basis, "share");
        let why = comparison.basis_why.as_ref().unwrap();
        assert!(why.contains("of the run after is not known"), "{why}");
        assert_eq!(of(&comparison, "free").change.verdict, Verdict::More);
        assert_eq!(comparison.factor, None);
    }

    /// 5 % and 5.4 % of 10,000 samples have 95 % intervals of about 0.43 percentage points to each
    /// side, which overlap; those of 5 % and 6 % do not.
    #[test]
    fn what_intervals_do_not_prove_is_not_proven() {
        let before = saved(&json_of(500, 0, None));
        let verdict = |samples| {
            let after = saved(&json_of(samples, 0, None));
            of(&compare(&before, &after, &[]), "getenv").change.verdict
        };
        assert_eq!(verdict(540), Verdict::NotProven);
        assert_eq!(verdict(600), Verdict::More);
        assert_eq!(verdict(400), Verdict::Less);
        assert_eq!(verdict(500), Verdict::NotProven);
    }

    #[test]
    fn what_else_differs_is_said() {
        let before = json_of(500, 0, None);
        let mut after = before.clone();
        after["origin"]["command"] = json!(["./bench", "a b"]);
        after["origin"]["machine"]["processors"] = 4.into();
        after["origin"]["environment"]["variables"] = 4.into();
        after["allocators"] = json!(["/a/mine.so"]);
        after["clock"] = "cycles".into();
        after["lost"] = 7.into();
        after["doubts"] = json!(["that cannot be"]);
        after["scores"] = json!([]);
        let notes = compare(&saved(&before), &saved(&after), &[]).notes;
        let expected = [
            "the command differs: ./bench before, ./bench 'a b' after",
            "the machine differs: x, 2 processors",
            "the environment differs: 3 variables",
            "the allocator differs: /a/bench before, /a/mine.so after",
            "the clock differs: cpu-clock of user space and kernel before, cycles",
            "the run after lost 7 records",
            "of the run after: that cannot be",
            "the program printed 1 figures before and 0 after",
        ];
        assert_eq!(notes.len(), expected.len(), "{notes:#?}");
        for (note, expected) in notes.iter().zip(expected) {
            assert!(note.starts_with(expected), "{note}");
        }
    }

    /// 100 ns an operation inside the allocator, and 120.
    #[test]
    fn a_limit_is_above_the_intervals() {
        let number = Some(10_000_000);
        let before = saved(&json_of(0, 1000, number));
        let exceeded = |samples, limit: &str, operations| {
            let after = saved(&json_of(0, samples, operations));
            let comparison = compare(&before, &after, &[Limit::parse(limit).unwrap()]);
            (comparison.exceeded.len(), comparison.not_checked.is_some())
        };
        // Between the intervals there are about 8 ns.
        assert_eq!(exceeded(1200, "cpu-time>+5%", number), (1, false));
        assert_eq!(exceeded(1200, "cpu-time>+10%", number), (0, false));
        assert_eq!(exceeded(1200, "cpu-time>+5", number), (1, false));
        assert_eq!(exceeded(1010, "cpu-time>+0%", number), (0, false));
        assert_eq!(exceeded(900, "cpu-time>+0%", number), (0, false));
        assert_eq!(exceeded(1200, "cpu-time>+5%", None), (0, true));
        for wrong in ["bytes>+2%", "cpu-time", "cpu-time>+-1%", "cpu-time>5%"] {
            assert!(Limit::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// A library that was renamed is the same one; a function of the same name elsewhere is not, if
    /// both sides have it.
    #[test]
    fn functions_are_paired_by_name_and_module() {
        let mut before = json_of(0, 1000, None);
        before["functions"][1] = row("free", "/a/old.so", true, 1000);
        let mut after = json_of(0, 1000, None);
        after["functions"][1] = row("free", "/b/new.so", true, 900);
        after["outside"][0] = row("work", "/b/bench", false, 9000);
        let comparison = compare(&saved(&before), &saved(&after), &[]);
        let names = comparison
            .functions
            .iter()
            .map(|it| (&*it.function, &*it.module, it.change.before.samples));
        assert_eq!(
            names.collect::<Vec<_>>(),
            [
                ("free", "new.so", 1000),
                ("getenv", "libc.so.6", 0),
                ("work", "bench", 9000),
            ]
        );
    }

    #[test]
    fn what_is_no_report_is_refused_with_a_sentence() {
        let good = json_of(1, 1, None);
        let read = |json: &Value| Saved::read(json.to_string().as_bytes());
        assert!(read(&good).is_ok());
        let broken = |key: &str, value: Value| {
            let mut json = good.clone();
            json[key] = value;
            read(&json).unwrap_err().to_string()
        };
        assert!(broken("format", "allotrope-cpu/2".into()).contains("reads allotrope-cpu/1"));
        assert!(broken("format", "allotrope-paths/1".into()).contains("is no report"));
        assert!(broken("samples", 1.into()).contains("more samples"));
        assert!(broken("cpu_seconds", (-1.0).into()).contains("no time"));
        assert!(broken("operations", 0.into()).contains("0 operations"));
        assert!(broken("groups", 0.into()).contains("is no report"));
        for text in [
            "CPU inside the allocator: 1.0%",
            "# CPU time and the allocator",
        ] {
            let error = Saved::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("report for people"), "{error}");
        }
        let text = good.to_string();
        for length in (0..text.len()).step_by(7) {
            assert!(Saved::read(&text.as_bytes()[..length]).is_err());
        }
    }
}
