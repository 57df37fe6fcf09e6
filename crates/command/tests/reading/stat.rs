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

/// Reported: "stat does not read its own log". 12 MB at once, which go in steps; the last line is cut.
#[test]
fn a_log_is_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let [log, plot] = ["memory_usage_1717171717.log", "out.svg"].map(|it| folder.path().join(it));
    let mut text = String::new();
    for second in 0..50_u64 {
        let freed = second * 240_000;
        let time = 1_717_171_717 + second;
        text += &format!("Time: {time}, Allocated: 12000000, Deallocated: {freed}\n");
    }
    fs::write(&log, text.clone() + "Time: 17171").expect("our folder");
    let [log, plot] = [&log, &plot].map(|it| it.to_str().expect("UTF-8"));
    let lines = allotrope(["stat", log, "--plot", plot]).ok().text();
    assert_eq!(lines.lines().count(), 51, "{lines}");
    let last: Vec<&str> = lines
        .lines()
        .last()
        .expect("a line")
        .split_whitespace()
        .collect();
    assert_eq!(
        last,
        [
            "49.00", "s", "-", "11.4", "MiB", "11.2", "MiB", "234.4", "KiB", "-", "-"
        ]
    );
    let svg = fs::read_to_string(plot).expect("it is written");
    assert!(
        svg.contains("most live: 11.4 MiB") && !svg.contains("resident"),
        "{svg}"
    );
    // What it cannot do with a log is said.
    allotrope(["stat", log, "--csv", "x"]).fails(2, "--csv is for a program or a recording");
    let broken = folder.path().join("broken.log");
    fs::write(&broken, text + "Time: soon\n").expect("our folder");
    let broken = broken.to_str().expect("UTF-8");
    // Such a head is a log's no longer: it would be a program.
    allotrope(["stat", broken]).code(126);
}

/// The files are there while the program runs, and have the rows so far, of which the end makes exact ones.
#[test]
fn rows_are_written_while_the_program_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let [csv, log] = ["out.csv", "out.log"].map(|name| folder.path().join(name));
    let mut command = crate::support::record::command();
    command.args(["stat", "--quiet", "--every", "20ms"]);
    command.arg("--csv").arg(&csv).arg("--log").arg(&log);
    command.args(["--", "/bin/cat"]).current_dir(folder.path());
    let mut started = crate::support::Started::new(&mut command);
    let lines = |path: &Path| fs::read_to_string(path).map_or(0, |it| it.lines().count());
    crate::support::until("both files have rows", || {
        lines(&csv) > 2 && lines(&log) > 1
    });
    assert!(!rows(&csv).is_empty());
    started.close_input();
    started.end().ok();
    let last = rows(&csv).pop().expect("a row");
    let text = fs::read_to_string(&log).expect("it is written");
    let wanted = format!("Allocated: {}, Deallocated: {}", last[2], last[3]);
    assert!(text.trim_end().ends_with(&wanted), "{text}");
    // Its own log is read.
    let log = log.to_str().expect("UTF-8");
    allotrope(["stat", log]).ok().has("allocated");
}

/// `phases.c` has at most 5,000 bytes of its own at once, for less than an interval of a minute: at the
/// end 3,400 are live.
#[test]
fn the_plot_has_the_most_between_two_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let plot = folder.path().join("out.svg");
    let recorded = record(compiled("phases.c")).run().ok();
    let trace = recorded.trace.to_str().expect("UTF-8");
    let report: Value = allotrope(["report", "--format", "json", trace]).json();
    let peak = report["processes"][0]["totals"]["peak_bytes"]
        .as_u64()
        .expect("a number");
    let leaked = report["processes"][0]["totals"]["leaked_bytes"]
        .as_u64()
        .expect("a number");
    assert!(peak > leaked, "{peak} {leaked}");
    let path = plot.to_str().expect("UTF-8");
    allotrope(["stat", "-q", "--every", "60s", "--plot", path, trace]).ok();
    let svg = fs::read_to_string(&plot).expect("it is written");
    let words = format!("most live: {} at ", allotrope_text::numbers::bytes(peak));
    assert!(svg.contains(&words), "{words}: {svg}");
}
