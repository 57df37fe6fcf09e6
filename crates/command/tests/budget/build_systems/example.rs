//! A copy of a folder of `examples` in a git repository of its own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Ended, Text, run};
use tempfile::TempDir;

use crate::build_systems::files::{path_with_allotrope, read, repository, write};

/// The copy, at the path that the example has in this repository.
pub struct Example {
    root: TempDir,
    name: &'static str,
}

/// Copies a folder without the folders that builds create. Links become files.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is ours");
    for entry in fs::read_dir(from).expect("the examples are there") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().expect("it has a name");
        if name == "build" || name == "__pycache__" {
            continue;
        }
        match path.is_dir() {
            true => copy(&path, &to.join(name)),
            false => drop(fs::copy(&path, to.join(name)).expect("the folder is ours")),
        }
    }
}

/// `PATH` as it is where Allotrope is not installed.
fn path_without_allotrope() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|it| !it.join("allotrope").exists());
    std::env::join_paths(folders).expect("they come from a path")
}

impl Example {
    pub fn new(name: &'static str) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let example = Self { root, name };
        let original = repository().join("examples").join(name);
        copy(&original, &example.folder());
        let mut git = Command::new("git");
        git.args(["init", "--quiet"])
            .current_dir(example.root.path());
        run(&mut git, b"").ok();
        example
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn folder(&self) -> PathBuf {
        self.root().join("examples").join(self.name)
    }

    /// Runs a command in the example; Allotrope is installed or not.
    #[track_caller]
    pub fn run(&self, installed: bool, words: &[&str]) -> Ended {
        let (program, arguments) = words.split_first().expect("a program");
        let path = match installed {
            true => path_with_allotrope(),
            false => path_without_allotrope(),
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.folder())
            .env("PATH", path)
            .env("TMPDIR", self.root())
            .env("XDG_CACHE_HOME", self.root().join("cache"))
            .env_remove("DESTDIR");
        run(&mut command, b"")
    }

    /// Replaces text in a file.
    #[track_caller]
    pub fn replace(&self, file: &str, from: &str, to: &str) {
        let text = read(&self.folder().join(file));
        text.has(from);
        write(&self.folder(), &[(file, &text.replace(from, to))]);
    }

    /// Makes `split` of the C example allocate once more.
    #[track_caller]
    pub fn worsen(&self) {
        self.replace(
            "src/lines.c",
            "    *count = 1;\n",
            "    *count = 1;\n    free(strdup(line));\n",
        );
    }

    /// The accepted numbers of a test.
    #[track_caller]
    pub fn budget(&self, test: &str) -> String {
        read(&self.folder().join(format!("allotrope-budgets/{test}.toml")))
    }

    /// Fails unless the accepted numbers of the C example follow from its source: 1000
    /// iterations with 1 + 5 blocks (a list of 5 pointers and the fields' 17 letters with 5
    /// zeros), and with 1 block of 22 bytes.
    #[track_caller]
    pub fn has_the_budgets_of_lines(&self) {
        let (split, join) = (self.budget("split"), self.budget("join"));
        split.has_all(["allocations = 6000\n", "bytes = 62000\n"]);
        join.has_all(["allocations = 1000\n", "bytes = 22000\n"]);
    }
}
