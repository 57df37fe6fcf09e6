//! Windows: `programs/client_windows.cc`, and which events the trace puts into
//! each.

use std::collections::BTreeMap;

use allotrope_trace::model::{EpochMark, EventKind, Record, Window};
use allotrope_trace::{Entry, TraceReader};

use crate::support::{Recording, compiled, record};

/// A window's name, iterations and allocations.
type Counted = (String, u64, u64);

/// The windows of a program with one thread and one stream, in their order.
fn windows(recording: &Recording) -> Vec<Counted> {
    let reader = TraceReader::open(&recording.trace).expect("it was just written");
    let mut opened: Vec<Window> = Vec::new();
    let mut closed = BTreeMap::new();
    let mut allocations = Vec::new();
    let mut mark = EpochMark::default();
    for entry in reader.entries() {
        match entry.expect("the trace is whole") {
            Entry::Record(Record::Window(window)) => opened.push(window),
            Entry::Record(Record::WindowEnd(end)) => {
                closed.insert(end.opened, end.closed);
            }
            Entry::Record(_) => {}
            Entry::Events(at) => {
                let mut events = Vec::new();
                reader.read_events(&at, &mut events).expect("it is whole");
                for event in events {
                    match event.kind {
                        EventKind::Epoch => mark = EpochMark::from_word(event.address),
                        EventKind::Allocation if !mark.opted_out => allocations.push(mark.epoch),
                        _ => {}
                    }
                }
            }
        }
    }
    let inside = |window: &Window| {
        let end = closed[&window.opened];
        let within = allocations
            .iter()
            .filter(|&&at| (window.opened..end).contains(&at));
        within.count() as u64
    };
    opened
        .iter()
        .map(|w| (w.name.clone(), w.iterations, inside(w)))
        .collect()
}

fn named(name: &str, iterations: u64, allocations: u64) -> Counted {
    (name.to_owned(), iterations, allocations)
}

#[test]
fn each_window_has_the_allocations_of_its_calls() {
    let recording = record(compiled("client_windows.cc")).run().expect_status(0);
    let expected = [
        named("protocol", 30, 30),
        named("protocol", 30, 30),
        named("protocol", 30, 30),
        named("lambda", 40, 40),
        // Of 12 calls 7 are opted out.
        named("outer", 1, 5),
    ];
    assert_eq!(windows(&recording), expected);
}

#[test]
fn the_configuration_asks_for_other_numbers() {
    let recording = record(compiled("client_windows.cc"))
        .env("ALLOTROPE_RUNS", "1")
        .env("ALLOTROPE_WARMUP", "0")
        .run()
        .expect_status(0);
    let names: Vec<String> = windows(&recording).into_iter().map(|w| w.0).collect();
    assert_eq!(names, ["protocol", "lambda", "outer"]);
    // One measured call of 30, those of 40, 5 and 7; no warm-up.
    assert_eq!(recording.report().only().under("work").allocations, 82);
}
