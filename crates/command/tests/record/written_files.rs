//! Files that commands write, in folders that others can write to: links that others
//! made are not followed, only regular files are replaced, and a trace replaces only a
//! trace.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::support::{Ended, Recording, Started, Text, command, compiled, record, until};
use rustix::fs::{CWD, FileType, mknodat};
use rustix::process::Signal;

const PRECIOUS: &str = "int main(void) { return 0; }\n";

fn stream(count: &str) -> crate::support::Record {
    record(compiled("stream.c")).arg(count)
}

fn recorded() -> Recording {
    stream("10").run().ok()
}

fn allotrope<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> Ended {
    crate::support::allotrope(words)
}

/// An earlier version began its trace under a name made of its process id, which
/// `exec` keeps.
#[test]
fn a_link_under_the_name_of_an_unfinished_trace_is_not_followed() {
    let run = stream("10");
    let precious = run.folder().join("precious");
    fs::write(&precious, PRECIOUS).expect("the folder is ours");
    let recording = run.command();
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg("ln -s precious .allotrope-$$.partial; exec \"$@\"")
        .arg("sh")
        .arg(recording.get_program())
        .args(recording.get_args())
        .current_dir(run.folder());
    crate::support::run(&mut command, b"").ok();
    assert_eq!(
        fs::read_to_string(&precious).expect("it is there"),
        PRECIOUS
    );
}

#[test]
fn a_trace_is_its_owners_alone_until_it_is_complete() {
    let run = record("sh").args(["-c", "echo started; read line"]);
    let trace = run.folder().join("recorded.allotrope");
    let recording = run.command();
    let mut command = Command::new("sh");
    command
        .args(["-c", "umask 027; exec \"$@\"", "sh"])
        .arg(recording.get_program())
        .args(recording.get_args())
        .current_dir(run.folder());
    let mut child = Started::new(&mut command);
    assert_eq!(child.line(), "started");
    let mode = |path: &Path| fs::metadata(path).map(|it| it.mode() & 0o7777);
    // The trace may get its name after the program has started.
    while mode(&trace).is_err() {
        assert!(!child.has_ended());
        std::thread::yield_now();
    }
    assert_eq!(mode(&trace).expect("it is there"), 0o600);
    child.send("");
    child.end().ok();
    assert_eq!(mode(&trace).expect("it is there"), 0o640);
}

#[test]
fn a_trace_replaces_only_a_trace() {
    let trace = recorded();
    let precious = trace.folder.path().join("precious.c");
    fs::write(&precious, PRECIOUS).expect("the folder is ours");
    let refused = stream("10").output(&precious).run().code(125);
    refused.stderr.has("--force");
    assert_eq!(
        fs::read_to_string(&precious).expect("it is there"),
        PRECIOUS
    );
    let symbolize = |options: &[&str]| {
        let words = ["symbolize".as_ref(), trace.trace.as_os_str(), "-o".as_ref()];
        let options = options.iter().map(OsStr::new);
        allotrope(
            words
                .into_iter()
                .chain([precious.as_os_str()])
                .chain(options),
        )
    };
    symbolize(&[]).fails(2, "--force");
    assert_eq!(
        fs::read_to_string(&precious).expect("it is there"),
        PRECIOUS
    );

    symbolize(&["--force"]).ok();
    assert_eq!(
        crate::support::Report::of(&precious)
            .only()
            .under("stream")
            .allocations,
        10
    );
    fs::write(&precious, PRECIOUS).expect("the folder is ours");
    let forced = stream("20").option("--force").output(&precious).run();
    let report = forced.ok().report();
    assert_eq!(report.only().under("stream").allocations, 20);
}

