//! Failures of the recording itself are reported: the program runs on, and what was
//! recorded can be read. `programs/own_failures.c`.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::matrix::{Outcome, case, count};
use super::targets::{expect_complete, expect_work, target};
use crate::support::{Record, Recording, Report, Started, Text, command, is_root, record, run};

const GROUP: &str = "Failures of Allotrope";
/// User that owns nothing.
const NOBODY: u32 = 65_534;

/// A recorded program that has printed "ready" and waits.
struct Waiting {
    record: Record,
    started: Started,
}

impl Waiting {
    fn start(record: Record) -> Self {
        let mut started = record.start();
        assert_eq!(started.line(), "ready");
        Self { record, started }
    }

    /// The collector of this recording, a child of the launcher.
    fn collector(&self) -> Pid {
        self.child_of_launcher(true)
    }

    /// The launcher's other child.
    fn program(&self) -> Pid {
        self.child_of_launcher(false)
    }

    fn child_of_launcher(&self, collects: bool) -> Pid {
        let found = std::fs::read_dir("/proc")
            .expect("it is mounted")
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .find(|pid| is_child(*pid, self.started.id()) && is_collector(*pid) == collects);
        Pid::from_raw(found.expect("a recording has both")).expect("above 0")
    }

    /// Waits until the program has gone to sleep three more times: it can wait for
    /// nothing but the collector.
    fn wait_until_it_waits(&self) {
        let (program, start) = (self.program(), Instant::now());
        let before = sleeps(program);
        while sleeps(program) < before + 3 {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "it does not wait"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the growing trace shows what came before "ready".
    fn wait_until_written(&self) {
        let start = Instant::now();
        let trace = self.record.folder().join("recorded.allotrope");
        // It gets its name a moment after the program has begun.
        while !trace.exists() || allocations_in(&Report::of(&trace)) < 1_000 {
            assert!(start.elapsed() < Duration::from_secs(60), "not written");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn go(&mut self) {
        self.started.write(b"g");
    }

    fn finish(self) -> Recording {
        self.record.recorded(self.started.end())
    }
}

fn allocations_in(report: &Report) -> u64 {
    let processes = report.processes();
    processes.iter().map(|p| p.total("allocations")).sum()
}

fn status(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

fn is_child(pid: i32, launcher: u32) -> bool {
    let parent = format!("PPid:\t{launcher}");
    status(pid).lines().any(|line| line == parent)
}

fn is_collector(pid: i32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(b"__collect")
}

/// How often the process went to sleep.
fn sleeps(pid: Pid) -> u64 {
    let status = status(pid.as_raw_nonzero().get());
    let mut counts = status
        .lines()
        .filter_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let count = counts.next().expect("the process runs");
    count.trim().parse().expect("a number")
}

fn described(pairs: u64, bytes: u64) -> Record {
    let record = record(target("own_failures.c"));
    record.args([pairs.to_string(), bytes.to_string()])
}

fn waiting(pairs: u64, bytes: u64) -> Waiting {
    Waiting::start(described(pairs, bytes))
}

/// Fails unless all allocations of `own_failures PAIRS` are recorded.
#[track_caller]
fn expect_all(report: &Report, pairs: u64) {
    expect_complete(report);
    let process = report.only();
    expect_work(&process, "before", 1_000, 20_000);
    assert_eq!(process.under("after").allocations, pairs);
    assert_eq!(*process.exit(), json!({"status": 7}));
}

#[test]
fn collector_killed() {
    let pairs = count(2_000_000, 20_000_000);
    let expected = "the program continues at once and ends; what was recorded is readable";
    case(GROUP, "the collector is killed", expected, || {
        let mut waiting = waiting(pairs, 0);
        waiting.wait_until_written();
        kill_process(waiting.collector(), Signal::KILL).expect("it lives");
        waiting.go();
        let start = Instant::now();
        let printed = waiting.started.line();
        let took = start.elapsed();
        assert_eq!(printed, "done", "the program ran to its end");
        // Unrecorded it takes far below a second; waiting for the collector would take
        // for ever.
        assert!(took < Duration::from_secs(200), "{took:?}");
        let recording = waiting.finish().code(125);
        let printed = &recording.stderr;
        printed.has("the recording failed");
        let report = recording.report();
        assert_ne!(report.only().json["complete"], true, "{}", report.summary());
        let readable = allocations_in(&report);
        assert!((1_000..=1_000 + pairs).contains(&readable), "{readable}");
        Outcome::Seen(format!(
            "the program continued, status 125, failure reported, {readable} readable"
        ))
    });
}

#[test]
fn collector_stopped() {
    let pairs = count(2_000_000, 20_000_000);
    let expected = "every allocation is recorded; `record` reports that the program waited";
    case(
        GROUP,
        "the collector is stopped, and continued",
        expected,
        || {
            let mut waiting = waiting(pairs, 0);
            let collector = waiting.collector();
            kill_process(collector, Signal::STOP).expect("it lives");
            waiting.go();
            waiting.wait_until_it_waits();
            let waits_for = Duration::from_millis(500);
            std::thread::sleep(waits_for);
            kill_process(collector, Signal::CONT).expect("it lives");
            let recording = waiting.finish().code(7);
            let printed = &recording.stderr;
            printed.has("allotrope: waited ");
            let report = recording.report();
            expect_all(&report, pairs);
            let process = report.only();
            assert!(process.number("waits") > 0);
            // It waited all that time; the two clocks may differ a little.
            let least = waits_for.as_micros() as u64 / 2;
            assert!(process.number("waited_us") > least);
            Outcome::Seen(format!("{pairs} of {pairs}, lost 0; the wait is reported"))
        },
    );
}

/// So few events fit into the ring: the program never waits.
#[test]
fn nothing_waited() {
    let pairs = 10_000;
    let expected = "every allocation is recorded; no wait is reported";
    case(GROUP, "a program with few allocations", expected, || {
        let mut waiting = waiting(pairs, 0);
        waiting.go();
        let recording = waiting.finish().code(7);
        recording.stderr.lacks("waited");
        let report = recording.report();
        expect_all(&report, pairs);
        assert_eq!(report.only().number("waits"), 0);
        assert_eq!(report.only().number("waited_us"), 0);
        Outcome::Seen("no wait".to_owned())
    });
}

#[test]
fn output_blocked() {
    let pairs = count(100_000, 2_000_000);
    let expected = "every allocation is recorded, once the pipe is read";
    case(
        GROUP,
        "the program's output is not read for a while",
        expected,
        || {
            // More than a pipe holds.
            let bytes = 1 << 20;
            let described = described(pairs, bytes);
            let (reader, writer) = std::io::pipe().expect("a pipe");
            let mut command = described.command();
            command.stdin(Stdio::piped()).stderr(Stdio::piped());
            let mut started = Started::with_own_streams(command.stdout(writer));
            drop(command);
            let mut output = BufReader::new(reader).lines().map(|it| it.expect("text"));
            assert_eq!(output.next().expect("a line"), "ready");
            started.write(b"g");
            std::thread::sleep(Duration::from_millis(500));
            let rest: usize = output.map(|line| line.len() + 1).sum();
            let recording = described.recorded(started.end()).code(7);
            assert_eq!(rest as u64, bytes + 5);
            expect_all(&recording.report(), pairs);
            Outcome::Seen(format!("{pairs} of {pairs}, {bytes} bytes of output"))
        },
    );
}

/// A file system of its own, unmounted at the end.
struct Mounted(PathBuf);

impl Mounted {
    fn new(folder: &Path, name: &str, options: &str) -> Result<Self, String> {
        if !is_root() {
            return Err("only root may mount a file system".to_owned());
        }
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&folder);
        match mount.output() {
            Ok(output) if output.status.success() => Ok(Self(folder)),
            Ok(output) => Err(format!(
                "no tmpfs can be mounted: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )),
            Err(error) => Err(format!("mount(8): {error}")),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn disk_full() {
    let expected = "the program ends as without recording; `record` reports the failure; what fitted is readable";
    case(GROUP, "the disk is full", expected, || {
        let elsewhere = tempfile::tempdir().expect("a temporary folder");
        let mounted = match Mounted::new(elsewhere.path(), "small", "size=256k") {
            Ok(mounted) => mounted,
            Err(reason) => return Outcome::Skipped(reason),
        };
        // 1 million random sizes are above 1 MB however they are coded.
        let pairs = 1_000_000;
        let described = record(target("own_failures.c"))
            .arg(pairs.to_string())
            .stdin(b"g")
            .output(&mounted.0.join("recorded.allotrope"));
        let recording = described.run().code(125);
        assert_eq!(recording.stdout, b"ready\ndone\n", "it ran to its end");
        let printed = &recording.stderr;
        printed.has("No space left on device");
        let report = recording.report();
        let process = report.only();
        // Names are written last and do not fit: only the totals are checked.
        let kept = process.total("allocations");
        assert!((1..1_000 + pairs).contains(&kept), "{kept} kept");
        assert_ne!(process.json["complete"], true, "{}", report.summary());
        Outcome::Seen(format!(
            "the program ended, status 125, failure reported, {kept} readable"
        ))
    });
}

/// Records `own_failures.c` with a limit of file sizes: its random sizes need a trace above
/// 1 MB, the recording's shared memory a file of more than 1 GiB. The program itself writes no
/// file. Root must give up the right to raise a limit.
fn with_limit(ulimit: &str) -> Recording {
    let described = record(target("own_failures.c")).arg("1000000");
    let plain = described.command();
    let mut command = Command::new("bash");
    let drop = if is_root() {
        "setpriv --bounding-set -sys_resource"
    } else {
        ""
    };
    let line = format!("ulimit {ulimit} 100; exec {drop} \"$0\" \"$@\"");
    command
        .args(["-c", &line])
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(described.folder());
    let output = run(&mut command, b"g");
    described.recorded(output)
}

#[test]
fn a_trace_ends_at_the_limit_of_file_sizes_as_on_a_full_disk() {
    let recording = with_limit("-S -f").code(125);
    assert_eq!(recording.stdout, b"ready\ndone\n", "it ran to its end");
    let printed = &recording.stderr;
    printed.has_all(["File too large", "ulimit -f"]);
    let length = std::fs::metadata(&recording.trace).expect("a trace").len();
    assert!(length <= 100 << 10, "{length} bytes");
    let report = recording.report();
    let process = report.only();
    assert!(process.total("allocations") > 0);
    assert_ne!(process.json["complete"], true, "{}", report.summary());
}

/// Reported: a limit of file sizes (`ulimit -f`) prevents the recording.
#[test]
fn a_limit_of_file_sizes_that_cannot_be_raised_is_named() {
    let recording = with_limit("-f").code(125);
    assert!(recording.stdout.is_empty(), "the program was started");
    let printed = &recording.stderr;
    printed.has("limit of file sizes (ulimit -f) is 102400 bytes");
}

/// Copies an executable in a process of its own: a program that another test starts
/// could inherit a descriptor of ours that is open for writing, and then the copy
/// could not be executed (ETXTBSY).
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status();
    assert!(status.expect("cp(1) starts").success());
}

/// Records as a user without rights, whose `HOME` is made unusable.
fn without_home(name: &str, prepare: impl FnOnce(&Path) -> Result<Option<Mounted>, String>) {
    let expected = "another private folder is used, or the reason is reported; exact counts";
    case(GROUP, name, expected, || {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = folder.path().join("home");
        // Started by root, it runs as nobody, who must reach the command and the program.
        let free = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), free).expect("it is ours");
        let ours = folder.path().join("allotrope");
        copy(Path::new(command().get_program()), &ours);
        let program = folder.path().join("own_failures");
        copy(&target("own_failures.c"), &program);
        let _mounted = match prepare(&home) {
            Ok(mounted) => mounted,
            Err(reason) => return Outcome::Skipped(reason),
        };
        let trace = folder.path().join("recorded.allotrope");
        let mut command = Command::new(&ours);
        command
            .args(["record", "-o"])
            .arg(&trace)
            .arg("--")
            .arg(&program)
            .arg("1000")
            .env("HOME", &home)
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_RUNTIME_DIR")
            .current_dir(folder.path());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = run(&mut command, b"g").code(7);
        let printed = output.errors();
        assert_eq!(output.stdout, b"ready\ndone\n", "{printed}");
        expect_all(&Report::of(&trace), 1_000);
        Outcome::Seen("2000 of 2000".to_owned())
    });
}

#[test]
fn cache_folder_missing() {
    without_home("no cache folder can be created", |_| Ok(None));
}

#[test]
fn cache_folder_read_only() {
    without_home("the cache folder is read-only", |home| {
        Mounted::new(home.parent().expect("it was joined"), "home", "ro,mode=777").map(Some)
    });
}

#[test]
fn cache_folder_noexec() {
    without_home("the cache folder is noexec", |home| {
        Mounted::new(
            home.parent().expect("it was joined"),
            "home",
            "noexec,mode=777",
        )
        .map(Some)
    });
}

#[test]
fn two_recordings_at_once() {
    let pairs = count(200_000, 5_000_000);
    case(
        GROUP,
        "two recordings at once",
        "each recording has its own program, exactly",
        || {
            let mut both = [waiting(pairs, 0), waiting(pairs + 1, 0)];
            both.iter_mut().for_each(Waiting::go);
            for (waiting, pairs) in both.into_iter().zip([pairs, pairs + 1]) {
                let recording = waiting.finish().code(7);
                expect_all(&recording.report(), pairs);
            }
            Outcome::Seen(format!("{pairs}; {}", pairs + 1))
        },
    );
}

#[test]
fn recording_inside_a_recording() {
    let pairs = 1_000;
    let expected = "the inner recording has the program, exactly; the outer one is complete";
    case(GROUP, "a recording inside a recording", expected, || {
        let recording = record(command().get_program())
            .args(["record", "-o", "inner", "--"])
            .arg(target("own_failures.c"))
            .arg(pairs.to_string())
            .stdin(b"g")
            .run()
            .code(7);
        assert_eq!(recording.stdout, b"ready\ndone\n");
        expect_all(&Report::of(&recording.folder.path().join("inner")), pairs);
        let outer = recording.report();
        expect_complete(&outer);
        assert!(outer.processes()[0].command().contains(&"inner"));
        Outcome::Seen("2000 of 2000 inside; outside complete, lost 0".to_owned())
    });
}
