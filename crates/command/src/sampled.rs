//! Sampled profiles at the command line: `report` and `show` of one. `diff` and `export` read
//! them as stacks.

use std::path::Path;

use allotrope_profile::Metric;
use allotrope_profile::sampled::{SampledFigures, SampledProfile};
use allotrope_reading::Source;
use allotrope_report::sampled::text::{self, SampledTextOptions};
use allotrope_report::sampled::{SiteRow, interval, json, rows, value, words};
use allotrope_text::{Shown, shown};
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FINE, Failure};
use crate::pager::PagerArguments;
use crate::standard_output;

/// Fails if an option is given that makes no sense for a sampled profile.
pub fn refuse(path: &Path, options: &[(bool, &str)]) -> Result<(), Failure> {
    let Some((_, option)) = options.iter().find(|(is_given, _)| *is_given) else {
        return Ok(());
    };
    let sentence = anyhow!(
        "{} is a sampled profile, which has no single allocations and no times; leave {option} out",
        path.shown()
    );
    Err(Failure::new(BAD_INPUT, sentence))
}

/// Fails if samples do not give the metric.
pub fn check_metric(path: &Path, metric: Metric) -> Result<(), Failure> {
    if SampledFigures::known().has(metric) {
        return Ok(());
    }
    let sentence = anyhow!(
        "{} is a sampled profile and does not give {}; it gives {}, {}, {} and {}",
        path.shown(),
        metric.words(),
        Metric::LeakedBytes,
        Metric::LeakedAllocations,
        Metric::Bytes,
        Metric::Allocations
    );
    Err(Failure::new(BAD_INPUT, sentence))
}

/// Prints a report as JSON.
pub fn report_json(profile: &SampledProfile) -> Result<u8, Failure> {
    standard_output::print(|out| json::write(profile, out))?;
    Ok(FINE)
}

/// Prints a report as text.
pub fn report_text(
    profile: &SampledProfile,
    options: &SampledTextOptions,
    pager: PagerArguments,
) -> Result<u8, Failure> {
    pager.print(|out| text::write(profile, options, out))?;
    Ok(FINE)
}

/// Keeps only the process image with this id.
pub fn keep_process(path: &Path, profile: &mut SampledProfile, id: u32) -> Result<(), Failure> {
    profile.keep_process(id);
    if profile.processes.is_empty() {
        let sentence = anyhow!("there is no process {id} in {}", path.shown());
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    Ok(())
}

/// Shows a site (`site:7`) or a function; without one, what the report shows.
pub fn show(
    path: &Path,
    profile: &SampledProfile,
    what: Option<&str>,
    options: &SampledTextOptions,
    pager: PagerArguments,
) -> Result<u8, Failure> {
    let Some(what) = what else {
        return report_text(profile, options, pager);
    };
    if what.parse::<u64>().is_ok() {
        let sentence = anyhow!(
            "{} is a sampled profile, which has no findings; name a site (site:1) or a function",
            path.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let rows = rows(profile, options.metric);
    let site = what
        .strip_prefix("site:")
        .or_else(|| what.strip_prefix('#'));
    let rows = match site.map(str::parse::<u32>) {
        Some(Ok(number)) => of_site(profile, rows, number),
        Some(Err(_)) => Vec::new(),
        None => of_function(profile, rows, what),
    };
    if rows.is_empty() {
        let sites = profile.sites().count();
        let sentence = anyhow!(
            "there is no site or function '{}' in {}, which has {sites} sites; `allotrope report` lists them",
            shown(what),
            path.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    pager.print(|out| text::write_rows(profile, &rows, options, out))?;
    Ok(FINE)
}

/// The row that has the site with this number.
fn of_site<'a>(profile: &SampledProfile, rows: Vec<SiteRow<'a>>, number: u32) -> Vec<SiteRow<'a>> {
    let site = profile.sites().find(|(site, _)| site.number == number);
    let rows = rows.into_iter();
    rows.filter(|row| site.is_some_and(|(site, _)| site.stack == *row.stack))
        .collect()
}

/// The rows with a frame whose function has this name, or a part of it.
fn of_function<'a>(
    profile: &SampledProfile,
    rows: Vec<SiteRow<'a>>,
    name: &str,
) -> Vec<SiteRow<'a>> {
    let frames = profile.profile.frames.iter();
    let matching: Vec<bool> = frames.map(|it| it.function.contains(name)).collect();
    let is_wanted = |index: &u32| matching.get(*index as usize) == Some(&true);
    let rows = rows.into_iter();
    rows.filter(|row| row.stack.iter().any(is_wanted)).collect()
}

/// Adds the intervals of its sums to the stacks of a sampled profile, and returns them as sentences.
pub fn describe_sums(source: &mut Source) -> Vec<String> {
    let (Some(sampled), Some(sampling)) = (&source.sampled, &mut source.set.run.sampling) else {
        return Vec::new();
    };
    let metrics = [
        Metric::LeakedBytes,
        Metric::LeakedAllocations,
        Metric::Bytes,
        Metric::Allocations,
    ];
    let sums = metrics.into_iter().filter_map(|metric| {
        let estimate = sampled.total.metric(metric)?;
        Some(format!(
            "all {} ({metric}): {}, 95 % interval {}",
            words(metric),
            value(&estimate, metric),
            interval(&estimate, metric)
        ))
    });
    let sums: Vec<String> = sums.collect();
    sampling.notes.extend(sums.iter().cloned());
    sums
}
