//! The windows of a process in the JSON report.

use allotrope_profile::windows::WindowRun;
use allotrope_profile::{Descriptors, Process, QuietWait};
use serde::Serialize;

/// One occurrence of a window.
#[derive(Serialize)]
pub(crate) struct WindowForm<'a> {
    name: &'a str,
    occurrence: u32,
    iterations: u64,
    /// The kernel's id of the only thread that is counted; null if all are.
    thread: Option<u32>,
    opened_us: u64,
    duration_us: u64,
    closed: bool,
    measured: bool,
    quiet_before_opening: Option<bool>,
    quiet_before_closing: Option<bool>,
    /// The figures are null if they are unknown.
    allocations: Option<u64>,
    allocated_bytes: Option<u64>,
    deallocations: Option<u64>,
    reallocations: Option<u64>,
    temporary_allocations: Option<u64>,
    remaining_allocations: Option<u64>,
    remaining_bytes: Option<u64>,
    peak_bytes: Option<u64>,
    peak_allocations: Option<u64>,
    /// Null if they were not compared.
    descriptors: Option<DescriptorsForm<'a>>,
}

#[derive(Serialize)]
struct DescriptorsForm<'a> {
    before: u32,
    after: u32,
    leaked: u64,
    left: Vec<LeftForm<'a>>,
}

#[derive(Serialize)]
struct LeftForm<'a> {
    name: &'a str,
    count: u32,
}

impl<'a> WindowForm<'a> {
    pub(crate) fn of(process: &Process, run: &'a WindowRun, counts_only: bool) -> Self {
        let [opening, closing] = run.quiet.map(quiet);
        let figures = &run.figures;
        let counted = |figure| (run.measured || !counts_only).then_some(figure);
        let aggregated = |figure| (!counts_only).then_some(figure);
        let thread = run.thread.map(|number| number as usize);
        Self {
            name: &run.name,
            occurrence: run.occurrence,
            iterations: run.iterations,
            thread: thread.map(|number| process.threads.get(number).map_or(0, |it| it.tid)),
            opened_us: run.opened_us,
            duration_us: run.duration_us,
            closed: run.closed,
            measured: run.measured,
            quiet_before_opening: opening,
            quiet_before_closing: closing,
            allocations: counted(figures.allocations),
            allocated_bytes: counted(figures.allocated_bytes),
            deallocations: counted(figures.deallocations),
            reallocations: counted(figures.reallocations),
            temporary_allocations: aggregated(figures.temporary_allocations),
            remaining_allocations: aggregated(figures.remaining_allocations),
            remaining_bytes: aggregated(figures.remaining_bytes),
            peak_bytes: aggregated(figures.peak_bytes),
            peak_allocations: aggregated(figures.peak_allocations),
            descriptors: run.descriptors.as_ref().map(descriptors),
        }
    }
}

/// Whether the wait for quiet succeeded; `None` if there was none.
fn quiet(quiet: QuietWait) -> Option<bool> {
    match quiet {
        QuietWait::NotRequested => None,
        QuietWait::Reached => Some(true),
        QuietWait::TimedOut => Some(false),
    }
}

fn descriptors(descriptors: &Descriptors) -> DescriptorsForm<'_> {
    let left = descriptors.left.iter();
    DescriptorsForm {
        before: descriptors.before,
        after: descriptors.after,
        leaked: descriptors.leaked(),
        left: left
            .map(|left| LeftForm {
                name: &left.name,
                count: left.count,
            })
            .collect(),
    }
}
