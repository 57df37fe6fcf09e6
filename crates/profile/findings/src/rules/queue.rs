//! A queue: blocks that wait, and are freed in the order of their allocation.
//!
//! It speaks about the sites of a family whose blocks were freed in order (90 %; several readers
//! in other threads overtake each other: 60 %) if
//!
//! - at least 32 of the blocks, 64 KiB, and 5 % of the peak or 1 MiB, were live at a time, and at most
//!   three quarters are live at the end;
//! - those that were freed had waited for at least 5 % of the run on average;
//! - they are served bit by bit: without the eight buckets of time (of 256) in which the most are
//!   freed, at least 32, and 2 %, that waited for 2.5 % of the run are freed in at least eight
//!   others (otherwise they are a list that is freed as a whole);
//! - it is not bounded: the first and the last time when it is nearly full (85 % of its
//!   largest length) are less than half of the active time apart;
//! - another thread frees 90 %, or the program allocates in at most 50 % of its time, and goes on to fill
//!   it while it empties it: a loop of events hands on work to itself, and other programs their lists.
//!
//! Blocks that the same threads hand over, or that are in step, are one queue: a message and the node
//! that holds it.

use allotrope_profile::{BlockSum, LIVE_AT_END, Site};
use allotrope_text::numbers::bytes as in_bytes;

use crate::callers::Language;
use crate::candidate::{Candidate, TriedId};
use crate::conditions::Conditions;
use crate::context::{Context, Group};
use crate::curve::{Curve, quantiles};
use crate::finding::Value::{Bytes, Count, Nanoseconds, Share};
use crate::finding::{Finding, Rule, Severity};
use crate::hump::WAITING;
use crate::numbers::{blocks, bytes, ns, percent, ratio, share, some, time};
use crate::tried::{Outcome, Trials};

const OTHER_THREAD: f64 = 0.9;
const IN_ORDER: f64 = 0.9;
const IN_ORDER_OF_SEVERAL: f64 = 0.6;
/// A site with fewer freed blocks says nothing about their order.
const MIN_OF_A_SITE: u64 = 8;
const MIN_BLOCKS: u64 = 32;
const MIN_SHARE: f64 = 0.05;
const MIN_BYTES: u64 = 1 << 20;
/// Fewer are no problem, whatever the peak.
const LEAST_BYTES: u64 = 64 << 10;
const MIN_WAIT: f64 = 0.05;
/// Part of the blocks that is freed bit by bit: not in the [`AT_ONCE`] buckets of time in which the
/// most of them are, but in at least so many others.
const MIN_SERVED: f64 = 0.02;
const AT_ONCE: usize = 8;
const MIN_MOMENTS: usize = 8;
/// The largest part of the blocks that is live at the end: more are not waiting, but lost.
const MAX_LEFT: f64 = 0.75;
const NEARLY_FULL: f64 = 0.85;
const BOUNDED: f64 = 0.5;

struct Queue {
    group: Group,
    /// The mean life of the blocks that were freed, in nanoseconds.
    wait: u64,
    handed_over: [Option<u32>; 2],
    /// Whether other threads free its blocks than allocate them.
    is_handed_over: bool,
    most_bytes: u64,
    most_blocks: u64,
    full: f64,
    /// Blocks that were freed bit by bit.
    served: u64,
    /// When the second and last quarter of the blocks began to be allocated and freed:
    /// 5 %, 25 %, 75 % and 95 %.
    filled: [u64; 4],
    emptied: [u64; 4],
    /// Identifies it among the candidates.
    id: Option<TriedId>,
}

pub(crate) fn find(context: &Context<'_>, trials: &mut Trials<'_, '_>) -> Vec<Candidate> {
    let mut queues: Vec<Queue> = Vec::new();
    for group in &context.families {
        let (id, queue) = trials.candidate(
            &group.sites,
            || group.peak_bytes,
            |conditions| queue(context, group, conditions),
        );
        queues.extend(queue.map(|queue| Queue { id, ..queue }));
    }
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.most_bytes));
    let mut found: Vec<(Queue, Vec<Queue>)> = Vec::new();
    for queue in queues {
        let same = found
            .iter_mut()
            .find(|(first, _)| is_one(context, first, &queue));
        match same {
            Some((_, others)) => others.push(queue),
            None => found.push((queue, Vec::new())),
        }
    }
    let mut candidates = Vec::new();
    for (first, others) in &found {
        let candidate = candidate(context, first, others).tried_as(first.id);
        for other in others {
            trials.end(other.id, Outcome::PartOf(candidate.finding.frame));
        }
        candidates.push(candidate);
    }
    candidates
}

