//! One function holds most of the peak.
//!
//! It speaks if a family holds at least a quarter of the live bytes at the peak, and 64 KiB, on
//! one path: with the same three callers, and through the same functions without names
//! further in. (Many callers together are an allocation function of the program's, which says
//! nothing. Nor does an address, or an interpreter's or event loop, of whose
//! callees no symbol is known, and that is more than three calls away.)
//! It is silent about a function that another rule about the peak has named.

use allotrope_attribution::Origin;
use allotrope_profile::Site;
use allotrope_text::numbers::bytes as in_bytes;
use rustc_hash::FxHashMap;

use crate::candidate::Candidate;
use crate::conditions::Conditions;
use crate::context::{Context, Group};
use crate::finding::Value::{Bytes, Share};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{are, blocks, bytes, percent, ratio, share, some};
use crate::tried::Trials;

const MIN_SHARE: f64 = 0.25;
const MIN_BYTES: u64 = 64 << 10;
/// If it is not needed so long, its blocks are freed after this part of the run.
const OF_RUN: u64 = 100;
/// Largest number of functions without names between a function and its allocator.
const FARTHEST: usize = 3;

pub(crate) fn find(context: &Context<'_>, trials: &mut Trials<'_, '_>) -> Vec<Candidate> {
    trials.groups(
        &context.families,
        |group| group.peak_bytes,
        |group, conditions| {
            holds_most(context, group, conditions)?;
            conditions.hold().then(|| candidate(context, group))
        },
    )
}

fn holds_most(context: &Context<'_>, group: &Group, conditions: &mut Conditions) -> Option<()> {
    let peak = context.peak_bytes();
    conditions.at_least(
        "peak_bytes",
        "live at the peak",
        Bytes(group.peak_bytes),
        Bytes(MIN_BYTES),
    )?;
    conditions.at_least(
        "share_of_peak",
        "of the peak",
        Share(ratio(group.peak_bytes, peak)),
        Share(MIN_SHARE),
    )?;
    conditions.at_least(
        "share_of_one_path",
        "of the peak, through the same functions",
        Share(ratio(on_one_path(context, group), peak)),
        Share(MIN_SHARE),
    )?;
    conditions.fact("named", "its function has a name", is_named(context, group))
}

/// Whether the function has a name, and is not a language's own.
fn is_named(context: &Context<'_>, group: &Group) -> bool {
    let frame = context.frame(&group.sites, |site| site.bytes_at_peak);
    frame.is_some_and(|frame| context.frames.origin(frame) > Origin::Unnamed)
}

/// The most bytes at the peak that were allocated through the same functions: the group's,
/// its callers, and those without names that it called.
fn on_one_path(context: &Context<'_>, group: &Group) -> u64 {
    let mut paths: FxHashMap<[Vec<u32>; 2], u64> = FxHashMap::default();
    for &index in &group.sites {
        let site = context.site(index);
        let path = context.path(index).into_iter();
        let functions = path.map(|frame| context.frames.function(frame)).collect();
        let inner = site.stack.iter().copied();
        let inner = inner.take(context.head_index(index));
        let inner = inner.filter(|&frame| context.frames.origin(frame).is_unnamed());
        let inner = inner.map(|frame| context.frames.function(frame));
        let inner: Vec<u32> = inner.collect();
        if inner.len() > FARTHEST {
            continue;
        }
        *paths.entry([functions, inner]).or_default() += site.bytes_at_peak;
    }
    paths.into_values().max().unwrap_or(0)
}

fn candidate(context: &Context<'_>, group: &Group) -> Candidate {
    let weight = |site: &Site| site.bytes_at_peak;
    let frame = context.frame(&group.sites, weight);
    let stake = ratio(group.peak_bytes, context.peak_bytes());
    let when = context.peak_ns().saturating_sub(context.start_ns) as f64;
    let text = format!(
        "At the peak, {} into the run, {} of {} live{}.",
        percent(when / context.duration_ns() as f64),
        some(group.peak_blocks, "block"),
        are(context.function_name(frame), group.peak_blocks),
        context.called_by(&group.sites, weight),
    );
    let (function, also) = context.functions(frame, &group.sites);
    let finding = Finding {
        rule: Rule::Peak,
        severity: Severity::Hint,
        title: "one function holds most of the peak".to_owned(),
        measure: format!(
            "{}, {} of the peak",
            in_bytes(group.peak_bytes),
            percent(stake)
        ),
        text,
        advice: "Less memory means less here: hold it for a shorter time, in smaller parts, \
                 or in a smaller form."
            .to_owned(),
        process: context.process.id,
        frame,
        sites: context.numbers_of(&group.sites, weight),
        parts: Vec::new(),
        numbers: vec![
            bytes("peak_bytes", group.peak_bytes),
            bytes("peak_bytes_threshold", MIN_BYTES),
            share("share_of_peak", stake),
            share("share_of_peak_threshold", MIN_SHARE),
            blocks("peak_blocks", group.peak_blocks),
        ],
        mended: Some(
            context.freed_after(context.cells(&group.sites), context.duration_ns() / OF_RUN),
        ),
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
