//! Code without a name stands for what it allocates, and no caller in another module does; a
//! function of its own module does that has a name and is near (`run`): on small
//! programs in `programs/nameless`. They were written after the rule; one of them,
//! `everything.c`, led to a change of it. The head of each says what is stripped, how the library
//! is called, and which code has to head the stack of its 300 allocations.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{allotrope, record, source_path, source_text};

const FOLDER: &str = "nameless";
const FLAGS: [&str; 9] = [
    "-std=gnu17",
    "-g",
    "-O1",
    "-fno-builtin",
    "-fno-optimize-sibling-calls",
    "-pthread",
    "-w",
    "-rdynamic",
    "-Wl,--build-id=none",
];

/// The value of a line of the head: `// NAME value`.
fn value<'t>(text: &'t str, name: &str) -> &'t str {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("// "));
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name}"))
}

fn compile(source: &Path, flags: &[&str], to: &Path) {
    let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    command
        .args(FLAGS)
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(to);
    let done = command.status().expect("a C compiler is there");
    assert!(done.success(), "{command:?}");
}

/// The code at the head of the stack of 300 allocations.
fn head(trace: &Path) -> String {
    let trace = trace.to_str().expect("plain names");
    let text = allotrope(["report", "--lists", "--metric", "allocations", trace]).text();
    let is_it = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|it| it.starts_with('#')) && words.next() == Some("300")
    };
    let line = text.lines().find(is_it);
    let line = line.unwrap_or_else(|| panic!("{text}"));
    line.split("  ")
        .last()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Reported: a caller is blamed for what a stripped plugin allocates.
#[test]
fn no_caller_is_blamed_for_code_without_a_name() {
    let mut names: Vec<String> = fs::read_dir(source_path(FOLDER))
        .expect("the folder of programs")
        .filter_map(|entry| entry.expect("an entry").file_name().into_string().ok())
        .filter(|name| name.ends_with(".c"))
        .collect();
    names.sort();
    let mut wrong = Vec::new();
    for name in &names {
        let name = format!("{FOLDER}/{name}");
        let (text, source) = (source_text(&name), source_path(&name));
        let strip = |what: &str| match value(&text, "STRIP") {
            it if it == what || it == "both" => "-s",
            _ => "-g",
        };
        let run = record("./program");
        let library = run.folder().join(value(&text, "LIBRARY"));
        let flags = ["-DLIBRARY", "-shared", "-fPIC", strip("library")];
        compile(&source, &flags, &library);
        let program = run.folder().join("program");
        compile(&source, &[strip("program")], &program);
        let recording = run.arg(&library).run().ok();
        let (expected, found) = (value(&text, "HEAD"), head(&recording.trace));
        if !found.starts_with(expected) {
            wrong.push(format!("{name}: {found} in place of {expected}"));
        }
    }
    println!("{} of {}", names.len() - wrong.len(), names.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}
