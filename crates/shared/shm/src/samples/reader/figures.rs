//! Figures, estimated from samples: of the live blocks, and of all since the beginning.
//!
//! They are about the blocks that were allocated while sampling was on. Where samples were
//! lost (`Counters::lost_samples`, `Counters::lost_totals`) they are too low.

use std::collections::BTreeMap;

use allotrope_sampling::estimate::Figures;

use crate::samples::reader::{State, Total};
use crate::samples::writer::Sample;

impl State {
    /// The figures of no block, among all that are live. `None`: sampling was never on.
    pub fn none(&self) -> Option<Figures> {
        self.periods.none()
    }

    /// The figures of all live blocks. `None`: sampling was never on, so that nothing is
    /// known.
    pub fn live(&self) -> Option<Figures> {
        let mut figures = self.none()?;
        for sample in &self.samples {
            figures.add(sample.size, sample.period);
        }
        Some(figures)
    }

    /// The figures of the live blocks by the id of their stack. Those of stacks of which no live
    /// block was sampled are not there.
    pub fn live_by_stack(&self) -> BTreeMap<u32, Figures> {
        let mut all = BTreeMap::new();
        for Sample {
            stack,
            size,
            period,
            ..
        } in &self.samples
        {
            // Blocks of the stack may have been missed at any period that was in force.
            all.entry(*stack)
                .or_insert_with(|| self.none().unwrap_or(Figures::new(*period)))
                .add(*size, *period);
        }
        all
    }

    /// The figures of all blocks that were allocated while sampling was on. `None`: sampling was never on.
    pub fn allocated(&self) -> Option<Figures> {
        let mut figures = Figures::new(self.periods.longest?);
        for total in &self.totals {
            total.add_allocated(&mut figures);
        }
        Some(figures)
    }

    /// Returns the figures of those blocks of [`State::allocated`] that were freed.
    pub fn freed(&self) -> Option<Figures> {
        let mut figures = Figures::new(self.periods.longest?);
        for total in &self.totals {
            total.add_freed(&mut figures);
        }
        Some(figures)
    }

    /// The figures of the blocks that were allocated, by the id of their stack.
    pub fn allocated_by_stack(&self) -> BTreeMap<u32, Figures> {
        let mut all = BTreeMap::new();
        for total in &self.totals {
            let longest = self.periods.longest.unwrap_or(total.period);
            let figures = all.entry(total.stack);
            total.add_allocated(figures.or_insert_with(|| Figures::new(longest)));
        }
        all
    }
}

impl Total {
    fn add_allocated(&self, figures: &mut Figures) {
        figures.add_sum(
            self.allocated,
            self.allocated_bytes,
            self.sizes,
            self.period,
        );
    }

    fn add_freed(&self, figures: &mut Figures) {
        figures.add_sum(self.freed, self.freed_bytes, self.sizes, self.period);
    }
}
