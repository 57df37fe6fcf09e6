//! `allotrope doctor`: whether this machine and a program can be recorded, and
//! if not, why and what to do. The checks lie in [`machine`], [`beside`] and [`program`];
//! here their findings are printed and become an exit status.

mod beside;
mod finding;
mod machine;
mod program;

use std::ffi::OsString;

use anyhow::Context;
use serde::Serialize;

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
use crate::standard_output;
use finding::{Finding, Level};

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
Exit status: 0 if all can be recorded, 1 if this machine can not record, 2 if the
program can not be recorded.";

/// Arguments of `allotrope doctor`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// How to print the findings
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// A program to look at, too
    #[arg(value_name = "PROGRAM")]
    program: Option<OsString>,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// What `--format json` prints.
#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    recordable: bool,
    findings: Vec<&'a Finding>,
}

/// Looks, prints, and gives the status.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let mut machine = machine::check();
    machine.extend(beside::check());
    let program = arguments.program.as_ref().map(|name| program::check(name));
    let program = program.unwrap_or_default();
    let findings: Vec<_> = machine.iter().chain(&program).collect();
    let text = match arguments.format {
        Format::Text => finding::as_text(&findings),
        Format::Json => {
            let document = Document {
                format: "allotrope-doctor/1",
                recordable: !has_problem(&machine) && !has_problem(&program),
                findings,
            };
            let mut text = allotrope_text::to_json_string(&document)
                .context("cannot write the findings as JSON")
                .status(FAILED)?;
            text.push('\n');
            text
        }
    };
    standard_output::print(|output| output.write_all(text.as_bytes()))?;
    Ok(if has_problem(&program) {
        BAD_INPUT
    } else if has_problem(&machine) {
        FAILED
    } else {
        FINE
    })
}

fn has_problem(findings: &[Finding]) -> bool {
    findings
        .iter()
        .any(|finding| finding.level == Level::Problem)
}
