//! What of a family leaks: the kinds of leaks, each with its conditions.

use allotrope_profile::LIVE_AT_END;
use allotrope_trace::model::Exit;
use rustc_hash::FxHashMap;

use crate::conditions::Conditions;
use crate::context::{Context, Group};
use crate::curve::quantiles;
use crate::finding::Value::{Count, Share};
use crate::numbers::ratio;

pub(super) const FREED: u64 = 30;
pub(super) const SURVIVORS: u64 = 3;
const SURVIVING: f64 = 0.2;
const NEARLY_ALL: f64 = 0.8;
const OLDER: u64 = 10;
const OLDER_OF_RUN: f64 = 0.02;
const TENTHS_OF_PATH: u64 = 9;
const WHOLE_FUNCTION: u64 = 10;
const TENTHS_OF_FUNCTION: u64 = 9;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    SomeOfMany,
    NearlyAll,
    AllOfPath,
    AllOfFunction,
}

pub(super) struct Leak {
    pub kind: Kind,
    pub sites: Vec<u32>,
    pub blocks: u64,
    pub bytes: u64,
    /// How long nearly all of those live that are freed, in nanoseconds; 0 if none is.
    pub usual_ns: u64,
}

/// Whether leaks that suppressions expect are left out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    LeftOut,
    Included,
}

/// What of a family leaks. An explanation goes on with what comes nearest if nothing does.
pub(super) fn leak(
    context: &Context<'_>,
    group: &Group,
    expected: Expected,
    conditions: &mut Conditions,
) -> Option<Leak> {
    if group.freed == 0 {
        let mut all = None;
        conditions.all_of(
            "all_of_family",
            "all blocks of it leak, none was freed",
            |of| {
                all = whole_function(context, group, expected, of);
                Some(())
            },
        )?;
        return all;
    }
    let mut paths: FxHashMap<Vec<u32>, Vec<u32>> = FxHashMap::default();
    for &site in &group.sites {
        paths.entry(context.path(site)).or_default().push(site);
    }
    let paths = paths.into_values().map(|sites| context.group(sites));
    let found = conditions.some_part(
        "path",
        "blocks of a path leak",
        paths,
        |path| path.leaked,
        |path, conditions| of_path(context, group, path, expected, conditions),
    )?;
    // One kind: the one with the most blocks.
    let kind = found.iter().max_by_key(|leak| leak.blocks)?.kind;
    let mut all = Leak {
        kind,
        sites: Vec::new(),
        blocks: 0,
        bytes: 0,
        usual_ns: 0,
    };
    for leak in found {
        all.sites.extend(leak.sites);
        all.blocks += leak.blocks;
        all.bytes = all.bytes.saturating_add(leak.bytes);
        all.usual_ns = all.usual_ns.max(leak.usual_ns);
    }
    all.sites.sort_unstable();
    Some(all)
}

/// What of a path leaks, if others of the family were freed.
fn of_path(
    context: &Context<'_>,
    family: &Group,
    path: &Group,
    expected: Expected,
    conditions: &mut Conditions,
) -> Option<Leak> {
    conditions.at_least(
        "path_leaked_blocks",
        "blocks of the path live at the end",
        Count(path.leaked),
        Count(SURVIVORS),
    )?;
    if path.freed == 0 {
        conditions.at_least(
            "family_freed_blocks",
            "others of its family that were freed",
            Count(family.freed),
            Count(FREED),
        )?;
        has_few(context, family, conditions)?;
        let kind = Kind::AllOfPath;
        return all_of(
            context,
            path,
            kind,
            (SURVIVORS, TENTHS_OF_PATH),
            expected,
            conditions,
        );
    }
    has_few(context, path, conditions)?;
    let (mut some, mut nearly) = (None, None);
    conditions.any_of("kind", "some of many, or nearly all of the path", |any| {
        any.all_of("some_of_many", "old ones of many", |all| {
            let leak = some_of_many(context, path, expected, all);
            some = leak.map(|leak| (all.hold(), leak));
            Some(())
        })?;
        any.all_of("nearly_all", "nearly all", |all| {
            let leak = nearly_all(context, path, expected, all);
            nearly = leak.map(|leak| (all.hold(), leak));
            Some(())
        })
    })?;
    // The last one of equals.
    let kinds = [nearly, some].into_iter().flatten();
    kinds.max_by_key(|(holds, _)| *holds).map(|(_, leak)| leak)
}

/// What a process has that runs on, or was killed, it has not left: then only a few of many are lost.
fn has_few(context: &Context<'_>, group: &Group, conditions: &mut Conditions) -> Option<()> {
    conditions.any_of(
        "few_or_exited",
        "the process exited, or few are live",
        |any| {
            any.fact("exited", "the process exited", exited(context))?;
            any.at_most(
                "surviving",
                "live, of all",
                Share(ratio(group.leaked, group.allocations)),
                Share(SURVIVING),
            )
        },
    )
}

pub(super) fn exited(context: &Context<'_>) -> bool {
    matches!(context.process.exit, Exit::Status(_))
}

