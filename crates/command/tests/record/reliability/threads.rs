//! Threads that start, end, are cancelled, and allocate while they end:
//! `programs/threads.cc`, `programs/cancelled.c`.

use super::completed;
use super::matrix::{Outcome, case, count};
use super::targets::{expect_complete, expect_work, target};
use crate::support::{Recording, record};

const GROUP: &str = "Threads";

fn recorded(name: &str, number: u64, status: i32) -> Recording {
    let recording = record(target("threads.cc"))
        .arg(name)
        .arg(number.to_string())
        .run()
        .code(status);
    expect_complete(&recording.report());
    recording
}

#[test]
fn short_threads() {
    let threads = count(10_000, 100_000);
    let expected = "3 allocations per thread, 1 leaked, 2 temporary";
    let name = format!("{threads} short threads that use each other's freed blocks");
    case(GROUP, &name, expected, || {
        let report = recorded("short", threads, 0).report();
        let process = report.only();
        expect_work(&process, "brief", 3 * threads, 3 * 48 * threads);
        let brief = process.under("brief");
        assert_eq!((brief.leaked, brief.temporary), (threads, 2 * threads));
        Outcome::Seen(format!(
            "{}, {} leaked, {} temporary",
            brief.allocations, brief.leaked, brief.temporary
        ))
    });
}

#[test]
fn many_at_once() {
    let threads = count(200, 1_000);
    let expected = "100 allocations per thread, none leaked";
    case(
        GROUP,
        &format!("{threads} threads at once"),
        expected,
        || {
            let report = recorded("together", threads, 0).report();
            let process = report.only();
            expect_work(&process, "gathered", 100 * threads, 3_200 * threads);
            let gathered = process.under("gathered");
            assert_eq!(gathered.leaked, 0);
            Outcome::Seen(format!("{}, none leaked", gathered.allocations))
        },
    );
}

/// A barrier lies between the last allocation and the first deallocation.
#[test]
fn peak_across_a_barrier() {
    let threads = count(200, 1_000);
    let expected = "100 allocations per thread, all of them live at the peak";
    let name = format!("the peak of {threads} threads that meet at a barrier");
    case(GROUP, &name, expected, || {
        let report = recorded("together", threads, 0).report();
        let gathered = report.only().under("gathered");
        assert_eq!(gathered.at_peak, 100 * threads);
        Outcome::Seen(format!("{} at the peak", gathered.at_peak))
    });
}

#[test]
fn freed_on_other_threads() {
    let blocks = count(16_000, 640_000);
    let expected = "every block freed, none temporary, nothing lost";
    case(GROUP, "frees on other threads", expected, || {
        let report = recorded("handover", blocks, 0).report();
        let process = report.only();
        expect_work(&process, "produce", 4 * blocks, 4 * 24 * blocks);
        let produce = process.under("produce");
        assert_eq!((produce.leaked, produce.temporary), (0, 0));
        Outcome::Seen(format!("{}, none leaked", produce.allocations))
    });
}

#[test]
fn key_destructors() {
    let threads = count(100, 10_000);
    let expected = "1 allocation per thread; 4 of its destructor, 1 of them leaked";
    case(
        GROUP,
        "key destructors that set their key again",
        expected,
        || {
            let report = recorded("keys", threads, 0).report();
            let process = report.only();
            expect_work(&process, "keyed", threads, 56 * threads);
            expect_work(&process, "key_destructor", 4 * threads, 4 * 64 * threads);
            assert_eq!(process.under("keyed").leaked, 0);
            assert_eq!(process.under("key_destructor").leaked, threads);
            Outcome::Seen(format!("{threads}; {}", 4 * threads))
        },
    );
}

#[test]
fn thread_locals() {
    let threads = count(100, 10_000);
    let expected = "1 allocation per constructor, freed; 1 per destructor, leaked";
    case(GROUP, "thread_local objects", expected, || {
        let report = recorded("locals", threads, 0).report();
        let process = report.only();
        expect_work(&process, "local_constructor", threads, 72 * threads);
        expect_work(&process, "local_destructor", threads, 80 * threads);
        assert_eq!(process.under("local_constructor").leaked, 0);
        assert_eq!(process.under("local_destructor").leaked, threads);
        Outcome::Seen(format!("{threads}; {threads}"))
    });
}

#[test]
fn cancellation() {
    let threads = count(200, 10_000);
    let expected = "all completed allocations, including those of the cleanup handlers";
    case(
        GROUP,
        &format!("{threads} threads cancelled"),
        expected,
        || {
            let recording = recorded("cancel", threads, 0);
            let report = recording.report();
            let process = report.only();
            expect_work(&process, "prepare", threads, 200 * threads);
            expect_work(&process, "cleanup", threads, 208 * threads);
            assert_eq!(process.under("prepare").leaked, 0);
            assert_eq!(process.under("cleanup").leaked, threads);
            // The cleanup handler's frames lie above `cancelled` only while it
            // unwinds, so its own blocks are counted by their innermost frame.
            let own = process.by("threads", "cancelled");
            let completed: u64 = completed::numbers(recording.folder.path()).iter().sum();
            assert_eq!(own.allocations, completed, "no thread stops in between");
            assert_eq!(own.leaked, 0);
            Outcome::Seen(format!("{completed} of {completed}; {threads} handlers"))
        },
    );
}

#[test]
fn asynchronous_cancellation() {
    let threads = count(100, 2_000);
    let name = format!("{threads} threads cancelled asynchronously, while they allocate");
    let expected = "all completed allocations; every cleanup handler runs";
    case(GROUP, &name, expected, || {
        let recording = record(target("cancelled.c"))
            .arg(threads.to_string())
            .run()
            .ok();
        let report = recording.report();
        expect_complete(&report);
        let process = report.only();
        expect_work(&process, "prepare", threads, 200 * threads);
        expect_work(&process, "cleanup", threads, 208 * threads);
        assert_eq!(process.under("prepare").leaked, 0);
        assert_eq!(process.under("cleanup").leaked, threads);
        let own = process.by("cancelled", "anywhere");
        let completed: u64 = completed::numbers(recording.folder.path()).iter().sum();
        // The block that the thread made before it could be cancelled, and the
        // one that it may have had no time to count.
        let most = completed + 2 * threads;
        assert!(
            (completed + threads..=most).contains(&own.allocations),
            "{completed} completed, {} recorded",
            own.allocations
        );
        assert!(own.leaked <= threads, "{} leaked", own.leaked);
        Outcome::Seen(format!(
            "{} recorded, {completed} completed besides the {threads} before; {threads} handlers",
            own.allocations
        ))
    });
}

#[test]
fn detached_threads_at_exit() {
    let expected = "main's 1,000 and all that 4 detached threads completed";
    case(GROUP, "detached threads at exit", expected, || {
        let recording = recorded("detached", 0, 5);
        let report = recording.report();
        let process = report.only();
        expect_work(&process, "counted", 1_000, 88_000);
        let folder = recording.folder.path();
        let steady = completed::expect_all(&process, "steady", folder, 4);
        Outcome::Seen(format!("1000; {steady}"))
    });
}
