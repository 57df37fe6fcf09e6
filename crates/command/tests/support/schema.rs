//! The documented form of `allotrope report --format json`: `docs/report.schema.json`,
//! and what a schema cannot say: indexes in range, sites that add up to the totals.
//!
//! The reader of the schema knows the keywords that the file uses and fails at others. It is
//! stricter than a validator in one point: a key that the schema does not declare fails,
//! although readers must ignore it, so that no field is left undocumented. (The crate
//! `jsonschema` would bring 36 more for this one test.)

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../docs/report.schema.json");
    serde_json::from_str(text).expect("docs/report.schema.json is JSON")
});

static SAMPLED_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../docs/sampled.schema.json");
    serde_json::from_str(text).expect("docs/sampled.schema.json is JSON")
});

/// Same as [`check`], for the report of a sampled profile.
#[track_caller]
#[allow(dead_code, reason = "one test uses it")]
pub fn check_sampled(report: &Value) {
    if let Err(fault) = valid(report, &SAMPLED_SCHEMA, "report") {
        panic!("{fault}");
    }
}

/// Fails unless a value has the form of this schema, a file of `docs`.
#[track_caller]
pub fn check_with(schema: &str, value: &Value) {
    let schema: Value = serde_json::from_str(schema).expect("the schema is JSON");
    if let Err(fault) = valid(value, &schema, "report") {
        panic!("{fault}");
    }
}

/// Keywords that only describe, or hold other schemas.
const DESCRIBE: [&str; 4] = ["$schema", "$defs", "title", "description"];

/// The totals of a process that was recorded with --counts-only; the others are null.
const COUNTED_TOTALS: [&str; 4] = [
    "allocations",
    "allocated_bytes",
    "deallocations",
    "reallocations",
];
/// Totals that are there only if a leak is suppressed, and the sites' numbers of which the
/// suppressed ones add up to them.
const SUPPRESSED_TOTALS: [(&str, &str); 2] = [
    ("leaked_allocations", "suppressed_allocations"),
    ("leaked_bytes", "suppressed_bytes"),
];
/// Numbers of a site, and the totals to which they add up.
const ADDS_UP: [(&str, &str); 8] = [
    ("allocations", "allocations"),
    ("allocated_bytes", "allocated_bytes"),
    ("temporary_allocations", "temporary_allocations"),
    ("reallocations", "reallocations"),
    ("leaked_allocations", "leaked_allocations"),
    ("leaked_bytes", "leaked_bytes"),
    ("bytes_at_peak", "peak_bytes"),
    ("allocations_at_peak", "peak_allocations"),
];

/// Fails, with the path of the value, unless the report has the documented form.
#[track_caller]
pub fn check(report: &Value) {
    if let Err(fault) = valid(report, &SCHEMA, "report") {
        panic!("{fault}");
    }
    let frames = list(&report["frames"]).len();
    let modules = list(&report["modules"]).len();
    for frame in list(&report["frames"]) {
        assert_ne!(frame["function"], "", "a frame without a name");
        if let Some(index) = frame["module_index"].as_u64() {
            assert!((index as usize) < modules, "{frame}");
        }
    }
    check_findings(report, frames);
    for (index, process) in list(&report["processes"]).iter().enumerate() {
        let path = format!("processes[{index}]");
        assert_eq!(process["id"], index, "{path}: ids count from 0");
        check_process(process, frames, &path);
    }
}

/// Whether a value has the form of a schema; otherwise where and why not.
pub fn valid(value: &Value, schema: &Value, path: &str) -> Result<(), String> {
    fits(value, schema, schema, path)
}

