//! The part of `allotrope test` that is for `cargo allotrope test`: the options with which
//! the program `cargo-allotrope` passes cargo's arguments on.

use std::path::Path;

use allotrope_budget::cargo::{CargoError, configuration};
use allotrope_budget::configuration::FILE_NAME;
use allotrope_budget::{Configuration, Report};
use allotrope_text::Shown;
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FAILED, Failure, NOT_MEASURED};
use crate::message;

/// Arguments for tests that Cargo lists. People type `cargo allotrope test` instead.
#[derive(Debug, clap::Args)]
pub struct CargoArguments {
    /// The tests are Cargo's
    #[arg(long, hide = true, conflicts_with_all = ["init", "no_build"])]
    cargo: bool,
    /// An argument of cargo
    #[arg(
        long,
        hide = true,
        value_name = "ARGUMENT",
        requires = "cargo",
        require_equals = true,
        allow_hyphen_values = true
    )]
    cargo_argument: Vec<String>,
}

impl CargoArguments {
    /// Builds the tests; `None` if they are not Cargo's.
    pub fn configuration(&self, config: &Path) -> Result<Option<Configuration>, Failure> {
        if !self.cargo {
            return Ok(None);
        }
        let named = Some(config).filter(|config| *config != Path::new(FILE_NAME));
        match configuration(&self.cargo_argument, named) {
            Ok(configuration) => Ok(Some(configuration)),
            Err(error) => {
                let status = match &error {
                    CargoError::NotStarted(_) | CargoError::Output { .. } => FAILED,
                    CargoError::Build | CargoError::NoWindows => NOT_MEASURED,
                    _ => BAD_INPUT,
                };
                Err(Failure::new(status, error))
            }
        }
    }
}

/// Names the programs that opened no window. Fails if no other is left: then nothing was
/// measured.
pub fn check_windows(report: &Report) -> Result<(), Failure> {
    if report.without_windows.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = report
        .without_windows
        .iter()
        .map(|name| name.shown())
        .collect();
    let names = names.join(", ");
    if report.tests.is_empty() {
        let error = anyhow!("nothing was measured: no window was opened by {names}");
        return Err(Failure::new(NOT_MEASURED, error));
    }
    message::print(format_args!(
        "not measured, because no window was opened: {names}"
    ));
    Ok(())
}
