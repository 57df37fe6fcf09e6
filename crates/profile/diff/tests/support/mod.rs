//! Builds stack sets from text, and checks the properties of every diff.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::collections::HashMap;

use allotrope_diff::{Diff, DiffOptions, Entry, Kind, compare};
use allotrope_profile::{CountedStack, Metric, MetricSet, StackFrame, StackSet};

/// A stack set under construction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stacks {
    pub set: StackSet,
    numbers: HashMap<StackFrame, u32>,
}

impl Stacks {
    /// Adds a stack, innermost frame first: ``module`function+0x1f@file:line``;
    /// all but the function are optional. Each metric is `count` times a
    /// different factor.
    pub fn add<S: AsRef<str>>(&mut self, count: u64, frames: &[S]) {
        self.set.known = MetricSet::OF_STACKS;
        let frames = frames
            .iter()
            .map(|text| self.number(frame(text.as_ref())))
            .collect();
        let figures = Metric::OF_STACKS.map(|metric| count * (metric as u64 + 1));
        self.set.stacks.push(CountedStack {
            frames,
            figures,
            maximum: None,
        });
    }

    fn number(&mut self, frame: StackFrame) -> u32 {
        let next = u32::try_from(self.set.frames.len()).expect("few frames");
        let frames = &mut self.set.frames;
        *self.numbers.entry(frame).or_insert_with_key(|frame| {
            frames.push(frame.clone());
            next
        })
    }
}

fn frame(text: &str) -> StackFrame {
    let (text, location) = text
        .split_once('@')
        .filter(|_| text.contains(".c:"))
        .unwrap_or((text, ""));
    let (module, text) = text.split_once('`').unwrap_or(("", text));
    let (function, offset) = match text.rsplit_once("+0x") {
        Some((function, digits)) => (function, u64::from_str_radix(digits, 16).ok()),
        None => (text, None),
    };
    let (file, line) = location.split_once(':').unwrap_or(("", "0"));
    StackFrame {
        function: function.into(),
        module: module.into(),
        file: file.into(),
        line: line.parse().expect("a line"),
        offset,
        ..StackFrame::default()
    }
}

/// Checks the properties for every metric, and returns the diff of allocations.
pub fn check(before: &[Stacks], after: &[Stacks]) -> Diff {
    let sets = |side: &[Stacks]| {
        side.iter()
            .map(|stacks| stacks.set.clone())
            .collect::<Vec<_>>()
    };
    let (before, after) = (sets(before), sets(after));
    for metric in Metric::OF_STACKS {
        let options = DiffOptions {
            metric,
            ..DiffOptions::default()
        };
        let diff = compare(&before, &after, &options).expect("comparable");
        check_sums(&diff);
        let totals =
            |side: &[StackSet]| side.iter().map(|set| set.total(metric)).collect::<Vec<_>>();
        assert!(totals(&before).contains(&diff.before));
        assert!(totals(&after).contains(&diff.after));
    }
    compare(&before, &after, &DiffOptions::default()).expect("comparable")
}

/// Checks the sums and the order of entries.
pub fn check_sums(diff: &Diff) {
    let sum: i64 = diff.entries.iter().map(|entry| entry.difference).sum();
    assert_eq!(sum, diff.difference, "{diff:#?}");
    assert_eq!(diff.after as i64 - diff.before as i64, diff.difference);
    for entry in &diff.entries {
        let before: u64 = entry.stacks.iter().map(|stack| stack.before).sum();
        let after: u64 = entry.stacks.iter().map(|stack| stack.after).sum();
        assert_eq!((before, after), (entry.before, entry.after));
        assert_eq!(entry.after as i64 - entry.before as i64, entry.difference);
        assert!((entry.blame as usize) < diff.frames.len());
        assert!((0.0..=1.0).contains(&entry.confidence));
        match entry.kind {
            Kind::New => assert!(entry.before == 0 && entry.after > 0),
            Kind::Gone => assert!(entry.before > 0 && entry.after == 0),
            Kind::Changed => assert!(entry.before > 0 && entry.after > 0 && entry.difference != 0),
            Kind::Moved => assert!(entry.difference == 0 && entry.before > 0),
            Kind::Jitter => {}
        }
        assert_eq!(entry.differs.is_some(), entry.kind == Kind::Moved);
    }
    let size = |entry: &Entry| (entry.kind != Kind::Moved, entry.difference.unsigned_abs());
    assert!(
        diff.entries
            .windows(2)
            .all(|pair| size(&pair[0]) >= size(&pair[1]))
    );
}

pub fn kinds(diff: &Diff) -> Vec<Kind> {
    diff.entries.iter().map(|entry| entry.kind).collect()
}

pub fn blames(diff: &Diff) -> Vec<&str> {
    diff.entries
        .iter()
        .map(|entry| named(diff, Some(entry.blame)))
        .collect()
}

pub fn named(diff: &Diff, frame: Option<u32>) -> &str {
    let frame = frame.expect("a frame");
    &diff.frames[frame as usize].function
}

pub fn functions<'a>(diff: &'a Diff, stack: &[u32]) -> Vec<&'a str> {
    stack
        .iter()
        .map(|&frame| named(diff, Some(frame)))
        .collect()
}

/// The only entry.
pub fn only(diff: &Diff) -> &Entry {
    match &diff.entries[..] {
        [entry] => entry,
        _ => panic!("{:#?}", diff.entries),
    }
}
