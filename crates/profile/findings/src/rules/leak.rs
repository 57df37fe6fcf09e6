//! A leak: blocks that leaked although the program frees their like.
//!
//! A *path* is the sites of a family that agree in the four innermost frames of the
//! user's code. It speaks about
//!
//! - *some of many*: a path of which at least 30 blocks were freed, and of which at least 3
//!   leaked that are older than ten times the life of 99 % of the freed ones, and than
//!   2 % of the run;
//! - *nearly all*: a path of which at least 80 % and 10 blocks leaked and others
//!   were freed: only the last ones are, when the program ends;
//! - *all of a path*: a path of at least 3 blocks of which none was freed, while of the
//!   family's blocks at least 30 were;
//! - *all of a family*: at least 10 blocks of which none was freed. Nothing says that they are ever to
//!   be freed, so `growth` is named instead if it speaks.
//!
//! They must be 4 KiB, 1 % of the peak, no half of them one block, and of at least 9 tenths of the time
//! from the program's first allocation to its last event: what is allocated at the start, or in one of
//! several steps, is kept on purpose. Nor is what a program that works without a pause keeps from
//! more than 12 sites, or of which none is freed, if it is less than 5 % of the peak or more than 20 % of
//! all allocations: that is its data.
//! A process with more than 5 leaks leaves all to the kernel. A program that exits without freeing what it
//! has leaves everything to the kernel, on purpose, so it is silent: if more than 10 % of the
//! blocks at the peak (and 8) leaked that are neither such leaks nor from the first
//! tenth of the time. If the process did not exit, but was killed or is running, only the first and the
//! third kind are found, of which at most 20 % are live, and as hints. Expected leaks
//! (`--suppressions`) are left out.

mod kinds;

use allotrope_profile::{LIVE_AT_END, Site};
use allotrope_text::numbers::{bytes as in_bytes, count};
use rustc_hash::FxHashSet;

use crate::candidate::{Candidate, TriedId};
use crate::conditions::Conditions;
use crate::context::{Context, Group};
use crate::finding::Value::{Bytes, Count, Share};
use crate::finding::{Finding, Rule, Severity};
use crate::hump::WAITING;
use crate::numbers::{blocks, bytes, percent, ratio, share, some};
use crate::tried::{Outcome, Trials};
use kinds::{Expected, FREED, Kind, Leak, SURVIVORS, exited, leak, tenths};

const MIN_BYTES: u64 = 4 << 10;
const MIN_SHARE: f64 = 0.01;
/// The same for blocks of which none is ever freed, in a program that works without a pause.
const MIN_SHARE_IF_BUSY: f64 = 0.05;
/// More of all allocations is what such a program makes, not what it loses.
const MOST_OF_ALL: f64 = 0.2;
const TENTHS: u64 = 4;
/// A process with more kinds of leaks leaves what it has to the kernel.
const MOST_LEAKS: u64 = 5;
/// What a program that works without a pause keeps from more sites is its data, and no leak.
const MOST_SITES: u64 = 12;
const LEFT_BY_OTHERS: f64 = 0.1;
const FEW_LEFT: u64 = 8;

pub(crate) fn find(context: &Context<'_>, trials: &mut Trials<'_, '_>) -> Vec<Candidate> {
    let is_possible = trials.process(|conditions| frees_what_it_has(context, conditions));
    if !is_possible {
        return Vec::new();
    }
    let is_clean = exited(context) && trials.are_possible();
    let mut leaks: Vec<(&Group, Leak, Option<TriedId>)> = Vec::new();
    for family in &context.families {
        let (id, leak) = trials.candidate(
            &family.sites,
            || family.leaked_bytes,
            |conditions| of_family(context, family, Expected::LeftOut, conditions),
        );
        match leak {
            Some(leak) => leaks.push((family, leak, id)),
            None if id.is_some() && trials.are_possible() => {
                if let Some(outcome) = suppressed(context, family) {
                    trials.end(id, outcome);
                }
            }
            None => {}
        }
    }
    let kinds = leaks.len() as u64;
    leaks.retain(|(.., id)| {
        trials.further(*id, |conditions| {
            conditions.at_most(
                "kinds",
                "kinds of leaks in the process",
                Count(kinds),
                Count(MOST_LEAKS),
            )
        })
    });
    let leaks = leaks.iter();
    leaks
        .map(|(family, leak, id)| candidate(context, family, leak, is_clean).tried_as(*id))
        .collect()
}

