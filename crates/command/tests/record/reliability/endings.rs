//! Not one completed allocation is lost, whatever ends the program:
//! `programs/endings.c`.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::completed;
use super::matrix::{Outcome, case};
use super::targets::{expect_complete, expect_work, script, target};
use crate::support::{Record, Recording, record, run};

const GROUP: &str = "Endings";
const ALONE: &str = "1,001 allocations, the last one immediately before the end";
const BUSY: &str = "1,001 allocations and all that three other threads completed";
/// Threads that allocate in a `busy` case.
const THREADS: u64 = 3;

fn prepared(way: &str, busy: bool) -> Record {
    record(target("endings.c"))
        .arg(way)
        .args(busy.then_some("busy"))
}

/// Runs in a process group of its own: some of these signal their whole group.
fn in_group(record: Record) -> Recording {
    let output = run(record.command().process_group(0), b"");
    record.recorded(output)
}

/// The image that ended has every allocation; returns what was seen.
#[track_caller]
fn everything(recording: &Recording, exit: &Value, busy: bool) -> String {
    let report = recording.report();
    expect_complete(&report);
    let process = report.processes()[0];
    assert_eq!(process.exit(), exit);
    expect_work(&process, "before", 1_000, 20_000);
    expect_work(&process, "last_allocation", 1, 30);
    assert_eq!(process.under("before").leaked, 1_000);
    let mut seen = format!("1001 allocations, {exit}, lost 0");
    if busy {
        let folder = recording.folder.path();
        seen += "; ";
        seen += &completed::expect_all(&process, "steady", folder, THREADS);
        // Each thread has one block at most.
        assert!(process.under("steady").leaked <= THREADS);
    }
    seen
}

/// An ending that the program brings about itself, alone and with busy threads.
fn check(name: &str, way: &str, status: i32, exit: &Value) {
    for (busy, expected) in [(false, ALONE), (true, BUSY)] {
        let name = format!(
            "{name}{}",
            if busy { ", other threads allocate" } else { "" }
        );
        case(GROUP, &name, expected, || {
            let recording = in_group(prepared(way, busy)).code(status);
            Outcome::Seen(everything(&recording, exit, busy))
        });
    }
}

#[test]
fn sigkill_from_inside() {
    check(
        "SIGKILL from inside",
        "kill",
        128 + 9,
        &json!({"signal": "SIGKILL"}),
    );
}

#[test]
fn segmentation_fault() {
    check("SIGSEGV", "segv", 128 + 11, &json!({"signal": "SIGSEGV"}));
}

#[test]
fn abort() {
    check("abort", "abort", 128 + 6, &json!({"signal": "SIGABRT"}));
}

#[test]
fn immediate_exit() {
    check("_exit", "_exit", 5, &json!({"status": 5}));
}

#[test]
fn exit() {
    check("exit", "exit", 5, &json!({"status": 5}));
}

#[test]
fn main_leaves_first() {
    check(
        "the main thread ends with pthread_exit",
        "leave",
        5,
        &json!({"status": 5}),
    );
}

#[test]
fn the_whole_group_is_terminated() {
    check(
        "kill(0, SIGTERM)",
        "group",
        128 + 15,
        &json!({"signal": "SIGTERM"}),
    );
}

#[test]
fn exec() {
    for (busy, expected) in [(false, ALONE), (true, BUSY)] {
        let name = if busy {
            "exec, other threads allocate"
        } else {
            "exec"
        };
        case(GROUP, name, expected, || {
            let recording = in_group(prepared("exec", busy)).code(5);
            let report = recording.report();
            let images = report.processes();
            assert_eq!(images.len(), 2, "{}", report.summary());
            expect_work(&images[1], "after_exec", 5, 250);
            assert_eq!(*images[1].exit(), json!({"status": 5}));
            assert_eq!(images[1].json["pid"], images[0].json["pid"]);
            let seen = everything(&recording, &json!({"exec": true}), busy);
            Outcome::Seen(format!("{seen}; the next image: 5 of 5"))
        });
    }
}

