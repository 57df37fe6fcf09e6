//! `allotrope client-header`: writes the header with which C and C++ programs (and,
//! through a module map, Swift ones) open windows and report blocks. The header is
//! part of the crate `allotrope-client`; the command embeds it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use allotrope_files::{Output, Target};
use allotrope_text::Shown;

use anyhow::Context;

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
use crate::replacing::{self, Kind};
use crate::standard_output;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
The header needs no library, and its functions do nothing if the program is not
recorded. With CMake:

  find_program(ALLOTROPE allotrope REQUIRED)
  set(allotrope_include ${CMAKE_BINARY_DIR}/allotrope)
  execute_process(COMMAND ${ALLOTROPE} client-header ${allotrope_include}
                  COMMAND_ERROR_IS_FATAL ANY)
  target_include_directories(bench SYSTEM PRIVATE ${allotrope_include})

Exit status: 0 if the files were written, 1 if they could not be, 2 if another
file with one of these names exists that is no earlier version.";

/// The files: name, contents, and a text that every version of the file contains.
const FILES: [(&str, &str, &str); 2] = [
    ("allotrope.h", HEADER, "allotrope.h"),
    (
        "module.modulemap",
        include_str!("../../target/client/include/module.modulemap"),
        "module Allotrope",
    ),
];

const HEADER: &str = include_str!("../../target/client/include/allotrope.h");

/// Arguments of `allotrope client-header`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Where to write allotrope.h and module.modulemap; created if it does not exist
    #[arg(value_name = "FOLDER", required_unless_present = "print")]
    folder: Option<PathBuf>,
    /// Print allotrope.h instead
    #[arg(long, conflicts_with = "folder")]
    print: bool,
}

/// Writes the files, or prints the header.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let Some(folder) = &arguments.folder else {
        standard_output::print(|output| output.write_all(HEADER.as_bytes()))?;
        return Ok(FINE);
    };
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.shown()))
        .status(FAILED)?;
    for (name, _, signature) in FILES {
        target(&folder.join(name), signature)?;
    }
    for (name, text, signature) in FILES {
        write(&folder.join(name), text, signature)?;
    }
    Ok(FINE)
}

/// Refuses to replace a file without `signature`: the folder may contain the module map
/// of another library.
fn target(path: &Path, signature: &str) -> Result<Target, Failure> {
    let kind = Kind {
        what: "earlier version of it that allotrope wrote",
        is_own: &|head| String::from_utf8_lossy(head).contains(signature),
    };
    replacing::target(path, kind, false, "choose another folder").status(BAD_INPUT)
}

/// Writes a file unless it has these contents already, so that a build system rebuilds
/// nothing.
fn write(path: &Path, text: &str, signature: &str) -> Result<(), Failure> {
    let target = target(path, signature)?;
    let is_file = matches!(target, Target::Regular(..));
    if is_file && fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    let written = Output::at(target).and_then(|mut output| {
        output.write_all(text.as_bytes())?;
        output.finish()
    });
    written
        .with_context(|| format!("cannot write {}", path.shown()))
        .status(FAILED)
}