/// The conditions of a family, and what of it leaks.
fn of_family(
    context: &Context<'_>,
    family: &Group,
    expected: Expected,
    conditions: &mut Conditions,
) -> Option<Leak> {
    let floor = Bytes(((context.peak_bytes() as f64 * MIN_SHARE) as u64).max(MIN_BYTES));
    conditions.at_least(
        "family_leaked_bytes",
        "live at the end",
        Bytes(family.leaked_bytes),
        floor,
    )?;
    let leak = leak(context, family, expected, conditions)?;
    conditions.at_least(
        "leaked_bytes",
        "leaked by these paths (1 % of the peak)",
        Bytes(leak.bytes),
        floor,
    )?;
    conditions.at_most(
        "largest_bytes",
        "the largest block of them, against half of the bytes",
        Bytes(largest(context, &leak)),
        Bytes(leak.bytes / 2),
    )?;
    conditions.any_of(
        "no_data",
        "the program waits, or it is not its data",
        |any| {
            any.at_most(
                "busy",
                "time in which the program allocates",
                Share(context.busy()),
                Share(WAITING),
            )?;
            any.all_of("lost", "it is not the data of a busy program", |all| {
                is_no_data(context, &leak, all)
            })
        },
    )?;
    conditions.hold().then_some(leak)
}

/// Whether what a program leaves that works without a pause is more than its data: from few sites,
/// and not little of what it never frees.
fn is_no_data(context: &Context<'_>, leak: &Leak, conditions: &mut Conditions) -> Option<()> {
    conditions.at_most(
        "sites",
        "stacks that leak",
        Count(leak.sites.len() as u64),
        Count(MOST_SITES),
    )?;
    conditions.any_of("not_kept", "some were freed, or it is not little", |any| {
        any.fact(
            "some_freed",
            "some blocks of the family were freed",
            leak.kind != Kind::AllOfFunction,
        )?;
        any.all_of(
            "not_little",
            "it is not little, and not much of all",
            |all| {
                all.at_least(
                    "leaked_of_peak",
                    "leaked, of the peak",
                    Share(ratio(leak.bytes, context.peak_bytes())),
                    Share(MIN_SHARE_IF_BUSY),
                )?;
                all.at_most(
                    "leaked_of_allocations",
                    "leaked blocks, of all allocations",
                    Share(ratio(leak.blocks, context.allocations())),
                    Share(MOST_OF_ALL),
                )
            },
        )
    })
}

/// The size of the largest block: a table that is made once is kept on purpose.
fn largest(context: &Context<'_>, leak: &Leak) -> u64 {
    let largest = leak.sites.iter().map(|&site| {
        let of_site = context.evidence_of(site).largest;
        of_site.min(context.site(site).leaked_bytes)
    });
    largest.max().unwrap_or(0)
}

/// What became of a family that would leak without suppressions; `None` if it would not.
fn suppressed(context: &Context<'_>, family: &Group) -> Option<Outcome> {
    let mut conditions = Conditions::new(false);
    of_family(context, family, Expected::Included, &mut conditions)?;
    let leaking = family.sites.iter();
    let leaking = leaking.filter(|&&site| context.site(site).leaked_allocations > 0);
    let expected = leaking.filter_map(|&site| Some((site, context.suppression(site)?)));
    let expected: Vec<_> = expected.collect();
    let (_, rule) = expected.first()?;
    let blocks = expected.iter();
    let blocks = blocks.map(|(site, _)| context.site(*site).leaked_allocations);
    Some(Outcome::Suppressed {
        blocks: blocks.sum(),
        rule: rule.text().to_owned(),
        list: rule.list_in_words().to_owned(),
    })
}

/// Whether the process frees what it has before it exits: all but what it allocates at its start,
/// on purpose, and what leaks, which is left again and again during the run.
fn frees_what_it_has(context: &Context<'_>, conditions: &mut Conditions) -> Option<()> {
    const WORDS: &str = "it frees what it has before it exits, or did not exit";
    conditions.any_of("clean", WORDS, |any| {
        any.fact("not_exited", "it was killed, or runs on", !exited(context))?;
        let [left, others] = left_and_others(context);
        any.at_most(
            "left_blocks",
            "blocks live at the end that are no such leaks",
            Count(left),
            Count(FEW_LEFT),
        )?;
        any.at_most(
            "left_of_peak",
            "these, of the blocks at the peak without leaks",
            Share(ratio(left, others)),
            Share(LEFT_BY_OTHERS),
        )
    })
}

