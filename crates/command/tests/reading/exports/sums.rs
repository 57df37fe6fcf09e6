//! Formats of sums: CSV and speedscope.

use std::collections::HashMap;

use serde_json::Value;

use crate::exports::{METRICS, browser, exported, folder};
use crate::support::{compiled, record};

/// The rows of a CSV file, by the name of each column.
fn rows(csv: &[u8]) -> Vec<HashMap<String, String>> {
    let text = String::from_utf8(csv.to_vec()).expect("text");
    assert!(text.ends_with("\r\n"));
    let mut lines = text.split_terminator("\r\n").map(fields);
    let names = lines.next().expect("the names of the columns");
    lines
        .map(|fields| {
            assert_eq!(fields.len(), names.len(), "{fields:?}");
            names.iter().cloned().zip(fields).collect()
        })
        .collect()
}

/// The fields of a line, as RFC 4180 has it.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let field = fields.last_mut().expect("there is one");
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => field.push(other),
        }
    }
    fields
}

#[test]
fn csv_has_a_row_for_each_stack() {
    let rows = rows(&exported(&METRICS.trace, "csv", &[]));
    let sum = |function: &str, column: &str| -> u64 {
        let own = rows.iter().filter(|row| row["stack"].contains(function));
        own.map(|row| row[column].parse::<u64>().expect("a number"))
            .sum()
    };
    for (function, column, expected) in [
        ("first", "allocations", 10),
        ("first", "allocated_bytes", 10_000),
        ("first", "leaked_allocations", 10),
        ("first", "leaked_bytes", 10_000),
        ("first", "bytes_at_peak", 10_000),
        ("first", "max_bytes", 10_000),
        ("first", "max_allocations", 10),
        ("second", "temporary_allocations", 1),
        ("second", "leaked_bytes", 0),
        ("second", "allocations_at_peak", 1),
        ("third", "bytes_at_peak", 0),
        ("third", "leaked_bytes", 5000),
        ("", "allocations", 12),
        ("", "allocated_bytes", 35_000),
        ("", "reallocations", 0),
    ] {
        assert_eq!(sum(function, column), expected, "{function} {column}");
    }
    let first = rows.iter().find(|row| row["stack"].contains("first"));
    let first = first.expect("checked");
    // Outermost first; the allocation function is the innermost frame.
    let stack: Vec<&str> = first["stack"].split(';').collect();
    let at = |name: &str| stack.iter().position(|it| *it == name);
    assert!(at("main") < at("peak_in_between") && at("peak_in_between") < at("first"));
    assert_eq!(stack.last(), Some(&&*first["function"]));
    assert_eq!(first["process"], "0");
    assert!(first["pid"].parse::<u32>().is_ok());
    let filtered = exported(&METRICS.trace, "csv", &["--filter", "third"]);
    assert_eq!(self::rows(&filtered).len(), 1);
}

/// Each process has rows of its own: `processes leaf N STATUS` leaks N blocks of N bytes.
#[test]
fn csv_has_the_processes() {
    let shell = "\"$0\" leaf 3 0; \"$0\" leaf 5 0; exit 0";
    let program = compiled("processes.c");
    let recording = record("sh").args(["-c", shell]).arg(program).run();
    let recording = recording.ok();
    let rows = rows(&exported(&recording.trace, "csv", &[]));
    let mut leaves: Vec<(&str, &str)> = rows
        .iter()
        .filter(|row| row["stack"].contains("leaf_work"))
        .map(|row| (&*row["process"], &*row["leaked_bytes"]))
        .collect();
    leaves.sort_unstable();
    let bytes: Vec<&str> = leaves.iter().map(|leaf| leaf.1).collect();
    assert_eq!(bytes, ["9", "25"]);
    assert_ne!(leaves[0].0, leaves[1].0);
    let only = exported(&recording.trace, "csv", &["--process", leaves[1].0]);
    let only = self::rows(&only);
    assert!(only.iter().all(|row| row["process"] == leaves[1].0));
    let leaf = only.iter().find(|row| row["stack"].contains("leaf_work"));
    assert_eq!(leaf.expect("it is there")["allocations"], "5");
}

/// Checks what speedscope's schema requires, and the sum of each profile.
pub fn check_speedscope(file: &[u8], expected: &[(&str, u64)]) {
    let json: Value = serde_json::from_slice(file).expect("it is JSON");
    assert_eq!(
        json["$schema"],
        "https://www.speedscope.app/file-format-schema.json"
    );
    let frames = json["shared"]["frames"].as_array().expect("a list");
    assert!(frames.iter().all(|frame| frame["name"].is_string()));
    let profiles = json["profiles"].as_array().expect("a list");
    let active = json["activeProfileIndex"].as_u64().expect("a number");
    assert!((active as usize) < profiles.len());
    let mut sums = Vec::new();
    for profile in profiles {
        assert_eq!(profile["type"], "sampled");
        let unit = profile["unit"].as_str().expect("a text");
        assert!(["bytes", "none"].contains(&unit));
        let samples = profile["samples"].as_array().expect("a list");
        let weights = profile["weights"].as_array().expect("a list");
        assert_eq!(samples.len(), weights.len());
        let mut indexes = samples.iter().flat_map(|it| it.as_array().expect("a list"));
        assert!(indexes.all(|it| it.as_u64().is_some_and(|it| it < frames.len() as u64)));
        let sum: u64 = weights
            .iter()
            .map(|it| it.as_u64().expect("a number"))
            .sum();
        assert_eq!(profile["startValue"], 0);
        assert_eq!(profile["endValue"], sum);
        sums.push((profile["name"].as_str().expect("a text"), sum));
    }
    assert_eq!(sums, expected);
}

#[test]
fn speedscope_has_a_profile_for_each_metric() {
    let file = exported(&METRICS.trace, "speedscope", &[]);
    check_speedscope(
        &file,
        &[
            ("allocations", 12),
            ("allocated bytes", 35_000),
            ("temporary allocations", 1),
            ("leaked bytes", 15_000),
            ("leaked allocations", 11),
            ("bytes at the peak", 30_000),
            ("allocations at the peak", 11),
        ],
    );
}

#[test]
fn speedscopes_app_opens_our_files() {
    let folder = folder();
    for (metric, name, first) in [
        ("allocations", "allocations", "10 (83%)"),
        // Of 35,000 bytes; speedscope writes 1024 bytes as 1 KB.
        ("bytes", "allocated bytes", "9.77 KB (29%)"),
        ("leaked", "leaked bytes", "9.77 KB (67%)"),
    ] {
        let file = exported(&METRICS.trace, "speedscope", &["--metric", metric]);
        let Some(shown) = browser::speedscope(folder.path(), &file) else {
            return;
        };
        assert!(shown.contains(&format!("{name} (")), "{name}: {shown}");
        // Total and own weight, and the function.
        let table = shown.split("Symbol Name").nth(1).expect("the table");
        let before = table.split(" first").next().expect("the function");
        assert!(
            table.contains(" first") && before.contains(first),
            "{first}: {table}"
        );
    }
}
