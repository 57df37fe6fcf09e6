//! Stragglers: few blocks that live on where most others were freed, and hold pages.
//!
//! An allocator can give a page back only when no block in it is live. It speaks about a
//! function if, at the end of the run,
//!
//! - at most a quarter of the blocks of the peak are live;
//! - only blocks of one of its sites begin in at least 256 pages (1 MiB), and these pages
//!   are at least 5 % of the peak;
//! - its live blocks in all are at most a tenth of these pages.

use allotrope_profile::Site;
use allotrope_profile::evidence::PAGE_BYTES;
use allotrope_text::numbers::{bytes as in_bytes, count};

use crate::context::{Context, Group};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, ratio, share, some};
use crate::rank::Candidate;

const MIN_PAGES: u64 = 256;
const MIN_SHARE: f64 = 0.05;
const FILLED: f64 = 0.1;

pub(crate) fn find(context: &Context<'_>) -> Vec<Candidate> {
    let groups = context.groups.iter();
    groups
        .filter_map(|group| of_group(context, group))
        .collect()
}

fn of_group(context: &Context<'_>, group: &Group) -> Option<Candidate> {
    let sites = group.sites.iter();
    let pages: u64 = sites
        .map(|&site| context.evidence_of(site).held_pages)
        .sum();
    let held = pages.saturating_mul(PAGE_BYTES);
    let of_peak = ratio(held, context.peak_bytes());
    let filled = ratio(group.leaked_bytes, held);
    if pages < MIN_PAGES || of_peak < MIN_SHARE || filled > FILLED {
        return None;
    }
    let weight = |site: &Site| site.leaked_allocations;
    let frame = context.frame(&group.sites, weight);
    let text = format!(
        "{} of {} ({}) are the only ones at the end in {} pages of 4 KiB, which held much more \
         before{}.",
        some(group.leaked, "block"),
        context.function_name(frame),
        in_bytes(group.leaked_bytes),
        count(pages),
        context.called_by(&group.sites, weight),
    );
    let finding = Finding {
        rule: Rule::Stragglers,
        severity: Severity::Hint,
        title: "few blocks that keep pages from going back".to_owned(),
        measure: format!(
            "{} held by {}",
            in_bytes(held),
            in_bytes(group.leaked_bytes)
        ),
        text,
        advice: "Allocate what lives long apart from what is freed soon: before it, or in an \
                 arena of its own."
            .to_owned(),
        process: context.process.id,
        frame,
        sites: context.numbers_of(&group.sites, weight),
        numbers: vec![
            blocks("pages", pages),
            blocks("pages_threshold", MIN_PAGES),
            bytes("held_bytes", held),
            share("held_of_peak", of_peak),
            share("held_of_peak_threshold", MIN_SHARE),
            bytes("live_bytes", group.leaked_bytes),
            share("filled", filled),
            share("filled_threshold", FILLED),
        ],
    };
    Some(Candidate {
        finding,
        function: Some(group.function),
        also: Vec::new(),
        stake: of_peak.min(1.0),
    })
}
