//! Windows of real programs, counted exactly: `programs/windows.c`.

use std::path::Path;

use crate::support::{Recording, compiled, record};
use allotrope_profile::{
    Options, Process, Profile, QuietWait, WindowFigures, WindowRun, aggregate,
};
use allotrope_trace::TraceReader;
use allotrope_trace::model::Exit;

fn recorded(arguments: &[&str]) -> Recording {
    record(compiled("windows.c")).args(arguments).run()
}

fn profile(recording: &Recording) -> Profile {
    let trace = TraceReader::open(&recording.trace).expect("the trace opens");
    let profile = aggregate(&trace, &Options::default()).expect("the trace can be aggregated");
    assert!(!profile.processes.is_empty(), "{}", recording.stderr);
    for process in &profile.processes {
        assert_eq!(process.lost_events, 0, "{}", recording.stderr);
    }
    profile
}

/// The only process of a program that ended with 0.
fn process(arguments: &[&str]) -> Process {
    let recording = recorded(arguments).ok();
    let mut processes = profile(&recording).processes;
    assert_eq!(processes.len(), 1);
    processes.remove(0)
}

fn window<'p>(process: &'p Process, name: &str) -> &'p WindowRun {
    let mut named = process.windows.iter().filter(|run| run.name == name);
    let found = named.next().unwrap_or_else(|| panic!("no window {name}"));
    assert!(named.next().is_none(), "{name} has one run");
    assert!(found.measured);
    found
}

/// The figures of a window in which `count` blocks of `bytes` are allocated and stay.
fn kept(count: u64, bytes: u64) -> WindowFigures {
    WindowFigures {
        allocations: count,
        allocated_bytes: count * bytes,
        remaining_allocations: count,
        remaining_bytes: count * bytes,
        peak_bytes: count * bytes,
        peak_allocations: count,
        ..WindowFigures::default()
    }
}

#[test]
fn nested_windows() {
    let process = process(&["nested"]);
    let inner = window(&process, "inner");
    // Five blocks of 1000 one after the other, then two of 10 that stay.
    let expected = WindowFigures {
        allocations: 5 + 2,
        allocated_bytes: 5 * 1000 + 2 * 10,
        deallocations: 5,
        temporary_allocations: 5,
        peak_bytes: 1000,
        peak_allocations: 1,
        ..kept(2, 10)
    };
    assert_eq!(inner.figures, expected);
    assert_eq!((inner.iterations, inner.thread), (0, None));
    let outer = window(&process, "outer");
    let expected = WindowFigures {
        allocations: 3 + 7 + 4,
        allocated_bytes: 3 * 100 + 5020 + 4,
        deallocations: 5,
        temporary_allocations: 5,
        remaining_allocations: 3 + 2 + 4,
        remaining_bytes: 300 + 20 + 4,
        // Three of 100 are live beside the one of 1000.
        peak_bytes: 1300,
        peak_allocations: 4,
        ..WindowFigures::default()
    };
    assert_eq!(outer.figures, expected);
    assert_eq!(outer.figures.net(), 9);
    assert_eq!(outer.iterations, 10);
    assert!(outer.opened_us <= inner.opened_us && outer.duration_us >= inner.duration_us);
}

#[test]
fn overlapping_windows() {
    let process = process(&["overlapping"]);
    assert_eq!(window(&process, "a").figures, kept(1 + 2, 8));
    assert_eq!(window(&process, "b").figures, kept(2 + 4, 8));
}

/// Windows are bounded by happens-before, not by time: in 2,000 windows no allocation
/// of the other thread is on the wrong side, while other threads keep the machine busy.
#[test]
fn a_thread_that_the_opener_signals_is_exact() {
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let process = process(&["signalled", "2000"]);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(process.windows.len(), 2000);
        let expected = WindowFigures {
            allocations: 3,
            allocated_bytes: 3 * 64,
            deallocations: 3,
            temporary_allocations: 3,
            peak_bytes: 64,
            peak_allocations: 1,
            ..WindowFigures::default()
        };
        for (run, occurrence) in process.windows.iter().zip(1..) {
            assert_eq!(run.occurrence, occurrence);
            assert_eq!(run.figures, expected, "occurrence {occurrence}");
        }
    });
}

#[test]
fn one_thread_or_the_whole_process() {
    let process = process(&["one-thread"]);
    let mine = window(&process, "mine");
    assert_eq!(mine.figures, kept(5, 16));
    let thread = &process.threads[mine.thread.expect("it counts one thread") as usize];
    assert_eq!(thread.tid, process.pid);
    let all = window(&process, "all");
    assert_eq!(all.figures.allocations, 5 + 3);
    assert_eq!(all.figures.remaining_allocations, 5);
}

#[test]
fn threads_with_windows_of_their_own_do_not_disturb_each_other() {
    let process = process(&["crowd"]);
    for name in ["one", "two", "three", "four"] {
        let runs = process.windows.iter().filter(|run| run.name == name);
        let allocations: Vec<u64> = runs.map(|run| run.figures.allocations).collect();
        assert_eq!(allocations, [3; 500], "{name}");
    }
}

#[test]
fn a_window_in_which_the_program_was_killed_is_unclosed() {
    let recording = recorded(&["killed"]);
    let profile = profile(&recording);
    let process = &profile.processes[0];
    assert_eq!(process.exit, Exit::Signal(9));
    assert!(window(process, "closed").closed);
    let open = window(process, "open");
    assert!(!open.closed);
    assert_eq!(open.figures, kept(4, 8));
}

