//! Exports that are not read back by `allotrope`: Perfetto, the Firefox Profiler, folded stacks and
//! `stacks`; exports of one process; the rows of `stat`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::figures_agree::compare::{Compared, number, sum_of, utf8};
use crate::figures_agree::perfetto::heaps;
use crate::support::allotrope;

/// Metrics of `--metric`, by the totals that they are.
const METRICS: [(&str, &str); 7] = [
    ("allocations", "allocations"),
    ("bytes", "allocated_bytes"),
    ("temporary", "temporary_allocations"),
    ("leaked", "leaked_bytes"),
    ("leaked-allocations", "leaked_allocations"),
    ("peak", "peak_bytes"),
    ("peak-allocations", "peak_allocations"),
];

impl Compared {
    pub fn exported(&self) {
        if self.is_counted() || self.sum("allocations") == 0 {
            return;
        }
        for (metric, total) in METRICS {
            let folded = self.said(&["export", "--format", "folded", "--metric", metric]);
            let numbers = folded.lines().filter_map(|line| line.rsplit_once(' '));
            let sum: u64 = numbers.filter_map(|(_, it)| it.parse::<u64>().ok()).sum();
            self.same(&format!("folded: {metric}"), sum, self.sum(total));
            let stacks = self.said(&["export", "--format", "stacks", "--metric", metric]);
            let numbers = stacks
                .lines()
                .filter_map(|it| it.trim().parse::<u64>().ok());
            self.same(&format!("stacks: {metric}"), numbers.sum(), self.sum(total));
        }
        self.perfetto();
        self.firefox();
        for process in self.processes().iter().take(3) {
            self.process(process);
        }
    }

    /// The last dump of each heap, and the heaps of the peaks.
    fn perfetto(&self) {
        let (_, heaps) = heaps(&self.written(&["export", "--format", "perfetto"]));
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for ((_, name), heap) in &heaps {
            let is_peak = name.contains("peak");
            for it in heap.values() {
                let live = [it.allocations - it.frees, it.allocated - it.freed];
                let of_heap = match is_peak {
                    true => [("peak_allocations", live[0]), ("peak_bytes", live[1])].to_vec(),
                    false => vec![
                        ("allocations", it.allocations),
                        ("allocated_bytes", it.allocated),
                        ("leaked_allocations", live[0]),
                        ("leaked_bytes", live[1]),
                    ],
                };
                for (total, value) in of_heap {
                    *sums.entry(total).or_default() += value;
                }
            }
        }
        for (total, sum) in sums {
            self.same(&format!("perfetto: {total}"), sum, self.sum(total));
        }
    }

    /// Samples, and what native allocations retain; each process is a thread there.
    fn firefox(&self) {
        let file = self.written(&["export", "--format", "firefox"]);
        let json: Value = serde_json::from_slice(&file).expect("JSON");
        let sum = |table: &str, counts: fn(i64) -> bool| -> u64 {
            let threads = json["threads"].as_array().expect("a list").iter();
            let weights = threads.filter_map(|it| it[table]["weight"].as_array());
            let numbers = weights.flatten().filter_map(Value::as_i64);
            let sum: i64 = numbers.filter(|it| counts(*it)).sum();
            u64::try_from(sum).expect("no more is freed than was allocated")
        };
        for (what, said, total) in [
            ("samples", sum("samples", |_| true), "allocations"),
            (
                "native allocations",
                sum("nativeAllocations", |it| it > 0),
                "allocated_bytes",
            ),
            (
                "retained memory",
                sum("nativeAllocations", |_| true),
                "leaked_bytes",
            ),
        ] {
            self.same(&format!("firefox: {what}"), said, self.sum(total));
        }
        let counters = json["counters"].as_array().into_iter().flatten();
        let live = counters.filter(|it| it["name"] == "live bytes");
        let counts = live.filter_map(|it| it["samples"]["count"].as_array());
        let ends: f64 = counts.flatten().filter_map(Value::as_f64).sum();
        self.same(
            "firefox: the counters of live bytes",
            ends.round() as u64,
            self.sum("leaked_bytes"),
        );
    }

    /// One process alone.
    fn process(&self, process: &Value) {
        let id = process["id"].to_string();
        let totals = &process["totals"];
        if number(totals, "allocations") == 0 {
            return;
        }
        let text = self.said(&["export", "--format", "json", "--process", &id]);
        let json: Value = serde_json::from_str(&text).expect("JSON");
        for (metric, total) in [
            ("allocations", "allocations"),
            ("allocated_bytes", "allocated_bytes"),
            ("temporary_allocations", "temporary_allocations"),
            ("leaked_allocations", "leaked_allocations"),
            ("leaked_bytes", "leaked_bytes"),
            ("bytes_at_peak", "peak_bytes"),
        ] {
            let what = format!("export --process {id}: {metric}");
            self.same(&what, sum_of(&json, metric), Some(number(totals, total)));
        }
    }

    /// The last row that `stat` writes of each process.
    pub fn rows_of_stat(&self) {
        if self.is_counted() {
            return;
        }
        let csv = self.path("stat.csv");
        let words = ["stat", "--quiet", "--csv", utf8(&csv), utf8(&self.trace)];
        allotrope(words).ok();
        let text = std::fs::read_to_string(&csv).expect("it was written");
        // After exec the numbers of a process begin again: the last row is that of the last program.
        let mut last: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for row in text.lines().skip(1) {
            let numbers = row
                .split(',')
                .skip(1)
                .map(|it| it.parse().expect("a number"));
            let row: Vec<u64> = numbers.collect();
            last.insert(row[0], row);
        }
        let programs: BTreeMap<u64, &Value> = (self.processes().iter())
            .map(|it| (number(it, "pid"), it))
            .collect();
        for (pid, program) in programs {
            let what = format!("stat: the last row of {pid}");
            let said = last.get(&pid).map(|it| [it[1], it[3], it[5], it[6]]);
            let totals = [
                "allocated_bytes",
                "leaked_bytes",
                "allocations",
                "deallocations",
            ];
            let totals = totals.map(|name| number(&program["totals"], name));
            self.same(&what, said, Some(totals));
        }
    }
}
