//! A leak: blocks that are live at the end although the program frees their like.
//!
//! A *path* is the sites of a function that agree in the four innermost frames of the
//! user's code. It speaks about
//!
//! - *some of many*: a path of which at least 30 blocks were freed, and of which at least 3
//!   and at most 20 % live at the end that are older than ten times the life of 99 % of
//!   the freed ones, and than 2 % of the run;
//! - *all of a path*: a path of at least 3 blocks of which none was freed, while of the
//!   same function's blocks at least 30 were freed and at most 20 % live at the end;
//! - *all of a function*: at least 10 blocks of which none was freed, although the program
//!   frees what it has: of the other blocks at the peak at most 10 % (or 8) live at the end,
//!   and it exited.
//!
//! They must have been allocated in at least 4 tenths of the time from the program's
//! first allocation to its last event, for the last kind in 6:
//! what is allocated once at the start is kept on purpose. A program that exits without
//! freeing what it has leaves everything to the kernel, on purpose, so it is silent; if the
//! process did not exit, but was killed or is running, it is a hint. Expected leaks (`--suppressions`) are left out.

use allotrope_attribution::Origin;
use allotrope_profile::{LIVE_AT_END, Site};
use allotrope_text::numbers::{bytes as in_bytes, count};
use allotrope_trace::model::Exit;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::context::{Context, Group};
use crate::curve::quantiles;
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, percent, ratio, share, some};
use crate::rank::Candidate;

const FREED: u64 = 30;
const SURVIVORS: u64 = 3;
const SURVIVING: f64 = 0.2;
const OLDER: u64 = 10;
const OLDER_OF_RUN: f64 = 0.02;
const TENTHS: usize = 4;
const WHOLE_FUNCTION: u64 = 10;
const TENTHS_OF_FUNCTION: usize = 6;
const LEFT_BY_OTHERS: f64 = 0.1;
const FEW_LEFT: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    SomeOfMany,
    AllOfPath,
    AllOfFunction,
}

struct Leak {
    kind: Kind,
    sites: Vec<u32>,
    blocks: u64,
    bytes: u64,
}

pub(crate) fn find(context: &Context<'_>) -> Vec<Candidate> {
    let exited = matches!(context.process.exit, Exit::Status(_));
    let leaks = |group: &&Group| {
        group.leaked >= SURVIVORS && (!exited || frees_what_it_has(context, group))
    };
    let groups = context.groups.iter().filter(leaks);
    groups
        .filter_map(|group| Some(candidate(context, group, &leak(context, group)?)))
        .collect()
}

fn leak(context: &Context<'_>, group: &Group) -> Option<Leak> {
    if group.freed == 0 {
        return whole_function(context, group);
    }
    let mut paths: FxHashMap<Vec<u32>, Vec<u32>> = FxHashMap::default();
    for &site in &group.sites {
        paths.entry(context.path(site)).or_default().push(site);
    }
    let like = group.freed >= FREED && ratio(group.leaked, group.allocations) <= SURVIVING;
    let mut found: Vec<Leak> = Vec::new();
    for sites in paths.into_values() {
        let path = context.group(sites);
        if path.leaked < SURVIVORS {
            continue;
        }
        if path.freed >= FREED && ratio(path.leaked, path.allocations) <= SURVIVING {
            found.extend(some_of_many(context, &path));
        } else if like && path.leaked == path.allocations {
            let sites = not_suppressed(context, &path.sites);
            let of_path = context.group(sites);
            if of_path.leaked >= SURVIVORS && tenths(context, &of_path.sites) >= TENTHS {
                found.push(Leak {
                    kind: Kind::AllOfPath,
                    blocks: of_path.leaked,
                    bytes: of_path.leaked_bytes,
                    sites: of_path.sites,
                });
            }
        }
    }
    // One kind: the one with the most blocks.
    let kind = found.iter().max_by_key(|leak| leak.blocks)?.kind;
    let mut all = Leak {
        kind,
        sites: Vec::new(),
        blocks: 0,
        bytes: 0,
    };
    for leak in found.into_iter().filter(|leak| leak.kind == kind) {
        all.sites.extend(leak.sites);
        all.blocks += leak.blocks;
        all.bytes = all.bytes.saturating_add(leak.bytes);
    }
    all.sites.sort_unstable();
    Some(all)
}

fn not_suppressed(context: &Context<'_>, sites: &[u32]) -> Vec<u32> {
    let leaks = sites.iter().copied().filter(|&site| {
        let leaked = context.site(site).leaked_allocations;
        leaked > 0 && !context.is_suppressed(site)
    });
    leaks.collect()
}

