//! Ranges of time and moments: what the page counts, `report --from --to`, and `report --at`.

use std::collections::BTreeMap;

use crate::support::allotrope;
use serde_json::Value;

use crate::figures_agree::compare::{Compared, number};
use crate::figures_agree::page::{Cells, Mode, Page, Sum};

/// A process of the page: its id, its sites, its row of totals, its buckets of time.
struct Process {
    row: usize,
    id: u64,
    sites: std::ops::Range<usize>,
    /// Rows of the process's threads, with the kernel's ids of these.
    threads: Vec<(usize, u64)>,
    starts: Vec<u64>,
    end: u64,
    /// When it had ended, in microseconds since the start of the recording; none: it runs.
    ended_us: Option<u64>,
}

impl Process {
    /// The buckets in a range of time; none if it did not run then.
    fn buckets(&self, [from, to]: [u64; 2]) -> Option<[u64; 2]> {
        let first = *self.starts.first()?;
        if first >= to || self.end < from {
            return None;
        }
        let begins = self.starts.partition_point(|&start| start <= from);
        let to = self.starts.partition_point(|&start| start < to) as u64;
        let from = match from >= self.end && from > first {
            true => self.starts.len(),
            false => begins.saturating_sub(1),
        };
        Some([from as u64, to.max(from as u64)])
    }

    /// Whether its blocks are gone at a time, as `report --at` has it.
    fn is_gone(&self, ns: u64) -> bool {
        self.ended_us.is_some_and(|ended| ended + 1 < ns / 1000)
    }
}

fn processes(page: &Page, compared: &Compared) -> Vec<Process> {
    let starts = page.by_row("bucket.count", &page.sums("bucket.start_ns"));
    let ids = page.numbers("process.id");
    let of_sites = page.sums("site.process");
    let ends = page.numbers("bucket.end_ns");
    let threads: Vec<(usize, u64)> = page.numbers("thread.tid").into_iter().enumerate().collect();
    let threads = page.by_row("thread.count", &threads);
    let all = starts.into_iter().zip(ends).zip(threads).enumerate().map(
        |(row, ((starts, end), threads))| {
            let json = compared.processes().iter().find(|it| it["id"] == ids[row]);
            let json = json.expect("it was compared");
            let has_ended = json["exit"]["running"] != true;
            Process {
                row,
                id: ids[row],
                sites: of_sites.partition_point(|&it| it < row as u64)
                    ..of_sites.partition_point(|&it| it <= row as u64),
                threads,
                starts,
                end,
                ended_us: has_ended
                    .then(|| number(json, "started_us") + number(json, "duration_us")),
            }
        },
    );
    all.collect()
}

fn seconds(ns: u64) -> String {
    format!("{}.{:09}s", ns / 1_000_000_000, ns % 1_000_000_000)
}

impl Compared {
    /// Ranges of the page between some of the times at which it is exact.
    pub fn ranges(&self) {
        if self.is_counted() {
            return;
        }
        let page = self.page_data();
        if page.meta["left_out"]["totals_only"] != 0 || page.meta["left_out"]["processes"] != 0 {
            return;
        }
        let processes = processes(page, self);
        let start = number(&page.meta, "started_ns");
        let end = processes.iter().map(|it| it.end).max().unwrap_or(start);
        let mut bounds = match &processes[..] {
            [one] => one.starts.clone(),
            _ => page.sums("boundary.ns"),
        };
        bounds.retain(|&ns| ns > start && ns < end);
        let Some(last) = bounds.len().checked_sub(1) else {
            return;
        };
        let at = |share: usize| bounds[last * share / 12];
        let cells = ["cell", "total_cell", "thread_cell"].map(|name| page.cells(name));
        for (from, to) in [(1, 2), (2, 11), (5, 6), (0, 7)] {
            let range = [at(from), at(to)];
            if range[0] < range[1] {
                self.range(&processes, &cells, start, range);
            }
        }
        self.range(&processes, &cells, start, [at(6), end]);
        self.halves(&seconds(at(6) - start));
        for share in [3, 8, 12] {
            self.moment(&processes, &cells, start, at(share));
        }
    }

    /// How many sites have wider buckets.
    pub fn widened_sites(&self) -> usize {
        let cells = self.page_data().cells("cell");
        cells.widths.iter().filter(|&&width| width > 1).count()
    }

