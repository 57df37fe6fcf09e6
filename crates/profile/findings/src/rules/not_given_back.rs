//! Memory that is not given back: the process stays large after its blocks were freed.
//!
//! It speaks if, since the peak and up to the last sample of resident memory,
//!
//! - at least 15 % of the peak, and 512 KiB, are live no more, in all samples of at least 10 % of the run,
//!   and in two;
//! - of these bytes at least 40 %, 15 % of the peak, and 512 KiB are resident still: the largest resident memory
//!   has not fallen by more than the rest, and is by as much above the least before the peak;
//! - nothing else has become resident since, by more than 40 % of them: memory that the program maps;
//! - the rise to the peak is no [spike](super::spike), which is the cause then, nor the program's start.
//!
//! It names the kind of blocks of which most was freed since the peak.

use allotrope_text::numbers::bytes as in_bytes;

use allotrope_profile::Site;

use crate::candidate::Candidate;
use crate::conditions::Conditions;
use crate::context::{Context, Group};
use crate::finding::Value::{Bytes, Count, Share};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{bytes, ns, percent, ratio, share, time};
use crate::rules::spike::width;
use crate::tried::Trials;

const MIN_BYTES: u64 = 512 << 10;
const OF_PEAK: f64 = 0.15;
const MIN_TIME: f64 = 0.1;
const MIN_SAMPLES: usize = 2;
/// Part of what was freed that stays.
const OF_FREED: f64 = 0.4;

/// A sample of resident memory beside the live bytes at its time.
struct Sample {
    ns: u64,
    resident: u64,
    live: u64,
}

pub(crate) fn find(context: &Context<'_>, trials: &mut Trials<'_, '_>) -> Vec<Candidate> {
    let (id, found) = trials.candidate(&[], || 0, |conditions| kept(context, conditions));
    let found = found.map(|candidate| candidate.tried_as(id));
    found.into_iter().collect()
}

