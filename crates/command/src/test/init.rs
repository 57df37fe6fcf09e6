//! `allotrope test --init`: writes a configuration to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use allotrope_budget::location::refuse_links;
use allotrope_budget::paths::Project;
use allotrope_budget::starting::starting_file;
use allotrope_text::Shown;
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
use crate::message;

/// Writes a configuration to start from; refuses to replace a file.
pub fn run(file: &Path, command: &[String]) -> Result<u8, Failure> {
    let folder = file.parent().filter(|path| *path != Path::new(""));
    // The repository may be from elsewhere.
    refuse_links(Project::containing(Path::new(".")).root(), file)
        .with_context(|| format!("cannot write {}", file.shown()))
        .status(BAD_INPUT)?;
    let exists = file.exists();
    let starting = match exists {
        // Nothing is searched for if nothing will be written.
        true => None,
        false => Some(starting_file(folder.unwrap_or(Path::new(".")), command).status(BAD_INPUT)?),
    };
    let text = starting.as_ref().map_or("", |starting| &starting.text);
    let created = OpenOptions::new().write(true).create_new(true).open(file);
    let written = created.and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => {
            let name = file.shown();
            match starting.and_then(|starting| starting.found) {
                Some(found) => message::print(format_args!(
                    "wrote {name} with {found}; look through it, then run `allotrope test --accept`"
                )),
                None => message::print(format_args!(
                    "wrote {name} with an example; replace it by your tests, then run \
                     `allotrope test --accept`"
                )),
            }
            Ok(FINE)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "{} exists already; name another file by --config",
                file.shown()
            ),
        )),
        Err(error) => Err(error)
            .with_context(|| format!("cannot write {}", file.shown()))
            .status(FAILED),
    }
}
