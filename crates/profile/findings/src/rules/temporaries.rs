//! Temporaries: blocks that are allocated very often, and are gone before the next ones are
//! allocated.
//!
//! A site's blocks are short-lived if, not counting blocks that were reallocated,
//!
//! - at least 90 % are freed before their thread allocates again; or
//! - they live for at most 0.5 % of the run on average, and a few die together, as a copy of several
//!   blocks: at least 100 times the site has no live block any more, and not more than 16
//!   blocks for each time; or at most 4 are live at any time, and a hundred times as many are
//!   allocated, as when each text replaces the one before.
//!
//! It speaks if 90 % of a family's blocks are short-lived, at least 1,000, and 1 % of all
//! allocations (20 % if not 90 % are of the first kind), and
//!
//! - at 50 ns for each pair of allocation and deallocation, at least 1 % of the run; or
//! - 30,000, and 10 % of all allocations; or
//! - 10,000, and half of all allocated bytes, which are five times the peak.

use allotrope_profile::Site;
use allotrope_text::numbers::{bytes as in_bytes, count};

use crate::callers::Language;
use crate::candidate::Candidate;
use crate::conditions::Conditions;
use crate::context::{Context, Group};
use crate::finding::Value::{Bytes, Count, Share};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, ns, percent, ratio, share, time};
use crate::tried::Trials;

const TEMPORARY: f64 = 0.9;
const MIN: u64 = 1_000;
const MIN_SHARE: f64 = 0.01;
/// Value of [`MIN_SHARE`] for blocks that are freed a few together.
const MIN_SHARE_TOGETHER: f64 = 0.2;
const MANY: u64 = 30_000;
const LARGE_SHARE: f64 = 0.1;
/// A pair of `malloc` and `free` of glibc takes 20 to 100 ns.
const PAIR_NS: u64 = 50;
const MIN_TIME: f64 = 0.01;
/// Least bytes, in peaks, and least part of all allocated bytes.
const MIN_COPIES: u64 = 10_000;
const OF_PEAK: u64 = 5;
const OF_BYTES: f64 = 0.5;
/// Least number of times that a site has no live block any more.
const MIN_TIMES: u64 = 100;
/// Most blocks of a site that live together, on average.
const TOGETHER: u64 = 16;
/// Most blocks of a site at a time if they replace each other.
const MOST_REPLACED: u64 = 4;
/// Longest mean life, as a part of the run.
const SHORT: f64 = 0.005;

pub(crate) fn find(context: &Context<'_>, trials: &mut Trials<'_, '_>) -> Vec<Candidate> {
    trials.groups(
        &context.families,
        |family| family.allocations,
        |family, conditions| of_family(context, family, conditions),
    )
}

fn of_family(
    context: &Context<'_>,
    family: &Group,
    conditions: &mut Conditions,
) -> Option<Candidate> {
    conditions.at_least(
        "allocations",
        "allocations",
        Count(family.allocations),
        Count(MIN),
    )?;
    conditions.at_least(
        "share_of_all",
        "of all allocations",
        Share(ratio(family.allocations, context.allocations())),
        Share(MIN_SHARE),
    )?;
    let sites = family.sites.iter().copied();
    let short = context.group(sites.filter(|&site| short_lived(context, site).is_some()));
    let short = Group {
        function: family.function,
        ..short
    };
    let number = number(context, &short);
    let others = family.allocations - reallocated(context, family).min(family.allocations);
    let of_all = ratio(number, context.allocations());
    let time = (number * PAIR_NS) as f64 / context.duration_ns() as f64;
    conditions.at_least(
        "temporary_allocations",
        "short-lived ones",
        Count(number),
        Count(MIN),
    )?;
    conditions.at_least(
        "temporary_of_family",
        "short-lived, of its allocations",
        Share(ratio(number, others)),
        Share(TEMPORARY),
    )?;
    let is_alone = ratio(short.temporary, number) >= TEMPORARY;
    conditions.at_least(
        "share_of_allocations",
        match is_alone {
            true => "short-lived, of all allocations",
            false => "short-lived, of all allocations (a few die together)",
        },
        Share(of_all),
        Share(match is_alone {
            true => MIN_SHARE,
            false => MIN_SHARE_TOGETHER,
        }),
    )?;
    conditions.any_of(
        "costly",
        "they cost time, or are many, or copy much",
        |any| {
            any.at_least(
                "time_of_run",
                "time for them at 50 ns each, of the run",
                Share(time),
                Share(MIN_TIME),
            )?;
            any.all_of("many", "they are many", |all| {
                all.at_least(
                    "temporary_allocations",
                    "short-lived ones",
                    Count(number),
                    Count(MANY),
                )?;
                all.at_least(
                    "share_of_allocations",
                    "short-lived, of all allocations",
                    Share(of_all),
                    Share(LARGE_SHARE),
                )
            })?;
            any.all_of("copies", "they copy much", |all| {
                copies(context, &short, all)
            })
        },
    )?;
    conditions
        .hold()
        .then(|| candidate(context, &short, number))
}

