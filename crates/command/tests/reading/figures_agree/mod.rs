//! No two commands disagree about a figure of one recording: totals, peaks and sites in text, JSON,
//! on the page and in exports; ranges of time and moments; single allocations; what `record` and
//! `stat` print. Each test is a recording of another kind.
//!
//! The figures of the JSON report are compared with all others; that they are those of the
//! program is the business of the other tests.

use crate::exports::perfetto;

mod compare;
mod exported;
mod more;
mod page;
mod partial;
mod ranges;
mod resident;
mod sampled;
mod text;

use std::path::Path;

use crate::support::record::Record;
use crate::support::{Recording, compiled, record};
use compare::Compared;

/// Records a case of `figures.c`.
fn figures(words: &[&str]) -> Record {
    record(compiled("figures.c")).args(words)
}

/// Compares everything that commands say about a recording.
#[track_caller]
fn agree(trace: &Path) {
    let compared = Compared::new(trace);
    compared.totals();
    compared.text();
    compared.lists();
    compared.sites_in_text();
    compared.windows();
    compared.exports();
    compared.formats();
    compared.exported();
    compared.rows_of_stat();
    compared.page();
    compared.differences();
    compared.ranges();
    compared.single_allocations();
    compared.finish();
}

/// Compares what `record` printed, and then everything.
#[track_caller]
fn recorded(recording: &Recording) {
    let compared = Compared::new(&recording.trace);
    compared.summary(&recording.stderr);
    compared.finish();
    agree(&recording.trace);
}

#[test]
fn one_thread() {
    recorded(&figures(&["work", "5000"]).run().ok());
}

#[test]
fn phases() {
    recorded(&figures(&["phases", "700"]).run().ok());
}

#[test]
fn threads() {
    recorded(&figures(&["threads", "8", "4000"]).run().ok());
}

#[test]
fn many_threads() {
    recorded(&figures(&["threads", "120", "200"]).run().ok());
}

#[test]
fn forks() {
    // One child is killed.
    recorded(&figures(&["forks", "5", "900"]).run().ok());
}

#[test]
fn exec() {
    recorded(&figures(&["exec", "900"]).run().ok());
}

#[test]
fn killed() {
    recorded(&figures(&["killed", "4000"]).run());
}

#[test]
fn many_processes() {
    recorded(&figures(&["forks", "70", "60"]).run().ok());
}

#[test]
fn many_programs() {
    let shell = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do \"$0\" work $i; done; \"$0\" phases 40";
    let recording = record("sh")
        .args(["-c", shell])
        .arg(compiled("figures.c"))
        .run();
    recorded(&recording.ok());
}

#[test]
fn stacks_of_deallocations() {
    let record = figures(&["threads", "3", "1500"]).option("--free-stacks");
    recorded(&record.run().ok());
}

#[test]
fn short_stacks() {
    let record = figures(&["many_sites", "8", "20"])
        .option("--depth")
        .option("5");
    recorded(&record.run().ok());
}

#[test]
fn many_sites() {
    recorded(&figures(&["many_sites", "12", "20"]).run().ok());
}

#[test]
fn only_counted() {
    let record = figures(&["forks", "3", "900"]).option("--counts-only");
    recorded(&record.run().ok());
}

/// Whether events are dropped depends on the machine; the figures agree in any case.
#[test]
fn dropped_events() {
    let words = ["threads", "8", "60000"];
    let record = figures(&words).option("--on-full").option("drop");
    recorded(&record.run().ok());
}

#[test]
fn windows() {
    let record = record(compiled("windows.c")).arg("nested");
    recorded(&record.run().ok());
}

#[test]
fn operators() {
    recorded(&record(compiled("operators.cc")).run());
}

#[test]
fn a_pool() {
    let record = record(compiled("client_pools.c")).arg("resized");
    recorded(&record.run().ok());
}

#[test]
fn another_program() {
    let script = "import json; print(len(json.dumps([list(range(100)) for _ in range(200)])))";
    let recording = record("python3").args(["-c", script]).run();
    recorded(&recording.ok());
}

#[test]
fn nothing_allocated() {
    recorded(&record(compiled("nothing.c")).run().ok());
}

/// A trace that was cut off in its events.
#[test]
fn cut() {
    let recording = figures(&["phases", "3000"]).run().ok();
    let bytes = std::fs::read(&recording.trace).expect("it was written");
    let cut = recording.folder.path().join("cut.allotrope");
    for part in [3, 6, 9] {
        std::fs::write(&cut, &bytes[..bytes.len() * part / 10]).expect("the folder is ours");
        agree(&cut);
    }
}

/// There are so many stacks at so many times that the page has wider buckets of time for some.
#[test]
fn more_than_fits_a_page() {
    let recording = figures(&["many_sites", "14", "300"]).run();
    let recording = recording.ok();
    let compared = Compared::new(&recording.trace);
    compared.ranges();
    let widened = compared.widened_sites();
    let totals = compared.page_data().numbers("total_cell.allocated").len();
    compared.finish();
    assert!(widened > 0, "the page has everything: make it more");
    assert!(totals > 0, "the totals depend on sites with wider buckets");
}