/// The sites with blocks that leaked, without the expected ones if these are left out.
fn leaking(context: &Context<'_>, sites: &[u32], expected: Expected) -> Vec<u32> {
    let leaks = sites.iter().copied().filter(|&site| {
        let leaked = context.site(site).leaked_allocations;
        leaked > 0 && (expected == Expected::Included || context.suppression(site).is_none())
    });
    leaks.collect()
}

/// Divides the time from the first allocation to the last event into ten parts; in how many
/// of these the blocks were allocated that leaked.
pub(super) fn tenths(context: &Context<'_>, sites: &[u32]) -> u64 {
    let mut seen = [false; 10];
    for cell in context.cells(sites) {
        if cell.freed == LIVE_AT_END {
            let start = context.table.starts_ns[usize::from(cell.allocated)];
            let [first, last] = context.active_ns;
            let passed = start.saturating_sub(first);
            let tenth = u128::from(passed) * 10 / u128::from(last.saturating_sub(first).max(1));
            seen[(tenth as usize).min(9)] = true;
        }
    }
    seen.into_iter().map(u64::from).sum()
}

/// The old ones of a path whose blocks are nearly all freed.
fn some_of_many(
    context: &Context<'_>,
    path: &Group,
    expected: Expected,
    conditions: &mut Conditions,
) -> Option<Leak> {
    conditions.at_least(
        "freed_blocks",
        "blocks that were freed",
        Count(path.freed),
        Count(FREED),
    )?;
    let cells = context.cells(&path.sites);
    let freed = cells.filter(|cell| cell.freed != LIVE_AT_END);
    let life = |allocated: u16, freed: u16| {
        let start = context.table.starts_ns[usize::from(allocated)];
        context.bucket_end_ns(freed).saturating_sub(start)
    };
    let mut lives: Vec<(u64, u64)> = freed
        .map(|cell| (life(cell.allocated, cell.freed), cell.blocks))
        .collect();
    lives.sort_unstable();
    let [usual] = quantiles(&lives, [0.99]);
    let of_run = context.duration_ns() as f64 * OLDER_OF_RUN;
    let oldest = usual.saturating_mul(OLDER).max(of_run as u64);
    let sites = leaking(context, &path.sites, expected);
    let left = context.cells(&sites);
    let old = left.filter(|cell| {
        let age = context.end_ns - context.bucket_end_ns(cell.allocated);
        cell.freed == LIVE_AT_END && age >= oldest
    });
    let (mut blocks, mut bytes) = (0, 0);
    for cell in old {
        blocks += cell.blocks;
        bytes += cell.bytes;
    }
    conditions.at_least(
        "old_blocks",
        "live ones, ten times as old as freed ones became",
        Count(blocks),
        Count(SURVIVORS),
    )?;
    is_of_tenths(context, &sites, TENTHS_OF_PATH, conditions)?;
    Some(Leak {
        kind: Kind::SomeOfMany,
        sites,
        blocks,
        bytes,
        usual_ns: usual,
    })
}

/// Nearly all blocks of a path, of which only the last few are freed, when the program ends.
fn nearly_all(
    context: &Context<'_>,
    path: &Group,
    expected: Expected,
    conditions: &mut Conditions,
) -> Option<Leak> {
    conditions.fact("exited", "the process exited", exited(context))?;
    conditions.at_least(
        "live_of_path",
        "live at the end, of the path",
        Share(ratio(path.leaked, path.allocations)),
        Share(NEARLY_ALL),
    )?;
    let least = (WHOLE_FUNCTION, TENTHS_OF_FUNCTION);
    all_of(context, path, Kind::NearlyAll, least, expected, conditions)
}

fn whole_function(
    context: &Context<'_>,
    group: &Group,
    expected: Expected,
    conditions: &mut Conditions,
) -> Option<Leak> {
    conditions.fact("exited", "the process exited", exited(context))?;
    conditions.fact(
        "not_reallocated",
        "none became another block",
        group.leaked >= group.allocations,
    )?;
    let least = (WHOLE_FUNCTION, TENTHS_OF_FUNCTION);
    all_of(
        context,
        group,
        Kind::AllOfFunction,
        least,
        expected,
        conditions,
    )
}

/// The blocks of a group that leaked, if there are so many from so many tenths of
/// the time.
fn all_of(
    context: &Context<'_>,
    group: &Group,
    kind: Kind,
    (least, of_time): (u64, u64),
    expected: Expected,
    conditions: &mut Conditions,
) -> Option<Leak> {
    let group = context.group(leaking(context, &group.sites, expected));
    conditions.at_least(
        "leaked_blocks",
        "leaked blocks that are not expected",
        Count(group.leaked),
        Count(least),
    )?;
    is_of_tenths(context, &group.sites, of_time, conditions)?;
    Some(Leak {
        kind,
        blocks: group.leaked,
        bytes: group.leaked_bytes,
        sites: group.sites,
        usual_ns: 0,
    })
}

fn is_of_tenths(
    context: &Context<'_>,
    sites: &[u32],
    least: u64,
    conditions: &mut Conditions,
) -> Option<()> {
    conditions.at_least(
        "tenths",
        "tenths of the active time from which they are",
        Count(tenths(context, sites)),
        Count(least),
    )
}
