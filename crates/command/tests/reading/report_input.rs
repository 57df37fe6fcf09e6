//! What `report` does with files that are not whole traces, and with programs
//! that are gone.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Ended, Report, Text, allotrope, compiled, record};
use tempfile::TempDir;

fn report(path: &Path) -> Ended {
    allotrope(["report".as_ref(), "--lists".as_ref(), path.as_os_str()])
}

fn report_json(path: &Path) -> Ended {
    allotrope([
        "report".as_ref(),
        "--format".as_ref(),
        "json".as_ref(),
        path.as_os_str(),
    ])
}

fn expect_refusal(path: &Path) -> String {
    let output = report(path).code(2);
    let printed = output.errors();
    assert!(output.stdout.is_empty(), "{}", path.display());
    let name = path.file_name().expect("tests name files");
    assert!(printed.contains(&*name.to_string_lossy()), "{printed}");
    assert_eq!(
        printed.trim_end().lines().count(),
        1,
        "one sentence: {printed}"
    );
    printed
}

fn file(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("the folder is ours");
    path
}

fn trace() -> Vec<u8> {
    let recording = record(compiled("stream.c")).arg("300000").run().ok();
    std::fs::read(&recording.trace).expect("it was written")
}

#[test]
fn files_that_are_no_trace() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    expect_refusal(&folder.path().join("missing.allotrope"));
    expect_refusal(&file(&folder, "empty.allotrope", b""));
    expect_refusal(&file(
        &folder,
        "text.allotrope",
        b"This is no trace at all.\n",
    ));
    expect_refusal(&file(&folder, "zeros.allotrope", &[0; 100_000]));
    let program = std::fs::read(compiled("stream.c")).expect("it was compiled");
    expect_refusal(&file(&folder, "program.allotrope", &program));
    let directory = folder.path().join("folder.allotrope");
    std::fs::create_dir(&directory).expect("the folder is ours");
    expect_refusal(&directory);
}

/// The major version is in the header's bytes 8 and 9.
#[test]
fn a_trace_of_a_newer_version() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut bytes = trace();
    let major = u16::from_le_bytes([bytes[8], bytes[9]]);
    bytes[8..10].copy_from_slice(&(major + 1).to_le_bytes());
    let printed = expect_refusal(&file(&folder, "newer.allotrope", &bytes));
    assert!(
        printed.contains("newer") || printed.contains("version"),
        "{printed}"
    );
}

#[test]
fn a_cut_trace_yields_what_is_before_the_cut() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let whole = trace();
    let total = Report::of(&file(&folder, "whole.allotrope", &whole))
        .only()
        .total("allocations");
    assert_eq!(total, 300_000);
    let mut before = 0;
    for tenth in 2..10 {
        let cut = file(&folder, "cut.allotrope", &whole[..whole.len() * tenth / 10]);
        let report = Report::of(&cut);
        assert!(!report.warnings.is_empty(), "a warning at {tenth}/10");
        let found: u64 = report
            .processes()
            .iter()
            .map(|process| {
                assert_eq!(process.json["complete"], false, "at {tenth}/10");
                process.total("allocations")
            })
            .sum();
        assert!((before..=total).contains(&found), "at {tenth}/10: {found}");
        before = found;
    }
    assert!(before > 0, "something lies before nine tenths");
}

/// Cut at any length, a trace is read or refused as documented. Its ends, where the
/// header and the closing chunk are, are cut byte by byte.
#[test]
fn a_trace_cut_anywhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let whole = trace();
    let ends = (0..48).chain(whole.len() - 24..whole.len());
    for length in ends.chain((48..whole.len()).step_by(whole.len() / 16)) {
        let output = report_json(&file(&folder, "cut.allotrope", &whole[..length]));
        let printed = output.errors();
        let code = output.status.code();
        assert!(
            code == Some(0) || code == Some(2),
            "at {length}: {code:?} {printed}"
        );
        assert!(!printed.contains("panicked"), "at {length}: {printed}");
        assert!(!printed.is_empty(), "at {length}: nothing printed");
        assert_eq!(code == Some(0), !output.stdout.is_empty(), "at {length}");
    }
}

/// Every command that reads a damaged trace shows what precedes the damage, and warns.
#[test]
fn damage_in_the_middle_is_noticed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let whole = trace();
    let allocations = |json: &[u8]| {
        let report: serde_json::Value = serde_json::from_slice(json).expect("JSON");
        let cut = report["cut"].as_str().map(str::to_owned);
        let sites = report["processes"][0]["sites"].as_array().cloned();
        let counted = sites
            .iter()
            .flatten()
            .map(|site| site["allocations"].as_u64());
        let counted: Option<u64> = counted.sum();
        (cut, counted.expect("numbers"))
    };
    let (cut, total) = allocations(&report_json(&file(&folder, "whole", &whole)).stdout);
    assert_eq!((cut, total), (None, 300_000));
    for offset in [whole.len() / 3, whole.len() / 2, whole.len() * 3 / 4] {
        let mut damaged = whole.clone();
        damaged[offset] ^= 0x04;
        let path = file(&folder, "damaged.allotrope", &damaged);
        let printed_by = |arguments: &[&str]| {
            let path = [path.as_os_str()];
            let arguments = arguments.iter().map(std::ffi::OsStr::new).chain(path);
            let output = allotrope(arguments).ok();
            let printed = output.errors();
            printed.has("damaged.allotrope is not whole");
            (printed, output.stdout)
        };
        let (printed, json) = printed_by(&["report", "--format", "json"]);
        let (cut, found) = allocations(&json);
        let cut = cut.expect("it names what is missing");
        let from: usize = (cut.split("up to byte ").nth(1))
            .and_then(|rest| rest.split(':').next()?.parse().ok())
            .expect("it names the byte");
        // A chunk is smaller than this.
        assert!(from <= offset && offset < from + (1 << 20), "{cut}");
        let missing = format!("the {} bytes from there on", whole.len() - from);
        assert!(cut.contains(&missing) && printed.contains(&cut), "{cut}");
        assert!(0 < found && found < total, "at {offset}: {found}");
        let (_, text) = printed_by(&["report", "--lists"]);
        let text = String::from_utf8_lossy(&text).into_owned();
        text.has("Incomplete: ");
        printed_by(&["export", "--format", "folded"]);
        let path = path.to_str().expect("UTF-8");
        printed_by(&["diff", path]);
    }
}

/// A trace needs nothing else: the program may be rebuilt or gone.
#[test]
fn the_program_may_change_after_the_recording() {
    let run = record("./program");
    let program = run.folder().join("program");
    let copy = |source: PathBuf| {
        let copied = Command::new("cp").arg(source).arg(&program).status();
        assert!(copied.expect("cp runs").success());
    };
    copy(compiled("attribution.c"));
    let recording = run.arg("chain").run().ok();
    let text = || report(&recording.trace).stdout;
    let (json, read) = (recording.report().json, text());
    assert!(String::from_utf8_lossy(&read).contains("middle"));

    copy(compiled("stream.c"));
    assert_eq!(recording.report().json, json, "after it was rebuilt");
    assert_eq!(text(), read, "after it was rebuilt");

    std::fs::remove_file(&program).expect("it is ours");
    assert_eq!(recording.report().json, json, "after it was deleted");
    assert_eq!(text(), read, "after it was deleted");
}
