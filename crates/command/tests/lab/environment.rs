//! The environment of replays and benchmarks: an allocator notes what its process really has, and
//! it is the recorded program's in order and lengths, with names if they were kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Ended, SHORT_BENCH, command, compiled, compiled_with, run};

/// The environment of the recorded program, in an order that no tool makes.
const ENVIRONMENT: [&str; 6] = [
    "ZED=1",
    "HAKMEM_INVALID_FREE_LOG=22",
    "ALPHA=",
    "MALLOC_ARENA_MAX=3",
    "PATH=/usr/bin:/bin",
    "HAKMEM_INVALID_FREE_MODE=secret",
];

/// `allotrope` with exactly this environment.
fn allotrope_in(folder: &Path, environment: &[&str], arguments: &[&str]) -> Ended {
    let mut env = Command::new("/usr/bin/env");
    env.arg("-i").args(environment);
    env.arg(command().get_program()).args(arguments);
    run(env.current_dir(folder), b"")
}

fn recorded(folder: &Path, options: &[&str], arguments: &[&str]) {
    let program = compiled("environment.c");
    let program = program.to_str().unwrap();
    let words = [
        &["record", "-q", "-o", "app.allotrope"],
        options,
        &["--", program],
        arguments,
    ];
    allotrope_in(folder, &ENVIRONMENT, &words.concat()).ok();
}

/// The allocator, and where it notes the environment.
fn noting(folder: &Path) -> (PathBuf, PathBuf) {
    let notes = folder.join("notes");
    let define = format!("-DNOTES=\"{}\"", notes.display());
    let flags = ["-shared", "-fPIC", define.as_str()];
    (compiled_with("replay/noting_allocator.c", &flags), notes)
}

/// The environments that processes with the allocator had, each once.
fn noted(notes: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(notes).expect("the allocator was loaded");
    fs::remove_file(notes).expect("it is there");
    let of_process = |line: &str| {
        let entries = line.split('\0').filter(|it| !it.is_empty());
        entries.map(str::to_owned).collect()
    };
    let mut all: Vec<Vec<String>> = text.lines().map(of_process).collect();
    all.dedup();
    all
}

#[test]
fn a_replay_has_order_and_lengths_of_the_programs_environment() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder, &[], &[]);
    let bytes = fs::read(folder.join("app.allotrope")).unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|it| it == text);
    assert!(!has(b"HAKMEM") && !has(b"secret"));
    let (library, notes) = noting(folder);
    let alloc = format!("note={}", library.display());
    let words = ["--alloc", &alloc, "--runs", "1", "--format", "json"];
    let words = [&["replay", "app.allotrope"], &words[..]].concat();
    let report = allotrope_in(folder, &["OTHER=1"], &words).ok().json();
    let preload = format!("LD_PRELOAD={}", library.display());
    let expected = [
        "xxx=x",
        "xxxxxxxxxxxxxxxxxxxxxxx=xx",
        "xxxxx=",
        "xxxxxxxxxxxxxxxx=x",
        "xxxx=xxxxxxxxxxxxx",
        "xxxxxxxxxxxxxxxxxxxxxxxx=xxxxxx",
        &preload,
    ];
    assert_eq!(noted(&notes), [expected]);
    let row = &report["replay"]["environment"];
    assert_eq!(row["source"], "recording");
    assert_eq!(
        (&row["variables"], &row["names"]),
        (&6.into(), &false.into())
    );
    let total: usize = ENVIRONMENT.iter().map(|it| it.len() + 1).sum();
    assert_eq!(row["bytes"], total);
}

/// The rebuilt environment of a recording with names. Allocators' settings lose their last
/// character, because their values are not known.
fn rebuilt(preload: &str) -> [String; 7] {
    [
        "ZED=x",
        "HAKMEM_INVALID_FREE_LOG=xx",
        "ALPHA=",
        "MALLOC_ARENA_MA_=x",
        "PATH=xxxxxxxxxxxxx",
        "HAKMEM_INVALID_FREE_MODE=xxxxxx",
        preload,
    ]
    .map(str::to_owned)
}

