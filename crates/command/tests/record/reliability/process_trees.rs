//! Process trees: every image is an entry of its own with exact counts, and blocks
//! that it inherits are counted apart: `programs/process_trees.c`.

use serde_json::json;

use super::matrix::{Outcome, case, count};
use super::targets::{expect_complete, expect_work, target};
use crate::support::{Process, Recording, Report, is_root, record};

const GROUP: &str = "Process trees";
const FORKED: &str = "parent 10 allocations, child 7 of its own and 10 inherited";

fn recorded(arguments: &[&str], status: i32) -> Recording {
    record(target("process_trees.c"))
        .args(arguments)
        .run()
        .code(status)
}

fn images(report: &Report, expected: usize) -> Vec<Process<'_>> {
    expect_complete(report);
    let images = report.processes();
    assert_eq!(images.len(), expected, "{}", report.summary());
    images
}

/// The child of `programs/process_trees.c`'s head comment.
#[track_caller]
fn expect_child(child: &Process<'_>) {
    assert_eq!(*child.exit(), json!({"status": 3}));
    expect_work(child, "child_work", 7, 77);
    assert_eq!(child.under("child_work").leaked, 6);
    assert_eq!(
        child.total("allocations"),
        7,
        "inherited ones are none of it"
    );
    assert_eq!(child.total("inherited_allocations"), 10);
    assert_eq!(child.total("inherited_bytes"), 1_000);
    assert_eq!(child.total("inherited_deallocations"), 4);
}

/// The parent of the same comment.
#[track_caller]
fn expect_parent(parent: &Process<'_>) {
    assert_eq!(*parent.exit(), json!({"status": 0}));
    expect_work(parent, "parent_work", 10, 1_000);
    assert_eq!(parent.under("child_work").allocations, 0);
    assert_eq!(parent.under("parent_work").leaked, 0);
}

/// The image of `leaf 6`.
#[track_caller]
fn expect_leaf(leaf: &Process<'_>) {
    assert_eq!(*leaf.exit(), json!({"status": 4}));
    expect_work(leaf, "leaf_work", 6, 36);
    assert_eq!(leaf.total("inherited_allocations"), 0);
}

fn forked(name: &str, arguments: &[&str]) {
    case(GROUP, name, FORKED, || {
        let recording = recorded(arguments, 0);
        let report = recording.report();
        let images = images(&report, 2);
        expect_parent(&images[0]);
        expect_child(&images[1]);
        assert_eq!(images[1].json["parent_pid"], images[0].json["pid"]);
        Outcome::Seen("2 images: 10; 7, 10 inherited".to_owned())
    });
}

#[test]
fn fork() {
    forked("fork", &["fork"]);
}

#[test]
fn fork_without_handlers() {
    forked("_Fork", &["_Fork"]);
}

#[test]
fn raw_clone() {
    forked("raw clone(SIGCHLD)", &["raw-clone"]);
}

#[test]
fn clone_with_a_stack() {
    forked("libc's `clone` with a stack of its own", &["clone"]);
}

fn forked_while_threads_allocate(call: &str, children: u64) {
    let name = format!("{call} {children} times while 4 threads allocate");
    case(
        GROUP,
        &name,
        "7 allocations per child, none of the threads'",
        || {
            let count = children.to_string();
            let mut arguments = vec!["threaded", &count];
            arguments.extend((call == "_Fork").then_some(call));
            let recording = recorded(&arguments, 0);
            let report = recording.report();
            let images = images(&report, children as usize + 1);
            assert!(images[0].under("noise").allocations > 0);
            for child in &images[1..] {
                assert_eq!(*child.exit(), json!({"status": 3}));
                assert_eq!(child.total("allocations"), 7);
                expect_work(child, "child_work", 7, 77);
            }
            Outcome::Seen(format!("{} children with 7 each", images.len() - 1))
        },
    );
}

#[test]
fn fork_while_threads_allocate() {
    forked_while_threads_allocate("fork", count(1_000, 10_000));
}

#[test]
fn fork_without_handlers_while_threads_allocate() {
    forked_while_threads_allocate("_Fork", count(100, 2_000));
}

#[test]
fn vfork() {
    let expected = "parent 10 + the child's 3 before `exec`; the image after it 6";
    case(GROUP, "vfork", expected, || {
        let recording = recorded(&["vfork"], 4);
        let report = recording.report();
        let images = images(&report, 2);
        expect_work(&images[0], "parent_work", 10, 1_000);
        expect_work(&images[0], "borrowed_work", 3, 99);
        expect_leaf(&images[1]);
        Outcome::Seen("2 images: 10 + 3; 6".to_owned())
    });
}

#[test]
fn spawned() {
    case(
        GROUP,
        "posix_spawn",
        "parent 10 allocations, child 6",
        || {
            let recording = recorded(&["spawn"], 4);
            let report = recording.report();
            let images = images(&report, 2);
            expect_work(&images[0], "parent_work", 10, 1_000);
            expect_leaf(&images[1]);
            Outcome::Seen("2 images: 10; 6".to_owned())
        },
    );
}

