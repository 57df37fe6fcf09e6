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
