//! Programs in namespaces of their own, as containers and sandboxes start them: each
//! is recorded completely or reported as not recorded, and `record` never waits for
//! one in vain: `programs/namespaces.c`.

use std::path::Path;
use std::process::Command;

use crate::support::{
    Ended, Process, Record, Recording, Report, Text, compiled, is_root, record, run, skip,
};
use serde_json::json;

const SOURCE: &str = "namespaces.c";
/// The program's status where the kernel refuses.
const REFUSED: i32 = 77;
/// The warning about a program whose recorder could not reach the collector.
const ELSEWHERE: &str = "it runs in namespaces of its own";

/// Records a container with these namespaces; `None`: the kernel refuses.
fn container(flags: &str, ending: &str) -> Option<Recording> {
    // Without a user namespace only root may make others.
    if !flags.contains('u') && !flags.is_empty() && !is_root() {
        skip(&format!("{flags}: only root may do this"));
        return None;
    }
    let recording = record(compiled(SOURCE)).args([flags, ending]).run();
    if recording.status.code() == Some(REFUSED) {
        skip(&format!("{flags}: the kernel refuses such namespaces"));
        return None;
    }
    Some(recording)
}

/// Sets of namespaces. The last three are those of rootless podman, of podman as
/// root, and of Bazel's sandbox.
const SETS: [&str; 9] = ["u", "p", "m", "n", "up", "upm", "upmrf", "pmrf", "upmnrf"];

fn complete(report: &Report) {
    for process in report.processes() {
        assert_eq!(process.number("lost_events"), 0, "{}", report.summary());
        assert_eq!(process.json["complete"], true, "{}", report.summary());
    }
}

/// The only image that allocated in `function`: exactly this number of blocks, with
/// this sum of bytes.
#[track_caller]
fn image<'r>(report: &'r Report, function: &str, allocations: u64, bytes: u64) -> Process<'r> {
    let found: Vec<_> = report
        .processes()
        .into_iter()
        .filter(|process| process.under(function).allocations > 0)
        .collect();
    assert_eq!(found.len(), 1, "{function}: {}", report.summary());
    let work = found[0].under(function);
    assert_eq!(
        (work.allocations, work.bytes),
        (allocations, bytes),
        "{function}: {}",
        report.summary()
    );
    found[0]
}

#[track_caller]
fn expect_outer_and_inner(report: &Report, status: i32) {
    complete(report);
    let outer = image(report, "outer_work", 10, 1_000);
    assert_eq!(*outer.exit(), json!({ "status": status }));
    image(report, "inner_work", 7, 77);
}

/// The number of warnings about programs that were not recorded.
fn unrecorded(recording: &Recording) -> usize {
    recording.stderr.matches("was not recorded").count()
}

/// The image of `leaf 6 4` has the right end, or one warning names the program.
#[track_caller]
fn expect_leaf_or_warning(flags: &str, recording: &Recording, report: &Report) {
    let mut images = report.processes().into_iter();
    if images.all(|image| image.under("leaf_work").allocations == 0) {
        // Only a network namespace can hide the collector's socket from it.
        assert!(flags.contains('n'), "{flags}: {}", recording.stderr);
        assert_eq!(unrecorded(recording), 1, "{flags}: {}", recording.stderr);
        recording.stderr.has(ELSEWHERE);
        return;
    }
    assert_eq!(unrecorded(recording), 0, "{flags}: {}", recording.stderr);
    let leaf = image(report, "leaf_work", 6, 36);
    assert_eq!(*leaf.exit(), json!({"status": 4}), "{}", report.summary());
}

#[test]
fn a_forked_first_process() {
    for flags in SETS {
        let Some(recording) = container(flags, "exit") else {
            continue;
        };
        let recording = recording.code(3);
        let report = recording.report();
        expect_outer_and_inner(&report, 3);
        let inner = image(&report, "inner_work", 7, 77);
        assert_eq!(*inner.exit(), json!({"status": 3}), "{}", report.summary());
        assert_eq!(unrecorded(&recording), 0, "{flags}: {}", recording.stderr);
    }
}

#[test]
fn a_first_process_that_calls_exec() {
    for flags in SETS {
        let Some(recording) = container(flags, "exec") else {
            continue;
        };
        let recording = recording.code(4);
        let report = recording.report();
        expect_outer_and_inner(&report, 4);
        let inner = image(&report, "inner_work", 7, 77);
        assert_eq!(*inner.exit(), json!({"exec": true}), "{}", report.summary());
        expect_leaf_or_warning(flags, &recording, &report);
    }
}

