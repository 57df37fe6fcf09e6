//! Continues a launcher that stopped itself together with the recorded program, when
//! the program continues or ends and the launcher is still stopped: a child of the
//! program may continue the program alone. The kernel would notify only the launcher,
//! which is stopped; so the collector polls.

use rustix::process::{Pid, Signal, kill_process};

use crate::process;
use crate::root_process::RootProcess;

/// Sends the launcher `SIGCONT` if it is stopped and the program is not; again at the
/// next poll if the launcher was only about to stop.
pub(crate) fn continue_launcher(first: &RootProcess) {
    let (Some(launcher), Some(program)) = (first.stopped_launcher, first.announced) else {
        return;
    };
    if process::is_stopped(program) == Some(false)
        && process::is_stopped(launcher) == Some(true)
        && let Some(launcher) = i32::try_from(launcher).ok().and_then(Pid::from_raw)
    {
        let _ = kill_process(launcher, Signal::CONT);
    }
}
