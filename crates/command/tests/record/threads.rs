//! Several threads at once, counted exactly: `programs/threads.c`.

use crate::support::{Report, Text, allotrope, compiled, record, run};

fn report(case: &str) -> Report {
    let report = record(compiled("threads.c")).arg(case).run().ok().report();
    for process in report.processes() {
        assert_eq!(process.number("lost_events"), 0, "{}", report.summary());
    }
    report
}

#[test]
fn eight_threads_are_exact() {
    let report = report("exact");
    let churn = report.only().under("churn");
    assert_eq!(churn.allocations, 8 * 20_001);
    assert_eq!(churn.bytes, 8 * (20_000 * 32 + 1_000));
    assert_eq!(churn.temporary, 8 * 20_000);
    assert_eq!((churn.leaked, churn.leaked_bytes), (8, 8_000));
}

#[test]
fn stacks_of_threads_end_at_the_thread_start() {
    let report = report("exact");
    let process = report.only();
    for site in process.sites_under("churn") {
        let functions = process.functions(site);
        assert_eq!(functions[0], "churn");
        let outermost = *functions.last().expect("it has frames");
        assert!(
            functions.len() <= 3 && !functions.contains(&"main"),
            "churn, the thread's start, its clone: {functions:?}"
        );
        assert!(
            outermost.contains("clone") || outermost.starts_with("libc.so.6+0x"),
            "{functions:?}"
        );
    }
}

#[test]
fn freed_by_another_thread() {
    let report = report("handover");
    let process = report.only();
    let produced = process.under("produce");
    assert_eq!((produced.allocations, produced.bytes), (5_000, 120_000));
    assert_eq!((produced.leaked, produced.temporary), (0, 0));
    assert_eq!(process.number("ambiguous_events"), 0);
}

#[test]
fn five_hundred_short_threads() {
    let report = report("many");
    let brief = report.only().under("brief");
    assert_eq!((brief.allocations, brief.bytes), (1_500, 72_000));
    assert_eq!((brief.leaked, brief.leaked_bytes), (500, 24_000));
    assert_eq!(brief.temporary, 1_000);
}

#[test]
fn key_destructors_are_recorded() {
    let report = report("keys");
    let process = report.only();
    let keyed = process.under("keyed");
    assert_eq!((keyed.allocations, keyed.bytes), (4, 4 * 56));
    assert_eq!((keyed.leaked, keyed.temporary), (0, 4));
    let destructor = process.under("destructor");
    assert_eq!((destructor.allocations, destructor.bytes), (4, 4 * 64));
    assert_eq!(destructor.leaked, 4);
}

#[test]
fn an_end_in_the_middle_of_other_threads() {
    let report = report("cut");
    let process = report.only();
    let counted = process.under("counted");
    assert_eq!((counted.allocations, counted.bytes), (1_000, 88_000));
    assert_eq!(counted.leaked, 1_000);
    let forever = process.under("forever");
    assert!(forever.allocations > 0, "they ran for 20 ms");
    assert!(forever.leaked <= 4, "one a thread at most: {forever:?}");
}

/// Events of the first thread from before there was a second are never ordered after
/// those of the second, although a single thread emits few timestamps.
#[test]
fn a_second_thread_that_comes_late() {
    for case in ["late", "late_child"] {
        for _ in 0..4 {
            let report = report(case);
            let processes = report.processes();
            let process = processes.last().expect("the child or the only one");
            let (first, second) = (process.under("first"), process.under("second"));
            assert_eq!((first.allocations, first.leaked), (40_050, 0), "{case}");
            assert_eq!((second.allocations, second.leaked), (50, 50), "{case}");
            assert_eq!((first.at_peak, second.at_peak), (0, 50), "{case}");
            assert_eq!(process.number("ambiguous_events"), 0, "{case}");
        }
    }
}

#[test]
fn a_second_thread_that_joins_in() {
    for _ in 0..4 {
        let report = report("joined");
        let process = report.only();
        let (busy, joining) = (process.under("busy"), process.under("joining"));
        assert_eq!((busy.allocations, busy.leaked), (40_000, 0));
        assert_eq!((joining.allocations, joining.leaked), (20_000, 0));
    }
}

#[test]
fn the_smallest_stack() {
    let report = report("small_stack");
    let narrow = report.only().under("narrow");
    assert_eq!((narrow.allocations, narrow.bytes), (1, 96));
}

#[test]
fn names_of_threads_are_shown() {
    let recording = record(compiled("threads.c")).arg("names").run().ok();
    let report = recording.report();
    assert_eq!(report.only().under("named").allocations, 2);
    // Sites are numbered from 1 in the order of the text report.
    let mut shown = String::new();
    for site in 1..=report.only().sites().len() {
        let output = allotrope([
            "report".as_ref(),
            recording.trace.as_os_str(),
            "--site".as_ref(),
            site.to_string().as_ref(),
            "--events".as_ref(),
        ])
        .ok();
        shown += &output.text();
    }
    shown.has_all(["spinner-one", "spinner-two"]);
}

