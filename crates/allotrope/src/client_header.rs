//! `allotrope client-header`: writes the header by which C and C++ programs (and,
//! through a module map, Swift ones) open windows and report blocks. The files
//! themselves are `allotrope-client`'s.

use std::fs;
use std::path::{Path, PathBuf};

use allotrope_text::Shown;

use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
use crate::standard_output;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
The header needs nothing to link, and does nothing where a program is not
recorded. With CMake:

  find_program(ALLOTROPE allotrope REQUIRED)
  set(allotrope_include ${CMAKE_BINARY_DIR}/allotrope)
  execute_process(COMMAND ${ALLOTROPE} client-header ${allotrope_include}
                  COMMAND_ERROR_IS_FATAL ANY)
  target_include_directories(bench SYSTEM PRIVATE ${allotrope_include})

Exit status: 0 if the files were written, 1 if they could not be, 2 if a file of
that name is there that is no earlier version.";

/// The files and what is in every version of them.
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
    /// Where to write allotrope.h and module.modulemap; made if it is not there
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
        .with_context(|| format!("cannot make the folder {}", folder.shown()))
        .status(FAILED)?;
    for (name, _, mark) in FILES {
        refuse_foreign(&folder.join(name), mark)?;
    }
    for (name, text, _) in FILES {
        write(&folder.join(name), text)?;
    }
    Ok(FINE)
}

/// A module map of another library may well lie in the same folder.
fn refuse_foreign(path: &Path, mark: &str) -> Result<(), Failure> {
    match fs::read(path) {
        Ok(bytes) if !String::from_utf8_lossy(&bytes).contains(mark) => {
            let sentence = anyhow!(
                "{} is another file of that name; choose a folder of its own",
                path.shown()
            );
            Err(Failure::new(BAD_INPUT, sentence))
        }
        _ => Ok(()),
    }
}

/// Leaves a file alone that is the same already, so that nothing is rebuilt.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    allotrope_files::write(path, text)
        .with_context(|| format!("cannot write {}", path.shown()))
        .status(FAILED)
}
