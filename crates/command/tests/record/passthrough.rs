//! A recorded program gets and gives the same as without a recording: streams,
//! environment, descriptors, signals, folder.

use std::io::{BufRead, BufReader};

use crate::support::{Started, compiled, record, skip};
use rustix::process::Signal;

const SOURCE: &str = "passthrough.c";

/// Runs the case plain and recorded: both must print the same.
fn expect_same(case: &str) {
    let run = record(compiled(SOURCE)).args([case, "with", "arguments"]);
    let plain = run.plain().ok();
    let recorded = run.run().ok();
    assert_eq!(recorded.text(), plain.text());
}

/// Bytes of every value in an order without a short period.
fn bytes(count: u32) -> Vec<u8> {
    (0..count)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

#[test]
fn streams_are_the_programs_own() {
    let input = bytes(1_000_000);
    let run = record(compiled(SOURCE)).option("-q").arg("copy");
    let output = crate::support::run(&mut run.command(), &input).ok();
    assert!(output.stdout == input, "stdout differs");
    let turned: Vec<u8> = input.iter().map(|byte| !byte).collect();
    assert!(output.stderr == turned, "stderr differs");
}

#[test]
fn the_summary_is_on_stderr() {
    let recording = record(compiled(SOURCE))
        .arg("copy")
        .stdin(b"abc")
        .run()
        .ok();
    assert_eq!(recording.stdout, b"abc");
    assert!(recording.stderr.contains("allotrope report"));
}

#[test]
fn a_pipe_that_nobody_reads_ends_the_program() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let run = record("yes");
    let yes = Started::with_own_streams(run.command().stdout(writer));
    let mut line = String::new();
    let mut reader = BufReader::new(reader);
    reader.read_line(&mut line).expect("it can be read");
    drop(reader);
    let status = yes.end().status;
    assert_eq!(line, "y\n");
    // SIGPIPE, or yes(1)'s own status where it sees the error first.
    assert!(matches!(status.code(), Some(141 | 1)), "{status}");
}

#[test]
fn the_environment_except_for_the_preload() {
    let ours = |name: &str| name == "LD_PRELOAD" || name.starts_with("ALLOTROPE_");
    let variables = |output: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(output)
            .lines()
            .filter(|line| !ours(line.split('=').next().unwrap_or(line)))
            .map(str::to_owned)
            .collect()
    };
    let run = record(compiled(SOURCE))
        .arg("environment")
        .env("ODD", "a=b c")
        .env("EMPTY", "");
    let plain = run.plain();
    let recorded = run.run().ok();
    assert_eq!(variables(&recorded.stdout), variables(&plain.stdout));
}

#[test]
fn a_preload_list_of_the_users_stays_behind_ours() {
    let printed = record(compiled(SOURCE))
        .arg("environment")
        .env("LD_PRELOAD", "libm.so.6")
        .run()
        .ok()
        .text();
    let list = printed
        .lines()
        .find_map(|line| line.strip_prefix("LD_PRELOAD="))
        .unwrap_or_else(|| panic!("no list in {printed}"));
    let libraries: Vec<&str> = list.split([':', ' ']).collect();
    assert!(libraries.len() >= 2, "{list}");
    assert_eq!(libraries.last(), Some(&"libm.so.6"), "{list}");
}

#[test]
fn no_descriptor_is_left_open() {
    // Descriptors inherited from the tests' own caller are open in both.
    expect_same("descriptors");
}

#[test]
fn signals_limits_mask_and_arguments() {
    expect_same("state");
}

#[test]
fn the_group_and_the_session() {
    let printed = record(compiled(SOURCE)).arg("group").run().ok().text();
    assert_eq!(printed, "group of the parent\nsession of the parent\n");
}

#[test]
fn the_folder() {
    let run = record(compiled(SOURCE)).arg("folder");
    let expected = run.folder().canonicalize().expect("it exists");
    let printed = run.run().ok().text();
    assert_eq!(printed.trim_end(), expected.to_string_lossy());
}

/// Starts the case, waits until it prints that it is ready, sends the signal to
/// `allotrope record` and returns the recording.
fn signalled(case: &str, signal: Signal) -> crate::support::Recording {
    let run = record(compiled(SOURCE)).arg(case);
    let mut started = run.start();
    assert_eq!(started.line(), "ready");
    started.signal(signal);
    run.recorded(started.end())
}

#[test]
fn signals_are_forwarded_to_a_program_that_handles_them() {
    for (signal, number) in [
        (Signal::TERM, 15),
        (Signal::INT, 2),
        (Signal::HUP, 1),
        (Signal::QUIT, 3),
        (Signal::USR1, 10),
        (Signal::USR2, 12),
        (Signal::WINCH, 28),
    ] {
        let recording = signalled("wait-handled", signal).code(9);
        let printed = recording.text();
        assert_eq!(printed, format!("ready\n{number:02}\n"));
        let report = recording.report();
        assert_eq!(report.only().total("allocations"), 1);
    }
}

