//! Continues a launcher that stopped itself together with the recorded program,
//! when the program goes on or ends and nobody has continued the launcher: a child
//! of the program may continue the program alone. The launcher is the only process
//! that the kernel would tell, and it is stopped; so this looks from time to time.

use rustix::process::{Pid, Signal, kill_process};

use crate::process;
use crate::recording::First;

/// Sends the launcher `SIGCONT` if it is stopped and the program is not. It is
/// sent again with the next look if the launcher was only about to stop.
pub(crate) fn continue_front(first: &First) {
    let (Some(launcher), Some(program)) = (first.stopped_front, first.told) else {
        return;
    };
    if process::is_stopped(program) == Some(false)
        && process::is_stopped(launcher) == Some(true)
        && let Some(launcher) = i32::try_from(launcher).ok().and_then(Pid::from_raw)
    {
        let _ = kill_process(launcher, Signal::CONT);
    }
}
