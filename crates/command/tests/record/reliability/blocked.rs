//! Nobody reads what `record` prints (a full pipe, a stopped terminal): the program and
//! its recording go on. `programs/own_failures.c`.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::matrix::{Outcome, case, count};
use super::targets::{expect_complete, expect_work, script, target};
use crate::support::{Record, Report, Started, Text, record, run};

const GROUP: &str = "Failures of Allotrope";

fn described(pairs: u64) -> Record {
    record(target("own_failures.c"))
        .arg(pairs.to_string())
        .stdin(b"g")
}

/// Fails unless all allocations of `own_failures PAIRS` are recorded.
#[track_caller]
fn expect_all(report: &Report, pairs: u64) {
    expect_complete(report);
    let process = report.only();
    expect_work(&process, "before", 1_000, 20_000);
    assert_eq!(process.under("after").allocations, pairs);
    assert_eq!(*process.exit(), json!({"status": 7}));
}

/// A full pipe.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("two descriptors");
    rustix::io::ioctl_fionbio(&writer, true).expect("a pipe");
    loop {
        match writer.write(&[b'.'; 4096]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    rustix::io::ioctl_fionbio(&writer, false).expect("a pipe");
    (reader, writer)
}

#[test]
fn a_full_pipe_on_stderr() {
    let pairs = count(200_000, 5_000_000);
    let expected = "the program runs to its end and the trace is complete; then `record` continues";
    case(GROUP, "a full pipe for standard error", expected, || {
        let (mut reader, writer) = full_pipe();
        let described = described(pairs);
        let mut command = described.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Started::with_own_streams(command.stderr(writer));
        drop(command);
        child.write(b"g");
        assert_eq!([child.line(), child.line()], ["ready", "done"]);
        let trace = described.folder().join("recorded.allotrope");
        let start = Instant::now();
        let is_complete = || {
            let report = trace.exists().then(|| Report::of(&trace));
            report.is_some_and(|report| {
                let processes = report.processes();
                processes
                    .first()
                    .is_some_and(|process| process.json["complete"] == true)
            })
        };
        while !is_complete() {
            assert!(start.elapsed() < Duration::from_secs(60), "not completed");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(!child.has_ended(), "it had to say something");
        let words = std::thread::spawn(move || {
            let mut words = Vec::new();
            reader.read_to_end(&mut words).expect("pipes can be read");
            words
        });
        child.end().code(7);
        let words = words.join().expect("the reader does not panic");
        let words = String::from_utf8_lossy(&words).into_owned();
        words.has("allotrope: trace");
        expect_all(&Report::of(&trace), pairs);
        Outcome::Seen(format!("{pairs} of {pairs} while the pipe was full"))
    });
}

#[test]
fn the_terminal_is_stopped() {
    let pairs = count(500_000, 5_000_000);
    let expected = "the program runs to its end; every allocation is recorded";
    case(
        GROUP,
        "a stopped terminal for standard error",
        expected,
        || {
            if !crate::support::is_installed("python3") {
                return Outcome::Skipped("no python3".to_owned());
            }
            let described = described(pairs);
            let plain = described.command();
            let mut command = Command::new("python3");
            command
                .arg(script("stopped_terminal.py"))
                .arg(plain.get_program())
                .args(plain.get_args())
                .current_dir(described.folder());
            let output = run(&mut command, b"");
            let recording = described.recorded(output).code(7);
            assert_eq!(recording.stdout, b"done while the terminal was stopped\n");
            expect_all(&recording.report(), pairs);
            Outcome::Seen(format!("{pairs} of {pairs} while it was stopped"))
        },
    );
}
