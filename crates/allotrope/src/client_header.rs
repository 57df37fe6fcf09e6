//! `allotrope client-header`: writes the header with which C and C++ programs (and,
//! through a module map, Swift ones) open windows and report blocks. The header is
//! part of the crate `allotrope-client`; the command embeds it.

use std::fs;
use std::path::{Path, PathBuf};

use allotrope_text::Shown;

use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
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
        include_str!("../../allotrope-client/include/module.modulemap"),
        "module Allotrope",
    ),
];

const HEADER: &str = include_str!("../../allotrope-client/include/allotrope.h");

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
        refuse_foreign(&folder.join(name), signature)?;
    }
    for (name, text, _) in FILES {
        write(&folder.join(name), text)?;
    }
    Ok(FINE)
}

/// Refuses to replace a file without `signature`: the folder may contain the module map
/// of another library.
fn refuse_foreign(path: &Path, signature: &str) -> Result<(), Failure> {
    match fs::read(path) {
        Ok(bytes) if !String::from_utf8_lossy(&bytes).contains(signature) => {
            let sentence = anyhow!(
                "{} exists and was not written by allotrope; choose another folder",
                path.shown()
            );
            Err(Failure::new(BAD_INPUT, sentence))
        }
        _ => Ok(()),
    }
}

/// Writes a file unless it has these contents already, so that a build system rebuilds
/// nothing.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    allotrope_files::write(path, text)
        .with_context(|| format!("cannot write {}", path.shown()))
        .status(FAILED)
}
