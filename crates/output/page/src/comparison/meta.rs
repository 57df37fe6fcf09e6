//! What a comparison's page says about the comparison and about itself, as JSON.

use allotrope_diff::Interval;
use allotrope_profile::{Unit, command_text};
use allotrope_report::diff::{chance, noise_in_words};
use allotrope_text::shown;
use serde::Serialize;

use super::{ComparedSide, Comparison, LeftOut, Selected};
use crate::columns::MAX;

#[derive(Serialize)]
struct Meta {
    tool: &'static str,
    sides: [Side; 2],
    comparisons: Vec<Compared>,
    /// The page has only entries with this in a stack.
    filter: Option<String>,
    notes: Vec<String>,
    names_cut: u64,
}

#[derive(Serialize)]
struct Side {
    titles: Vec<String>,
    command: String,
    runs: usize,
    /// 0: unknown.
    started_unix_ms: u64,
    /// 0: unknown.
    lasted_ns: u64,
}

#[derive(Serialize)]
struct Compared {
    metric: &'static str,
    words: &'static str,
    is_bytes: bool,
    before: u64,
    after: u64,
    per: Option<f64>,
    noise: String,
    /// Interval of the difference with a sampled profile, in words and as numbers.
    chance: Option<String>,
    interval: Option<IntervalForm>,
    /// Intervals of the entries.
    intervals: Option<Vec<IntervalForm>>,
    left_out: LeftOut,
}

/// An interval rounded outwards, as in the JSON of `diff`.
#[derive(Serialize)]
struct IntervalForm {
    low: i64,
    high: i64,
    may_be_chance: bool,
    /// Intervals of the sides; both ends of an exact one are its figure.
    before: [u64; 2],
    after: [u64; 2],
}

impl IntervalForm {
    /// `None`: an end is not known, because blocks may be missing that were allocated while sampling
    /// was off.
    fn of(interval: &Interval) -> Option<Self> {
        let ends = [interval.low, interval.high];
        if !ends.iter().all(|it| it.is_finite()) {
            return None;
        }
        // The casts saturate.
        let ends = |[low, high]: [f64; 2]| [low.floor() as u64, high.ceil() as u64];
        Some(Self {
            low: interval.low.floor() as i64,
            high: interval.high.ceil() as i64,
            may_be_chance: interval.may_be_chance(),
            before: ends(interval.before),
            after: ends(interval.after),
        })
    }
}

/// Notes and names of files that are listed.
const MAX_LISTED: usize = 50;

/// Writes it; `left_out` is by comparison.
pub fn meta(
    comparison: &Comparison<'_>,
    selected: &[Selected<'_>],
    left_out: Vec<LeftOut>,
    names_cut: u64,
) -> String {
    let clean = |text: &String| shown(text).into_owned();
    let meta = Meta {
        tool: env!("CARGO_PKG_VERSION"),
        sides: comparison.sides.each_ref().map(side),
        comparisons: (selected.iter().zip(left_out))
            .map(|(one, left_out)| compared(one, left_out, comparison.filter.is_some()))
            .collect(),
        filter: comparison.filter.map(|it| shown(it.pattern()).into_owned()),
        notes: (comparison.notes.iter().take(MAX_LISTED).map(clean)).collect(),
        names_cut,
    };
    // Nothing of it can fail to be written.
    serde_json::to_string(&meta).unwrap_or_default()
}

fn side(side: &ComparedSide<'_>) -> Side {
    let run = side.sets.first().map(|set| &set.run);
    let command = side.profile.map(|it| command_text(&it.recording.command));
    let started = run.and_then(|run| run.started_unix_ns).unwrap_or(0);
    let lasted = run.and_then(|run| run.duration_us).unwrap_or(0);
    let titles = side.titles.iter().take(MAX_LISTED);
    let executable = || run.map(|run| run.executable.clone()).unwrap_or_default();
    Side {
        titles: titles.map(|it| shown(it).into_owned()).collect(),
        command: shown(&command.unwrap_or_else(executable)).into_owned(),
        runs: side.sets.len(),
        started_unix_ms: started / 1_000_000,
        lasted_ns: lasted.saturating_mul(1000).min(MAX),
    }
}

fn compared(one: &Selected<'_>, left_out: LeftOut, is_filtered: bool) -> Compared {
    let diff = one.diff;
    // With a filter, the total is another one.
    let interval = diff.interval.as_ref().filter(|_| !is_filtered);
    let intervals = diff.interval.and_then(|_| {
        let kept = one.entries.len() - left_out.entries as usize;
        let entries = one.entries[..kept].iter();
        let intervals = entries.filter_map(|entry| entry.interval.as_ref());
        intervals.map(IntervalForm::of).collect()
    });
    Compared {
        metric: diff.metric.name(),
        words: diff.metric.words(),
        is_bytes: diff.metric.unit() == Unit::Bytes,
        before: one.before.min(MAX),
        after: one.after.min(MAX),
        per: diff.per,
        noise: noise_in_words(diff),
        chance: interval.map(chance),
        interval: interval.and_then(IntervalForm::of),
        intervals,
        left_out,
    }
}