    fn range(&self, processes: &[Process], cells: &[Cells; 3], start: u64, range: [u64; 2]) {
        let [from, to] = range.map(|ns| seconds(ns - start));
        let is_last = processes.iter().all(|process| process.end <= range[1]);
        let words = ["--from", &from, "--to", &to];
        let json = self.report(match is_last {
            true => &words[..2],
            false => &words,
        });
        if let [one] = json["processes"].as_array().expect("checked").as_slice()
            && !is_last
        {
            let text = self.said(&["report", "--lists", "--from", &from, "--to", &to]);
            self.compare_totals(&text, one);
        }
        let known: BTreeMap<u64, &Value> = by_id(&json);
        let numbers = self.page_data().sums("site.number");
        for process in processes {
            let what = format!("page, {from} to {to}, process {}", process.id);
            let truth = |value: Option<&Value>, kept: bool| {
                let names = match kept {
                    true => ["leaked_allocations", "leaked_bytes"],
                    false => ["allocations", "allocated_bytes"],
                };
                let of = |name| value.map_or(0, |value| number(value, name));
                Sum {
                    blocks: of(names[0]),
                    bytes: of(names[1]),
                }
            };
            let Some(buckets) = process.buckets(range) else {
                let totals = known.get(&process.id).map(|it| &it["totals"]);
                self.same(&what, Sum::default(), truth(totals, false));
                continue;
            };
            let json = known.get(&process.id).copied();
            self.threads_in(&what, process, &cells[2], buckets, json);
            for (mode, kept) in [(Mode::Allocated, false), (Mode::Kept, true)] {
                let said = total(process, cells, buckets, mode);
                let expected = truth(json.map(|it| &it["totals"]), kept);
                self.within(&what, said, expected);
                let whole = process.sites.clone().all(|site| cells[0].widths[site] == 1);
                if !whole && !cells[1].rows[process.row].is_empty() {
                    self.same(&what, said[0], said[1]);
                }
                // The numbers of sites are those of the whole report.
                let sites: BTreeMap<u64, &Value> = sites_of(json);
                let whole_report = self.processes().iter().find(|it| it["id"] == process.id);
                let stacks: BTreeMap<u64, u64> = sites_of(whole_report)
                    .into_iter()
                    .map(|(stack, site)| (number(site, "number"), stack))
                    .collect();
                for site in process.sites.clone() {
                    let Some(stack) = stacks.get(&numbers[site]) else {
                        continue;
                    };
                    let expected = truth(sites.get(stack).copied(), kept);
                    let said = cells[0].bounds(site, buckets, mode);
                    self.within(&format!("{what}, site {}", numbers[site]), said, expected);
                }
            }
        }
    }

    /// What each thread allocated.
    fn threads_in(
        &self,
        what: &str,
        process: &Process,
        cells: &Cells,
        buckets: [u64; 2],
        json: Option<&Value>,
    ) {
        let mut expected: BTreeMap<u64, Sum> = BTreeMap::new();
        for thread in json
            .and_then(|it| it["threads"].as_array())
            .into_iter()
            .flatten()
        {
            let sum = expected.entry(number(thread, "tid")).or_default();
            sum.blocks += number(thread, "allocations");
            sum.bytes += number(thread, "allocated_bytes");
        }
        // One id may be that of several threads, one after the other.
        let mut said: BTreeMap<u64, [Sum; 2]> = BTreeMap::new();
        for (row, tid) in &process.threads {
            let bounds = cells.bounds(*row, buckets, Mode::Allocated);
            for (sum, bound) in said.entry(*tid).or_default().iter_mut().zip(bounds) {
                sum.blocks += bound.blocks;
                sum.bytes += bound.bytes;
            }
        }
        for (tid, bounds) in said {
            let expected = expected.get(&tid).copied().unwrap_or_default();
            self.within(&format!("{what}, thread {tid}"), bounds, expected);
        }
    }

