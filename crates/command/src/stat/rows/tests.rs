//! Tests of the rows of `stat`.

use super::*;
use allotrope_profile::{HeapPoint, ResidentPoint};

fn process(pid: u32, samples: &[(u64, u64, u64)]) -> HeapCurve {
    let sample = |&(seconds, allocated_bytes, live_bytes): &(u64, u64, u64)| HeapPoint {
        time_ns: seconds * 1_000_000_000,
        allocated_bytes,
        live_bytes,
        allocations: allocated_bytes / 10,
        deallocations: 0,
        // 7 bytes more a quarter of a second before.
        most_live_bytes: live_bytes + 7,
        most_live_ns: seconds * 1_000_000_000 - 250_000_000,
    };
    HeapCurve {
        id: pid,
        pid,
        // Half a second before its first sample.
        started_ns: samples[0].0 * 1_000_000_000 - 500_000_000,
        executable: "/bin/x".into(),
        samples: samples.iter().map(sample).collect(),
        resident: vec![ResidentPoint {
            time_us: 1_500_000,
            bytes: 6000,
            recorder_bytes: Some(1000),
        }],
    }
}

fn rows() -> Rows {
    let run = RunTimes {
        started_ns: 1_000_000_000,
        ..RunTimes::default()
    };
    let samples = vec![
        process(7, &[(2, 100, 60), (3, 200, 50)]),
        process(8, &[(3, 30, 30), (4, 40, 20)]),
    ];
    Rows::new(samples, &run, 500_000_000_000)
}

#[test]
fn the_csv_file_has_a_row_for_each_process_and_time() {
    let mut csv = Vec::new();
    rows().write_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let lines: Vec<&str> = csv.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "1.000000,7,100,40,60,5000,10,0",
            "2.000000,7,200,150,50,5000,20,0",
            "2.000000,8,30,0,30,5000,3,0",
            "3.000000,8,40,20,20,5000,4,0",
        ]
    );
}

#[test]
fn totals_drop_what_was_live_in_processes_that_have_ended() {
    let totals = rows().totals();
    let seen: Vec<_> = totals
        .iter()
        .map(|it| {
            (
                it.seconds,
                it.allocated_bytes,
                it.live_bytes,
                it.resident_bytes,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (1.0, 100, 60, 5000),
            (2.0, 230, 80, 10_000),
            (3.0, 240, 20, 5000)
        ]
    );
    let most: Vec<_> = totals
        .iter()
        .map(|it| (it.most_seconds, it.most_live_bytes))
        .collect();
    assert_eq!(most, [(0.75, 67), (1.75, 87), (2.75, 27)]);
    let mut log = Vec::new();
    rows().write_log(&mut log).unwrap();
    let log = String::from_utf8(log).unwrap();
    assert!(
        log.starts_with("Time: 502, Allocated: 100, Deallocated: 40\n"),
        "{log}"
    );
}

/// Nothing is known of the time before a process began.
#[test]
fn a_rate_is_that_of_the_time_in_which_the_process_ran() {
    let rate = |line: &str| line.split_whitespace().last().map(str::to_owned);
    let mut last = LastLines::default();
    let rows = rows();
    let lines = rows.in_order().into_iter().map(|row| last.next(row));
    let rates: Vec<_> = lines.filter_map(|line| rate(&line)).collect();
    // 10 in half a second, then 10 more in a second; 3 in half a second, then one in a second.
    assert_eq!(rates, ["20", "10", "6", "1"]);
    // Another program, which counts from 0.
    let mut row = *rows.in_order()[3];
    (row.id, row.started, row.seconds, row.allocations) = (9, 3.5, 4.0, 40);
    assert_eq!(rate(&last.next(&row)).as_deref(), Some("80"));
}

#[test]
fn lines_fit_80_columns() {
    let line = rows().processes[0][0].line(None);
    let head = head();
    assert!(head.trim_end().len() <= 80 && line.trim_end().len() == head.trim_end().len());
}
