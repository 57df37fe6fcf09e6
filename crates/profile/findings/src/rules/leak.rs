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

use allotrope_profile::{LIVE_AT_END, Site};
use allotrope_text::numbers::{bytes as in_bytes, count};
use allotrope_trace::model::Exit;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::context::{Context, Group};
use crate::curve::quantiles;
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, percent, ratio, share, some};
use crate::rank::Candidate;

const MIN_BYTES: u64 = 4 << 10;
const MIN_SHARE: f64 = 0.01;
/// The same for blocks of which none is ever freed, in a program that works without a pause.
const MIN_SHARE_IF_BUSY: f64 = 0.05;
/// More of all allocations is what such a program makes, not what it loses.
const MOST_OF_ALL: f64 = 0.2;
const FREED: u64 = 30;
const SURVIVORS: u64 = 3;
const SURVIVING: f64 = 0.2;
const NEARLY_ALL: f64 = 0.8;
const OLDER: u64 = 10;
const OLDER_OF_RUN: f64 = 0.02;
const TENTHS: usize = 4;
const TENTHS_OF_PATH: usize = 9;
const WHOLE_FUNCTION: u64 = 10;
const TENTHS_OF_FUNCTION: usize = 9;
/// A process with more kinds of leaks leaves what it has to the kernel.
const MOST_LEAKS: usize = 5;
/// What a program that works without a pause keeps from more sites is its data, and no leak.
const MOST_SITES: usize = 12;
const LEFT_BY_OTHERS: f64 = 0.1;
const FEW_LEFT: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    SomeOfMany,
    NearlyAll,
    AllOfPath,
    AllOfFunction,
}

struct Leak {
    kind: Kind,
    sites: Vec<u32>,
    blocks: u64,
    bytes: u64,
    /// How long nearly all of those live that are freed, in nanoseconds; 0 if none is.
    usual_ns: u64,
}

pub(crate) fn find(context: &Context<'_>) -> Vec<Candidate> {
    let exited = matches!(context.process.exit, Exit::Status(_));
    let is_clean = exited && frees_what_it_has(context);
    if exited && !is_clean {
        return Vec::new();
    }
    let families = context.families.iter();
    let floor = ((context.peak_bytes() as f64 * MIN_SHARE) as u64).max(MIN_BYTES);
    let leaking = families.filter(|family| family.leaked_bytes >= floor);
    let leaks = leaking.filter_map(|family| {
        let leak = leak(context, family)?;
        let holds = leak.bytes >= floor
            && is_repeated(context, &leak)
            && (context.waits() || is_no_data(context, &leak));
        holds.then_some((family, leak))
    });
    let leaks: Vec<_> = leaks.collect();
    if leaks.len() > MOST_LEAKS {
        return Vec::new();
    }
    let leaks = leaks.iter();
    leaks
        .map(|(family, leak)| candidate(context, family, leak, is_clean))
        .collect()
}

/// Whether what a program leaves that works without a pause is more than its data: from few sites,
/// and not little of what it never frees.
fn is_no_data(context: &Context<'_>, leak: &Leak) -> bool {
    let is_kept = leak.kind == Kind::AllOfFunction
        && (ratio(leak.bytes, context.peak_bytes()) < MIN_SHARE_IF_BUSY
            || ratio(leak.blocks, context.allocations()) > MOST_OF_ALL);
    leak.sites.len() <= MOST_SITES && !is_kept
}

/// Whether no single block is most of it: a table that is made once is kept on purpose.
fn is_repeated(context: &Context<'_>, leak: &Leak) -> bool {
    let largest = leak.sites.iter().map(|&site| {
        let of_site = context.evidence_of(site).largest;
        of_site.min(context.site(site).leaked_bytes)
    });
    largest.max().unwrap_or(0) <= leak.bytes / 2
}

