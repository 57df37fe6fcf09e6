//! Memory that is not given back: the process stays large after its blocks were freed.
//!
//! Resident memory has other parts than the heap: the program's files, stacks, the
//! allocator's own. So what is resident besides the live bytes is measured before the
//! peak, at its largest, and taken off. Of the rest after the peak it speaks if
//!
//! - it is at least as much as the live bytes, a quarter of the peak, and 4 MiB;
//! - in all samples for at least 10 % of the run, up to its last sample, and in three;
//! - and it is at most 1.25 times what was freed since the peak. More is memory that the
//!   program took from the kernel itself, such as the heap of a garbage collector, or pages of
//!   files.

use allotrope_text::numbers::bytes as in_bytes;

use crate::context::Context;
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{bytes, ns, percent, ratio, share, time};
use crate::rank::Candidate;

const MIN_BYTES: u64 = 4 << 20;
const OF_PEAK: f64 = 0.25;
const MIN_TIME: f64 = 0.1;
const MIN_SAMPLES: usize = 3;
/// What is freed takes more than the requested bytes: headers and rounding.
const OF_FREED: f64 = 1.25;

/// A sample of resident memory beside the live bytes at its time.
struct Sample {
    ns: u64,
    resident: u64,
    live: u64,
}

pub(crate) fn find(context: &Context<'_>) -> Vec<Candidate> {
    kept(context).into_iter().collect()
}

fn kept(context: &Context<'_>) -> Option<Candidate> {
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
    let before = samples
        .iter()
        .filter(|sample| sample.ns <= context.peak_ns());
    let other = before.map(|sample| sample.resident.saturating_sub(sample.live));
    // Without a sample before the peak nothing is known of the other parts.
    let other = other.max()?;
    let rest = |sample: &Sample| {
        sample
            .resident
            .saturating_sub(sample.live)
            .saturating_sub(other)
    };
    let floor = ((peak as f64 * OF_PEAK) as u64).max(MIN_BYTES);
    let stays = |sample: &&Sample| {
        let rest = rest(sample);
        sample.ns > context.peak_ns() && rest >= floor && rest >= sample.live
    };
    let kept: Vec<&Sample> = samples.iter().rev().take_while(stays).collect();
    let (last, first) = (kept.first()?, kept.last()?);
    let span = last.ns - first.ns;
    let of_run = span as f64 / context.duration_ns() as f64;
    if kept.len() < MIN_SAMPLES || of_run < MIN_TIME {
        return None;
    }
    let explained = |sample: &&Sample| {
        rest(sample) as f64 <= OF_FREED * peak.saturating_sub(sample.live) as f64
    };
    if !kept.iter().all(explained) {
        return None;
    }
    let least = kept.iter().map(|sample| rest(sample)).min()?;
    let stake = ratio(least, peak).min(1.0);
    let text = format!(
        "For the last {} at least {} more are resident than before the peak, although the \
         blocks were freed: {} resident, {} live at the end.",
        time(span),
        in_bytes(least),
        in_bytes(last.resident),
        in_bytes(last.live),
    );
    let finding = Finding {
        rule: Rule::NotGivenBack,
        severity: Severity::Hint,
        title: "freed memory that stays with the process".to_owned(),
        measure: format!("{}, {} of the peak", in_bytes(least), percent(stake)),
        text,
        advice: "Call `malloc_trim(0)` after the peak, or set MALLOC_ARENA_MAX or \
                 MALLOC_TRIM_THRESHOLD_ (glibc); blocks that live on between freed ones hold \
                 pages, see stragglers."
            .to_owned(),
        process: context.process.id,
        frame: None,
        sites: Vec::new(),
        numbers: vec![
            bytes("kept_bytes", least),
            bytes("kept_bytes_threshold", MIN_BYTES),
            share("kept_of_peak", stake),
            share("kept_of_peak_threshold", OF_PEAK),
            ns("kept_for_ns", span),
            share("kept_of_run", of_run),
            share("kept_of_run_threshold", MIN_TIME),
            bytes("resident_bytes", last.resident),
            bytes("live_bytes", last.live),
        ],
    };
    Some(Candidate {
        finding,
        function: None,
        also: Vec::new(),
        stake,
    })
}
