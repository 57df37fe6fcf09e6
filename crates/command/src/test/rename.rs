//! `allotrope test --rename`: gives budgets another name.

use allotrope_budget::Configuration;
use allotrope_budget::budgets::{BudgetError, RenameError};
use allotrope_text::Shown;
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure};
use crate::standard_output;

/// Renames the budgets of a test or case and prints the files that were written.
pub fn run(configuration: &Configuration, old: &str, new: &str) -> Result<u8, Failure> {
    let folder = configuration.budgets();
    let test = new.split_once('/').map_or(new, |(test, _)| test);
    if !configuration.tests.iter().any(|it| it.name == test) {
        let file = configuration.file.shown();
        return Err(Failure::new(
            BAD_INPUT,
            anyhow!("{file} has no test `{test}`: give it its new name there first"),
        ));
    }
    let files = folder.rename(old, new).map_err(|error| {
        let status = match &error {
            RenameError::Budget(BudgetError::Io { .. }) => FAILED,
            _ => BAD_INPUT,
        };
        Failure::new(status, error)
    })?;
    standard_output::print_log(|out| {
        let mut files = files.iter();
        files.try_for_each(|file| writeln!(out, "wrote {}", file.shown()))
    })?;
    Ok(FINE)
}