/// Whether the blocks are most of all bytes that are allocated, and many times the peak: long texts
/// that are made anew again and again.
fn copies(context: &Context<'_>, group: &Group, conditions: &mut Conditions) -> Option<()> {
    let totals = &context.process.totals;
    conditions.at_least(
        "short_lived_allocations",
        "allocations of their stacks",
        Count(group.allocations),
        Count(MIN_COPIES),
    )?;
    conditions.at_least(
        "short_lived_bytes",
        "their bytes, against five times the peak",
        Bytes(group.bytes),
        Bytes(totals.peak_bytes.saturating_mul(OF_PEAK)),
    )?;
    conditions.at_least(
        "share_of_bytes",
        "their bytes, of all allocated bytes",
        Share(ratio(group.bytes, totals.allocated_bytes)),
        Share(OF_BYTES),
    )
}

/// The short-lived blocks of a site that were not reallocated, and the sum of their lifetimes in
/// nanoseconds, if nearly all of its blocks are short-lived: each is freed before its thread
/// allocates again, or few live together, and die before the next ones are allocated.
fn short_lived(context: &Context<'_>, index: u32) -> Option<[u64; 2]> {
    let site = context.site(index);
    let evidence = context.evidence_of(index);
    let others = site.allocations - evidence.reallocated.min(site.allocations);
    let temporary = site.temporary_allocations;
    let temporary = temporary.saturating_sub(evidence.reallocated_temporary);
    if ratio(temporary, others) >= TEMPORARY {
        // Of these blocks alone: the others of the site may have lived through the run.
        return (temporary > 0).then_some([temporary, evidence.temporary_ns]);
    }
    let total_ns = u64::try_from(site.lifetimes.total_ns()).unwrap_or(u64::MAX);
    let life = ratio(total_ns, site.lifetimes.blocks);
    let together =
        site.emptied >= MIN_TIMES && site.allocations <= site.emptied.saturating_mul(TOGETHER);
    // Each is freed when the next one has taken its place.
    let replaced = site.max_allocations <= MOST_REPLACED
        && site.allocations >= site.max_allocations.saturating_mul(MIN_TIMES);
    let is_short = (together || replaced) && life <= SHORT * context.duration_ns() as f64;
    is_short.then_some([others, total_ns])
}

/// The allocations that are saved if the blocks of each site are kept and used again.
fn fewer(context: &Context<'_>, group: &Group) -> u64 {
    let kept = group
        .sites
        .iter()
        .map(|&site| context.site(site).max_allocations);
    number(context, group).saturating_sub(kept.sum())
}

/// The short-lived blocks of these sites that were not reallocated.
fn number(context: &Context<'_>, group: &Group) -> u64 {
    short_lived_of(context, group)[0]
}

/// The sums of [`short_lived`].
fn short_lived_of(context: &Context<'_>, group: &Group) -> [u64; 2] {
    let sites = group.sites.iter();
    let short = sites.filter_map(|&site| short_lived(context, site));
    short.fold([0; 2], |[number, ns], [of_site, ns_of_site]| {
        [
            number.saturating_add(of_site),
            ns.saturating_add(ns_of_site),
        ]
    })
}

/// Blocks of the group that live on as other blocks.
fn reallocated(context: &Context<'_>, group: &Group) -> u64 {
    let sites = group.sites.iter();
    sites
        .map(|&site| context.evidence_of(site).reallocated)
        .sum()
}

fn candidate(context: &Context<'_>, group: &Group, number: u64) -> Candidate {
    let weight = |site: &Site| site.allocations;
    let frame = context.frame(&group.sites, weight);
    let stake = ratio(number, context.allocations());
    let life = short_lived_of(context, group)[1] / number.max(1);
    let sizes = match group.smallest == group.largest {
        true => format!("{} each", in_bytes(group.largest)),
        false => format!(
            "{} to {}",
            in_bytes(group.smallest),
            in_bytes(group.largest)
        ),
    };
    let text = format!(
        "{} allocations of {} ({sizes}) are freed at once, alone or a few together, after \
         {} on average{}.",
        count(number),
        context.function_name(frame),
        time(life),
        context.called_by(&group.sites, weight),
    );
    let reuse = match context.language(frame) {
        Language::Rust => "keep one buffer outside of the loop and `clear()` it",
        Language::Cxx => "keep one object outside of the loop and `clear()` it",
        _ => "keep one buffer and use it again",
    };
    let advice = match group.largest {
        largest if largest <= 1024 => format!(
            "To allocate less, {reuse}, or put the {} at most on the stack.",
            in_bytes(largest)
        ),
        largest => format!(
            "To allocate less, {reuse}: {} are enough.",
            in_bytes(largest)
        ),
    };
    let (function, also) = context.functions(frame, &group.sites);
    let finding = Finding {
        rule: Rule::Temporaries,
        severity: Severity::Hint,
        title: "blocks that are freed at once".to_owned(),
        measure: format!("{} allocations, {} of all", count(number), percent(stake)),
        text,
        advice,
        process: context.process.id,
        frame,
        sites: context.numbers_of(&group.sites, weight),
        parts: Vec::new(),
        numbers: vec![
            blocks("temporary_allocations", number),
            blocks("temporary_allocations_threshold", MIN),
            share("share_of_allocations", stake),
            share("share_of_allocations_threshold", MIN_SHARE),
            blocks("emptied", group.emptied),
            ns("mean_life_ns", life),
            bytes("largest_bytes", group.largest),
        ],
        mended: Some(context.with_fewer_allocations(fewer(context, group))),
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