/// Whether two are one queue: the same threads hand over the blocks, or their blocks are in step.
fn is_one(context: &Context<'_>, a: &Queue, b: &Queue) -> bool {
    let same = a.is_handed_over && b.is_handed_over && a.handed_over == b.handed_over;
    same || context.are_in_step(&a.group.sites, &b.group.sites)
}

/// The sites of a function that are a queue.
fn queue(context: &Context<'_>, group: &Group, conditions: &mut Conditions) -> Option<Queue> {
    let sites = conditions.some_part(
        "in_order",
        "blocks of a stack are freed in the order of their allocation",
        group.sites.iter().copied(),
        |&site| context.evidence_of(site).freed,
        |&site, conditions| {
            is_in_order(context, site, conditions)?;
            Some(site)
        },
    )?;
    let handed = sites
        .iter()
        .map(|&site| context.evidence_of(site).handed_over);
    let handed_over = handed.reduce(|a, b| [0, 1].map(|at| a[at].filter(|_| a[at] == b[at])))?;
    let others: u64 = sites
        .iter()
        .map(|&site| context.evidence_of(site).freed_by_others)
        .sum();
    let group = Group {
        function: group.function,
        ..context.group(sites)
    };
    let by_others = Share(ratio(others, group.freed));
    let is_handed_over = ratio(others, group.freed) >= OTHER_THREAD;
    let handed_over_by = |any: &mut Conditions| {
        any.at_least(
            "freed_by_others",
            "freed by another thread",
            by_others,
            Share(OTHER_THREAD),
        )
    };
    // One thread that works without a pause hands its lists to itself.
    conditions.any_of(
        "handed_over",
        "another thread frees, or the program waits",
        |any| {
            handed_over_by(any)?;
            any.at_most(
                "busy",
                "time in which the program allocates",
                Share(context.busy()),
                Share(WAITING),
            )
        },
    )?;
    let duration = context.duration_ns() as f64;
    let wait = waits(context, &group.sites);
    conditions.at_most(
        "left",
        "live at the end, of all",
        Share(ratio(group.leaked, group.allocations)),
        Share(MAX_LEFT),
    )?;
    conditions.at_least(
        "wait_of_run",
        "mean wait of the freed ones, of the run",
        Share(wait as f64 / duration),
        Share(MIN_WAIT),
    )?;
    let curve = context.curve(&group.sites);
    let most = curve.highest().map(|at| curve.live()[at].bytes)?;
    let most_bytes = most.max(group.peak_bytes);
    let most_blocks = curve.most_blocks().max(group.peak_blocks);
    conditions.at_least(
        "most_blocks",
        "blocks that waited at a time",
        Count(most_blocks),
        Count(MIN_BLOCKS),
    )?;
    conditions.any_of("large", "they are large", |any| {
        any.at_least(
            "most_bytes",
            "waited at a time",
            Bytes(most_bytes),
            Bytes(MIN_BYTES),
        )?;
        any.at_least(
            "share_of_peak",
            "of the peak",
            Share(ratio(most_bytes, context.peak_bytes())),
            Share(MIN_SHARE),
        )
    })?;
    conditions.at_least(
        "most_bytes",
        "waited at a time, whatever the peak",
        Bytes(most_bytes),
        Bytes(LEAST_BYTES),
    )?;
    let [begin, end] = context.active_ns;
    let active = end.saturating_sub(begin).max(1) as f64;
    let full = full_span(&curve) as f64 / active;
    conditions.less_than(
        "nearly_full",
        "from the first to the last time at which it is nearly full",
        Share(full),
        Share(BOUNDED),
    )?;
    let by = |freed: bool| {
        let cells = context.cells(&group.sites);
        let mut weights: Vec<(u64, u64)> = cells
            .map(|cell| {
                let bucket = if freed { cell.freed } else { cell.allocated };
                (context.bucket_end_ns(bucket), cell.blocks)
            })
            .collect();
        weights.sort_unstable();
        quantiles(&weights, [0.05, 0.25, 0.75, 0.95])
    };
    let (filled, emptied) = (by(false), by(true));
    // What one thread has filled before it begins to empty it is a list between two steps.
    conditions.any_of(
        "overlaps",
        "another thread frees, or it is filled and emptied at once",
        |any| {
            handed_over_by(any)?;
            any.more_than(
                "filled_until_ns",
                "filled (95 %) until, against emptied (5 %) from",
                Nanoseconds(filled[3].saturating_sub(context.start_ns)),
                Nanoseconds(emptied[0].saturating_sub(context.start_ns)),
            )
        },
    )?;
    let [served, moments] = served(context, &group.sites);
    conditions.at_least(
        "served_moments",
        "moments at which waiting ones are freed bit by bit",
        Count(moments),
        Count(MIN_MOMENTS as u64),
    )?;
    conditions.at_least(
        "served_blocks",
        "blocks freed bit by bit",
        Count(served),
        Count(MIN_BLOCKS),
    )?;
    conditions.at_least(
        "served",
        "freed bit by bit, of all",
        Share(ratio(served, group.allocations)),
        Share(MIN_SERVED),
    )?;
    conditions.hold().then_some(Queue {
        group,
        wait,
        handed_over,
        is_handed_over,
        most_bytes,
        most_blocks,
        full,
        served,
        filled,
        emptied,
        id: None,
    })
}

