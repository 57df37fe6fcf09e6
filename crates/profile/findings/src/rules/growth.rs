//! Growth: live bytes of a function that rise along a line for most of the run.
//!
//! From the time when its blocks are 2 % of their maximum to the last time when they are
//! at their maximum, the live bytes are sampled at 64 equal distances. The first third is
//! left out: it may be the program's start. It speaks if
//!
//! - this time is at least half of the time from the program's first allocation to its last
//!   event, and ends in the last 40 % of it;
//! - the gain is at least 5 % of the peak (30 % in short runs), 16 KiB and 32 blocks;
//! - at least 80 % of the steps rise;
//! - a straight line explains the rise (R² at least 0.9);
//! - no dip is deeper than 10 % of the gain;
//! - the last third gains at least a quarter of what the first third gains (otherwise it is
//!   a cache that fills up);
//! - at most 90 % of what was allocated until the maximum was freed before it;
//! - after the maximum they do not rise again by more than a quarter of the gain.
//!
//! It is a problem from 30 s on: shorter programs may build what they need until they end.
//! So there the gain must be at least 30 % of the peak, and it is silent if the program
//! allocates for less than 0.25 s.

use allotrope_profile::Site;
use allotrope_profile::trend::{LAST_THIRD, MAX_DIP, deepest_dip, gains_of_thirds};
use allotrope_text::numbers::bytes as in_bytes;

use crate::context::{Context, Group};
use crate::curve::straightness;
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, number, percent, ratio, share, time};
use crate::rank::Candidate;

const SAMPLES: usize = 64;
const MIN_SPAN: f64 = 0.5;
const EARLIEST_END: f64 = 0.6;
const BEGINS: f64 = 0.02;
const MIN_SHARE: f64 = 0.05;
/// Value of [`MIN_SHARE`] for runs that are shorter than [`LONG_NS`].
const MIN_SHARE_IF_SHORT: f64 = 0.3;
const MIN_BYTES: u64 = 16 << 10;
const MIN_BLOCKS: u64 = 32;
const RISING: f64 = 0.8;
/// More than this part that is freed before the maximum is work that comes and goes.
const MOSTLY_KEPT: f64 = 0.9;
const STRAIGHT: f64 = 0.9;
const SECOND_RISE: f64 = 0.25;
/// Shortest active time with a finding: in less nothing can tell a program that builds something
/// from one that grows.
const MIN_NS: u64 = 250_000_000;
/// Length of the run in nanoseconds from which on a growth is a problem.
const LONG_NS: u64 = 30_000_000_000;

struct Growth {
    gain: u64,
    blocks: u64,
    most: u64,
    steps_up: usize,
    steps: usize,
    straightness: f64,
    span_ns: u64,
    /// The part of the program's allocating time that this is.
    span: f64,
    /// Nanoseconds in which the sampled part rose by `rise`.
    rise_ns: u64,
    rise: u64,
    /// The part of what was allocated until the maximum that was freed before it.
    freed_before: f64,
    left_at_end: u64,
}

/// The least gain, as a part of the peak.
fn least_share(context: &Context<'_>) -> f64 {
    match context.duration_ns() >= LONG_NS {
        true => MIN_SHARE,
        false => MIN_SHARE_IF_SHORT,
    }
}

pub(crate) fn find(context: &Context<'_>) -> Vec<Candidate> {
    let floor = (context.peak_bytes() as f64 * least_share(context)) as u64;
    let large = |group: &&Group| group.bytes >= floor.max(MIN_BYTES);
    let groups = context.groups.iter().filter(large);
    let grown = groups.filter_map(|group| Some((group, growth(context, group)?)));
    let mut grown: Vec<(&Group, Growth)> = grown.collect();
    grown.sort_by_key(|(_, growth)| std::cmp::Reverse(growth.most));
    // A function and its caller are one finding, about the one that holds more.
    let mut named: Vec<(u32, Vec<u32>)> = Vec::new();
    let mut found = Vec::new();
    for (group, growth) in grown {
        let callers = context.callers(&group.sites, |site| site.bytes_at_peak);
        let callers = callers.into_iter();
        let callers: Vec<u32> = callers.map(|it| context.frames.function(it)).collect();
        let is_named = named.iter().any(|(function, of_named)| {
            of_named.contains(&group.function) || callers.contains(function)
        });
        if !is_named {
            found.push(candidate(context, group, &growth));
            named.push((group.function, callers));
        }
    }
    found
}