/// Starts the case and, once it is ready, kills the program itself.
fn killed_from_outside(busy: bool) -> Recording {
    let record = prepared("outside", busy);
    let mut started = record.start();
    let line = started.line();
    let pid = line.strip_prefix("ready ").and_then(|n| n.parse().ok());
    let pid = pid
        .and_then(Pid::from_raw)
        .unwrap_or_else(|| panic!("no pid in {line}"));
    kill_process(pid, Signal::KILL).expect("it lives");
    record.recorded(started.end())
}

#[test]
fn sigkill_from_outside() {
    for (busy, expected) in [(false, ALONE), (true, BUSY)] {
        let name = if busy {
            "SIGKILL from outside, other threads allocate"
        } else {
            "SIGKILL from outside"
        };
        case(GROUP, name, expected, || {
            let recording = killed_from_outside(busy).code(128 + 9);
            Outcome::Seen(everything(&recording, &json!({"signal": "SIGKILL"}), busy))
        });
    }
}

#[test]
fn interrupt_on_a_terminal() {
    for (busy, expected) in [(false, ALONE), (true, BUSY)] {
        let name = if busy {
            "Ctrl-C on a terminal, other threads allocate"
        } else {
            "Ctrl-C on a terminal"
        };
        case(GROUP, name, expected, || {
            let record = prepared("outside", busy);
            let plain = record.command();
            let mut command = Command::new("python3");
            command
                .arg(script("terminal.py"))
                .arg(plain.get_program())
                .args(plain.get_args())
                .current_dir(record.folder());
            if !crate::support::is_installed("python3") {
                return Outcome::Skipped("no python3".to_owned());
            }
            let output = run(&mut command, b"");
            let recording = record.recorded(output).code(128 + 2);
            Outcome::Seen(everything(&recording, &json!({"signal": "SIGINT"}), busy))
        });
    }
}

/// A memory cgroup of 48 MiB, if one can be made here: its folder.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn new() -> Result<Self, String> {
        let root = Path::new("/sys/fs/cgroup");
        let old = root.join("memory");
        let (parent, limit) = if old.join("memory.limit_in_bytes").exists() {
            (old, "memory.limit_in_bytes")
        } else {
            (root.to_owned(), "memory.max")
        };
        let group = Self(parent.join(format!("allotrope-test-{}", std::process::id())));
        let made = std::fs::create_dir(&group.0)
            .and_then(|()| std::fs::write(group.0.join(limit), (48 << 20).to_string()));
        made.map_err(|error| format!("no memory cgroup can be made: {error}"))?;
        // Without this the group swaps where there is swap, and is never killed.
        for swap in ["memory.memsw.limit_in_bytes", "memory.swap.max"] {
            let value = if swap == "memory.swap.max" {
                0
            } else {
                48 << 20
            };
            let _ = std::fs::write(group.0.join(swap), value.to_string());
        }
        Ok(group)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn out_of_memory() {
    let expected = "1,001 allocations and every completed block of 1 MiB";
    case(GROUP, "the OOM killer", expected, || {
        let group = match MemoryGroup::new() {
            Ok(group) => group,
            Err(reason) => return Outcome::Skipped(reason),
        };
        let members = group.0.join("cgroup.procs");
        let recording = record(target("endings.c")).arg("oom").arg(&members).run();
        if recording.status.code() == Some(96) {
            return Outcome::Skipped("no process can be moved into a memory cgroup".to_owned());
        }
        let recording = recording.code(128 + 9);
        let seen = everything(&recording, &json!({"signal": "SIGKILL"}), false);
        let report = recording.report();
        let folder = recording.folder.path();
        let hungry = completed::expect_all(&report.only(), "hungry", folder, 1);
        Outcome::Seen(format!("{seen}; {hungry}"))
    });
}
