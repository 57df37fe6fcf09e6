//! The documented form of `allotrope report --format json`: exactly the documented
//! keys, indexes in range, sites that add up to the totals.

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
/// Further keys of a process that was recorded with --counts-only.
const COUNTED_PROCESS: &[&str] = &["threads", "entries"];
/// The totals that such a process has; the others are null.
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
    "max_bytes",
    "max_allocations",
    "lifetime_mean_us",
];
/// Totals that are there only if a leak is suppressed, and the sites' numbers of which the
/// suppressed ones add up to them.
const SUPPRESSED_TOTALS: &[(&str, &str)] = &[
    ("leaked_allocations", "suppressed_allocations"),
    ("leaked_bytes", "suppressed_bytes"),
];
/// Keys of a suppressed site: the rule and its list.
const SUPPRESSED_SITE: &[&str] = &["suppressed", "suppressed_by"];
/// Only if the process opened some.
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
/// Numbers of a site, and the totals to which they add up.
const ADDS_UP: &[(&str, &str)] = &[
    ("allocations", "allocations"),
    ("allocated_bytes", "allocated_bytes"),
    ("temporary_allocations", "temporary_allocations"),
    ("leaked_allocations", "leaked_allocations"),
    ("leaked_bytes", "leaked_bytes"),
    ("bytes_at_peak", "peak_bytes"),
    ("allocations_at_peak", "peak_allocations"),
];

/// Fails, with the path of the value, unless the report has the documented form.
#[track_caller]
pub fn check(report: &Value) {
    let mut expected = REPORT.to_vec();
    // Only if the trace could not be read to its end.
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
        let path = format!("processes[{index}]");
        assert_eq!(process["id"], index, "{path}: ids count from 0");
        check_process(process, frames.len() as u64, &path);
    }
}

#[track_caller]
fn check_frame(frame: &Value, path: &str) {
    // Only with `--source`, if the file is found.
    let mut expected = FRAME.to_vec();
    if let Some(source) = frame.get("source") {
        assert!(source.is_string(), "{path}.source is no text");
        expected.push("source");
    }
    keys(frame, &expected, path);
    for name in ["function", "signature", "module", "file"] {
        assert!(frame[name].is_string(), "{path}.{name} is no text");
    }
    for name in ["line", "column", "offset"] {
        count(&frame[name], path, name);
    }
    assert!(frame["inlined"].is_boolean(), "{path}.inlined");
    assert_ne!(frame["function"], "", "{path}: a frame without a name");
}

#[track_caller]
fn check_process(process: &Value, frames: u64, path: &str) {
    let mut named = PROCESS.to_vec();
    if let Some(windows) = process.get(WINDOWS) {
        named.push(WINDOWS);
        let windows = array(windows, path);
        assert!(!windows.is_empty(), "{path}.windows is left out if empty");
        for (index, window) in windows.iter().enumerate() {
            keys(window, WINDOW, &format!("{path}.windows[{index}]"));
        }
    }
    let counts_only = process["sites"].is_null();
    if counts_only {
        named.extend(COUNTED_PROCESS);
    }
    keys(process, &named, path);
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
        count(&process[name], path, name);
    }
    assert!(process["complete"].is_boolean(), "{path}.complete");
    let command = array(&process["command"], path);
    assert!(command.iter().all(Value::is_string), "{path}.command");
    check_exit(&process["exit"], path);
    let mut totals = TOTALS.to_vec();
    let has_suppressed = process["totals"].get(SUPPRESSED_TOTALS[0].1).is_some();
    if has_suppressed {
        totals.extend(SUPPRESSED_TOTALS.iter().map(|(_, total)| total));
    }
    keys(&process["totals"], &totals, &format!("{path}.totals"));
    if counts_only {
        return check_counted(process, path);
    }
    for name in TOTALS {
        count(&process["totals"][*name], path, name);
    }
    let sites = array(&process["sites"], path);
    for (index, site) in sites.iter().enumerate() {
        check_site(site, frames, &format!("{path}.sites[{index}]"));
    }
    for (part, whole) in ADDS_UP {
        let sum: u64 = sites
            .iter()
            .map(|site| count(&site[*part], path, part))
            .sum();
        let total = count(&process["totals"][*whole], path, whole);
        assert_eq!(sum, total, "{path}: sum of {part} over sites, and {whole}");
    }
    let suppressed = || sites.iter().filter(|site| is_suppressed(site));
    assert_eq!(has_suppressed, suppressed().next().is_some(), "{path}");
    for (part, whole) in SUPPRESSED_TOTALS.iter().filter(|_| has_suppressed) {
        let sum: u64 = suppressed()
            .map(|site| count(&site[*part], path, part))
            .sum();
        let total = count(&process["totals"][*whole], path, whole);
        assert_eq!(sum, total, "{path}: sum of {part} over suppressed sites");
    }
}

