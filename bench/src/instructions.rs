//! Instructions on the hot paths, counted by callgrind. Even a regression of a few
//! instructions shows, whatever else runs on the machine.
//!
//! Each program runs with an amount of work and with twice that amount; the difference
//! is the cost of the work without the program's start. Instructions for timestamps are
//! counted separately: their number depends on the speed of the program, which is about
//! fifty times slower under callgrind.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::row::ALLOCATIONS_A_ROUND;
use crate::tool::Tool;
use crate::workshop::{Workshop, installed, repository};

/// Functions of the recorder that write timestamps, by their present names and,
/// for `--against`, by those of earlier revisions.
const TIMESTAMP_FUNCTIONS: [&str; 7] = [
    "ready::slow_path",
    "events::slow_path",
    "events::write_timestamp",
    "events::words_to_next_timestamp",
    "events::refill",
    "events::mark_time",
    "events::words_to_next_mark",
];

/// Instructions per operation on one hot path.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HotPath {
    /// Description of the hot path.
    pub what: String,
    /// Instructions of the plain program.
    pub plain: f64,
    /// Instructions that recording adds, without timestamps.
    pub over: f64,
    /// Instructions for timestamps, under callgrind.
    pub marking: f64,
    /// Instructions that `--counts-only` adds, if the command has that option.
    pub counting: Option<f64>,
    /// Instructions that recording with `--free-stacks` adds, without timestamps, if the command
    /// has that option.
    #[serde(default)]
    pub free_stacks: Option<f64>,
}

/// A program to run. The amount of work is its last argument.
struct Work {
    what: String,
    source: &'static str,
    arguments: Vec<String>,
    amount: u64,
    operations_each: u64,
}

fn works() -> Vec<Work> {
    let pair = |depth: u64| Work {
        what: format!("malloc(64)+free, {depth} frames deep, a pair"),
        source: "pair.c",
        arguments: vec![depth.to_string(), "64".to_owned()],
        amount: 20_000,
        operations_each: 1,
    };
    vec![
        pair(1),
        pair(5),
        pair(20),
        pair(80),
        Work {
            what: "C++ container churn, an allocation and its deallocation".to_owned(),
            source: "churn.cc",
            arguments: vec!["1".to_owned()],
            amount: 100,
            operations_each: ALLOCATIONS_A_ROUND,
        },
        Work {
            what: "Rust, 10 K distinct stacks met for the first time, an allocation and its deallocation".to_owned(),
            source: "stacks.rs",
            arguments: vec!["10000".to_owned()],
            amount: 10_000,
            operations_each: 1,
        },
    ]
}

/// Counts the instructions of all hot paths.
pub fn count(workshop: &Workshop, allotrope: &Tool) -> Result<Vec<HotPath>> {
    works()
        .iter()
        .map(|work| hot_path(workshop, allotrope, work))
        .collect()
}

fn hot_path(workshop: &Workshop, allotrope: &Tool, work: &Work) -> Result<HotPath> {
    let more = |tool: &Tool| -> Result<Counted> {
        let once = counted(workshop, tool, work, work.amount)?;
        let twice = counted(workshop, tool, work, 2 * work.amount)?;
        let each = |once: u64, twice: u64| {
            (twice as f64 - once as f64) / (work.amount * work.operations_each) as f64
        };
        Ok(Counted {
            all: each(once.all, twice.all),
            marking: each(once.marking, twice.marking),
        })
    };
    let plain = more(&Tool::Plain)?;
    let ours = more(allotrope)?;
    let counting = allotrope.counting().map(|tool| more(&tool)).transpose()?;
    let free_stacks = allotrope.free_stacks();
    let free_stacks = free_stacks.map(|tool| more(&tool)).transpose()?;
    eprintln!(
        "{}: {:.1} over {:.1}",
        work.what,
        ours.all - ours.marking - plain.all,
        plain.all
    );
    Ok(HotPath {
        what: work.what.clone(),
        plain: plain.all,
        over: ours.all - ours.marking - plain.all,
        marking: ours.marking,
        counting: counting.map(|counting| counting.all - plain.all),
        free_stacks: free_stacks.map(|it| it.all - it.marking - plain.all),
    })
}

