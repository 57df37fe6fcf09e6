//! The projects in `examples`: `allotrope test` passes on them as they are, and
//! fails with the right stack once their `regression.patch` is applied.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::{Ended, record, run, skip};

/// A copy of an example in a git repository of its own, at the path that it has
/// in this repository.
struct Example {
    root: TempDir,
    /// TMPDIR of the command: recordings of failed tests stay there.
    recordings: TempDir,
    name: &'static str,
}

fn ours() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("it is there")
}

/// Copies a folder without the folders that builds create.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is ours");
    for entry in fs::read_dir(from).expect("the examples are there") {
        let entry = entry.expect("it can be read");
        let (path, name) = (entry.path(), entry.file_name());
        if name == "build" || name == "target" {
            continue;
        }
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            fs::copy(&path, to.join(name)).expect("the folder is ours");
        }
    }
}

impl Example {
    fn new(name: &'static str) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let recordings = tempfile::tempdir().expect("a temporary folder");
        let example = Self {
            root,
            recordings,
            name,
        };
        copy(&ours().join("examples").join(name), &example.folder());
        let git = Command::new("git")
            .args(["init", "--quiet"])
            .current_dir(example.root.path())
            .status();
        assert!(git.expect("git is there").success());
        example
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("examples").join(self.name)
    }

    /// Runs `allotrope test` with its own folder in PATH, as if it were installed.
    fn test(&self) -> Ended {
        let command = record::command();
        let folder = Path::new(command.get_program())
            .parent()
            .expect("it is in one");
        let mut path = OsString::from(folder);
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = record::command();
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
        command
            .arg("test")
            .current_dir(self.folder())
            .env("PATH", path)
            .env("TMPDIR", self.recordings.path())
            .env("CARGO_TARGET_DIR", target)
            .env("CARGO_NET_OFFLINE", "true");
        run(&mut command, b"")
    }

    fn plant_the_regression(&self) {
        let patch = self.folder().join("regression.patch");
        let mut command = Command::new("git");
        command
            .arg("apply")
            .arg(&patch)
            .current_dir(self.root.path());
        let output = run(&mut command, b"");
        let printed = output.errors();
        assert!(output.status.success(), "{printed}");
    }
}

/// The log without what depends on the machine: paths of recordings, compiler and
/// libraries, and the callers of `main`.
fn without_machine_details(log: &str) -> String {
    let mut kept = String::new();
    let mut suspects = false;
    for line in log.lines() {
        if line.starts_with("  Changed since") {
            suspects = true;
        } else if !line.starts_with("    ") {
            suspects = false;
        }
        if suspects || line.starts_with("  Look into:") || line.contains("/allotrope-test-") {
            continue;
        }
        let end = [" ← main", " ← …"]
            .iter()
            .filter_map(|mark| line.find(mark))
            .min();
        kept.push_str(end.map_or(line, |end| &line[..end]));
        kept.push('\n');
    }
    kept
}

#[test]
fn a_cpp_project_with_cmake() {
    if !crate::support::is_installed("cmake") {
        return skip("install Debian's cmake");
    }
    let example = Example::new("cpp");
    example
        .test()
        .ok()
        .has("ok    encode/small              allocations 1,000: 1 each  bytes 85,000: 85 each")
        .has("3 tests with 4 cases: 4 passed");
    example.plant_the_regression();
    // A copy of each of the 4 fields of 20 characters, with the zero behind
    // them 21 bytes, 1000 times; of the 100 fields; of the 50.
    let printed = example
        .test()
        .code(3)
        .has("+4,000 (+4.00 each)")
        .has("Stacks of bytes, like those of allocations above: +84,000 encode")
        .has("+100,000 (+100.00 each)")
        .has("new +50 ");
    insta::assert_snapshot!("red_log_of_cpp", without_machine_details(&printed.text()));
}

#[test]
fn a_rust_crate_under_cargo_test_and_cargo_bench() {
    let example = Example::new("rust");
    // The client is ours, wherever the copy is.
    let manifest = example.folder().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).expect("it was copied");
    let client = ours().join("crates").display().to_string();
    fs::write(&manifest, text.replace("../../crates", &client)).expect("the folder is ours");
    example.test().ok().has("2 tests with 3 cases: 3 passed");
    example.plant_the_regression();
    // An upper-case copy of each of 5 fields, 1000 times; of 8, 10,000 times.
    let printed = example
        .test()
        .code(3)
        .has("+5,000 (+5.00 each)")
        .has("+80,000 (+8.00 each)");
    insta::assert_snapshot!("red_log_of_rust", without_machine_details(&printed.text()));
}