/// Commands that write the file FILE about the recording TRACE.
const WRITING: [&[&str]; 15] = [
    &["report", "TRACE", "--html", "FILE"],
    &["report", "TRACE", "--flamegraph", "FILE"],
    &["diff", "TRACE", "TRACE", "--html", "FILE"],
    &["diff", "TRACE", "TRACE", "--flamegraph", "FILE"],
    &["export", "TRACE", "--format", "csv", "-o", "FILE"],
    &["export", "TRACE", "--format", "dhat", "-o", "FILE"],
    &["export", "TRACE", "--format", "firefox", "-o", "FILE"],
    &["export", "TRACE", "--format", "folded", "-o", "FILE"],
    &["export", "TRACE", "--format", "heaptrack", "-o", "FILE"],
    &["export", "TRACE", "--format", "json", "-o", "FILE"],
    &["export", "TRACE", "--format", "perfetto", "-o", "FILE"],
    &["export", "TRACE", "--format", "pprof", "-o", "FILE"],
    &["export", "TRACE", "--format", "speedscope", "-o", "FILE"],
    &["export", "TRACE", "--format", "stacks", "-o", "FILE"],
    &["symbolize", "TRACE", "-o", "FILE"],
];

/// More of them, whose options are behind the recording.
const PLOTS: [&[&str]; 3] = [
    &["stat", "--quiet", "--csv", "FILE", "TRACE"],
    &["stat", "--quiet", "--plot", "FILE", "TRACE"],
    &["stat", "--quiet", "--log", "FILE", "TRACE"],
];

/// Runs a command of [`WRITING`].
fn write(words: &[&str], options: &[&str], trace: &Path, file: &Path) -> Ended {
    // Options of `stat` are before the recording.
    let (name, rest) = words.split_first().expect("a command");
    let words = [*name].into_iter().chain(options.iter().copied());
    let words = words.chain(rest.iter().copied()).map(|word| match word {
        "TRACE" => trace.as_os_str(),
        "FILE" => file.as_os_str(),
        word => OsStr::new(word),
    });
    allotrope(words)
}

#[track_caller]
fn expect(status: i32, what: &[&str], output: &Ended) {
    assert_eq!(
        output.status.code(),
        Some(status),
        "{what:?}: {}",
        output.errors()
    );
}

#[test]
fn nothing_but_earlier_outputs_is_replaced() {
    let recording = recorded();
    let trace = &recording.trace;
    let file = &recording.folder.path().join("letter.html");
    let letter = "Dear reader,\n\nthis is a letter of 3\nlines.\n";
    for words in WRITING.into_iter().chain(PLOTS) {
        fs::write(file, letter).expect("the folder is ours");
        let refused = write(words, &[], trace, file);
        expect(2, words, &refused);
        refused.errors().has("--force");
        assert_eq!(
            fs::read(file).expect("it is there"),
            letter.as_bytes(),
            "{words:?}"
        );
        expect(0, words, &write(words, &["--force"], trace, file));
        let first = fs::read(file).expect("it is there");
        assert_ne!(first, letter.as_bytes(), "{words:?}");
        // Its own file, and an empty one.
        expect(0, words, &write(words, &[], trace, file));
        fs::write(file, "").expect("the folder is ours");
        expect(0, words, &write(words, &[], trace, file));
        assert!(
            !fs::read(file).expect("it is there").is_empty(),
            "{words:?}"
        );
        fs::remove_file(file).expect("it is ours");
    }
}