#[test]
fn signals_that_kill_are_the_programs_death() {
    for (signal, number, name) in [
        (Signal::TERM, 15, "SIGTERM"),
        (Signal::INT, 2, "SIGINT"),
        (Signal::USR1, 10, "SIGUSR1"),
    ] {
        let recording = signalled("wait-unhandled", signal).code(128 + number);
        let report = recording.report();
        let process = report.only();
        assert_eq!(process.exit()["signal"], name);
        assert_eq!(process.total("allocations"), 1);
    }
}

/// `record` may be started with SIGINT ignored (`nohup`, `&` in a script): then it is
/// ignored in the program, too.
#[test]
fn ignored_signals_stay_ignored() {
    let run = record(compiled(SOURCE)).arg("state");
    let command = run.command();
    crate::support::run(
        std::process::Command::new("sh")
            .arg("-c")
            .arg("trap '' INT QUIT; exec \"$0\" \"$@\"")
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(run.folder()),
        b"",
    )
    .ok()
    .has("signal 2: ignored\n")
    .has("signal 3: ignored\n")
    .has("signal 13: default\n");
}

/// Streams that are closed when `record` starts are closed in the program, and no
/// other output gets into the file that the program then opens.
#[test]
fn closed_streams_stay_closed() {
    let program = compiled(SOURCE);
    for closing in [
        "<&-",
        ">&-",
        "2>&-",
        "<&- >&-",
        "<&- 2>&-",
        ">&- 2>&-",
        "<&- >&- 2>&-",
    ] {
        let run = record(&program).args(["streams", "state"]);
        let command = run.command();
        let state = run.folder().join("state");
        let seen = |words: Vec<&std::ffi::OsStr>| {
            crate::support::run(
                std::process::Command::new("bash")
                    .arg("-c")
                    .arg(format!("exec \"$@\" {closing}"))
                    .arg("bash")
                    .args(words)
                    .current_dir(run.folder()),
                b"",
            )
            .ok();
            std::fs::read_to_string(&state).expect("the program wrote it")
        };
        let plain = seen(vec![
            program.as_os_str(),
            "streams".as_ref(),
            state.as_os_str(),
        ]);
        let mut recorded = vec![command.get_program()];
        recorded.extend(command.get_args());
        assert_eq!(seen(recorded), plain, "{closing}");
        let report = crate::support::Report::of(&run.folder().join("recorded.allotrope"));
        assert_eq!(report.only().under("streams").allocations, 1);
    }
}

/// The recorder's own look-ups leave no error for dlerror, and no memory by which the
/// program's first error would allocate less than one in another thread.
#[test]
fn errors_of_dlsym_are_the_programs_own() {
    expect_same("dl-errors");
    let recording = record(compiled(SOURCE)).arg("dl-errors").run().ok();
    let report = recording.report();
    let in_main = report.only().under("fails_in_main");
    let in_thread = report.only().under("fails_in_thread");
    assert!(in_main.allocations > 0);
    assert_eq!(
        (in_main.allocations, in_main.bytes),
        (in_thread.allocations, in_thread.bytes)
    );
}

#[test]
fn a_program_that_may_not_read_the_time_stamp_counter() {
    expect_same("counter");
    let recording = record(compiled(SOURCE)).arg("counter").run().ok();
    let report = recording.report();
    let images = report.processes();
    let blocks = images.iter().map(|image| {
        assert_eq!(image.number("lost_events"), 0);
        image.under("many_blocks").allocations
    });
    let mut blocks: Vec<u64> = blocks.collect();
    blocks.sort_unstable();
    assert_eq!(blocks, [10_000, 20_000], "the child's, the program's");
}

/// The kernel refuses them, and so the program goes on.
///
/// Reported: a program that passes a wrong address to execve crashes.
#[test]
fn an_exec_with_wrong_addresses_fails_as_it_would() {
    expect_same("wrong-addresses");
}

/// A program runs without stdin and stderr.
#[test]
fn a_program_without_stdin_and_stderr() {
    let run = record(compiled(SOURCE)).arg("folder");
    let command = run.command();
    let output = crate::support::run(
        std::process::Command::new("sh")
            .arg("-c")
            .arg("exec \"$0\" \"$@\" <&- 2>&-")
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(run.folder()),
        b"",
    );
    if output.status.code() == Some(127) {
        return skip("this shell cannot close streams");
    }
    assert_eq!(output.status.code(), Some(0));
    assert!(!output.stdout.is_empty());
}
