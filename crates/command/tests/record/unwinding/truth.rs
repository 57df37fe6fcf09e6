//! Compares the stacks of a recording with those that the program printed.
//!
//! A program prints `stack COUNT BYTES FRAME …` and `under COUNT NAME`, see
//! `programs/truth.h`. The frames are all those of the program's own modules,
//! innermost first; consecutive frames of one function are written `name*LENGTH`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::support::report::text;
use crate::support::{Process, Recording, record};

/// Allocations and bytes of each stack; `None` if the bytes are not known.
type Stacks = BTreeMap<String, (u64, Option<u64>)>;

/// Records a case of a program and expects exactly the stacks that it prints.
#[track_caller]
pub fn check(program: &Path, case: &str) -> Recording {
    let recording = record(program).arg(case).run().ok();
    compare(
        &recording,
        program,
        &format!("{} {case}", program.display()),
    );
    recording
}

/// Compares the only image of a recording with the stacks that the program printed.
#[track_caller]
pub fn compare(recording: &Recording, program: &Path, what: &str) {
    let report = recording.report();
    let process = report.only();
    let printed = recording.text();
    expect_sound(&process, &printed, what);
    expect_stacks(&process, module(program), &printed, what);
}

/// No event is lost and, unless the program printed `threads`, none is ambiguous.
#[track_caller]
pub fn expect_sound(process: &Process<'_>, printed: &str, what: &str) {
    assert_eq!(process.number("lost_events"), 0, "{what}: lost");
    let ambiguous = process.number("ambiguous_events");
    assert!(
        has_threads(printed) || ambiguous == 0,
        "{what}: {ambiguous} ambiguous"
    );
    assert_eq!(process.json["complete"], true, "{what}");
}

fn has_threads(printed: &str) -> bool {
    printed.lines().any(|line| line == "threads")
}

/// The name by which reports call a program.
pub fn module(program: &Path) -> &str {
    let name = program.file_name().expect("programs have names");
    name.to_str().expect("their names are ASCII")
}

/// Compares all stacks with those that the program printed.
#[track_caller]
pub fn expect_stacks(process: &Process<'_>, module: &str, printed: &str, what: &str) {
    let under = stated_sums(printed);
    for (name, count) in &under {
        expect_sum(process, name, *count, has_threads(printed), what);
    }
    let stated = stated_stacks(printed);
    let mut found = Stacks::new();
    for site in process.sites() {
        let stack = process.stack(site);
        if stack
            .iter()
            .any(|frame| under.contains_key(text(frame, "function")))
        {
            continue;
        }
        let frames = own_frames(&stack, module);
        // The C library's own memory, for the program's start for example.
        if frames == "_start" || frames.is_empty() {
            continue;
        }
        let known = stated.get(&frames).is_none_or(|(_, bytes)| bytes.is_some());
        let sums = found.entry(frames).or_insert((0, known.then_some(0)));
        sums.0 += site["allocations"].as_u64().expect("checked");
        if let Some(bytes) = &mut sums.1 {
            *bytes += site["allocated_bytes"].as_u64().expect("checked");
        }
    }
    let differences = differences(&stated, &found);
    assert!(
        differences.is_empty(),
        "{what}: {} of {} stacks differ:\n{}",
        differences.len(),
        stated.len(),
        differences[..differences.len().min(20)].join("\n")
    );
}

/// The stacks that show `name` have this many allocations, and each leads out
/// to the start of the program, or of a thread if it has any.
#[track_caller]
fn expect_sum(
    process: &Process<'_>,
    name: &str,
    count: Option<u64>,
    has_threads: bool,
    what: &str,
) {
    let found = process.under(name).allocations;
    assert!(
        count.is_none_or(|count| count == found),
        "{what}: under {name} stated {count:?}, recorded {found}"
    );
    for site in process.sites_under(name) {
        let functions = process.functions(site);
        let of_main = functions.contains(&"main") && functions.last() == Some(&"_start");
        // glibc's `clone3`, or `clone` on older kernels.
        let of_thread = functions.last().is_some_and(|name| name.contains("clone"));
        assert!(of_main || has_threads && of_thread, "{what}: {functions:?}");
    }
}

fn stated_sums(printed: &str) -> BTreeMap<&str, Option<u64>> {
    printed
        .lines()
        .filter_map(|line| line.strip_prefix("under "))
        .map(|line| {
            let (count, name) = line.split_once(' ').expect("a count, then a name");
            let count = (count != "?").then(|| count.parse().expect("a count"));
            (name, count)
        })
        .collect()
}

fn stated_stacks(printed: &str) -> Stacks {
    let mut stacks = Stacks::new();
    for line in printed
        .lines()
        .filter_map(|line| line.strip_prefix("stack "))
    {
        let mut words = line.splitn(3, ' ');
        let mut next = || words.next().unwrap_or_else(|| panic!("printed: {line}"));
        let count: u64 = next().parse().expect("a count");
        let bytes = match next() {
            "?" => None,
            bytes => Some(bytes.parse::<u64>().expect("bytes")),
        };
        if count == 0 {
            continue;
        }
        let frames: Vec<&str> = next().split(' ').collect();
        let frames = frames.iter().map(|frame| match frame.rsplit_once('*') {
            Some((name, length)) => (name, length.parse().expect("a length")),
            None => (*frame, 1),
        });
        let sums = stacks.entry(written(frames)).or_insert((0, Some(0)));
        sums.0 += count;
        sums.1 = sums.1.zip(bytes).map(|(sum, bytes)| sum + bytes);
    }
    assert!(!stacks.is_empty(), "nothing was stated: {printed}");
    stacks
}

/// Functions of the C++ runtime, which are no plugin's own even if it brings them.
const RUNTIME: &[&str] = &["operator new", "operator new[]", "__cxa_allocate_exception"];

/// The frames of the program itself and of its plugins.
fn own_frames(stack: &[&Value], module: &str) -> String {
    written(stack.iter().filter_map(|frame| {
        let (of, function) = (text(frame, "module"), text(frame, "function"));
        let is_own = of == module || of.starts_with("plugin") && !RUNTIME.contains(&function);
        is_own.then_some((function, 1))
    }))
}

/// Frames as text, with consecutive equal ones folded.
fn written<'a>(frames: impl Iterator<Item = (&'a str, usize)>) -> String {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for (name, length) in frames {
        match runs.last_mut() {
            Some(run) if run.0 == name => run.1 += length,
            _ => runs.push((name, length)),
        }
    }
    let words: Vec<String> = runs
        .iter()
        .map(|(name, length)| match length {
            1 => (*name).to_owned(),
            _ => format!("{name}*{length}"),
        })
        .collect();
    words.join(" ")
}

fn differences(stated: &Stacks, found: &Stacks) -> Vec<String> {
    let mut stacks: Vec<&String> = stated.keys().chain(found.keys()).collect();
    stacks.sort();
    stacks.dedup();
    let zero = (0, Some(0));
    stacks
        .into_iter()
        .filter(|stack| stated.get(*stack) != found.get(*stack))
        .map(|stack| {
            let (left, right) = (stated.get(stack), found.get(stack));
            let (left, right) = (left.unwrap_or(&zero), right.unwrap_or(&zero));
            format!("  stated {left:?}, recorded {right:?}: {stack}")
        })
        .collect()
}
