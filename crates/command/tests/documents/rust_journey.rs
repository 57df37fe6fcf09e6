//! "A memory profiling journey": a Rust library that uses too much memory, found by stats_alloc and
//! dhat-rs. The program is `programs/telegrapher.rs`; the numbers are those of `documents-lines.md`.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    Recording, Report, Text, allotrope, command, compiled, compiled_with, record, run,
};

const MESSAGES: u64 = 1000;
const SIZE: u64 = 1024;
/// The queue, a batch, and the message that waits for a place.
const MOST: u64 = 128 + 64 + 1;

fn telegrapher(mode: &str, microseconds: &str) -> Recording {
    let messages = MESSAGES.to_string();
    record(compiled("telegrapher.rs"))
        .args([mode, &messages, microseconds])
        .run()
        .ok()
}

static BASELINE: LazyLock<Recording> = LazyLock::new(|| telegrapher("baseline", "1000"));
static FIXED: LazyLock<Recording> = LazyLock::new(|| telegrapher("fixed", "1000"));
static LATE: LazyLock<Recording> = LazyLock::new(|| telegrapher("late", "1000"));

fn path(recording: &Recording) -> &str {
    recording.trace.to_str().expect("UTF-8")
}

/// The site at which the messages are allocated.
fn message_site(report: &Report) -> Value {
    report
        .only()
        .site_under("telegrapher::encode_message")
        .clone()
}

/// The export for DHAT's viewer.
fn dhat(recording: &Recording, options: &[&str]) -> Value {
    let words = ["export", path(recording), "--format", "dhat"];
    allotrope(words.iter().chain(options)).ok().json()
}

/// What `stat` writes while `baseline` runs: the rows of the CSV file, the log, the plot.
struct Baseline {
    folder: TempDir,
    rows: Vec<Vec<f64>>,
    log: String,
}

static STAT: LazyLock<Baseline> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    let mut stat = command();
    stat.args(["stat", "--every", "50ms", "--quiet", "--csv"])
        .arg(file("out.csv"));
    stat.arg("--log")
        .arg(file("memory_usage.log"))
        .arg("--plot")
        .arg(file("out.svg"));
    stat.arg("--").arg(compiled("telegrapher.rs"));
    stat.args(["baseline", &MESSAGES.to_string(), "1000"])
        .current_dir(folder.path());
    run(&mut stat, b"").ok().has("bytes were sent");
    let csv = fs::read_to_string(file("out.csv")).expect("it is written");
    let number = |cell: &str| cell.parse().expect("a number");
    let rows = csv.lines().skip(1);
    let rows = rows.map(|line| line.split(',').map(number).collect());
    Baseline {
        rows: rows.collect(),
        log: fs::read_to_string(file("memory_usage.log")).expect("it is written"),
        folder,
    }
});

#[test]
fn line_79_a_thousand_messages_of_1_kb_as_the_baseline() {
    let site = message_site(&BASELINE.report());
    assert_eq!(site["allocations"], MESSAGES);
    assert_eq!(site["allocated_bytes"], MESSAGES * SIZE);
}

#[test]
fn line_80_cumulative_counters_at_regular_times() {
    let rows = &STAT.rows;
    assert!(rows.len() > 5, "{rows:?}");
    for column in [2, 3, 6, 7] {
        assert!(
            rows.is_sorted_by_key(|row| row[column]),
            "{column}: {rows:?}"
        );
    }
    let times: Vec<f64> = rows.iter().map(|row| row[0]).collect();
    // But for the last one, which is that of the end.
    let regular = &times[..times.len() - 1];
    assert!(
        regular
            .windows(2)
            .all(|it| (it[1] - it[0] - 0.05).abs() < 1e-6),
        "{times:?}"
    );
}

#[test]
fn line_81_log_lines_of_time_allocated_and_deallocated() {
    let last = STAT.rows.last().expect("a row");
    for line in STAT.log.lines() {
        let shape = line.replace(|it: char| it.is_ascii_digit(), "");
        assert_eq!(shape, "Time: , Allocated: , Deallocated: ");
    }
    let wanted = format!("Allocated: {}, Deallocated: {}", last[2], last[3]);
    STAT.log.has(wanted);
    assert_eq!(STAT.log.lines().count(), STAT.rows.len());
}

