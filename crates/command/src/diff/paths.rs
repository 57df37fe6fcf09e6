//! `allotrope diff` of two saved reports of `allotrope paths`.

use std::io::{BufReader, Read};
use std::path::Path;

use allotrope_allocators::paths::compare::{Comparison, compare};
use allotrope_allocators::paths::{Report, text};
use allotrope_files::open_regular;
use allotrope_text::{Shown, to_json_writer};
use anyhow::{Context, anyhow};

use super::arguments::{Arguments, Format, METRIC, TOP};
use super::limit::FailOn;
use crate::exit_status::{BAD_INPUT, FINE, Failure, REGRESSION, WithStatus};
use crate::message;
use crate::standard_output;
use crate::style::style;

/// Whether a file is a saved report. One that cannot be read is none: the other readers say
/// why.
pub fn is_saved(path: &Path) -> bool {
    open_regular(path).is_ok_and(|file| Report::is_saved(BufReader::new(file)))
}

/// Compares two saved reports, and returns the exit status.
pub fn run(arguments: &Arguments, [before, after]: [&Path; 2]) -> Result<u8, Failure> {
    check_options(arguments)?;
    let limits = arguments.fail_on.iter().map(|limit| match limit {
        FailOn::Instructions(limit) => Ok(*limit),
        FailOn::Metric(limit) => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "{limit}: reports of `allotrope paths` are compared by instructions; write --fail-on 'instructions>+2%'"
            ),
        )),
    });
    let limits = limits.collect::<Result<Vec<_>, _>>()?;
    let comparison = compare(&read(before)?, &read(after)?, &limits).status(BAD_INPUT)?;
    if arguments.format == Format::Json {
        standard_output::print(|out| {
            to_json_writer(&mut *out, &comparison)?;
            writeln!(out)
        })?;
    } else {
        let document = text::comparison(&comparison);
        standard_output::print_document(&document, style(arguments.color))?;
    }
    Ok(status(&comparison, !limits.is_empty()))
}

/// Refuses the options that are for stacks: a gate whose `--filter` had no effect would be wrong.
fn check_options(arguments: &Arguments) -> Result<(), Failure> {
    let options = [
        ("--metric", arguments.metric != METRIC),
        ("--window", arguments.window.is_some()),
        ("--per", arguments.per.is_some()),
        ("--min", arguments.min > 0),
        ("--top", arguments.top != TOP),
        ("--expand", arguments.expand),
        ("--filter", arguments.filter.is_given()),
        ("--glue", arguments.glue.is_given()),
        ("--suppressions", arguments.suppressions.is_given()),
        ("--flamegraph", arguments.flamegraph.is_some()),
        ("--html", arguments.html.is_some()),
        ("--format sections", arguments.format == Format::Sections),
        ("--all-frames", arguments.all_frames),
    ];
    match options.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "{option} is for stacks; two reports of `allotrope paths` are compared as a whole, by instructions, as text or JSON"
            ),
        )),
    }
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
    let mut bytes = Vec::new();
    open_regular(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.shown()))
        .status(BAD_INPUT)?;
    Report::read(&bytes)
        .with_context(|| {
            format!("cannot use {}: two reports of `allotrope paths -o` can be compared, or two recordings", path.shown())
        })
        .status(BAD_INPUT)
}
