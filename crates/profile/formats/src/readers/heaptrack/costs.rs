//! Computes the figures of each stack from the events of a heaptrack file:
//! totals, live at the peak, live at the end.

use allotrope_profile::{Metric, MetricValues};

use super::tables::Info;
use crate::error::Problem;

/// Bytes of memory for the figures of one stack.
pub(super) const COST: usize = size_of::<Cost>();

#[derive(Debug, Clone, Copy, Default)]
struct Live {
    allocations: u64,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    allocations: u64,
    bytes: u64,
    temporary: u64,
    live: Live,
    /// The figures at the peak with the number `peak`.
    at_peak: Live,
    peak: u64,
}

impl Cost {
    /// Updates the figures at the peak; called before a change of the live figures. If
    /// there was a peak since the previous change, the live figures are those at the
    /// peak. They are copied only now, so that a new peak takes constant time.
    fn update_peak(&mut self, peak: u64) {
        if self.peak != peak {
            self.peak = peak;
            self.at_peak = self.live;
        }
    }
}

/// The figures of all stacks.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// Figures by trace index.
    costs: Vec<Cost>,
    live_bytes: u64,
    peak_bytes: u64,
    /// The number of the last peak. 0 is the start, when no block is live.
    peak: u64,
    allocated_bytes: u64,
    /// The info of the last event, if that was an allocation.
    last: Option<u32>,
    unmatched: u64,
}

impl Costs {
    pub fn allocate(&mut self, info: Info) -> Result<(), Problem> {
        self.allocated_bytes = self
            .allocated_bytes
            .checked_add(info.size)
            .ok_or(Problem::CountsOverflow)?;
        let peak = self.peak;
        let cost = self.cost(info.trace);
        cost.update_peak(peak);
        cost.allocations += 1;
        cost.bytes += info.size;
        cost.live.allocations += 1;
        cost.live.bytes += info.size;
        self.last = Some(info.index);
        self.live_bytes += info.size;
        // Of equal peaks, the last one counts.
        if self.live_bytes >= self.peak_bytes {
            self.peak_bytes = self.live_bytes;
            self.peak += 1;
        }
        Ok(())
    }

    pub fn deallocate(&mut self, info: Info) -> Result<(), Problem> {
        let temporary = self.last.take() == Some(info.index);
        let peak = self.peak;
        let cost = self.cost(info.trace);
        let rest = cost
            .live
            .allocations
            .checked_sub(1)
            .zip(cost.live.bytes.checked_sub(info.size));
        let Some((allocations, bytes)) = rest else {
            self.unmatched += 1;
            return Ok(());
        };
        cost.update_peak(peak);
        cost.temporary += u64::from(temporary);
        cost.live = Live { allocations, bytes };
        self.live_bytes -= info.size;
        Ok(())
    }

    /// The figures of a trace.
    fn cost(&mut self, trace: u32) -> &mut Cost {
        let at = trace as usize;
        if at >= self.costs.len() {
            self.costs.resize(at + 1, Cost::default());
        }
        &mut self.costs[at]
    }

    /// Deallocations without a matching allocation.
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// The traces with allocations, and their figures.
    pub fn into_traces(self) -> impl Iterator<Item = (u32, MetricValues)> {
        let peak = self.peak;
        let traces = (0..).zip(self.costs);
        let used = traces.filter(|(_, cost)| cost.allocations > 0);
        used.map(move |(trace, mut cost)| {
            cost.update_peak(peak);
            (trace, figures(&cost))
        })
    }
}

fn figures(cost: &Cost) -> MetricValues {
    let mut figures = MetricValues::default();
    for (metric, figure) in [
        (Metric::Allocations, cost.allocations),
        (Metric::Bytes, cost.bytes),
        (Metric::Temporary, cost.temporary),
        (Metric::LeakedAllocations, cost.live.allocations),
        (Metric::LeakedBytes, cost.live.bytes),
        (Metric::PeakAllocations, cost.at_peak.allocations),
        (Metric::PeakBytes, cost.at_peak.bytes),
    ] {
        figures[metric as usize] = figure;
    }
    figures
}
