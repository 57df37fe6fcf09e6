//! `allotrope diff` of two versions of a C++ program that different compilers built:
//! differences in inlining, cloning and order are not taken for the regression that
//! is planted in the second version.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{allotrope, compile::source_path, record, skip};
use serde_json::Value;

const SOURCE: &str = "recompiled.cc";

/// The number of calls that allocate once more in the second version.
const PLANTED: i64 = 200_000;

/// A compiler and its optimisation level.
#[derive(Clone, Copy)]
struct Build {
    compiler: &'static str,
    level: &'static str,
}

const fn build(compiler: &'static str, level: &'static str) -> Build {
    Build { compiler, level }
}

impl Build {
    /// The compiled program, or why the compiler cannot be started.
    fn compile(self, folder: &Path, more: &[&str]) -> Result<PathBuf, String> {
        let program = folder.join("recompiled");
        std::fs::create_dir_all(folder).expect("a folder");
        let mut command = Command::new(self.compiler);
        command
            .args(["-std=c++17", "-g", "-w", self.level])
            .args(more);
        command.arg(format!("-DPLANTED_CALLS={PLANTED}"));
        command.arg("-o").arg(&program).arg(source_path(SOURCE));
        match command.output() {
            Ok(output) if output.status.success() => Ok(program),
            Ok(output) => panic!("{output:?}"),
            Err(error) => Err(format!("{}: {error}", self.compiler)),
        }
    }
}

fn compared(before: Build, after: Build) -> Result<Value, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let was = before.compile(&folder.path().join("before"), &[])?;
    let is = after.compile(&folder.path().join("after"), &["-DPLANTED"])?;
    let was = record(was).run().ok();
    let is = record(is).run().ok();
    let output = allotrope([
        "diff".as_ref(),
        was.trace.as_os_str(),
        is.trace.as_os_str(),
        "--format".as_ref(),
        "json".as_ref(),
    ])
    .ok();
    Ok(output.json())
}

/// The planted regression ranks first, and no other entry exceeds 1 % of it.
#[track_caller]
fn check(before: Build, after: Build) {
    let diff = match compared(before, after) {
        Ok(diff) => diff,
        Err(reason) => return skip(&reason),
    };
    let entries = diff["entries"].as_array().expect("a list");
    let change = |entry: &Value| entry["difference"].as_i64().expect("a number");
    let sum: i64 = entries.iter().map(change).sum();
    assert_eq!(diff["difference"], sum, "it adds up");
    let first = entries.first().expect("the planted one");
    let blame = first["blame"].as_u64().expect("an index") as usize;
    let function = diff["frames"][blame]["function"].as_str().expect("a name");
    let stack = first["stacks"][0]["stack"].as_array().expect("a list");
    let names: Vec<&Value> = stack
        .iter()
        .map(|frame| &diff["frames"][frame.as_u64().expect("an index") as usize]["function"])
        .collect();
    // The copy is made by the caller: `main`, which passes by value.
    assert_eq!(function, "main", "{names:?}");
    assert!((change(first) - PLANTED).abs() <= PLANTED / 100, "{first}");
    for entry in &entries[1..] {
        assert!(change(entry).abs() <= PLANTED / 100, "{entry}");
    }
}

#[test]
fn gcc_that_optimises_more() {
    check(build("g++", "-O1"), build("g++", "-O2"));
}

#[test]
fn gcc_that_optimises_less() {
    check(build("g++", "-O3"), build("g++", "-O0"));
}

#[test]
fn clang_after_gcc() {
    check(build("g++", "-O2"), build("clang++", "-O2"));
}

#[test]
fn gcc_after_clang() {
    check(build("clang++", "-O1"), build("g++", "-O2"));
}