/// The document's own script draws its log; here the same file is drawn, and that of the run.
#[test]
fn line_82_the_log_is_plotted() {
    let drawn = STAT.folder.path().join("drawn.svg");
    let log = STAT.folder.path().join("memory_usage.log");
    let [log, drawn] = [&log, &drawn].map(|it| it.to_str().expect("UTF-8"));
    allotrope(["stat", "-q", log, "--plot", drawn]).ok();
    for path in [PathBuf::from(drawn), STAT.folder.path().join("out.svg")] {
        let svg = fs::read_to_string(path).expect("it is written");
        svg.has_all(["<svg ", "most live: ", "<polyline "]);
    }
}

/// All messages are there before a tenth of them is sent; then they go one by one.
#[test]
fn line_83_a_spike_that_trails_off() {
    let live: Vec<f64> = STAT.rows.iter().map(|row| row[4]).collect();
    let most = live.iter().copied().fold(0.0, f64::max);
    assert!(most >= 0.8 * (MESSAGES * SIZE) as f64, "{live:?}");
    let at = live.iter().position(|it| *it == most).expect("it is there");
    assert!(at <= live.len() / 3, "{live:?}");
    assert!(live[at..].is_sorted_by(|one, next| one >= next), "{live:?}");
}

/// The program is the same for each: nothing is built into it.
#[test]
fn line_84_the_profiler_is_selected_for_each_run() {
    let mut plain = std::process::Command::new(compiled("telegrapher.rs"));
    let plain = run(plain.args(["fixed", "1000", "100"]), b"").ok();
    for words in [
        &["record", "-q", "-o", "t", "--"][..],
        &["stat", "-q", "--"],
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut chosen = command();
        chosen
            .args(words)
            .arg(compiled("telegrapher.rs"))
            .args(["fixed", "1000", "100"]);
        let chosen = run(chosen.current_dir(folder.path()), b"").ok();
        assert_eq!(chosen.text(), plain.text());
    }
}

/// As of dhat-rs, the frames that start the program and its threads are not there.
#[test]
fn line_85_dhat_heap_json_opens_in_dh_view() {
    let file = dhat(&BASELINE, &[]);
    assert_eq!(file["dhatFileVersion"], 2);
    let point = file["pps"]
        .as_array()
        .expect("points")
        .iter()
        .max_by_key(|it| it["gb"].as_u64());
    let frames = |file: &Value| -> String {
        let points = file["pps"].as_array().expect("points");
        let stacks = points.iter().map(|it| -> String {
            let used = it["fs"].as_array().expect("frames").iter();
            let used = used.map(|it| it.as_u64().expect("an index") as usize);
            used.map(|it| file["ftbl"][it].to_string() + "\n").collect()
        });
        // The runtime's own allocations have no other frames.
        let of_program = stacks.filter(|it| it.contains("telegrapher::"));
        of_program.collect()
    };
    let innermost = point.expect("a point")["fs"]
        .as_array()
        .expect("frames")
        .iter();
    let text: String = innermost
        .map(|it| file["ftbl"][it.as_u64().expect("an index") as usize].to_string())
        .collect();
    text.has_all(["encode_message", "main"]);
    let start = [
        "lang_start",
        "__libc_start",
        "_start (",
        "__rust_begin_short_backtrace",
        "clone3",
    ];
    frames(&file).lacks_all(start);
    let all = frames(&dhat(&BASELINE, &["--all-frames"]));
    all.has_all(["lang_start", "__libc_start", "__rust_begin_short_backtrace"]);
    // Only dhat has frames left out.
    let words = [
        "export",
        path(&BASELINE),
        "--format",
        "folded",
        "--all-frames",
    ];
    allotrope(words).fails(2, "--all-frames is for dhat");
}

#[test]
fn line_86_stacks_are_sorted_by_what_they_have_at_t_gmax() {
    let words = ["report", path(&BASELINE), "--metric", "peak", "--top", "1"];
    allotrope(words).ok().has("encode_message");
}

/// `Times { t-gmax: 58,261 µs (0.12% of program duration), t-end: 49,967,598 µs }`.
#[test]
fn line_87_the_time_of_the_peak_and_of_the_end() {
    let file = dhat(&BASELINE, &[]);
    let [peak, end] = ["tg", "te"].map(|it| file[it].as_u64().expect("a time"));
    assert!(peak > 0 && peak < end / 2, "{peak} of {end}");
    let report = BASELINE.report();
    let process = report.only();
    assert_eq!(process.total("peak_time_us"), peak);
    assert_eq!(process.number("duration_us"), end);
}

