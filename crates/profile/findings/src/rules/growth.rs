//! Growth: blocks of every part of the run stay, until the end of the work.
//!
//! The time from a family's first allocation to the last time when its live bytes are at their
//! maximum is divided into twelve equal parts; the first, which may be the program's start, and the last,
//! whose blocks are young, are left out. It speaks if
//!
//! - this time is at least half of the time from the program's first allocation to its last
//!   event, and ends in the last 10 % of it; if the program does not wait for work (it allocates in
//!   more than 50 % of its time), it is 93 % of that time: what it builds in one of several steps,
//!   it needs in the next;
//! - of at least nine of the ten parts blocks are live at the maximum, at least a quarter of
//!   the mean of all (otherwise it is a cache that throws old ones away, or work that comes and goes);
//! - of the last third at least a quarter of the number of the first third (otherwise it is
//!   a cache that fills up);
//! - what is kept of the parts is at least 16 KiB and 32 blocks, and 5 % of the peak: 60 % if the
//!   program does not wait;
//! - at most 90 % of what was allocated until the maximum was freed before it, and no fall before it
//!   is deeper than 20 % of the maximum;
//! - after the maximum they do not rise again by more than a quarter of what is kept.
//!
//! Numbers of blocks decide, so that the doublings of a table do not hide its entries. It is a
//! problem from 30 s on: shorter programs may build what they need until they end. It is silent if
//! the program allocates for less than 0.3 s.

use allotrope_profile::trend::{LAST_THIRD, deepest_dip};
use allotrope_profile::{BlockSum, Site};
use allotrope_text::numbers::bytes as in_bytes;

use crate::candidate::{Candidate, TriedId};
use crate::conditions::Conditions;
use crate::context::{Context, Group};
use crate::finding::Value::{Bytes, Count, Nanoseconds, Share};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, number, percent, ratio, share, time};
use crate::tried::{Outcome, Trials};

/// Equal parts of the time until the maximum.
const PARTS: usize = 12;
/// Least number of blocks that are kept of a part, as a part of the mean.
const OF_MEAN: f64 = 0.25;
/// Part of the parts of which so much is kept.
const FILLED: f64 = 0.9;
const MIN_SPAN: f64 = 0.5;
/// Values of [`MIN_SPAN`] and [`EARLIEST_END`] for programs that work without a pause: what they build
/// in one of several steps, they need in the next.
const MIN_SPAN_IF_BUSY: f64 = 0.93;
const EARLIEST_END_IF_BUSY: f64 = 0.93;
const EARLIEST_END: f64 = 0.9;
const MIN_SHARE: f64 = 0.05;
/// Value of [`MIN_SHARE`] for programs that work without a pause.
const MIN_SHARE_IF_BUSY: f64 = 0.6;
const MIN_BYTES: u64 = 16 << 10;
const MIN_BLOCKS: u64 = 32;
/// More than this part that is freed before the maximum is work that comes and goes.
const MOSTLY_KEPT: f64 = 0.9;
/// Deepest fall before the maximum, as a part of it.
const DEEPEST_DIP: f64 = 0.2;
const SECOND_RISE: f64 = 0.25;
/// Shortest active time with a finding: in less nothing can tell a program that builds something
/// from one that grows.
const MIN_NS: u64 = 300_000_000;
/// Length of the run in nanoseconds from which on a growth is a problem.
const LONG_NS: u64 = 30_000_000_000;

struct Growth {
    gain: u64,
    blocks: u64,
    most: u64,
    /// The parts of the time of which enough is kept, as a part of all.
    filled: f64,
    span_ns: u64,
    /// The part of the program's allocating time that this is.
    span: f64,
    /// The part of what was allocated until the maximum that was freed before it.
    freed_before: f64,
    left_at_end: u64,
}

/// The least gain, as a part of the peak.
fn least_share(context: &Context<'_>) -> f64 {
    match context.waits() {
        true => MIN_SHARE,
        false => MIN_SHARE_IF_BUSY,
    }
}

/// The least part of the allocating time that it takes, and the earliest end.
fn least_span(context: &Context<'_>) -> [f64; 2] {
    match context.waits() {
        true => [MIN_SPAN, EARLIEST_END],
        false => [MIN_SPAN_IF_BUSY, EARLIEST_END_IF_BUSY],
    }
}

