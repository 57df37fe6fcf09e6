//! Programs that export `malloc` and `free` of an allocator that Allotrope does not know, as an
//! author's benchmark of their allocator does: every call is recorded exactly
//! (`programs/exporting_allocator.cc`), and counted as the program itself counts it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Recording, Text, allotrope, compiled, compiled_with, record, skip};

const SOURCE: &str = "exporting_allocator.cc";
/// The functions of the allocator are jumps to inner ones.
const OPTIMISED: [&str; 2] = ["-O2", "-foptimize-sibling-calls"];

/// Function, allocations and bytes.
const TRUTH: [(&str, u64, u64); 9] = [
    ("plain", 10, 70),
    ("zeroed", 20, 300),
    ("grown", 2, 5100),
    ("fresh", 3, 36),
    ("aligned", 7, 596),
    ("failed", 1, 8),
    ("library", 4, 44),
    ("operators", 120, 1000),
    ("thread_work", 4000, 64_000),
];

fn program(more: &[&str]) -> PathBuf {
    compiled_with(SOURCE, &[&OPTIMISED, more].concat())
}

/// The number after `name=` in the program's output.
fn counted(recording: &Recording, name: &str) -> u64 {
    let output = recording.ended.text();
    let mut words = output.split_whitespace();
    let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.and_then(|it| it.parse().ok()).expect("it prints it")
}

fn expect_truth(program: &Path) {
    let recording = record(program).run().ok();
    recording.stderr.lacks("warning");
    let report = recording.report();
    let processes = report.processes();
    assert_eq!(processes.len(), 2, "{}", report.summary());
    let (parent, child) = (&processes[0], &processes[1]);
    assert_eq!(parent.number("lost_events"), 0, "{}", report.summary());
    for (function, allocations, bytes) in TRUTH {
        let found = parent.under(function);
        let seen = (found.allocations, found.bytes, found.leaked);
        let summary = report.summary();
        assert_eq!(seen, (allocations, bytes, 0), "{function}: {summary}");
    }
    let found = child.under("child_work");
    let seen = (found.allocations, found.bytes, found.leaked);
    assert_eq!(seen, (30, 390, 30), "{}", report.summary());
    // The stack begins in the function that calls the allocator.
    let found = parent.where_stack(|stack| stack[0]["function"] == "plain");
    assert_eq!(found.allocations, 10, "{}", report.summary());
    // Whatever is called from `main` and its threads is what the allocator counted there, and the
    // blocks that threads allocate in the C library.
    let within = |frame: &str| parent.under(frame).allocations;
    let own = counted(&recording, "allocations") + counted(&recording, "reallocations");
    // The line that the program prints is written to a block of the C library's.
    let printed = 1;
    assert_eq!(within("main") + within("thread_work"), own + printed);

    let counted = record(program).option("--counts-only").run();
    let counted = counted.ok().report();
    for (counted, recorded) in counted.processes().iter().zip(&processes) {
        for name in [
            "allocations",
            "deallocations",
            "reallocations",
            "allocated_bytes",
        ] {
            let seen = (name, counted.total(name));
            assert_eq!(seen, (name, recorded.total(name)));
        }
    }
}

#[test]
fn a_position_independent_program() {
    expect_truth(&program(&["-fPIE", "-pie"]));
}

#[test]
fn a_program_at_a_fixed_address() {
    expect_truth(&program(&["-fno-pie", "-no-pie"]));
}

/// The symbols that the loader needs are left.
#[test]
fn a_stripped_program() {
    let recording = record(program(&["-s"])).run().ok();
    recording.stderr.lacks("blocks cannot be seen");
    let report = recording.report();
    let own = counted(&recording, "allocations");
    let process = &report.processes()[0];
    let seen = process.total("allocations");
    // Those of the C and C++ libraries' constructors come besides.
    assert!(
        (own..own + 5).contains(&seen),
        "{own}: {}",
        report.summary()
    );
}

#[test]
fn a_child_that_another_program_executes() {
    let recording = record(compiled("starting.c"))
        .args(["execv", "-"])
        .arg(compiled_with("own_malloc.c", &[]))
        .run()
        .code(5);
    recording.stderr.lacks("of its own");
    let report = recording.report();
    let processes = report.processes();
    let found: u64 = processes.iter().map(|it| it.under("main").bytes).sum();
    // `own_malloc.c` allocates 7 bytes.
    assert_eq!(found, 7, "{}", report.summary());
}

#[test]
fn doctor_tells_beforehand() {
    let printed = allotrope(["doctor".as_ref(), program(&[]).as_os_str()]).text();
    let line = printed.lines().find(|line| line.contains("  allocator  "));
    let line = line.unwrap_or_else(|| panic!("no allocator in {printed}"));
    assert!(line.starts_with("ok"), "{line}");
    // malloc, free, calloc, realloc, aligned_alloc and posix_memalign.
    line.has("an allocator of its own is linked into the program; its calls are recorded by patching 6 entry points");
}

/// A sanitizer's `malloc` stays as it is, also that of a child, whose file the command does not
/// inspect.
#[test]
fn sanitizers_are_not_patched() {
    let folder = tempfile::tempdir().expect("there is room");
    for sanitizer in ["address", "thread", "leak"] {
        let program = folder.path().join(sanitizer);
        let made = Command::new("clang")
            .arg(format!("-fsanitize={sanitizer}"))
            .arg(crate::support::source_path("showing.c"))
            .arg("-w")
            .arg("-o")
            .arg(&program)
            .output();
        if !made.is_ok_and(|made| made.status.success()) {
            skip(&format!("clang has no {sanitizer} sanitizer here"));
            continue;
        }
        allotrope(["record".as_ref(), "--".as_ref(), program.as_os_str()])
            .code(125)
            .says("linked into it, whose malloc is called instead of the recorder's");
        let script = format!("{}; true", program.display());
        let recording = record("/bin/sh").args(["-c", &script]).run().ok();
        let report = [
            "report".as_ref(),
            "--lists".as_ref(),
            recording.trace.as_os_str(),
        ];
        let printed = allotrope(report).text();
        let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        printed.has("a malloc of its own");
    }
}
