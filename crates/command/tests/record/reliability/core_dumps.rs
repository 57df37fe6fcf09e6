//! A recorded program dumps core as without a recording: `programs/core_dump.c`.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::matrix::{Outcome, case};
use super::targets::{expect_complete, expect_work, target};
use crate::support::{Ended, Recording, Text, is_installed, record, run};

const GROUP: &str = "Core dumps";
/// Limit of the limited case.
const LIMIT: u64 = 64 << 10;
/// Upper bound of what a core file may hold of the recorder: its library, tables and
/// private pages. The shared memory, 1 GiB, must not be in it.
const OURS: u64 = 8 << 20;

/// One run of `core_dump`: its output and its core file.
struct Dumped {
    output: Ended,
    core: Option<(PathBuf, Metadata)>,
}

fn dumped(output: Ended, folder: &Path) -> Dumped {
    // `core` or `core.PID`, as the kernel is set up.
    let core = std::fs::read_dir(folder)
        .expect("it exists")
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with("core"))
        .map(|entry| (entry.path(), entry.metadata().expect("it exists")));
    Dumped { output, core }
}

/// Runs it without a recording, in a folder of its own.
fn plain(limit: &str, folder: &Path) -> Dumped {
    let mut command = Command::new(target("core_dump.c"));
    let output = run(command.arg(limit).current_dir(folder), b"");
    dumped(output, folder)
}

fn recorded(limit: &str) -> (Recording, Dumped) {
    let recording = record(target("core_dump.c"))
        .option("-q")
        .arg(limit)
        .run()
        .code(7);
    let dumped = dumped(recording.ended.clone(), recording.folder.path());
    (recording, dumped)
}

/// The child's last allocation is recorded, and how it ended.
fn expect_the_child(recording: &Recording) {
    let report = recording.report();
    expect_complete(&report);
    let images = report.processes();
    assert_eq!(images.len(), 2, "{}", report.summary());
    let aborted = json!({"signal": "SIGABRT"});
    let child = images.iter().find(|image| *image.exit() == aborted);
    let child = child.unwrap_or_else(|| panic!("{}", report.summary()));
    expect_work(child, "last_allocation", 1, 100);
}

/// Both runs, if the machine lets the plain one dump; otherwise the reason.
fn both(limit: &str, folder: &Path) -> Result<(Dumped, Recording, Dumped), String> {
    let plain = plain(limit, folder);
    if plain.core.is_none() {
        let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
        let printed = plain.output.text();
        return Err(format!(
            "without a recording there is no core file either: core_pattern {}, {}",
            pattern.trim(),
            printed.trim()
        ));
    }
    let (recording, dumped) = recorded(limit);
    assert_eq!(dumped.output.text(), plain.output.text());
    assert_eq!(dumped.output.stderr, plain.output.stderr);
    expect_the_child(&recording);
    Ok((plain, recording, dumped))
}

/// What gdb prints of the core file, if there is a gdb.
fn read_by_gdb(core: &Path) -> Option<String> {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-q", "-batch", "-ex", "bt", "-ex", "output kept"])
        .arg(target("core_dump.c"))
        .arg(core);
    is_installed("gdb").then(|| run(&mut gdb, b"").text())
}

#[test]
fn core_file() {
    let expected = "status with WCOREDUMP; a readable core file without our shared memory";
    case(GROUP, "a child that aborts", expected, || {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (plain, _recording, dumped) = match both("all", folder.path()) {
            Ok(runs) => runs,
            Err(reason) => return Outcome::Skipped(reason),
        };
        let (path, core) = dumped.core.expect("a core file, as without us");
        let (_, plain) = plain.core.expect("checked");
        assert!(
            core.len() <= plain.len() + OURS,
            "{} against {}",
            core.len(),
            plain.len()
        );
        let bytes = std::fs::read(&path).expect("it is ours");
        assert_eq!(bytes.get(..4), Some(b"\x7fELF".as_slice()));
        let read = match read_by_gdb(&path) {
            Some(read) => {
                read.has_all(["last_allocation", "kept in the core"]);
                "read by gdb"
            }
            None => "no gdb to read it",
        };
        Outcome::Seen(format!(
            "dumped, {} KiB more than without, {read}",
            core.len().saturating_sub(plain.len()) >> 10
        ))
    });
}

#[test]
fn limited_core_file() {
    let expected = "status with WCOREDUMP, a core file within the limit";
    case(GROUP, "RLIMIT_CORE of 64 KiB", expected, || {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (_, _recording, dumped) = match both(&LIMIT.to_string(), folder.path()) {
            Ok(runs) => runs,
            Err(reason) => return Outcome::Skipped(reason),
        };
        let (_, core) = dumped.core.expect("a core file, as without us");
        // The limit counts what the kernel writes, not the holes in the file.
        let written = core.blocks() * 512;
        assert!(written <= LIMIT, "{written} bytes");
        Outcome::Seen(format!("dumped, {} KiB", written >> 10))
    });
}

#[test]
fn no_core_file() {
    let expected = "status without WCOREDUMP, no core file";
    case(GROUP, "RLIMIT_CORE of 0", expected, || {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let plain = plain("0", folder.path());
        let (recording, dumped) = recorded("0");
        assert_eq!(dumped.output.stdout, plain.output.stdout);
        expect_the_child(&recording);
        let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
        if pattern.starts_with('|') {
            // A crash handler gets the core instead of a file and ignores the limit.
            return Outcome::Seen("the same status".to_owned());
        }
        assert!(plain.core.is_none() && dumped.core.is_none());
        Outcome::Seen("the same status, no file".to_owned())
    });
}
