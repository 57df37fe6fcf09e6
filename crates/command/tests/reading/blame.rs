//! Whether `diff` blames the line that a maintainer would name, on small programs
//! that regress as real ones do: a clone in a loop, a dropped `reserve`, a lost `&`.
//!
//! Each program in `tests/programs/blame` is two versions in one file (`-DAFTER`,
//! `--cfg after`). Its head has `BLAME function`, and the line that the first entry
//! of the comparison has to name is marked `MARK blame`. The figure is printed with
//! `--nocapture`.
//!
//! No Swift compiler is at hand: a `.swift-stacks` file has the stacks of both versions
//! as valgrind's DHAT has them, with mangled names, and its head `BLAME function` and
//! `LINE file:line`. These stacks are written by hand, not measured, so they have a score of
//! their own and do not count towards that of the programs.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::support::report::text;
use crate::support::{allotrope, compiled_with, line_of, record, source_path, source_text};
use serde_json::Value;

const FOLDER: &str = "blame";

/// How the names of files with Swift's stacks end.
const SWIFT: &str = ".swift-stacks";

/// Least share of the programs whose first entry has to name the line. Stacks that are written by
/// hand are held to the same share, apart.
const AIM_PERCENT: usize = 95;

/// Function, file name and line.
#[derive(PartialEq, Eq)]
struct Line {
    function: String,
    file: String,
    line: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{})", self.function, self.file, self.line)
    }
}

fn sources() -> Vec<String> {
    let folder = source_path(FOLDER);
    let entries = std::fs::read_dir(&folder).expect("the folder of programs");
    let mut sources: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .filter_map(|name| name.into_string().ok())
        .filter(|name| {
            let ends = [".c", ".cc", ".rs", SWIFT];
            ends.iter().any(|end| name.ends_with(end))
        })
        .map(|name| format!("{FOLDER}/{name}"))
        .collect();
    sources.sort();
    sources
}

fn expected(source: &str) -> Line {
    let text = source_text(source);
    let named = text.lines().find_map(|line| line.split_once("BLAME "));
    let (_, function) = named.unwrap_or_else(|| panic!("{source}: no BLAME"));
    if source.ends_with(SWIFT) {
        let mut lines = text.lines();
        let at = lines.find_map(|line| line.split_once("LINE ")?.1.rsplit_once(':'));
        let (file, line) = at.unwrap_or_else(|| panic!("{source}: no LINE"));
        return Line {
            function: function.trim().to_owned(),
            file: file.to_owned(),
            line: line.parse().expect("a line number"),
        };
    }
    Line {
        function: function.trim().to_owned(),
        file: file_name(source),
        line: line_of(source, "blame"),
    }
}

fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name().and_then(OsStr::to_str);
    name.unwrap_or_default().to_owned()
}

/// Records both versions and returns what the entries of the comparison blame, the
/// largest difference first.
fn blamed(source: &str) -> Vec<Line> {
    if source.ends_with(SWIFT) {
        return blamed_in_stacks(source);
    }
    let after = if source.ends_with(".rs") {
        &["--cfg", "after"][..]
    } else {
        &["-DAFTER"]
    };
    let recordings = [&[][..], after].map(|version| {
        let optimised = if source.ends_with(".rs") {
            &[][..]
        } else {
            &["-O2"]
        };
        let program = compiled_with(source, &[optimised, version].concat());
        record(program).run().ok()
    });
    let [before, after] = recordings.each_ref().map(|it| it.trace.as_os_str());
    blamed_between(before, after)
}

/// Does the same for a file with the stacks of both versions.
fn blamed_in_stacks(source: &str) -> Vec<Line> {
    let text = source_text(source);
    let (before, after) = text.split_once("\nafter\n").expect("two versions");
    let (_, before) = before.split_once("\nbefore").expect("a version before");
    let folder = tempfile::tempdir().expect("a folder");
    let [before, after] = [("before", before), ("after", after)].map(|(name, stacks)| {
        let file = folder.path().join(name);
        std::fs::write(&file, dhat(stacks).to_string()).expect("a file is written");
        file
    });
    blamed_between(before.as_os_str(), after.as_os_str())
}

