//! Installed programs: with a recording their output and exit status are the same as
//! without, no event is lost, and their stacks are whole. A program that is not
//! installed is skipped by name.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::report::text;
use crate::support::{Process, Record, Report, compiled, compiled_with, record, run, skip};

/// Functions at which the stack of a whole program begins: its entry, or the
/// C library's start of a thread.
const ROOTS: &[&str] = &[
    "_start",
    "main",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "start_thread",
    "clone",
    "clone3",
    "__clone3",
];

/// The path of a program; `None`, reported as skipped, if it is not installed.
fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file());
    if found.is_none() {
        skip(&format!("{name} is not installed"));
    }
    found
}

/// The interpreter itself: the first `python3` found may be a script around it.
fn python() -> Option<PathBuf> {
    let output = Command::new(installed("python3")?)
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .ok()?;
    let printed = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(printed.trim_end()))
}

/// Runs a program plain and recorded, and checks for every recorded image what the
/// head of this file promises.
fn expect_unchanged(run: Record, stdin: &[u8]) -> Report {
    let run = run.stdin(stdin);
    let plain = run.plain();
    let recorded = run.run();
    assert_eq!(
        recorded.status.code(),
        plain.status.code(),
        "{}",
        recorded.stderr
    );
    assert_eq!(recorded.text(), plain.text());
    let report = recorded.report();
    for process in report.processes() {
        assert_eq!(process.number("lost_events"), 0, "{}", report.summary());
        assert_eq!(process.json["complete"], true, "{}", report.summary());
        expect_whole_stacks(&process);
    }
    report
}

/// Expects that at least 99 of 100 allocations have a stack that reaches the program's start.
fn expect_whole_stacks(process: &Process<'_>) {
    let total = process.total("allocations");
    let whole = process.where_stack(|stack| {
        stack
            .iter()
            .any(|frame| ROOTS.contains(&text(frame, "function")))
    });
    if whole.allocations * 100 >= total * 99 {
        return;
    }
    let mut rest: Vec<_> = process
        .sites()
        .iter()
        .map(|site| {
            (
                site["allocations"].as_u64().unwrap_or(0),
                process.functions(site),
            )
        })
        .filter(|(_, functions)| !functions.iter().any(|f| ROOTS.contains(f)))
        .collect();
    rest.sort_by_key(|(allocations, _)| std::cmp::Reverse(*allocations));
    rest.truncate(3);
    panic!(
        "{:?}: {} of {total} allocations have whole stacks; without: {rest:#?}",
        process.command(),
        whole.allocations
    );
}

const PYTHON: &str = "
import json, re
text = json.dumps([{'name': f'n{i}', 'values': list(range(i % 50))} for i in range(2000)])
print(len(json.loads(text)), len(re.findall('n[0-9]+', text)))
";

#[test]
fn python_json_and_re() {
    let Some(python) = python() else { return };
    for malloc in ["default", "malloc"] {
        let run = record(&python)
            .args(["-c", PYTHON])
            .env("PYTHONMALLOC", malloc)
            .env("PYTHONHASHSEED", "0");
        let report = expect_unchanged(run, b"");
        let allocations = report.processes()[0].total("allocations");
        if malloc == "malloc" {
            assert!(allocations > 50_000, "every object is one: {allocations}");
        }
    }
}

#[test]
fn sqlite_in_memory() {
    let Some(sqlite) = installed("sqlite3") else {
        return;
    };
    let statements = b"create table t (a integer primary key, b text);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
        insert into t select i, 'text ' || i || hex(i * i) from n;
        create index by_b on t (b);
        select count(*), sum(length(b)), max(b) from t;
        select b from t where a % 1000 = 7 order by b desc;\n";
    let report = expect_unchanged(record(sqlite).arg(":memory:"), statements);
    assert!(report.only().total("allocations") > 1_000);
}

#[test]
fn the_compiler_driver_and_what_it_starts() {
    let Some(compiler) = installed("g++") else {
        return;
    };
    let run = record(compiler)
        .args(["-std=gnu++17", "-O1", "-S", "-o", "-"])
        .arg(crate::support::compile::source_path("heavy.cc"));
    let report = expect_unchanged(run, b"");
    let found = report
        .processes()
        .iter()
        .filter(|p| {
            p.command()
                .first()
                .is_some_and(|word| word.ends_with("cc1plus"))
        })
        .map(|p| p.total("allocations"))
        .sum::<u64>();
    assert!(found > 10_000, "{}", report.summary());
}

#[test]
fn the_program_that_the_compiler_made() {
    let program = compiled_with("heavy.cc", &["-O2"]);
    let report = expect_unchanged(record(program), b"");
    let process = report.only();
    let expressions = process.where_stack(|stack| {
        stack
            .iter()
            .any(|frame| text(frame, "function").starts_with("std::__detail::_Compiler"))
    });
    assert!(expressions.allocations > 10, "a regex is many blocks");
    assert_eq!(expressions.leaked, 0, "and frees them");
}

#[test]
fn git_log_and_status() {
    let Some(git) = installed("git") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    prepare_repository(&git, folder.path());
    for arguments in [
        &["log", "--stat", "--no-color"][..],
        &["status", "--porcelain=v2", "--branch"],
        &["grep", "-n", "line 7"],
    ] {
        let run = in_repository(record(&git), folder.path()).args(arguments);
        let report = expect_unchanged(run, b"");
        assert!(report.processes()[0].total("allocations") > 100);
    }
}

/// Runs in the repository, without settings of the machine and the user.
fn in_repository(run: Record, folder: &Path) -> Record {
    run.arg("-C")
        .arg(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_PAGER", "cat")
}

fn prepare_repository(git: &Path, folder: &Path) {
    let run = |arguments: &[&str]| {
        let output = run(
            Command::new(git)
                .arg("-C")
                .arg(folder)
                .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
                .args(arguments)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_NOSYSTEM", "1"),
            b"",
        );
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
    };
    run(&["init", "-q"]);
    for commit in 0..20 {
        for name in ["one", "two", "three"] {
            let lines: String = (0..50)
                .map(|i| format!("line {} of {name}\n", i * commit))
                .collect();
            std::fs::write(folder.join(name), lines).expect("the folder is ours");
        }
        run(&["add", "."]);
        run(&["commit", "-q", "-m", &format!("commit {commit}")]);
    }
    std::fs::write(folder.join("one"), "changed\n").expect("the folder is ours");
    std::fs::write(folder.join("new"), "new\n").expect("the folder is ours");
}

#[test]
fn jq() {
    let Some(jq) = installed("jq") else { return };
    let items: Vec<String> = (0..2_000)
        .map(|i| format!("{{\"id\":{i},\"tags\":[\"a{}\",\"b\"]}}", i % 7))
        .collect();
    let input = format!("[{}]", items.join(","));
    let run = record(jq).args([
        "-c",
        "group_by(.tags[0]) | map({tag: .[0].tags[0], n: length})",
    ]);
    let report = expect_unchanged(run, input.as_bytes());
    assert!(report.only().total("allocations") > 10_000);
}

#[test]
fn a_rust_program() {
    let report = expect_unchanged(record(compiled("collections.rs")), b"");
    let process = report.only();
    assert!(process.total("allocations") > 10_000);
    assert!(process.under("collections::parse").allocations > 10_000);
}