/// Whether the freed blocks of a site were freed in order.
fn is_in_order(context: &Context<'_>, site: u32, conditions: &mut Conditions) -> Option<()> {
    let evidence = context.evidence_of(site);
    let others = ratio(evidence.freed_by_others, evidence.freed) >= OTHER_THREAD;
    let order = match evidence.handed_over[1] {
        None if others => IN_ORDER_OF_SEVERAL,
        _ => IN_ORDER,
    };
    conditions.at_least(
        "freed_blocks",
        "freed blocks",
        Count(evidence.freed),
        Count(MIN_OF_A_SITE),
    )?;
    conditions.at_least(
        "freed_in_order",
        "freed in order",
        Share(ratio(
            evidence.freed_in_order,
            evidence.freed.saturating_sub(1),
        )),
        Share(order),
    )
}

/// The time from the first to the last moment at which it is nearly full.
fn full_span(curve: &Curve) -> u64 {
    let most = curve.most_blocks() as f64;
    let full = |live: &BlockSum| live.blocks as f64 >= NEARLY_FULL * most;
    let first = curve.live().iter().position(full);
    let last = curve.live().iter().rposition(full);
    match (first, last) {
        (Some(first), Some(last)) => curve.end_ns(last) - curve.end_ns(first),
        _ => 0,
    }
}

/// The mean life of the blocks that are freed, in nanoseconds, as buckets tell.
fn waits(context: &Context<'_>, sites: &[u32]) -> u64 {
    let (mut blocks, mut sum) = (0_u64, 0_u128);
    for cell in context
        .cells(sites)
        .filter(|cell| cell.freed != LIVE_AT_END)
    {
        let start = context.table.starts_ns[usize::from(cell.allocated)];
        let freed = context.table.starts_ns[usize::from(cell.freed)];
        blocks += cell.blocks;
        sum += u128::from(freed - start) * u128::from(cell.blocks);
    }
    (sum / u128::from(blocks.max(1))) as u64
}

