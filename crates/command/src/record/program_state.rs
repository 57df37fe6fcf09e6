//! State changes of the recorded program, a child of this process: it ended,
//! stopped or was continued (waitid(2)). One thread waits for a change without
//! consuming it; the launcher's main thread consumes it, so that it knows the
//! order of changes and signals. The kernel keeps only the latest change.

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};

/// A state change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The program ended. The launcher has not reaped it yet: its process id stays
    /// valid while signals are forwarded to it.
    Ended,
    /// This signal stopped it. A stop by a debugger is no change.
    Stopped(i32),
    /// It was continued after a stop.
    Continued,
}

/// Waits until there is a change to take; `false` if there will be none because
/// the program was reaped.
pub fn wait_for_change(pid: u32) -> bool {
    let changes = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
    wait(pid, changes | WaitIdOptions::NOWAIT).is_some()
}

/// Takes the latest change; `None` if it was taken already.
pub fn take_change(pid: u32) -> Option<Change> {
    let stops = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
    if let Some(status) = wait(pid, stops | WaitIdOptions::NOHANG) {
        return Some(match status.stopping_signal() {
            Some(signal) => Change::Stopped(signal),
            None => Change::Continued,
        });
    }
    let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    wait(pid, end).map(|_| Change::Ended)
}

fn wait(pid: u32, options: WaitIdOptions) -> Option<WaitIdStatus> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Err(rustix::io::Errno::INTR) => {}
            result => return result.ok()?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, kill_process};

    #[test]
    fn each_change_is_waited_for_and_taken_once() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let pid = child.id();
        assert_eq!(take_change(pid), None);
        for (signal, change) in [
            (Signal::STOP, Change::Stopped(Signal::STOP.as_raw())),
            (Signal::CONT, Change::Continued),
            (Signal::KILL, Change::Ended),
        ] {
            kill_process(Pid::from_child(&child), signal).unwrap();
            assert!(wait_for_change(pid));
            assert_eq!(take_change(pid), Some(change));
        }
        child.wait().unwrap();
        assert!(!wait_for_change(pid));
        assert_eq!(take_change(pid), None);
    }
}
