//! `allotrope diff` of two saved reports of `allotrope paths`.

use std::io::BufReader;
use std::path::Path;

use allotrope_allocators::paths::compare::{Comparison, compare};
use allotrope_allocators::paths::{Report, text};
use allotrope_files::open_regular;
use allotrope_text::Shown;
use anyhow::{Context, anyhow};

use super::arguments::Arguments;
use super::limit::FailOn;
use super::saved::{self, bytes, refuse_stack_options};
use crate::exit_status::{BAD_INPUT, FINE, Failure, REGRESSION, WithStatus};
use crate::message;

/// Whether a file is a saved report. One that cannot be read is none: the other readers say
/// why.
pub fn is_saved(path: &Path) -> bool {
    open_regular(path).is_ok_and(|file| Report::is_saved(BufReader::new(file)))
}

/// Compares two saved reports, and returns the exit status.
pub fn run(arguments: &Arguments, [before, after]: [&Path; 2]) -> Result<u8, Failure> {
    let what = "two reports of `allotrope paths` are compared as a whole, by instructions, as text, Markdown or JSON";
    refuse_stack_options(arguments, false, what)?;
    let limits = arguments.fail_on.iter().map(|limit| match limit {
        FailOn::Instructions(limit) => Ok(*limit),
        FailOn::Metric(_) | FailOn::CpuTime(_) => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "reports of `allotrope paths` are compared by instructions; write --fail-on 'instructions>+2%'"
            ),
        )),
    });
    let limits = limits.collect::<Result<Vec<_>, _>>()?;
    let comparison = compare(&read(before)?, &read(after)?, &limits).status(BAD_INPUT)?;
    saved::print(arguments, &comparison, || text::comparison(&comparison))?;
    Ok(status(&comparison, !limits.is_empty()))
}

/// The exit status. What is missing could have risen by any number: it passes no limit.
fn status(comparison: &Comparison, is_limited: bool) -> u8 {
    for missing in comparison.missing.iter().filter(|_| is_limited) {
        message::print(format_args!("--fail-on cannot be checked: {missing}"));
    }
    for exceeded in &comparison.exceeded {
        message::print(format_args!("more than --fail-on allows: {exceeded}"));
    }
    match (&comparison.exceeded[..], &comparison.missing[..]) {
        ([], []) => FINE,
        ([], _) if is_limited => BAD_INPUT,
        ([], _) => FINE,
        _ => REGRESSION,
    }
}

fn read(path: &Path) -> Result<Report, Failure> {
    Report::read(&bytes(path)?)
        .with_context(|| {
            format!("cannot use {}: two reports of `allotrope paths -o` can be compared, or two recordings", path.shown())
        })
        .status(BAD_INPUT)
}
