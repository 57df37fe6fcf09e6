//! Finds the runs of a window that `--window NAME` and `--run N` select, and reads
//! their profiles: for `report` one run of each process ([`one`]), for `diff` all runs
//! that can be compared ([`comparable`]).

use std::collections::BTreeSet;
use std::path::Path;

use allotrope_text::Shown as _;

use allotrope_profile::{Options, Profile, WindowKey, WindowRun, aggregate_windows};
use allotrope_report::numbers::count;
use allotrope_trace::TraceReader;
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, Failure};
use crate::progress::Progress;
use crate::trace;

/// Largest number of names of windows that an error lists.
const LISTED: usize = 10;
/// Largest number of runs of a window that are compared.
const MAX_RUNS: usize = 100;

/// All runs of the window `name`, process by process, in order of opening. Fails if
/// there is none.
pub fn named<'p>(
    path: &Path,
    profile: &'p Profile,
    name: &str,
) -> Result<Vec<&'p WindowRun>, Failure> {
    let all = || profile.processes.iter().flat_map(|it| &it.windows);
    let found: Vec<&WindowRun> = all().filter(|run| run.name == name).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let names: BTreeSet<String> = all().map(|run| run.name.shown().into_owned()).collect();
    let listed: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    let known = match names.len() {
        0 => "it has none; a program opens them with allotrope_window_open".to_owned(),
        1..=LISTED => format!("its windows are {}", listed.join(", ")),
        many => format!("it has {many}, among them {}", listed.join(", ")),
    };
    let path = path.shown();
    Err(Failure::new(
        BAD_INPUT,
        anyhow!("there is no window '{}' in {path}: {known}", name.shown()),
    ))
}

/// The selected runs of a window: a profile with one run of each process that has the
/// window, and the line that describes the selection.
pub struct Shown {
    pub profile: Profile,
    pub line: String,
}

/// Selects the run with the number `occurrence` in each process, or, without a number,
/// the run with the fewest allocations in each process.
pub fn one(
    path: &Path,
    trace: &TraceReader,
    profile: &Profile,
    name: &str,
    occurrence: Option<u32>,
) -> Result<Shown, Failure> {
    let runs = named(path, profile, name)?;
    let mut chosen: Vec<&WindowRun> = Vec::new();
    for run in runs.iter().filter(|run| run.measured) {
        let wanted = occurrence.is_none_or(|wanted| run.occurrence == wanted);
        match chosen.last_mut() {
            _ if !wanted => {}
            Some(last) if last.key.image == run.key.image => {
                // A run that was not closed has few allocations because it was cut
                // short: it comes last.
                let rank = |run: &WindowRun| (!run.closed, run.figures.allocations);
                if rank(run) < rank(last) {
                    *last = run;
                }
            }
            _ => chosen.push(run),
        }
    }
    let Some(first) = chosen.first() else {
        return Err(Failure::new(BAD_INPUT, nothing_to_show(path, &runs, name)));
    };
    let line = line(first, &runs, chosen.len(), occurrence.is_none());
    let keys: Vec<WindowKey> = chosen.iter().map(|run| run.key).collect();
    Ok(Shown {
        profile: stacks(path, trace, &keys)?,
        line,
    })
}

/// Why no run of a window could be selected.
fn nothing_to_show(path: &Path, runs: &[&WindowRun], name: &str) -> anyhow::Error {
    let (name, path) = (name.shown(), path.shown());
    let last = runs.iter().map(|run| run.occurrence).max().unwrap_or(0);
    if runs.iter().all(|run| !run.measured) {
        return anyhow!(
            "no run of the window '{name}' in {path} was measured: too many windows were open at once; close them"
        );
    }
    anyhow!("the window '{name}' in {path} has no such run; its runs are 1 to {last}")
}

/// A line that describes the selected run. `runs`: all runs of the window;
/// `processes`: how many processes have it; `fewest`: no number was given.
fn line(run: &WindowRun, runs: &[&WindowRun], processes: usize, fewest: bool) -> String {
    let of_image = runs.iter().filter(|it| it.key.image == run.key.image);
    let mut line = format!("window {}", run.name);
    match of_image.count() {
        1 => {}
        _ if processes > 1 && fewest => {
            line.push_str(": the run with the fewest allocations of each process")
        }
        many => {
            line.push_str(&format!(": run {} of {many}", run.occurrence));
            let same_image = || runs.iter().filter(|it| it.key.image == run.key.image);
            let all_equal =
                same_image().all(|it| it.figures.allocations == run.figures.allocations);
            if all_equal {
                line.push_str("; all have the same number of allocations");
            } else if fewest {
                line.push_str(", the one with the fewest allocations");
            }
        }
    }
    if run.iterations > 0 {
        line.push_str(&format!(" · {} iterations", count(run.iterations)));
    }
    if run.thread.is_some() {
        line.push_str(" · one thread");
    }
    if !run.closed {
        line.push_str(" · not closed");
    }
    line
}

/// The first [`MAX_RUNS`] runs of a window that can be compared, that is, were closed
/// and measured, and notes on the runs that are left out.
pub fn comparable<'p>(
    path: &Path,
    profile: &'p Profile,
    name: &str,
) -> Result<(Vec<&'p WindowRun>, Vec<String>), Failure> {
    let all = named(path, profile, name)?;
    let mut runs: Vec<&WindowRun> = all
        .iter()
        .copied()
        .filter(|run| run.closed && run.measured)
        .collect();
    let mut notes = Vec::new();
    let (shown, name) = (path.shown(), name.shown());
    if runs.is_empty() {
        return Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "no run of the window '{name}' in {shown} was closed: there is nothing to compare"
            ),
        ));
    }
    if runs.len() < all.len() {
        notes.push(format!(
            "note: {shown}: {} of {} runs of the window '{name}' were not closed or not measured and are left out",
            all.len() - runs.len(),
            all.len()
        ));
    }
    if runs.len() > MAX_RUNS {
        notes.push(format!(
            "note: {shown}: the first {MAX_RUNS} of {} runs of the window '{name}' are compared",
            runs.len()
        ));
        runs.truncate(MAX_RUNS);
    }
    Ok((runs, notes))
}

/// Aggregates the trace for these runs of windows. The profile has one process for each
/// key, in the order of the keys.
pub fn stacks(path: &Path, trace: &TraceReader, keys: &[WindowKey]) -> Result<Profile, Failure> {
    let progress = Progress::new(false);
    let show = |done, total| progress.show("reading the windows", done, total);
    let options = Options {
        progress: Some(&show),
        site_details: true,
        ..Options::default()
    };
    let profile = aggregate_windows(trace, &options, keys);
    progress.finish();
    profile.map_err(|error| trace::not_aggregated(path, error))
}