struct Counted<T = f64> {
    all: T,
    marking: T,
}

fn counted(workshop: &Workshop, tool: &Tool, work: &Work, amount: u64) -> Result<Counted<u64>> {
    let (trace, profile) = (workshop.path("trace"), workshop.path("callgrind"));
    let mut command = tool.prefix(&trace);
    let mut out = OsString::from("--callgrind-out-file=");
    out.push(&profile);
    command.extend([
        installed("valgrind")?.into(),
        "--tool=callgrind".into(),
        out,
    ]);
    command.push(workshop.program(work.source)?.into());
    command.extend(work.arguments.iter().map(Into::into));
    command.push(amount.to_string().into());
    run(Command::new(&command[0]).args(&command[1..]))?;
    let _ = std::fs::remove_file(trace);
    let mut annotate = Command::new(installed("callgrind_annotate")?);
    annotate
        .args(["--threshold=100", "--auto=no", "--show-percs=no"])
        .arg(&profile);
    let counted = self_costs(&run(&mut annotate)?);
    ensure!(
        counted.all > 0,
        "the output of callgrind_annotate has no counts"
    );
    Ok(counted)
}

fn run(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    ensure!(
        output.status.success(),
        "{:?} failed: {}",
        command.get_program(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Sums the lines `1,234  file:function [module]`.
fn self_costs(annotated: &str) -> Counted<u64> {
    let mut counted = Counted { all: 0, marking: 0 };
    for line in annotated.lines() {
        let Some((number, function)) = line.trim().split_once("  ") else {
            continue;
        };
        let Ok(number) = number.replace(',', "").parse::<u64>() else {
            continue;
        };
        if function.starts_with("PROGRAM TOTALS") {
            continue;
        }
        counted.all += number;
        if TIMESTAMP_FUNCTIONS
            .iter()
            .any(|name| function.contains(name))
        {
            counted.marking += number;
        }
    }
    counted
}

/// The command of another version: `which` is a binary, or a commit that is built.
pub fn other_version(which: &str, target_folder: &Path) -> Result<Tool> {
    if Path::new(which).is_file() {
        return Tool::allotrope(Path::new(which));
    }
    let tree = tempfile::TempDir::with_prefix("allotrope-against-")?;
    let git = || {
        let mut git = Command::new("git");
        git.arg("-C").arg(repository());
        git
    };
    run(git()
        .args(["worktree", "add", "--detach"])
        .arg(tree.path())
        .arg(which))
    .with_context(|| format!("{which} is neither a file nor a commit"))?;
    let built = build(tree.path(), target_folder);
    run(git()
        .args(["worktree", "remove", "--force"])
        .arg(tree.path()))?;
    Tool::allotrope(&built?)
}

fn build(tree: &Path, target_folder: &Path) -> Result<PathBuf> {
    let target = target_folder.join("against");
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--release", "-p", "allotrope"])
        .current_dir(tree);
    run(cargo.env("CARGO_TARGET_DIR", &target)).context("the other version does not build")?;
    Ok(target.join("release/allotrope"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_summed_and_timestamps_are_counted_separately() {
        let annotated = "\
Ir\n\
1,300  PROGRAM TOTALS\n\
\n\
Ir  file:function\n\
1,000  ???:allotrope_recorder::hooks::malloc [/lib.so]\n\
  200  ???:allotrope_recorder::events::refill'2 [/lib.so]\n\
  100  ./malloc.c:malloc [/libc.so]\n";
        let counted = self_costs(annotated);
        assert_eq!((counted.all, counted.marking), (1300, 200));
    }
}
