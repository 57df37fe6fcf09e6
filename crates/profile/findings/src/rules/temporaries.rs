//! Hot temporaries: a function that allocates very often, and nearly always frees the
//! block before its thread allocates again.
//!
//! It speaks if at least 90 % of the function's allocations are temporary, not counting
//! blocks that were reallocated, and these are at least 1,000, 1 % of all allocations, and
//!
//! - at 50 ns for each pair of allocation and deallocation, at least 1 % of the run; or
//! - 10,000, and 10 % of all allocations.

use allotrope_profile::Site;
use allotrope_text::numbers::{bytes as in_bytes, count};

use crate::callers::Language;
use crate::context::{Context, Group};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, ns, percent, ratio, share, time};
use crate::rank::Candidate;

const TEMPORARY: f64 = 0.9;
const MIN: u64 = 1_000;
const MIN_SHARE: f64 = 0.01;
const MANY: u64 = 10_000;
const LARGE_SHARE: f64 = 0.1;
/// A pair of `malloc` and `free` of glibc takes 20 to 100 ns.
const PAIR_NS: u64 = 50;
const MIN_TIME: f64 = 0.01;

pub(crate) fn find(context: &Context<'_>) -> Vec<Candidate> {
    let hot = |group: &&Group| {
        let number = group.temporary;
        let others = group.allocations - reallocated(context, group).min(group.allocations);
        let of_all = ratio(number, context.allocations());
        let time = (number * PAIR_NS) as f64 / context.duration_ns() as f64;
        number >= MIN
            && ratio(number, others) >= TEMPORARY
            && of_all >= MIN_SHARE
            && (time >= MIN_TIME || number >= MANY && of_all >= LARGE_SHARE)
    };
    let groups = context.groups.iter().filter(hot);
    groups
        .map(|group| {
            let sites = group.sites.iter().copied();
            let of_it = |&site: &u32| {
                let number = context.site(site).temporary_allocations;
                ratio(number, group.temporary) >= MIN_SHARE
            };
            let sites = context.group(sites.filter(of_it));
            let hot = Group {
                function: group.function,
                ..sites
            };
            candidate(context, &hot)
        })
        .collect()
}

/// Blocks of the group that live on as other blocks.
fn reallocated(context: &Context<'_>, group: &Group) -> u64 {
    let sites = group.sites.iter();
    sites
        .map(|&site| context.evidence_of(site).reallocated)
        .sum()
}

fn candidate(context: &Context<'_>, group: &Group) -> Candidate {
    let weight = |site: &Site| site.temporary_allocations;
    let frame = context.frame(&group.sites, weight);
    let stake = ratio(group.temporary, context.allocations());
    // Of these blocks alone: the others of the group may have lived through the run.
    let life = group.temporary_ns / group.temporary.max(1);
    let sizes = match group.smallest == group.largest {
        true => format!("{} each", in_bytes(group.largest)),
        false => format!(
            "{} to {}",
            in_bytes(group.smallest),
            in_bytes(group.largest)
        ),
    };
    let text = format!(
        "{} allocations of {} ({sizes}) are freed before their thread allocates again, after \
         {} on average{}.",
        count(group.temporary),
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
    let finding = Finding {
        rule: Rule::Temporaries,
        severity: Severity::Hint,
        title: "many blocks that are freed at once".to_owned(),
        measure: format!(
            "{} allocations, {} of all",
            count(group.temporary),
            percent(stake)
        ),
        text,
        advice,
        process: context.process.id,
        frame,
        sites: context.numbers_of(&group.sites, weight),
        numbers: vec![
            blocks("temporary_allocations", group.temporary),
            blocks("temporary_allocations_threshold", MIN),
            share("share_of_allocations", stake),
            share("share_of_allocations_threshold", MIN_SHARE),
            share("temporary", ratio(group.temporary, group.allocations)),
            share("temporary_threshold", TEMPORARY),
            ns("mean_life_ns", life),
            bytes("largest_bytes", group.largest),
        ],
    };
    Candidate {
        finding,
        function: Some(group.function),
        also: Vec::new(),
        stake,
    }
}
