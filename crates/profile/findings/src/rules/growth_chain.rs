//! Growth chains: blocks that are made larger again and again, by `realloc` or by
//! allocating, copying and freeing, as containers do.
//!
//! A chain has at least 3 growths ([`GrowthEvidence`](allotrope_profile::GrowthEvidence)).
//! It speaks if the chains of a function
//!
//! - are at least 100, and their growths 5 % of all allocations; or
//! - have at least 1,000 growths, and 5 % of all allocations; or
//! - copied at least half of all allocated bytes, 256 KiB, and a quarter of the peak.
//!
//! It advises a size only if the last sizes are nearly equal: their standard deviation is
//! at most a quarter of their mean.

use allotrope_profile::Site;
use allotrope_text::numbers::{bytes as in_bytes, count};

use crate::callers::Language;
use crate::candidate::Candidate;
use crate::conditions::Conditions;
use crate::context::{Context, Group};
use crate::finding::Value::{Bytes, Count, Share};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, number, percent, ratio, share, some};
use crate::tried::Trials;

const MIN_CHAINS: u64 = 100;
const MIN_SHARE: f64 = 0.05;
const MANY_GROWTHS: u64 = 1_000;
const LARGE_SHARE: f64 = 0.05;
const COPIED: f64 = 0.5;
const MIN_COPIED: u64 = 256 << 10;
const COPIED_OF_PEAK: f64 = 0.25;
const EQUAL_SIZES: f64 = 0.25;
/// Doubling reaches 2^40 bytes in fewer growths.
const NOT_BY_A_FACTOR: f64 = 40.0;

pub(crate) fn find(context: &Context<'_>, trials: &mut Trials<'_, '_>) -> Vec<Candidate> {
    trials.groups(
        &context.groups,
        |group| group.growth.chain_growths,
        |group, conditions| {
            grows(context, group, conditions)?;
            conditions.hold().then(|| candidate(context, group))
        },
    )
}

fn grows(context: &Context<'_>, group: &Group, conditions: &mut Conditions) -> Option<()> {
    let totals = &context.process.totals;
    let growth = &group.growth;
    let of_all = Share(ratio(growth.chain_growths, totals.allocations));
    let copied = growth.copied_bytes;
    conditions.at_least(
        "chains",
        "blocks that grew three times or more",
        Count(growth.chains),
        Count(1),
    )?;
    conditions.any_of("often_or_much", "often, or by copying much", |any| {
        any.all_of("many_chains", "many blocks", |all| {
            all.at_least(
                "chains",
                "blocks that grew",
                Count(growth.chains),
                Count(MIN_CHAINS),
            )?;
            all.at_least(
                "share_of_allocations",
                "growths, of all allocations",
                of_all,
                Share(MIN_SHARE),
            )
        })?;
        any.all_of("many_growths", "many growths", |all| {
            all.at_least(
                "growths",
                "growths",
                Count(growth.chain_growths),
                Count(MANY_GROWTHS),
            )?;
            all.at_least(
                "share_of_allocations",
                "growths, of all allocations",
                of_all,
                Share(LARGE_SHARE),
            )
        })?;
        any.all_of("much_copied", "much is copied", |all| {
            all.at_least("copied_bytes", "copied", Bytes(copied), Bytes(MIN_COPIED))?;
            all.at_least(
                "copied_of_allocated",
                "copied, of all allocated bytes",
                Share(ratio(copied, totals.allocated_bytes)),
                Share(COPIED),
            )?;
            all.at_least(
                "copied_of_peak",
                "copied, of the peak",
                Share(ratio(copied, totals.peak_bytes)),
                Share(COPIED_OF_PEAK),
            )
        })
    })
}

fn candidate(context: &Context<'_>, group: &Group) -> Candidate {
    let growth = &group.growth;
    let weight = |site: &Site| site.allocations;
    let grows = |&site: &u32| context.evidence_of(site).growth.growths > 0;
    let grown: Vec<u32> = group.sites.iter().copied().filter(grows).collect();
    let frame = context.frame(&grown, weight);
    let each = ratio(growth.chain_growths, growth.chains);
    let of_all = ratio(growth.chain_growths, context.allocations());
    let of_bytes = ratio(growth.copied_bytes, context.process.totals.allocated_bytes);
    let (mean, variation) = (growth.final_mean(), growth.final_variation());
    let text = format!(
        "{} of {} grew {each:.1} times each, to {} on average: {} of all allocations{}, {} \
         copied.",
        some(growth.chains, "block"),
        context.function_name(frame),
        in_bytes(mean as u64),
        percent(of_all),
        context.called_by(&grown, weight),
        in_bytes(growth.copied_bytes),
    );
    let at_once = |size: u64| match context.language(frame) {
        Language::Rust => format!(
            "`with_capacity(N)` or `reserve(N)` for {} would remove the growth",
            in_bytes(size)
        ),
        Language::Cxx => format!(
            "`reserve(N)` for {} would remove the growth",
            in_bytes(size)
        ),
        _ => format!("Allocate {} at once", in_bytes(size)),
    };
    let advice = if growth.chains == 1 || variation <= EQUAL_SIZES {
        format!("{}.", at_once((mean.ceil() as u64).max(1)))
    } else if each > NOT_BY_A_FACTOR {
        "Grow by a factor and not by a constant, or find the size out before.".to_owned()
    } else {
        format!(
            "Find the size out before and reserve it; the last sizes differ (up to {}).",
            in_bytes(growth.final_largest)
        )
    };
    let finding = Finding {
        rule: Rule::GrowthChain,
        severity: Severity::Hint,
        title: "blocks grown step by step".to_owned(),
        measure: format!(
            "{} growths, {} of all allocations",
            count(growth.chain_growths),
            percent(of_all)
        ),
        text,
        advice,
        process: context.process.id,
        frame,
        sites: context.numbers_of(&grown, weight),
        parts: Vec::new(),
        numbers: vec![
            blocks("chains", growth.chains),
            blocks("chains_threshold", MIN_CHAINS),
            blocks("growths", growth.chain_growths),
            share("share_of_allocations", of_all),
            share("share_of_allocations_threshold", MIN_SHARE),
            bytes("copied_bytes", growth.copied_bytes),
            share("copied_of_allocated", of_bytes),
            share("copied_of_allocated_threshold", COPIED),
            number("growths_each", each),
            bytes("final_mean_bytes", mean as u64),
            number("final_variation", variation),
            number("final_variation_threshold", EQUAL_SIZES),
        ],
        mended: Some(context.with_fewer_allocations(growth.chain_growths)),
    };
    Candidate {
        finding,
        function: Some(group.function),
        also: Vec::new(),
        weak: false,
        stake: of_all.max(of_bytes),
        tried: None,
    }
}
