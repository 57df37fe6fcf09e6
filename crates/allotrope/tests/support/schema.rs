//! The documented form of `allotrope report --format json`: every key that is
//! there, none that is not, indexes in range, sites that add up to the totals.

use serde_json::Value;

const REPORT: &[&str] = &["format", "frames", "processes"];
const FRAME: &[&str] = &[
    "function",
    "signature",
    "module",
    "file",
    "line",
    "column",
    "offset",
    "inlined",
];
const PROCESS: &[&str] = &[
    "id",
    "pid",
    "parent_pid",
    "command",
    "exit",
    "duration_us",
    "complete",
    "lost_events",
    "ambiguous_events",
    "waits",
    "waited_us",
    "totals",
    "sites",
];
/// What a process of a recording that only counted has beside.
const COUNTED_PROCESS: &[&str] = &["threads", "entries"];
/// The totals that such a recording has; the others are null.
const COUNTED_TOTALS: &[&str] = &[
    "allocations",
    "allocated_bytes",
    "deallocations",
    "reallocations",
];
const TOTALS: &[&str] = &[
    "allocations",
    "allocated_bytes",
    "deallocations",
    "reallocations",
    "temporary_allocations",
    "leaked_allocations",
    "leaked_bytes",
    "peak_bytes",
    "peak_allocations",
    "peak_time_us",
    "inherited_allocations",
    "inherited_bytes",
    "inherited_deallocations",
];
const SITE: &[&str] = &[
    "stack",
    "allocations",
    "allocated_bytes",
    "temporary_allocations",
    "leaked_allocations",
    "leaked_bytes",
    "bytes_at_peak",
    "allocations_at_peak",
    "lifetime_mean_us",
];
/// Only of a process that opened some.
const WINDOWS: &str = "windows";
const WINDOW: &[&str] = &[
    "name",
    "occurrence",
    "iterations",
    "thread",
    "opened_us",
    "duration_us",
    "closed",
    "measured",
    "quiet_before_opening",
    "quiet_before_closing",
    "allocations",
    "allocated_bytes",
    "deallocations",
    "reallocations",
    "temporary_allocations",
    "remaining_allocations",
    "remaining_bytes",
    "peak_bytes",
    "peak_allocations",
    "descriptors",
];
/// What a site's number adds up to.
const ADDS_UP: &[(&str, &str)] = &[
    ("allocations", "allocations"),
    ("allocated_bytes", "allocated_bytes"),
    ("temporary_allocations", "temporary_allocations"),
    ("leaked_allocations", "leaked_allocations"),
    ("leaked_bytes", "leaked_bytes"),
    ("bytes_at_peak", "peak_bytes"),
    ("allocations_at_peak", "peak_allocations"),
];

/// Fails, naming the place, unless the report has the documented form.
#[track_caller]
pub fn check(report: &Value) {
    let mut expected = REPORT.to_vec();
    // Only of a trace that could not be read to its end.
    if !report["cut"].is_null() {
        assert!(report["cut"].is_string(), "report.cut");
        expected.push("cut");
    }
    keys(report, &expected, "report");
    assert_eq!(report["format"], "allotrope-report/1");
    let frames = array(&report["frames"], "frames");
    for (index, frame) in frames.iter().enumerate() {
        check_frame(frame, &format!("frames[{index}]"));
    }
    for (index, process) in array(&report["processes"], "processes").iter().enumerate() {
        let place = format!("processes[{index}]");
        assert_eq!(process["id"], index, "{place}: ids count from 0");
        check_process(process, frames.len() as u64, &place);
    }
}

#[track_caller]
fn check_frame(frame: &Value, place: &str) {
    // Only where it was asked for and is at hand.
    let mut expected = FRAME.to_vec();
    if let Some(source) = frame.get("source") {
        assert!(source.is_string(), "{place}.source is no text");
        expected.push("source");
    }
    keys(frame, &expected, place);
    for name in ["function", "signature", "module", "file"] {
        assert!(frame[name].is_string(), "{place}.{name} is no text");
    }
    for name in ["line", "column", "offset"] {
        count(&frame[name], place, name);
    }
    assert!(frame["inlined"].is_boolean(), "{place}.inlined");
    assert_ne!(frame["function"], "", "{place}: a frame without a name");
}

