//! Runs a program in its own process group with a time limit, and keeps the end
//! of its output.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use allotrope_files::open_stored;
use allotrope_text::Shown;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// The number of bytes at the end of the output that are kept.
const OUTPUT_LIMIT: usize = 64 << 10;
/// Time between SIGTERM and SIGKILL.
const TERMINATION_GRACE: Duration = Duration::from_secs(3);
/// How long the output is read after the program has ended: a process that it
/// left behind may keep the pipe open.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);
/// The interval at which a request to stop is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A program to run.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Environment variables that are set for it.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory of the program.
    pub folder: PathBuf,
    /// The file that is its standard input; none if there is none.
    pub stdin: Option<PathBuf>,
    /// The time limit.
    pub timeout: Duration,
}

/// How a program ended, and the end of its output.
#[derive(Debug)]
pub struct Ended {
    /// How the program ended.
    pub ending: Ending,
    /// The end of its standard output and error, interleaved.
    pub output: String,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The program ended with this exit status.
    Status(i32),
    /// The program was ended by this signal.
    Signal(i32),
    /// The time limit expired; the process group was killed.
    TimedOut,
    /// The user requested an end; the process group was killed.
    Stopped,
}

impl Program {
    /// Runs the program until it ends. Setting `stop` ends it early.
    ///
    /// # Errors
    /// The program cannot be started or waited for.
    pub fn run(&self, stop: &AtomicBool) -> io::Result<Ended> {
        let Some((program, arguments)) = self.words.split_first() else {
            return Err(io::Error::other("no program is named"));
        };
        let stdin = match &self.stdin {
            Some(file) => input(file)?.into(),
            None => Stdio::null(),
        };
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .stdin(stdin)
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0);
        let mut child = command.spawn()?;
        // Closes the parent's copies of the pipe's write end.
        drop(command);
        let output = Output::follow(reader);
        let ending = self.wait(&mut child, stop);
        if ending.is_err() {
            signal_group(&child, Signal::KILL);
        }
        Ok(Ended {
            ending: ending?,
            output: output.text(),
        })
    }

    fn wait(&self, child: &mut Child, stop: &AtomicBool) -> io::Result<Ending> {
        let limit = Instant::now() + self.timeout;
        let early = loop {
            let left = limit.saturating_duration_since(Instant::now());
            if let Some(status) = wait_for(child, left.min(POLL_INTERVAL))? {
                return Ok(ending(status));
            }
            if stop.load(Ordering::Relaxed) {
                break Ending::Stopped;
            }
            if left.is_zero() {
                break Ending::TimedOut;
            }
        };
        signal_group(child, Signal::TERM);
        let limit = Instant::now() + TERMINATION_GRACE;
        while Instant::now() < limit {
            if wait_for(child, POLL_INTERVAL)?.is_some() {
                break;
            }
        }
        // Also kills processes of the group that outlived the program.
        signal_group(child, Signal::KILL);
        child.wait()?;
        Ok(early)
    }
}

/// Opens a file as the standard input of a program. A configuration names it, so it is a regular
/// file and no device.
///
/// # Errors
/// The file cannot be read.
pub fn input(file: &Path) -> io::Result<File> {
    let cannot =
        |why: &dyn fmt::Display| format!("cannot read its `stdin` {}: {why}", file.shown());
    if file.is_dir() {
        return Err(io::Error::other(cannot(&"it is a folder")));
    }
    open_stored(file).map_err(|error| {
        let sentence = match error.kind() {
            io::ErrorKind::InvalidInput => cannot(&format_args!(
                "{error}; without `stdin` there is nothing to read"
            )),
            _ => cannot(&error),
        };
        io::Error::new(error.kind(), sentence)
    })
}

fn ending(status: ExitStatus) -> Ending {
    match status.signal() {
        Some(signal) => Ending::Signal(signal),
        None => Ending::Status(status.code().unwrap_or_default()),
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// The exit status, if the program ends within `time`.
fn wait_for(child: &mut Child, time: Duration) -> io::Result<Option<ExitStatus>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    let Some(pid) = pid(child) else {
        return Ok(None);
    };
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    let time = Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => child.try_wait(),
        Err(error) => Err(error.into()),
    }
}

