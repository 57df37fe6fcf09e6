//! Signals that come in the middle of long work end it: the work would go on for seconds and, on a
//! loaded machine, for minutes.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::command;
use rustix::process::{Pid, Signal, kill_process};

use crate::recording_bounds::bombs;
use crate::recording_bounds::limited::Recording;

/// Ticks of processor time after which a command is in the middle of its work: a tick is 10 ms.
const SOME_WORK: u64 = 15;
/// Nothing takes so long but a command that ignores a signal.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(recording: &Recording, line: &str) -> Child {
    command()
        .args(recording.arguments(line))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it is there")
}

/// The fields of `/proc/PID/stat` from the third on, proc(5).
fn stat(child: &Child) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().map(str::to_owned).collect()
}

/// Ticks of processor time that a process has taken: the 14th and 15th field.
fn ticks(child: &Child) -> u64 {
    let fields = stat(child);
    let field = |at: usize| fields.get(at).and_then(|it| it.parse::<u64>().ok());
    field(11).unwrap_or(0) + field(12).unwrap_or(0)
}

/// Waits until something is so; `None` if the command ended before.
fn wait_until(child: &mut Child, mut is_so: impl FnMut(&Child) -> bool) -> Option<()> {
    let begun = Instant::now();
    while !is_so(child) {
        if child.try_wait().expect("it is our child").is_some() {
            return None;
        }
        assert!(begun.elapsed() < PATIENCE * 4, "nothing happens");
        thread::sleep(Duration::from_millis(1));
    }
    Some(())
}

/// Sends a signal and waits for the end.
fn signal(child: &mut Child, signal: Signal) -> ExitStatus {
    let pid = Pid::from_child(child);
    kill_process(pid, signal).expect("it is our child");
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return status;
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it goes on after {signal:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn is_ended_by(status: ExitStatus, signal: Signal) -> bool {
    let number = signal.as_raw();
    status.signal() == Some(number) || status.code() == Some(128 + number)
}

/// Whether this process, and so its children, ignores a signal: nohup(1), a shell's background.
fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 != 0)
}

/// Two recordings with 200 million frames, and 20 million events.
fn large() -> [Recording; 2] {
    let of = |name| bombs::comb(12_000, 1_000, name);
    let blocks = bombs::many_blocks(20_000_000, "f");
    [
        Recording::new(of("f"), of("g")),
        Recording::new(blocks, Vec::new()),
    ]
}

#[test]
fn signals_end_every_command_in_the_middle_of_its_work() {
    let [frames, blocks] = large();
    let lines = [
        (&frames, "report --tree top-down --all-frames FILE"),
        (&frames, "report --format json FILE"),
        (&frames, "report --html OUT FILE"),
        (&frames, "report --flamegraph OUT FILE"),
        (&frames, "show FILE site:1"),
        (&frames, "view --no-open FILE"),
        (&frames, "view --no-open FILE OTHER"),
        (&frames, "diff FILE OTHER"),
        (&frames, "diff --html OUT FILE OTHER"),
        (&frames, "export --format stacks -o OUT FILE"),
        (&blocks, "report FILE"),
        (&blocks, "report --site 1 --events --format csv FILE"),
        (&blocks, "export --format heaptrack -o OUT FILE"),
        (&blocks, "replay FILE"),
        (&blocks, "paths FILE"),
    ];
    for (number, (recording, line)) in lines.into_iter().enumerate() {
        let all = [Signal::TERM, Signal::INT, Signal::HUP];
        let wanted = all[number % all.len()];
        let sent = match is_ignored(wanted) {
            true => Signal::TERM,
            false => wanted,
        };
        let mut child = start(recording, line);
        let at_work = wait_until(&mut child, |child| ticks(child) >= SOME_WORK);
        at_work.unwrap_or_else(|| panic!("`allotrope {line}` ends at once"));
        let status = signal(&mut child, sent);
        assert!(is_ended_by(status, sent), "`allotrope {line}`: {status}");
        assert_eq!(recording.written(), Vec::<PathBuf>::new(), "{line}");
    }
}

#[test]
fn a_signal_while_an_output_is_written_leaves_no_part_of_it() {
    let [frames, _] = large();
    for line in [
        "export --format stacks -o OUT FILE",
        "export --format folded -o OUT FILE",
    ] {
        let mut child = start(&frames, line);
        let written = wait_until(&mut child, |_| !frames.written().is_empty());
        written.unwrap_or_else(|| panic!("`allotrope {line}` wrote nothing"));
        let status = signal(&mut child, Signal::TERM);
        assert!(is_ended_by(status, Signal::TERM), "{line}: {status}");
        assert_eq!(frames.written(), Vec::<PathBuf>::new(), "{line}");
    }
}

#[test]
fn a_signal_while_nobody_reads_the_output_ends_the_command() {
    let recording = Recording::new(bombs::comb(2_000, 100, "f"), Vec::new());
    for line in ["export --format folded FILE", "report --format json FILE"] {
        let mut child = command()
            .args(recording.arguments(line))
            .stdout(Stdio::piped())
            .spawn()
            .expect("it is there");
        // It waits (S): for the pipe, which is never read.
        let mut looks = 0;
        let waits = wait_until(&mut child, |child| {
            let waits = stat(child).first().is_some_and(|it| it == "S");
            looks = if waits { looks + 1 } else { 0 };
            looks > 100
        });
        waits.unwrap_or_else(|| panic!("`allotrope {line}` does not wait"));
        let status = signal(&mut child, Signal::TERM);
        assert!(is_ended_by(status, Signal::TERM), "{line}: {status}");
    }
}
