//! The options of `record`, and where the trace goes.

use crate::support::{Record, allotrope, compiled, record};

fn stream(count: &str) -> Record {
    record(compiled("stream.c")).arg(count)
}

fn traces(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("it exists")
        .map(|entry| {
            let name = entry.expect("it can be read").file_name();
            name.to_string_lossy().into_owned()
        })
        .collect();
    names.sort();
    names
}

#[test]
fn the_default_name_is_program_and_pid() {
    let recording = stream("10").default_output().run().ok();
    let names = traces(recording.folder.path());
    assert_eq!(names.len(), 1, "one file and nothing else: {names:?}");
    let pid = names[0]
        .strip_prefix("stream.")
        .and_then(|rest| rest.strip_suffix(".allotrope"))
        .unwrap_or_else(|| panic!("{names:?}"));
    let pid: u64 = pid.parse().expect("a process id");
    assert!(recording.stderr.contains(&names[0]), "{}", recording.stderr);
    let report = crate::support::Report::of(&recording.folder.path().join(&names[0]));
    assert_eq!(report.only().number("pid"), pid);
}

#[test]
fn output_names_the_file_and_nothing_else_appears() {
    let run = stream("10");
    let trace = run.folder().join("sub.name");
    let recording = run.output(&trace).run().ok();
    assert_eq!(traces(recording.folder.path()), ["sub.name"]);
    assert_eq!(recording.report().only().under("stream").allocations, 10);
}

/// `-o` again with the same name: the earlier recording is replaced whole.
#[test]
fn an_earlier_recording_is_replaced() {
    let first = stream("100000").run().ok();
    let size = |recording: &crate::support::Recording| {
        std::fs::metadata(&recording.trace)
            .expect("it was written")
            .len()
    };
    let before = size(&first);
    let second = stream("10").output(&first.trace).run().ok();
    assert!(size(&second) < before);
    assert_eq!(second.report().only().under("stream").allocations, 10);
}

#[test]
fn quiet_prints_nothing() {
    let recording = stream("10").option("-q").run().ok();
    assert_eq!(recording.stderr, "");
    assert!(recording.stdout.is_empty());
    assert_eq!(recording.report().only().under("stream").allocations, 10);
}

#[test]
fn blocking_loses_nothing() {
    for options in [&[][..], &["--on-full", "block"]] {
        let mut run = stream("2000000");
        for option in options {
            run = run.option(option);
        }
        let report = run.run().ok().report();
        let process = report.only();
        assert_eq!(process.number("lost_events"), 0);
        let found = process.under("stream");
        assert_eq!(found.allocations, 2_000_000);
        assert_eq!(found.bytes, 2_000_000 * 48);
        assert_eq!((found.temporary, found.leaked), (2_000_000, 0));
    }
}

/// Every event is recorded or counted as lost. A lost `free` may count as both: once
/// the address is allocated again, its block is known to be freed. Gaps are few and
/// long, so that is rare.
#[test]
fn dropping_counts_what_it_drops() {
    const PAIRS: u64 = 3_000_000;
    let report = stream(&PAIRS.to_string())
        .option("--on-full")
        .option("drop")
        .run()
        .ok()
        .report();
    let process = report.only();
    let allocations = process.total("allocations");
    let deallocations = process.total("deallocations");
    assert!(allocations <= PAIRS && deallocations <= PAIRS);
    let accounted = allocations + deallocations + process.number("lost_events");
    assert!(
        (2 * PAIRS..2 * PAIRS + PAIRS / 1_000).contains(&accounted),
        "{accounted} of {}",
        2 * PAIRS
    );
}

#[test]
fn help_is_a_command_too() {
    let help = allotrope(["help", "report"]).ok();
    assert_eq!(help.stdout, allotrope(["report", "--help"]).stdout);
}

#[test]
fn a_running_process_is_refused_with_what_to_do() {
    allotrope(["record", "-p", "1"])
        .code(125)
        .says("start it with `allotrope record PROGRAM`");
}
