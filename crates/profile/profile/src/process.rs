//! Makes the process of an image from its figures and its records.

use allotrope_trace::model::{Exit, stack_end};

use crate::accumulator::ImageStats;
use crate::evidence::EvidenceBuilder;
use crate::frames::{Code, FrameTable};
use crate::gaps::gaps_of;
use crate::index::{Image, Index, ThreadNames};
use crate::model::{Process, Profile, ThreadTotals};
use crate::reachability::{Amount, Reachability};
use crate::site_details::free_stacks::set_frames;
use crate::site_order::sites_in_order;
use crate::source::TraceSource;
use crate::stack::Stacks;
use crate::time_table::tables::Tables;

/// Makes the process of an image from its figures and its records in the index.
pub(crate) fn process<H>(
    index: &Index<H>,
    image: &Image<H>,
    stats: ImageStats,
    names: &ThreadNames,
    frames: &mut FrameTable,
) -> Process {
    let start_ns = index.timeline.ns(image.start.tick);
    let mut totals = stats.totals;
    totals.peak_time_us = stats.peak_ns.saturating_sub(start_ns) / 1_000;
    let reported = image
        .losses
        .values()
        .fold(0_u64, |sum, &n| sum.saturating_add(n));
    let mut process = Process {
        id: image.start.image,
        pid: image.start.pid,
        parent_pid: image.start.parent_pid,
        origin: image.start.origin,
        forked_from: image.start.forked_from,
        executable: image.start.executable.clone(),
        command: image.start.command.clone(),
        started_us: start_ns / 1_000,
        duration_us: stats.end_ns.saturating_sub(start_ns) / 1_000,
        exit: image.end.map_or(Exit::Running, |end| end.exit),
        complete: image.end.is_some_and(|end| end.complete),
        // Not the sum: the implied losses are consequences of the reported ones.
        lost_events: reported.max(stats.implied_losses),
        losses: image
            .losses
            .iter()
            .map(|(&reason, &n)| (reason, n))
            .collect(),
        gaps: gaps_of(index, image, stats.end_ns),
        waits: 0,
        waited_us: 0,
        ambiguous_events: stats.ambiguous,
        unmatched_deallocations: stats.unmatched,
        unoptimised: frames.unoptimised(&image.start.executable),
        totals,
        sites: Vec::new(),
        truncated_stacks: 0,
        stacks_without_unwind_information: 0,
        reachability: None,
        threads: Vec::new(),
        entries: stats.entries,
        live: stats.series,
        resident: index.resident_of(image),
        windows: Vec::new(),
        times: None,
        thread_times: None,
        sizes: None,
        evidence: None,
        stacks: Vec::new(),
    };
    let in_us = |ticks| {
        let end_ns = index.timeline.ns(image.start.tick.saturating_add(ticks));
        end_ns.saturating_sub(start_ns) / 1_000
    };
    for waited in image.waits.values() {
        process.waits = process.waits.saturating_add(waited.waits);
        process.waited_us = process.waited_us.saturating_add(in_us(waited.ticks));
    }
    let threads = image.threads.borrow();
    process.threads = (threads.known.iter().enumerate())
        .map(|(number, thread)| {
            let figures = stats.threads.get(number).copied().unwrap_or_default();
            let waited = image.waits.get(&thread.thread).copied().unwrap_or_default();
            ThreadTotals {
                thread: thread.thread,
                tid: thread.tid,
                name: thread
                    .thread
                    .and_then(|id| names.get(&id))
                    .cloned()
                    .unwrap_or_default(),
                allocations: figures.allocations,
                allocated_bytes: figures.allocated_bytes,
                deallocations: figures.deallocations,
                temporary_allocations: figures.temporary,
                waits: waited.waits,
                waited_us: in_us(waited.ticks),
            }
        })
        .collect();
    if index.recording.counts_only {
        image.counted.write_into(&mut process);
    }
    let jit = image.jit_code.borrow();
    let code = Code::of(image, &jit);
    let mut stacks = Stacks::default();
    for site in &stats.sites {
        let end = frames.stack(&code, site.stack_id, &mut stacks);
        process.truncated_stacks += u64::from(end == stack_end::TRUNCATED);
        process.stacks_without_unwind_information +=
            u64::from(end == stack_end::NO_UNWIND_INFORMATION);
    }
    let (sites, order) = sites_in_order(&stats.sites, stacks);
    process.sites = sites;
    for (site, at) in process.sites.iter_mut().zip(&order) {
        site.lost = stats.lost.sites.get(at).copied().map(Box::new);
    }
    process.reachability = image.scan.end.map(|scan| {
        let live = Amount {
            allocations: totals.leaked_allocations,
            bytes: totals.leaked_bytes,
        };
        Reachability {
            outcome: scan.outcome,
            other_threads: scan.other_threads,
            lost: stats.lost.all,
            reachable: live.without(stats.lost.all.total()),
        }
    });
    if let Some(mut details) = stats.details {
        process.sizes = Some(details.take_sizes());
        for (site, &at) in process.sites.iter_mut().zip(&order) {
            site.details = details.take(at);
        }
        let details = process.sites.iter_mut().flat_map(|site| &mut site.details);
        set_frames(details.map(|it| &mut **it), &code, frames);
    }
    if stats.times.is_some() || stats.evidence.is_some() {
        let mut positions = vec![0; order.len()];
        for (position, &site) in (0..).zip(&order) {
            positions[site as usize] = position;
        }
        if let Some(Tables { sites, threads }) = stats.times {
            process.times = Some(sites.finish(&positions, stats.end_ns));
            let same: Vec<u32> = (0..process.threads.len() as u32).collect();
            process.thread_times = threads.map(|it| it.finish(&same, stats.end_ns));
        }
        let finish = |(evidence, held): (EvidenceBuilder, _)| evidence.finish(&positions, held);
        process.evidence = stats.evidence.map(finish);
    }
    process
}

/// Makes the profile of these processes, whose sites are numbered consecutively, from 1.
pub(crate) fn profile<S: TraceSource>(
    source: &S,
    index: Index<S::Handle>,
    frames: FrameTable,
    mut processes: Vec<Process>,
) -> Profile {
    let sites = processes.iter_mut().flat_map(|it| &mut it.sites);
    for (number, site) in (1..).zip(sites) {
        site.number = number;
    }
    let marks = index.named_moments();
    let (modules, frames) = frames.finish();
    Profile {
        recording: index.recording,
        cut: source.cut(),
        modules,
        frames,
        processes,
        unrecorded: index.unrecorded,
        marks,
        is_growing: source.is_growing(),
    }
}