/// The recorder's thread-local storage is one module more. It must not make what glibc
/// allocates for a thread larger.
///
/// Reported: a thread's vector has another size when it is recorded.
#[test]
fn thread_vectors_are_as_large_as_without_the_recorder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = folder.path().join("liblogs.so");
    let made = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(crate::support::compile::source_path("logs_calloc.c"))
        .status();
    assert!(made.is_ok_and(|made| made.success()), "it can be compiled");
    let program = compiled("thread_vectors.c");
    let logged = run(
        std::process::Command::new(&program).env("LD_PRELOAD", &library),
        b"",
    )
    .errors();
    let sizes: Vec<u64> = logged
        .lines()
        .map(|line| line.parse().unwrap_or_else(|_| panic!("{logged}")))
        .collect();
    if sizes.is_empty() {
        return crate::support::skip("this loader does not allocate them by calloc");
    }
    assert_eq!(sizes.len(), 5, "{logged}");
    for option in ["--quiet", "--counts-only"] {
        let report = record(&program).option(option).run().ok().report();
        let process = report.only();
        if option == "--counts-only" {
            let expected = sizes.iter().sum::<u64>() + 7 * 160;
            assert_eq!(process.total("allocated_bytes"), expected);
            continue;
        }
        let started = process.under("start_threads");
        let made = process.under("make_pairs");
        assert_eq!(started.allocations, 5);
        assert_eq!(started.bytes, sizes.iter().sum::<u64>());
        assert_eq!((made.allocations, made.bytes), (7, 7 * 160));
    }
}

/// The name of each thread of `programs/thread_names.c` that works, and its number: that of its
/// allocations above 100.
fn numbered_names(case: &str) -> Vec<(String, u64)> {
    let recording = record(compiled("thread_names.c")).arg(case).run();
    let report = recording.ok().report();
    let mut names = Vec::new();
    for process in report.processes() {
        assert_eq!(process.number("lost_events"), 0, "{}", report.summary());
        let threads = process.json["threads"].as_array().expect("a list");
        for thread in threads {
            let allocations = thread["allocations"].as_u64().expect("a number");
            if let Some(number) = allocations.checked_sub(100) {
                let name = thread["name"].as_str().expect("a text");
                names.push((name.to_owned(), number));
            }
        }
    }
    names.sort_by_key(|(_, number)| *number);
    names
}

fn expect_40_names(case: &str) {
    let expected: Vec<_> = (0..40).map(|n| (format!("resize-{n}"), n)).collect();
    assert_eq!(numbered_names(case), expected, "{case}");
}

/// Reported: threads that live shortly have no names.
#[test]
fn threads_that_end_at_once_have_their_names() {
    for case in [
        "pthread",
        "prctl",
        "syscall",
        "file",
        "twice",
        "file-raw-exit",
    ] {
        expect_40_names(case);
    }
    // The first `pthread_exit` loads a library, which allocates.
    let names = numbered_names("exit").into_iter().map(|(name, _)| name);
    let mut names: Vec<_> = names.collect();
    let mut expected: Vec<_> = (0..40).map(|n| format!("resize-{n}")).collect();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
}

/// Reported: threads that live shortly have no names.
#[test]
fn threads_without_a_name_of_their_own_have_that_of_their_creator() {
    let expected: Vec<_> = (0..40).map(|n| ("creator".to_owned(), n)).collect();
    assert_eq!(numbered_names("unnamed"), expected);
}

#[test]
fn threads_that_another_one_names_have_their_names() {
    expect_40_names("others");
    // The process ends while they live.
    expect_40_names("alive");
}

/// Nobody but the kernel notices that a comm file is written, and the process ends at once.
#[test]
fn threads_that_live_at_the_end_have_the_names_in_their_comm_files() {
    for end in ["exit", "_exit", "quick_exit", "exit_group"] {
        expect_40_names(&format!("alive-{end}"));
    }
}

#[test]
fn threads_of_children_that_end_at_once_have_their_names() {
    expect_40_names("children");
}

/// The kernel ends the program if the recorder asks it for a name.
#[test]
fn threads_have_their_names_behind_a_filter_of_system_calls() {
    let probe = record(compiled("thread_names.c")).arg("filter").plain();
    if probe.status.code() == Some(96) {
        return crate::support::skip("the kernel refuses a seccomp filter");
    }
    expect_40_names("filter");
    expect_40_names("filter-by-syscall");
}

#[test]
fn a_program_finds_keys_and_errors_as_without_a_recording() {
    let described = record(compiled("thread_names.c")).arg("behave");
    let plain = described.plain();
    let recording = described.run().ok();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&recording.stdout), text(&plain.stdout));
}
