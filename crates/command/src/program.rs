//! `allotrope PROGRAM ARGS…`: records a program and shows the first screen of the report.

use std::ffi::OsString;
use std::path::Path;

use allotrope_reading::split;
use allotrope_text::Shown;
use anyhow::anyhow;
use clap::{CommandFactory, Parser};

use crate::command_line::{CommandLine, Subcommand};
use crate::exit_status::{Failure, RECORD_FAILED};
use crate::record;
use crate::recordings::{has_extension, is_recording};

/// Least similarity (Jaro-Winkler) of a word to the subcommand that may be meant.
const MIN_SIMILARITY: f64 = 0.8;

/// The words of `allotrope report FILE` if a recording is named in place of a program:
/// `allotrope FILE`.
pub fn recording_to_open(command_line: &CommandLine) -> Option<Vec<OsString>> {
    let Subcommand::Program(command) = &command_line.subcommand else {
        return None;
    };
    let (path, _) = split(Path::new(command.first()?));
    let is_missing = !path.exists() && has_extension(path);
    // One that is missing is reported as a recording, unless a program has the name.
    let is_meant = is_recording(path) || is_missing && record::search(path.as_os_str()).is_err();
    let report = ["allotrope", "report"].map(OsString::from);
    is_meant.then(|| report.into_iter().chain(command.iter().cloned()).collect())
}

/// Records the command with the default options, then shows the first screen.
pub fn run(command: Vec<OsString>) -> Result<u8, Failure> {
    let Some(name) = command.first().cloned() else {
        return Err(Failure::new(RECORD_FAILED, anyhow!("no program is named")));
    };
    if let Err(failure) = record::search(&name) {
        return Err(match subcommand_like(&name) {
            Some(meant) => Failure::new(
                failure.status,
                anyhow!(
                    "{:#}; it is no subcommand either: did you mean `allotrope {meant}`?",
                    failure.error
                ),
            ),
            None => failure,
        });
    }
    let words = ["allotrope", "record", "--"].map(OsString::from);
    let parsed = CommandLine::try_parse_from(words.into_iter().chain(command));
    match parsed.map(|line| line.subcommand) {
        Ok(Subcommand::Record(arguments)) => record::run(arguments.with_first_screen()),
        Ok(_) => Err(Failure::new(
            RECORD_FAILED,
            anyhow!("cannot record {}", name.shown()),
        )),
        Err(error) => Err(Failure::new(RECORD_FAILED, error)),
    }
}

/// The subcommand whose name is like a word.
fn subcommand_like(word: &OsString) -> Option<String> {
    let word = word.to_str()?;
    let command = CommandLine::command();
    let names = command.get_subcommands().filter(|it| !it.is_hide_set());
    let names = names.map(|it| (strsim::jaro_winkler(word, it.get_name()), it.get_name()));
    let (similarity, name) = names.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (similarity >= MIN_SIMILARITY).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_subcommand_is_recognised() {
        assert_eq!(subcommand_like(&"reprot".into()).as_deref(), Some("report"));
        assert_eq!(subcommand_like(&"recrod".into()).as_deref(), Some("record"));
        assert_eq!(subcommand_like(&"./server".into()), None);
    }
}
