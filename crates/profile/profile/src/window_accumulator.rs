//! The figures of an image's windows: counts the events that belong to each window, and
//! follows the blocks allocated in it. It receives the same events as the
//! [accumulator](crate::accumulator). Which windows an event belongs to does not depend
//! on the order of events among threads.

use allotrope_trace::model::{EntryPoint, StackId};
use rustc_hash::FxHashMap;

use crate::accumulator::{ImageStats, ThreadFigures, thread};
use crate::live::{BlockId, Blocks, LiveBlocks, NO_BLOCK};
use crate::model::{EntryTotals, Totals};
use crate::reachability::LostOfImage;
use crate::series::{LivePoint, Plotter};
use crate::site::Sites;
use crate::site_details::free_stacks::Freed;
use crate::site_details::{DetailsBuilder, Made};
use crate::step::Step;
use crate::window_table::{Rank, Span, WindowTable};
use crate::windows::WindowFigures;

/// What the windows need of a block.
#[derive(Clone, Copy)]
struct WindowBlock {
    size: u64,
    allocated_ns: u64,
    /// Number of allocations that its thread had made, this one included.
    sequence: u64,
    /// Rank of the epoch in which it was allocated; [`NO_RANK`] if it belongs to no
    /// window.
    rank: Rank,
    thread: u32,
    stack: StackId,
}

/// The rank of blocks that belong to no window.
const NO_RANK: Rank = Rank::MAX;

/// A block that belongs to no window.
const IN_NO_WINDOW: WindowBlock = WindowBlock {
    size: 0,
    allocated_ns: 0,
    sequence: 0,
    rank: NO_RANK,
    thread: 0,
    stack: 0,
};

/// See the [module](self).
pub(crate) struct WindowAccumulator<'a> {
    table: &'a WindowTable,
    temporary_threshold: u64,
    /// Blocks by id.
    blocks: Vec<WindowBlock>,
    /// Number of allocations that each thread has made.
    made: Vec<u64>,
    /// Figures of each window, by index into the table's spans.
    figures: Vec<WindowFigures>,
    /// Details by window, for those whose stacks are wanted.
    details: FxHashMap<u32, Details>,
    /// Time of the last event, in nanoseconds.
    now: u64,
}

/// The figures of one window by site, thread and entry point.
struct Details {
    of_sites: Option<DetailsBuilder>,
    sites: Sites,
    threads: Vec<ThreadFigures>,
    entries: [EntryTotals; EntryPoint::ALL.len()],
    /// Live bytes over time; begins with the window's first event.
    series: Option<Plotter>,
    /// What is live now.
    last: LivePoint,
    peak_ns: u64,
}

impl<'a> WindowAccumulator<'a> {
    /// Returns the accumulator of an image that inherited this many blocks. `detailed` lists the
    /// windows (by index) whose stacks are wanted, `site_details` is the builder of the details of
    /// their sites, if those are, too.
    pub(crate) fn new(
        table: &'a WindowTable,
        temporary_threshold: u64,
        inherited: usize,
        detailed: &[u32],
        site_details: Option<&DetailsBuilder>,
    ) -> Self {
        Self {
            table,
            temporary_threshold,
            blocks: vec![IN_NO_WINDOW; inherited],
            made: Vec::new(),
            figures: vec![WindowFigures::default(); table.spans().len()],
            details: detailed
                .iter()
                .map(|&at| (at, Details::new(site_details)))
                .collect(),
            now: 0,
        }
    }

    /// Accumulates the next event; `blocks` is its effect on the live blocks.
    pub(crate) fn take(&mut self, step: &Step, blocks: Blocks) {
        self.now = self.now.max(step.time);
        if step.allocates {
            self.allocate(step, blocks);
        } else {
            self.deallocate(step, blocks.block);
        }
    }