/// With `bare`, the first process has not allocated when it forks the child.
#[test]
fn a_program_that_the_first_process_starts() {
    for flags in SETS {
        for ending in ["spawn", "bare"] {
            let Some(recording) = container(flags, ending) else {
                continue;
            };
            let recording = recording.code(4);
            let report = recording.report();
            complete(&report);
            image(&report, "outer_work", 10, 1_000);
            expect_leaf_or_warning(flags, &recording, &report);
        }
    }
}

/// A grandchild whose parent is gone becomes a child of the namespace's first
/// process, and the kernel kills it when that process ends.
#[test]
fn a_grandchild_that_outlives_its_parent() {
    for flags in SETS.into_iter().filter(|flags| flags.contains('p')) {
        let Some(recording) = container(flags, "orphan") else {
            continue;
        };
        let report = recording.code(3).report();
        expect_outer_and_inner(&report, 3);
        let late = image(&report, "late_work", 5, 65);
        assert_eq!(*late.exit(), json!({"status": 5}), "{}", report.summary());

        let Some(recording) = container(flags, "dies") else {
            continue;
        };
        let report = recording.code(3).report();
        expect_outer_and_inner(&report, 3);
        let late = image(&report, "late_work", 5, 65);
        // The end of a process that is gone before the collector scans for it is
        // unknown.
        let ends = [json!({"signal": "SIGKILL"}), json!({"running": true})];
        assert!(ends.contains(late.exit()), "{}", report.summary());
    }
}

/// The processes of two containers have the same ids, each in its own namespace.
#[test]
fn two_containers_at_once() {
    for flags in ["up", "upmrf"] {
        let Some(recording) = container(flags, "twice") else {
            continue;
        };
        let recording = recording.code(4);
        let report = recording.report();
        complete(&report);
        assert_eq!(unrecorded(&recording), 0, "{flags}: {}", recording.stderr);
        let leaves = report.with_argument("leaf");
        assert_eq!(leaves.len(), 2, "{}", report.summary());
        for leaf in &leaves {
            let work = leaf.under("leaf_work");
            let status = match (work.allocations, work.bytes) {
                (6, 36) => 4,
                (9, 81) => 5,
                _ => panic!("{}", report.summary()),
            };
            let exit = json!({ "status": status });
            assert_eq!(*leaf.exit(), exit, "{flags}: {}", report.summary());
        }
        // A process that is gone before the collector scans for it is recorded with
        // the pid that it had in its namespace.
        let pids = [&leaves[0], &leaves[1]].map(|leaf| leaf.json["pid"].clone());
        assert!(pids[0] != pids[1] || pids[0] == 1, "{pids:?}");
    }
}

/// Whether bubblewrap can make namespaces here.
fn has_bubblewrap() -> bool {
    let arguments = ["--unshare-all", "--ro-bind", "/", "/", "true"];
    let tried = Command::new("bwrap").args(arguments).output();
    let works = tried.is_ok_and(|output| output.status.success());
    if !works {
        skip("bwrap is not here (Debian package bubblewrap), or the kernel refuses it");
    }
    works
}

#[test]
fn bubblewrap() {
    if !has_bubblewrap() {
        return;
    }
    let program = compiled(SOURCE);
    for options in [
        &["--unshare-all"][..],
        &["--unshare-all", "--die-with-parent"],
        &["--unshare-pid", "--die-with-parent"],
        &["--unshare-pid", "--unshare-user"],
        &["--unshare-net"],
        &[],
    ] {
        let recording = record("bwrap")
            .args(options)
            .args(["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"])
            .arg(&program)
            .args(["leaf", "6", "4"])
            .run()
            .code(4);
        let report = recording.report();
        complete(&report);
        let flags = if options.contains(&"--unshare-all") || options.contains(&"--unshare-net") {
            "n"
        } else {
            ""
        };
        expect_leaf_or_warning(flags, &recording, &report);
    }
}

/// With an empty environment, the program is reported as not recorded, and why.
#[test]
fn bubblewrap_with_an_empty_environment() {
    if !has_bubblewrap() {
        return;
    }
    let recording = record("bwrap")
        .args(["--unshare-all", "--clearenv", "--ro-bind", "/", "/"])
        .arg(compiled(SOURCE))
        .args(["leaf", "6", "4"])
        .run()
        .code(4);
    assert_eq!(unrecorded(&recording), 1, "{}", recording.stderr);
    recording.stderr.has("does not name the recorder");
}