#[test]
fn system() {
    case(
        GROUP,
        "system",
        "parent 10 allocations, a shell, its child 6",
        || {
            let recording = recorded(&["system"], 4);
            let report = recording.report();
            let images = images(&report, 3);
            expect_work(&images[0], "parent_work", 10, 1_000);
            assert_eq!(images[1].command().get(1), Some(&"-c"));
            expect_leaf(&images[2]);
            Outcome::Seen("3 images: 10; the shell; 6".to_owned())
        },
    );
}

#[test]
fn pipeline() {
    let expected = "a shell, its three forks, and what they exec with 3, 4 and 5 allocations";
    case(GROUP, "a shell's pipeline", expected, || {
        let program = target("process_trees.c");
        let line = format!(
            "{0} leaf 3 | {0} leaf 4 | {0} leaf 5; true",
            program.display()
        );
        let recording = record("sh").args(["-c", &line]).run().ok();
        let report = recording.report();
        images(&report, 7);
        for blocks in [3, 4, 5] {
            let text = blocks.to_string();
            let leaves: Vec<_> = report
                .processes()
                .into_iter()
                .filter(|image| image.command().get(1..) == Some(&["leaf", &text]))
                .collect();
            assert_eq!(leaves.len(), 1, "{}", report.summary());
            expect_work(&leaves[0], "leaf_work", blocks, blocks * blocks);
        }
        Outcome::Seen("7 images: the shell and its forks; 3; 4; 5".to_owned())
    });
}

#[test]
fn chain_of_execs() {
    let length = count(20, 200);
    let name = format!("a process that execs itself {} times", length - 1);
    let expected = format!("one pid, {length} images with {length}, … 2, 1 allocations");
    case(GROUP, &name, &expected, || {
        let recording = recorded(&["chain", &length.to_string()], 4);
        let report = recording.report();
        let images = images(&report, length as usize);
        for (image, blocks) in images.iter().zip((1..=length).rev()) {
            assert_eq!(image.json["pid"], images[0].json["pid"]);
            expect_work(image, "leaf_work", blocks, blocks * blocks);
            let last = blocks == 1;
            let exit = if last {
                json!({"status": 4})
            } else {
                json!({"exec": true})
            };
            assert_eq!(*image.exit(), exit);
        }
        Outcome::Seen(format!("{length} images, {length} to 1 allocations"))
    });
}

#[test]
fn daemon() {
    let expected = "3 images; the daemon's 7 allocations happen after both others have ended";
    case(GROUP, "a daemon that double-forks", expected, || {
        let recording = recorded(&["daemon"], 0);
        let report = recording.report();
        let images = images(&report, 3);
        expect_work(&images[0], "parent_work", 10, 1_000);
        assert_eq!(images[1].total("allocations"), 0);
        expect_child(&images[2]);
        Outcome::Seen("3 images: 10; 0; 7, 10 inherited".to_owned())
    });
}

fn confined(name: &str, argument: &str, needs_root: bool) {
    let name = format!("a child after {name}, and one of a parent after it");
    let expected = "parent 10 allocations, each child 7 of its own and 10 inherited";
    case(GROUP, &name, expected, || {
        if needs_root && !is_root() {
            return Outcome::Skipped("only root may do this".to_owned());
        }
        let recording = recorded(&[argument], 0);
        let report = recording.report();
        let images = images(&report, 3);
        expect_parent(&images[0]);
        expect_child(&images[1]);
        expect_child(&images[2]);
        Outcome::Seen("3 images: 10; 7, 10 inherited; 7, 10 inherited".to_owned())
    });
}

#[test]
fn seccomp() {
    confined("a seccomp filter of 13 calls", "seccomp", false);
}

#[test]
fn chroot() {
    confined("chroot into an empty folder", "chroot", true);
}

#[test]
fn setuid() {
    confined("setuid to nobody", "setuid", true);
}

#[test]
fn close_range() {
    confined("close_range(3, ~0)", "close_range", false);
}

#[test]
fn few_descriptors() {
    confined("RLIMIT_NOFILE 64", "nofile", false);
}

fn confined_exec(name: &str, argument: &str, needs_root: bool) {
    let name = format!("exec after {name}");
    case(GROUP, &name, "10 allocations, the next image 6", || {
        if needs_root && !is_root() {
            return Outcome::Skipped("only root may do this".to_owned());
        }
        let recording = recorded(&[argument, "exec"], 4);
        let report = recording.report();
        let images = images(&report, 2);
        expect_work(&images[0], "parent_work", 10, 1_000);
        expect_leaf(&images[1]);
        Outcome::Seen("2 images: 10; 6".to_owned())
    });
}

#[test]
fn exec_after_close_range() {
    confined_exec("close_range(3, ~0)", "close_range", false);
}

#[test]
fn exec_with_few_descriptors() {
    confined_exec("RLIMIT_NOFILE 64", "nofile", false);
}

#[test]
fn exec_after_setuid() {
    confined_exec("setuid to nobody", "setuid", true);
}