fn is_suppressed(site: &Value) -> bool {
    site.get(SUPPRESSED_SITE[0]).is_some()
}

/// A process recorded with --counts-only: threads and entry points add up to the
/// totals, and nothing else is known.
#[track_caller]
fn check_counted(process: &Value, path: &str) {
    for name in TOTALS {
        let total = &process["totals"][*name];
        if COUNTED_TOTALS.contains(name) {
            count(total, path, name);
        } else {
            assert!(total.is_null(), "{path}.totals.{name} is not null");
        }
    }
    for list in COUNTED_PROCESS {
        let parts = array(&process[*list], path);
        for name in ["allocations", "allocated_bytes", "deallocations"] {
            let sum: u64 = parts.iter().map(|it| count(&it[name], path, name)).sum();
            let total = count(&process["totals"][name], path, name);
            assert_eq!(sum, total, "{path}: sum of {name} over {list}");
        }
    }
}

#[track_caller]
fn check_exit(exit: &Value, path: &str) {
    let object = exit.as_object().unwrap_or_else(|| panic!("{path}.exit"));
    assert_eq!(object.len(), 1, "{path}.exit: {exit}");
    let (form, value) = object.iter().next().expect("it has one");
    let known = match form.as_str() {
        "status" => value.is_u64(),
        "signal" => value.as_str().is_some_and(|name| name.starts_with("SIG")),
        "exec" | "running" => value == true,
        _ => false,
    };
    assert!(known, "{path}.exit: {exit}");
}

#[track_caller]
fn check_site(site: &Value, frames: u64, path: &str) {
    let mut expected = SITE.to_vec();
    if is_suppressed(site) {
        expected.extend(SUPPRESSED_SITE);
        for name in SUPPRESSED_SITE {
            assert!(site[*name].is_string(), "{path}.{name} is no text");
        }
    }
    keys(site, &expected, path);
    for name in SITE {
        match *name {
            "stack" => {}
            "lifetime_mean_us" => {
                let mean = site[*name].as_f64();
                assert!(
                    mean.is_some_and(|m| m >= 0.0),
                    "{path}.{name}: {}",
                    site[*name]
                );
            }
            _ => drop(count(&site[*name], path, name)),
        }
    }
    let stack = array(&site["stack"], path);
    for index in stack {
        assert!(
            count(index, path, "stack") < frames,
            "{path}.stack: {index}"
        );
    }
    assert_ne!(site["allocations"], 0, "{path}: a site without allocations");
}

#[track_caller]
fn keys(value: &Value, expected: &[&str], path: &str) {
    let object = value
        .as_object()
        .unwrap_or_else(|| panic!("{path} is no object: {value}"));
    let mut found: Vec<&str> = object.keys().map(String::as_str).collect();
    let mut expected = expected.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "keys of {path}");
}

#[track_caller]
fn array<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("{path}: no list: {value}"))
}

#[track_caller]
fn count(value: &Value, path: &str, name: &str) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{path}.{name}: no count: {value}"))
}