fn leak(context: &Context<'_>, group: &Group) -> Option<Leak> {
    // What a process has that runs on, or was killed, it has not left: then only a few of many are
    // lost.
    let exited = matches!(context.process.exit, Exit::Status(_));
    let few = |group: &Group| ratio(group.leaked, group.allocations) <= SURVIVING;
    if group.freed == 0 {
        return exited.then(|| whole_function(context, group)).flatten();
    }
    let mut paths: FxHashMap<Vec<u32>, Vec<u32>> = FxHashMap::default();
    for &site in &group.sites {
        paths.entry(context.path(site)).or_default().push(site);
    }
    let mut found: Vec<Leak> = Vec::new();
    for sites in paths.into_values() {
        let path = context.group(sites);
        if path.leaked < SURVIVORS {
            continue;
        }
        if path.freed > 0 && (exited || few(&path)) {
            let many = path.freed >= FREED;
            let some = many.then(|| some_of_many(context, &path)).flatten();
            let nearly = || exited.then(|| nearly_all(context, &path)).flatten();
            found.extend(some.or_else(nearly));
        } else if path.freed == 0 && group.freed >= FREED && (exited || few(group)) {
            found.extend(all_of(
                context,
                &path,
                Kind::AllOfPath,
                SURVIVORS,
                TENTHS_OF_PATH,
            ));
        }
    }
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

fn not_suppressed(context: &Context<'_>, sites: &[u32]) -> Vec<u32> {
    let leaks = sites.iter().copied().filter(|&site| {
        let leaked = context.site(site).leaked_allocations;
        leaked > 0 && !context.is_suppressed(site)
    });
    leaks.collect()
}

/// Divides the time from the first allocation to the last event into ten parts; in how many
/// of these the blocks were allocated that leaked.
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
    let many = blocks >= SURVIVORS && tenths(context, &sites) >= TENTHS_OF_PATH;
    many.then_some(Leak {
        kind: Kind::SomeOfMany,
        sites,
        blocks,
        bytes,
        usual_ns: usual,
    })
}

/// Nearly all blocks of a path, of which only the last few are freed, when the program ends.
fn nearly_all(context: &Context<'_>, path: &Group) -> Option<Leak> {
    let nearly = ratio(path.leaked, path.allocations) >= NEARLY_ALL;
    let all = nearly.then(|| {
        all_of(
            context,
            path,
            Kind::NearlyAll,
            WHOLE_FUNCTION,
            TENTHS_OF_FUNCTION,
        )
    });
    all.flatten()
}

fn whole_function(context: &Context<'_>, group: &Group) -> Option<Leak> {
    let reallocated = group.leaked < group.allocations;
    let all = (!reallocated).then(|| {
        all_of(
            context,
            group,
            Kind::AllOfFunction,
            WHOLE_FUNCTION,
            TENTHS_OF_FUNCTION,
        )
    });
    all.flatten()
}

/// The blocks of a group that leaked, if there are so many from so many tenths of
/// the time.
fn all_of(
    context: &Context<'_>,
    group: &Group,
    kind: Kind,
    least: u64,
    of_time: usize,
) -> Option<Leak> {
    let group = context.group(not_suppressed(context, &group.sites));
    let holds = group.leaked >= least && tenths(context, &group.sites) >= of_time;
    holds.then_some(Leak {
        kind,
        blocks: group.leaked,
        bytes: group.leaked_bytes,
        sites: group.sites,
        usual_ns: 0,
    })
}

/// Whether the process frees what it has before it exits: all but what it allocates at its start,
/// on purpose, and what leaks, which is left again and again during the run.
fn frees_what_it_has(context: &Context<'_>) -> bool {
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
    left <= FEW_LEFT || ratio(left, others) <= LEFT_BY_OTHERS
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
        ],
        mended: Some(context.freed_after(lost, leak.usual_ns)),
    };
    Candidate {
        finding,
        function,
        also,
        weak: leak.kind == Kind::AllOfFunction,
        stake: ratio(leak.bytes, peak),
    }
}
