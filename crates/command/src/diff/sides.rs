//! The files of both sides of a comparison, read.

use std::path::PathBuf;

use allotrope_diff::chance::SideFigures;
use allotrope_formats::Limits;
use allotrope_profile::StackSet;
use allotrope_reading::{Source, WindowRuns};
use allotrope_text::{Shown, shown};
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, Failure};
use crate::message;
use crate::progress::reader;

/// The runs that were read, by side.
pub struct Sides {
    pub before: Vec<StackSet>,
    pub after: Vec<StackSet>,
    /// The samples of the sides, if one of them is a sampled profile.
    pub sampled: Option<[SideFigures; 2]>,
    /// With `--window`, the iterations that each run of both sides declares (0: none).
    pub iterations: Vec<u64>,
}

impl Sides {
    /// The number of iterations of a run, if all runs declare the same.
    pub fn common_iterations(&self) -> Option<f64> {
        let first = *self.iterations.first().filter(|&&first| first > 0)?;
        let all = self.iterations.iter().all(|&other| other == first);
        all.then_some(first as f64)
    }

    /// Notes on what else differs between the sides than the program, and between runs.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.differing_iterations());
        notes.extend(self.differing_surroundings());
        notes
    }

    /// A note if more than the program differs between the sides.
    fn differing_surroundings(&self) -> Option<String> {
        let (before, after) = (self.before.first()?, self.after.first()?);
        let differences = after.run.differences(&before.run);
        (!differences.is_empty()).then(|| {
            format!(
                "note: not only the program's code differs: {}",
                shown(&differences.join("; "))
            )
        })
    }

    /// A note if the runs declare different numbers of iterations.
    fn differing_iterations(&self) -> Option<String> {
        let declared = self.iterations.iter().filter(|&&number| number > 0);
        let (least, most) = (declared.clone().min()?, declared.max()?);
        (least != most).then(|| {
            format!(
                "note: the runs make {least} to {most} iterations; their figures are compared as they are"
            )
        })
    }
}

/// A file that was read. It is kept for its notes, which are printed once all files
/// have been read.
#[allow(clippy::large_enum_variant, reason = "there are only a few")]
pub enum Input {
    Whole(Source),
    Window(WindowRuns),
}

impl Input {
    pub fn notes(&self) -> &[String] {
        match self {
            Self::Whole(source) => &source.notes,
            Self::Window(runs) => &runs.notes,
        }
    }

    pub fn print_notes(&self) {
        self.notes().iter().for_each(message::print);
    }
}

/// What is read of the files.
pub struct Wanted<'a> {
    /// What happened in the window with this name; all without one.
    pub window: Option<&'a str>,
    /// The curves of recordings, too, which a page has.
    pub curves: bool,
    /// What each file may cost.
    pub limits: Limits,
}

/// Reads the files of both sides.
pub fn read(files: [&[PathBuf]; 2], wanted: &Wanted<'_>) -> Result<(Sides, Vec<Input>), Failure> {
    let reader = reader(wanted.limits);
    let mut inputs = Vec::new();
    let mut iterations = Vec::new();
    let mut side = |paths: &[PathBuf]| -> Result<Vec<StackSet>, Failure> {
        let mut sets = Vec::new();
        for path in paths {
            if let Some(name) = wanted.window {
                let mut runs = reader.window_runs(path, name)?;
                sets.append(&mut runs.sets);
                iterations.append(&mut runs.iterations);
                inputs.push(Input::Window(runs));
                continue;
            }
            let mut source = match wanted.curves {
                false => reader.stacks(path)?,
                true => reader.recorded_stacks(path, allotrope_reading::Wanted::default())?,
            };
            let mut set = std::mem::take(&mut source.set);
            // Errors and headings name the run by its title.
            set.title = path.shown().into_owned();
            sets.push(set);
            inputs.push(Input::Whole(source));
        }
        Ok(sets)
    };
    let [before, after] = files;
    let (before, after) = (side(before)?, side(after)?);
    let sampled = sampled(&mut inputs)?;
    let sides = Sides {
        before,
        after,
        sampled,
        iterations,
    };
    Ok((sides, inputs))
}

/// The samples of the sides, if one of them is a sampled profile, which must be alone on its
/// side.
fn sampled(inputs: &mut [Input]) -> Result<Option<[SideFigures; 2]>, Failure> {
    let is_sampled = |input: &Input| matches!(input, Input::Whole(it) if it.sampled.is_some());
    if !inputs.iter().any(is_sampled) {
        return Ok(None);
    }
    if inputs.len() != 2 {
        return Err(Failure::new(
            BAD_INPUT,
            anyhow!("a sampled profile is compared alone: name one file for each side"),
        ));
    }
    let mut figures = inputs.iter_mut().map(|input| match input {
        Input::Whole(Source { sampled, .. }) => match sampled.take() {
            None => SideFigures::Exact,
            Some(samples) => SideFigures::Sampled(samples),
        },
        Input::Window(_) => SideFigures::Exact,
    });
    Ok(figures.next().zip(figures.next()).map(<[_; 2]>::from))
}

/// The names of the files of a side.
pub fn titles(sets: &[StackSet]) -> Vec<String> {
    let mut titles: Vec<String> = sets.iter().map(|set| set.title.clone()).collect();
    // Runs of one window of one file have one title.
    titles.dedup();
    titles
}