/// A DHAT file of stacks: a line `N blocks, M bytes`, then a frame a line.
fn dhat(stacks: &str) -> Value {
    let (mut frames, mut points) = (vec!["[root]".to_owned()], Vec::<Value>::new());
    for line in stacks.lines().filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [blocks, "block," | "blocks,", ..] => {
                let number = |text: &str| text.parse::<u64>().expect("a number");
                let (blocks, bytes) = (number(blocks), number(words[2]));
                points.push(serde_json::json!({ "tb": bytes, "tbk": blocks, "fs": [] }));
            }
            _ => {
                let text = format!(": {}", line.trim());
                let known = frames.iter().position(|frame| frame.ends_with(&text));
                let index = known.unwrap_or_else(|| {
                    frames.push(format!("{:#x}{text}", 0x10_0000 + 16 * frames.len()));
                    frames.len() - 1
                });
                let point = points.last_mut().expect("figures before frames");
                let stack = point["fs"].as_array_mut().expect("a list");
                stack.push(index.into());
            }
        }
    }
    serde_json::json!({
        "dhatFileVersion": 2, "mode": "heap", "verb": "Allocated", "bklt": false,
        "bkacc": false, "tu": "instrs", "Mtu": "Minstr", "cmd": "App", "pid": 1, "te": 1,
        "pps": points, "ftbl": frames,
    })
}

/// What the entries of a comparison blame.
fn blamed_between(before: &OsStr, after: &OsStr) -> Vec<Line> {
    let diff: Value = allotrope([
        OsStr::new("diff"),
        before,
        after,
        OsStr::new("--format"),
        OsStr::new("json"),
    ])
    .json();
    let frames = diff["frames"].as_array().expect("frames");
    let entries = diff["entries"].as_array().expect("entries");
    entries
        .iter()
        .filter(|entry| entry["difference"] != 0)
        .map(|entry| {
            let blame = entry["blame"].as_u64().expect("an index") as usize;
            let frame = &frames[blame];
            Line {
                function: text(frame, "function").to_owned(),
                file: file_name(text(frame, "file")),
                line: frame["line"].as_u64().unwrap_or(0),
            }
        })
        .collect()
}

/// Whether a qualified name is that of the function: `crate::blame::module::f`, `f<int>` and
/// `f[abi:cxx11]` are `f`.
fn is_named(found: &str, function: &str) -> bool {
    let (found, function) = (plain(found), plain(function));
    found == function || found.ends_with(&format!("::{function}"))
}

/// A name without template arguments and tags at its end.
fn plain(name: &str) -> &str {
    let name = name.split("[abi:").next().unwrap_or_default();
    match name.find('<') {
        Some(at) if at > 0 && name.ends_with('>') => &name[..at],
        _ => name,
    }
}

/// How often the line is blamed by the first entry, by the first three, and by another.
struct Score {
    programs: usize,
    first: usize,
    among_three: usize,
    wrong: Vec<String>,
}

impl Score {
    fn of(sources: &[String]) -> Self {
        let results = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        let check = || {
            while let Some(source) = sources.get(next.fetch_add(1, Relaxed)) {
                let expected = expected(source);
                let found = blamed(source);
                let is_expected = |line: &Line| {
                    is_named(&line.function, &expected.function)
                        && (&line.file, line.line) == (&expected.file, expected.line)
                };
                let position = found.iter().position(is_expected);
                let shown: Vec<String> = found.iter().take(3).map(Line::to_string).collect();
                let shown = shown.join(", ");
                let message = format!("{source}: expected {expected}, found {shown}");
                let mut results = results.lock().expect("no thread panics with it");
                results.push((position, message));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(check);
            scope.spawn(check);
        });
        let results = results.into_inner().expect("no thread panicked");
        let within = |count: usize| {
            let is_within = |it: &&(Option<usize>, String)| it.0.is_some_and(|at| at < count);
            results.iter().filter(is_within).count()
        };
        let (first, among_three) = (within(1), within(3));
        let wrong = results.into_iter().filter(|it| it.0 != Some(0));
        let mut wrong: Vec<String> = wrong.map(|it| it.1).collect();
        wrong.sort();
        Self {
            programs: sources.len(),
            first,
            among_three,
            wrong,
        }
    }

    /// Prints the figure, and fails if it is below the aim.
    #[track_caller]
    fn reach_the_aim(&self, what: &str) {
        let figure = format!(
            "blame is first in {} of {} {what}, among the first three in {}\n{}",
            self.first,
            self.programs,
            self.among_three,
            self.wrong.join("\n")
        );
        println!("{figure}");
        assert!(100 * self.first >= AIM_PERCENT * self.programs, "{figure}");
    }
}

#[test]
fn the_first_entry_names_the_line() {
    let is_measured = |source: &String| !source.ends_with(SWIFT);
    let measured: Vec<String> = sources().into_iter().filter(is_measured).collect();
    Score::of(&measured).reach_the_aim("measured programs");
}

/// They say nothing of how often real programs are blamed right: whoever wrote the stacks knew
/// the answer.
#[test]
fn the_first_entry_names_the_line_in_stacks_written_by_hand() {
    let is_written = |source: &String| source.ends_with(SWIFT);
    let written: Vec<String> = sources().into_iter().filter(is_written).collect();
    Score::of(&written).reach_the_aim("files of stacks that are written by hand");
}
