//! jemalloc and tcmalloc, linked into a C++ program that knows nothing of Allotrope:
//! every call is recorded exactly (`programs/linked_allocator.cc`).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Recording, Text, allotrope, compiled_with, record, skip};

const SOURCE: &str = "linked_allocator.cc";
const FOLDER: &str = "/usr/lib/x86_64-linux-gnu";

/// An allocator's archive, the flags with which it is linked, and the Debian package.
struct Linked {
    name: &'static str,
    archive: &'static str,
    package: &'static str,
    define: &'static str,
}

const JEMALLOC: Linked = Linked {
    name: "jemalloc",
    archive: "libjemalloc.a",
    package: "libjemalloc-dev",
    define: "-DJEMALLOC",
};
const TCMALLOC: Linked = Linked {
    name: "tcmalloc",
    archive: "libtcmalloc_minimal.a",
    package: "libgoogle-perftools-dev",
    define: "-DTCMALLOC",
};

impl Linked {
    /// The program with the allocator, if the package is installed.
    fn program(&self, more: &[&str]) -> Option<PathBuf> {
        let archive = Path::new(FOLDER).join(self.archive);
        if !archive.exists() {
            skip(&format!("Debian's {} is not installed", self.package));
            return None;
        }
        let archive = archive.display();
        let link = format!("-Wl,--whole-archive,{archive},--no-whole-archive");
        let flags = [self.define, &link, "-lm", "-ldl"];
        Some(compiled_with(SOURCE, &[&flags, more].concat()))
    }
}

/// Function, allocations and bytes.
const TRUTH: [(&str, u64, u64); 10] = [
    ("plain", 10, 70),
    ("zeroed", 20, 300),
    ("grown", 2, 5100),
    ("fresh", 3, 36),
    ("aligned", 11, 798),
    ("failed", 1, 8),
    ("library", 4, 44),
    ("operators", 170, 4200),
    ("after_exception", 6, 54),
    ("thread_work", 4000, 64_000),
];
const TRUTH_OF_JEMALLOC: [(&str, u64, u64); 4] = [
    ("sized", 30, 720),
    ("resized", 2, 5100),
    ("in_place", 2, 210),
    ("aligned_to_page", 5, 240),
];

fn expect_no_warning(recording: &Recording) {
    let printed = &recording.stderr;
    printed.lacks("warning");
}

