//! Figures of the live blocks, estimated from the live samples.
//!
//! They are about the blocks that were allocated while sampling was on. Where samples were
//! lost (`Counters::lost_samples`) they are too low.

use std::collections::BTreeMap;

use allotrope_sampling::estimate::Figures;

use crate::reader::State;
use crate::writer::Sample;

impl State {
    /// The figures of all live blocks. `None`: sampling was never on, so that nothing is
    /// known.
    pub fn live(&self) -> Option<Figures> {
        let mut figures = Figures::new(self.longest_period?);
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
            let longest = self.longest_period.unwrap_or(*period);
            all.entry(*stack)
                .or_insert_with(|| Figures::new(longest))
                .add(*size, *period);
        }
        all
    }
}