/// A file that looks like an earlier one, of another user in a folder like `/tmp`.
#[test]
fn files_of_other_users_are_not_replaced() {
    if !crate::support::is_root() {
        return crate::support::skip("only root can make files that belong to another user");
    }
    let recording = recorded();
    let trace = &recording.trace;
    let shared = tempfile::tempdir().expect("a temporary folder");
    let everybody = fs::Permissions::from_mode(0o1777);
    fs::set_permissions(shared.path(), everybody).expect("the folder is ours");
    let file = &shared.path().join("earlier");
    let strangers = Some(65_534);
    for words in WRITING.into_iter().chain(PLOTS) {
        expect(0, words, &write(words, &[], trace, file));
        std::os::unix::fs::chown(file, strangers, strangers).expect("we are root");
        let before = fs::metadata(file).expect("it is there").ino();
        for contents in [&b"it"[..], b""] {
            let refused = write(words, &[], trace, file);
            expect(2, words, &refused);
            let text = refused.errors();
            assert!(
                text.contains("belongs to another user"),
                "{words:?}: {text}"
            );
            assert_eq!(
                fs::metadata(file).expect("it is there").ino(),
                before,
                "{words:?}"
            );
            fs::write(file, contents).expect("we are root");
        }
        expect(0, words, &write(words, &["--force"], trace, file));
        let after = fs::metadata(file).expect("it is there");
        assert!(after.ino() != before && after.uid() == 0, "{words:?}");
        fs::remove_file(file).expect("it is ours");
        // What is no file stays refused.
        symlink(shared.path().join("new"), file).expect("the folder is ours");
        std::os::unix::fs::lchown(file, strangers, strangers).expect("we are root");
        let refused = write(words, &["--force"], trace, file);
        expect(2, words, &refused);
        let text = refused.errors();
        assert!(
            text.contains("another user put a link"),
            "{words:?}: {text}"
        );
        fs::remove_file(file).expect("it is ours");
    }
    let left: Vec<_> = fs::read_dir(shared.path()).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_log_goes_into_no_planted_file() {
    if !crate::support::is_root() {
        return crate::support::skip("only root can make files that belong to another user");
    }
    let shared = tempfile::tempdir().expect("a temporary folder");
    let everybody = fs::Permissions::from_mode(0o1777);
    fs::set_permissions(shared.path(), everybody).expect("the folder is ours");
    let path = |name: &str| shared.path().join(name);
    let home = tempfile::tempdir().expect("a temporary folder");
    symlink(home.path().join("new"), path("link")).expect("the folder is ours");
    mknodat(CWD, path("pipe"), FileType::Fifo, 0o666.into(), 0).expect("the folder is ours");
    fs::write(path("file"), "").expect("the folder is ours");
    for name in ["link", "pipe", "file"] {
        std::os::unix::fs::lchown(path(name), Some(65_534), Some(65_534)).expect("we are root");
        let mut watch = crate::support::record::command();
        watch.args(["watch", "--headless", "--every", "100ms", "--log"]);
        watch.arg(path(name)).args(["--", "sleep", "1"]);
        crate::support::run(&mut watch, b"").fails(2, "another user");
    }
    assert!(!home.path().join("new").exists());
    assert_eq!(fs::read(path("file")).expect("it is there"), b"");
}

/// Runs a command whose output file is a named pipe; returns what it wrote. The pipe
/// must not be replaced.
fn through_a_pipe(folder: &Path, words: &[&OsStr]) -> Vec<u8> {
    let pipe = folder.join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, 0o600.into(), 0).expect("the folder is ours");
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let file = fs::File::open(pipe);
            file.and_then(|mut file| file.read_to_end(&mut bytes))
                .expect("it can be read");
            bytes
        })
    };
    let words: Vec<&OsStr> = words
        .iter()
        .map(|word| {
            if *word == "PIPE" {
                pipe.as_os_str()
            } else {
                word
            }
        })
        .collect();
    let output = allotrope(words);
    let kind = fs::symlink_metadata(&pipe).map(|it| it.file_type());
    // One that was replaced is never opened for writing: the reader would wait.
    let is_pipe = kind.is_ok_and(|kind| kind.is_fifo());
    assert!(is_pipe, "it was replaced: {}", output.errors());
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        output.errors()
    );
    let bytes = reader.join().expect("it does not panic");
    fs::remove_file(pipe).expect("it is ours");
    bytes
}

