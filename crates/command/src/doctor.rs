//! `allotrope doctor`: whether this machine can record and a program can be
//! recorded, and if not, why and what to do. [`machine`], [`other_tools`] and
//! [`program`] make the checks; this file prints their findings and picks the exit
//! status.

mod clean;
mod finding;
mod machine;
mod other_tools;
mod program;

use std::ffi::OsString;

use anyhow::Context;
use serde::Serialize;

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
use crate::standard_output;
use finding::{Finding, Level};

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
Exit status: 0 if this machine can record and the program can be recorded, 1 if
this machine cannot record, 2 if the program cannot be recorded. With --clean: 1 if
something could not be removed.";

/// Arguments of `allotrope doctor`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// How to print the findings
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// List the libraries and holders that were left behind, as in /run/allotrope
    #[arg(long, conflicts_with = "program")]
    clean: bool,
    /// With --clean: remove them
    ///
    /// What a process has loaded, and what another user has, stays.
    #[arg(long, requires = "clean")]
    yes: bool,
    /// With --clean: also a holder that keeps the last state of a process that crashed
    #[arg(long, requires = "clean")]
    with_states: bool,
    /// Check this program, too
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

/// Makes the checks, prints the findings and returns the exit status.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    if arguments.clean {
        return clean::run(arguments.format, arguments.yes, arguments.with_states);
    }
    let mut machine = machine::check();
    machine.extend(other_tools::check());
    let program = arguments.program.as_ref().map(|name| program::check(name));
    let program = program.unwrap_or_default();
    let findings: Vec<_> = machine.iter().chain(&program).collect();
    let text = match arguments.format {
        Format::Text => finding::as_text(&findings).join("\n") + "\n",
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
    standard_output::print_log(|output| output.write_all(text.as_bytes()))?;
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
