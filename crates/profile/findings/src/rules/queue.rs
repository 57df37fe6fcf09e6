//! A queue: blocks that one thread allocates, that wait, and that another thread frees in
//! the order of their allocation.
//!
//! It speaks about the sites of a function of which at least 90 % of the freed blocks were
//! freed by another thread and, if that is one thread, 90 % in order (several readers
//! overtake each other: 60 %), if
//!
//! - at least 32 of the blocks, and 5 % of the peak or 1 MiB, were live at a time;
//! - their mean life is at least 5 % of the run;
//! - the middle half of the deallocations takes at least 5 % of the run (so that it is no
//!   teardown at the end);
//! - the queue is not bounded: it is nearly full (75 % of its largest length) for less than
//!   55 % of the time in which anything waits.
//!
//! Functions whose blocks are handed over by the same threads are one queue: a message and
//! the node that holds it.

use allotrope_profile::Site;
use allotrope_text::numbers::bytes as in_bytes;

use crate::callers::Language;
use crate::context::{Context, Group};
use crate::curve::{Curve, quantiles};
use crate::finding::{Finding, Rule, Severity};
use crate::numbers::{blocks, bytes, ns, percent, ratio, share, some, time};
use crate::rank::Candidate;

const OTHER_THREAD: f64 = 0.9;
const IN_ORDER: f64 = 0.9;
const IN_ORDER_OF_SEVERAL: f64 = 0.6;
/// A site with fewer freed blocks says nothing about their order.
const MIN_OF_A_SITE: u64 = 8;
const MIN_BLOCKS: u64 = 32;
const MIN_SHARE: f64 = 0.05;
const MIN_BYTES: u64 = 1 << 20;
const MIN_WAIT: f64 = 0.05;
const MIN_SPAN: f64 = 0.05;
const NEARLY_FULL: f64 = 0.75;
const BOUNDED: f64 = 0.55;
/// Less than this part of the largest length is an empty queue.
const EMPTY: f64 = 0.02;

struct Queue {
    group: Group,
    handed_over: [Option<u32>; 2],
    most_bytes: u64,
    most_blocks: u64,
    full: f64,
    /// When the second and last quarter of the blocks began to be allocated and freed:
    /// 5 %, 25 %, 75 % and 95 %.
    filled: [u64; 4],
    emptied: [u64; 4],
}

pub(crate) fn find(context: &Context<'_>) -> Vec<Candidate> {
    if context.process.threads.len() < 2 {
        return Vec::new();
    }
    let groups = context.groups.iter();
    let mut queues: Vec<Queue> = groups.filter_map(|group| queue(context, group)).collect();
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.most_bytes));
    let mut found: Vec<(Queue, Vec<Queue>)> = Vec::new();
    for queue in queues {
        let same = found
            .iter_mut()
            .find(|(first, _)| first.handed_over == queue.handed_over);
        match same {
            Some((_, others)) => others.push(queue),
            None => found.push((queue, Vec::new())),
        }
    }
    let found = found.iter();
    found
        .flat_map(|(first, others)| candidates(context, first, others))
        .collect()
}

/// The sites of a function that are a queue.
fn queue(context: &Context<'_>, group: &Group) -> Option<Queue> {
    let of_queue = |&&site: &&u32| {
        let evidence = context.evidence_of(site);
        let order = match evidence.handed_over[1] {
            Some(_) => IN_ORDER,
            None => IN_ORDER_OF_SEVERAL,
        };
        evidence.freed >= MIN_OF_A_SITE
            && ratio(evidence.freed_by_others, evidence.freed) >= OTHER_THREAD
            && ratio(evidence.freed_in_order, evidence.freed - 1) >= order
    };
    let sites: Vec<u32> = group.sites.iter().filter(of_queue).copied().collect();
    if sites.is_empty() {
        return None;
    }
    let handed = sites
        .iter()
        .map(|&site| context.evidence_of(site).handed_over);
    let handed_over = handed.reduce(|a, b| [0, 1].map(|at| a[at].filter(|_| a[at] == b[at])))?;
    let group = Group {
        function: group.function,
        ..context.group(sites)
    };
    let duration = context.duration_ns() as f64;
    if (group.mean_life_ns() as f64) < MIN_WAIT * duration {
        return None;
    }
    let curve = context.curve(&group.sites);
    let most = curve.highest().map(|at| curve.live()[at].bytes)?;
    let most_bytes = most.max(group.peak_bytes);
    let most_blocks = curve.most_blocks().max(group.peak_blocks);
    let is_large =
        most_bytes >= MIN_BYTES || most_bytes as f64 >= MIN_SHARE * context.peak_bytes() as f64;
    if most_blocks < MIN_BLOCKS || !is_large {
        return None;
    }
    let full = full_share(&curve, curve.most_blocks());
    if full >= BOUNDED {
        return None;
    }
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
    if ((emptied[2] - emptied[1]) as f64) < MIN_SPAN * duration {
        return None;
    }
    Some(Queue {
        group,
        handed_over,
        most_bytes,
        most_blocks,
        full,
        filled,
        emptied,
    })
}

/// The part of the time in which the queue is not empty that it is nearly full.
fn full_share(curve: &Curve, most: u64) -> f64 {
    let above = |part: f64| {
        let live = curve.live().iter();
        live.filter(|live| live.blocks as f64 > part * most as f64)
            .count() as u64
    };
    ratio(above(NEARLY_FULL), above(EMPTY))
}

/// The finding about a queue, and, without a text of their own, the functions whose blocks
/// are handed over with it.
fn candidates(context: &Context<'_>, queue: &Queue, others: &[Queue]) -> Vec<Candidate> {
    let all_sites = others.iter().flat_map(|other| &other.group.sites);
    let sites: Vec<u32> = queue.group.sites.iter().chain(all_sites).copied().collect();
    let all_bytes = others.iter().map(|other| other.most_bytes);
    let most_bytes = queue.most_bytes.saturating_add(all_bytes.sum());
    let weight = |site: &Site| site.allocated_bytes;
    let frame = context.frame(&queue.group.sites, weight);
    let wait = queue.group.mean_life_ns();
    let stake = ratio(most_bytes, context.peak_bytes()).min(1.0);
    let name = |thread: Option<u32>| match thread {
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
        ],
    };
    vec![Candidate {
        finding,
        function: Some(queue.group.function),
        also: others.iter().map(|other| other.group.function).collect(),
        stake,
    }]
}