/// Same as [`valid`], for a part of the schema `whole`, in which its references are looked up.
fn fits(value: &Value, schema: &Value, whole: &Value, path: &str) -> Result<(), String> {
    let schema = match schema["$ref"].as_str() {
        None => schema,
        Some(name) => {
            let pointer = name.strip_prefix('#').ok_or("a reference elsewhere")?;
            whole.pointer(pointer).ok_or(format!("no {name}"))?
        }
    };
    let fault = |what: &str| Err(format!("{path}: {} {what}", start_of(value)));
    for (keyword, rule) in schema.as_object().ok_or(format!("{path}: no schema"))? {
        match keyword.as_str() {
            "type" => {
                let names = rule
                    .as_array()
                    .map_or(std::slice::from_ref(rule), Vec::as_slice);
                if !names.iter().any(|name| is_of_type(value, name)) {
                    return fault(&format!("is not of type {rule}"));
                }
            }
            "const" if value != rule => return fault(&format!("is not {rule}")),
            "enum" if !list(rule).contains(value) => return fault("is not in the list"),
            "const" | "enum" => {}
            "minimum" => {
                if value.as_f64() < rule.as_f64() && value.is_number() {
                    return fault(&format!("is less than {rule}"));
                }
            }
            "oneOf" => {
                let forms = list(rule).iter();
                let fitting = forms.filter(|form| fits(value, form, whole, path).is_ok());
                if fitting.count() != 1 {
                    return fault("has not one of the forms");
                }
            }
            "items" => {
                for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                    fits(item, rule, whole, &format!("{path}[{at}]"))?;
                }
            }
            "properties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    let Some(rule) = rule.get(name) else {
                        return fault(&format!("has {name}, which is not documented"));
                    };
                    fits(member, rule, whole, &format!("{path}.{name}"))?;
                }
            }
            "required" => {
                let empty = Map::new();
                let members = value.as_object().unwrap_or(&empty);
                let names = list(rule).iter().filter_map(Value::as_str);
                if let Some(name) = names.into_iter().find(|name| !members.contains_key(*name)) {
                    return fault(&format!("lacks {name}"));
                }
            }
            other if DESCRIBE.contains(&other) => {}
            other => return Err(format!("{path}: the keyword {other} is not read here")),
        }
    }
    Ok(())
}

fn is_of_type(value: &Value, name: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("null") => value.is_null(),
        _ => false,
    }
}

#[track_caller]
fn check_process(process: &Value, frames: usize, path: &str) {
    let totals = process["totals"].as_object().expect("checked");
    if process["sites"].is_null() {
        return check_counted(process, totals, path);
    }
    assert!(totals.values().all(Value::is_number), "{path}.totals");
    assert!(process["live"].is_object(), "{path}.live");
    let buckets = list(&process["live"]["bytes"]).len();
    for column in ["max_bytes", "allocations", "allocated"] {
        let column = list(&process["live"][column]);
        assert_eq!(column.len(), buckets, "{path}.live");
    }
    for name in [
        "allocations",
        "allocated_bytes",
        "peak_allocations",
        "peak_bytes",
        "leaked_allocations",
        "leaked_bytes",
    ] {
        let sizes = list(&process["sizes"]).iter();
        let sum: u64 = sizes.map(|size| number(&size[name])).sum();
        assert_eq!(
            sum,
            number(&totals[name]),
            "{path}: sum of {name} over sizes"
        );
    }
    let sites = list(&process["sites"]);
    let threads = list(&process["threads"]).len();
    for (index, site) in sites.iter().enumerate() {
        check_site(site, [frames, threads], &format!("{path}.sites[{index}]"));
    }
    for (part, whole) in ADDS_UP {
        let sum: u64 = sites.iter().map(|site| number(&site[part])).sum();
        assert_eq!(
            sum,
            number(&totals[whole]),
            "{path}: sum of {part} over sites"
        );
    }
    let suppressed = || sites.iter().filter(|site| site.get("suppressed").is_some());
    let has_suppressed = totals.contains_key("suppressed_allocations");
    assert_eq!(has_suppressed, suppressed().next().is_some(), "{path}");
    for (part, whole) in SUPPRESSED_TOTALS.iter().filter(|_| has_suppressed) {
        let sum: u64 = suppressed().map(|site| number(&site[*part])).sum();
        let total = number(&totals[*whole]);
        assert_eq!(sum, total, "{path}: sum of {part} over suppressed sites");
    }
}

/// A process recorded with --counts-only: threads and entry points add up to the
/// totals, and nothing else is known.
#[track_caller]
fn check_counted(process: &Value, totals: &Map<String, Value>, path: &str) {
    assert!(process["live"].is_null(), "{path}.live");
    for (name, total) in totals {
        let is_known = COUNTED_TOTALS.contains(&name.as_str());
        assert_eq!(total.is_null(), !is_known, "{path}.totals.{name}");
    }
    for parts in ["threads", "entries"] {
        for name in ["allocations", "allocated_bytes", "deallocations"] {
            let parts_of = list(&process[parts]).iter();
            let sum: u64 = parts_of.map(|part| number(&part[name])).sum();
            assert_eq!(
                sum,
                number(&totals[name]),
                "{path}: sum of {name} over {parts}"
            );
        }
    }
}

