//! `allotrope diff` of two saved reports of `allotrope cpu`.

use std::io::Read;
use std::path::Path;

use allotrope_allocators::cpu::compare::{Comparison, compare};
use allotrope_allocators::cpu::{Saved, comparison_text, is_report};
use allotrope_files::open_regular;
use allotrope_text::Shown;
use anyhow::{Context, anyhow};

use super::arguments::Arguments;
use super::limit::FailOn;
use super::saved::{self, bytes, refuse_stack_options};
use crate::exit_status::{BAD_INPUT, FINE, Failure, REGRESSION, WithStatus};
use crate::message;

/// Bytes of a file by which a report is recognised.
const HEAD: u64 = 64;

/// Whether a file is a report of `allotrope cpu`, of any format.
pub fn is_saved(path: &Path) -> bool {
    let mut head = Vec::new();
    let file = open_regular(path);
    file.and_then(|file| file.take(HEAD).read_to_end(&mut head))
        .is_ok_and(|_| is_report(&head))
}

/// Compares two saved reports, and returns the exit status.
pub fn run(arguments: &Arguments, [before, after]: [&Path; 2]) -> Result<u8, Failure> {
    let what = "two reports of `allotrope cpu` are compared by functions and groups, as text, Markdown or JSON";
    refuse_stack_options(arguments, true, what)?;
    let limits = arguments.fail_on.iter().map(|limit| match limit {
        FailOn::CpuTime(limit) => Ok(*limit),
        FailOn::Metric(_) | FailOn::Instructions(_) => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "reports of `allotrope cpu` are compared by CPU time an operation; write --fail-on 'cpu-time>+5%'"
            ),
        )),
    });
    let limits = limits.collect::<Result<Vec<_>, _>>()?;
    let comparison = compare(&read(before)?, &read(after)?, &limits);
    saved::print(arguments, &comparison, || {
        let top = arguments.top.try_into().unwrap_or(usize::MAX);
        comparison_text::document(&comparison, top)
    })?;
    Ok(status(&comparison))
}

fn status(comparison: &Comparison) -> u8 {
    if let Some(why) = &comparison.not_checked {
        message::print(format_args!("--fail-on cannot be checked: {why}"));
        return BAD_INPUT;
    }
    for exceeded in &comparison.exceeded {
        message::print(format_args!("more than --fail-on allows: {exceeded}"));
    }
    match comparison.exceeded[..] {
        [] => FINE,
        _ => REGRESSION,
    }
}

/// Reads a saved report.
pub fn read(path: &Path) -> Result<Saved, Failure> {
    Saved::read(&bytes(path)?)
        .with_context(|| format!("cannot use {}", path.shown()))
        .status(BAD_INPUT)
}
