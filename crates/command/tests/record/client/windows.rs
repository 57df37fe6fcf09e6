//! Windows through the header: `programs/client_windows.cc`.

use crate::support::windows::{counted, windows};
use crate::support::{compiled, record};

#[test]
fn each_window_has_the_allocations_of_its_calls() {
    let recording = record(compiled("client_windows.cc")).run();
    let expected = [
        counted("protocol", 30, 30),
        counted("protocol", 30, 30),
        counted("protocol", 30, 30),
        counted("lambda", 40, 40),
        // 7 of its 12 calls are opted out.
        counted("outer", 1, 5),
    ];
    assert_eq!(windows(&recording.ok()), expected);
}

#[test]
fn the_environment_sets_other_numbers_of_runs_and_warm_up() {
    let recording = record(compiled("client_windows.cc"))
        .env("ALLOTROPE_RUNS", "1")
        .env("ALLOTROPE_WARMUP", "0")
        .run()
        .ok();
    let found = windows(&recording);
    let names: Vec<&str> = found.iter().map(|window| window.name.as_str()).collect();
    assert_eq!(names, ["protocol", "lambda", "outer"]);
    // One measured call of 30, those of 40, 5 and 7; no warm-up.
    assert_eq!(recording.report().only().under("work").allocations, 82);
}
