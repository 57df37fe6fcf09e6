//! Text of unknown origin is escaped before it is shown: the file, function, source
//! file, thread, window and output of a program contain escape sequences, newlines
//! followed by forged lines, C1 controls and bidirectional marks. Every command and
//! format is tried.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Ended, Text, check_each, command, compiled_with, record};
use serde_json::Value;
use tempfile::TempDir;

/// Name of a function in `names.c`.
const NASTY: &str = "\x1b[31m\nallotrope: FORGED\n::error::FORGED\u{9b}K\u{202e};x";
/// Beginning of [`NASTY`], as it must be shown.
const SHOWN: &str = r"\x1b[31m\nallotrope: FORGED\n::error::FORGED\u{9b}K\u{202e}";

/// Nothing in the text steers a terminal or reads backwards, and no line of it
/// is one that a name forged.
#[track_caller]
fn assert_harmless(bytes: &[u8], what: &str) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    let steers = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
    if let Some(at) = text.find(steers) {
        let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
        panic!("{what}: byte {at}: {:?}", text[start..].lines().next());
    }
    for line in text.lines() {
        let line = line.trim_start();
        let forged = line.starts_with("allotrope: FORGED") || line.starts_with("::error::FORGED");
        assert!(!forged, "{what}: {text}");
    }
}

fn allotrope(folder: &Path, words: &[&str]) -> Ended {
    crate::support::run(
        crate::support::record::command()
            .args(words)
            .current_dir(folder),
        b"",
    )
}

/// Builds of `names.c` in a folder, under a file name with control characters.
struct Programs {
    folder: TempDir,
    name: String,
}

impl Programs {
    /// A folder without a build yet.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self {
            folder,
            name: format!("names{NASTY}"),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// Compiles the program with these flags and renames the symbol of its function,
    /// which is the function's name if there is no debug information.
    fn build(&self, flags: &[&str]) {
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/client/include");
        let include = format!("-I{}", include.display());
        let flags: Vec<&str> = flags.iter().copied().chain([include.as_str()]).collect();
        let program = compiled_with("names.c", &flags);
        let renamed = Command::new("objcopy")
            .arg(format!("--redefine-sym=evil=evil{NASTY}"))
            .arg(program)
            .arg(self.path())
            .status();
        assert!(renamed.expect("binutils come with the compiler").success());
    }

    fn record(&self, trace: &str) -> PathBuf {
        let trace = self.folder.path().join(trace);
        let recording = record(self.path()).arg(NASTY).output(&trace).run();
        let recording = recording.ok();
        assert_harmless(recording.stderr.as_bytes(), "record");
        trace
    }
}

#[test]
fn reports_comparisons_and_exports() {
    for flags in [&["-g0"][..], &["-g"]] {
        let programs = Programs::new();
        programs.build(flags);
        let folder = programs.folder.path();
        let before = programs.record("before.allotrope");
        programs.build(&[flags, &["-DWORSE"]].concat());
        programs.record("after.allotrope");
        let report = crate::support::Report::of(&before);
        let process = report.only();
        // Without debug information, the function has the symbol's name.
        let function = match flags {
            ["-g0"] => format!("evil{NASTY}"),
            _ => "evil".to_owned(),
        };
        assert_eq!(process.under(&function).allocations, 10);
        let window = format!("w{NASTY}");
        let program = format!("./{}", programs.name);
        let lines = [
            "report BEFORE",
            "report BEFORE --lists",
            "report BEFORE --by function",
            "report BEFORE --format markdown",
            "show BEFORE site:1",
            "report BEFORE --all-frames",
            "report BEFORE --tree",
            "report BEFORE --tree top-down",
            "report BEFORE --format json",
            "report BEFORE --source",
            "report BEFORE --window WINDOW --run 1",
            "report BEFORE --site 1 --events",
            "diff BEFORE AFTER",
            "diff BEFORE AFTER --all-frames --expand",
            "diff BEFORE AFTER --format json",
            "diff BEFORE AFTER --window WINDOW",
            "diff BEFORE AFTER --fail-on allocations>+0",
            "diff BEFORE AFTER --flamegraph graph.svg",
            "export BEFORE --format folded",
            "export BEFORE --format stacks",
            "export BEFORE --format json",
            "export BEFORE --format dhat",
            "symbolize BEFORE --unverified",
            "doctor PROGRAM",
        ];
        let run = |line: &str| {
            let words = line.split(' ').map(|word| match word {
                "BEFORE" => "before.allotrope",
                "AFTER" => "after.allotrope",
                "WINDOW" => &window,
                "PROGRAM" => &program,
                word => word,
            });
            allotrope(folder, &words.collect::<Vec<_>>())
        };
        check_each(lines, |line| {
            let output = run(line);
            assert!(matches!(output.status.code(), Some(0 | 3)), "{output}");
            assert_harmless(&output.stdout, line);
            assert_harmless(&output.stderr, line);
            if line.contains("json") {
                output.json();
            }
        });
        let graph = fs::read(folder.join("graph.svg")).expect("it was written");
        assert_harmless(&graph, "graph.svg");
        // The whole name is shown, escaped.
        run("report BEFORE --all-frames").has(r"\x1b[31m");
        // A line a stack; the number is the last word of each.
        let folded = run("export BEFORE --format folded").text();
        if flags == ["-g0"] {
            folded.has(SHOWN);
        }
        let numbers = folded
            .lines()
            .map(|line| line.rsplit(' ').next().unwrap_or_default());
        let sum: u64 = numbers.map(|it| it.parse::<u64>().expect("a number")).sum();
        assert_eq!(sum, process.total("allocations"));
    }
}

