//! The comparison as a page, for `allotrope diff --html OUT.html` and `allotrope view FILE OTHER`. What is on it, and how
//! large it may be, is the business of `allotrope-page`.

use allotrope_diff::{Diff, DiffOptions};
use allotrope_page::{ComparedSide, Comparison};
use allotrope_profile::{Filter, Metric, Profile, StackSet};
use anyhow::Context;

use super::compared;
use super::sides::{Input, Sides, titles};
use crate::exit_status::{FAILED, Failure, WithStatus};

/// The page of this comparison, and of the same sides by all other metrics that they give. It has
/// the entries that match the filter.
pub fn bytes(
    sides: &Sides,
    inputs: &[Input],
    diff: &Diff,
    options: &DiffOptions,
    filter: Option<&Filter>,
) -> Result<Vec<u8>, Failure> {
    let mut diffs = vec![diff.clone()];
    for metric in other_metrics(sides, diff.metric) {
        let options = DiffOptions {
            metric,
            ..options.clone()
        };
        diffs.push(compared(sides, &options)?);
    }
    let mut notes = sides.notes();
    notes.extend(inputs.iter().flat_map(|input| input.notes().to_vec()));
    let side = |sets, total, inputs| Side {
        titles: titles(sets),
        sets,
        profile: profile(sets, diff.metric, total, inputs),
    };
    // A window has several runs of one file, and no curve of its own.
    let has_windows = inputs.iter().any(|it| matches!(it, Input::Window(_)));
    let (before, after) = match has_windows {
        false => inputs.split_at(sides.before.len().min(inputs.len())),
        true => (&[][..], &[][..]),
    };
    let sides = [
        side(&sides.before, diff.before, before),
        side(&sides.after, diff.after, after),
    ];
    let comparison = Comparison {
        diffs: &diffs,
        sides: sides.each_ref().map(Side::compared),
        glue: &options.glue,
        filter,
        notes: &notes,
    };
    let mut page = Vec::new();
    allotrope_page::write_comparison(&comparison, &mut page)
        .context("cannot make the page")
        .status(FAILED)?;
    Ok(page)
}

struct Side<'a> {
    titles: Vec<String>,
    sets: &'a [StackSet],
    profile: Option<&'a Profile>,
}

impl Side<'_> {
    fn compared(&self) -> ComparedSide<'_> {
        ComparedSide {
            titles: &self.titles,
            sets: self.sets,
            profile: self.profile,
        }
    }
}

/// The metrics that the command line offers and all runs give, but for one.
fn other_metrics(sides: &Sides, but: Metric) -> impl Iterator<Item = Metric> {
    let all = || sides.before.iter().chain(&sides.after);
    let given = move |&metric: &Metric| all().all(|set| set.known.has(metric));
    let metrics = Metric::OFFERED.into_iter();
    metrics.filter(move |&metric| metric != but).filter(given)
}

/// The recording of the run whose figures a side has, if it is one.
fn profile<'a>(
    sets: &[StackSet],
    metric: Metric,
    total: u64,
    inputs: &'a [Input],
) -> Option<&'a Profile> {
    let index = sets.iter().position(|set| set.total(metric) == total)?;
    match inputs.get(index)? {
        Input::Whole(source) => source.recorded.as_ref().map(|it| &it.profile),
        Input::Window(_) => None,
    }
}
