//! Finds the runs of a window, and reads their profiles: one run of each process
//! ([`Recording::window`]), or all runs that can be compared ([`comparable`]).

use std::collections::BTreeSet;
use std::path::Path;

use allotrope_profile::{Profile, WindowKey, WindowRun, aggregate_windows};
use allotrope_text::Shown;
use allotrope_text::numbers::count;

use crate::error::ReadingError;
use crate::recording::{Recording, Selection};

/// Largest number of names of windows that an error lists.
const LISTED: usize = 10;
/// Largest number of runs of a window that are compared.
const MAX_RUNS: usize = 100;

/// All runs of the window `name`, process by process, in order of opening. Fails if
/// there is none.
fn named<'p>(
    path: &Path,
    profile: &'p Profile,
    name: &str,
) -> Result<Vec<&'p WindowRun>, ReadingError> {
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
    Err(ReadingError::Unusable(format!(
        "there is no window '{}' in {path}: {known}",
        name.shown()
    )))
}

impl Recording {
    /// One run of the window `name` in each process that has the window: that with the number
    /// `occurrence`, or, without a number, that with the fewest allocations. `profile` is that of
    /// the processes to look at.
    ///
    /// # Errors
    /// If there is no such window or run, or the file cannot be read.
    pub fn window(
        &self,
        profile: &Profile,
        name: &str,
        occurrence: Option<u32>,
    ) -> Result<Selection, ReadingError> {
        let runs = named(self.path(), profile, name)?;
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
            return Err(nothing_to_show(self.path(), &runs, name));
        };
        let keys: Vec<WindowKey> = chosen.iter().map(|run| run.key).collect();
        Ok(Selection {
            line: line(first, &runs, chosen.len(), occurrence.is_none()),
            profile: self.windows(&keys)?,
        })
    }

    /// The figures of these runs of windows: a profile with one process for each key, in the
    /// order of the keys.
    pub(crate) fn windows(&self, keys: &[WindowKey]) -> Result<Profile, ReadingError> {
        self.detailed("reading the windows", |options| {
            aggregate_windows(self.trace(), options, keys)
        })
    }
}

/// Why no run of a window could be selected.
fn nothing_to_show(path: &Path, runs: &[&WindowRun], name: &str) -> ReadingError {
    let (name, path) = (name.shown(), path.shown());
    let last = runs.iter().map(|run| run.occurrence).max().unwrap_or(0);
    if runs.iter().all(|run| !run.measured) {
        return ReadingError::Unusable(format!(
            "no run of the window '{name}' in {path} was measured: too many windows were open at once; close them"
        ));
    }
    ReadingError::Unusable(format!(
        "the window '{name}' in {path} has no such run; its runs are 1 to {last}"
    ))
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
pub(crate) fn comparable<'p>(
    path: &Path,
    profile: &'p Profile,
    name: &str,
) -> Result<(Vec<&'p WindowRun>, Vec<String>), ReadingError> {
    let all = named(path, profile, name)?;
    let mut runs: Vec<&WindowRun> = all
        .iter()
        .copied()
        .filter(|run| run.closed && run.measured)
        .collect();
    let mut notes = Vec::new();
    let (shown, name) = (path.shown(), name.shown());
    if runs.is_empty() {
        return Err(ReadingError::Unusable(format!(
            "no run of the window '{name}' in {shown} was closed: there is nothing to compare"
        )));
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
