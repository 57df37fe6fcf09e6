//! The rows of a list: stacks with the same frames, of whatever process, are one row.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use allotrope_profile::sampled::{SampledFigures, SampledProcess, SampledProfile, SampledSite};
use allotrope_profile::{Metric, Stack};

/// A row of a list.
#[derive(Debug, Clone)]
pub struct SiteRow<'a> {
    /// The number of the first of its sites.
    pub number: u32,
    /// The stack.
    pub stack: &'a Stack,
    /// The samples of its sites, added up.
    pub figures: SampledFigures,
    /// The processes that have it.
    pub processes: Vec<&'a SampledProcess>,
}

/// The rows of a profile, the largest estimates of the metric first.
pub fn rows(profile: &SampledProfile, metric: Metric) -> Vec<SiteRow<'_>> {
    let mut rows: BTreeMap<&Stack, SiteRow<'_>> = BTreeMap::new();
    for process in &profile.processes {
        for site in &process.sites {
            match rows.get_mut(&site.stack) {
                Some(row) => row.add(process, site),
                None => {
                    let row = SiteRow {
                        number: site.number,
                        stack: &site.stack,
                        figures: site.figures,
                        processes: vec![process],
                    };
                    rows.insert(&site.stack, row);
                }
            }
        }
    }
    let mut rows: Vec<SiteRow<'_>> = rows.into_values().collect();
    rows.sort_by_cached_key(|row| {
        let estimate = row.figures.metric(metric);
        let rounded = estimate.map_or(0, |it| it.value.round() as u64);
        (Reverse(rounded), row.number)
    });
    rows
}

impl<'a> SiteRow<'a> {
    fn add(&mut self, process: &'a SampledProcess, site: &SampledSite) {
        self.figures.merge(&site.figures);
        if self
            .processes
            .last()
            .is_none_or(|last| last.id != process.id)
        {
            self.processes.push(process);
        }
    }
}
