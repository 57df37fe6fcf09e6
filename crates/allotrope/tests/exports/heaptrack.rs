//! heaptrack's data file, read by `heaptrack_print` and by our own reader.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::skip;
use crate::{METRICS, exported, fine, folder, steps};

fn exported_to(folder: &Path, trace: &Path) -> PathBuf {
    let path = folder.join("ours.zst");
    std::fs::write(&path, exported(trace, "heaptrack", &[])).expect("the folder is ours");
    path
}

/// What `heaptrack_print` prints; `None` if it is not installed.
fn printed(file: &Path) -> Option<String> {
    let arguments = ["-n", "100", "-s", "100", "-l", "1"];
    match Command::new("heaptrack_print")
        .args(arguments)
        .arg(file)
        .output()
    {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(_) => {
            skip("heaptrack_print is not installed");
            None
        }
    }
}

#[test]
fn heaptrack_print_has_the_totals_of_the_program() {
    let folder = folder();
    let Some(text) = printed(&exported_to(folder.path(), &METRICS.trace)) else {
        return;
    };
    for line in [
        "calls to allocation functions: 12 (",
        "temporary memory allocations: 1 (",
        "peak heap memory consumption: 30.00K",
        "total memory leaked: 15.00K",
        "1 calls with 20.00K peak consumption from:",
        "10 calls with 10.00K peak consumption from:",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    for function in ["first", "second", "third", "peak_in_between", "main"] {
        assert!(text.contains(function), "{function}: {text}");
    }
}

#[test]
fn heaptrack_print_has_the_blocks_of_two_steps() {
    let folder = folder();
    let Some(text) = printed(&exported_to(folder.path(), &steps())) else {
        return;
    };
    // 10 × 1000 and 20 × 300 bytes, of which 4 × 1000 are freed before the second step ends.
    for line in [
        "calls to allocation functions: 30 (",
        "total memory leaked: 12.00K",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// Our reader computes the figures from the single events.
#[test]
fn the_file_read_again_has_the_same_sums() {
    let folder = folder();
    let path = exported_to(folder.path(), &METRICS.trace);
    let json = fine(&[
        "export",
        path.to_str().expect("a plain name"),
        "--to",
        "json",
    ]);
    let json: Value = serde_json::from_slice(&json).expect("it is JSON");
    let names = json["metrics"].as_array().expect("a list");
    let sum = |metric: &str| -> u64 {
        let at = names
            .iter()
            .position(|it| it == metric)
            .expect("it is known");
        let stacks = json["stacks"].as_array().expect("a list").iter();
        stacks
            .map(|it| it["figures"][at].as_u64().expect("a number"))
            .sum()
    };
    for (metric, expected) in [
        ("allocations", 12),
        ("allocated_bytes", 35_000),
        ("temporary_allocations", 1),
        ("leaked_allocations", 11),
        ("leaked_bytes", 15_000),
        ("bytes_at_peak", 30_000),
        ("allocations_at_peak", 11),
    ] {
        assert_eq!(sum(metric), expected, "{metric}");
    }
}
