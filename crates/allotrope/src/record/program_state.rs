//! What the recorded program, a child of this process, does as a job: that it
//! ended, stopped or was continued, by waitid(2). One thread waits for the next
//! change and leaves it in place; the launcher's own thread takes it, so that it
//! knows what came before what. The kernel keeps the latest change only.

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};

/// What a program did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It ended, and is left for the launcher to reap, so that its id stays its own
    /// while signals are passed on to it.
    Ended,
    /// It stopped, by this signal. A debugger that holds it does not count.
    Stopped(i32),
    /// It goes on after a stop.
    GoneOn,
}

/// Returns when there is a change to be taken. `false`: there will be none, for
/// it has been waited for.
pub fn wait_for_change(pid: u32) -> bool {
    let changes = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
    wait(pid, changes | WaitIdOptions::NOWAIT).is_some()
}

/// The latest change, if there is one that was not taken yet.
pub fn take_change(pid: u32) -> Option<Change> {
    let stops = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
    if let Some(status) = wait(pid, stops | WaitIdOptions::NOHANG) {
        return Some(match status.stopping_signal() {
            Some(signal) => Change::Stopped(signal),
            None => Change::GoneOn,
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
            (Signal::CONT, Change::GoneOn),
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
