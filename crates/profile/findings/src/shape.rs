//! When the blocks of some sites were allocated and freed: what several rules ask about it. All of it
//! is about numbers of blocks, so that one large table says no more than one small block, and
//! none of it about widths of time, which depend on what else the machine does.

use allotrope_profile::{BlockSum, LIVE_AT_END, TimeCell};

use crate::context::Context;

/// Least cosine of the numbers of blocks by time of two kinds of blocks that are parts of one
/// object.
const IN_STEP: f64 = 0.9;

/// The numbers of blocks that were allocated in each bucket, and of those that were freed in
/// each; the last of the latter is those that are live at the end.
pub(crate) struct Steps {
    allocated: Vec<f64>,
    freed: Vec<f64>,
}

impl Context<'_> {
    /// When the blocks of these sites were allocated and freed.
    pub(crate) fn steps(&self, sites: &[u32]) -> Steps {
        let buckets = self.table.starts_ns.len();
        let mut steps = Steps {
            allocated: vec![0.0; buckets + 1],
            freed: vec![0.0; buckets + 1],
        };
        for cell in self.cells(sites) {
            let blocks = cell.blocks as f64;
            steps.allocated[usize::from(cell.allocated).min(buckets)] += blocks;
            steps.freed[usize::from(cell.freed).min(buckets)] += blocks;
        }
        steps
    }

    /// What was allocated in each of the equal parts of a range of time, and is live after this
    /// bucket.
    pub(crate) fn kept_by_part<'c>(
        &self,
        cells: impl Iterator<Item = &'c TimeCell>,
        [from_ns, to_ns]: [u64; 2],
        after: usize,
        parts: usize,
    ) -> Vec<BlockSum> {
        let mut kept = vec![BlockSum::default(); parts];
        let span = u128::from(to_ns.saturating_sub(from_ns).max(1));
        for cell in cells {
            let is_kept = cell.freed == LIVE_AT_END || usize::from(cell.freed) > after;
            if !is_kept || usize::from(cell.allocated) > after {
                continue;
            }
            let start = self.table.starts_ns[usize::from(cell.allocated)];
            let passed = u128::from(start.saturating_sub(from_ns));
            let part = ((passed * parts as u128 / span) as usize).min(parts - 1);
            kept[part].blocks += cell.blocks;
            kept[part].bytes = kept[part].bytes.saturating_add(cell.bytes);
        }
        kept
    }

    /// Whether the blocks of these sites are allocated and freed in step: as parts of one object
    /// are.
    pub(crate) fn are_in_step(&self, a: &[u32], b: &[u32]) -> bool {
        self.steps(a).are_in_step(&self.steps(b))
    }
}

impl Steps {
    pub(crate) fn are_in_step(&self, other: &Self) -> bool {
        cosine(&self.allocated, &other.allocated) >= IN_STEP
            && cosine(&self.freed, &other.freed) >= IN_STEP
    }
}

/// The cosine of the angle between two vectors; 0 if one of them has no length.
fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let lengths = product(a, a) * product(b, b);
    match lengths > 0.0 {
        true => product(a, b) / lengths.sqrt(),
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::cosine;

    #[test]
    fn multiples_are_in_step_and_others_are_not() {
        assert!((cosine(&[1.0, 0.0, 3.0], &[2.0, 0.0, 6.0]) - 1.0).abs() < 1e-9);
        assert!(cosine(&[1.0, 1.0, 0.0, 0.0], &[0.0, 1.0, 1.0, 1.0]) < 0.5);
        assert_eq!(cosine(&[0.0], &[1.0]), 0.0);
    }
}
