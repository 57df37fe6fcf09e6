//! A file that a command writes, or the standard output.

use std::fs;
use std::io::{self, BufWriter, IntoInnerError, IsTerminal, Write};
use std::path::{Path, PathBuf};

use allotrope_files::Target;
use allotrope_text::Shown;
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, FAILED, Failure, WithStatus};
use crate::limited_output::Limited;
use crate::message;
use crate::replacing::{self, ForceArguments, Kind};
use crate::standard_output;
use crate::unfinished;

/// A file to write: `-` is the standard output.
#[derive(Debug, Clone, Copy)]
pub struct ToWrite<'a> {
    pub path: &'a Path,
    pub kind: Kind<'a>,
    pub force: ForceArguments,
}

impl ToWrite<'_> {
    /// Refuses a file that is one of those that are read, `inputs`, or that is not to be replaced.
    /// Called before the command begins with what takes long.
    pub fn check<'p>(&self, inputs: impl IntoIterator<Item = &'p PathBuf>) -> Result<(), Failure> {
        match is_standard_output(self.path) {
            true => Ok(()),
            false => self.target(inputs).map(drop),
        }
    }

    /// Refuses to write what is no text, such as a file in this format, to a terminal.
    pub fn refuse_terminal(&self, what: &str) -> Result<(), Failure> {
        if !is_standard_output(self.path) || !io::stdout().is_terminal() {
            return Ok(());
        }
        let sentence = anyhow!("{what} is binary, and this is a terminal; name a file with -o");
        Err(Failure::new(BAD_INPUT, sentence))
    }

    fn target<'p>(&self, inputs: impl IntoIterator<Item = &'p PathBuf>) -> Result<Target, Failure> {
        let path = self.path;
        let is_this = |input: &PathBuf| match (fs::canonicalize(input), fs::canonicalize(path)) {
            (Ok(input), Ok(output)) => input == output,
            _ => false,
        };
        if inputs.into_iter().any(is_this) {
            let sentence = anyhow!(
                "{} is read by this command; write to another file",
                path.shown()
            );
            return Err(Failure::new(BAD_INPUT, sentence));
        }
        replacing::target(path, self.kind, self.force.force, replacing::REMEDY).status(BAD_INPUT)
    }

    /// Creates or replaces the file, or prints, with what `write` writes.
    pub fn create<'p>(
        &self,
        inputs: impl IntoIterator<Item = &'p PathBuf>,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        if is_standard_output(self.path) {
            return standard_output::print(write);
        }
        let created = unfinished::create(self.target(inputs)?).and_then(|output| {
            let mut output = BufWriter::new(output);
            write(&mut Limited::new(&mut output))?;
            let output = output.into_inner().map_err(IntoInnerError::into_error)?;
            output.finish()
        });
        created
            .with_context(|| format!("cannot write {}", self.path.shown()))
            .status(FAILED)
    }

    /// Writes a page as [`create`](Self::create) does, and says so.
    pub fn create_page<'p>(
        &self,
        inputs: impl IntoIterator<Item = &'p PathBuf>,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.create(inputs, write)?;
        if !is_standard_output(self.path) {
            message::print(format_args!("wrote the page {}", self.path.shown()));
        }
        Ok(())
    }
}

/// Whether a path that was given for the output means the standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}
