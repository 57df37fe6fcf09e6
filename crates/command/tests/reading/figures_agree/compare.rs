//! Compares the figures of commands with those of the JSON report.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::figures_agree::page::Page;
use crate::figures_agree::text::{block, cells, count, is_bytes};
use crate::support::{allotrope, schema};

/// Largest number of processes of which each has commands of its own.
const MAX_PROCESSES: usize = 4;

/// A recording, and what disagrees about it.
pub struct Compared {
    pub trace: PathBuf,
    /// The JSON report.
    pub json: Value,
    page: OnceCell<Page>,
    folder: TempDir,
    disagreements: RefCell<Vec<String>>,
}

/// A number in JSON; null and what is missing are 0.
pub fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

impl Compared {
    #[track_caller]
    pub fn new(trace: &Path) -> Self {
        let output = allotrope(["report", "--format", "json", utf8(trace)]);
        let json: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", output.errors()));
        schema::check(&json);
        Self {
            trace: trace.to_owned(),
            json,
            page: OnceCell::new(),
            folder: tempfile::tempdir().expect("a folder"),
            disagreements: RefCell::default(),
        }
    }

    /// Fails if anything disagreed.
    #[track_caller]
    pub fn finish(self) {
        let found = self.disagreements.into_inner();
        assert!(
            found.is_empty(),
            "{} disagreements:\n{}",
            found.len(),
            found.join("\n")
        );
    }