fn expect_truth(linked: &Linked, more: &[&str]) {
    let Some(program) = linked.program(more) else {
        return;
    };
    let recording = record(&program).run().ok();
    expect_no_warning(&recording);
    let report = recording.report();
    let processes = report.processes();
    assert_eq!(processes.len(), 2, "{}", report.summary());
    let (parent, child) = (&processes[0], &processes[1]);
    assert_eq!(parent.number("lost_events"), 0, "{}", report.summary());
    let own = match linked.define {
        "-DJEMALLOC" => &TRUTH_OF_JEMALLOC[..],
        _ => &[],
    };
    for (function, allocations, bytes) in TRUTH.iter().chain(own) {
        let found = parent.under(function);
        let seen = (found.allocations, found.bytes, found.leaked);
        let summary = report.summary();
        assert_eq!(seen, (*allocations, *bytes, 0), "{function}: {summary}");
    }
    let found = child.under("child_work");
    let seen = (found.allocations, found.bytes, found.leaked);
    assert_eq!(seen, (30, 390, 30), "{}", report.summary());
    // The stack begins in the function that calls the allocator.
    let found = parent.where_stack(|stack| stack[0]["function"] == "plain");
    assert_eq!(found.allocations, 10, "{}", report.summary());

    let counted = record(&program).option("--counts-only").run();
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
fn jemalloc() {
    expect_truth(&JEMALLOC, &[]);
}

#[test]
fn tcmalloc() {
    expect_truth(&TCMALLOC, &[]);
}

#[test]
fn programs_at_a_fixed_address() {
    expect_truth(&JEMALLOC, &["-no-pie"]);
    expect_truth(&TCMALLOC, &["-no-pie"]);
}

/// The names of the functions are gone, except those that libraries call.
#[test]
fn stripped_programs_are_reported() {
    for linked in [JEMALLOC, TCMALLOC] {
        let Some(program) = linked.program(&["-s"]) else {
            continue;
        };
        let recording = record(&program).run().ok();
        let what = format!("has {} linked into it", linked.name);
        let printed = &recording.stderr;
        printed.has(&what);
        printed.has("stripped");
        allotrope(["doctor".as_ref(), program.as_os_str()]).has("are stripped");
    }
}

#[test]
fn doctor_tells_beforehand() {
    for linked in [JEMALLOC, TCMALLOC] {
        let Some(program) = linked.program(&[]) else {
            continue;
        };
        let printed = allotrope(["doctor".as_ref(), program.as_os_str()]).text();
        let line = printed.lines().find(|line| line.contains("  allocator  "));
        let line = line.unwrap_or_else(|| panic!("no allocator in {printed}"));
        assert!(line.starts_with("ok"), "{line}");
        let what = format!("{} is linked into the program; its calls are", linked.name);
        line.has(&what);
    }
}

/// A child that is not the recording's first program, as rustup's rustc is.
#[test]
fn a_program_that_another_executes() {
    let Some(program) = JEMALLOC.program(&[]) else {
        return;
    };
    let script = format!("exec {}", program.display());
    let recording = record("/bin/sh").args(["-c", &script]).run();
    let recording = recording.ok();
    // The shell may have no symbols, which is a warning.
    let warnings = recording.stderr.matches("warning").count();
    let nameless = recording.stderr.matches("its file has no symbols").count();
    assert_eq!(warnings, nameless, "{}", recording.stderr);
    let report = recording.report();
    let processes = report.processes();
    let found = processes.iter().map(|process| process.under("plain").bytes);
    assert_eq!(found.sum::<u64>(), 70, "{}", report.summary());
}

/// Where no page may become executable nothing is patched, and the program runs.
#[test]
fn a_process_that_may_not_change_code() {
    let Some(program) = JEMALLOC.program(&[]) else {
        return;
    };
    let denying = compiled_with("deny_code_changes.c", &[]);
    let denied = Command::new(&denying).arg("/bin/true").status();
    if denied.ok().and_then(|status| status.code()) == Some(77) {
        return skip("the kernel refuses a seccomp filter");
    }
    let recording = record(&denying).arg(&program).run().ok();
    let printed = &recording.stderr;
    printed.has("malloc of its own");
}

/// rustc, with jemalloc: the numbers that gdb counts (`programs/count_calls.py`).
#[test]
fn the_rust_compiler() {
    let root = Command::new("rustc").args(["--print", "sysroot"]).output();
    let root = String::from_utf8(root.expect("cargo runs it").stdout).expect("UTF-8");
    let compiler = Path::new(root.trim()).join("bin/rustc");
    let script = crate::support::source_path("count_calls.py");
    let counted = Command::new("gdb")
        .args(["-nx", "-q", "-batch", "-x"])
        .arg(script)
        .arg("--args")
        .args([compiler.as_os_str(), "--version".as_ref()])
        .output();
    let Ok(counted) = counted else {
        return skip("gdb is not installed");
    };
    let printed = String::from_utf8_lossy(&counted.stdout);
    let counts = printed
        .lines()
        .find_map(|line| line.strip_prefix("counted "));
    let Some(counts) = counts else {
        return skip(&format!("the kernel refuses gdb its work: {printed}"));
    };
    if counts.starts_with("allocations=0 ") {
        return skip("this rustc has no allocator of its own");
    }
    // The compiler exits while one of its threads still starts, so a run may have a few
    // allocations less than under gdb, which stops all threads at each call.
    let mut seen = Vec::new();
    for _ in 0..50 {
        // It copies variables of the environment, and gdb sets these two.
        let recording = record(&compiler)
            .env("LINES", "24")
            .env("COLUMNS", "80")
            .arg("--version")
            .run()
            .ok();
        expect_no_warning(&recording);
        let report = recording.report();
        let process = report.only();
        let totals = ["allocations", "deallocations", "reallocations"]
            .map(|name| format!("{name}={}", process.total(name)));
        let totals = totals.join(" ");
        if totals == counts {
            return;
        }
        seen.push(totals);
    }
    panic!("gdb counted {counts}, and none of these recordings has that: {seen:?}");
}
