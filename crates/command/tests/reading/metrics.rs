//! Peak, leaked, temporary and lifetime against `programs/metrics.c`. Times are
//! asserted as bounds that no load can break: a pause lasts at least as long as
//! asked for.

use crate::support::{Recording, compiled, record, truth};

const SOURCE: &str = "metrics.c";

fn recorded(case: &str) -> Recording {
    record(compiled(SOURCE)).arg(case).run().ok()
}

#[test]
fn the_latest_of_equal_peaks() {
    truth::check(SOURCE, "peak_tie");
    let report = recorded("peak_tie").report();
    let process = report.only();
    assert_eq!(process.under("first").bytes_at_peak, 0);
    assert_eq!(process.under("second").bytes_at_peak, 60);
    assert_eq!(process.under("third").bytes_at_peak, 40);
}

#[test]
fn a_peak_in_between() {
    truth::check(SOURCE, "peak_in_between");
    let report = recorded("peak_in_between").report();
    let process = report.only();
    assert_eq!(process.under("first").bytes_at_peak, 10_000);
    assert_eq!(process.under("first").at_peak, 10);
    assert_eq!(process.under("second").bytes_at_peak, 20_000);
    assert_eq!(process.under("third").bytes_at_peak, 0);
    assert_eq!(process.under("first").leaked_bytes, 10_000);
    assert_eq!(process.under("second").leaked, 0);
    assert_eq!(process.under("third").leaked, 1);
}

#[test]
fn a_reallocation_is_never_two_blocks() {
    truth::check(SOURCE, "peak_of_realloc");
}

#[test]
fn temporary_allocations() {
    truth::check(SOURCE, "temporary");
    let report = recorded("temporary").report();
    let process = report.only();
    assert_eq!(process.under("first").temporary, 1);
    assert_eq!(process.under("second").temporary, 0);
    assert_eq!(process.under("third").temporary, 1);
}

#[test]
fn freed_by_another_thread_is_not_temporary() {
    let report = recorded("other_thread").report();
    let process = report.only();
    let first = process.under("first");
    assert_eq!(
        (first.allocations, first.temporary, first.leaked),
        (1, 0, 0)
    );
    assert_eq!(process.under("second").temporary, 1);
}

/// Microseconds: a pause, and how long it may take on a machine under load.
const PAUSE: f64 = 50_000.0;
const FAR_ABOVE: f64 = 100.0 * PAUSE;

#[test]
fn lifetimes() {
    let report = recorded("lifetime").report();
    let process = report.only();
    let mean = |function: &str| {
        let site = process.site_under(function);
        site["lifetime_mean_us"].as_f64().expect("checked")
    };
    let duration = process.number("duration_us") as f64;
    let first = mean("first");
    assert!((PAUSE..FAR_ABOVE).contains(&first), "first: {first} µs");
    // Never freed: it lives until the image ends, which is after the pause.
    let third = mean("third");
    assert!((PAUSE..FAR_ABOVE).contains(&third), "third: {third} µs");
    assert!(first + third <= duration + 2.0, "one after the other");
    assert!(mean("second") < duration - first - third + 1.0);
}

#[test]
fn the_median_lifetime_is_not_moved_by_one_block() {
    let recording = recorded("one_long_lifetime");
    let report = recording.report();
    let site = report.only().site_under("first");
    let number = |field: &str| site[field].as_f64().expect("checked");
    assert_eq!(number("allocations"), 10.0);
    let (mean, median) = (number("lifetime_mean_us"), number("lifetime_median_us"));
    assert!(mean >= PAUSE / 10.0, "mean {mean} µs");
    // Nine blocks are freed at once: half of the blocks cannot have lived for the pause.
    assert!(median < PAUSE / 2.0, "median {median} µs");
    assert!(
        (number("lifetime_min_us")..=mean).contains(&median),
        "{median} µs"
    );
}

/// An event with no others near it gets its time from the coarse clock alone, which
/// advances late on a loaded machine. So the lifetime may be some milliseconds too
/// short, but it must not be half of the pause.
#[test]
fn the_lifetime_of_a_block_far_from_other_events() {
    let report = recorded("lone").report();
    let process = report.only();
    let site = process.site_under("first");
    let mean = site["lifetime_mean_us"].as_f64().expect("checked");
    assert!((120_000.0..20_000_000.0).contains(&mean), "{mean} µs");
}

#[test]
fn the_time_of_the_peak() {
    let report = recorded("late_peak").report();
    let process = report.only();
    assert_eq!(process.total("peak_bytes"), 1_000_000);
    let time = process.total("peak_time_us");
    assert!(time >= 100_000, "{time} µs");
    assert!(time <= process.number("duration_us"), "{time} µs");
}
