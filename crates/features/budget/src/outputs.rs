//! Writes the results of a session in several formats, one module each.

mod brief;
pub mod comparison;
pub mod github;
pub mod history;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod nio;
pub mod text;
pub mod wording;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use allotrope_text::{LogWriter, TextWriter};

use crate::result::Report;
pub use text::TextOptions;

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Text for a terminal.
    Text,
    /// JSON, `allotrope-test/1`.
    Json,
    /// JUnit XML for CI systems.
    Junit,
    /// Markdown for a comment or a job summary.
    Markdown,
    /// Text, followed by annotations for GitHub workflows.
    Github,
    /// The log format of SwiftNIO's allocation counter tests.
    Nio(nio::Generation),
}

/// Writes a report in a format.
///
/// # Errors
/// Errors of `out`.
pub fn write(
    form: Form,
    report: &Report,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    // Any of them may be printed to the log of a CI system, if only with `cat` later.
    match form {
        Form::Text | Form::Markdown | Form::Nio(_) => {
            let mut out = TextWriter::new(LogWriter::new(out), options.style.color);
            write_form(form, report, options, &mut out)?;
            out.flush()
        }
        // It has commands of its own.
        Form::Github => {
            let mut out = TextWriter::new(out, options.style.color);
            write_form(form, report, options, &mut out)?;
            out.flush()
        }
        // They have their own escaping.
        Form::Junit => write_form(form, report, options, &mut LogWriter::of_xml(out)),
        Form::Json => write_form(form, report, options, out),
    }
}

/// Whether a file that begins so is a report in this form. `head` may end anywhere.
pub fn is_own(form: Form, head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let first = text.lines().find(|line| !line.is_empty());
    let first = first.unwrap_or_default();
    match form {
        Form::Json => text.starts_with(&format!("{{\"format\":\"{}\"", json::FORMAT)),
        Form::Junit => text.lines().nth(1) == Some("<testsuites name=\"allotrope\">"),
        Form::Markdown => text.starts_with(markdown::TITLE),
        Form::Text => text::is_line(first),
        Form::Github => text::is_line(first) || first.starts_with("::"),
        Form::Nio(_) => {
            let mut lines = text.lines();
            let program = lines.next().is_some_and(|line| line.starts_with("- "));
            // The order of the figures differs between the versions.
            let is_figure = |line: &str| {
                line.contains(".remaining_allocations: ") || line.contains(".total_allocations: ")
            };
            program && lines.next().is_none_or(is_figure)
        }
    }
}

fn write_form(
    form: Form,
    report: &Report,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    match form {
        Form::Text => text::write(report, options, out),
        Form::Json => json::write(report, out),
        Form::Junit => junit::write(report, out),
        Form::Markdown => markdown::write(report, out),
        Form::Github => github::write(report, options, out),
        Form::Nio(generation) => nio::write(report, generation, out),
    }
}