fn kept(context: &Context<'_>, conditions: &mut Conditions) -> Option<Candidate> {
    let series = &context.process.live;
    let live_at = |ns: u64| {
        let sample = ns.saturating_sub(series.from_ns) / series.width_ns.max(1);
        let at = usize::try_from(sample).unwrap_or(usize::MAX);
        match series.samples.get(at) {
            Some(sample) => Some(sample.max_bytes),
            // Nothing was allocated or freed since.
            None => Some(series.samples.last()?.bytes),
        }
    };
    let samples = context.process.resident.iter().filter_map(|sample| {
        let ns = sample.time_us.saturating_mul(1000);
        Some(Sample {
            ns,
            resident: sample.program_bytes(),
            live: live_at(ns)?,
        })
    });
    let samples: Vec<Sample> = samples.collect();
    let peak = context.peak_bytes();
    // Without a sample before the peak nothing is known of what was resident without it.
    let before = samples.iter().take_while(|it| it.ns <= context.peak_ns());
    let least = before.map(|sample| sample.resident).min();
    conditions.fact(
        "sampled_before_peak",
        "resident memory was read before the peak",
        least.is_some(),
    )?;
    let least = least.unwrap_or(0);
    // Of the time since the peak, as far as there is nothing else to see: what is live is far below it.
    let low = |sample: &&Sample| {
        sample.ns > context.peak_ns() && peak.saturating_sub(sample.live) >= floor(peak)
    };
    let after: Vec<&Sample> = samples.iter().rev().take_while(low).collect();
    let first_ns = after.last().map_or(u64::MAX, |sample| sample.ns);
    let span = after.first().map_or(0, |last| last.ns - first_ns);
    let of_run = span as f64 / context.duration_ns() as f64;
    conditions.at_least(
        "samples",
        "samples since the peak with much of it freed",
        Count(after.len() as u64),
        Count(MIN_SAMPLES as u64),
    )?;
    conditions.at_least(
        "kept_of_run",
        "time of these samples, of the run",
        Share(of_run),
        Share(MIN_TIME),
    )?;
    let until = samples.iter().take_while(|sample| sample.ns < first_ns);
    // There are such samples if there is one before the peak.
    let full = until.map(|sample| sample.resident).max().unwrap_or(0);
    let live = after.iter().map(|sample| sample.live).max();
    let freed = peak - live.unwrap_or(peak).min(peak);
    // What is resident at the end of this time; a program that gives memory back may do it late.
    let resident = after.iter().take(MIN_SAMPLES).map(|it| it.resident).min();
    let resident = resident.unwrap_or(0);
    // What becomes resident only then is not what was freed: the program maps it itself.
    let later = after.iter().map(|sample| sample.resident).max();
    conditions.at_most(
        "later_resident_bytes",
        "resident only since, against 40 % of what was freed",
        Bytes(later.unwrap_or(0).saturating_sub(full)),
        Bytes((OF_FREED * freed as f64) as u64),
    )?;
    let given_back = full.saturating_sub(resident);
    // What never became resident is not given back.
    let kept = freed
        .saturating_sub(given_back)
        .min(resident.saturating_sub(least));
    conditions.at_least(
        "kept_bytes",
        "freed and still resident",
        Bytes(kept),
        Bytes(floor(peak)),
    )?;
    conditions.at_least(
        "kept_of_freed",
        "still resident, of what was freed",
        Share(ratio(kept, freed)),
        Share(OF_FREED),
    )?;
    // What is only there for a moment is a spike, or the program's start.
    conditions.any_of("no_spike", "the rise to the peak is no spike", |any| {
        let hump = context.hump();
        any.fact("no_rise", "the peak is the median", hump.is_none())?;
        let hump = hump?;
        any.less_than(
            "rise_bytes",
            "the peak above the median",
            Bytes(peak - hump.usual),
            Bytes(floor(peak)),
        )?;
        let [width, widest] = width(context, hump);
        any.more_than(
            "width_of_active_time",
            "time above a quarter of the rise",
            Share(width),
            Share(widest),
        )
    })?;
    if !conditions.hold() {
        return None;
    }
    let last = after.first()?;
    let (group, released) = most_released(context, last.ns)?;
    let weight = |site: &Site| site.bytes_at_peak;
    let frame = context.frame(&group.sites, weight);
    let stake = ratio(kept, peak).min(1.0);
    let text = format!(
        "{} of the peak were freed, {} of them blocks of {}{}; for the last {} {} of it are \
         resident still: {} resident, {} live.",
        in_bytes(freed),
        in_bytes(released),
        context.function_name(frame),
        context.called_by(&group.sites, weight),
        time(span),
        in_bytes(kept),
        in_bytes(last.resident),
        in_bytes(last.live),
    );
    let (function, also) = context.functions(frame, &group.sites);
    let finding = Finding {
        rule: Rule::NotGivenBack,
        severity: Severity::Hint,
        title: "freed memory that stays with the process".to_owned(),
        measure: format!("{}, {} of the peak", in_bytes(kept), percent(stake)),
        text,
        advice: "Call `malloc_trim(0)` after the peak, or set MALLOC_ARENA_MAX or \
                 MALLOC_TRIM_THRESHOLD_ (glibc); blocks that live on between freed ones hold \
                 pages, see stragglers."
            .to_owned(),
        process: context.process.id,
        frame,
        sites: context.numbers_of(&group.sites, weight),
        parts: Vec::new(),
        numbers: vec![
            bytes("kept_bytes", kept),
            bytes("kept_bytes_threshold", floor(peak)),
            bytes("freed_bytes", freed),
            share("kept_of_freed", ratio(kept, freed)),
            share("kept_of_freed_threshold", OF_FREED),
            share("kept_of_peak", stake),
            ns("kept_for_ns", span),
            share("kept_of_run", of_run),
            share("kept_of_run_threshold", MIN_TIME),
            bytes("resident_bytes", last.resident),
            bytes("live_bytes", last.live),
        ],
        mended: None,
    };
    Some(Candidate {
        finding,
        function,
        also,
        weak: false,
        stake,
        tried: None,
    })
}

/// The least that must have been freed and stay.
fn floor(peak: u64) -> u64 {
    ((peak as f64 * OF_PEAK) as u64).max(MIN_BYTES)
}

/// The kind of blocks of which most was live at the peak and is not at this time, and how much.
fn most_released<'c>(context: &'c Context<'_>, ns: u64) -> Option<(&'c Group, u64)> {
    let families = context.families.iter();
    let released = families.map(|family| {
        let live = context.curve(&family.sites).at(ns).bytes;
        (family, family.peak_bytes.saturating_sub(live))
    });
    released.max_by_key(|(_, released)| *released)
}
