//! The sites of the page: those of the profile, as many as fit. The lightest ones may share a
//! stack that consists of their headline frame only; then their figures are added up, so
//! that all sums stay the same.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use allotrope_attribution::Headlines;
use allotrope_profile::sampled::SampledFigures;
use allotrope_profile::{
    Lifetimes, Process, Site, SiteDetails, Stack, TimeCell, TimeTable, Totals,
};
use rustc_hash::FxHashMap;

/// A site of the page.
#[derive(Debug, Clone, Default)]
pub struct PageSite {
    /// Index of its process in the page.
    pub process: u32,
    /// Number of the site in `allotrope report`; 0 for several sites that were put together.
    pub number: u32,
    /// Frames of the stack, innermost first.
    pub stack: Stack,
    /// The frame that stands for it.
    pub head: Option<u32>,
    /// The place of this frame in the stack, and of the first one that text shows.
    pub shown: [u32; 2],
    /// The type of its blocks, if it is known and the same for all.
    pub type_name: Option<String>,
    /// How many sites of the profile these are.
    pub together: u64,
    /// See [`Site`] for these.
    pub allocations: u64,
    pub bytes: u64,
    pub reallocations: u64,
    pub temporary: u64,
    pub leaked: [u64; 2],
    pub at_peak: [u64; 2],
    pub lifetimes: Lifetimes,
    pub details: Option<SiteDetails>,
    /// When its blocks were allocated and freed.
    pub cells: Vec<TimeCell>,
    /// See [`TimeTable::widened`].
    pub widened: u8,
    /// Samples of the site, if the profile is sampled.
    pub samples: Option<SampledFigures>,
}

impl PageSite {
    /// A site of the profile.
    pub fn new(process: u32, site: &Site, headlines: &Headlines) -> Self {
        Self {
            process,
            number: site.number,
            stack: site.stack.clone(),
            head: headlines.head(site),
            shown: [headlines.headline(site), headlines.first_shown(site)].map(|it| it as u32),
            together: 1,
            allocations: site.allocations,
            bytes: site.allocated_bytes,
            reallocations: site.reallocations,
            temporary: site.temporary_allocations,
            leaked: [site.leaked_allocations, site.leaked_bytes],
            at_peak: [site.allocations_at_peak, site.bytes_at_peak],
            lifetimes: site.lifetimes,
            details: site.details.as_deref().cloned(),
            ..Self::default()
        }
    }

    fn add(&mut self, other: Self) {
        let add = |sum: &mut u64, value: u64| *sum = sum.saturating_add(value);
        if self.type_name != other.type_name {
            self.type_name = None;
        }
        add(&mut self.together, other.together);
        add(&mut self.allocations, other.allocations);
        add(&mut self.bytes, other.bytes);
        add(&mut self.reallocations, other.reallocations);
        add(&mut self.temporary, other.temporary);
        for at in 0..2 {
            add(&mut self.leaked[at], other.leaked[at]);
            add(&mut self.at_peak[at], other.at_peak[at]);
        }
        self.lifetimes.merge(&other.lifetimes);
        match (&mut self.details, other.details) {
            (Some(details), Some(other)) => details.merge(&other),
            (details @ None, other) => *details = other,
            (Some(_), None) => {}
        }
        match (&mut self.samples, &other.samples) {
            (Some(samples), Some(other)) => samples.merge(other),
            (samples @ None, other) => *samples = *other,
            (Some(_), None) => {}
        }
        self.cells.extend(other.cells);
        self.widened = self.widened.max(other.widened);
    }

    /// Adds up equal cells, and brings all in order of time.
    fn sum_up_cells(&mut self) {
        let mut sums: BTreeMap<(u16, u16), (u64, u64)> = BTreeMap::new();
        for cell in &self.cells {
            let sum = sums.entry((cell.allocated, cell.freed)).or_default();
            sum.0 += cell.blocks;
            sum.1 = sum.1.wrapping_add(cell.bytes);
        }
        let cells = sums.into_iter();
        self.cells = cells
            .map(|((allocated, freed), (blocks, bytes))| TimeCell {
                site: 0,
                allocated,
                freed,
                blocks,
                bytes,
            })
            .collect();
    }

    /// The order in which sites are kept whole: the geometric mean of its parts of what the
    /// process did and of what all did. So the sites of a thousand small processes do not take the
    /// room of those of a large one, and the largest sites of each process remain.
    pub fn weight(&self, process: &Process, run: &Totals) -> f64 {
        let part = |part: u64, process: u64, run: u64| {
            part as f64 / (process.max(1) as f64 * run.max(1) as f64).sqrt()
        };
        let totals = &process.totals;
        part(self.allocations, totals.allocations, run.allocations)
            .max(part(
                self.bytes,
                totals.allocated_bytes,
                run.allocated_bytes,
            ))
            .max(part(self.at_peak[1], totals.peak_bytes, run.peak_bytes))
            .max(part(self.leaked[1], totals.leaked_bytes, run.leaked_bytes))
    }
}