pub(crate) fn find(context: &Context<'_>, trials: &mut Trials<'_, '_>) -> Vec<Candidate> {
    let is_possible = trials.process(|conditions| {
        let [begin, end] = context.active_ns;
        conditions.at_least(
            "active_ns",
            "from the first allocation to the last event",
            Nanoseconds(end.saturating_sub(begin)),
            Nanoseconds(MIN_NS),
        )
    });
    if !is_possible {
        return Vec::new();
    }
    let mut grown: Vec<(&Group, Growth, Option<TriedId>)> = Vec::new();
    for group in &context.families {
        let (id, growth) = trials.candidate(
            &group.sites,
            || group.peak_bytes,
            |conditions| growth(context, group, conditions),
        );
        grown.extend(growth.map(|growth| (group, growth, id)));
    }
    grown.sort_by_key(|(_, growth, _)| std::cmp::Reverse(growth.most));
    // A function and its caller are one finding, about the one that holds more.
    let mut named: Vec<(u32, Vec<u32>, Option<u32>)> = Vec::new();
    let mut found = Vec::new();
    for (group, growth, id) in grown {
        let callers = context.callers(&group.sites, |site| site.bytes_at_peak);
        let callers = callers.into_iter();
        let callers: Vec<u32> = callers.map(|it| context.frames.function(it)).collect();
        let first = named.iter().find(|(function, of_named, _)| {
            of_named.contains(&group.function) || callers.contains(function)
        });
        match first {
            Some(&(.., frame)) => trials.end(id, Outcome::PartOf(frame)),
            None => {
                let candidate = candidate(context, group, &growth).tried_as(id);
                named.push((group.function, callers, candidate.finding.frame));
                found.push(candidate);
            }
        }
    }
    found
}

fn growth(context: &Context<'_>, group: &Group, conditions: &mut Conditions) -> Option<Growth> {
    let [begin, end] = context.active_ns;
    let floor = (least_share(context) * context.peak_bytes() as f64).max(MIN_BYTES as f64);
    let floor = Bytes(floor.ceil() as u64);
    conditions.at_least("allocated_bytes", "allocated", Bytes(group.bytes), floor)?;
    let curve = context.curve(&group.sites);
    let highest = curve.highest()?;
    let most = curve.live()[highest];
    let first = context
        .cells(&group.sites)
        .map(|cell| cell.allocated)
        .min()?;
    let from = *context.table.starts_ns.get(usize::from(first))?;
    let to = curve.end_ns(highest);
    let span = to.saturating_sub(from);
    let duration = end.saturating_sub(begin).max(1) as f64;
    let reached = to.saturating_sub(begin) as f64;
    let [least, earliest] = least_span(context);
    conditions.at_least(
        "span_of_run",
        "from its first block to its maximum, of the active time",
        Share(span as f64 / duration),
        Share(least),
    )?;
    conditions.at_least(
        "maximum_at",
        "its maximum is at this part of the active time",
        Share(reached / duration),
        Share(earliest),
    )?;
    let cells = context.cells(&group.sites);
    let kept = context.kept_by_part(cells, [from, to], highest, PARTS);
    // Without the first part, which may be the program's start, and the last, whose blocks are young.
    let middle = &kept[1..PARTS - 1];
    let gain: u64 = middle.iter().map(|part| part.bytes).sum();
    let gained: u64 = middle.iter().map(|part| part.blocks).sum();
    conditions.at_least(
        "gain_bytes",
        match context.waits() {
            true => "kept of the middle ten twelfths (5 % of the peak)",
            false => "kept of the middle ten twelfths (60 % of the peak)",
        },
        Bytes(gain),
        floor,
    )?;
    conditions.at_least(
        "gain_blocks",
        "blocks kept of them",
        Count(gained),
        Count(MIN_BLOCKS),
    )?;
    let mean = ratio(
        middle.iter().map(|part| part.blocks).sum(),
        middle.len() as u64,
    );
    let filled = middle
        .iter()
        .filter(|part| part.blocks as f64 >= mean * OF_MEAN)
        .count();
    let third = |parts: &[BlockSum]| parts.iter().map(|part| part.blocks).sum::<u64>();
    let thirds = [
        third(&middle[..PARTS / 3]),
        third(&middle[middle.len() - PARTS / 3..]),
    ];
    conditions.at_least(
        "kept_of_time",
        "of these twelfths, those of which enough is kept",
        Share(ratio(filled as u64, middle.len() as u64)),
        Share(FILLED),
    )?;
    conditions.at_least(
        "last_third_blocks",
        "blocks kept of the last third, against a quarter of the first",
        Count(thirds[1]),
        Count((LAST_THIRD * thirds[0] as f64).ceil() as u64),
    )?;
    let before: Vec<f64> = curve.live()[..=highest]
        .iter()
        .map(|live| live.bytes as f64)
        .collect();
    conditions.at_most(
        "deepest_fall",
        "deepest fall before the maximum, of the maximum",
        Share(deepest_dip(&before) / (most.bytes.max(1)) as f64),
        Share(DEEPEST_DIP),
    )?;
    let later = &curve.live()[highest..];
    let (mut least, mut second) = (u64::MAX, 0);
    for live in later {
        least = least.min(live.bytes);
        second = second.max(live.bytes - least);
    }
    conditions.at_most(
        "second_rise_bytes",
        "a rise after the maximum, against a quarter of what is kept",
        Bytes(second),
        Bytes((SECOND_RISE * gain as f64) as u64),
    )?;
    let cells = context.cells(&group.sites);
    let before = cells.filter(|cell| usize::from(cell.allocated) <= highest);
    let allocated: u64 = before.map(|cell| cell.bytes).sum();
    let freed_before = 1.0 - ratio(most.bytes, allocated.max(most.bytes));
    conditions.at_most(
        "freed_before",
        "freed before the maximum, of what was allocated before it",
        Share(freed_before),
        Share(MOSTLY_KEPT),
    )?;
    conditions.hold().then_some(Growth {
        gain,
        blocks: gained,
        most: most.bytes.max(group.peak_bytes),
        filled: ratio(filled as u64, middle.len() as u64),
        span_ns: span,
        span: span as f64 / duration,
        freed_before,
        left_at_end: group.leaked_bytes,
    })
}

