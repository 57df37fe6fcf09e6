//! Whether a process whose memory is kept still runs.
//!
//! A process may have closed the descriptor of its memory, and its id is that in its own PID namespace, where
//! other processes may have the same id. Only the right one has the memory mapped.

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use allotrope_shm::samples::file::{is_mapped, namespace_ids};
use allotrope_shm::samples::reader::State;
use rustix::time::{ClockId, clock_gettime};

/// The processes at one moment, by their ids in their own namespaces.
pub struct Running(HashMap<u64, Vec<Candidate>>);

struct Candidate {
    /// The id here.
    process: u32,
    /// Whether it is in our namespace.
    is_here: bool,
}

impl Running {
    /// Looks at all processes.
    pub fn now() -> Self {
        let mut all: HashMap<u64, Vec<Candidate>> = HashMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let process = entry.file_name().to_str().and_then(|it| it.parse().ok());
            let Some(process) = process else { continue };
            let ids = namespace_ids(process);
            if let Some(id) = ids.last() {
                let is_here = ids.len() == 1;
                let candidate = Candidate { process, is_here };
                all.entry(*id).or_default().push(candidate);
            }
        }
        Self(all)
    }

    /// The id of the process to which a memory belongs, if it runs.
    pub fn process_of(&self, file: &OwnedFd, state: &State) -> Option<u32> {
        let candidates = self.0.get(&state.process.id)?;
        let mut candidates = candidates.iter();
        let it =
            candidates.find(|it| is_mapped(it.process, file) || it.may_be_hidden_owner(state))?;
        Some(it.process)
    }
}

impl Candidate {
    /// Whether it is the memory's process although it does not let us see its mappings, as after a change of
    /// its user: it was started before and has the same arguments. A process that was the first one of a container has
    /// the id of our own first one, which is older and lets nobody see it.
    fn may_be_hidden_owner(&self, state: &State) -> bool {
        let is_unseen = fs::File::open(format!("/proc/{}/maps", self.process))
            .is_err_and(|error: io::Error| error.kind() == ErrorKind::PermissionDenied);
        let started = || started(self.process).is_some_and(|it| it <= state.process.began);
        let command = &state.process.command;
        let is_same = || {
            let arguments = fs::read(format!("/proc/{}/cmdline", self.process));
            // Of a long one the memory has the start.
            !command.is_empty() && arguments.is_ok_and(|it| it.starts_with(command))
        };
        self.is_here && is_unseen && started() && is_same()
    }
}

/// How long ago a process was started.
pub fn age(process: u32) -> Option<std::time::Duration> {
    let now = clock_gettime(ClockId::Monotonic);
    let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    let age = now.saturating_sub(started(process)?);
    Some(std::time::Duration::from_nanos(age))
}

/// When a process was started by `CLOCK_MONOTONIC`, in nanoseconds, or at the earliest where the machine has been
/// suspended since (`proc_pid_stat(5)`). `None`: it has ended, or is ending.
fn started(process: u32) -> Option<u64> {
    /// Nanoseconds of one of the kernel's ticks for programs: `sysconf(_SC_CLK_TCK)` is 100 on all
    /// machines of Linux.
    const TICK: u64 = 10_000_000;
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let ticks: u64 = fields.nth(18)?.parse().ok()?;
    let now = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    let suspended = now(ClockId::Boottime).saturating_sub(now(ClockId::Monotonic));
    Some(ticks.saturating_mul(TICK).saturating_sub(suspended))
}