/// Divides the time from the first allocation to the last event into ten parts; in how many
/// of these the blocks were allocated that are live at the end.
fn tenths(context: &Context<'_>, sites: &[u32]) -> usize {
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
    seen.into_iter().filter(|&seen| seen).count()
}

/// The old ones of a path whose blocks are nearly all freed.
fn some_of_many(context: &Context<'_>, path: &Group) -> Option<Leak> {
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
    let sites = not_suppressed(context, &path.sites);
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
    let many = blocks >= SURVIVORS && tenths(context, &sites) >= TENTHS;
    many.then_some(Leak {
        kind: Kind::SomeOfMany,
        sites,
        blocks,
        bytes,
    })
}

fn whole_function(context: &Context<'_>, group: &Group) -> Option<Leak> {
    let sites = not_suppressed(context, &group.sites);
    let group = context.group(sites);
    let reallocated = group.leaked < group.allocations;
    let holds = group.leaked >= WHOLE_FUNCTION
        && !reallocated
        && frees_what_it_has(context, &group)
        && tenths(context, &group.sites) >= TENTHS_OF_FUNCTION;
    holds.then_some(Leak {
        kind: Kind::AllOfFunction,
        blocks: group.leaked,
        bytes: group.leaked_bytes,
        sites: group.sites,
    })
}

/// Whether the process exits and frees the blocks of other functions before.
fn frees_what_it_has(context: &Context<'_>, group: &Group) -> bool {
    let totals = &context.process.totals;
    let others = totals.peak_allocations.saturating_sub(group.peak_blocks);
    let left = totals.leaked_allocations.saturating_sub(group.leaked);
    let few = left <= FEW_LEFT || ratio(left, others) <= LEFT_BY_OTHERS;
    matches!(context.process.exit, Exit::Status(_)) && few
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
    let site = context.site(*most);
    let own = site.stack.iter().skip(context.frames.own_or_headline(site));
    let own = own.copied();
    let mut own = own.filter(|&frame| context.frames.origin(frame) > Origin::UnnamedLibrary);
    own.find(|frame| !seen.contains(frame))
}

fn candidate(context: &Context<'_>, group: &Group, leak: &Leak) -> Candidate {
    let weight = |site: &Site| site.leaked_bytes.max(site.leaked_allocations);
    let head = context.frame(&leak.sites, weight);
    let frame = match leak.kind {
        Kind::AllOfPath => parting_frame(context, group, &leak.sites).or(head),
        _ => head,
    };
    let is_clean = frees_what_it_has(context, group);
    let called_by = context.called_by(&leak.sites, weight);
    let name = context.function_name(head);
    let number = some(leak.blocks, "block");
    let freed = count(group.freed);
    let of = percent(ratio(leak.blocks, group.allocations));
    let (text, advice) = match leak.kind {
        Kind::SomeOfMany => (
            format!(
                "{number} of {name}{called_by} are live at the end, {of} of all; {freed} others \
                 were freed, nearly all of them much younger."
            ),
            "Look for a case in which the block is not freed: an error, an early return, an \
             element that is overwritten."
                .to_owned(),
        ),
        Kind::AllOfPath => (
            format!(
                "{number} of {name}{called_by} are live at the end: none that was allocated on \
                 this path was freed, but {freed} others of {name} were."
            ),
            format!(
                "Free them on this path, too: {}.",
                context.function_name(frame)
            ),
        ),
        Kind::AllOfFunction => (
            format!(
                "{number} of {name}{called_by} are live at the end: none was freed, but the \
                 program frees nearly everything else."
            ),
            "Free them, or say that they are expected: --suppressions.".to_owned(),
        ),
    };
    let peak = context.peak_bytes();
    let finding = Finding {
        rule: Rule::Leak,
        severity: match is_clean {
            true => Severity::Problem,
            false => Severity::Hint,
        },
        title: "blocks that are never freed, although their like are".to_owned(),
        measure: format!("{} in {number}", in_bytes(leak.bytes)),
        text,
        advice,
        process: context.process.id,
        frame,
        sites: context.numbers_of(&leak.sites, weight),
        numbers: vec![
            blocks("leaked_blocks", leak.blocks),
            blocks("leaked_blocks_threshold", SURVIVORS),
            bytes("leaked_bytes", leak.bytes),
            blocks("freed_blocks", group.freed),
            blocks("freed_blocks_threshold", FREED),
            share("surviving", ratio(leak.blocks, group.allocations)),
            share("surviving_threshold", SURVIVING),
        ],
    };
    Candidate {
        finding,
        function: Some(group.function),
        also: Vec::new(),
        stake: ratio(leak.bytes, peak),
    }
}