#[test]
fn counts_by_thread() {
    let programs = Programs::new();
    programs.build(&["-g"]);
    let trace = programs.folder.path().join("trace");
    let recording = record(programs.path())
        .option("--counts-only")
        .output(&trace);
    let recording = recording.run().ok();
    assert_harmless(recording.stderr.as_bytes(), "record --counts-only");
    let output = allotrope(programs.folder.path(), &["report", "--lists", "trace"]);
    assert_harmless(&output.stdout, "report of counts");
}

#[test]
fn tests_and_their_logs() {
    let programs = Programs::new();
    programs.build(&["-g0"]);
    let folder = programs.folder.path();
    let toml = |argument: &str| {
        let command = [&format!("./{}", programs.name), argument];
        let command: Vec<String> = command.iter().map(|word| format!("{word:?}")).collect();
        // TOML escapes as Rust does, except for code points.
        let command = command.join(", ").replace("\\u{1b}", "\\u001B");
        let command = command
            .replace("\\u{9b}", "\\u009B")
            .replace("\\u{202e}", "\\u202E");
        format!("[defaults]\nruns = 1\nwarmup = 0\n[tests.names]\ncommand = [{command}]\n")
    };
    let test = |words: &[&str], status: &[i32]| {
        let output = allotrope(folder, &[&["test"], words].concat());
        let printed = output.errors();
        let code = output.status.code().unwrap_or(-1);
        assert!(status.contains(&code), "{words:?}: {code}: {printed}");
        assert_harmless(&output.stderr, &format!("{words:?}"));
        output.stdout
    };
    let write = |argument: &str| {
        fs::write(folder.join("allotrope.toml"), toml(argument)).expect("the folder is ours");
    };
    write("");
    assert_harmless(&test(&["--accept"], &[0]), "accept");
    programs.build(&["-g0", "-DWORSE"]);
    // A number that is exceeded, and a program that fails.
    for (argument, status) in [("", 3), ("fail", 5)] {
        write(argument);
        for format in ["text", "json", "junit", "markdown", "nio", "nio-newer"] {
            let bytes = test(&["--format", format, "--samples"], &[status]);
            assert_harmless(&bytes, format);
        }
        // Only the annotations themselves begin as commands do, not what names and the
        // program's output contain.
        let bytes = test(&["--format", "github"], &[status]);
        let text = String::from_utf8(bytes).expect("it is text");
        assert_harmless(text.as_bytes(), "github");
        assert!(
            text.lines().any(|line| line.starts_with("::error ")),
            "{text}"
        );
        text.lacks("##[");
        assert_harmless(&test(&["--list"], &[0]), "list");
    }
}

#[test]
fn error_messages_about_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let name = format!("missing{NASTY}");
    let bad = format!("text{NASTY}");
    fs::write(folder.path().join(&bad), "no trace\n").expect("the folder is ours");
    let option = format!("--{NASTY}");
    let commands = [
        &["report", &*name][..],
        &["report", &bad],
        &["report", &option],
        &["report", "x", &name],
        &["diff", &name, &bad],
        &["export", &bad, "--format", "folded"],
        &["export", &bad, "--format", &name],
        &["symbolize", &bad],
        &["record", "-o", &bad, "true"],
        &["record", &name],
        &["record", &bad],
        &["test", "--config", &name],
        &["test", "--config", &bad],
        &["doctor", &name],
        &["client-header", &bad],
    ];
    check_each(commands, |command| {
        let output = allotrope(folder.path(), command);
        assert_ne!(output.status.code(), Some(0), "{output}");
        assert_harmless(&output.stdout, "stdout");
        assert_harmless(&output.stderr, "stderr");
    });
}

/// A coloured report has no escape sequence of a name.
#[test]
fn colours_come_only_from_the_report() {
    let programs = Programs::new();
    programs.build(&["-g0"]);
    programs.record("trace");
    let command = ["report", "trace", "--lists", "--color", "always"];
    let text = allotrope(programs.folder.path(), &command).text();
    assert!(text.contains("\x1b[36m"), "it has colours: {text:?}");
    let without = ["0", "1", "2", "33", "36"].iter().fold(text, |text, code| {
        text.replace(&format!("\x1b[{code}m"), "")
    });
    assert_harmless(without.as_bytes(), "report in colours");
}