#[test]
fn pipes_and_devices_are_written_through() {
    let recording = recorded();
    let (trace, folder) = (recording.trace.as_os_str(), recording.folder.path());
    let written = |words: &[&str]| {
        let words: Vec<&OsStr> = words
            .iter()
            .map(|word| {
                if *word == "TRACE" {
                    trace
                } else {
                    OsStr::new(word)
                }
            })
            .collect();
        through_a_pipe(folder, &words)
    };
    let named = written(&["symbolize", "TRACE", "-o", "PIPE"]);
    assert!(named.starts_with(b"ALLOTROP"));
    let copy = folder.join("copy.allotrope");
    fs::write(&copy, named).expect("the folder is ours");
    let report = crate::support::Report::of(&copy);
    assert_eq!(report.only().under("stream").allocations, 10);
    let folded = written(&["export", "TRACE", "--format", "folded", "-o", "PIPE"]);
    assert!(String::from_utf8_lossy(&folded).contains("stream"));
    let graph = written(&["diff", "TRACE", "TRACE", "--flamegraph", "PIPE"]);
    assert!(String::from_utf8_lossy(&graph).contains("<svg"));
    // A recording needs a file that it can rename.
    let refused = stream("1").output(Path::new("/dev/null")).run();
    refused.code(125);
    assert!(
        fs::metadata("/dev/null")
            .expect("it is there")
            .file_type()
            .is_char_device()
    );
}

/// Traces with damage of each kind, and from where on they cannot be read.
fn damaged(whole: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let flipped = |at: usize| {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 0x10;
        bytes
    };
    vec![
        ("cut", whole[..whole.len() - 20].to_vec()),
        ("middle", flipped(whole.len() * 2 / 3)),
        ("closing", flipped(whole.len() - 3)),
        ("trailing", [whole, b"trailing bytes"].concat()),
    ]
}

/// Chunks are written one behind the other, so what follows the damage in the
/// file must be found at the end of what `symbolize` writes, to the byte.
#[test]
fn naming_a_damaged_trace_keeps_what_cannot_be_read() {
    let recording = stream("200000").run().ok();
    let whole = fs::read(&recording.trace).expect("it was written");
    for (name, bytes) in damaged(&whole) {
        let path = recording.folder.path().join(format!("{name}.allotrope"));
        fs::write(&path, &bytes).expect("the folder is ours");
        let before = where_it_ends(&path);
        allotrope(["symbolize".as_ref(), path.as_os_str()]).ok();
        let after = fs::read(&path).expect("it is there");
        let unreadable = &bytes[before as usize..];
        assert!(
            after.ends_with(unreadable),
            "{name}: {} bytes",
            unreadable.len()
        );
        assert_eq!(
            where_it_ends(&path),
            (after.len() - unreadable.len()) as u64,
            "{name}"
        );
        // Once more: nothing is added to it.
        allotrope(["symbolize".as_ref(), path.as_os_str()]).ok();
        assert_eq!(fs::read(&path).expect("it is there"), after, "{name}");
    }
}

/// Where the readable part of a trace ends.
fn where_it_ends(trace: &Path) -> u64 {
    let mut reader = allotrope_trace::TraceReader::open(trace).expect("its header is whole");
    reader.verify().expect("something can be read");
    reader.readable_bytes()
}

#[test]
fn manual_pages_and_headers_are_renamed_into_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = folder.path().join("allotrope.1");
    let earlier = ".TH allotrope 1 \"allotrope 0.1.0\" \nan earlier one";
    fs::write(&page, earlier).expect("the folder is ours");
    fs::set_permissions(&page, fs::Permissions::from_mode(0o640)).expect("it is ours");
    let before = fs::metadata(&page).expect("it is there").ino();
    allotrope([
        "man".as_ref(),
        "--output".as_ref(),
        folder.path().as_os_str(),
    ])
    .ok();
    let after = fs::metadata(&page).expect("it is there");
    assert_ne!(after.ino(), before);
    assert_eq!(after.mode() & 0o777, 0o640);
    assert!(folder.path().join("allotrope-record.1").exists());
    let letter = folder.path().join("allotrope-record.1");
    fs::write(&letter, "Dear reader,\n").expect("the folder is ours");
    allotrope([
        "man".as_ref(),
        "--output".as_ref(),
        folder.path().as_os_str(),
    ])
    .code(2);
    assert_eq!(fs::read(letter).expect("it is there"), b"Dear reader,\n");
}

