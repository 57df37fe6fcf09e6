//! What comparisons of saved reports have in common, which are of no stacks.

use std::io::Read;
use std::path::Path;

use allotrope_files::open_regular;
use allotrope_text::document::Document;
use allotrope_text::{Shown, to_json_writer};
use anyhow::{Context, anyhow};
use serde::Serialize;

use super::arguments::{Arguments, Format, TOP};
use crate::exit_status::{BAD_INPUT, Failure, WithStatus};
use crate::standard_output;
use crate::style::style;

/// Refuses the options that are for stacks: a gate whose `--filter` had no effect would be wrong.
/// `what`: what is compared instead, and how.
pub fn refuse_stack_options(
    arguments: &Arguments,
    is_cut: bool,
    what: &str,
) -> Result<(), Failure> {
    let options = [
        ("--metric", arguments.metric.is_some()),
        ("--window", arguments.window.is_some()),
        ("--per", arguments.per.is_some()),
        ("--min", arguments.min > 0),
        ("--top", !is_cut && arguments.top != TOP),
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
            anyhow!("{option} is for stacks; {what}"),
        )),
    }
}

/// Prints a comparison: the document as text or Markdown, or the JSON of the comparison.
pub fn print<C: Serialize>(
    arguments: &Arguments,
    comparison: &C,
    document: impl FnOnce() -> Document,
) -> Result<(), Failure> {
    match arguments.format {
        Format::Json => standard_output::print(|out| {
            to_json_writer(&mut *out, comparison)?;
            writeln!(out)
        })?,
        Format::Markdown => standard_output::print(|out| document().write_markdown(out))?,
        _ => standard_output::print_document(&document(), style(arguments.color))?,
    }
    Ok(())
}

/// The bytes of a report.
pub fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    open_regular(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.shown()))
        .status(BAD_INPUT)?;
    Ok(bytes)
}