/// How many blocks that waited long were freed bit by bit, and not with many others: not in the few
/// buckets of time with the most of them; and in how many buckets that is.
fn served(context: &Context<'_>, sites: &[u32]) -> [u64; 2] {
    let long = (MIN_WAIT / 2.0 * context.duration_ns() as f64) as u64;
    let starts = &context.table.starts_ns;
    let mut freed = vec![0_u64; starts.len()];
    for cell in context
        .cells(sites)
        .filter(|cell| cell.freed != LIVE_AT_END)
    {
        if starts[usize::from(cell.freed)] - starts[usize::from(cell.allocated)] >= long {
            freed[usize::from(cell.freed)] += cell.blocks;
        }
    }
    freed.sort_unstable_by_key(|&blocks| std::cmp::Reverse(blocks));
    let rest = &freed[AT_ONCE.min(freed.len())..];
    let moments = rest.iter().filter(|&&blocks| blocks > 0).count();
    [rest.iter().sum(), moments as u64]
}

/// The finding about a queue, and, without a text of their own, the functions whose blocks
/// are handed over with it.
fn candidate(context: &Context<'_>, queue: &Queue, others: &[Queue]) -> Candidate {
    let all_sites = others.iter().flat_map(|other| &other.group.sites);
    let sites: Vec<u32> = queue.group.sites.iter().chain(all_sites).copied().collect();
    let all_bytes = others.iter().map(|other| other.most_bytes);
    let most_bytes = queue.most_bytes.saturating_add(all_bytes.sum());
    let weight = |site: &Site| site.allocated_bytes;
    let frame = context.frame(&queue.group.sites, weight);
    let wait = queue.wait;
    let stake = ratio(most_bytes, context.peak_bytes()).min(1.0);
    let name = |thread: Option<u32>| match thread {
        _ if !queue.is_handed_over => "by the same threads".to_owned(),
        Some(thread) => format!("by {}", context.thread_name(thread)),
        None => "by several threads".to_owned(),
    };
    let [fill, empty] = [queue.filled, queue.emptied].map(|times| times[3] - times[0]);
    let title = if fill < empty / 5 {
        "a queue that fills at once and drains slowly"
    } else {
        "a queue that fills faster than it drains"
    };
    let text = format!(
        "{} of {}{}: filled {} within {}, emptied {} within {}, first in first out. {} waited at \
         most, {} on average ({} of the run).",
        some(queue.group.allocations, "block"),
        context.function_name(frame),
        context.called_by(&queue.group.sites, weight),
        name(queue.handed_over[0]),
        time(fill.max(context.bucket_end_ns(0) - context.start_ns)),
        name(queue.handed_over[1]),
        time(empty),
        allotrope_text::numbers::count(queue.most_blocks),
        time(wait),
        percent(wait as f64 / context.duration_ns() as f64),
    );
    let bound = match context.language(frame) {
        Language::Rust => "std::sync::mpsc::sync_channel(n), or tokio's mpsc::channel(n)",
        _ => "wait, or refuse, when n elements are in it",
    };
    let advice = format!(
        "Bound it: {bound}; or let the reader take several at once. `allotrope diff BEFORE \
         AFTER --metric peak` shows the effect."
    );
    let (function, also) = context.functions(frame, &sites);
    let finding = Finding {
        rule: Rule::Queue,
        severity: Severity::Problem,
        title: title.to_owned(),
        measure: format!("{}, {} of the peak", in_bytes(most_bytes), percent(stake)),
        text,
        advice,
        process: context.process.id,
        frame,
        sites: context.numbers_of(&sites, weight),
        parts: Vec::new(),
        numbers: vec![
            bytes("most_bytes", most_bytes),
            share("share_of_peak", stake),
            share("share_of_peak_threshold", MIN_SHARE),
            blocks("most_blocks", queue.most_blocks),
            blocks("most_blocks_threshold", MIN_BLOCKS),
            ns("mean_wait_ns", wait),
            share("wait_of_run", wait as f64 / context.duration_ns() as f64),
            share("wait_of_run_threshold", MIN_WAIT),
            ns("filled_in_ns", fill),
            ns("emptied_in_ns", empty),
            share("nearly_full", queue.full),
            share("nearly_full_threshold", BOUNDED),
            share("served", ratio(queue.served, queue.group.allocations)),
            share("served_threshold", MIN_SERVED),
        ],
        mended: Some(context.limited(&sites)),
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
