//! A spike: live bytes that rise to the peak for a short time, and one kind of blocks that is the
//! rise.
//!
//! The *usual* live bytes are their median while the program allocates. It speaks if
//!
//! - the peak is at least one and a half times as high, and 128 KiB higher;
//! - the live bytes are above a quarter of the rise for at most 18 % of the active time, in one piece
//!   or in several; or for 40 % within one step of the program, in which it does not do what it does
//!   before and after again and again: on a busy machine a step takes longer, and the waiting between
//!   steps does not;
//! - that begins after the first 5 % of the time, which is the program's start, and ends before the end;
//! - the blocks of one family, without their median when the live bytes are low, are at least 40 % of
//!   the rise.

use allotrope_profile::Site;
use allotrope_text::numbers::bytes as in_bytes;

use crate::candidate::Candidate;
use crate::conditions::Conditions;
use crate::context::{Context, Group};
use crate::curve::{Hump, median};
use crate::finding::Value::{Bytes, Share};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{bytes, ns, percent, ratio, share, some, time};
use crate::tried::Trials;

const HIGHER: f64 = 1.5;
const WIDEST: f64 = 0.18;
const WIDEST_STEP: f64 = 0.4;
const BEFORE: f64 = 0.05;
const MIN_BYTES: u64 = 128 << 10;
const MIN_SHARE: f64 = 0.4;

pub(crate) fn find(context: &Context<'_>, trials: &mut Trials<'_, '_>) -> Vec<Candidate> {
    let is_possible = trials.process(|conditions| rises_shortly(context, conditions));
    let Some(spike) = context.hump().filter(|_| is_possible) else {
        return Vec::new();
    };
    let rise = context.peak_bytes() - spike.usual;
    trials.groups(
        &context.families,
        |group| group.peak_bytes,
        |group, conditions| {
            conditions.at_least(
                "peak_of_rise",
                "live at the peak, of the rise",
                Share(ratio(group.peak_bytes, rise)),
                Share(MIN_SHARE),
            )?;
            let curve = context.curve(&group.sites);
            let below = spike.below.iter().map(|&bucket| curve.live()[bucket].bytes);
            let own = group.peak_bytes.saturating_sub(median(below.collect()));
            conditions.at_least(
                "share_of_rise",
                "without what it usually holds, of the rise",
                Share(ratio(own, rise)),
                Share(MIN_SHARE),
            )?;
            conditions
                .hold()
                .then(|| candidate(context, group, spike, own))
        },
    )
}

/// Whether the live bytes rise to the peak from what is usual for a short time, which is not the
/// program's start.
fn rises_shortly(context: &Context<'_>, conditions: &mut Conditions) -> Option<()> {
    let hump = context.hump();
    conditions.fact(
        "rises",
        "the peak is above the median of the live bytes",
        hump.is_some(),
    )?;
    let hump = hump?;
    let [begin, end] = context.active_ns;
    let active = end.saturating_sub(begin).max(1) as f64;
    let peak = context.peak_bytes();
    let [width, widest] = width(context, hump);
    conditions.at_most(
        "width_of_active_time",
        match hump.in_one_step {
            true => "time above a quarter of the rise, within one step",
            false => "time above a quarter of the rise",
        },
        Share(width),
        Share(widest),
    )?;
    conditions.at_least(
        "begins_at",
        "it begins at this part of the active time",
        Share(hump.from_ns.saturating_sub(begin) as f64 / active),
        Share(BEFORE),
    )?;
    conditions.fact("falls", "it ends before the program does", hump.falls)?;
    conditions.at_least(
        "rise_bytes",
        "the peak above the median",
        Bytes(peak - hump.usual),
        Bytes(MIN_BYTES),
    )?;
    conditions.at_least(
        "peak_bytes",
        "the peak, against one and a half times the median",
        Bytes(peak),
        Bytes((HIGHER * hump.usual as f64).ceil() as u64),
    )
}

/// For which part of the active time the live bytes are high, and the largest part that is short. A rise
/// within one of the program's steps may be longer: that one takes much longer on a busy machine, and the
/// waiting between the steps does not.
pub(crate) fn width(context: &Context<'_>, hump: &Hump) -> [f64; 2] {
    let [begin, end] = context.active_ns;
    let active = end.saturating_sub(begin).max(1) as f64;
    let widest = if hump.in_one_step {
        WIDEST_STEP
    } else {
        WIDEST
    };
    // A sample is the resolution of the curve.
    let resolution = context.process.live.width_ns as f64;
    [
        hump.above_ns as f64 / active,
        widest.max(resolution / active),
    ]
}

/// The sites of the group, and all others below the function that calls it.
fn with_caller(context: &Context<'_>, group: &Group) -> Vec<u32> {
    let callers = context.callers(&group.sites, |site| site.bytes_at_peak);
    let Some(&caller) = callers.first() else {
        return group.sites.clone();
    };
    let caller = context.frames.function(caller);
    let is_below = |&site: &u32| {
        let mut own = context.own_frames(site);
        group.sites.contains(&site) || own.any(|frame| context.frames.function(frame) == caller)
    };
    (0..context.process.sites.len() as u32)
        .filter(is_below)
        .collect()
}

fn candidate(context: &Context<'_>, group: &Group, spike: &Hump, own: u64) -> Candidate {
    let weight = |site: &Site| site.bytes_at_peak;
    let frame = context.frame(&group.sites, weight);
    let peak = context.peak_bytes();
    let stake = ratio(own, peak).min(1.0);
    let width = spike.above_ns;
    let text = format!(
        "For {} the live bytes are {} instead of {}: {} of it is {} of {}{}.",
        time(width),
        in_bytes(peak),
        in_bytes(spike.usual),
        in_bytes(own),
        some(group.peak_blocks, "block"),
        context.function_name(frame),
        context.called_by(&group.sites, weight),
    );
    let (function, also) = context.functions(frame, &group.sites);
    // What the same caller allocates besides goes with it.
    let sites = with_caller(context, group);
    let curve = context.curve(&sites);
    let below = spike.below.iter().map(|&bucket| curve.live()[bucket].bytes);
    let mended = context.without_rise(&sites, median(below.collect()), spike.rest);
    let finding = Finding {
        rule: Rule::Spike,
        severity: Severity::Hint,
        title: "a short rise to the peak".to_owned(),
        measure: format!("{}, {} of the peak", in_bytes(own), percent(stake)),
        text,
        advice: "Work in smaller parts: the program needs this memory only for a moment."
            .to_owned(),
        process: context.process.id,
        frame,
        sites: context.numbers_of(&group.sites, weight),
        parts: Vec::new(),
        numbers: vec![
            bytes("rise_bytes", own),
            bytes("rise_bytes_threshold", MIN_BYTES),
            bytes("peak_bytes", peak),
            bytes("usual_bytes", spike.usual),
            ns("width_ns", width),
            share("width_of_run", width as f64 / context.duration_ns() as f64),
            share("width_of_run_threshold", WIDEST),
            share("share_of_rise", ratio(own, peak - spike.usual)),
            share("share_of_rise_threshold", MIN_SHARE),
        ],
        mended: Some(mended),
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