#[test]
fn line_88_a_peak_at_the_end() {
    let report = LATE.report();
    assert!(report.only().total("peak_bytes") >= 4 << 20);
    // All messages were sent before.
    assert_eq!(message_site(&report)["bytes_at_peak"], 0);
}

/// Each message waits for all before it: half of the run, on average.
#[test]
fn line_89_the_average_lifetime_of_a_site_and_its_share_of_the_run() {
    let site = message_site(&BASELINE.report());
    let mean = site["lifetime_mean_us"].as_f64().expect("a time");
    assert!(mean > 300.0 * 1000.0, "{mean}");
    let share = site["lifetime_share"].as_f64().expect("a share");
    assert!((0.3..0.7).contains(&share), "{share}");
}

/// The document's 183 KB of about 600 KB.
#[test]
fn line_90_a_site_s_bytes_at_the_peak() {
    let report = FIXED.report();
    let site = message_site(&report);
    let bytes = site["bytes_at_peak"].as_u64().expect("a number");
    assert!((64 * SIZE..=MOST * SIZE).contains(&bytes), "{bytes}");
    assert!(bytes <= report.only().total("peak_bytes"));
}

#[test]
fn line_91_the_queue_that_builds_up_is_found() {
    let text = allotrope(["report", path(&BASELINE)]).ok().text();
    text.has("queue");
    let words = ["report", path(&BASELINE), "--format", "json"];
    let report: Value = allotrope(words).ok().json();
    report["findings"].to_string().has("\"queue\"");
}

/// The queue is bounded, and a request has up to 64 messages.
#[test]
fn line_92_before_and_after() {
    let [before, after] = [&BASELINE, &FIXED].map(|it| it.report());
    let peak = |it: &Report| message_site(it)["max_bytes"].as_u64().expect("a number");
    assert!(peak(&before) >= 800 * SIZE && peak(&after) <= MOST * SIZE);
    let time = |it: &Report| it.only().number("duration_us");
    assert!(
        time(&before) > 4 * time(&after),
        "{} {}",
        time(&before),
        time(&after)
    );
    let words = ["diff", path(&BASELINE), path(&FIXED), "--metric", "peak"];
    allotrope(words).ok().has("encode_message").has("-");
}

/// "25 MB of the 50 MB memory budget": what is more than the budget allows fails.
#[test]
fn line_93_a_memory_budget() {
    let check = |before: &Recording, after: &Recording| {
        let words = ["diff", path(before), path(after), "--metric", "peak"];
        let budget = ["--fail-on", "peak>+400000"];
        allotrope(words.iter().chain(&budget))
    };
    check(&FIXED, &BASELINE).code(3);
    check(&BASELINE, &FIXED).ok();
}

/// No test fails by time alone; but what waits most of its time is not slowed down tenfold, as dhat does it.
#[test]
fn line_94_the_program_is_hardly_slower() {
    let start = Instant::now();
    let mut plain = std::process::Command::new(compiled("telegrapher.rs"));
    run(plain.args(["baseline", "1000", "1000"]), b"").ok();
    let plain = start.elapsed();
    let recorded = BASELINE.report().only().number("duration_us");
    assert!(
        u128::from(recorded) < 10 * plain.as_micros(),
        "{recorded} {plain:?}"
    );
}

#[test]
fn line_95_what_a_thread_does_is_attributed_to_it() {
    let text = allotrope(["report", path(&BASELINE), "--by", "thread"])
        .ok()
        .text();
    text.has("telegrapher");
    // Freed by the thread that sends, allocated by the main one.
    let words = ["report", path(&BASELINE), "--format", "json"];
    let report: Value = allotrope(words).ok().json();
    let sites = report["processes"][0]["sites"].as_array().expect("sites");
    let site = sites
        .iter()
        .find(|it| it["allocations"] == MESSAGES && it["allocated_bytes"] == MESSAGES * SIZE);
    let threads = site.expect("the messages")["threads"]
        .as_array()
        .map(Vec::len);
    assert_eq!(threads, Some(1), "{site:#?}");
}

#[test]
fn line_96_a_host_in_c_loads_the_library() {
    let library = compiled_with("telegrapher.rs", &["--crate-type=cdylib"]);
    let recording = record(compiled("telegraph_host.c"))
        .arg(&library)
        .arg("500")
        .run()
        .ok();
    assert_eq!(recording.ended.text().trim(), (500 * SIZE).to_string());
    let report = recording.report();
    let messages = report.only().under("telegrapher::encode_message");
    assert_eq!((messages.allocations, messages.bytes), (500, 500 * SIZE));
}
