//! `allotrope test --history`: how the accepted numbers of a test have changed.

use allotrope_budget::Configuration;
use allotrope_budget::budgets::history::{HistoryError, history};
use allotrope_budget::outputs::history::{write_json, write_text};
use allotrope_budget::revisions::RevisionError;
use allotrope_text::Shown;
use anyhow::anyhow;

use super::arguments::{Arguments, Format};
use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure};
use crate::standard_output;
use crate::style::style;

/// Prints how the numbers of a test or case have changed.
pub fn run(
    arguments: &Arguments,
    configuration: &Configuration,
    name: &str,
) -> Result<u8, Failure> {
    let folder = configuration.budgets();
    let (test, case) = match name.split_once('/') {
        Some((test, _)) => (test, Some(name)),
        None => (name, None),
    };
    let history = history(&folder, test, case).map_err(|error| {
        let status = match &error {
            HistoryError::Revision(RevisionError::NoRepository { .. }) => BAD_INPUT,
            _ => FAILED,
        };
        Failure::new(status, error)
    })?;
    if history.versions.is_empty() {
        let folder = folder.path().shown();
        return Err(Failure::new(
            BAD_INPUT,
            anyhow!("no numbers of `{name}` were ever accepted in {folder}"),
        ));
    }
    match arguments.format {
        Format::Text => {
            standard_output::print_text(|out| write_text(&history, style(arguments.color), out))?
        }
        Format::Json => {
            standard_output::print(|out| write_json(name, &history, out))?;
        }
        _ => {
            return Err(Failure::new(
                BAD_INPUT,
                anyhow!("--history has the formats text and json"),
            ));
        }
    }
    Ok(FINE)
}
