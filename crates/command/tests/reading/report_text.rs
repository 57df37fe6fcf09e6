//! The report that people read: what it must contain, however it is laid out.

use std::sync::LazyLock;

use crate::support::{Recording, compiled, compiled_with, record};

/// `attribution chain`: 3 blocks of 11 bytes through `middle`, 2 of 13 from
/// `outer` itself; all of them leak.
static CHAIN: LazyLock<Recording> = LazyLock::new(|| {
    record(compiled("attribution.c"))
        .arg("chain")
        .run()
        .expect_status(0)
});

/// `metrics peak_in_between`: `second` is freed, `first` and `third` leak.
static PEAK: LazyLock<Recording> = LazyLock::new(|| {
    record(compiled("metrics.c"))
        .arg("peak_in_between")
        .run()
        .expect_status(0)
});

fn report(recording: &Recording, options: &[&str]) -> String {
    let mut arguments = vec!["report".into(), recording.trace.clone().into_os_string()];
    arguments.extend(options.iter().map(Into::into));
    let output = crate::support::allotrope(arguments);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{options:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stderr.is_empty(), "no warning about a whole trace");
    assert!(
        !printed.contains('\u{1b}'),
        "no colour in a pipe: {printed}"
    );
    printed
}

#[track_caller]
fn expect_all(printed: &str, parts: &[&str]) {
    for part in parts {
        assert!(printed.contains(part), "{part} in\n{printed}");
    }
}

#[test]
fn totals_and_sites() {
    let printed = report(&CHAIN, &["--lists"]);
    expect_all(&printed, &["attribution", "leaf", "attribution.c"]);
}

#[test]
fn every_order() {
    for order in ["allocations", "bytes", "peak", "leaked", "temporary"] {
        expect_all(&report(&PEAK, &["--metric", order]), &["metrics"]);
    }
    let by_peak = report(&PEAK, &["--metric", "peak"]);
    assert_eq!(by_peak, report(&PEAK, &["--sort", "peak"]));
    let position = |name: &str| by_peak.find(name).unwrap_or(usize::MAX);
    assert!(position("second") < position("first"), "{by_peak}");
}

#[test]
fn trees_both_ways() {
    // The last name is that of older versions.
    for (order, older) in [("bottom-up", "outwards"), ("top-down", "inwards")] {
        let text = report(&CHAIN, &["--tree", order]);
        expect_all(&text, &["leaf", "middle", "outer", "main"]);
        let position = |name: &str| text.find(name).unwrap_or(usize::MAX);
        let leaf_first = position("leaf") < position("outer");
        assert_eq!(leaf_first, order == "bottom-up", "{text}");
        assert_eq!(text, report(&CHAIN, &["--tree", "--direction", older]));
    }
    let without_order = report(&CHAIN, &["--tree"]);
    assert_eq!(without_order, report(&CHAIN, &["--tree", "bottom-up"]));
    let trace = CHAIN.trace.as_os_str();
    let file_last = crate::support::allotrope(["report".as_ref(), "--tree".as_ref(), trace]);
    assert_eq!(String::from_utf8_lossy(&file_last.stdout), without_order);
    for arguments in [&["--tree", "sideways"][..], &["--tree", "top-down"]] {
        let mut arguments = arguments.to_vec();
        arguments.insert(0, "report");
        if arguments[2] == "sideways" {
            arguments.push("x.allotrope");
        }
        let refused = crate::support::allotrope(&arguments);
        let sentence = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{sentence}");
        assert!(sentence.contains("--tree"), "{sentence}");
    }
}

#[test]
fn leaked_and_freed_blocks() {
    let leaked = report(&PEAK, &["--leaked-only"]);
    expect_all(&leaked, &["first", "third"]);
    assert!(!leaked.contains("second"), "{leaked}");
    assert_eq!(leaked, report(&PEAK, &["--persisted"]));
    let freed = report(&PEAK, &["--freed-only"]);
    expect_all(&freed, &["second"]);
    assert!(!freed.contains("third"), "{freed}");
    assert_eq!(freed, report(&PEAK, &["--destroyed"]));
}

#[test]
fn filters_and_limits() {
    let filtered = report(&PEAK, &["--filter", "third"]);
    expect_all(&filtered, &["third"]);
    assert!(!filtered.contains("second"), "{filtered}");
    let capital = report(&PEAK, &["--filter", "TH*D"]);
    assert_eq!(capital, filtered);
    let unmatched = crate::support::allotrope([
        "report".as_ref(),
        PEAK.trace.as_os_str(),
        "--filter".as_ref(),
        "thrid".as_ref(),
    ]);
    assert_eq!(unmatched.status.code(), Some(2));
    let sentence = String::from_utf8_lossy(&unmatched.stderr);
    assert!(sentence.contains("nearest: third"), "{sentence}");
    let top = report(&PEAK, &["--top", "1", "--metric", "peak"]);
    expect_all(&top, &["second"]);
    report(&PEAK, &["--process", "0"]);
    let unknown = crate::support::allotrope([
        "report".as_ref(),
        PEAK.trace.as_os_str(),
        "--process".as_ref(),
        "7".as_ref(),
    ]);
    assert_eq!(unknown.status.code(), Some(2), "there is no process 7");
}