    fn allocate(&mut self, step: &Step, blocks: Blocks) {
        if blocks.replaced != NO_BLOCK {
            // The deallocation of the old block is lost, so its thread is unknown: the
            // block does not count as temporary.
            let old = self.blocks[blocks.replaced];
            self.release(old, step.rank, Freed::LOST, false);
        }
        let thread = step.thread as usize;
        if self.made.len() <= thread {
            self.made.resize(thread + 1, 0);
        }
        self.made[thread] += 1;
        let member = WindowBlock {
            size: step.size,
            allocated_ns: self.now,
            sequence: self.made[thread],
            rank: if step.opted_out { NO_RANK } else { step.rank },
            thread: step.thread,
            stack: step.stack,
        };
        if blocks.block == self.blocks.len() {
            self.blocks.push(member);
        } else {
            self.blocks[blocks.block] = member;
        }
        for &at in self.table.open_at(member.rank) {
            if !counts(&self.table.spans()[at as usize], step.thread) {
                continue;
            }
            let figures = &mut self.figures[at as usize];
            figures.allocations += 1;
            figures.allocated_bytes = figures.allocated_bytes.wrapping_add(step.size);
            figures.reallocations += u64::from(step.reallocation);
            figures.remaining_allocations += 1;
            figures.remaining_bytes = figures.remaining_bytes.wrapping_add(step.size);
            if let Some(details) = self.details.get_mut(&at) {
                details.allocate(step);
            }
            self.note_level(at);
        }
    }

    fn deallocate(&mut self, step: &Step, number: BlockId) {
        if !step.opted_out {
            for &at in self.table.open_at(step.rank) {
                if counts(&self.table.spans()[at as usize], step.thread) {
                    self.figures[at as usize].deallocations += 1;
                    if let Some(details) = self.details.get_mut(&at) {
                        details.deallocate(step);
                    }
                }
            }
        }
        if number == NO_BLOCK {
            return;
        }
        let block = self.blocks[number];
        let made = self.made.get(block.thread as usize).copied().unwrap_or(0);
        let temporary = block.thread == step.thread
            && made.saturating_sub(block.sequence) <= self.temporary_threshold;
        let freed = Freed {
            by: Some(step.thread),
            stack: step.stack,
            reallocation: step.reallocation,
        };
        self.release(block, step.rank, freed, temporary);
    }

    /// Counts that a block was freed by an event of this rank.
    fn release(&mut self, block: WindowBlock, rank: Rank, freed: Freed, temporary: bool) {
        for &at in self.table.open_at(block.rank) {
            let span = &self.table.spans()[at as usize];
            if !counts(span, block.thread) {
                continue;
            }
            // A block that was freed after the close was live at the close.
            let in_time = rank < span.closed;
            let figures = &mut self.figures[at as usize];
            figures.temporary_allocations += u64::from(temporary);
            if in_time {
                figures.remaining_allocations -= 1;
                figures.remaining_bytes = figures.remaining_bytes.wrapping_sub(block.size);
            }
            if let Some(details) = self.details.get_mut(&at) {
                details.release(&block, self.now, in_time, freed, temporary);
            }
            if in_time {
                self.note_level(at);
            }
        }
    }

    /// Updates the window's peak and series with what is live now.
    fn note_level(&mut self, at: u32) {
        let figures = &mut self.figures[at as usize];
        let highest = figures.remaining_bytes >= figures.peak_bytes;
        if highest {
            figures.peak_bytes = figures.remaining_bytes;
            figures.peak_allocations = figures.remaining_allocations;
        }
        if let Some(details) = self.details.get_mut(&at) {
            details.note_level(figures, highest, self.now);
        }
    }

    /// The figures of each window, and (index, stats) of those whose stacks were wanted.
    /// `end_ns` is the end of the image, `live` the blocks that were live then.
    pub(crate) fn close(
        mut self,
        end_ns: u64,
        live: &LiveBlocks,
    ) -> (Vec<WindowFigures>, Vec<(u32, ImageStats)>) {
        let end_ns = end_ns.max(self.now);
        if !self.details.is_empty() {
            live.iter()
                .for_each(|(_, number)| self.add_survivor(number, end_ns));
        }
        let figures = self.figures;
        let details = self.details.into_iter();
        let stats = details.map(|(at, details)| {
            let stats = details.close(&figures[at as usize], end_ns);
            (at, stats)
        });
        let stats = stats.collect();
        (figures, stats)
    }