#[track_caller]
fn check_site(site: &Value, [frames, threads]: [usize; 2], path: &str) {
    let stack = list(&site["stack"]).iter();
    assert!(
        stack.map(number).all(|frame| frame < frames as u64),
        "{path}.stack"
    );
    for (bytes, allocations) in [
        ("bytes_at_peak", "allocations_at_peak"),
        ("leaked_bytes", "leaked_allocations"),
    ] {
        assert!(
            number(&site["max_bytes"]) >= number(&site[bytes]),
            "{path}.max_bytes"
        );
        // Of blocks without bytes the latest maximum counts: no block.
        let any = number(&site[bytes]) > 0 && number(&site[allocations]) > 0;
        assert!(
            !any || number(&site["max_allocations"]) > 0,
            "{path}.max_allocations"
        );
    }
    for parts in ["entries", "sizes", "threads"] {
        let sum: u64 = list(&site[parts])
            .iter()
            .map(|part| number(&part["allocations"]))
            .sum();
        assert_eq!(
            sum,
            number(&site["allocations"]),
            "{path}: sum over {parts}"
        );
    }
    let mut freed = 0;
    for pair in list(&site["frees"]) {
        freed += number(&pair["allocations"]);
        for thread in [&pair["allocated_by"], &pair["freed_by"]] {
            let index = thread.as_u64();
            assert!(
                index.is_none_or(|index| index < threads as u64),
                "{path}.frees"
            );
        }
    }
    let ended = number(&site["allocations"]) - number(&site["leaked_allocations"]);
    assert_eq!(freed, ended, "{path}: sum over frees");
    let stacks = match site.get("free_stacks") {
        Some(stacks) => list(stacks),
        None => return,
    };
    let mut freed = 0;
    for stack in stacks {
        freed += number(&stack["allocations"]);
        let frames_of = list(&stack["stack"]).iter();
        assert!(
            frames_of.map(number).all(|frame| frame < frames as u64),
            "{path}.free_stacks"
        );
        let mut by_threads = 0;
        for thread in list(&stack["threads"]) {
            by_threads += number(&thread["allocations"]);
            let index = thread["thread"].as_u64();
            assert!(
                index.is_none_or(|index| index < threads as u64),
                "{path}.free_stacks"
            );
        }
        let blocks = number(&stack["allocations"]);
        assert_eq!(by_threads, blocks, "{path}.free_stacks: sum over threads");
    }
    assert_eq!(freed, ended, "{path}: sum over free_stacks");
}

#[track_caller]
fn list(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("no list: {}", start_of(value)))
}

#[track_caller]
fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no count: {}", start_of(value)))
}

/// The start of a value, which may be a whole report.
fn start_of(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

/// Findings whose frames, processes and sites exist, and whose numbers are numbers.
#[track_caller]
fn check_findings(report: &Value, frames: usize) {
    // Windows, ranges and recordings without stacks have none.
    let Some(findings) = report.get("findings") else {
        return;
    };
    let processes = list(&report["processes"]);
    let sites = processes.iter().flat_map(|it| list(&it["sites"]));
    let numbers: HashSet<u64> = sites.map(|site| number(&site["number"])).collect();
    for finding in list(findings) {
        let of_process = |process: &Value| process["id"] == finding["process"];
        assert!(processes.iter().any(of_process), "{finding}");
        let frame = finding["frame"].as_u64();
        assert!(
            frame.is_none_or(|frame| (frame as usize) < frames),
            "{finding}"
        );
        for site in list(&finding["sites"]) {
            assert!(numbers.contains(&number(site)), "{finding}");
        }
        let numbers = finding["numbers"].as_object().expect("checked");
        assert!(numbers.values().all(Value::is_number), "{finding}");
        for words in ["title", "measure", "text", "advice"] {
            assert_ne!(finding[words], "", "{finding}");
        }
    }
}
