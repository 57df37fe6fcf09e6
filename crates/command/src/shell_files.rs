//! `allotrope completions` and `allotrope man`: generate completion scripts and manual
//! pages from the declaration of the command line.

pub mod arguments;

use std::fs;
use std::io::Write;
use std::path::Path;

use allotrope_files::Output;
use allotrope_text::Shown;

use anyhow::Context;
use clap::CommandFactory;

use crate::command_line::CommandLine;
use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
use crate::replacing::{self, Kind};
use crate::standard_output;
use arguments::{CompletionsArguments, ManArguments};

/// Prints the script.
pub fn completions(arguments: &CompletionsArguments) -> Result<u8, Failure> {
    let mut script = Vec::new();
    let mut command = without_hidden();
    clap_complete::generate(arguments.shell, &mut command, "allotrope", &mut script);
    print(&script)
}

/// Prints the manual page, or writes all of them.
pub fn man(arguments: &ManArguments) -> Result<u8, Failure> {
    let command = without_hidden();
    if let Some(folder) = &arguments.output {
        write_pages(command, folder)
            .with_context(|| format!("cannot write manual pages into {}", folder.shown()))
            .status(BAD_INPUT)?;
        return Ok(FINE);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .context("cannot generate the manual page")
        .status(FAILED)?;
    print(&page)
}

/// Writes the pages into a private folder first and copies them from there, because
/// clap_mangen follows symbolic links in the folder that it writes into.
fn write_pages(command: clap::Command, folder: &Path) -> anyhow::Result<()> {
    const PAGE: Kind<'static> = Kind {
        what: "earlier manual page of allotrope",
        is_own: &is_page,
    };
    let private = tempfile::tempdir()?;
    clap_mangen::generate_to(command, private.path())?;
    for page in fs::read_dir(private.path())? {
        let page = page?;
        let path = folder.join(page.file_name());
        let target = replacing::target(&path, PAGE, false, "choose another folder")?;
        let mut output = Output::at(target)?;
        output.write_all(&fs::read(page.path())?)?;
        output.finish()?;
    }
    Ok(())
}

/// Whether a file that begins so is one of these pages: its title is the command's name.
fn is_page(head: &[u8]) -> bool {
    let start = String::from_utf8_lossy(head.get(..400).unwrap_or(head));
    start.lines().any(|line| line.starts_with(".TH allotrope"))
}

/// The command line without the hidden subcommands, with which Allotrope's processes
/// start each other.
fn without_hidden() -> clap::Command {
    let whole = CommandLine::command();
    let shown: Vec<_> = whole
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .cloned()
        .collect();
    clap::Command::new("allotrope")
        .about(whole.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(crate::exit_status::DOCUMENTATION)
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(shown)
}

fn print(bytes: &[u8]) -> Result<u8, Failure> {
    standard_output::print(|output| output.write_all(bytes))?;
    Ok(FINE)
}