/// The sums of all processes that [`PageSite::weight`] needs.
pub fn sums(processes: &[&Process]) -> Totals {
    let mut sums = Totals::default();
    for Process { totals, .. } in processes {
        for (sum, value) in [
            (&mut sums.allocations, totals.allocations),
            (&mut sums.allocated_bytes, totals.allocated_bytes),
            (&mut sums.peak_bytes, totals.peak_bytes),
            (&mut sums.leaked_bytes, totals.leaked_bytes),
        ] {
            *sum = sum.saturating_add(value);
        }
    }
    sums
}

/// How many sites were put together, of how many.
#[derive(Debug, Default, Clone, Copy)]
pub struct Together {
    /// Sites of the profile whose callers the page does not have.
    pub sites: u64,
    /// Allocations of these sites.
    pub allocations: u64,
}

/// Keeps the stacks of `most` sites, the heaviest of the processes, and puts the others
/// together by process and headline frame.
pub fn put_together(sites: &mut Vec<PageSite>, processes: &[&Process], most: usize) -> Together {
    let mut together = Together::default();
    if sites.len() <= most {
        return together;
    }
    let run = sums(processes);
    let weight = |site: &PageSite| site.weight(processes[site.process as usize], &run);
    let mut weights: Vec<f64> = sites.iter().map(weight).collect();
    weights.sort_by(|a, b| b.total_cmp(a));
    let least = weights[most];
    let (kept, light): (Vec<_>, Vec<_>) = sites.drain(..).partition(|site| weight(site) > least);
    *sites = kept;
    for site in &light {
        together.sites += site.together;
        together.allocations = together.allocations.saturating_add(site.allocations);
    }
    let mut sums = add_up(light);
    if sums.len() > most {
        // Of the lightest functions not even the names.
        sums.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        sums[most..].iter_mut().for_each(|sum| sum.head = None);
        sums = add_up(sums);
    }
    sums.sort_by_key(|site| (site.process, Reverse(site.allocations), site.head));
    sums.iter_mut().for_each(PageSite::sum_up_cells);
    sites.extend(sums);
    sites.sort_by_key(|site| site.process);
    together
}

/// Adds up sites of a process that have the same headline frame.
fn add_up(sites: Vec<PageSite>) -> Vec<PageSite> {
    let mut sums: FxHashMap<(u32, Option<u32>), PageSite> = FxHashMap::default();
    for site in sites {
        let key = (site.process, site.head);
        match sums.get_mut(&key) {
            Some(sum) => sum.add(site),
            None => {
                let stack = Stack::from(site.head.into_iter().collect::<Vec<_>>());
                let sum = PageSite {
                    number: 0,
                    shown: [0, 0],
                    stack,
                    ..site
                };
                sums.insert(key, sum);
            }
        }
    }
    sums.into_values().collect()
}

/// The tables of some processes with at most so many cells together: the largest ones get
/// wider buckets for the sites with the fewest blocks for each cell.
pub fn tables_with_at_most<'a>(
    tables: impl Iterator<Item = Option<&'a TimeTable>>,
    cells: usize,
) -> Vec<TimeTable> {
    let mut tables: Vec<TimeTable> = tables.map(|it| it.cloned().unwrap_or_default()).collect();
    loop {
        let sum: usize = tables.iter().map(|table| table.cells.len()).sum();
        let largest = tables.iter_mut().max_by_key(|table| table.cells.len());
        let Some(largest) = largest.filter(|_| sum > cells) else {
            return tables;
        };
        let before = largest.cells.len();
        let most = (before / 2).max(before.saturating_sub(sum - cells));
        *largest = largest.with_at_most(most);
        if largest.cells.len() == before {
            return tables;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(process: u32, head: u32, allocations: u64) -> PageSite {
        PageSite {
            process,
            number: head * 10,
            stack: Stack::from(vec![99, head, 1]),
            head: Some(head),
            shown: [1, 1],
            together: 1,
            allocations,
            bytes: allocations * 8,
            cells: vec![TimeCell {
                site: 7,
                allocated: 3,
                freed: 4,
                blocks: allocations,
                bytes: allocations * 8,
            }],
            ..PageSite::default()
        }
    }

    #[test]
    fn light_sites_share_a_stack_and_sums_stay() {
        let mut process = Process::default();
        process.totals.allocations = 118;
        process.totals.allocated_bytes = 118 * 8;
        let all = [(1, 100), (2, 5), (2, 6), (3, 7)];
        let mut sites: Vec<_> = all.iter().map(|&(head, n)| site(0, head, n)).collect();
        let together = put_together(&mut sites, &[&process], 1);
        assert_eq!((together.sites, together.allocations), (3, 18));
        let shown: Vec<_> = sites
            .iter()
            .map(|it| {
                (
                    it.number,
                    it.stack.to_vec(),
                    it.allocations,
                    it.cells[0].blocks,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (10, vec![99, 1, 1], 100, 100),
                (0, vec![2], 11, 11),
                // Of the lightest, only what it did.
                (0, vec![], 7, 7)
            ]
        );
        assert_eq!(sites[1].cells.len(), 1);
        assert_eq!(sites[1].together, 2);
    }
}