/// The blocks that are live at the end and neither leak again and again nor are from the start, and the
/// blocks at the peak without those that leak.
fn left_and_others(context: &Context<'_>) -> [u64; 2] {
    let [begin, end] = context.active_ns;
    let start = begin + end.saturating_sub(begin) / 10;
    let start = context.table.bucket_at(start);
    let (mut left, mut others) = (0, context.process.totals.peak_allocations);
    for (index, site) in (0..).zip(&context.process.sites) {
        if site.leaked_allocations >= SURVIVORS && tenths(context, &[index]) >= TENTHS {
            others = others.saturating_sub(site.allocations_at_peak);
        } else if site.leaked_allocations > 0 {
            let cells = context.table.cells_of(index).iter();
            let late = cells
                .filter(|cell| cell.freed == LIVE_AT_END && usize::from(cell.allocated) > start);
            left += late.map(|cell| cell.blocks).sum::<u64>();
        }
    }
    [left, others]
}

/// The innermost frame of the leaking sites through which no block came that was freed:
/// where the paths part.
fn parting_frame(context: &Context<'_>, group: &Group, sites: &[u32]) -> Option<u32> {
    let leaking: FxHashSet<u32> = sites.iter().copied().collect();
    let others = group.sites.iter().filter(|site| !leaking.contains(site));
    let seen = others.flat_map(|&site| context.site(site).stack.iter().copied());
    let seen: FxHashSet<u32> = seen.collect();
    let most = sites
        .iter()
        .max_by_key(|&&site| context.site(site).leaked_allocations)?;
    context
        .own_frames(*most)
        .find(|frame| !seen.contains(frame))
}

fn candidate(context: &Context<'_>, group: &Group, leak: &Leak, is_clean: bool) -> Candidate {
    let weight = |site: &Site| site.leaked_bytes.max(site.leaked_allocations);
    let head = context.frame(&leak.sites, weight);
    let frame = match leak.kind {
        Kind::AllOfPath => parting_frame(context, group, &leak.sites).or(head),
        _ => head,
    };
    let called_by = context.called_by(&leak.sites, weight);
    let name = context.function_name(head);
    let number = some(leak.blocks, "block");
    let freed = count(group.freed);
    let of = percent(ratio(leak.blocks, group.allocations));
    let (text, advice) = match leak.kind {
        Kind::SomeOfMany => (
            format!(
                "{number} of {name}{called_by} leaked, {of} of all; {freed} others \
                 were freed, nearly all of them much younger."
            ),
            "Look for a case in which the block is not freed: an error, an early return, an \
             element that is overwritten."
                .to_owned(),
        ),
        Kind::NearlyAll => (
            format!(
                "{number} of {name}{called_by} leaked, {of} of all: only {freed} \
                 others of the same path were freed."
            ),
            "Free the old one before a new one takes its place.".to_owned(),
        ),
        Kind::AllOfPath => (
            format!(
                "{number} of {name}{called_by} leaked: none that was allocated on \
                 this path was freed, but {freed} others of {name} were."
            ),
            format!(
                "Free them on this path, too: {}.",
                context.function_name(frame)
            ),
        ),
        Kind::AllOfFunction => (
            format!(
                "{number} of {name}{called_by} leaked: none was freed, but the \
                 program frees nearly everything else."
            ),
            "Free them, or say that they are expected: --suppressions.".to_owned(),
        ),
    };
    let peak = context.peak_bytes();
    let (function, also) = context.functions(head, &group.sites);
    let lost = context.cells(&leak.sites);
    let lost = lost.filter(|cell| cell.freed == LIVE_AT_END);
    let finding = Finding {
        rule: Rule::Leak,
        severity: match is_clean {
            true => Severity::Problem,
            false => Severity::Hint,
        },
        title: "never freed, although their like are".to_owned(),
        measure: format!("{} in {number}", in_bytes(leak.bytes)),
        text,
        advice,
        process: context.process.id,
        frame,
        sites: context.numbers_of(&leak.sites, weight),
        parts: Vec::new(),
        numbers: vec![
            blocks("leaked_blocks", leak.blocks),
            blocks("leaked_blocks_threshold", SURVIVORS),
            bytes("leaked_bytes", leak.bytes),
            blocks("freed_blocks", group.freed),
            blocks("freed_blocks_threshold", FREED),
            share("surviving", ratio(leak.blocks, group.allocations)),
        ],
        mended: Some(context.freed_after(lost, leak.usual_ns)),
    };
    Candidate {
        finding,
        function,
        also,
        weak: leak.kind == Kind::AllOfFunction,
        stake: ratio(leak.bytes, peak),
        tried: None,
    }
}
