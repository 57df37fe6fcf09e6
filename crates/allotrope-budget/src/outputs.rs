//! What a run of tests came to, in the forms that people and programs read:
//! each form a file.

pub mod comparison;
pub mod github;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod nio;
pub mod text;
pub mod wording;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use allotrope_text::TextWriter;

use crate::result::Report;
pub use text::TextOptions;

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// For people.
    Text,
    /// `allotrope-test/1`, for programs.
    Json,
    /// The XML that CI systems read.
    Junit,
    /// For a comment or a job's summary.
    Markdown,
    /// The text, and annotations for GitHub's workflows.
    Github,
    /// The log of SwiftNIO's allocation counter tests.
    Nio(nio::Generation),
}

/// Writes a report in one of the forms.
///
/// # Errors
/// Those of the output.
pub fn write(
    form: Form,
    report: &Report,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    // The others are no text for a terminal, and escape as their form has it.
    let is_text = matches!(
        form,
        Form::Text | Form::Markdown | Form::Github | Form::Nio(_)
    );
    if is_text {
        let mut out = TextWriter::new(out, options.style.color);
        write_form(form, report, options, &mut out)?;
        return out.flush();
    }
    write_form(form, report, options, out)
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
