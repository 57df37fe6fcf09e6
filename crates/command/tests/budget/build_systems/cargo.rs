//! `cargo allotrope` in a workspace that has no `allotrope.toml`.

use std::path::Path;
use std::process::Command;

use crate::support::{Ended, Text, run};
use tempfile::TempDir;

use crate::build_systems::files::{path_with_allotrope, read, repository, write};

/// Two packages: `parser` with windows in its library, a test and a benchmark, and `plain`
/// without any.
struct Workspace(TempDir);

const LIBRARY: &str = "\
use std::hint::black_box;

pub fn parse(count: usize) -> usize {
    (0..count).map(|_| black_box(vec![0_u8; 100]).len()).sum()
}

pub fn once_more() {}

#[cfg(test)]
mod tests {
    #[allotrope::test(iterations = 40)]
    fn numbers() {
        // 40 allocations.
        assert_eq!(super::parse(40), 4000);
        super::once_more();
    }

    #[test]
    fn the_environment_is_that_of_cargo_test() {
        let folder = std::env::var_os(\"CARGO_MANIFEST_DIR\");
        assert_eq!(folder.map(Into::into), std::env::current_dir().ok());
    }
}
";

/// 70 allocations in a window.
const INTEGRATION: &str = "#[test]
fn many() {
    allotrope::measure(\"many\", 1, || parser::parse(70));
}
";

/// Links the client, but opens no window.
const NO_WINDOW: &str = "#[test]
fn none() {
    if std::env::args().count() > 100 {
        allotrope::measure(\"none\", 1, || ());
    }
}
";

/// 90 allocations in a window, without a harness.
const BENCH: &str = "fn main() {
    allotrope::measure(\"ninety\", 1, || parser::parse(90));
}
";

impl Workspace {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let client = repository().join("crates/target/client");
        let parser = format!(
            "[package]\nname = \"parser\"\nedition = \"2024\"\n[dev-dependencies]\n\
             allotrope = {{ package = \"allotrope-client\", path = {client:?} }}\n\
             [[bench]]\nname = \"speed\"\nharness = false\n"
        );
        let files = [
            (
                "Cargo.toml",
                "[workspace]\nmembers = [\"parser\", \"plain\"]\nresolver = \"3\"\n",
            ),
            ("parser/Cargo.toml", &parser),
            ("parser/src/lib.rs", LIBRARY),
            ("parser/tests/many.rs", INTEGRATION),
            ("parser/tests/none.rs", NO_WINDOW),
            ("parser/benches/speed.rs", BENCH),
            (
                "plain/Cargo.toml",
                "[package]\nname = \"plain\"\nedition = \"2024\"\n",
            ),
            ("plain/src/lib.rs", "#[test]\nfn f() {}\n"),
        ];
        write(folder.path(), &files);
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A command in the workspace, in whose `PATH` Allotrope is.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env("PATH", path_with_allotrope())
            .env("TMPDIR", self.path())
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .env("CARGO_TARGET_DIR", self.path().join("target"))
            .env("CARGO_NET_OFFLINE", "true");
        command
    }

    /// Runs `cargo allotrope` with these arguments.
    #[track_caller]
    fn allotrope(&self, arguments: &[&str]) -> Ended {
        run(self.command("cargo").arg("allotrope").args(arguments), b"")
    }

    /// Runs a command that a log proposes.
    #[track_caller]
    fn paste(&self, line: &str) -> Ended {
        assert!(line.starts_with("cargo allotrope test "), "{line}");
        run(self.command("sh").args(["-c", line]), b"")
    }
}

#[test]
fn tests_with_windows_are_measured_without_a_configuration() {
    let workspace = Workspace::new();
    let first = workspace
        .allotrope(&["test", "--workspace", "--", "--runs", "2"])
        .code(3);
    let first = first.has("parser/tests::numbers").has("parser.many/many");
    let first = first.lacks("plain").lacks("parser.none").lacks("ninety");
    let first = first.says("no window was opened: parser.none");
    workspace
        .paste(&first.after("To accept these first numbers:"))
        .ok();
    let budgets = workspace.path().join("allotrope-budgets/cargo");
    let budget = read(&budgets.join("parser.toml"));
    budget.has("[shared.cases.\"parser/tests::numbers\"]\niterations = 40\n");
    budget.has("allocations = 40\n");
    budget.has("`cargo allotrope test -- --accept parser`");
    let budget = read(&budgets.join("parser.many.toml"));
    budget.has("allocations = 70\n");

    workspace.allotrope(&["test", "--", "--runs", "2"]).ok();
    // Tests that were not chosen are no orphans.
    let some = workspace.allotrope(&["test", "-p", "parser", "--lib", "--", "--runs", "2"]);
    some.ok().lacks("no longer exist").lacks("parser.many");
    workspace
        .allotrope(&["test", "--", "--prune"])
        .ok()
        .has("every budget has a test");

    // One allocation more; the log names its line and a command that can be pasted.
    let worse = LIBRARY.replace(
        "once_more() {}",
        "once_more() { drop(black_box(Box::new(1))); }",
    );
    write(workspace.path(), &[("parser/src/lib.rs", &worse)]);
    let red = workspace
        .allotrope(&["test", "-p", "parser", "--", "--runs", "2"])
        .code(3);
    let red = red.has("+1").has("once_more").has("parser/src/lib.rs:7");
    let again = red.after("Run again:");
    assert_eq!(again, "cargo allotrope test -p parser -- parser");
    workspace
        .paste(&format!("{again} --runs 2"))
        .code(3)
        .has("+1");
}

#[test]
fn a_configuration_sets_what_the_command_does_not() {
    let workspace = Workspace::new();
    let configuration = "[defaults]\nruns = 3\ngate = [\"bytes\"]\n\
                         [cargo-tests.\"parser.bench.speed\"]\nruns = 2\ngate = [\"allocations\"]\n";
    write(workspace.path(), &[("allotrope.toml", configuration)]);
    workspace
        .allotrope(&["test", "--benches", "--", "--accept"])
        .ok();
    let budgets = workspace.path().join("allotrope-budgets/cargo");
    let budget = read(&budgets.join("parser.bench.speed.toml"));
    budget.has("allocations = 90\n").lacks("bytes");
    // `cargo test --benches` also builds the library's tests.
    let budget = read(&budgets.join("parser.toml"));
    budget.has("bytes = 4000\n").lacks("allocations");
    let broken = read(&budgets.join("parser.toml")).replace("bytes = ", "bytes = = ");
    write(&budgets, &[("parser.toml", &broken)]);
    let red = workspace.allotrope(&["test", "--lib"]).code(2);
    let line = red.text().replace("\n", " ");
    let (_, line) = line.split_once("; `").expect("a remedy");
    let line = line.split_once('`').expect("it ends").0;
    let words: Vec<&str> = line.split_whitespace().collect();
    workspace.paste(&words.join(" ")).ok();
    workspace.allotrope(&["test", "--lib"]).ok();
}

#[test]
fn what_cannot_be_built_or_opens_no_window_is_not_green() {
    let workspace = Workspace::new();
    workspace
        .allotrope(&["test", "-p", "plain"])
        .code(5)
        .says("no test program of Cargo opens a window");
    workspace
        .allotrope(&["test", "--test", "none"])
        .code(5)
        .says("nothing was measured");
    workspace
        .allotrope(&["test", "--nonsense"])
        .code(2)
        .says("'--nonsense'");
    workspace
        .allotrope(&["test", "--lib", "--", "nonsense"])
        .code(2)
        .says("`cargo allotrope test --lib -- --list` shows all");
    write(workspace.path(), &[("plain/src/lib.rs", "fn broken( {\n")]);
    workspace
        .allotrope(&["test", "--workspace"])
        .code(5)
        .says("plain/src/lib.rs:1")
        .says("cargo could not build the tests");
}

#[test]
fn other_subcommands_are_passed_on() {
    let workspace = Workspace::new();
    workspace
        .allotrope(&["record", "-o", "x.allotrope", "--", "sh", "-c", "exit 7"])
        .code(7);
    workspace.allotrope(&["report", "x.allotrope"]).ok();
    workspace
        .allotrope(&["--help"])
        .ok()
        .has("cargo allotrope SUBCOMMAND");
    workspace
        .allotrope(&["test", "--help"])
        .ok()
        .has("PACKAGE.bench.NAME");
}
