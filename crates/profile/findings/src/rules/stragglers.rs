//! Stragglers: few blocks that live on where most others were freed, and hold pages.
//!
//! An allocator can give a page back only when no block in it is live. The pages are counted when at most
//! a quarter of the blocks of the peak are live, and no more are freed for a while. It speaks about a
//! family if, then,
//!
//! - its blocks begin in at least 64 pages and these are at least 5 % of the peak; a page in which
//!   others' blocks begin as well counts in part;
//! - the blocks are at most a quarter of these pages; blocks of a page and more are left out;
//! - at least half of them stay for another tenth of the time, or to the end.

use allotrope_profile::evidence::PAGE_BYTES;
use allotrope_profile::{BlockSum, LIVE_AT_END, Site};
use allotrope_text::numbers::{bytes as in_bytes, count};

use crate::candidate::Candidate;
use crate::conditions::Conditions;
use crate::context::{Context, Group};
use crate::finding::Value::{Count, Share};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, ratio, share, some};
use crate::tried::Trials;

const MIN_PAGES: u64 = 64;
const MIN_SHARE: f64 = 0.05;
const FILLED: f64 = 0.25;
/// The blocks stay for one part in so many of the time.
const STAYING: u64 = 10;

pub(crate) fn find(context: &Context<'_>, trials: &mut Trials<'_, '_>) -> Vec<Candidate> {
    trials.groups(
        &context.families,
        |family| held_pages(context, &family.sites),
        |family, conditions| of_group(context, family, conditions),
    )
}

/// The pages in which blocks of these sites begin.
fn held_pages(context: &Context<'_>, sites: &[u32]) -> u64 {
    sites.iter().map(|site| pages(context, site)).sum::<f64>() as u64
}

fn pages(context: &Context<'_>, site: &u32) -> f64 {
    let evidence = context.evidence_of(*site);
    evidence.held_pages as f64 + evidence.shared_pages
}

fn of_group(
    context: &Context<'_>,
    group: &Group,
    conditions: &mut Conditions,
) -> Option<Candidate> {
    let sites = group.sites.iter().copied();
    // A block of a page and more fills what it begins in.
    let is_small = |&site: &u32| {
        let left = staying(context, &[site]);
        pages(context, &site) > 0.0 && left.bytes < left.blocks.saturating_mul(PAGE_BYTES)
    };
    let sites: Vec<u32> = sites.filter(is_small).collect();
    let held_pages = held_pages(context, &sites);
    let held = held_pages.saturating_mul(PAGE_BYTES);
    let of_peak = ratio(held, context.peak_bytes());
    conditions.at_least(
        "pages",
        "pages in which its small blocks begin that stay",
        Count(held_pages),
        Count(MIN_PAGES),
    )?;
    conditions.at_least(
        "held_of_peak",
        "these pages, of the peak",
        Share(of_peak),
        Share(MIN_SHARE),
    )?;
    let left = staying(context, &sites);
    conditions.at_least(
        "live_blocks",
        "blocks of which half stay for a tenth of the time",
        Count(left.blocks),
        Count(1),
    )?;
    let filled = ratio(left.bytes, held);
    conditions.at_most(
        "filled",
        "these blocks, of the pages",
        Share(filled),
        Share(FILLED),
    )?;
    if !conditions.hold() {
        return None;
    }
    let group = &context.group(sites);
    let pages = held_pages;
    let weight = |site: &Site| site.allocations;
    let frame = context.frame(&group.sites, weight);
    let text = format!(
        "{} of {} ({}) are the only ones in {} pages of 4 KiB, which held much more before{}.",
        some(left.blocks, "block"),
        context.function_name(frame),
        in_bytes(left.bytes),
        count(pages),
        context.called_by(&group.sites, weight),
    );
    let (function, also) = context.functions(frame, &group.sites);
    let finding = Finding {
        rule: Rule::Stragglers,
        severity: Severity::Hint,
        title: "few blocks that hold many pages".to_owned(),
        measure: format!("{} held by {}", in_bytes(held), in_bytes(left.bytes)),
        text,
        advice: "Allocate what lives long apart from what is freed soon: before it, or in an \
                 arena of its own."
            .to_owned(),
        process: context.process.id,
        frame,
        sites: context.numbers_of(&group.sites, weight),
        parts: Vec::new(),
        numbers: vec![
            blocks("pages", pages),
            blocks("pages_threshold", MIN_PAGES),
            bytes("held_bytes", held),
            share("held_of_peak", of_peak),
            share("held_of_peak_threshold", MIN_SHARE),
            bytes("live_bytes", left.bytes),
            share("filled", filled),
            share("filled_threshold", FILLED),
        ],
        mended: None,
    };
    Some(Candidate {
        finding,
        function,
        also,
        weak: false,
        stake: of_peak.min(1.0),
        tried: None,
    })
}

/// The blocks that were live when pages were counted, if most of them stay for a tenth of the
/// time, or to the end; otherwise they are only not freed yet, and none is.
fn staying(context: &Context<'_>, sites: &[u32]) -> BlockSum {
    let counted = context.evidence.held_ns;
    let [begin, end] = context.active_ns;
    let until = counted.saturating_add((end.saturating_sub(begin)) / STAYING);
    let bucket = context.table.bucket_at(counted);
    let later = context.table.bucket_at(until);
    let (mut then, mut stay) = (BlockSum::default(), BlockSum::default());
    for cell in context.cells(sites) {
        if usize::from(cell.allocated) > bucket || usize::from(cell.freed) <= bucket {
            continue;
        }
        for sum in std::iter::once(&mut then).chain(
            (cell.freed == LIVE_AT_END || usize::from(cell.freed) > later).then_some(&mut stay),
        ) {
            sum.blocks += cell.blocks;
            sum.bytes += cell.bytes;
        }
    }
    match stay.blocks * 2 >= then.blocks {
        true => stay,
        false => BlockSum::default(),
    }
}