#[track_caller]
fn check_process(process: &Value, frames: u64, place: &str) {
    let mut named = PROCESS.to_vec();
    if let Some(windows) = process.get(WINDOWS) {
        named.push(WINDOWS);
        let windows = array(windows, place);
        assert!(!windows.is_empty(), "{place}.windows is left out if empty");
        for (index, window) in windows.iter().enumerate() {
            keys(window, WINDOW, &format!("{place}.windows[{index}]"));
        }
    }
    let counts_only = process["sites"].is_null();
    if counts_only {
        named.extend(COUNTED_PROCESS);
    }
    keys(process, &named, place);
    for name in [
        "id",
        "pid",
        "parent_pid",
        "duration_us",
        "lost_events",
        "ambiguous_events",
        "waits",
        "waited_us",
    ] {
        count(&process[name], place, name);
    }
    assert!(process["complete"].is_boolean(), "{place}.complete");
    let command = array(&process["command"], place);
    assert!(command.iter().all(Value::is_string), "{place}.command");
    check_exit(&process["exit"], place);
    keys(&process["totals"], TOTALS, &format!("{place}.totals"));
    if counts_only {
        return check_counted(process, place);
    }
    for name in TOTALS {
        count(&process["totals"][*name], place, name);
    }
    let sites = array(&process["sites"], place);
    for (index, site) in sites.iter().enumerate() {
        check_site(site, frames, &format!("{place}.sites[{index}]"));
    }
    for (part, whole) in ADDS_UP {
        let sum: u64 = sites
            .iter()
            .map(|site| count(&site[*part], place, part))
            .sum();
        let total = count(&process["totals"][*whole], place, whole);
        assert_eq!(sum, total, "{place}: sum of {part} over sites, and {whole}");
    }
}

/// A process of a recording that only counted: threads and entry points add up
/// to the totals, and nothing else is known.
#[track_caller]
fn check_counted(process: &Value, place: &str) {
    for name in TOTALS {
        let total = &process["totals"][*name];
        if COUNTED_TOTALS.contains(name) {
            count(total, place, name);
        } else {
            assert!(total.is_null(), "{place}.totals.{name} is not null");
        }
    }
    for list in COUNTED_PROCESS {
        let parts = array(&process[*list], place);
        for name in ["allocations", "allocated_bytes", "deallocations"] {
            let sum: u64 = parts.iter().map(|it| count(&it[name], place, name)).sum();
            let total = count(&process["totals"][name], place, name);
            assert_eq!(sum, total, "{place}: sum of {name} over {list}");
        }
    }
}

#[track_caller]
fn check_exit(exit: &Value, place: &str) {
    let object = exit.as_object().unwrap_or_else(|| panic!("{place}.exit"));
    assert_eq!(object.len(), 1, "{place}.exit: {exit}");
    let (form, value) = object.iter().next().expect("it has one");
    let known = match form.as_str() {
        "status" => value.is_u64(),
        "signal" => value.as_str().is_some_and(|name| name.starts_with("SIG")),
        "exec" | "running" => value == true,
        _ => false,
    };
    assert!(known, "{place}.exit: {exit}");
}

#[track_caller]
fn check_site(site: &Value, frames: u64, place: &str) {
    keys(site, SITE, place);
    for name in SITE {
        match *name {
            "stack" => {}
            "lifetime_mean_us" => {
                let mean = site[*name].as_f64();
                assert!(
                    mean.is_some_and(|m| m >= 0.0),
                    "{place}.{name}: {}",
                    site[*name]
                );
            }
            _ => drop(count(&site[*name], place, name)),
        }
    }
    let stack = array(&site["stack"], place);
    for index in stack {
        assert!(
            count(index, place, "stack") < frames,
            "{place}.stack: {index}"
        );
    }
    assert_ne!(
        site["allocations"], 0,
        "{place}: a site without allocations"
    );
}

#[track_caller]
fn keys(value: &Value, expected: &[&str], place: &str) {
    let object = value
        .as_object()
        .unwrap_or_else(|| panic!("{place} is no object: {value}"));
    let mut found: Vec<&str> = object.keys().map(String::as_str).collect();
    let mut expected = expected.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "keys of {place}");
}

#[track_caller]
fn array<'a>(value: &'a Value, place: &str) -> &'a [Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("{place}: no list: {value}"))
}

#[track_caller]
fn count(value: &Value, place: &str, name: &str) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{place}.{name}: no count: {value}"))
}
