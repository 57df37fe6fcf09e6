//! A folder with an `allotrope.toml` and the program `bench.c`, in which
//! `allotrope test` is run.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::{Ended, Text, record, run};

/// A project under test.
pub struct Project {
    folder: TempDir,
    /// TMPDIR of the commands: recordings of failed tests stay there.
    recordings: TempDir,
}

impl Project {
    /// Makes a project with tests described by this text; 2 runs after 1 of warm-up, no build.
    pub fn new(tests: &str) -> Self {
        let project = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            recordings: tempfile::tempdir().expect("a temporary folder"),
        };
        project.write("allotrope.toml", &format!("[defaults]\nruns = 2\n{tests}"));
        project.write("bench.c", include_str!("programs/bench.c"));
        project.compile(&[]);
        project
    }

    /// Makes a project with a test for each of these cases of the program.
    pub fn with_cases(cases: &[&str]) -> Self {
        let tests: String = cases
            .iter()
            .map(|case| format!("[tests.{case}]\ncommand = [\"./bench\", \"{case}\"]\n"))
            .collect();
        Self::new(&tests)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// TMPDIR of the commands: recordings of failed tests stay there.
    pub fn recordings(&self) -> &Path {
        self.recordings.path()
    }

    pub fn write(&self, file: &str, text: &str) {
        std::fs::write(self.folder().join(file), text).expect("the folder is ours");
    }

    pub fn read(&self, file: &str) -> String {
        let path = self.folder().join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Replaces text in a file.
    #[track_caller]
    pub fn replace(&self, file: &str, from: &str, to: &str) {
        let text = self.read(file);
        text.has(from);
        self.write(file, &text.replace(from, to));
    }

    /// Compiles the program with these definitions.
    #[track_caller]
    pub fn compile(&self, flags: &[&str]) {
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut command = Command::new(compiler);
        command
            .args([
                "-g",
                "-O1",
                "-fno-builtin",
                "-fno-optimize-sibling-calls",
                "-fno-inline",
            ])
            .args(["-pthread", "-w", "-o", "bench", "bench.c"])
            .args(flags)
            .current_dir(self.folder());
        run(&mut command, b"").ok();
    }

    /// The number of the line that ends in `MARK name`.
    #[track_caller]
    pub fn line_of(&self, mark: &str) -> usize {
        let text = self.read("bench.c");
        let mark = format!("MARK {mark}");
        let line = text
            .lines()
            .position(|line| line.trim_end().ends_with(&mark));
        line.unwrap_or_else(|| panic!("no {mark}")) + 1
    }

    /// `allotrope test` with these arguments.
    pub fn test(&self, arguments: &[&str]) -> Ended {
        self.command("test", arguments)
    }

    /// A subcommand with these arguments.
    pub fn command(&self, subcommand: &str, arguments: &[&str]) -> Ended {
        self.command_with(subcommand, arguments, |command| command)
    }

    /// Runs a subcommand with a change to the command, such as a variable.
    pub fn command_with(
        &self,
        subcommand: &str,
        arguments: &[&str],
        change: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Ended {
        let mut command = record::command();
        command
            .arg(subcommand)
            .args(arguments)
            .current_dir(self.folder())
            .env("XDG_CACHE_HOME", self.folder().join(".cache"))
            .env("TMPDIR", self.recordings())
            .env_remove("NO_COLOR")
            // Recordings of failed tests would be in it.
            .env_remove("CARGO_TARGET_DIR");
        change(&mut command);
        run(&mut command, b"")
    }

    /// Accepts whatever is measured.
    #[track_caller]
    pub fn accept(&self) {
        self.test(&["--accept"]).ok();
    }
}
