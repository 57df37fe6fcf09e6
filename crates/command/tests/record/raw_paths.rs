//! Paths and arguments are bytes: a folder, a program, its arguments and a
//! library whose names are no UTF-8, from the command line to the report, and
//! back into a shell.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Text, allotrope, compiled, run};
use allotrope_trace::model::Record;
use allotrope_trace::{Entry, TraceReader};

/// Latin-1, as an old archive unpacks it; and a byte that UTF-8 never has.
const FOLDER: &[u8] = b"caf\xe9";
const PROGRAM: &[u8] = b"str\xffeam";

/// A folder with a name of raw bytes, the program in it likewise.
fn raw_folder(parent: &Path) -> PathBuf {
    let folder = parent.join(OsStr::from_bytes(FOLDER));
    fs::create_dir(&folder).expect("the folder is ours");
    fs::copy(
        compiled("stream.c"),
        folder.join(OsStr::from_bytes(PROGRAM)),
    )
    .expect("a copy");
    folder
}

fn raw_name(name: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(name))
}

fn records(trace: &Path) -> Vec<Record> {
    let reader = TraceReader::open(trace).expect("it was written");
    let entries = reader.entries().map(|entry| entry.expect("it is whole"));
    let record = |entry| match entry {
        Entry::Record(record) => Some(record),
        Entry::Events(_) => None,
    };
    entries.filter_map(record).collect()
}

#[test]
fn a_program_and_its_folder_are_recorded_whatever_they_are_called() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let folder = raw_folder(parent.path());
    let program = raw_name(&[b"./".as_slice(), PROGRAM].concat());
    let mut command = crate::support::record::command();
    command
        .arg("record")
        .arg("--")
        .arg(&program)
        .arg("10")
        .arg(OsStr::from_bytes(b"\xfe\x1b[2J"))
        .current_dir(&folder);
    // A hang fails here, after the limit of `run`.
    let output = run(&mut command, b"");
    let printed = String::from_utf8(output.stderr).expect("bytes that are no UTF-8 are escaped");
    assert_eq!(output.status.code(), Some(0), "{printed}");
    let entries = fs::read_dir(&folder).expect("it is ours");
    let mut paths = entries.map(|entry| entry.expect("it can be read").path());
    let trace = paths
        .find(|path| path.as_os_str().as_bytes().ends_with(b".allotrope"))
        .expect("it was written");
    let name = trace.file_name().expect("it has one").as_bytes();
    assert!(name.starts_with(PROGRAM), "{trace:?}");

    // The trace has the bytes.
    let records = records(&trace);
    let whole = folder.join(OsStr::from_bytes(PROGRAM));
    let whole = fs::canonicalize(whole).expect("it is there");
    let arguments = [
        program.as_os_str(),
        OsStr::new("10"),
        OsStr::from_bytes(b"\xfe\x1b[2J"),
    ];
    let start = records.iter().find_map(|record| match record {
        Record::ImageStart(start) => Some(start),
        _ => None,
    });
    let start = start.expect("one image");
    assert_eq!(
        fs::canonicalize(folder.join(&start.executable)).ok(),
        Some(whole.clone())
    );
    assert_eq!(start.command, arguments);
    assert!(records.iter().any(
        |record| matches!(record, Record::Recording(recording) if recording.command == arguments)
    ));
    let is_module = |record: &Record| match record {
        Record::Module(module) => {
            fs::canonicalize(folder.join(&module.path)).ok().as_ref() == Some(&whole)
        }
        _ => false,
    };
    assert!(records.iter().any(is_module));

    // The names of its functions were found through that path.
    let report = crate::support::Report::of(&trace);
    assert_eq!(report.only().under("stream").allocations, 10);
    assert_eq!(report.only().json["command"][0], r"./str\xffeam");
    // JSON keeps the control character, with an escape of its own.
    assert_eq!(report.only().json["command"][2], "\\xfe\u{1b}[2J");
    let text = allotrope(["report".as_ref(), "--lists".as_ref(), trace.as_os_str()]).text();
    assert!(text.starts_with(r"./str\xffeam 10 \xfe\x1b[2J"), "{text}");

    // The command that it proposes next works when pasted.
    let next = printed
        .lines()
        .find(|line| line.starts_with("allotrope: next"));
    let next = next
        .expect("it prints what next")
        .trim_start_matches("allotrope: next")
        .trim();
    next.has(r"$'str\377eam.");
    if Command::new("bash").arg("-c").arg(":").status().is_err() {
        return crate::support::skip("there is no bash to paste into");
    }
    let this = PathBuf::from(env!("CARGO_BIN_EXE_allotrope"));
    let mut folders = vec![this.parent().expect("it lies in a folder").to_owned()];
    folders.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let mut pasted = Command::new("bash");
    pasted
        .arg("-c")
        .arg(next)
        .env(
            "PATH",
            std::env::join_paths(folders).expect("they come from there"),
        )
        .current_dir(&folder);
    let output = run(&mut pasted, b"").ok();
    assert!(output.text().contains("stream"));
}

#[test]
fn options_may_name_any_bytes() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let folder = raw_folder(parent.path());
    let trace = folder.join(OsStr::from_bytes(b"\xf0.allotrope"));
    let recording = crate::support::record(compiled("stream.c"))
        .arg("10")
        .option("--debug-path")
        .option(&folder)
        .output(&trace)
        .run()
        .ok();
    assert_eq!(recording.report().only().under("stream").allocations, 10);
    allotrope([
        "symbolize".as_ref(),
        trace.as_os_str(),
        "-o".as_ref(),
        folder.join(OsStr::from_bytes(b"\xf1")).as_os_str(),
    ])
    .ok();
}
