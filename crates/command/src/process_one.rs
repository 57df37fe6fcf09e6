//! Process 1 of a container inherits the processes there whose parent has ended, and has to wait
//! for them: otherwise their entries stay until the container has no free ones. `test` and
//! `compare` have children of their own, which other code waits for. So as process 1 they run in a
//! child, while process 1 waits for everything. (`record` has a thread for that.)

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::command_line::Subcommand;
use crate::exit_status::{FAILED, stopped_by};
use crate::signal_state;

/// Runs the command in a child if this is process 1, and returns its exit status; `None`: the
/// command is to run here.
pub fn run(command: &Subcommand) -> Option<u8> {
    let has_children = matches!(command, Subcommand::Test(_) | Subcommand::Compare(_));
    if std::process::id() != 1 || !has_children {
        return None;
    }
    let ignored = signal_state::ignored();
    // The kernel discards signals that process 1 does not handle.
    let passed_on = [SIGHUP, SIGINT, SIGTERM].into_iter();
    let mut signals = Signals::new(passed_on.filter(|it| !ignored.contains(*it))).ok()?;
    let pid = start()?;
    // Without the thread the command runs as well.
    let _ = std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                let _ = Signal::try_from(signal).map(|signal| kill(pid, signal));
            }
        });
    loop {
        match waitid(Id::All, WaitPidFlag::WEXITED) {
            Ok(WaitStatus::Exited(ended, status)) if ended == pid => {
                return Some(u8::try_from(status).unwrap_or(FAILED));
            }
            Ok(WaitStatus::Signaled(ended, signal, _)) if ended == pid => {
                return Some(stopped_by(signal as i32));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return Some(FAILED),
        }
    }
}

/// Starts this command once more.
fn start() -> Option<Pid> {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_else(|| OsString::from("allotrope"));
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(name)
        .args(words)
        // A terminal's signals reach process 1 only, which passes each on once.
        .process_group(0);
    let child = command.spawn().ok()?;
    i32::try_from(child.id()).ok().map(Pid::from_raw)
}
