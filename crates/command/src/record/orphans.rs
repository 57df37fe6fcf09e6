//! As process 1 of a container the launcher inherits the processes there whose parent has
//! ended, and waits for them: otherwise their entries stay until the container has no free
//! ones.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

/// The interval at which ended children are searched while one of the launcher's own is among
/// them, which somebody else waits for.
const INTERVAL: Duration = Duration::from_millis(10);

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Starts a thread that waits for all children but the program and the collector, if this is
/// process 1.
pub fn reap(program: u32, collector: u32) {
    if std::process::id() != 1 {
        return;
    }
    let is_own = move |pid: Pid| [program, collector].contains(&pid.as_raw().unsigned_abs());
    // Without the thread the recording works as well.
    let _ = std::thread::Builder::new()
        .name("orphans".into())
        .spawn(move || {
            while !STOPPED.load(Relaxed) {
                let seen = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
                match waitid(Id::All, seen).ok().and_then(|ended| ended.pid()) {
                    Some(pid) if !is_own(pid) && !STOPPED.load(Relaxed) => {
                        let _ = waitid(Id::Pid(pid), WaitPidFlag::WEXITED);
                    }
                    _ => std::thread::sleep(INTERVAL),
                }
            }
        });
}

/// Lets the launcher have other children of its own from now on.
pub fn stop() {
    STOPPED.store(true, Relaxed);
}
