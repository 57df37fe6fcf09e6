//! The rows of a list: stacks with the same frames, of whatever process, are one row.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use allotrope_profile::sampled::{SampledFigures, SampledProfile};
use allotrope_profile::{Metric, Process, Stack};

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
    pub processes: Vec<&'a Process>,
}

/// The rows of a profile, the largest estimates of the metric first.
pub fn rows(profile: &SampledProfile, metric: Metric) -> Vec<SiteRow<'_>> {
    let mut rows: BTreeMap<&Stack, SiteRow<'_>> = BTreeMap::new();
    for (process, samples) in profile.sampled_processes() {
        for (site, figures) in process.sites.iter().zip(&samples.sites) {
            let row = rows
                .entry(&site.stack)
                .and_modify(|row| row.figures.merge(figures))
                .or_insert_with(|| SiteRow {
                    number: site.number,
                    stack: &site.stack,
                    figures: *figures,
                    processes: Vec::new(),
                });
            if row
                .processes
                .last()
                .is_none_or(|last| last.id != process.id)
            {
                row.processes.push(process);
            }
        }
    }
    let mut rows: Vec<SiteRow<'_>> = rows.into_values().collect();
    rows.sort_by_cached_key(|row| (Reverse(row.figures.rounded(metric)), row.number));
    rows
}
