//! The Firefox Profiler's processed profile. Its app is in no registry, so what it computes of
//! native allocations is computed here from the file: what was allocated in a range of time and
//! not freed by its end is retained.

use std::collections::HashMap;

use serde_json::Value;

use crate::exports::{METRICS, exported, steps};

/// A native allocation, with the functions of its stack.
struct Row {
    ms: f64,
    bytes: i64,
    address: u64,
    functions: Vec<String>,
}

struct File {
    json: Value,
}

impl File {
    fn new(bytes: &[u8]) -> Self {
        let json: Value = serde_json::from_slice(bytes).expect("it is JSON");
        assert!(json["meta"]["preprocessedProfileVersion"].as_u64() > Some(40));
        Self { json }
    }

    fn thread(&self) -> &Value {
        let threads = self.json["threads"].as_array().expect("a list");
        assert_eq!(threads.len(), 1);
        &threads[0]
    }

    fn string(&self, index: &Value) -> String {
        let own = &self.thread()["stringArray"];
        let strings = match own.is_array() {
            true => own,
            false => &self.json["shared"]["stringArray"],
        };
        let index = index.as_u64().expect("an index") as usize;
        strings[index].as_str().expect("a text").to_owned()
    }

    /// The functions of a stack.
    fn functions(&self, stack: &Value) -> Vec<String> {
        let thread = self.thread();
        let mut functions = Vec::new();
        let mut next = stack.clone();
        while let Some(stack) = next.as_u64() {
            let stack = stack as usize;
            let frame = thread["stackTable"]["frame"][stack]
                .as_u64()
                .expect("an index");
            let function = &thread["frameTable"]["func"][frame as usize];
            let function = function.as_u64().expect("an index") as usize;
            functions.push(self.string(&thread["funcTable"]["name"][function]));
            next = thread["stackTable"]["prefix"][stack].clone();
        }
        functions
    }

    fn times(table: &Value) -> Vec<f64> {
        let list = |name: &str| {
            let list = table[name].as_array()?;
            Some(
                list.iter()
                    .map(|it| it.as_f64().expect("a number"))
                    .collect::<Vec<f64>>(),
            )
        };
        list("time").unwrap_or_else(|| {
            let mut now = 0.0;
            let deltas = list("timeDeltas").expect("times");
            let times = deltas.into_iter().map(|delta| {
                now += delta;
                now
            });
            times.collect()
        })
    }

    /// The native allocations.
    fn rows(&self) -> Vec<Row> {
        let table = &self.thread()["nativeAllocations"];
        let times = Self::times(table);
        assert!(times.is_sorted());
        assert_eq!(table["length"].as_u64(), Some(times.len() as u64));
        let rows = times.into_iter().enumerate().map(|(at, ms)| Row {
            ms,
            bytes: table["weight"][at].as_i64().expect("bytes"),
            address: table["memoryAddress"][at].as_u64().expect("an address"),
            functions: self.functions(&table["stack"][at]),
        });
        rows.collect()
    }

    /// The time of the marker with this name.
    fn marker(&self, name: &str) -> f64 {
        let markers = &self.thread()["markers"];
        let names = markers["name"].as_array().expect("a list");
        let at = names.iter().position(|it| self.string(it) == name);
        let at = at.expect("the marker is there");
        markers["startTime"][at].as_f64().expect("a time")
    }
}

/// What a range of rows retains, by function.
fn retained<'a>(rows: impl Iterator<Item = &'a Row>, function: &str) -> i64 {
    let mut live: HashMap<u64, i64> = HashMap::new();
    for row in rows.filter(|row| row.functions.iter().any(|it| it.starts_with(function))) {
        match row.bytes < 0 {
            false => drop(live.insert(row.address, row.bytes)),
            true => {
                // A deallocation of what was allocated before the range is ignored.
                live.remove(&row.address);
            }
        }
    }
    live.values().sum()
}

#[test]
fn sums_and_pairs_of_native_allocations_are_those_of_the_program() {
    let file = File::new(&exported(&METRICS.trace, "firefox", &[]));
    let rows = file.rows();
    let allocated = rows.iter().filter(|row| row.bytes > 0);
    assert_eq!(allocated.map(|row| row.bytes).sum::<i64>(), 35_000);
    let mut made: HashMap<u64, i64> = HashMap::new();
    for row in &rows {
        match row.bytes < 0 {
            // Each address is used once.
            false => assert!(made.insert(row.address, row.bytes).is_none()),
            true => assert_eq!(made.get(&row.address), Some(&-row.bytes)),
        }
    }
    for (function, bytes) in [("first", 10_000), ("second", 0), ("third", 5000)] {
        assert_eq!(retained(rows.iter(), function), bytes, "{function}");
    }
    // Samples have numbers of allocations.
    let samples = &file.thread()["samples"];
    let weights = samples["weight"].as_array().expect("a list");
    let sum: u64 = weights
        .iter()
        .map(|it| it.as_u64().expect("a number"))
        .sum();
    assert_eq!(sum, 12);
}

#[test]
fn what_a_selected_range_retains_follows_its_ends() {
    let file = File::new(&exported(&steps(), "firefox", &[]));
    let rows = file.rows();
    let between = file.marker("between");
    let before = || rows.iter().filter(|row| row.ms < between);
    let after = || rows.iter().filter(|row| row.ms >= between);
    assert_eq!(retained(before(), "first_step"), 10_000);
    assert_eq!(retained(before(), "second_step"), 0);
    assert_eq!(retained(after(), "first_step"), 0);
    assert_eq!(retained(after(), "second_step"), 6000);
    // Four of ten blocks are freed after the mark.
    let freed = after().filter(|row| row.bytes < 0);
    let freed = freed.filter(|row| row.functions.iter().any(|it| it.starts_with("first_step")));
    assert_eq!(freed.map(|row| row.bytes).sum::<i64>(), -4000);
    assert_eq!(retained(rows.iter(), "first_step"), 6000);
}

#[test]
fn the_counter_ends_with_what_was_live() {
    let file = File::new(&exported(&steps(), "firefox", &[]));
    let counters = file.json["counters"].as_array().expect("a list");
    let live = counters.iter().find(|it| it["name"] == "live bytes");
    let samples = &live.expect("the counter is there")["samples"];
    let counts = samples["count"].as_array().expect("a list");
    let sum: f64 = counts.iter().map(|it| it.as_f64().expect("a number")).sum();
    // 6 × 1000 + 20 × 300
    assert_eq!(sum, 12_000.0);
}
