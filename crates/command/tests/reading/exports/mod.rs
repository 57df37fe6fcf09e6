//! `export` to other tools' formats, opened by the tools or decoded independently, and `report`
//! and `diff` as flame graphs. The expected figures come from the programs' sources.
//!
//! DHAT's viewer, `go tool pprof` and inferno open exports in the tests of `allotrope-formats`.

mod browser;
mod firefox;
mod flame_graphs;
mod heaptrack;
pub mod perfetto;
mod perfetto_files;
mod sums;

use std::path::Path;
use std::sync::LazyLock;

use crate::support::{Ended, Record, Recording, Text, compiled, record};

/// `metrics.c`, its case `peak_in_between`: `first` allocates 10 blocks of 1000 bytes and
/// leaks them; `second` one of 20,000 bytes, freed at once; `third` one of 5000, leaked. At
/// the peak those of `first` and `second` are live.
static METRICS: LazyLock<Recording> = LazyLock::new(|| {
    record(compiled("metrics.c"))
        .arg("peak_in_between")
        .run()
        .ok()
});

/// `steps.c`, with the mark `between` after its first step: `first_step` has allocated 10 blocks
/// of 1000 bytes then; later 4 of them are freed, and `second_step` allocates 20 of 300.
static STEPS: LazyLock<Record> = LazyLock::new(|| {
    let record = record(compiled("steps.c"));
    let mut recording = record.start();
    let line = recording.line();
    let pid = line.split(' ').nth(1).expect("its pid");
    crate::support::allotrope(["mark", pid, "between"]).ok();
    recording.write(b"xx");
    recording.end().ok();
    record
});

fn steps() -> std::path::PathBuf {
    STEPS.folder().join("recorded.allotrope")
}

fn allotrope(arguments: &[&str]) -> Ended {
    crate::support::allotrope(arguments)
}

/// The standard output of a command that succeeds.
#[track_caller]
fn fine(arguments: &[&str]) -> Vec<u8> {
    allotrope(arguments).ok().stdout
}

/// What `export` writes.
#[track_caller]
fn exported(trace: &Path, format: &str, options: &[&str]) -> Vec<u8> {
    let file = trace.to_str().expect("a plain name");
    fine(&[&["export", file, "--format", format], options].concat())
}

/// Fails unless a command is refused with status 2 in one sentence that has these words.
#[track_caller]
fn refused(arguments: &[&str], parts: &[&str]) {
    let output = allotrope(arguments).code(2).error_lines(1);
    assert!(output.stdout.is_empty(), "{output}");
    output.errors().has_all(parts);
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("there is a folder for temporary files")
}

/// A file of folded stacks, which knows nothing but numbers of allocations.
fn folded(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("stacks.folded");
    std::fs::write(&path, "main;f 5\n").expect("the folder is ours");
    path.to_str().expect("a plain name").to_owned()
}

/// Formats of times and single blocks are refused for sources that have only sums.
#[test]
fn what_has_no_meaning_is_refused_in_one_sentence() {
    let folder = folder();
    let stacks = folded(&folder);
    for (format, part) in [
        ("firefox", "no times"),
        ("heaptrack", "no times"),
        ("perfetto", "does not give allocated bytes"),
    ] {
        refused(
            &["export", &stacks, "--format", format],
            &["stacks.folded", part],
        );
    }
    let steps = steps();
    let steps = steps.to_str().expect("a plain name");
    let moment = format!("{steps}@between");
    refused(&["export", &moment, "--format", "firefox"], &["no times"]);
    for format in ["firefox", "heaptrack", "perfetto"] {
        let per = ["export", steps, "--format", format, "--per", "2"];
        refused(&per, &["--per"]);
    }
    refused(
        &["export", steps, "--format", "csv", "--process", "99"],
        &["there is no process 99"],
    );
    refused(
        &["export", &stacks, "--format", "csv", "--process", "0"],
        &["leave --process out"],
    );
    let counted = record(compiled("metrics.c")).option("--counts-only");
    let counted = counted.arg("temporary").run().ok();
    let counted = counted.trace.to_str().expect("a plain name");
    for format in ["firefox", "heaptrack", "perfetto", "speedscope", "csv"] {
        refused(&["export", counted, "--format", format], &["--counts-only"]);
    }
    refused(
        &["report", counted, "--flamegraph", "/dev/stdout"],
        &["--counts-only"],
    );
}

/// Where sums have a meaning, those of other tools are written, too.
#[test]
fn stacks_of_other_tools_become_sums() {
    let folder = folder();
    let stacks = folded(&folder);
    let csv = String::from_utf8(fine(&["export", &stacks, "--format", "csv"])).expect("text");
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows.len(), 2, "{csv}");
    assert_eq!(rows[1], ",,,5,,,,,,,,,,,,,,,,,,,f,,,,main;f");
    let scope = fine(&["export", &stacks, "--format", "speedscope"]);
    sums::check_speedscope(&scope, &[("allocations", 5)]);
    let dhat = folder.path().join("metrics.json");
    let path = dhat.to_str().expect("a plain name");
    let metrics = METRICS.trace.to_str().expect("a plain name");
    fine(&["export", metrics, "--format", "dhat", "-o", path]);
    let (_, heaps) = perfetto::heaps(&fine(&["export", path, "--format", "perfetto"]));
    assert_eq!(heaps.len(), 1);
    let heap = heaps.values().next().expect("one");
    assert_eq!(perfetto_files::under(heap, "first").allocated, 10_000);
    assert_eq!(perfetto_files::under(heap, "second").freed, 20_000);
}
