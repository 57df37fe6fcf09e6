//! Signals to the launcher process: which it catches, and which it forwards to
//! the program. The terminal sends its signals (Ctrl-C, Ctrl-\) to the whole
//! process group, so that they reach the program without the launcher; a signal
//! that a process sends to the launcher alone is meant for the program.
//!
//! The launcher stops when the program stops and not by itself, so that a shell
//! sees one job: a program may ignore Ctrl-Z, or clean up before it stops.
//! `SIGTSTP`, `SIGTTIN` and `SIGTTOU` are therefore blocked in every thread and
//! read from a signalfd(2) while the program lives; [`stop_like`] lets one
//! through. `SIGSTOP` cannot be caught: sent to the launcher alone, it stops the
//! launcher alone.
//!
//! The launcher does not catch the signals of faults, nor those that were
//! ignored when it was started (nohup).

use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, SigmaskHow, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::signal as number;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::signal_state::{self, Signals};

/// Signals that would end the launcher, or that people send to programs.
const CAUGHT: [i32; 14] = [
    number::SIGHUP,
    number::SIGINT,
    number::SIGQUIT,
    number::SIGUSR1,
    number::SIGUSR2,
    number::SIGALRM,
    number::SIGTERM,
    number::SIGCONT,
    number::SIGURG,
    number::SIGVTALRM,
    number::SIGPROF,
    number::SIGWINCH,
    number::SIGIO,
    SIGPWR,
];
const SIGPWR: i32 = 30;
/// Real-time signals that programs can use; glibc reserves 32 and 33.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;
/// Signals that stop a process unless it handles or ignores them.
const STOPPING: [nix::sys::signal::Signal; 3] = [
    nix::sys::signal::Signal::SIGTSTP,
    nix::sys::signal::Signal::SIGTTIN,
    nix::sys::signal::Signal::SIGTTOU,
];
/// Largest number of generations that the search for a sender's ancestors visits.
const GENERATIONS: usize = 1024;

/// A received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Number of the signal.
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

    /// Whether it makes a stopped process go on.
    pub fn is_continuation(&self) -> bool {
        self.signal == number::SIGCONT
    }
}

/// The launcher as a shell's job, which stops and continues with the program. It
/// belongs to the thread that handles the program's state changes.
#[derive(Debug)]
pub struct Job {
    /// The thread's signal mask before [`catch`].
    mask: SigSet,
    continued: Arc<AtomicBool>,
    requests_to_stop: Arc<SignalFd>,
}

impl Job {
    /// Lets only the calling thread receive `SIGCONT` from here on: its handler has run
    /// before this thread continues after a stop, so that [`Self::was_continued`] is up
    /// to date then.
    pub fn begin(&self) {
        // Fails for a bad argument only; likewise below.
        let _ = SigSet::from(nix::sys::signal::Signal::SIGCONT).thread_unblock();
    }

    /// Whether somebody continued this process since the last
    /// [`Self::was_continued`].
    pub fn is_continued(&self) -> bool {
        self.continued.load(Ordering::Acquire)
    }

    /// Same as [`Self::is_continued`], but also clears it.
    pub fn was_continued(&self) -> bool {
        self.continued.swap(false, Ordering::AcqRel)
    }

    /// The program has ended. Lets the terminal stop this process again, like
    /// any process that writes to it in the background.
    pub fn end(&self) {
        let _ = self.requests_to_stop.set_mask(&SigSet::empty());
        // Pending requests to stop were meant for the program. The kernel
        // discards them when a process is continued.
        let _ = kill_process(rustix::process::getpid(), Signal::CONT);
        let _ = self.mask.thread_set_mask();
    }
}

/// Catches the signals and calls `received` with each, in threads of its own,
/// until `unprotected` is set: from then on a request to end ends this process.
/// Must be called before other threads are started.
pub fn catch(
    ignored: Signals,
    unprotected: Arc<AtomicBool>,
    received: impl FnMut(Received) + Clone + Send + 'static,
) -> io::Result<Job> {
    let stopping = STOPPING.into_iter().collect::<SigSet>();
    let mut others = stopping;
    others.add(nix::sys::signal::Signal::SIGCONT);
    let mask = others.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let continued = Arc::new(AtomicBool::new(false));
    if !ignored.contains(number::SIGCONT) {
        signal_hook::flag::register(number::SIGCONT, continued.clone())?;
    }
    let requests = Arc::new(SignalFd::with_flags(&stopping, SfdFlags::SFD_CLOEXEC)?);
    read_requests_to_stop(requests.clone(), received.clone())?;
    catch_others(ignored, unprotected, received)?;
    Ok(Job {
        mask,
        continued,
        requests_to_stop: requests,
    })
}

fn read_requests_to_stop(
    pending: Arc<SignalFd>,
    mut received: impl FnMut(Received) + Send + 'static,
) -> io::Result<()> {
    std::thread::Builder::new()
        .name("stops".into())
        .spawn(move || {
            loop {
                match pending.read_signal() {
                    Ok(Some(information)) => received(from_information(&information)),
                    Ok(None) | Err(nix::errno::Errno::EINTR) => {}
                    Err(_) => return,
                }
            }
        })?;
    Ok(())
}

fn from_information(information: &siginfo) -> Received {
    // The kernel's own codes are positive (sigaction(2)).
    let sent = information.ssi_code <= 0;
    Received {
        signal: information.ssi_signo.cast_signed(),
        sender: sent.then_some(information.ssi_pid.cast_signed()),
    }
}

/// Stops this process by the signal that stopped the program, so that its parent
/// sees the same; returns when it is continued. A `SIGCONT` that arrives in
/// between cancels the stop. In an orphaned process group only `SIGSTOP` stops.
pub fn stop_like(signal: i32) {
    let Ok(signal) = nix::sys::signal::Signal::try_from(signal) else {
        return;
    };
    if signal_state::ignored().contains(signal as i32) {
        let _ = raise(nix::sys::signal::Signal::SIGSTOP);
        return;
    }
    // The signal is blocked: it stays pending until this thread unblocks it.
    let _ = raise(signal);
    let alone = SigSet::from(signal);
    if let Ok(before) = alone.thread_swap_mask(SigmaskHow::SIG_UNBLOCK) {
        let _ = before.thread_set_mask();
    }
}

fn catch_others(
    ignored: Signals,
    unprotected: Arc<AtomicBool>,
    mut received: impl FnMut(Received) + Send + 'static,
) -> io::Result<()> {
    let caught = CAUGHT
        .into_iter()
        .chain(REAL_TIME)
        .filter(|signal| !ignored.contains(*signal));
    let mut signals = SignalsInfo::<WithOrigin>::new(caught)?;
    // With SIGCHLD ignored the kernel would discard the child's status.
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

/// Forwards a signal to the program if it is meant for it and did not reach it
/// already. The program must not have been reaped.
pub fn pass_on(received: Received, program: u32) {
    let Some(sender) = received.sender else {
        return;
    };
    let Ok(program) = i32::try_from(program) else {
        return;
    };
    // A signal that the program sent to its own process group reached it.
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

/// Continues the stopped program, which must not have been reaped.
pub fn go_on(program: u32) {
    if let Some(program) = i32::try_from(program).ok().and_then(Pid::from_raw) {
        let _ = kill_process(program, Signal::CONT);
    }
}

/// Sends a real-time signal by the shell's builtin `kill`, because rustix sends no
/// signal without a name. Such signals are rare.
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
