//! Other views of the same figures: lists by function and module, single sites, windows, and
//! formats that are read here: CSV, speedscope and Markdown.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::figures_agree::compare::{Compared, number};
use crate::figures_agree::text::{cells, count};

impl Compared {
    /// The lists of `--by`, whose rows add up to all allocations.
    pub fn lists(&self) {
        if self.is_counted() {
            return;
        }
        for by in ["function", "module"] {
            let words = ["--by", by, "--metric", "allocations", "--top", "100000"];
            let text = self.said(&[&["report"], &words[..]].concat());
            // A name, perhaps a curve, the figure, its share, perhaps a place.
            let figure = |line: &str| {
                let cells = cells(line);
                let share = cells.iter().rposition(|cell| cell.ends_with('%'))?;
                count(cells.get(share.checked_sub(1)?)?)
            };
            let sum: u64 = text.lines().filter_map(figure).sum();
            self.same(&format!("{words:?}"), sum, self.sum("allocations"));
        }
        let markdown = self.said(&["report", "--format", "markdown"]);
        if self.processes().len() == 1 && self.sum("allocations") > 1 {
            let facts = markdown
                .lines()
                .find(|line| line.contains(" allocations · "));
            let calls = facts.into_iter().flat_map(|line| line.split(" · "));
            let mut calls = calls.filter(|fact| fact.ends_with(" allocations"));
            let said = calls.next().and_then(count);
            self.same("Markdown: allocations", said, Some(self.sum("allocations")));
        }
    }

    /// The sites with most allocations, as `show` and `report --site` have them: together with those
    /// that read alike, if there are any.
    pub fn sites_in_text(&self) {
        let sites = self.processes().iter().take(2).filter_map(|process| {
            let sites = process["sites"].as_array()?;
            sites.first()
        });
        for site in sites {
            let id = site["number"].to_string();
            let shown = self.said(&["show", &format!("site:{id}")]);
            let reported = self.said(&["report", "--site", &id]);
            let is_alone = !reported.contains("that read alike");
            let figures = |text: &str, word: &str| {
                let line = text
                    .lines()
                    .map(cells)
                    .find(|line| line[..].first() == Some(&word))?;
                // `1,286 blocks, 390.2 KiB (1.7 % of …)`, `1,286 (40.7 %), 390.2 KiB (1.7 %)`
                let (blocks, bytes) = line.get(1)?.split_once(", ")?;
                let bytes = bytes.split(" (").next()?;
                Some((count(blocks)?, bytes.to_owned()))
            };
            for (word, of_report, blocks, bytes) in [
                ("allocated", "allocations", "allocations", "allocated_bytes"),
                (
                    "at the peak",
                    "at peak",
                    "allocations_at_peak",
                    "bytes_at_peak",
                ),
                ("at the end", "leaked", "leaked_allocations", "leaked_bytes"),
            ] {
                let said = figures(&shown, word);
                let what = format!("show site:{id}: {word}");
                self.same(&what, said.as_ref(), figures(&reported, of_report).as_ref());
                if is_alone && let Some((number_of, size)) = said {
                    self.same(&what, number_of, number(site, blocks));
                    self.same_bytes(&what, &size, number(site, bytes));
                }
            }
        }
    }

    /// A window that opened once has the same figures in the list of windows and on its own.
    pub fn windows(&self) {
        for process in self.processes() {
            let windows = process["windows"].as_array().into_iter().flatten();
            for window in windows.filter(|it| it["closed"] == true && it["thread"].is_null()) {
                let name = window["name"].as_str().expect("a name");
                let json = self.report(&["--window", name]);
                let totals = &json["processes"][0]["totals"];
                for (of_window, of_totals) in [
                    ("allocations", "allocations"),
                    ("allocated_bytes", "allocated_bytes"),
                    ("deallocations", "deallocations"),
                    ("temporary_allocations", "temporary_allocations"),
                    ("remaining_allocations", "leaked_allocations"),
                    ("remaining_bytes", "leaked_bytes"),
                    ("peak_bytes", "peak_bytes"),
                ] {
                    let what = format!("--window {name}: {of_totals}");
                    self.same(&what, number(totals, of_totals), number(window, of_window));
                }
            }
        }
    }

    /// CSV and speedscope.
    pub fn formats(&self) {
        if self.is_counted() || self.sum("allocations") == 0 {
            return;
        }
        let csv = self.said(&["export", "--format", "csv"]);
        let mut lines = csv.lines();
        let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        // Numbers come first; names, which may have commas, follow.
        for line in lines {
            for (name, value) in names.iter().zip(line.split(',')).take(12) {
                *sums.entry(name).or_default() += value.parse::<u64>().unwrap_or(0);
            }
        }
        let json = self.said(&["export", "--format", "speedscope"]);
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let profiles = json["profiles"].as_array().expect("a list").iter();
        let profiles: BTreeMap<&str, u64> = profiles
            .filter_map(|it| Some((it["name"].as_str()?, it["endValue"].as_u64()?)))
            .collect();
        for (total, column, profile) in [
            ("allocations", "allocations", "allocations"),
            ("allocated_bytes", "allocated_bytes", "allocated bytes"),
            (
                "temporary_allocations",
                "temporary_allocations",
                "temporary allocations",
            ),
            (
                "leaked_allocations",
                "leaked_allocations",
                "leaked allocations",
            ),
            ("leaked_bytes", "leaked_bytes", "leaked bytes"),
            ("peak_bytes", "bytes_at_peak", "bytes at the peak"),
            (
                "peak_allocations",
                "allocations_at_peak",
                "allocations at the peak",
            ),
        ] {
            let expected = self.sum(total);
            self.same(
                &format!("CSV: {column}"),
                sums.get(column).copied(),
                Some(expected),
            );
            // What is 0 is left out.
            let said = profiles.get(profile).copied().unwrap_or(0);
            self.same(&format!("speedscope: {profile}"), said, expected);
        }
    }
}
