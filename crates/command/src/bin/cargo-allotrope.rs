//! The program behind `cargo allotrope`: translates `cargo allotrope test` into options of
//! `allotrope test`, passes any other subcommand on, and executes `allotrope`.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The status of `allotrope` if it failed itself.
const FAILED: u8 = 1;

const HELP: &str = "\
Runs Allotrope, the heap profiler and allocation gate, in a Cargo package

Usage: cargo allotrope test [CARGO OPTION]... [-- [OPTION]... [TEST]...]
       cargo allotrope SUBCOMMAND [ARGUMENT]...

  test        compare what tests with windows allocate with accepted numbers:
              `cargo allotrope test --help`
  SUBCOMMAND  any other subcommand of allotrope, such as record, report, diff:
              `allotrope --help`
";

const TEST_HELP: &str = "\
Builds the tests of a Cargo package or workspace, runs those that open windows, and
compares what they allocate with accepted numbers

Usage: cargo allotrope test [CARGO OPTION]... [-- [OPTION]... [TEST]...]

  CARGO OPTION  any option of `cargo test` for its build: -p PACKAGE, --workspace,
                --test NAME, --benches, --examples, --features, --profile, ...
                The profile is `release`, with line tables, unless one is named.
  OPTION, TEST  those of `allotrope test`: --accept, --runs N, --format, ...
                (`allotrope test --help`)

  cargo allotrope test                                 status 0, 3, 4 or 5
  cargo allotrope test -- --accept                     the numbers are the new budgets
  cargo allotrope test -p parser -- --samples parser   one package, one test

A window is opened by a function with `#[allotrope::test]`, or by `allotrope::measure`.
A test program is the test PACKAGE (of the library), PACKAGE.NAME (tests/NAME.rs), or
PACKAGE.bin.NAME, PACKAGE.bench.NAME, PACKAGE.example.NAME; its tests run one after the
other. Benchmarks and examples are measured with --benches or --examples. Programs that
open no window, and documentation tests, are not measured.

Budgets are in allotrope-budgets/cargo at the root of the workspace. An allotrope.toml
there is not needed; its `[defaults]` and `[cargo-tests.\"NAME\"]` apply.

Exit status: as of `allotrope test`; 5 if cargo cannot build the tests, or if no test opens
a window.
";

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
    // Cargo passes the name of the subcommand.
    if arguments.first().is_some_and(|word| word == "allotrope") {
        arguments.remove(0);
    }
    let is = |index: usize, words: &[&str]| {
        let argument: Option<&OsString> = arguments.get(index);
        argument.is_some_and(|argument| words.iter().any(|word| argument == word))
    };
    let help = ["-h", "--help"];
    if arguments.is_empty() || is(0, &help) {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let words = if is(0, &["test"]) {
        if is(1, &help) {
            print!("{TEST_HELP}");
            return ExitCode::SUCCESS;
        }
        of_test(&arguments[1..])
    } else {
        arguments
    };
    let program = allotrope();
    let error = Command::new(&program).args(words).exec();
    eprintln!("cargo-allotrope: cannot run {}: {error}", program.display());
    ExitCode::from(FAILED)
}

/// `allotrope test` with cargo's arguments, which are those before the first `--`.
fn of_test(arguments: &[OsString]) -> Vec<OsString> {
    let mut parts = arguments.splitn(2, |word| word == "--");
    let mut words: Vec<OsString> = vec!["test".into(), "--cargo".into()];
    for argument in parts.next().unwrap_or_default() {
        let mut word = OsString::from("--cargo-argument=");
        word.push(argument);
        words.push(word);
    }
    words.extend_from_slice(parts.next().unwrap_or_default());
    words
}

/// The program `allotrope`: installed beside this one, or else in `PATH`.
fn allotrope() -> PathBuf {
    let beside = env::current_exe().map(|this| this.with_file_name("allotrope"));
    match beside {
        Ok(path) if path.exists() => path,
        _ => "allotrope".into(),
    }
}