/// A header that another program wrote may be in any encoding.
#[test]
fn a_foreign_header_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let names: Vec<PathBuf> = {
        let words = ["client-header".as_ref(), folder.path().as_os_str()];
        allotrope(words).ok();
        let entries = fs::read_dir(folder.path()).expect("it is ours");
        entries
            .map(|entry| entry.expect("it can be read").path())
            .collect()
    };
    let foreign = b"// caf\xe9\n";
    for path in names {
        fs::File::create(&path)
            .and_then(|mut file| file.write_all(foreign))
            .expect("it is ours");
        let output = allotrope(["client-header".as_ref(), folder.path().as_os_str()]);
        let kept = fs::read(&path).expect("it is there");
        assert!(
            output.status.code() == Some(2) && kept == foreign,
            "{}: {}",
            path.display(),
            output.errors()
        );
        fs::remove_file(path).expect("it is ours");
    }
}

#[test]
fn a_users_own_link_is_followed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let link = folder.path().join("latest");
    symlink("real.allotrope", &link).expect("the folder is ours");
    stream("10").output(&link).run().ok();
    assert!(
        fs::symlink_metadata(&link)
            .expect("it is there")
            .is_symlink()
    );
    assert!(folder.path().join("real.allotrope").exists());
}

/// Largest number of attempts to interrupt a command while it writes.
const ATTEMPTS: usize = 100;

/// Reported: an interrupted export leaves half a file.
#[test]
fn an_export_that_is_interrupted_leaves_no_file() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = home.path().join("exported");
    fs::create_dir(&folder).expect("the folder is ours");
    // Enough that it takes a moment to write them.
    let stacks: String = (0..100_000)
        .map(|n| format!("main;first_{n};second_{n};third_{n} {n}\n"))
        .collect();
    let input = folder.with_file_name("many.folded");
    fs::write(&input, stacks).expect("the folder is ours");
    let output = folder.join("many.json");
    let files = || {
        let entries = fs::read_dir(&folder).expect("it is there");
        let names = entries.map(|entry| entry.expect("it can be read").file_name());
        names.collect::<Vec<_>>()
    };
    for _ in 0..ATTEMPTS {
        let mut export = start_export(&input, &output);
        while files().is_empty() && !export.has_ended() {}
        if !export.has_ended() {
            export.signal(Signal::INT);
        }
        let status = export.end().status;
        if status.signal() == Some(Signal::INT.as_raw()) {
            // Or it was complete a moment before.
            let names = files();
            assert!(names.is_empty() || names == ["many.json"], "{names:?}");
            if names.is_empty() {
                return;
            }
        }
        fs::remove_file(&output).expect("a complete export");
    }
    panic!("it was never interrupted while it wrote");
}

#[test]
fn a_signal_ends_an_export_that_waits_for_the_reader_of_a_pipe() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let input = home.path().join("one.folded");
    fs::write(&input, "main;work 1\n").expect("the folder is ours");
    let pipe = home.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, 0o600.into(), 0).expect("the folder is ours");
    let mut export = start_export(&input, &pipe);
    // It waits in the call that opens the pipe: `openat`, number 257 on x86-64.
    let syscall = format!("/proc/{}/syscall", export.id());
    until("it opens the pipe", || {
        fs::read_to_string(&syscall).is_ok_and(|call| call.starts_with("257 "))
    });
    thread::sleep(Duration::from_millis(100));
    export.signal(Signal::INT);
    let ended = export.wait(Duration::from_secs(60));
    assert_eq!(ended.status.signal(), Some(Signal::INT.as_raw()));
}

fn start_export(input: &Path, output: &Path) -> Started {
    let mut export = command();
    export
        .arg("export")
        .arg(input)
        .args(["--format", "json", "-o"]);
    Started::new(export.arg(output))
}
