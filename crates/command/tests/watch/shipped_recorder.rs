//! `allotrope recorder -o FILE`: with `LD_PRELOAD` and one variable, and without the command, a process can be
//! watched. A value that makes no sense leaves the program as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use allotrope_sampling::Period;
use allotrope_shm::samples::file::find;
use tempfile::TempDir;

use crate::support::watched::Program;
use crate::support::{Text, allotrope, check_each, compiled, record, run};

/// A size that nothing but the test's own commands allocates.
const SIZE: u64 = 4321;

/// A folder with the library.
struct Shipped(TempDir);

impl Shipped {
    fn new() -> Self {
        let shipped = Self(tempfile::tempdir().expect("a folder"));
        shipped.write().ok().says("wrote ");
        shipped
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("liballotrope.so")
    }

    fn write(&self) -> crate::support::Ended {
        allotrope(["recorder".as_ref(), "-o".as_ref(), self.path().as_os_str()])
    }
}

/// A program with the library preloaded.
fn preloaded(library: &Path, program: impl AsRef<Path>, value: Option<&str>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env("LD_PRELOAD", library);
    command.env_remove("ALLOTROPE_WATCH");
    value.map(|value| command.env("ALLOTROPE_WATCH", value));
    command
}

/// 7 blocks, all of which are sampled with a period of one byte.
#[test]
fn ld_preload_and_one_variable_make_a_process_watchable() {
    let shipped = Shipped::new();
    let mut program = Program::start_as(&mut preloaded(
        &shipped.path(),
        compiled("watched.c"),
        Some("1"),
    ));
    program.tell(&format!("malloc 7 {SIZE}"));
    let process = program.id().to_string();
    let words = [
        "watch", &process, "--once", "--format", "json", "--top", "1000",
    ];
    let report = allotrope(words).ok().json();
    let sites = report["sites"].as_array().expect("sites");
    let is_it = |it: &&serde_json::Value| it["stack"].to_string().contains("by_malloc");
    let site = sites.iter().find(is_it).expect("a site");
    assert_eq!(site["live_bytes"], 7 * SIZE, "{site:#}");
    assert_eq!(report["processes"][0]["period_bytes"], 1);
}

/// Few blocks, or none, are sampled until a watcher comes, also in what the program starts.
#[test]
fn standby_waits_for_a_watcher() {
    let shipped = Shipped::new();
    for (value, period) in [("standby", Some(Period::SPARSE)), ("off", None)] {
        let mut shell = preloaded(&shipped.path(), "/bin/sh", Some(value));
        let mut program = Program::start_as(
            shell
                .args(["-c", "\"$0\"; true"])
                .arg(compiled("watched.c")),
        );
        program.tell(&format!("malloc 3 {SIZE}"));
        let state = program.state();
        assert_eq!((state.period, state.standby), (period, period));
        assert_eq!(state.periods.is_complete(), period.is_some());
    }
}

#[test]
fn without_the_variable_the_library_does_nothing() {
    let shipped = Shipped::new();
    for value in [None, Some("")] {
        let program = compiled("watched.c");
        let mut program = Program::start_as(&mut preloaded(&shipped.path(), program, value));
        program.tell(&format!("malloc 7 {SIZE}"));
        assert!(find(program.id()).is_err(), "{value:?}");
        let process = program.id().to_string();
        let ended = allotrope(["watch", &process, "--once"]);
        assert_eq!(ended.status.code(), Some(2));
        assert!(program.end().errors().is_empty());
    }
}

#[test]
fn a_value_that_makes_no_sense_leaves_the_program_untouched() {
    let shipped = Shipped::new();
    let long = "9".repeat(100_000);
    let values = [
        "0",
        "x",
        "1KB",
        "2TiB",
        "-1",
        "standby ",
        "watch:1",
        "%n%s",
        "\u{1b}[2J\u{7}",
        "1\n2",
        &long,
    ];
    check_each(values, |value| {
        let mut echo = preloaded(&shipped.path(), "/bin/echo", Some(value));
        let ended = run(echo.arg("hello"), b"").ok().error_lines(1);
        assert_eq!(ended.text(), "hello\n");
        let errors = ended.errors();
        errors.has_all(["allotrope: ", "ALLOTROPE_WATCH", "standby", "512KiB"]);
        assert!(errors.len() < 300 && !errors.contains('\u{1b}'), "{errors}");
    });
    // Where the standard error output is closed, nothing else gets the sentence.
    let script = "exec 2>&-; exec \"$0\" hello";
    let mut shell = preloaded(&shipped.path(), "/bin/sh", Some("x"));
    let ended = run(shell.args(["-c", script, "/bin/echo"]), b"").ok();
    assert_eq!(ended.text(), "hello\n");
}

/// `/etc/ld.so.preload` may name one recorder, and `record` preloads another one: only the first one
/// records, or each call would be counted twice.
#[test]
fn a_program_with_two_recorders_is_recorded_once() {
    let shipped = Shipped::new();
    // A name by which it is not recognised.
    let other = shipped.0.path().join("mine.so");
    fs::copy(shipped.path(), &other).expect("our folder");
    let totals = |recording: &crate::support::Recording| {
        let report = recording.report();
        let process = report.only();
        (process.total("allocations"), process.total("deallocations"))
    };
    let program = compiled("phases.c");
    let alone = record(&program).run().ok();
    let both = record(&program).env("LD_PRELOAD", &other).run().ok();
    assert_eq!(totals(&both), totals(&alone));
    // By its own name it is left out, as the recorder of an outer recording is.
    let named = record("sh").env("LD_PRELOAD", shipped.path());
    let text = named.args(["-c", "echo $LD_PRELOAD"]).run().ok().text();
    assert!(!text.contains("liballotrope.so"), "{text}");
}

#[test]
fn only_an_earlier_library_is_replaced() {
    let shipped = Shipped::new();
    shipped.write().ok();
    let path = shipped.path();
    let path = path.to_str().expect("UTF-8");
    // That of the C++ operators is another library, of the same tool.
    allotrope(["recorder", "--cxx-hooks", "-o", path]).ok();
    let library = fs::read(path).expect("it is written");
    assert!(library.starts_with(b"\x7fELF"));
    let streamed = allotrope(["recorder", "--cxx-hooks", "-o", "-"]).ok();
    assert!(streamed.stdout == library && streamed.stderr.is_empty());
    let other = shipped.0.path().join("other");
    let other = other.to_str().expect("UTF-8");
    fs::copy("/bin/true", other).expect("our folder");
    allotrope(["recorder", "-o", other]).fails(2, "is no earlier library of allotrope");
    allotrope(["recorder", "-o", other, "--force"]).ok();
    allotrope(["recorder", "-o", "/no/such/folder/x.so"]).fails(1, "/no/such/folder/x.so");
    allotrope(["recorder"]).fails(2, "--output");
}
