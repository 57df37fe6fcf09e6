//! The report that people read: what it must contain, however it is laid out.

use std::sync::LazyLock;

use crate::support::{Recording, Text, allotrope, compiled, compiled_with, record, run};

/// `attribution chain`: 3 blocks of 11 bytes through `middle`, 2 of 13 from
/// `outer` itself; all of them leak.
static CHAIN: LazyLock<Recording> =
    LazyLock::new(|| record(compiled("attribution.c")).arg("chain").run().ok());

/// `metrics peak_in_between`: `second` is freed, `first` and `third` leak.
static PEAK: LazyLock<Recording> = LazyLock::new(|| {
    record(compiled("metrics.c"))
        .arg("peak_in_between")
        .run()
        .ok()
});

fn report(recording: &Recording, options: &[&str]) -> String {
    let mut arguments = vec!["report".into(), recording.trace.clone().into_os_string()];
    arguments.extend(options.iter().map(Into::into));
    let output = allotrope(arguments).ok();
    let printed = output.text();
    assert!(output.stderr.is_empty(), "no warning about a whole trace");
    assert!(
        !printed.contains('\u{1b}'),
        "no colour in a pipe: {printed}"
    );
    printed
}

#[track_caller]
fn expect_all(printed: &str, parts: &[&str]) {
    printed.has_all(parts);
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
    let file_last = allotrope(["report".as_ref(), "--tree".as_ref(), trace]);
    assert_eq!(file_last.text(), without_order);
    allotrope(["report", "--tree", "sideways", "x.allotrope"]).fails(2, "--tree");
}

#[test]
fn leaked_and_freed_blocks() {
    let leaked = report(&PEAK, &["--leaked-only"]);
    expect_all(&leaked, &["first", "third"]);
    leaked.lacks("second");
    assert_eq!(leaked, report(&PEAK, &["--persisted"]));
    let freed = report(&PEAK, &["--freed-only"]);
    expect_all(&freed, &["second"]);
    freed.lacks("third");
    assert_eq!(freed, report(&PEAK, &["--destroyed"]));
}

#[test]
fn filters_and_limits() {
    let filtered = report(&PEAK, &["--filter", "third"]);
    expect_all(&filtered, &["third"]);
    filtered.lacks("second");
    let capital = report(&PEAK, &["--filter", "TH*D"]);
    assert_eq!(capital, filtered);
    allotrope([
        "report".as_ref(),
        PEAK.trace.as_os_str(),
        "--filter".as_ref(),
        "thrid".as_ref(),
    ])
    .code(2)
    .says("nearest: third");
    let top = report(&PEAK, &["--top", "1", "--metric", "peak"]);
    expect_all(&top, &["second"]);
    report(&PEAK, &["--process", "0"]);
    allotrope([
        "report".as_ref(),
        PEAK.trace.as_os_str(),
        "--process".as_ref(),
        "7".as_ref(),
    ])
    .code(2);
}

/// A derived `clone` has a line of the user's, but its caller is what the user wrote.
///
/// Reported: code that the compiler wrote heads the report.
#[test]
fn derived_functions_head_no_row() {
    let program = compiled_with("blame/clone_enum.rs", &["--cfg", "after"]);
    let printed = report(&record(program).run().ok(), &["--lists"]);
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
        run(&mut command, b"").text()
    };
    let (usual, ascii) = (text("C.UTF-8"), text("C"));
    usual.has_all([" · ", " ← "]);
    assert!(ascii.is_ascii(), "{ascii}");
    ascii.has_all([" - ", " < "]);
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
        let text = run(&mut command, b"").text();
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
    allotrope([
        "report".as_ref(),
        CHAIN.trace.as_os_str(),
        "--site".as_ref(),
        "99".as_ref(),
        "--events".as_ref(),
    ])
    .code(2);
}

/// `report … | head` ends quietly.
#[test]
fn a_closed_pipe_is_no_error() {
    let printed = run(
        std::process::Command::new("sh")
            .arg("-c")
            .arg("\"$0\" report \"$1\" --tree | head -n 1")
            .arg(env!("CARGO_BIN_EXE_allotrope"))
            .arg(&CHAIN.trace),
        b"",
    )
    .errors();
    printed.lacks("panicked");
}

#[test]
fn unoptimised_programs_are_pointed_out() {
    let plain = crate::support::compiled_with("stream.c", &["-O0"]);
    let recording = record(plain).arg("10").run().ok();
    recording.stderr.has("optimi");
    let optimised = record(compiled("stream.c")).arg("10").run().ok();
    optimised.stderr.lacks("optimi");
}