    /// A file in a folder of this comparison.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn disagree(&self, what: String) {
        self.disagreements.borrow_mut().push(what);
    }

    /// Compares a figure.
    pub fn same<T: PartialEq + std::fmt::Debug>(&self, what: &str, said: T, expected: T) {
        if said != expected {
            self.disagree(format!("{what}: {said:?}, but JSON has {expected:?}"));
        }
    }

    /// Compares bytes as text has them.
    pub fn same_bytes(&self, what: &str, said: &str, expected: u64) {
        if !is_bytes(said, expected) {
            self.disagree(format!("{what}: {said:?}, but JSON has {expected}"));
        }
    }

    pub fn processes(&self) -> &[Value] {
        self.json["processes"].as_array().expect("checked")
    }

    pub fn is_counted(&self) -> bool {
        self.json["recording"]["counts_only"] == true
    }

    /// The sum of one of the totals.
    pub fn sum(&self, name: &str) -> u64 {
        let totals = self
            .processes()
            .iter()
            .map(|it| number(&it["totals"], name));
        totals.sum()
    }

    /// The standard output of a command about the recording.
    #[track_caller]
    pub fn said(&self, words: &[&str]) -> String {
        String::from_utf8(self.written(words)).expect("text")
    }

    #[track_caller]
    pub fn written(&self, words: &[&str]) -> Vec<u8> {
        let (command, options) = words.split_first().expect("a command");
        let all = [command, utf8(&self.trace)].into_iter();
        allotrope(all.chain(options.iter().copied())).ok().stdout
    }

    #[track_caller]
    pub fn report(&self, words: &[&str]) -> Value {
        let all = ["report", "--format", "json"].iter().chain(words);
        let text = self.said(&all.copied().collect::<Vec<_>>());
        serde_json::from_str(&text).expect("JSON")
    }

    pub fn page_data(&self) -> &Page {
        self.page.get_or_init(|| {
            let out = self.folder.path().join("page.html");
            self.said(&["report", "--html", utf8(&out)]);
            Page::read(&out)
        })
    }

    /// Sites, threads, entry points and sizes add up to the totals; the curve has the peak.
    pub fn totals(&self) {
        for process in self.processes() {
            let of = |what: &str| format!("{what} of process {}", process["id"]);
            let totals = &process["totals"];
            let sum = |list: &str, name: &str| -> u64 {
                let list = process[list].as_array().into_iter().flatten();
                list.map(|it| number(it, name)).sum()
            };
            for name in ["allocations", "allocated_bytes"] {
                let expected = number(totals, name);
                self.same(&of("threads"), sum("threads", name), expected);
                self.same(&of("entries"), sum("entries", name), expected);
                if !self.is_counted() {
                    self.same(&of("sites"), sum("sites", name), expected);
                    self.same(&of("sizes"), sum("sizes", name), expected);
                }
            }
            let freed = number(totals, "deallocations");
            self.same(&of("entries"), sum("entries", "deallocations"), freed);
            if self.is_counted() {
                continue;
            }
            for name in ["leaked_allocations", "leaked_bytes"] {
                self.same(&of("sites"), sum("sites", name), number(totals, name));
                self.same(&of("sizes"), sum("sizes", name), number(totals, name));
            }
            for (of_sites, name) in [
                ("bytes_at_peak", "peak_bytes"),
                ("allocations_at_peak", "peak_allocations"),
                ("temporary_allocations", "temporary_allocations"),
                ("reallocations", "reallocations"),
            ] {
                self.same(&of(of_sites), sum("sites", of_sites), number(totals, name));
            }
            let most = process["live"]["max_bytes"]
                .as_array()
                .into_iter()
                .flatten();
            let most = most.filter_map(Value::as_u64).max().unwrap_or(0);
            self.same(&of("live"), most, number(totals, "peak_bytes"));
            let left = process["live"]["bytes"].as_array().and_then(|it| it.last());
            let left = left.and_then(Value::as_u64).unwrap_or(0);
            self.same(&of("live, last"), left, number(totals, "leaked_bytes"));
        }
    }

    /// What `record` printed.
    pub fn summary(&self, printed: &str) {
        let value = |word: &str| {
            let start = format!("allotrope: {word} ");
            let line = printed.lines().find_map(|line| line.strip_prefix(&start));
            line.map(str::trim).unwrap_or_default().to_owned()
        };
        let expected =
            |names: &[&str]| -> Vec<u64> { names.iter().map(|it| self.sum(it)).collect() };
        let allocations = value("allocations");
        let (number, bytes) = allocations.split_once(", ").unwrap_or_default();
        let [calls, sum] = expected(&["allocations", "allocated_bytes"])[..] else {
            return;
        };
        self.same("record: allocations", count(number), Some(calls));
        self.same_bytes("record: allocated", bytes, sum);
        let lost = self
            .processes()
            .iter()
            .map(|it| self::number(it, "lost_events"));
        self.same(
            "record: lost",
            count(&value("events lost")),
            Some(lost.sum()),
        );
        let processes = self.processes().len() as u64;
        self.same(
            "record: processes",
            count(&value("processes")),
            Some(processes),
        );
        if self.is_counted() {
            return;
        }
        let leaked = value("leaked");
        let (number, bytes) = leaked.rsplit_once(", ").unwrap_or_default();
        self.same(
            "record: leaked",
            count(number),
            Some(self.sum("leaked_allocations")),
        );
        self.same_bytes("record: leaked", bytes, self.sum("leaked_bytes"));
        let temporary = self.sum("temporary_allocations");
        self.same(
            "record: temporary",
            count(&value("temporary")),
            Some(temporary),
        );
    }

    /// The first screen, the lists, and the tables.
    pub fn text(&self) {
        let screen = self.said(&["report"]);
        let title = screen.lines().next().unwrap_or_default();
        let calls = title.split(" · ").find_map(|part| {
            let (number, rest) = part.split_once(' ')?;
            rest.starts_with("allocation").then(|| count(number))?
        });
        if !self.is_counted() {
            self.same("report: allocations", calls, Some(self.sum("allocations")));
        }
        let processes: Vec<&Value> = self.processes().iter().take(MAX_PROCESSES).collect();
        for process in processes {
            self.totals_in_text(process);
        }
        if self.processes().len() > 1 {
            self.table_of_processes();
        }
        let tables = [
            ("thread", "Threads"),
            ("entry", "Entry points"),
            ("size", "Sizes of blocks"),
        ];
        for (by, title) in tables {
            if by == "size" && self.is_counted() {
                continue;
            }
            self.table_by(by, title);
        }
    }

    fn totals_in_text(&self, process: &Value) {
        let id = process["id"].to_string();
        let words = ["report", "--lists", "--process", &id];
        self.compare_totals(&self.said(&words), process);
    }

    /// Compares the table of totals in a text with those of a process in JSON.
    pub fn compare_totals(&self, text: &str, process: &Value) {
        let id = process["id"].to_string();
        let totals = &process["totals"];
        for line in block(text, "Totals") {
            let cells = cells(line);
            let word = cells[0];
            let what = format!("report --lists, process {id}: {word}");
            let (number_name, bytes_name) = match word {
                "allocations" => ("allocations", Some("allocated_bytes")),
                "deallocations" => ("deallocations", None),
                "reallocations" => ("reallocations", None),
                "temporary" => ("temporary_allocations", None),
                "leaked" | "remaining" => ("leaked_allocations", Some("leaked_bytes")),
                "peak" => ("peak_allocations", Some("peak_bytes")),
                "inherited" => ("inherited_allocations", Some("inherited_bytes")),
                _ => {
                    self.disagree(format!("{what}: not known"));
                    continue;
                }
            };
            if totals[number_name].is_null() {
                self.same(&what, cells[1], "not measured");
                continue;
            }
            self.same(&what, count(cells[1]), Some(number(totals, number_name)));
            let Some(bytes_name) = bytes_name else {
                continue;
            };
            let bytes = number(totals, bytes_name);
            if !cells.iter().any(|cell| is_bytes(cell, bytes)) {
                self.disagree(format!("{what}: {line}, but JSON has {bytes}"));
            }
            let exact = cells.iter().find(|cell| cell.contains(" bytes"));
            if let Some(exact) = exact {
                self.same(&what, count(exact), Some(bytes));
            }
        }
    }

    fn table_of_processes(&self) {
        let text = self.said(&["report", "--by", "process", "--top", "100000"]);
        let mut rows = 0;
        for line in text.lines() {
            let cells = cells(line);
            let Some(Ok(id)) = cells.first().map(|it| it.parse::<u64>()) else {
                continue;
            };
            rows += 1;
            let process = self.processes().iter().find(|it| it["id"] == id);
            let Some(process) = process else {
                self.disagree(format!("report --by process has a process {id}"));
                continue;
            };
            let totals = &process["totals"];
            let what = format!("report --by process: {id}");
            self.same(&what, count(cells[2]), Some(number(totals, "allocations")));
            self.same_bytes(&what, cells[3], number(totals, "allocated_bytes"));
            if !self.is_counted() {
                self.same_bytes(&what, cells[4], number(totals, "peak_bytes"));
            }
        }
        self.same("report --by process: rows", rows, self.processes().len());
    }

    /// The sums of a table by thread, entry point or size, process by process.
    fn table_by(&self, by: &str, title: &str) {
        for process in self.processes().iter().take(MAX_PROCESSES) {
            let id = process["id"].to_string();
            let words = ["report", "--by", by, "--top", "100000", "--process", &id];
            let text = self.said(&words);
            let mut lines = text.lines().map(cells);
            let is_title = |line: &Vec<&str>| line.first() == Some(&"allocations");
            let has_table = lines.by_ref().any(|line| is_title(&line));
            // After the name.
            let rows = lines.filter_map(|line| count(line.get(1)?));
            let calls: u64 = rows.sum();
            if !has_table && number(&process["totals"], "allocations") == 0 {
                continue;
            }
            let what = format!("{words:?}: {title}");
            let total = number(&process["totals"], "allocations");
            self.same(&what, calls, total);
        }
    }

    /// Every format that has sums has the same.
    pub fn exports(&self) {
        if self.is_counted() || self.sum("allocations") == 0 {
            return;
        }
        const KNOWN: [(&str, &str); 6] = [
            ("allocations", "allocations"),
            ("allocated_bytes", "allocated_bytes"),
            ("leaked_allocations", "leaked_allocations"),
            ("leaked_bytes", "leaked_bytes"),
            ("temporary_allocations", "temporary_allocations"),
            ("reallocations", "reallocations"),
        ];
        for format in ["json", "dhat", "pprof", "perfetto", "heaptrack"] {
            let file = self.folder.path().join(match format {
                "heaptrack" => "out.zst".to_owned(),
                other => format!("out.{other}"),
            });
            self.said(&["export", "--format", format, "-o", utf8(&file)]);
            if format == "perfetto" {
                // It is decoded by tests of its own.
                continue;
            }
            let output = allotrope(["export", utf8(&file), "--format", "json"]);
            let Ok(sums) = serde_json::from_slice::<Value>(&output.stdout) else {
                let errors = output.errors();
                self.disagree(format!("{format} cannot be read: {errors}"));
                continue;
            };
            let largest = self.processes().iter().rev();
            let largest = largest.max_by_key(|it| number(&it["totals"], "allocations"));
            for (metric, total) in KNOWN {
                let Some(said) = sum_of(&sums, metric) else {
                    continue;
                };
                let is_one = format == "heaptrack";
                if is_one && metric == "temporary_allocations" {
                    // The format does not have threads.
                    continue;
                }
                let expected = match largest {
                    Some(one) if is_one => number(&one["totals"], total),
                    _ => self.sum(total),
                };
                self.same(
                    &format!("export --format {format}: {metric}"),
                    said,
                    expected,
                );
            }
            let one = largest.filter(|_| format == "heaptrack" || self.processes().len() == 1);
            if let Some(one) = one
                && let Some(peak) = sum_of(&sums, "bytes_at_peak")
            {
                let expected = number(&one["totals"], "peak_bytes");
                self.same(&format!("export --format {format}: peak"), peak, expected);
            }
        }
        let folded = self.said(&["export", "--format", "folded", "--metric", "bytes"]);
        let sum = folded.lines().filter_map(|line| line.rsplit_once(' '));
        let sum: u64 = sum
            .filter_map(|(_, number)| number.parse::<u64>().ok())
            .sum();
        self.same("export --format folded", sum, self.sum("allocated_bytes"));
    }

    /// The totals, sites and resident sets of the page.
    pub fn page(&self) {
        let page = self.page_data();
        let ids = page.numbers("process.id");
        self.same("page: processes", ids.len(), self.processes().len());
        let by_id: BTreeMap<u64, &Value> = self
            .processes()
            .iter()
            .map(|it| (number(it, "id"), it))
            .collect();
        for (column, name) in [
            ("allocations", "allocations"),
            ("bytes", "allocated_bytes"),
            ("deallocations", "deallocations"),
            ("reallocations", "reallocations"),
            ("temporary", "temporary_allocations"),
            ("leaked", "leaked_allocations"),
            ("leaked_bytes", "leaked_bytes"),
            ("peak", "peak_allocations"),
            ("peak_bytes", "peak_bytes"),
            ("peak_us", "peak_time_us"),
            ("inherited", "inherited_allocations"),
        ] {
            let values = page.numbers(&format!("process.{column}"));
            for (id, value) in ids.iter().zip(values) {
                let totals = &by_id[id]["totals"];
                self.same(
                    &format!("page, process {id}: {column}"),
                    value,
                    number(totals, name),
                );
            }
        }
        let carried = page.meta["carried"].as_u64().unwrap_or(0) as usize;
        let of_sites = page.sums("site.process");
        for (column, name) in [
            ("allocations", "allocations"),
            ("bytes", "allocated_bytes"),
            ("leaked_bytes", "leaked_bytes"),
            ("at_peak_bytes", "peak_bytes"),
            ("temporary", "temporary_allocations"),
        ] {
            let mut sums = vec![0; carried];
            for (process, value) in of_sites.iter().zip(page.numbers(&format!("site.{column}"))) {
                sums[*process as usize] += value;
            }
            if self.is_counted() {
                continue;
            }
            for (id, sum) in ids.iter().zip(sums) {
                let totals = &by_id[id]["totals"];
                self.same(
                    &format!("page, sites of {id}: {column}"),
                    sum,
                    number(totals, name),
                );
            }
        }
        let times = page.sums("resident.time_us");
        let bytes = page.sums("resident.bytes");
        let samples: Vec<(u64, u64)> = times.into_iter().zip(bytes).collect();
        let rows = page.by_row("resident.count", &samples);
        for (id, row) in ids.iter().zip(rows) {
            let known: BTreeMap<u64, u64> = by_id[id]["resident"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|it| {
                    let bytes = number(it, "bytes") - number(it, "recorder_bytes");
                    (number(it, "time_us"), bytes)
                })
                .collect();
            for (time, bytes) in row {
                let what = format!("page, resident set of {id} at {time} µs");
                self.same(&what, Some(bytes), known.get(&time).copied());
            }
        }
        let is_partly = page.meta["partly"] == true;
        let warnings = self.json["warnings"].to_string();
        let in_part = warnings.contains("only in part") || warnings.contains("was not recorded");
        if in_part && !is_partly {
            self.disagree("page: everything was recorded, but warnings say otherwise".to_owned());
        }
    }

    /// A recording does not differ from itself, and has the same totals on both sides.
    pub fn differences(&self) {
        if self.is_counted() {
            return;
        }
        for (metric, name) in [
            ("allocations", "allocations"),
            ("bytes", "allocated_bytes"),
            ("peak", "peak_bytes"),
            ("temporary", "temporary_allocations"),
        ] {
            if metric == "peak" && self.processes().len() > 1 {
                continue;
            }
            let words = [
                "diff",
                utf8(&self.trace),
                "--format",
                "json",
                "--metric",
                metric,
            ];
            let json: Value = serde_json::from_str(&self.said(&words)).expect("JSON");
            for side in ["before", "after"] {
                self.same(
                    &format!("diff: {metric} {side}"),
                    number(&json, side),
                    self.sum(name),
                );
            }
        }
    }

    /// The single allocations of the sites with most, in the three formats.
    pub fn single_allocations(&self) {
        if self.is_counted() {
            return;
        }
        let starts = self.processes().iter().map(|it| number(it, "started_us"));
        let start = starts.min().unwrap_or(0) as f64;
        let ends = self.processes().iter();
        let ends = ends.map(|it| number(it, "started_us") + number(it, "duration_us"));
        let ran = ends.max().unwrap_or(0) as f64 - start;
        for process in self.processes().iter().take(2) {
            let sites = process["sites"].as_array().expect("checked");
            for site in sites.iter().take(2) {
                let number_of = site["number"].to_string();
                let words = [
                    "report", "--site", &number_of, "--events", "--format", "csv",
                ];
                let csv = self.said(&words);
                let rows: Vec<Vec<&str>> = csv
                    .lines()
                    .skip(1)
                    .map(|it| it.split(',').collect())
                    .collect();
                // Sites that read alike are shown as one row: of these only this one.
                let own: Vec<&Vec<&str>> = rows.iter().filter(|row| row[1] == number_of).collect();
                let what = format!("report --site {number_of} --events");
                self.same(&what, own.len() as u64, number(site, "allocations"));
                let bytes = own.iter().filter_map(|row| row[4].parse::<u64>().ok());
                self.same(&what, bytes.sum(), number(site, "allocated_bytes"));
                let alive = own.iter().filter(|row| row[3].is_empty()).count();
                self.same(&what, alive as u64, number(site, "leaked_allocations"));
                let text =
                    self.said(&["report", "--site", &number_of, "--events", "--limit", "50"]);
                let lines = text.lines().filter_map(|line| {
                    let (time, _) = line.trim_start().split_once(" s  ")?;
                    time.parse::<f64>().ok()
                });
                let times: Vec<f64> = lines.collect();
                self.same(&format!("{what}: lines"), times.len(), rows.len().min(50));
                for (time, row) in times.iter().zip(&rows) {
                    let us = row[2].parse::<f64>().unwrap_or(0.0) - start;
                    if (time * 1e6 - us).abs() > 1.0 || *time * 1e6 > ran + 1.0 {
                        self.disagree(format!(
                            "{what}: {time} s, but {us} µs after the start of {ran}"
                        ));
                        break;
                    }
                }
            }
        }
    }
}

/// The sum of a metric over the stacks of an export; `None` if the format does not have it.
pub fn sum_of(json: &Value, metric: &str) -> Option<u64> {
    let names = json["metrics"].as_array()?;
    let at = names.iter().position(|it| it == metric)?;
    let stacks = json["stacks"].as_array()?.iter();
    stacks.map(|it| it["figures"][at].as_u64()).sum()
}

/// A path as a word of a command.
pub fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