/// Runs `PREFIX allotrope record …`.
fn record_within(prefix: &[&str], recording: Record) -> (Recording, Ended) {
    let inner = recording.command();
    let mut command = Command::new(prefix[0]);
    command
        .args(&prefix[1..])
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(recording.folder());
    for (name, value) in inner.get_envs() {
        value.map(|value| command.env(name, value));
    }
    let output = run(&mut command, b"");
    (recording.recorded(output.clone()), output)
}

/// Whether this command works here; skips if not.
fn works(prefix: &[&str]) -> bool {
    let tried = Command::new(prefix[0])
        .args(&prefix[1..])
        .arg("true")
        .output();
    let works = tried.is_ok_and(|output| output.status.success());
    if !works {
        skip(&format!("{prefix:?} does not work here"));
    }
    works
}

/// In a container, `record` may be process 1, and its `/proc` may be that of another
/// pid namespace.
#[test]
fn the_recording_itself_in_a_pid_namespace() {
    for prefix in [
        &["unshare", "-Urpf", "--mount-proc"][..],
        &["unshare", "-Urpf"],
        &["unshare", "-pf", "--mount-proc"],
        &["unshare", "-pf"],
    ] {
        if !works(prefix) {
            continue;
        }
        let program = compiled("processes.c");
        for (argument, status, images) in [("generations", 0, 4), ("spawn", 4, 2), ("orphan", 0, 2)]
        {
            let run = record(&program).arg(argument);
            let (recording, _) = record_within(prefix, run);
            let recording = recording.code(status);
            let report = recording.report();
            complete(&report);
            let count = report.processes().len();
            assert_eq!(count, images, "{prefix:?}: {}", report.summary());
            assert_eq!(
                unrecorded(&recording),
                0,
                "{prefix:?}: {}",
                recording.stderr
            );
            let first = report.processes()[0];
            assert_eq!(*first.exit(), json!({ "status": status }), "{prefix:?}");
        }
        // Another pid namespace within.
        let run = record("unshare").args(["-Urpf"]).arg(compiled(SOURCE));
        let (recording, _) = record_within(prefix, run.args(["leaf", "6", "4"]));
        let report = recording.code(4).report();
        let leaf = image(&report, "leaf_work", 6, 36);
        assert_eq!(*leaf.exit(), json!({"status": 4}), "{}", report.summary());
    }
}

/// A user who is not root, with a `/proc` that hides other processes (`hidepid=2`).
#[test]
fn hidden_processes() {
    const USER: &str = "65534";
    let script = "mount -t proc -o hidepid=2 proc /proc && \
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
    let prefix = ["unshare", "-m", "sh", "-c", script, "sh"];
    if !is_root() || !works(&prefix) {
        return skip("only root can mount such a /proc");
    }
    let run = record(compiled(SOURCE)).args(["upmrf", "spawn"]);
    let folder = run.folder().to_owned();
    let user = USER.parse().expect("a number");
    std::os::unix::fs::chown(&folder, Some(user), Some(user)).expect("we are root");
    let program = Path::new(env!("CARGO_BIN_EXE_allotrope"));
    let (recording, output) = record_within(&prefix, run.env("HOME", &folder));
    match output.status.code() {
        Some(REFUSED) => return skip("users may make no namespaces here"),
        Some(126 | 127) => return skip(&format!("{} is not for others", program.display())),
        _ => {}
    }
    let recording = recording.code(4);
    let report = recording.report();
    expect_outer_and_inner(&report, 4);
    expect_leaf_or_warning("upmrf", &recording, &report);
}

/// As process 1 of a container, `record` inherits the processes whose parent has ended.
///
/// Reported: in a container, `record` ends before processes whose parent has ended.
#[test]
fn orphans_are_waited_for_by_process_one() {
    let described = record(compiled("orphans.c"));
    let plain = described.command();
    let flags = if is_root() { "-pf" } else { "-Urpf" };
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args([flags, "--mount-proc"]);
        command
    };
    let is_possible = unshare().arg("true").output();
    if !is_possible.is_ok_and(|output| output.status.success()) {
        return skip("the kernel refuses a pid namespace");
    }
    let mut command = unshare();
    command
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(described.folder());
    let output = run(&mut command, b"");
    described.recorded(output).code(5);
}