fn candidate(context: &Context<'_>, group: &Group, growth: &Growth) -> Candidate {
    let weight = |site: &Site| site.bytes_at_peak;
    let frame = context.frame(&group.sites, weight);
    let stake = ratio(growth.most, context.peak_bytes()).min(1.0);
    let rate = growth.most as f64 / (growth.span_ns.max(1) as f64 / 1e9);
    let end = match growth.left_at_end {
        0 => "all of it is freed at the end".to_owned(),
        left => format!("{} of it leaked", in_bytes(left)),
    };
    let text = format!(
        "It grows by {} a second for {}, in {}{}: of what was allocated in any part of this time \
         much is still there at the maximum. {} of what was allocated there was freed before it; \
         {end}.",
        in_bytes(rate as u64),
        time(growth.span_ns),
        context.function_name(frame),
        context.called_by(&group.sites, weight),
        percent(growth.freed_before),
    );
    let is_long = context.duration_ns() >= LONG_NS;
    let (function, also) = context.functions(frame, &group.sites);
    let finding = Finding {
        rule: Rule::Growth,
        severity: match is_long {
            true => Severity::Problem,
            false => Severity::Hint,
        },
        title: "keeps growing".to_owned(),
        measure: format!("{}, {} of the peak", in_bytes(growth.most), percent(stake)),
        text,
        advice: "If it is a cache, limit it; otherwise free what is no longer needed. \
                 Does it grow with the work? Record a run with twice the work, and \
                 `allotrope diff ONE TWO --metric peak`."
            .to_owned(),
        process: context.process.id,
        frame,
        sites: context.numbers_of(&group.sites, weight),
        parts: Vec::new(),
        numbers: vec![
            bytes("most_bytes", growth.most),
            share("share_of_peak", stake),
            bytes("gain_bytes", growth.gain),
            bytes("gain_bytes_threshold", MIN_BYTES),
            share("gain_of_peak", ratio(growth.gain, context.peak_bytes())),
            share("gain_of_peak_threshold", least_share(context)),
            blocks("gain_blocks", growth.blocks),
            blocks("gain_blocks_threshold", MIN_BLOCKS),
            number("bytes_per_second", rate),
            share("kept_of_time", growth.filled),
            share("kept_of_time_threshold", FILLED),
            share("span_of_run", growth.span),
            share("span_of_run_threshold", least_span(context)[0]),
            share("freed_before", growth.freed_before),
            share("freed_before_threshold", MOSTLY_KEPT),
        ],
        mended: Some(context.limited(&group.sites)),
    };
    Candidate {
        finding,
        function,
        also,
        weak: false,
        stake,
        tried: None,
    }
}
