//! Recorded processes that run on after the end of the first one, where the launcher does not
//! want to wait for them: they are ended, or the recording ends without them.
//!
//! Only processes of this recording get a signal: those with an image whose pidfd was opened
//! when the image attached, and those that map the arena after a pidfd of them was opened. So
//! a process that has got the pid of an ended one gets none.

pub(crate) mod state;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::image::Slot;
use crate::process;
use crate::process_exit::ExitDetection;
use crate::protocol::WhenLeftBehind;
use crate::recording::Recording;

/// A process that ends by itself within this time after the first one is not left behind.
const GRACE: Duration = Duration::from_millis(100);
/// Time between SIGTERM and SIGKILL.
const TERMINATION: Duration = Duration::from_secs(2);
/// Time from SIGKILL to the end of the recording, for processes that get no signal: they
/// belong to another user, or are not visible.
const GIVE_UP: Duration = Duration::from_secs(1);

impl Recording {
    /// Does what is due about processes that the first one left behind.
    pub(crate) fn handle_left_behind(&mut self) {
        if self.left_behind.when == WhenLeftBehind::Wait || !self.first.is_over() {
            return;
        }
        let since = *self.left_behind.since.get_or_insert(self.now);
        let waited = self.now.saturating_duration_since(since);
        if waited < GRACE {
            return;
        }
        if self.left_behind.when == WhenLeftBehind::Leave {
            for pid in self.running() {
                self.left_behind.note(pid, executable(pid), 0);
                self.stopping = true;
            }
            return;
        }
        let signal = match waited < GRACE + TERMINATION {
            true => Signal::TERM,
            false => Signal::KILL,
        };
        for pid in self.running() {
            // A process that the signal has ended has no path any more.
            let executable = executable(pid);
            if self.left_behind.signal_sent(pid) != Some(signal.as_raw()) && self.send(pid, signal)
            {
                self.left_behind.note(pid, executable, signal.as_raw());
            }
        }
        if waited > GRACE + TERMINATION + GIVE_UP {
            for pid in self.running() {
                self.left_behind.note(pid, executable(pid), 0);
            }
            self.stopping = true;
        }
    }

    /// The processes that still run: those with an image, and those that may yet get one.
    fn running(&self) -> Vec<u32> {
        let images = self.slots.iter().filter_map(Slot::image);
        let images = images.filter(|image| !image.gone).map(|image| image.pid);
        let mut pids: Vec<u32> = images.chain(self.process_tree.pending()).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Sends a signal to a process of the recording. `false`: it is not proven to be one, or
    /// may not be sent a signal.
    fn send(&self, pid: u32, signal: Signal) -> bool {
        let send = |process: BorrowedFd<'_>| pidfd_send_signal(process, signal).is_ok();
        let mut images = self.slots.iter().filter_map(Slot::image);
        let watch = images.find(|image| image.pid == pid && !image.gone);
        match watch.map(|image| &image.exit_detection) {
            Some(ExitDetection::Process(process)) => return send(process.as_fd()),
            // In our namespace the pid may be another process's.
            Some(ExitDetection::Unseen | ExitDetection::Gone) => return false,
            Some(ExitDetection::Polled) | None => {}
        }
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(Ok(process)) = process.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
            return false;
        };
        self.search.maps_arena(pid) == Some(true) && send(process.as_fd())
    }
}

/// The path of the file that a process runs; empty if it has ended or may not be inspected.
fn executable(pid: u32) -> PathBuf {
    process::executable_path(pid).unwrap_or_default()
}
