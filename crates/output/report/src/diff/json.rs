//! The comparison as JSON, format `allotrope-diff/1`.
//!
//! A stable contract: no field is renamed, removed or given another meaning
//! without a new number. No threshold applies here, so the differences of the entries
//! sum to `difference`. With a filter, the totals are those of the matching entries. An
//! `offset` of 0 may mean unknown. A stack whose offsets or lines differ between the
//! sides is written twice, once for each side.

use std::io::{self, Write};

use allotrope_attribution::Rule;
use allotrope_diff::{Diff, Entry, EntryStack, Interval};
use allotrope_profile::{FrameForm, StackFrame};
use serde::Serialize;

use super::selection::{Selection, sum};
use super::wording::kind_word;

#[derive(Serialize)]
struct EntryForm<'a> {
    kind: &'static str,
    before: u64,
    after: u64,
    difference: i64,
    #[serde(flatten)]
    interval: Option<IntervalForm>,
    confidence: f64,
    blame: u32,
    /// The rule that suppresses its leaks; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressed: Option<&'a str>,
    stacks: Vec<StackForm<'a>>,
}

/// The 95 % intervals of both figures and of their difference; only of sampled profiles.
#[derive(Serialize)]
struct IntervalForm {
    before_low: u64,
    before_high: Option<u64>,
    after_low: u64,
    after_high: Option<u64>,
    difference_low: Option<i64>,
    difference_high: Option<i64>,
    may_be_chance: bool,
}

#[derive(Serialize)]
struct StackForm<'a> {
    before: u64,
    after: u64,
    stack: &'a [u32],
}

/// Writes the entries that match the filter, and a newline.
pub fn write(diff: &Diff, selection: &Selection, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    let out: &mut dyn Write = &mut out;
    let entries = selection.matching(diff);
    let (before, after, difference) = if selection.filter.is_some() {
        let sum = sum(entries.iter().copied());
        (sum.before, sum.after, sum.difference())
    } else {
        (diff.before, diff.after, diff.difference)
    };
    write!(
        out,
        "{{\"format\":\"allotrope-diff/1\",\"metric\":\"{}\",\"before\":{before},\"after\":{after},\"difference\":{difference},",
        diff.metric.name()
    )?;
    // With a filter, the total is another one.
    let interval = diff
        .interval
        .as_ref()
        .filter(|_| selection.filter.is_none());
    if let Some(it) = interval.map(interval_form) {
        // Its fields, followed by those of the object.
        let fields = allotrope_text::to_json_string(&it)?;
        write!(out, "{},", fields.trim_matches(['{', '}']))?;
    }
    out.write_all(b"\n\"frames\":")?;
    list(out, &diff.frames, frame_form)?;
    out.write_all(b",\n\"entries\":")?;
    list(out, &entries, |entry| entry_form(entry))?;
    out.write_all(b"}\n")?;
    out.flush()
}

/// A list with an element a line.
fn list<'a, T, F: Serialize>(
    out: &mut dyn Write,
    elements: &'a [T],
    form: impl Fn(&'a T) -> F,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (index, element) in elements.iter().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        allotrope_text::to_json_writer(&mut *out, &form(element))?;
    }
    out.write_all(b"]")
}

fn frame_form(frame: &StackFrame) -> FrameForm<'_> {
    FrameForm {
        offset: frame.offset.or(Some(0)),
        generated: None,
        ..FrameForm::new(frame, (&*frame.module).into())
    }
}

fn interval_form(interval: &Interval) -> IntervalForm {
    // Rounded outwards, null if not known; the casts saturate.
    let known = |it: f64| it.is_finite().then_some(it);
    let ends = |[low, high]: [f64; 2]| {
        let high = known(high).map(|it| it.ceil() as u64);
        (low.floor() as u64, high)
    };
    let (before_low, before_high) = ends(interval.before);
    let (after_low, after_high) = ends(interval.after);
    IntervalForm {
        before_low,
        before_high,
        after_low,
        after_high,
        difference_low: known(interval.low).map(|it| it.floor() as i64),
        difference_high: known(interval.high).map(|it| it.ceil() as i64),
        may_be_chance: interval.may_be_chance(),
    }
}

fn entry_form(entry: &Entry) -> EntryForm<'_> {
    EntryForm {
        kind: kind_word(entry.kind),
        before: entry.before,
        after: entry.after,
        difference: entry.difference,
        interval: entry.interval.as_ref().map(interval_form),
        confidence: entry.confidence,
        blame: entry.blame,
        suppressed: entry.suppressed.as_ref().map(Rule::text),
        stacks: entry.stacks.iter().flat_map(stack_forms).collect(),
    }
}

fn stack_forms(stack: &EntryStack) -> impl Iterator<Item = StackForm<'_>> {
    let form = |before, after, stack| StackForm {
        before,
        after,
        stack,
    };
    let forms = match &stack.frames_before {
        None => [Some(form(stack.before, stack.after, &stack.frames)), None],
        Some(was) => [
            Some(form(stack.before, 0, was)),
            Some(form(0, stack.after, &stack.frames)),
        ],
    };
    forms.into_iter().flatten()
}
