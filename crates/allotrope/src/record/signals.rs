//! Signals to the front process: which are caught, and which of them the
//! program has to be told of. Those that the terminal makes (Ctrl-C, Ctrl-\)
//! reach the program by themselves, for it shares the front's process group;
//! those that a process sent to the front alone are meant for the program.
//!
//! Not caught are `SIGTSTP`, `SIGTTIN`, `SIGTTOU` and `SIGCONT` (the front stops
//! and goes on like its program), the signals of faults, and those that were
//! ignored when the front was started (nohup).

use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::signal as number;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::dispositions::Signals;

/// What would end the front, or is customarily sent to a program.
const CAUGHT: [i32; 13] = [
    number::SIGHUP,
    number::SIGINT,
    number::SIGQUIT,
    number::SIGUSR1,
    number::SIGUSR2,
    number::SIGALRM,
    number::SIGTERM,
    number::SIGURG,
    number::SIGVTALRM,
    number::SIGPROF,
    number::SIGWINCH,
    number::SIGIO,
    SIGPWR,
];
const SIGPWR: i32 = 30;
/// Real-time signals that programs can use; glibc keeps 32 and 33.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;
/// More generations than this are not searched for a sender's ancestors.
const GENERATIONS: usize = 1024;

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub signal: i32,
    /// The process that sent it; `None` if the kernel or the terminal did.
    pub sender: Option<i32>,
}

impl Received {
    /// Whether it is a request to end.
    pub fn is_request_to_end(&self) -> bool {
        matches!(
            self.signal,
            number::SIGHUP | number::SIGINT | number::SIGQUIT | number::SIGTERM
        )
    }
}

/// Catches the signals and gives each to `received`, in a thread of its own,
/// until `unprotected` is set: from then on a request to end ends this process.
pub fn catch(
    ignored: Signals,
    unprotected: Arc<AtomicBool>,
    mut received: impl FnMut(Received) + Send + 'static,
) -> io::Result<()> {
    let caught = CAUGHT
        .into_iter()
        .chain(REAL_TIME)
        .filter(|signal| !ignored.contains(*signal));
    let mut signals = SignalsInfo::<WithOrigin>::new(caught)?;
    // With SIGCHLD ignored a child's status could not be had.
    signals.add_signal(number::SIGCHLD)?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for origin in signals.forever() {
                if origin.signal == number::SIGCHLD {
                    continue;
                }
                let signal = from_origin(&origin);
                if signal.is_request_to_end() && unprotected.load(Ordering::Acquire) {
                    std::process::exit(128 + signal.signal);
                }
                received(signal);
            }
        })?;
    Ok(())
}

fn from_origin(origin: &Origin) -> Received {
    let sent = matches!(origin.cause, Cause::Sent(_));
    Received {
        signal: origin.signal,
        sender: sent.then(|| origin.process.map_or(0, |process| process.pid)),
    }
}

/// Passes a signal on to the program, if it is meant for it and did not reach
/// it already. The program must not have been waited for yet.
pub fn pass_on(received: Received, program: u32) {
    let Some(sender) = received.sender else {
        return;
    };
    let Ok(program) = i32::try_from(program) else {
        return;
    };
    // What the program sends to its own process group has reached it.
    if descends_from(sender, program) {
        return;
    }
    let Some(program) = Pid::from_raw(program) else {
        return;
    };
    if let Some(signal) = Signal::from_named_raw(received.signal) {
        let _ = kill_process(program, signal);
    } else {
        send_real_time(received.signal, program);
    }
}

/// rustix sends no signal that has no name; a shell does. Its `kill` is a
/// builtin, and this happens hardly ever.
fn send_real_time(signal: i32, program: Pid) {
    let pid = program.as_raw_nonzero();
    let _ = Command::new("/bin/sh")
        .args(["-c", &format!("kill -{signal} {pid}")])
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

fn descends_from(mut pid: i32, ancestor: i32) -> bool {
    for _ in 0..GENERATIONS {
        if pid == ancestor {
            return true;
        }
        match parent(pid) {
            Some(parent) if parent > 1 => pid = parent,
            _ => return false,
        }
    }
    false
}

fn parent(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_are_found() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut child = Command::new("sleep").arg("10").spawn().unwrap();
        let childs = i32::try_from(child.id()).unwrap();
        assert!(descends_from(childs, own));
        assert!(descends_from(own, own));
        assert!(!descends_from(own, childs));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
