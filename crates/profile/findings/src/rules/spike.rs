//! A spike: live bytes that rise to the peak for a short time, and one function that is the
//! rise.
//!
//! It speaks if the peak is at least one and a half times the live bytes before it and
//! after it (the median of 5 % of the run on each side), lasts for at most 5 % of the run,
//! is at least 64 KiB higher, and if one function's blocks are at least half of the rise.

use allotrope_profile::Site;
use allotrope_text::numbers::bytes as in_bytes;

use crate::context::{Context, Group};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{bytes, ns, percent, ratio, share, some, time};
use crate::rank::Candidate;

const HIGHER: f64 = 1.5;
const WIDEST: f64 = 0.05;
const BESIDE: f64 = 0.05;
const MIN_BYTES: u64 = 64 << 10;
const MIN_SHARE: f64 = 0.5;

struct Spike {
    from_ns: u64,
    to_ns: u64,
    /// Live bytes beside it: the larger of both sides.
    beside: u64,
}

pub(crate) fn find(context: &Context<'_>) -> Vec<Candidate> {
    let Some(spike) = spike(context) else {
        return Vec::new();
    };
    let rise = context.peak_bytes() - spike.beside;
    let groups = context.groups.iter();
    let large = groups.filter(|group| ratio(group.peak_bytes, rise) >= MIN_SHARE);
    let risen = large.filter_map(|group| {
        let curve = context.curve(&group.sites);
        let beside = curve
            .at(spike.from_ns)
            .bytes
            .max(curve.at(spike.to_ns).bytes);
        let own = group.peak_bytes.saturating_sub(beside);
        (ratio(own, rise) >= MIN_SHARE).then(|| candidate(context, group, &spike, own))
    });
    risen.collect()
}

fn spike(context: &Context<'_>) -> Option<Spike> {
    let series = &context.process.live;
    let samples = &series.samples;
    let top = (0..samples.len()).max_by_key(|&at| samples[at].max_bytes)?;
    let peak = context.peak_bytes();
    let level = (peak as f64 / HIGHER) as u64;
    let low = |at: usize| samples[at].max_bytes <= level;
    let first = (0..top).rev().find(|&at| low(at))? + 1;
    let last = (top + 1..samples.len()).find(|&at| low(at))? - 1;
    let width = (last + 1 - first) as u64 * series.width_ns;
    let duration = context.duration_ns() as f64;
    // A sample is the resolution of the curve.
    if width as f64 > (WIDEST * duration).max(series.width_ns as f64) {
        return None;
    }
    let side = ((duration * BESIDE / series.width_ns as f64).ceil() as usize).max(1);
    let before = first.checked_sub(side)?..first;
    let after = last + 1..last + 1 + side;
    let median = |range: std::ops::Range<usize>| {
        let mut bytes: Vec<u64> = samples.get(range)?.iter().map(|it| it.bytes).collect();
        bytes.sort_unstable();
        bytes.get(bytes.len() / 2).copied()
    };
    let beside = median(before)?.max(median(after)?);
    let holds = beside <= level && peak - beside >= MIN_BYTES;
    let at = |sample: usize| series.from_ns + sample as u64 * series.width_ns;
    holds.then(|| Spike {
        from_ns: at(first),
        to_ns: at(last + 1) + context.duration_ns() / 256,
        beside,
    })
}

fn candidate(context: &Context<'_>, group: &Group, spike: &Spike, own: u64) -> Candidate {
    let weight = |site: &Site| site.bytes_at_peak;
    let frame = context.frame(&group.sites, weight);
    let peak = context.peak_bytes();
    let stake = ratio(own, peak).min(1.0);
    let width = spike.to_ns - spike.from_ns;
    let text = format!(
        "For {} the live bytes are {} instead of {}: {} of it is {} of {}{}.",
        time(width),
        in_bytes(peak),
        in_bytes(spike.beside),
        in_bytes(own),
        some(group.peak_blocks, "block"),
        context.function_name(frame),
        context.called_by(&group.sites, weight),
    );
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
        numbers: vec![
            bytes("rise_bytes", own),
            bytes("rise_bytes_threshold", MIN_BYTES),
            bytes("peak_bytes", peak),
            bytes("beside_bytes", spike.beside),
            ns("width_ns", width),
            share("width_of_run", width as f64 / context.duration_ns() as f64),
            share("width_of_run_threshold", WIDEST),
            share("share_of_rise", ratio(own, peak - spike.beside)),
            share("share_of_rise_threshold", MIN_SHARE),
        ],
    };
    Candidate {
        finding,
        function: Some(group.function),
        also: Vec::new(),
        stake,
    }
}