fn growth(context: &Context<'_>, group: &Group) -> Option<Growth> {
    let [begin, end] = context.active_ns;
    if end.saturating_sub(begin) < MIN_NS {
        return None;
    }
    let curve = context.curve(&group.sites);
    let highest = curve.highest()?;
    let most = curve.live()[highest];
    let begins = (most.bytes as f64 * BEGINS) as u64;
    let first = curve.live().iter().position(|live| live.bytes > begins)?;
    let (from, to) = (curve.end_ns(first), curve.end_ns(highest));
    let span = to.saturating_sub(from);
    let duration = end.saturating_sub(begin).max(1) as f64;
    let reached = to.saturating_sub(begin) as f64;
    if (span as f64) < MIN_SPAN * duration || reached < EARLIEST_END * duration {
        return None;
    }
    let samples = curve.sampled([from, to], SAMPLES as u64);
    let start = SAMPLES / 3;
    // Without the last: the maximum itself.
    let values = &samples[start..SAMPLES];
    let (first_value, last) = (values[0], values[values.len() - 1]);
    let gain = last - first_value;
    let floor = (least_share(context) * context.peak_bytes() as f64).max(MIN_BYTES as f64);
    let begin_ns = from + (span as f64 * start as f64 / SAMPLES as f64) as u64;
    let gained = most.blocks.saturating_sub(curve.at(begin_ns).blocks);
    if gain < floor || gained < MIN_BLOCKS {
        return None;
    }
    let steps = values.windows(2).map(|pair| pair[1] - pair[0]);
    let steps: Vec<f64> = steps.collect();
    let steps_up = steps.iter().filter(|&&step| step > 0.0).count();
    if (steps_up as f64) < RISING * steps.len() as f64 {
        return None;
    }
    let straightness = straightness(values);
    let [first_third, last_third] = gains_of_thirds(values);
    if straightness < STRAIGHT
        || deepest_dip(values) > MAX_DIP * gain
        || last_third < LAST_THIRD * first_third
    {
        return None;
    }
    let later = &curve.live()[highest..];
    let (mut least, mut second) = (u64::MAX, 0);
    for live in later {
        least = least.min(live.bytes);
        second = second.max(live.bytes - least);
    }
    if second as f64 > SECOND_RISE * gain {
        return None;
    }
    let cells = context.cells(&group.sites);
    let before = cells.filter(|cell| usize::from(cell.allocated) <= highest);
    let allocated: u64 = before.map(|cell| cell.bytes).sum();
    let freed_before = 1.0 - ratio(most.bytes, allocated.max(most.bytes));
    (freed_before <= MOSTLY_KEPT).then_some(Growth {
        gain: gain as u64,
        blocks: gained,
        most: most.bytes.max(group.peak_bytes),
        steps_up,
        steps: steps.len(),
        straightness,
        span_ns: span,
        span: span as f64 / duration,
        rise_ns: to.saturating_sub(begin_ns).max(1),
        rise: most.bytes.saturating_sub(first_value as u64),
        freed_before,
        left_at_end: group.leaked_bytes,
    })
}

fn candidate(context: &Context<'_>, group: &Group, growth: &Growth) -> Candidate {
    let weight = |site: &Site| site.bytes_at_peak;
    let frame = context.frame(&group.sites, weight);
    let stake = ratio(growth.most, context.peak_bytes()).min(1.0);
    let rate = growth.rise as f64 / (growth.rise_ns as f64 / 1e9);
    let end = match growth.left_at_end {
        0 => "all of it is freed at the end".to_owned(),
        left => format!("{} of it are live at the end", in_bytes(left)),
    };
    let text = format!(
        "{} of {} steps up: {} a second for {}, in {}{}. {} of what was allocated there was \
         freed before the maximum; {end}.",
        growth.steps_up,
        growth.steps,
        in_bytes(rate as u64),
        time(growth.span_ns),
        context.function_name(frame),
        context.called_by(&group.sites, weight),
        percent(growth.freed_before),
    );
    let is_long = context.duration_ns() >= LONG_NS;
    let finding = Finding {
        rule: Rule::Growth,
        severity: match is_long {
            true => Severity::Problem,
            false => Severity::Hint,
        },
        title: "keeps growing".to_owned(),
        measure: format!("{}, {} of the peak", in_bytes(growth.most), percent(stake)),
        text,
        advice: "If it is a cache, give it a limit; otherwise free what is no longer needed. \
                 Does it grow with the work? Record a run with twice the work, and \
                 `allotrope diff ONE TWO --metric peak`."
            .to_owned(),
        process: context.process.id,
        frame,
        sites: context.numbers_of(&group.sites, weight),
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
            share("steps_up", growth.steps_up as f64 / growth.steps as f64),
            share("steps_up_threshold", RISING),
            number("r_squared", growth.straightness),
            number("r_squared_threshold", STRAIGHT),
            share("span_of_run", growth.span),
            share("span_of_run_threshold", MIN_SPAN),
            share("freed_before", growth.freed_before),
            share("freed_before_threshold", MOSTLY_KEPT),
        ],
    };
    Candidate {
        finding,
        function: Some(group.function),
        also: Vec::new(),
        stake,
    }
}