#[test]
fn every_command_has_the_environment_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder, &["--environment-names"], &[]);
    let bytes = fs::read(folder.join("app.allotrope")).unwrap();
    assert!(!bytes.windows(6).any(|it| it == b"secret"));
    let (library, notes) = noting(folder);
    let preload = format!("LD_PRELOAD={}", library.display());
    let alloc = format!("note={}", library.display());
    let given = [
        "--alloc",
        &alloc,
        "--env",
        "MALLOC_ARENA_MAX=12",
        "--env",
        "NEW=1",
    ];
    let mut expected = rebuilt(&preload).to_vec();
    expected[3] = "MALLOC_ARENA_MAX=12".to_owned();
    expected.insert(6, "NEW=1".to_owned());
    let mut stepped = expected.clone();
    // Symbols are bound before the first step.
    stepped.insert(7, "LD_BIND_NOW=1".to_owned());
    for (verb, replayed, is_stepped) in [
        ("replay", true, false),
        ("paths", false, true),
        ("allocators", true, true),
    ] {
        let words = [&[verb, "app.allotrope", "--runs", "1"], &given[..]].concat();
        let ended = allotrope_in(folder, &["OTHER=1"], &words).ok();
        let text = ended.text();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("environment of the recorded program (7 variables, "),
            "{verb}: {text}"
        );
        assert!(
            text.contains("set: MALLOC_ARENA_MAX, NEW"),
            "{verb}: {text}"
        );
        let seen = noted(&notes);
        assert_eq!(seen.contains(&expected), replayed, "{verb}: {seen:?}");
        assert_eq!(seen.contains(&stepped), is_stepped, "{verb}: {seen:?}");
        let json = [&words[..], &["--format", "json"]].concat();
        let report = allotrope_in(folder, &["OTHER=1"], &json).ok().json();
        let row = match report.get("environment") {
            Some(row) => row,
            None => &report["replay"]["environment"],
        };
        assert_eq!(row["names"], true, "{verb}");
        assert_eq!(row["set"], Value::from(vec!["MALLOC_ARENA_MAX", "NEW"]));
        noted(&notes);
    }
    let report = allotrope_in(
        folder,
        &["OTHER=1"],
        &["replay", "app.allotrope", "--alloc", &alloc, "--runs", "1"],
    );
    report.ok().has("without the settings MALLOC_ARENA_MAX");
    assert_eq!(noted(&notes), [rebuilt(&preload)]);
}

#[test]
fn another_environment_can_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder, &[], &[]);
    let (library, notes) = noting(folder);
    let alloc = format!("note={}", library.display());
    let preload = format!("LD_PRELOAD={}", library.display());
    let replay = ["replay", "app.allotrope", "--alloc", &alloc, "--runs", "1"];
    let with = |option: &'static str| [&replay[..], &["--environment", option]].concat();
    let own = ["B=2", "A=1"];
    allotrope_in(folder, &own, &with("own"))
        .ok()
        .has("environment of this command (2 variables, 8 B)");
    assert_eq!(noted(&notes), [["B=2", "A=1", preload.as_str()]]);
    allotrope_in(folder, &own, &with("none"))
        .ok()
        .has("no environment");
    assert_eq!(noted(&notes), [[preload.as_str()]]);
    // A benchmark has no recorded program: its environment is that of the command.
    let bench = [&["bench", "--alloc", &alloc], &SHORT_BENCH[..]].concat();
    allotrope_in(folder, &own, &[&bench[..], &["--env", "A=3"]].concat())
        .ok()
        .has("environment of this command (2 variables, 8 B); set: A");
    assert_eq!(noted(&notes), [["B=2", "A=3", preload.as_str()]]);
    let none = [&bench[..], &["--environment", "none"]].concat();
    allotrope_in(folder, &own, &none).ok();
    assert_eq!(noted(&notes), [[preload.as_str()]]);
}

#[test]
fn a_forked_child_has_its_parents_environment() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder, &["--environment-names"], &["fork"]);
    let (library, notes) = noting(folder);
    let alloc = format!("note={}", library.display());
    let words = ["replay", "app.allotrope", "--alloc", &alloc, "--runs", "1"];
    allotrope_in(folder, &[], &words).ok().has("200 operations");
    let preload = format!("LD_PRELOAD={}", library.display());
    assert_eq!(noted(&notes), [rebuilt(&preload)]);
}

#[test]
fn an_allocator_of_the_recorded_program_is_replaced_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (library, notes) = noting(folder);
    let preload = format!("LD_PRELOAD={}", library.display());
    let program = compiled("environment.c");
    let words = ["record", "-q", "-o", "app.allotrope", "--"];
    let words = [&words[..], &[program.to_str().unwrap()]].concat();
    allotrope_in(folder, &["A=1", &preload, "B=2"], &words).ok();
    let alloc = format!("note={}", library.display());
    let words = ["replay", "app.allotrope", "--alloc", &alloc, "--runs", "1"];
    noted(&notes);
    allotrope_in(folder, &[], &words).ok();
    assert_eq!(noted(&notes), [["x=x", preload.as_str(), "x=x"]]);
}

#[test]
fn an_environment_that_is_too_large_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let program = compiled("environment.c");
    let words = ["record", "-q", "-o", "app.allotrope", "--"];
    let words = [&words[..], &[program.to_str().unwrap()]].concat();
    let value = "v".repeat(100_000);
    let large = ["A=", "B="].map(|name| format!("{name}{value}"));
    let large = large.each_ref().map(String::as_str);
    allotrope_in(folder, &large, &words).ok();
    // With such a stack a program may have no more than 128 KiB of arguments and environment.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "ulimit -s 512; exec \"$@\"", "sh"]);
    shell.arg(command().get_program());
    shell.args(["replay", "app.allotrope", "--alloc", "glibc"]);
    run(shell.current_dir(folder), b"").fails(
        2,
        "the environment is larger than a program may have here (ulimit -s)",
    );
}