    /// What was allocated before a time and what was allocated after it is all; what was live then
    /// is one side of a comparison of moments.
    fn halves(&self, at: &str) {
        let [before, after] = [["--to", at], ["--from", at]].map(|words| self.report(&words));
        let sum = |json: &Value, name: &str| -> u64 {
            let processes = json["processes"].as_array().expect("checked").iter();
            processes.map(|it| number(&it["totals"], name)).sum()
        };
        for name in ["allocations", "allocated_bytes"] {
            let said = sum(&before, name) + sum(&after, name);
            self.same(
                &format!("before and after {at}: {name}"),
                said,
                self.sum(name),
            );
        }
        let moments = [at, "now"].map(|it| format!("{}@{it}", self.trace.display()));
        let live = [at, "now"].map(|it| self.report(&["--at", it]));
        for (metric, name) in [
            ("allocations", "leaked_allocations"),
            ("bytes", "leaked_bytes"),
        ] {
            let words = [
                "diff",
                &moments[0],
                &moments[1],
                "--format",
                "json",
                "--metric",
                metric,
            ];
            let output = allotrope(words);
            let Ok(json) = serde_json::from_slice::<Value>(&output.stdout) else {
                self.disagree(format!("{words:?}: {}", output.errors()));
                continue;
            };
            for (side, live) in ["before", "after"].iter().zip(&live) {
                let what = format!("diff of {at} and the end: {metric} {side}");
                self.same(&what, number(&json, side), sum(live, name));
            }
        }
    }

    fn moment(&self, processes: &[Process], cells: &[Cells; 3], start: u64, ns: u64) {
        let at = seconds(ns - start);
        let json = self.report(&["--at", &at]);
        let known = by_id(&json);
        for process in processes {
            let what = format!("page, alive at {at}, process {}", process.id);
            let totals = known.get(&process.id).map(|it| &it["totals"]);
            let of = |name| totals.map_or(0, |totals| number(totals, name));
            let expected = Sum {
                blocks: of("leaked_allocations"),
                bytes: of("leaked_bytes"),
            };
            let said = match process.buckets([start, ns]) {
                Some(buckets) if !process.is_gone(ns) => {
                    total(process, cells, buckets, Mode::Alive)
                }
                _ => [Sum::default(); 2],
            };
            self.within(&what, said, expected);
        }
        let file = format!("{}@{at}", self.trace.display());
        let output = allotrope(["export", &file, "--format", "json"]);
        if let Ok(json) = serde_json::from_slice::<Value>(&output.stdout) {
            let names = json["metrics"].as_array().expect("a list");
            let at = names.iter().position(|it| it == "leaked_bytes");
            let stacks = json["stacks"].as_array().expect("a list").iter();
            let sum = at.map(|at| {
                stacks
                    .filter_map(|it| it["figures"][at].as_u64())
                    .sum::<u64>()
            });
            let totals = known
                .values()
                .map(|it| number(&it["totals"], "leaked_bytes"));
            self.same(&format!("export {file}"), sum, Some(totals.sum()));
        }
    }

    fn within(&self, what: &str, [least, most]: [Sum; 2], expected: Sum) {
        let is_within = least.blocks <= expected.blocks
            && expected.blocks <= most.blocks
            && least.bytes <= expected.bytes
            && expected.bytes <= most.bytes;
        if !is_within {
            self.disagree(format!(
                "{what}: {least:?} to {most:?}, but JSON has {expected:?}"
            ));
        }
    }
}

/// The bounds of all blocks of a process.
fn total(process: &Process, cells: &[Cells; 3], buckets: [u64; 2], mode: Mode) -> [Sum; 2] {
    let [sites, totals, _] = cells;
    if !totals.rows[process.row].is_empty() {
        return totals.bounds(process.row, buckets, mode);
    }
    let mut sums = [Sum::default(); 2];
    for site in process.sites.clone() {
        for (sum, bound) in sums.iter_mut().zip(sites.bounds(site, buckets, mode)) {
            sum.blocks += bound.blocks;
            sum.bytes += bound.bytes;
        }
    }
    sums
}

fn by_id(json: &Value) -> BTreeMap<u64, &Value> {
    let processes = json["processes"].as_array().expect("checked").iter();
    processes.map(|it| (number(it, "id"), it)).collect()
}

/// The sites of a process by their stack.
fn sites_of(process: Option<&Value>) -> BTreeMap<u64, &Value> {
    let sites = process.and_then(|it| it["sites"].as_array());
    let sites = sites.into_iter().flatten();
    sites.map(|it| (number(it, "stack_id"), it)).collect()
}
