//! Job control: when the program stops, `record` stops with it, and both continue
//! together, so a shell sees one job. `programs/stopping.c`, with and without a
//! terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::support::{Record, Started, compiled, record};
use rustix::fs::OFlags;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Far above what any of this needs on a machine under load.
const TIME_LIMIT: Duration = Duration::from_secs(120);

const STOP_SIGNALS: [Signal; 4] = [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// Starts the recording as a job of its own: a process group whose leader's
/// parent is in the same session, so that the kernel stops it.
fn start(run: &Record) -> Started {
    Started::new(run.command().process_group(0))
}

/// Waits for the next stop of `record`, as a shell does; returns the signal.
#[track_caller]
fn wait_for_stop(child: &Started) -> i32 {
    let deadline = Instant::now() + TIME_LIMIT;
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    loop {
        let status = waitid(WaitId::Pid(child.pid()), options).expect("it is our child");
        if let Some(signal) = status.and_then(|status| status.stopping_signal()) {
            return signal;
        }
        assert!(Instant::now() < deadline, "it did not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a child of `record` is stopped, too.
#[track_caller]
fn wait_for_stopped_child(launcher: Pid) {
    let deadline = Instant::now() + TIME_LIMIT;
    let launcher = launcher.as_raw_nonzero();
    let is_stopped = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
        state.is_some_and(|state| state.starts_with('T'))
    };
    loop {
        let children =
            std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"))
                .expect("the kernel lists children");
        if children.split_whitespace().any(is_stopped) {
            return;
        }
        assert!(Instant::now() < deadline, "no child stopped");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Records a case that stops by itself three times; `go_on` continues it.
fn stops_by_itself(signal: Signal, go_on: fn(Pid)) {
    let number = signal.as_raw().to_string();
    let run = record(compiled("stopping.c")).args(["by-itself", &number]);
    let child = start(&run);
    for _ in 0..3 {
        assert_eq!(wait_for_stop(&child), signal.as_raw());
        go_on(child.pid());
    }
    let output = child.end();
    let recording = run.recorded(output).code(7);
    assert_eq!(recording.stdout, b"gone on\n".repeat(3));
    assert_eq!(recording.report().only().under("gone_on").allocations, 3);
}

#[test]
fn the_launcher_alone_is_continued() {
    for signal in STOP_SIGNALS {
        stops_by_itself(signal, |launcher| {
            kill_process(launcher, Signal::CONT).expect("it is our child");
        });
    }
}

#[test]
fn the_whole_job_is_continued() {
    for signal in STOP_SIGNALS {
        stops_by_itself(signal, |launcher| {
            kill_process_group(launcher, Signal::CONT).expect("it is our child's group");
        });
    }
}

/// Only the program is continued, by its own child: `record` must continue with it.
#[test]
fn the_program_alone_is_continued() {
    for signal in ["19", "20"] {
        let run = record(compiled("stopping.c")).args(["continued-by-its-child", signal]);
        let output = start(&run).end();
        let recording = run.recorded(output).code(7);
        assert_eq!(recording.stdout, b"gone on\n");
    }
}

#[test]
fn the_program_is_killed_while_it_is_stopped() {
    let run = record(compiled("stopping.c")).args(["killed-while-stopped", "19"]);
    let output = start(&run).end();
    run.recorded(output).code(128 + 9);
}

/// When `record` alone gets SIGTSTP, it passes the signal on to the program, and stops
/// when the program does.
#[test]
fn a_request_to_stop_is_passed_on() {
    let run = record(compiled("stopping.c")).arg("reads");
    let mut child = start(&run);
    assert_eq!(child.line(), "reading");
    child.signal(Signal::TSTP);
    assert_eq!(wait_for_stop(&child), Signal::TSTP.as_raw());
    child.signal(Signal::CONT);
    child.send("end");
    let output = child.end();
    run.recorded(output).code(7);
}

/// `record` cannot catch SIGSTOP: the program runs on meanwhile, and no event is
/// lost.
#[test]
fn the_launcher_alone_is_stopped_from_outside() {
    let run = record(compiled("stopping.c")).arg("reads");
    let mut child = start(&run);
    assert_eq!(child.line(), "reading");
    child.signal(Signal::STOP);
    assert_eq!(wait_for_stop(&child), Signal::STOP.as_raw());
    child.send("one");
    assert_eq!(child.line(), "gone on");
    child.signal(Signal::CONT);
    child.send("end");
    let output = child.end();
    let recording = run.recorded(output).code(7);
    assert_eq!(recording.report().only().under("gone_on").allocations, 2);
}

/// The whole group is stopped from outside; then its leader alone is continued.
#[test]
fn the_whole_job_is_stopped_from_outside() {
    let run = record(compiled("stopping.c")).arg("reads");
    let mut child = start(&run);
    assert_eq!(child.line(), "reading");
    kill_process_group(child.pid(), Signal::STOP).expect("it is our child's group");
    assert_eq!(wait_for_stop(&child), Signal::STOP.as_raw());
    wait_for_stopped_child(child.pid());
    child.signal(Signal::CONT);
    child.send("end");
    let output = child.end();
    run.recorded(output).code(7);
}

/// bash on a terminal of its own.
struct Terminal {
    master: File,
    seen: Arc<(Mutex<String>, Condvar)>,
    /// The number of bytes of `seen` that `expect` has consumed.
    used: usize,
    shell: Child,
}

/// A prompt that nothing else prints.
const PROMPT: &str = "<ready>";

impl Terminal {
    fn new(run: &Record) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal can be opened");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let name = name.to_str().expect("it is a path");
        let slave: OwnedFd = File::options()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NOCTTY.bits().cast_signed())
            .open(name)
            .expect("it can be opened")
            .into();
        let mut modes = rustix::termios::tcgetattr(&slave).expect("it is a terminal");
        // No echo: the terminal shows only what programs print.
        modes.local_modes -= rustix::termios::LocalModes::ECHO;
        rustix::termios::tcsetattr(&slave, rustix::termios::OptionalActions::Now, &modes)
            .expect("it is a terminal");
        let stream = || Stdio::from(slave.try_clone().expect("descriptors are left"));
        let shell = Command::new("setsid")
            .args([
                "--ctty",
                "bash",
                "--norc",
                "--noprofile",
                "--noediting",
                "-i",
            ])
            .env("PS1", PROMPT)
            .env("LC_ALL", "C")
            .env_remove("PROMPT_COMMAND")
            .current_dir(run.folder())
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .expect("setsid(1) of util-linux and bash are installed");
        let master = File::from(master);
        let seen = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let (mut reader, shared) = (master.try_clone().unwrap(), seen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Ends with an error when the terminal's last user is gone.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]).replace('\r', "");
                shared.0.lock().unwrap().push_str(&text);
                shared.1.notify_all();
            }
        });
        let mut terminal = Self {
            master,
            seen,
            used: 0,
            shell,
        };
        terminal.expect(PROMPT);
        terminal
    }

    /// Types a line.
    fn line(&mut self, text: &str) {
        self.keys(&format!("{text}\n"));
    }

    /// Presses keys.
    fn keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("it is open");
    }

    /// Waits until this is printed after the text expected last; returns what is
    /// between the two.
    #[track_caller]
    fn expect(&mut self, text: &str) -> String {
        let deadline = Instant::now() + TIME_LIMIT;
        let (lock, changed) = &*self.seen;
        let mut seen = lock.lock().unwrap();
        loop {
            if let Some(at) = seen[self.used..].find(text) {
                let before = seen[self.used..self.used + at].to_owned();
                self.used += at + text.len();
                return before;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {text:?} in what was printed: {seen}");
            seen = changed.wait_timeout(seen, left).unwrap().0;
        }
    }

    /// Waits until the launcher, which is the shell's child, has `SIGTSTP` blocked again. While it
    /// continues, it has not for a moment, and Ctrl-Z would stop it before the program.
    #[track_caller]
    fn wait_for_the_launcher(&self) {
        let deadline = Instant::now() + TIME_LIMIT;
        let shell = self.shell.id();
        let blocks_it = |pid: &str| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let mask = status.lines().find_map(|it| it.strip_prefix("SigBlk:"))?;
            let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
            Some(mask & 1 << (Signal::TSTP.as_raw() - 1) != 0)
        };
        loop {
            let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"))
                .expect("the kernel lists children");
            if children
                .split_whitespace()
                .any(|it| blocks_it(it) == Some(true))
            {
                return;
            }
            assert!(Instant::now() < deadline, "nothing blocks SIGTSTP");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether this has been printed so far.
    fn shows(&self, text: &str) -> bool {
        self.seen.0.lock().unwrap().contains(text)
    }

    /// Ends the shell.
    fn end(mut self) {
        self.line("exit 0");
        let status = self.shell.wait().expect("it is our child");
        assert_eq!(status.code(), Some(0), "{}", self.seen.0.lock().unwrap());
    }
}

/// The command line of a recording as it is typed.
fn typed(run: &Record) -> String {
    let command = run.command();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = words.map(|word| format!("'{}'", word.to_str().expect("paths of tests")));
    quoted.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_shells_job_stops_by_itself() {
    for signal in ["19", "20", "21", "22"] {
        let run = record(compiled("stopping.c"))
            .option("-q")
            .args(["by-itself", signal]);
        let mut terminal = Terminal::new(&run);
        terminal.line(&typed(&run));
        terminal.expect("Stopped");
        terminal.expect(PROMPT);
        terminal.line("jobs");
        terminal.expect("Stopped");
        terminal.expect(PROMPT);
        terminal.line("fg");
        terminal.expect("gone on\n");
        terminal.expect("Stopped");
        terminal.expect(PROMPT);
        terminal.line("%1");
        terminal.expect("gone on\n");
        terminal.expect("Stopped");
        terminal.expect(PROMPT);
        terminal.line("bg; wait %1; echo status $?");
        terminal.expect("gone on\n");
        terminal.expect("status 7\n");
        terminal.expect(PROMPT);
        terminal.end();
    }
}

#[test]
fn ctrl_z_stops_the_job() {
    for case in ["reads", "reads-careful"] {
        let run = record(compiled("stopping.c")).option("-q").arg(case);
        let mut terminal = Terminal::new(&run);
        terminal.line(&typed(&run));
        terminal.expect("reading\n");
        for _ in 0..3 {
            terminal.wait_for_the_launcher();
            terminal.keys("\u{1a}");
            let before = terminal.expect("Stopped");
            // The shell gets the terminal only after the program has cleaned up.
            assert_eq!(
                before.contains("cleaned up\n"),
                case == "reads-careful",
                "{before}"
            );
            terminal.expect(PROMPT);
            terminal.line("fg");
            terminal.line("a line");
            terminal.expect("gone on\n");
        }
        terminal.line("end");
        terminal.expect("gone on\n");
        terminal.expect(PROMPT);
        terminal.line("echo status $?");
        terminal.expect("status 7\n");
        terminal.end();
    }
}

/// A program that ignores Ctrl-Z runs on, and so does the job.
#[test]
fn ctrl_z_that_the_program_ignores() {
    let run = record(compiled("stopping.c"))
        .option("-q")
        .arg("reads-deaf");
    let mut terminal = Terminal::new(&run);
    terminal.line(&typed(&run));
    terminal.expect("reading\n");
    terminal.keys("\u{1a}");
    terminal.line("a line");
    terminal.expect("gone on\n");
    terminal.line("end");
    terminal.expect("gone on\n");
    terminal.expect(PROMPT);
    terminal.line("echo status $?");
    terminal.expect("status 7\n");
    assert!(!terminal.shows("Stopped"));
    terminal.end();
}

/// The kernel stops a job in the background that reads from the terminal.
#[test]
fn a_job_in_the_background_reads() {
    let run = record(compiled("stopping.c")).option("-q").arg("reads");
    let mut terminal = Terminal::new(&run);
    terminal.line(&format!("{} &", typed(&run)));
    terminal.expect("reading\n");
    // Waits until the shell knows that the job has stopped.
    terminal.line("until [ -n \"$(jobs -s)\" ]; do sleep 0.01; done; echo known");
    terminal.expect("known\n");
    terminal.line("fg");
    terminal.line("end");
    terminal.expect("gone on\n");
    terminal.expect(PROMPT);
    terminal.line("echo status $?");
    terminal.expect("status 7\n");
    terminal.end();
}
