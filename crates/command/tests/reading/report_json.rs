//! The JSON of `report`: outputs of every kind have the documented form
//! (`docs/report.schema.json`), and what is only in JSON is right.

use std::path::Path;

use crate::support::{Report, allotrope, compiled, record, run, schema};
use serde_json::{Value, json};

#[track_caller]
fn of(trace: &Path, options: &[&str]) -> Value {
    let trace = trace.to_str().expect("UTF-8");
    let arguments = ["report", "--format", "json", trace];
    allotrope(arguments.iter().chain(options).copied())
        .ok()
        .json()
}

#[track_caller]
fn checked(trace: &Path, options: &[&str]) -> Value {
    let report = of(trace, options);
    schema::check(&report);
    report
}

#[test]
fn windows_and_ranges_have_the_documented_form() {
    let recording = record(compiled("phases.c")).run().ok();
    checked(&recording.trace, &[]);
    checked(&recording.trace, &["--per", "3"]);
    for options in [
        &["--window", "first"][..],
        &["--to", "10ms"],
        &["--at", "10ms"],
    ] {
        let report = of(&recording.trace, options);
        schema::check(&report);
    }
}

#[test]
fn counted_and_several_processes_have_the_documented_form() {
    let program = compiled("processes.c");
    let recorded = record(&program).arg("generations").run();
    let report = checked(&recorded.trace, &[]);
    let processes = report["processes"].as_array().expect("checked");
    assert!(processes.len() > 1);
    assert_eq!(processes[0]["origin"], "first");
    assert_eq!(processes[0]["forked_from"], Value::Null);
    assert_eq!(processes[1]["origin"], "fork");
    assert_eq!(processes[1]["forked_from"], processes[0]["id"]);
    let started = |at: usize| processes[at]["started_us"].as_u64().expect("checked");
    assert!(started(0) <= started(1));
    let counted = record(&program).option("--counts-only").arg("generations");
    let report = checked(&counted.run().trace, &[]);
    assert_eq!(report["recording"]["counts_only"], true);
}

#[test]
fn a_cut_file_has_the_documented_form() {
    let recording = record(compiled("threads.c")).arg("exact").run();
    let bytes = std::fs::read(&recording.trace).expect("it was recorded");
    let cut = recording.trace.with_extension("cut");
    std::fs::write(&cut, &bytes[..bytes.len() * 2 / 3]).expect("a file is written");
    let report = checked(&cut, &[]);
    assert!(report["cut"].is_string());
    assert_eq!(report["recording"]["complete"], false);
    let warnings = report["warnings"].as_array().expect("checked");
    assert!(
        warnings[0]
            .as_str()
            .is_some_and(|it| it.starts_with("Incomplete"))
    );
}

/// `produce` allocates 5000 blocks of 24 bytes with `malloc`, and another thread frees all.
#[test]
fn a_site_says_what_it_allocates_and_who_frees_it() {
    let recording = record(compiled("threads.c")).arg("handover").run();
    let report: Report = recording.ok().report();
    let process = report.only();
    let site = process.site_under("produce");
    let entry = json!([{"entry": "malloc", "alignment": null, "allocations": 5_000, "allocated_bytes": 120_000}]);
    assert_eq!(site["entries"], entry);
    assert_eq!(
        (&site["smallest_bytes"], &site["largest_bytes"]),
        (&json!(24), &json!(24))
    );
    let sizes = json!([{"up_to_bytes": 32, "allocations": 5_000, "allocated_bytes": 120_000}]);
    assert_eq!(site["sizes"], sizes);
    let pairs = site["frees"].as_array().expect("checked");
    assert_eq!(pairs.len(), 1, "{pairs:?}");
    assert_eq!(
        (&pairs[0]["allocations"], &pairs[0]["bytes"]),
        (&json!(5_000), &json!(120_000))
    );
    assert_ne!(pairs[0]["allocated_by"], pairs[0]["freed_by"]);
    let made = json!([{"thread": pairs[0]["allocated_by"], "allocations": 5_000, "allocated_bytes": 120_000}]);
    assert_eq!(site["threads"], made);
    let share = site["lifetime_share"].as_f64().expect("it ran");
    let mean = site["lifetime_mean_us"].as_f64().expect("checked");
    let run = process.number("duration_us") as f64;
    assert!(
        (share - mean / run).abs() < 1e-9,
        "{share} of {run} is {mean}"
    );
}

/// `aligned_alloc` of `programs/entry_points.c`: the alignment is that of the call (256 and 4096).
#[test]
fn a_site_says_the_alignment() {
    let recording = record(compiled("entry_points.c")).arg("aligned_alloc");
    let report = recording.run().ok().report();
    let process = report.only();
    let entries = process.sites().iter().flat_map(|site| {
        let entries = site["entries"].as_array().expect("checked");
        entries
            .iter()
            .map(|it| (it["entry"].clone(), it["alignment"].clone()))
    });
    let entries: Vec<_> = entries.collect();
    for alignment in [256, 4096] {
        let expected = (json!("aligned_alloc"), json!(alignment));
        assert!(entries.contains(&expected), "{entries:?}");
    }
}