#[test]
fn a_forked_child_has_windows_of_its_own() {
    let recording = recorded(&["forked"]).ok();
    let profile = profile(&recording);
    let [parent, child] = &profile.processes[..] else {
        panic!("{} processes", profile.processes.len())
    };
    let parents = window(parent, "parent's");
    assert!(parents.closed);
    assert_eq!(parents.figures, kept(2 + 1, 8));
    assert_eq!(parent.windows.len(), 1);
    assert_eq!(window(child, "child's").figures, kept(3, 8));
    assert_eq!(child.windows.len(), 1, "the parent's is not open in it");
}

#[test]
fn an_exec_leaves_a_window_open() {
    let recording = recorded(&["executed"]).ok();
    let profile = profile(&recording);
    let [first, second] = &profile.processes[..] else {
        panic!("{} processes", profile.processes.len())
    };
    let before = window(first, "before");
    assert!(!before.closed);
    assert!(before.figures.allocations >= 2, "execl may allocate");
    assert_eq!(window(second, "after").figures, kept(1, 8));
}

#[test]
fn an_opted_out_thread_does_not_count() {
    let process = process(&["opted-out"]);
    assert_eq!(window(&process, "some").figures, kept(1 + 16 + 32, 8));
    assert!(process.totals.allocations >= 1 + 2 + 4 + 8 + 16 + 32);
}

#[test]
fn a_window_can_wait_for_quiet() {
    let recording = recorded(&["quieted"]).ok();
    let profile = profile(&recording);
    let quiet = window(&profile.processes[0], "quiet");
    // Two seconds are enough for a tenth of one, unless the machine is worn out.
    match quiet.quiet {
        [QuietWait::Reached, QuietWait::NotRequested] => assert_eq!(quiet.figures, kept(5, 8)),
        [QuietWait::TimedOut, QuietWait::NotRequested] => {
            eprintln!("skipped: it never became quiet")
        }
        other => panic!("{other:?}"),
    }
    let printed = recording.text();
    assert_eq!(
        printed, "1\n0\n",
        "alone it is quiet; a minute is not to be had"
    );
}

#[test]
fn descriptors_left_open_are_named() {
    let recording = recorded(&["descriptors"]).ok();
    let profile = profile(&recording);
    let process = &profile.processes[0];
    let left = window(process, "descriptors").descriptors.as_ref();
    let left = left.expect("our own process can be looked at");
    let listed: Vec<(&str, u32)> = left
        .left
        .iter()
        .map(|it| (file_name(&it.name), it.count))
        .collect();
    assert_eq!(listed, [("kept", 1), ("pipe:", 2)]);
    assert_eq!((left.after - left.before, left.leaked()), (3, 3));
    let clean = window(process, "clean").descriptors.as_ref();
    assert_eq!(clean.map(|it| it.leaked()), Some(0));
    assert_eq!(
        clean.map(|it| (it.before, it.after)),
        Some((left.after, left.after))
    );
    assert_eq!(window(process, "unasked").descriptors, None);
}

fn file_name(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(path)
}

#[test]
fn closing_twice_or_an_unknown_window_does_nothing() {
    let process = process(&["misused"]);
    assert_eq!(window(&process, "twice").figures, kept(1, 8));
    assert_eq!(process.windows.len(), 1);
}

#[test]
fn names_are_unchanged_and_cut_between_characters() {
    let process = process(&["named"]);
    let names: Vec<&str> = process.windows.iter().map(|run| &*run.name).collect();
    // 255 bytes hold 127 letters of two.
    assert_eq!(names, [&*"é".repeat(127), "", "\u{1b}[31m\n\u{fffd}"]);
}

#[test]
fn handlers_may_open_windows_at_any_time() {
    let recording = recorded(&["interrupted"]).ok();
    let profile = profile(&recording);
    let process = &profile.processes[0];
    let handled: usize = recording
        .text()
        .trim()
        .parse()
        .expect("how often the handler ran");
    let in_handler = process.windows.iter().filter(|run| run.name == "handler");
    let closed = in_handler.filter(|run| run.closed && run.figures == WindowFigures::default());
    assert_eq!(closed.count(), handled);
    let around = window(process, "interrupted").figures;
    assert_eq!(
        (around.allocations, around.deallocations),
        (400_000, 400_000)
    );
    assert_eq!(around.remaining_allocations, 0);
    assert_eq!(window(process, "inside").figures, kept(2, 8));
}

/// `--on-full=drop` drops events, but not those that open and close a window.
///
/// Reported: with `--on-full drop`, a window that opens while the ring is full is not recorded.
#[test]
fn a_full_ring_that_drops_events_keeps_windows() {
    let recording = record(compiled("windows.c"))
        .option("--on-full=drop")
        .arg("full")
        .run()
        .ok();
    assert_eq!(recording.text(), "opened\n");
    let trace = TraceReader::open(&recording.trace).expect("the trace opens");
    let profile = aggregate(&trace, &Options::default()).expect("the trace can be aggregated");
    let process = &profile.processes[0];
    assert!(process.lost_events > 0, "the ring was full");
    assert!(window(process, "full").closed);
}

#[test]
fn operators_of_preloaded_allocators_are_in_windows() {
    for file in ["", "libjemalloc.so.2"] {
        let mut recording = record(compiled("windows.cc"));
        if !file.is_empty() {
            let library = Path::new("/usr/lib/x86_64-linux-gnu").join(file);
            if !library.exists() {
                eprintln!("skipped: {file} is not installed (package libjemalloc2)");
                continue;
            }
            recording = recording.env("LD_PRELOAD", library);
        }
        let recording = recording.run().ok();
        let profile = profile(&recording);
        let figures = window(&profile.processes[0], "operators").figures;
        assert_eq!(
            (figures.allocations, figures.deallocations),
            (5, 3),
            "{file}"
        );
        assert_eq!(figures.remaining_bytes, 2 * 4, "{file}");
    }
}