/// Sends a signal to the program's process group. The group's id is the program's pid,
/// which is not reused while any process of the group exists.
fn signal_group(child: &Child, signal: Signal) {
    if let Some(pid) = pid(child) {
        // Fails if no process is left.
        let _ = kill_process_group(pid, signal);
    }
}

/// The end of a program's output. A thread reads the pipe, so that the program
/// never blocks on it.
struct Output {
    tail: Arc<Mutex<Vec<u8>>>,
    finished: Receiver<()>,
}

impl Output {
    fn follow(mut reader: PipeReader) -> Self {
        let tail = Arc::new(Mutex::new(Vec::new()));
        let (finish, finished) = channel();
        let into = tail.clone();
        std::thread::spawn(move || {
            let mut piece = [0; 16 << 10];
            loop {
                match reader.read(&mut piece) {
                    Ok(0) => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                    Ok(read) => append(&into, &piece[..read]),
                }
            }
            let _ = finish.send(());
        });
        Self { tail, finished }
    }

    fn text(self) -> String {
        let _ = self.finished.recv_timeout(OUTPUT_GRACE);
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let from = tail.len().saturating_sub(OUTPUT_LIMIT);
        String::from_utf8_lossy(&tail[from..]).into_owned()
    }
}

fn append(into: &Mutex<Vec<u8>>, piece: &[u8]) {
    let mut tail = into.lock().unwrap_or_else(PoisonError::into_inner);
    tail.extend_from_slice(piece);
    if tail.len() > 2 * OUTPUT_LIMIT {
        let excess = tail.len() - OUTPUT_LIMIT;
        tail.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str, timeout: Duration) -> Program {
        Program {
            words: ["sh", "-c", line].map(OsString::from).to_vec(),
            environment: vec![("NAME".into(), "value".into())],
            folder: "/".into(),
            stdin: None,
            timeout,
        }
    }

    const LONG: Duration = Duration::from_secs(600);

    fn run(line: &str, timeout: Duration) -> Ended {
        let ended = shell(line, timeout).run(&AtomicBool::new(false));
        ended.unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn status_and_output_are_returned() {
        let ended = run("echo $NAME; pwd >&2; exit 7", LONG);
        assert_eq!(ended.ending, Ending::Status(7));
        assert_eq!(ended.output, "value\n/\n");
        assert_eq!(run("kill -SEGV $$", LONG).ending, Ending::Signal(11));
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children() {
        // The child would print only if it survived.
        let line = "(sleep 1000; echo survived) & echo $!; sleep 1000";
        let ended = run(line, Duration::from_secs(3));
        assert_eq!(ended.ending, Ending::TimedOut);
        let child = ended.output.trim();
        assert!(!child.is_empty(), "the shell had 3 s to print it");
        // A zombie has no command line.
        let left = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn a_program_that_ignores_sigterm_is_killed() {
        let ended = run(
            "trap '' TERM; sleep 1000 & wait; sleep 1000",
            Duration::from_millis(300),
        );
        assert_eq!(ended.ending, Ending::TimedOut);
    }

    #[test]
    fn a_stop_request_ends_the_program() {
        let stop = AtomicBool::new(true);
        let ended = shell("sleep 1000", LONG)
            .run(&stop)
            .expect("it can be started");
        assert_eq!(ended.ending, Ending::Stopped);
    }

    #[test]
    fn the_end_of_long_output_is_kept() {
        // 200,000 numbers are more than a megabyte.
        let ended = run("seq 200000", LONG);
        assert!(ended.output.ends_with("\n200000\n"));
        assert_eq!(ended.output.len(), OUTPUT_LIMIT);
    }

    #[test]
    fn a_background_process_is_not_waited_for() {
        let ended = run("sleep 1000 & echo left $!", LONG);
        assert_eq!(ended.ending, Ending::Status(0));
        let pid = ended.output.trim().trim_start_matches("left ");
        let pid: i32 = pid.parse().expect("the shell printed it");
        let pid = Pid::from_raw(pid).expect("it is above 0");
        rustix::process::kill_process(pid, Signal::KILL).expect("it is still there");
    }
}