/// A derived `clone` has a line of the user's, but its caller is what the user wrote.
#[test]
fn derived_functions_head_no_row() {
    let program = compiled_with("blame/clone_enum.rs", &["--cfg", "after"]);
    let printed = report(&record(program).run().expect_status(0), &["--lists"]);
    let rows = printed
        .lines()
        .filter(|line| line.trim_start().starts_with('#'));
    let rows: Vec<&str> = rows.collect();
    assert!(!rows.is_empty(), "{printed}");
    assert!(
        !rows.iter().any(|row| row.contains("Clone>::clone")),
        "{printed}"
    );
    let blamed = crate::support::source_text("blame/clone_enum.rs");
    let (_, function) = blamed.split_once("BLAME ").expect("its head");
    let function = function.lines().next().expect("a name").trim();
    assert!(rows.iter().any(|row| row.contains(function)), "{printed}");
}

#[test]
fn the_c_locale_gets_ascii() {
    let text = |locale: &str| {
        let mut command = crate::support::record::command();
        command
            .args(["report", "--lists"])
            .arg(&CHAIN.trace)
            .env("LC_ALL", locale);
        let output = crate::support::run(&mut command, b"");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let (usual, ascii) = (text("C.UTF-8"), text("C"));
    assert!(usual.contains(" · ") && usual.contains(" ← "), "{usual}");
    assert!(ascii.is_ascii(), "{ascii}");
    assert!(ascii.contains(" - ") && ascii.contains(" < "), "{ascii}");
    assert_eq!(usual.lines().count(), ascii.lines().count());
}

/// The text's "ran 14.5 ms" is the JSON's `duration_us` of the only process.
#[test]
fn the_duration_is_that_of_the_process() {
    let printed = report(&CHAIN, &["--lists"]);
    let (_, ran) = printed.split_once("ran ").expect("how long it ran");
    let mut words = ran.split_whitespace();
    let number: f64 = words
        .next()
        .and_then(|it| it.parse().ok())
        .expect("a number");
    let unit = match words.next() {
        Some("µs") => 1.0,
        Some("ms") => 1e3,
        Some("s") => 1e6,
        other => panic!("{other:?} in {ran}"),
    };
    let exact = CHAIN.report().only().number("duration_us") as f64;
    let shown = number * unit;
    assert!((shown - exact).abs() <= 0.05 * exact, "{shown} {exact}");
}

#[test]
fn columns_sets_the_width() {
    let lines = |columns: Option<&str>| {
        let mut command = crate::support::record::command();
        command.args(["report", "--lists"]).arg(&CHAIN.trace);
        match columns {
            Some(columns) => command.env("COLUMNS", columns),
            None => command.env_remove("COLUMNS"),
        };
        let output = crate::support::run(&mut command, b"");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let widths = text.lines().map(|line| line.chars().count());
        widths.max().expect("lines")
    };
    assert!(lines(Some("60")) <= 60);
    assert!(lines(Some("200")) > lines(Some("60")));
    for no_number in ["", "0", "wide", "-3"] {
        assert_eq!(lines(Some(no_number)), lines(None));
    }
}

#[test]
fn single_events() {
    let printed = report(&CHAIN, &["--site", "1", "--events"]);
    assert!(printed.lines().count() > 1, "{printed}");
    let unknown = crate::support::allotrope([
        "report".as_ref(),
        CHAIN.trace.as_os_str(),
        "--site".as_ref(),
        "99".as_ref(),
        "--events".as_ref(),
    ]);
    assert_eq!(unknown.status.code(), Some(2), "there is no site 99");
}

/// `report … | head` ends quietly.
#[test]
fn a_closed_pipe_is_no_error() {
    let output = crate::support::run(
        std::process::Command::new("sh")
            .arg("-c")
            .arg("\"$0\" report \"$1\" --tree | head -n 1")
            .arg(env!("CARGO_BIN_EXE_allotrope"))
            .arg(&CHAIN.trace),
        b"",
    );
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!printed.contains("panicked"), "{printed}");
}

#[test]
fn unoptimised_programs_are_pointed_out() {
    let plain = crate::support::compiled_with("stream.c", &["-O0"]);
    let recording = record(plain).arg("10").run().expect_status(0);
    assert!(recording.stderr.contains("optimi"), "{}", recording.stderr);
    let optimised = record(compiled("stream.c"))
        .arg("10")
        .run()
        .expect_status(0);
    assert!(!optimised.stderr.contains("optimi"), "{}", optimised.stderr);
}
