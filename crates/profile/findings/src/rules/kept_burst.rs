//! A burst that is kept: most of the peak is allocated at the start and lives long.
//!
//! It speaks about a function if of its blocks that were allocated in the first 5 % of the
//! run at least half of the peak, and 64 KiB, live for at least half of the run: they are
//! live in the middle of it. It is no finding if these are half of the run's first peak
//! only because the run is short: the run must allocate for most of its time, so at least
//! half of all allocations come later.

use allotrope_profile::Site;
use allotrope_text::numbers::bytes as in_bytes;

use crate::context::{Context, Group};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{are, blocks, bytes, percent, ratio, share, some};
use crate::rank::Candidate;

const FIRST: u64 = 20;
const MIN_SHARE: f64 = 0.5;
const MIN_BYTES: u64 = 64 << 10;
const LATER: f64 = 0.5;

pub(crate) fn find(context: &Context<'_>) -> Vec<Candidate> {
    let first = context
        .table
        .bucket_at(context.start_ns + context.duration_ns() / FIRST);
    let middle = context
        .table
        .bucket_at(context.start_ns + context.duration_ns() / 2);
    let peak = context.peak_bytes();
    let large = context
        .groups
        .iter()
        .filter(|group| group.bytes >= MIN_BYTES && ratio(group.bytes, peak) >= MIN_SHARE);
    let kept = large.filter_map(|group| {
        let (mut number, mut size) = (0, 0);
        for cell in context.cells(&group.sites) {
            if usize::from(cell.allocated) <= first && usize::from(cell.freed) > middle {
                number += cell.blocks;
                size += cell.bytes;
            }
        }
        (size >= MIN_BYTES && ratio(size, peak) >= MIN_SHARE).then_some((group, number, size))
    });
    let kept: Vec<(&Group, u64, u64)> = kept.collect();
    if kept.is_empty() || later(context, first) < LATER {
        return Vec::new();
    }
    let kept = kept.into_iter();
    kept.map(|(group, number, size)| candidate(context, group, number, size))
        .collect()
}

/// The part of all allocations after this bucket.
fn later(context: &Context<'_>, first: usize) -> f64 {
    let cells = context.table.cells.iter();
    let later = cells.filter(|cell| usize::from(cell.allocated) > first);
    ratio(later.map(|cell| cell.blocks).sum(), context.allocations())
}

fn candidate(context: &Context<'_>, group: &Group, number: u64, size: u64) -> Candidate {
    let weight = |site: &Site| site.allocated_bytes;
    let frame = context.frame(&group.sites, weight);
    let stake = ratio(size, context.peak_bytes()).min(1.0);
    let text = format!(
        "{} of {} allocated in the first 5 % of the run and live for at least half of it{}.",
        some(number, "block"),
        are(context.function_name(frame), number),
        context.called_by(&group.sites, weight),
    );
    let finding = Finding {
        rule: Rule::KeptBurst,
        severity: Severity::Hint,
        title: "much that is allocated at the start and kept".to_owned(),
        measure: format!("{}, {} of the peak", in_bytes(size), percent(stake)),
        text,
        advice: "Is all of it needed, for so long? Allocate it when it is needed, or free it \
                 after its use."
            .to_owned(),
        process: context.process.id,
        frame,
        sites: context.numbers_of(&group.sites, weight),
        numbers: vec![
            bytes("kept_bytes", size),
            bytes("kept_bytes_threshold", MIN_BYTES),
            share("share_of_peak", stake),
            share("share_of_peak_threshold", MIN_SHARE),
            blocks("kept_blocks", number),
        ],
    };
    Candidate {
        finding,
        function: Some(group.function),
        also: Vec::new(),
        stake,
    }
}