/// A function of `commands.c`, as a symbol can have it.
const COMMAND: &str = "##vso[task.complete]evil";

/// No line is a command of a CI system that a name has made.
#[track_caller]
fn assert_no_commands(bytes: &[u8], what: &str) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    for line in text.lines() {
        let command = ["##[", "##vso[", "##teamcity["];
        let has = command.iter().any(|command| line.contains(command));
        // The annotations of the format `github`.
        let own = what.contains("github") && line.starts_with("::error file=allotrope.toml,");
        let begins = line.trim_start().starts_with("::") && !own;
        assert!(!has && !begins, "{what}: {line}");
    }
}

/// Reported: a function's name gives the CI system commands (`::set-output`).
#[test]
fn ci_systems_find_no_commands_in_a_log() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/client/include");
    let include = format!("-I{}", include.display());
    let build = |flags: &[&str]| {
        let flags = [flags, &["-g0", include.as_str()]].concat();
        let renamed = Command::new("objcopy")
            .arg(format!("--redefine-sym=evil={COMMAND}"))
            .arg(compiled_with("commands.c", &flags))
            .arg(folder.join("commands"))
            .status();
        assert!(renamed.expect("binutils come with the compiler").success());
    };
    let run = |command: &[&str], status: i32| {
        let output = allotrope(folder, command).code(status);
        let what = format!("{command:?}");
        assert_no_commands(&output.stderr, &what);
        assert_no_commands(&output.stdout, &what);
        output.text()
    };
    // What the program prints passes as it is.
    let record_program = |trace: &str| {
        let recording = record(folder.join("commands"))
            .output(&folder.join(trace))
            .run();
        let recording = recording.ok();
        assert_no_commands(recording.stderr.as_bytes(), "record");
    };
    let configure = |argument: &str| {
        let program = folder.join("commands");
        let text = format!(
            "[defaults]\nruns = 1\nwarmup = 0\n[tests.commands]\ncommand = [{program:?}, {argument:?}]\n"
        );
        fs::write(folder.join("allotrope.toml"), text).expect("the folder is ours");
    };
    build(&[]);
    configure("");
    record_program("before");
    let accepted = run(&["test", "--accept"], 0);
    accepted.has(r"commands/##vso\[task.setvariable]c");
    // Readers of SwiftNIO's logs find the numbers: those of `--from-log` are the same.
    for format in ["nio", "nio-newer"] {
        let log = run(&["test", "--format", format], 0);
        for name in [
            r":\:set-output::a",
            r"##\[error]b",
            r"##vso\[task.setvariable]c",
            r"##teamcity\[d]",
        ] {
            let line = format!("\n{name}.total_allocations: 5\n");
            log.has(&line);
        }
        fs::write(folder.join("log"), log).expect("the folder is ours");
        run(&["test", "--from-log", "log"], 0);
    }
    build(&["-DWORSE"]);
    record_program("after");
    for (argument, status) in [("", 3), ("fail", 5)] {
        configure(argument);
        for format in ["text", "markdown", "nio", "nio-newer", "github", "junit"] {
            run(&["test", "--format", format, "--samples"], status);
        }
        let json = run(&["test", "--format", "json"], status);
        let json: Value = serde_json::from_str(&json).expect("it is JSON");
        let names = json["tests"][0]["cases"].as_array().expect("a list");
        let names: Vec<&str> = names.iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(names.len(), if argument.is_empty() { 4 } else { 0 });
        if argument.is_empty() {
            assert!(names.contains(&"commands/##teamcity[d]"), "{names:?}");
        }
    }
    let lines = [
        "report before",
        "report before --lists --all-frames",
        "report before --tree",
        "report before --format markdown",
        "show before site:1",
        "diff before after --all-frames",
        "diff before after --format sections",
    ];
    check_each(lines, |line| {
        let words: Vec<&str> = line.split(' ').collect();
        run(&words, 0).has(r"##vso\[task.complete]");
    });
    let json = run(&["report", "before", "--format", "json"], 0);
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    json.to_string().has(COMMAND);
    // A file's name, in a message and in a usage error.
    run(&["report", "##vso[x]"], 2);
    run(&["report", "before", "##vso[x]"], 2);
    configure("");
    for git in [
        &["init", "--quiet"][..],
        &["config", "user.name", "somebody"],
        &["config", "user.email", "somebody@localhost"],
        &["add", "allotrope.toml"],
        &["commit", "--quiet", "-m", "first"],
    ] {
        let status = Command::new("git").args(git).current_dir(folder).status();
        assert!(status.expect("git is installed").success());
    }
    for format in ["text", "markdown", "github", "json"] {
        let mut compare = command();
        compare
            .args(["compare", "HEAD", "HEAD", "--format", format])
            .env("XDG_CACHE_HOME", folder.join("cache"))
            .current_dir(folder);
        let output = crate::support::run(&mut compare, b"").ok();
        assert_no_commands(&output.stdout, &format!("compare as {format}"));
        output.has("teamcity");
    }
}