/// The case `peak_in_between` of `programs/metrics.c`: ten times 1000 bytes that stay, then
/// 20000 that come and go (the peak), then 5000 that stay.
#[test]
fn dhat_has_the_figures_at_the_peak_and_at_the_end_and_each_stacks_own_maximum() {
    let recording = record(compiled("metrics.c")).arg("peak_in_between");
    let recording = recording.run().ok();
    let trace = recording.trace.to_str().expect("UTF-8");
    let dhat: Value = allotrope(["export", trace, "--format", "dhat"]).json();
    let report = recording.report();
    let process = report.only();
    assert_eq!(dhat["te"], process.number("duration_us"));
    assert_eq!(dhat["tg"], process.total("peak_time_us"));
    assert_eq!(dhat["bklt"], true);
    for (function, expected) in [
        // tb, tbk, gb, gbk, eb, ebk, mb, mbk
        ("first", [10_000, 10, 10_000, 10, 10_000, 10, 10_000, 10]),
        ("second", [20_000, 1, 20_000, 1, 0, 0, 20_000, 1]),
        ("third", [5_000, 1, 0, 0, 5_000, 1, 5_000, 1]),
    ] {
        let frames = dhat["ftbl"].as_array().expect("a list");
        let is_of = |point: &&Value| {
            let stack = point["fs"].as_array().expect("a list").iter();
            let mut texts = stack.filter_map(|at| frames[at.as_u64()? as usize].as_str());
            texts.any(|text| text.contains(&format!(": {function} (")))
        };
        let points = dhat["pps"].as_array().expect("a list");
        let points: Vec<_> = points.iter().filter(is_of).collect();
        assert_eq!(points.len(), 1, "{function}: {points:?}");
        let keys = ["tb", "tbk", "gb", "gbk", "eb", "ebk", "mb", "mbk"];
        assert_eq!(
            keys.map(|key| &points[0][key]),
            expected.map(|it| json!(it)).each_ref(),
            "{function}"
        );
    }
}

/// The output of `report --site N` of the site below `produce`, and its number.
fn of_produce(options: &[&str]) -> (String, u64) {
    let recording = record(compiled("threads.c")).arg("handover").run();
    let report = recording.report();
    let number = report.only().site_under("produce")["number"].clone();
    let number = number.as_u64().expect("checked");
    let trace = recording.trace.to_str().expect("UTF-8");
    let site = number.to_string();
    let arguments = ["report", trace, "--site", &site];
    let text = allotrope(arguments.iter().chain(options).copied())
        .ok()
        .text();
    (text, number)
}

#[test]
fn single_allocations_are_json_lines_and_csv() {
    let (lines, number) = of_produce(&["--events", "--format", "json-lines"]);
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect();
    assert_eq!(lines.len(), 5_000);
    for line in &lines {
        assert_eq!(
            (&line["bytes"], &line["site"]),
            (&json!(24), &json!(number))
        );
        assert_eq!(line["process"], 0);
        assert!(line["lifetime_us"].is_number() && line["allocated_us"].is_number());
        assert_ne!(line["allocated_by"], line["freed_by"]);
        let address = line["address"].as_str().expect("text");
        assert!(address.starts_with("0x"), "{address}");
    }
    let (csv, number) = of_produce(&["--events", "--format", "csv", "--limit", "7"]);
    let mut csv = csv.lines();
    let header = "process,site,allocated_us,lifetime_us,bytes,address,allocated_by,freed_by";
    assert_eq!(csv.next(), Some(header));
    let rows: Vec<Vec<&str>> = csv.map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), 7);
    for row in rows {
        assert_eq!(row.len(), 8);
        assert_eq!((row[0], row[1], row[4]), ("0", &*number.to_string(), "24"));
    }
    let (text, _) = of_produce(&["--events", "--limit", "7"]);
    assert!(text.ends_with("\n7 allocations\n"), "{text}");
}

#[test]
fn a_site_in_full_says_what_it_allocates_and_who_frees_it() {
    let (text, _) = of_produce(&[]);
    let line = |word: &str| {
        let mut lines = text.lines().map(str::trim_start);
        let line = lines.find_map(|line| line.strip_prefix(word));
        line.unwrap_or_else(|| panic!("{word}: {text}")).trim()
    };
    assert_eq!(line("through"), "malloc");
    assert_eq!(line("sizes"), "all 24 B");
    let maker = line("threads");
    assert!(
        line("freed by").contains(&format!("allocated by {maker}")),
        "{text}"
    );
    assert!(line("lifetime").contains("of the run"), "{text}");
    // One block is handed over, and the next one may be allocated meanwhile.
    assert!(line("own maximum").starts_with(['1', '2', '3']), "{text}");
}

#[test]
fn options_that_do_not_fit_are_one_sentence() {
    let recording = record(compiled("metrics.c")).arg("temporary").run();
    let trace = recording.trace.to_str().expect("UTF-8");
    for (options, part) in [
        (&["--format", "csv"][..], "add --site N --events"),
        (
            &["--format", "json-lines", "--site", "1"],
            "add --site N --events",
        ),
        (
            &["--format", "json", "--site", "1", "--events"],
            "json-lines",
        ),
        (&["--site", "1", "--limit", "3"], "--events"),
        (&["--site", "1", "--events", "--limit", "0"], "0"),
    ] {
        allotrope(["report", trace].iter().chain(options).copied()).fails(2, part);
    }
}

/// `report --events … | head` ends quietly.
#[test]
fn a_closed_pipe_of_single_allocations_is_no_error() {
    let recording = record(compiled("threads.c")).arg("handover").run();
    let script = "\"$0\" report \"$1\" --site 1 --events --format csv | head -n 1";
    let output = run(
        std::process::Command::new("sh")
            .args(["-c", script])
            .arg(env!("CARGO_BIN_EXE_allotrope"))
            .arg(&recording.trace),
        b"",
    );
    assert!(output.stdout.starts_with(b"process,site,"));
    let printed = output.errors();
    assert!(printed.is_empty(), "{printed}");
}