    /// Adds the lifetime of a block that is live at the end of the image.
    fn add_survivor(&mut self, number: BlockId, end_ns: u64) {
        let block = self.blocks[number];
        for &at in self.table.open_at(block.rank) {
            if counts(&self.table.spans()[at as usize], block.thread)
                && let Some(details) = self.details.get_mut(&at)
            {
                let site = details.sites.of_stack(block.stack);
                let lifetime = end_ns.saturating_sub(block.allocated_ns);
                details.sites.add_survivor(site, lifetime);
            }
        }
    }
}

/// Whether the events of a thread belong to the window while it is open.
#[inline]
fn counts(span: &Span, thread: u32) -> bool {
    span.thread.is_none_or(|only| only == thread)
}

impl Details {
    fn new(site_details: Option<&DetailsBuilder>) -> Self {
        Self {
            of_sites: site_details.cloned(),
            sites: Sites::few(),
            threads: Vec::new(),
            entries: EntryPoint::ALL.map(EntryTotals::none),
            series: None,
            last: LivePoint::default(),
            peak_ns: 0,
        }
    }

    fn allocate(&mut self, step: &Step) {
        let site = self.sites.of_stack(step.stack);
        self.sites.allocate(site, step.size, step.reallocation);
        if let Some(details) = &mut self.of_sites {
            details.allocate(site, Made::of(step));
        }
        let thread = thread(&mut self.threads, step.thread);
        thread.allocations += 1;
        thread.allocated_bytes = thread.allocated_bytes.wrapping_add(step.size);
        let entry = &mut self.entries[step.entry as usize];
        entry.allocations += 1;
        entry.allocated_bytes = entry.allocated_bytes.wrapping_add(step.size);
    }

    fn deallocate(&mut self, step: &Step) {
        thread(&mut self.threads, step.thread).deallocations += 1;
        self.entries[step.entry as usize].deallocations += 1;
    }

    fn release(
        &mut self,
        block: &WindowBlock,
        now: u64,
        in_time: bool,
        freed: Freed,
        temporary: bool,
    ) {
        let site = self.sites.of_stack(block.stack);
        let lifetime = now.saturating_sub(block.allocated_ns);
        if in_time {
            self.sites.deallocate(site, block.size, lifetime, temporary);
            if let Some(details) = &mut self.of_sites {
                details.free(site, block.size, block.thread, freed, lifetime);
            }
        } else {
            self.sites.add_survivor(site, lifetime);
            self.sites.mark_temporary(site, temporary);
        }
        thread(&mut self.threads, block.thread).temporary += u64::from(temporary);
    }

    fn note_level(&mut self, figures: &WindowFigures, highest: bool, now: u64) {
        if highest {
            self.peak_ns = now;
            self.sites.mark_peak();
            if let Some(details) = &mut self.of_sites {
                details.mark_peak();
            }
        }
        let series = self.series.get_or_insert_with(|| Plotter::new(now));
        if series.must_advance(now) {
            series.advance(now, self.last);
        }
        self.last = LivePoint {
            max_bytes: 0,
            bytes: figures.remaining_bytes,
            allocations: figures.remaining_allocations,
            allocated: figures.allocations,
        };
        series.note(self.last.bytes);
    }

    fn close(self, figures: &WindowFigures, end_ns: u64) -> ImageStats {
        let used = |entry: &EntryTotals| entry.allocations + entry.deallocations > 0;
        ImageStats {
            times: None,
            evidence: None,
            details: self.of_sites,
            lost: LostOfImage::default(),
            totals: Totals {
                allocations: figures.allocations,
                allocated_bytes: figures.allocated_bytes,
                deallocations: figures.deallocations,
                reallocations: figures.reallocations,
                temporary_allocations: figures.temporary_allocations,
                leaked_allocations: figures.remaining_allocations,
                leaked_bytes: figures.remaining_bytes,
                peak_bytes: figures.peak_bytes,
                peak_allocations: figures.peak_allocations,
                ..Totals::default()
            },
            peak_ns: self.peak_ns,
            peak_allocated: 0,
            end_ns,
            sites: self.sites.finish(),
            threads: self.threads,
            entries: self.entries.into_iter().filter(used).collect(),
            series: self
                .series
                .map(|series| series.finish(self.last))
                .unwrap_or_default(),
            implied_losses: 0,
            ambiguous: 0,
            unmatched: 0,
        }
    }
}
