//! Runs commands and checks what they print.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{record, run};

/// Exit status and output of a finished command.
pub struct Finished {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Finished {
    /// Runs a command to its end.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        run(command, b"").into()
    }

    /// Fails, with all output, unless the command ended with this status.
    #[track_caller]
    pub fn expect(self, status: i32) -> Self {
        let (stdout, stderr) = (&self.stdout, &self.stderr);
        assert_eq!(self.status, Some(status), "{stdout}\n{stderr}");
        self
    }

    /// Fails unless stdout has this text.
    #[track_caller]
    pub fn has(self, text: &str) -> Self {
        let (stdout, stderr) = (&self.stdout, &self.stderr);
        assert!(stdout.contains(text), "{text:?} in {stdout}\n{stderr}");
        self
    }

    /// Fails if stdout has this text.
    #[track_caller]
    pub fn lacks(self, text: &str) -> Self {
        assert!(!self.stdout.contains(text), "{text:?} in {}", self.stdout);
        self
    }

    /// Fails unless stderr has this text.
    #[track_caller]
    pub fn stderr_has(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} in {}", self.stderr);
        self
    }

    /// What follows this word in the line of stdout that has it: a command that the log
    /// proposes.
    #[track_caller]
    pub fn after(&self, word: &str) -> String {
        let mut lines = self.stdout.lines();
        let found = lines.find_map(|line| line.split_once(word));
        let (_, rest) = found.unwrap_or_else(|| panic!("{word:?} in {}", self.stdout));
        rest.trim().to_owned()
    }
}

/// The root of this repository.
pub fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("it is there")
}

/// `PATH` as it is where Allotrope is installed.
pub fn path_with_allotrope() -> OsString {
    let command = record::command();
    let program = Path::new(command.get_program());
    let mut path = OsString::from(program.parent().expect("it is in a folder"));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

/// Writes files into a folder.
pub fn write(folder: &Path, files: &[(&str, &str)]) {
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("it is ours");
        fs::write(path, text).expect("the folder is the test's");
    }
}

/// Reads a file.
#[track_caller]
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
