//! `allotrope stat`: its numbers are those of the program and of `record`.

use std::fs;
use std::path::Path;

use crate::support::{allotrope, compiled, record, run};
use serde_json::Value;

const HEADER: &str = "seconds,pid,allocated_bytes,deallocated_bytes,live_bytes,resident_bytes,allocations,deallocations";

/// The rows of a CSV file.
#[track_caller]
fn rows(path: &Path) -> Vec<Vec<f64>> {
    let text = fs::read_to_string(path).expect("it is written");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(HEADER));
    let number = |cell: &str| cell.parse().expect("a number");
    lines
        .map(|line| line.split(',').map(number).collect())
        .collect()
}

#[test]
fn the_numbers_at_the_end_are_those_of_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let [csv, log, plot] = ["out.csv", "out.log", "out.svg"].map(|name| folder.path().join(name));
    let mut command = crate::support::record::command();
    command.args(["stat", "--every", "50ms"]);
    command.arg("--csv").arg(&csv).arg("--log").arg(&log);
    command
        .arg("--plot")
        .arg(&plot)
        .arg("--")
        .arg(compiled("phases.c"));
    command.current_dir(folder.path());
    run(&mut command, b"")
        .ok()
        .says("allocations/s")
        .says("at the end");
    // 10 blocks of 100 bytes and 20 of 200; 10 and 3 of them are freed. The C library
    // allocates in `dlsym`, so that there may be a few more: `record` has the same.
    let recorded = record(compiled("phases.c")).run().ok();
    let trace = recorded.trace.to_str().expect("UTF-8");
    let report: Value = allotrope(["report", "--format", "json", trace]).json();
    let total = |key: &str| {
        let number = &report["processes"][0]["totals"][key];
        number.as_u64().expect("a number")
    };
    let rows = rows(&csv);
    let last = rows.last().expect("a row");
    let numbers = [last[2], last[3], last[6]].map(|number| number as u64);
    let freed = total("allocated_bytes") - total("leaked_bytes");
    let wanted = [total("allocated_bytes"), freed, total("allocations")];
    assert_eq!(numbers, wanted);
    assert!(numbers[0] >= 5000 && last[4] as u64 >= 17 * 200, "{last:?}");
    // The program pauses four times for 20 ms.
    assert!(
        rows.len() >= 2 && rows.is_sorted_by_key(|row| row[0]),
        "{rows:?}"
    );
    for row in &rows {
        assert_eq!(row[2] - row[3], row[4], "live is what is not freed");
    }
    assert!((rows[0][0] - 0.05).abs() < 1e-6, "{rows:?}");
    let log = fs::read_to_string(&log).expect("it is written");
    let wanted = format!("Allocated: {}, Deallocated: {}", last[2], last[3]);
    let line = log.lines().last().expect("a line");
    assert!(
        line.starts_with("Time: ") && line.ends_with(&wanted),
        "{line}"
    );
    let plot = fs::read_to_string(&plot).expect("it is written");
    assert!(
        plot.starts_with("<svg ") && plot.trim_end().ends_with("</svg>"),
        "{plot}"
    );
    let names = fs::read_dir(folder.path()).expect("a folder");
    assert_eq!(names.count(), 3, "no trace is left");
}

#[test]
fn a_recording_gives_the_same_numbers_for_each_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let [live, later, trace] = ["a.csv", "b.csv", "t.allotrope"].map(|it| folder.path().join(it));
    let mut command = crate::support::record::command();
    command
        .args(["stat", "--quiet", "--every", "20ms", "--csv"])
        .arg(&live);
    command
        .arg("-o")
        .arg(&trace)
        .args(["--", "/bin/sh", "-c", "/bin/ls / >/dev/null; exit 7"]);
    let output = run(&mut command, b"").code(7);
    assert!(output.stderr.is_empty(), "{}", output.errors());
    let [file, csv] = [&trace, &later].map(|path| path.to_str().expect("UTF-8"));
    let output = allotrope(["stat", "--every", "20ms", "--csv", csv, file]).ok();
    assert!(output.text().contains("allocations/s"));
    let text = fs::read_to_string(&live).expect("it is written");
    assert_eq!(text, fs::read_to_string(&later).expect("it is written"));
    let mut pids: Vec<u64> = rows(&live).iter().map(|row| row[1] as u64).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 2, "the shell and ls");
}

#[test]
fn bad_input_is_refused_before_the_program_runs() {
    for arguments in [
        &["stat", "--every", "1ms", "true"][..],
        &["stat", "--every", "soon", "true"],
        &["stat", "--csv", "/no/such/folder/x.csv", "true"],
    ] {
        allotrope(arguments).code(125);
    }
    allotrope(["stat", "/no/such/program"]).code(127);
}
