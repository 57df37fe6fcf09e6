//! A process that is watched: its memory, opened and mapped, the lock on it, the switch.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use allotrope_sampling::Period;
use allotrope_shm::layout::ENVIRONMENT_VARIABLE;
use allotrope_shm::location::Request;
use allotrope_shm::samples::file::{FindError, MapError, Mapped, find_with_path, is_unmapped};
use allotrope_shm::samples::reader::{ReadError, State};
use allotrope_trace::model::Exit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, getrlimit, pidfd_open};

use crate::lock::{self, Claim};
use crate::resident::Resident;
use crate::snapshot::{Keys, Snapshot, parent_of};

/// Part of the recorder's file name.
const RECORDER: &[u8] = b"liballotrope";
/// How long a program may take from its exec until it has its memory.
const STARTING: Duration = Duration::from_secs(5);

/// After an exec the watcher that set the period has this long to do so in the new memory, before
/// one that only looked may.
const PRECEDENCE: Duration = Duration::from_secs(2);

/// Descriptors that are left for other things than processes: files with symbols, connections.
const RESERVE: u64 = 32;

/// Why a process cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is none, or it has ended.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The id is that of a thread.
    #[error("{0} is a thread of a process; use the id of the process")]
    Thread(u32),
    /// It has no memory.
    #[error(
        "process {0} is not prepared; start the program by `allotrope standby -- PROGRAM`, or with LD_PRELOAD and ALLOTROPE_WATCH (`allotrope recorder`)"
    )]
    NotPrepared(u32),
    /// It was started with the recorder, and has no memory.
    #[error(
        "process {0} has the recorder, but no memory for samples: a forked process makes its own within its first 64 KiB; otherwise it could not be made (limits of descriptors and files: `allotrope doctor`), or its descriptor was closed"
    )]
    NoMemory(u32),
    /// The kernel does not let us look at it.
    #[error(
        "process {0} cannot be watched by this user: it belongs to another one, or has forbidden it (prctl PR_SET_DUMPABLE); watch it as root"
    )]
    Forbidden(u32),
    /// Its memory is none of this version.
    #[error("the memory of process {process} cannot be used")]
    Unusable {
        /// The process.
        process: u32,
        /// Why.
        source: MapError,
    },
    /// What is in the memory is none of this version.
    #[error("the memory of process {process} cannot be read")]
    Unreadable {
        /// The process.
        process: u32,
        /// Why.
        source: ReadError,
    },
    /// There is a watcher, which controls the period.
    #[error(
        "process {0} is being watched already, and that watcher sets the period; leave out --period, --leave and --off to only look, or add --take-over"
    )]
    Watched(u32),
    /// The watcher does not let go.
    #[error("process {0} is being watched, and its watcher does not let go; end that watcher")]
    NoAnswer(u32),
    /// The watcher has too few descriptors.
    #[error(
        "process {0} cannot be watched: too many open files; raise the limit of descriptors (ulimit -n)"
    )]
    TooManyFiles(u32),
    /// A system call failed.
    #[error("process {process} cannot be watched")]
    Failed {
        /// The process.
        process: u32,
        /// What failed.
        source: io::Error,
    },
}

impl AttachError {
    /// Whether the process may get its memory soon, or was there just now.
    pub fn may_come(&self) -> bool {
        matches!(
            self,
            Self::NoProcess(_) | Self::NotPrepared(_) | Self::NoMemory(_)
        )
    }
}

/// What a watcher wants of a process: everybody may look, one may set the period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To look.
    Read,
    /// To set the period if nobody else does, and to look.
    Look,
    /// To set the period.
    Control,
    /// To set the period in place of another watcher.
    TakeOver,
}

/// A process that this watcher watches.
#[derive(Debug)]
pub struct Attached {
    /// Its id, as the watcher sees it.
    pub process: u32,
    descriptor: OwnedFd,
    file: OwnedFd,
    /// The process's descriptor of the memory, in `/proc`.
    path: PathBuf,
    mapped: Mapped,
    /// Another watcher sets the period; this one only looks, and does not try to become that one before
    /// this moment.
    only_looks: Option<Instant>,
    /// What the period was before the watcher came.
    before: Option<Period>,
    is_changed: bool,
    root: Option<String>,
    /// The path of its executable below that folder, as we see it; empty if we do not.
    executable: Vec<u8>,
    /// What its monotonic clock is ahead of ours, in nanoseconds.
    clock_ahead: i64,
    /// Since when it runs another program, and has no other memory yet.
    unmapped: Option<Instant>,
    has_left: bool,
}

impl Attached {
    /// Opens the memory of a process, and locks it if the period may be set. Nothing in it is
    /// changed yet.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn new(process: u32, access: Access) -> Result<Self, AttachError> {
        let failed = |source: io::Error| match Errno::from_io_error(&source) {
            Some(Errno::MFILE | Errno::NFILE) => AttachError::TooManyFiles(process),
            _ => AttachError::Failed { process, source },
        };
        // The descriptor first: so it is known that the memory is that of this process, and
        // not of a later one with the same id.
        let id = i32::try_from(process).ok().and_then(Pid::from_raw);
        let id = id.ok_or(AttachError::NoProcess(process))?;
        let descriptor = match pidfd_open(id, PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::SRCH) => return Err(AttachError::NoProcess(process)),
            Err(Errno::INVAL | Errno::NOENT) => return Err(AttachError::Thread(process)),
            Err(error) => return Err(failed(error.into())),
        };
        if !leaves_descriptors(&descriptor) {
            return Err(AttachError::TooManyFiles(process));
        }
        let found = find_with_path(process);
        if has_ended(&descriptor) {
            return Err(AttachError::NoProcess(process));
        }
        let (file, path) = found.map_err(|error| match error {
            FindError::NoProcess(_) => AttachError::NoProcess(process),
            FindError::Forbidden { .. } => AttachError::Forbidden(process),
            FindError::NotWatched(_) if is_prepared(process) => AttachError::NoMemory(process),
            FindError::NotWatched(_) => AttachError::NotPrepared(process),
            FindError::Unusable { source, .. } => AttachError::Unusable { process, source },
            FindError::Failed { source, .. } => failed(source),
        })?;
        Self::of_file(process, descriptor, file, path, access)
    }

    fn of_file(
        process: u32,
        descriptor: OwnedFd,
        file: OwnedFd,
        path: PathBuf,
        access: Access,
    ) -> Result<Self, AttachError> {
        let mapped =
            Mapped::new(&file).map_err(|source| AttachError::Unusable { process, source })?;
        // A memory that is none is refused before anything is written there.
        State::read(mapped.memory())
            .map_err(|source| AttachError::Unreadable { process, source })?;
        let now = Period::new(mapped.memory().control.0.period.load(Relaxed));
        let claim = match access {
            Access::Read => Ok(Claim::Held),
            _ => lock::claim(&file, access == Access::TakeOver),
        };
        // If it has a period of standby, another one is what a watcher has set that was killed.
        let standby = Period::new(mapped.memory().control.0.standby.load(Relaxed));
        let (before, only_looks) = match claim {
            Ok(Claim::Free) => (standby.or(now), None),
            Ok(Claim::TakenOver(before)) => (before.unwrap_or(now), None),
            Ok(Claim::Held) if access == Access::Look => (now, Some(Instant::now())),
            Ok(Claim::Held) if access == Access::Read => (now, Some(Instant::now() + PRECEDENCE)),
            Ok(Claim::Held) => return Err(AttachError::Watched(process)),
            Ok(Claim::NoAnswer) => return Err(AttachError::NoAnswer(process)),
            Err(source) => return Err(AttachError::Failed { process, source }),
        };
        if only_looks.is_none() {
            lock::publish(&file, before);
        }
        Ok(Self {
            process,
            descriptor,
            file,
            path,
            mapped,
            is_changed: before != now,
            only_looks,
            before,
            root: root_of(process),
            executable: executable_of(process),
            clock_ahead: clock_ahead(process),
            unmapped: None,
            has_left: false,
        })
    }

    /// The period at which it is asked to sample; `None`: sampling is off.
    pub fn period(&self) -> Option<Period> {
        Period::new(self.mapped.memory().control.0.period.load(Relaxed))
    }

    /// The period at which to watch it if no other one was chosen: its own, unless that is the one of
    /// a process that nobody watches, or sampling is off.
    pub fn usual_period(&self) -> Period {
        let own = self.period().filter(|it| Some(*it) != self.standby());
        own.unwrap_or_default()
    }

    /// The period at which it samples while nobody watches it, unless one was chosen.
    fn standby(&self) -> Option<Period> {
        Period::new(self.mapped.memory().control.0.standby.load(Relaxed))
    }

    /// Whether another watcher sets the period.
    pub fn only_looks(&self) -> bool {
        self.only_looks.is_some()
    }

    /// Becomes the watcher that sets the period if there is none any more. Returns whether it has
    /// become that.
    pub fn take_control(&mut self) -> bool {
        let is_time = self.only_looks.is_some_and(|it| it <= Instant::now());
        if !is_time || !matches!(lock::claim(&self.file, false), Ok(Claim::Free)) {
            return false;
        }
        self.only_looks = None;
        self.before = self.standby().or(self.period());
        lock::publish(&self.file, self.before);
        true
    }

    /// Sets the period, unless another watcher does.
    pub fn set(&mut self, period: Option<Period>) {
        if self.period() != period && !self.only_looks() {
            self.is_changed = true;
            self.store(period);
        }
    }

    fn store(&self, period: Option<Period>) {
        let period = period.map_or(0, Period::bytes);
        self.mapped.memory().control.0.period.store(period, Relaxed);
    }

    /// Sets the period that it had before, if this or an earlier watcher has changed it, and
    /// lets go of the process.
    pub fn restore(self) {
        if self.is_changed {
            self.store(self.before);
        }
        self.release();
    }

    /// Lets go of the process and leaves the period as it is, for children that it forks later, too.
    pub fn leave(self) {
        self.leave_chosen(None);
    }

    /// Lets go of a process that this watcher has started, which nobody watches from now on.
    pub fn stand_by(mut self) {
        self.set(Some(Period::SPARSE));
        self.leave_chosen(Some(Period::SPARSE));
    }

    fn leave_chosen(self, standby: Option<Period>) {
        if !self.only_looks() {
            let control = &self.mapped.memory().control.0;
            let period = self.period().map_or(0, Period::bytes);
            control.of_children.store(period, Relaxed);
            let standby = standby.map_or(0, Period::bytes);
            control.standby.store(standby, Relaxed);
        }
        self.release();
    }

    /// Lets go of the process and leaves the period as it is.
    pub fn release(self) {
        // The locks are those of the open file: one that only looks has none.
        lock::release(&self.file);
    }

    /// Whether another watcher wants to take over.
    pub fn is_asked_to_let_go(&self) -> bool {
        !self.only_looks() && lock::is_asked(&self.file)
    }

    /// Whether it has ended, or [left](Self::has_left). Its memory stays.
    pub fn has_ended(&self) -> bool {
        self.has_left || has_ended(&self.descriptor)
    }

    /// Whether it has executed a program that is not prepared: for five seconds no memory has
    /// been mapped there. [`Self::follow_exec`] finds that out.
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Whether it has executed another program that has no memory, or none yet: what was live before
    /// is gone. [`Self::follow_exec`] finds that out.
    pub fn has_executed(&self) -> bool {
        self.unmapped.is_some()
    }

    /// Goes on with the process's new memory, if it has one: it has called exec. Returns
    /// whether it has. Where nothing has happened this takes two system calls.
    pub fn follow_exec(&mut self) -> bool {
        let own = inode(rustix::fs::fstat(&self.file));
        if self.has_left || own.is_some() && own == inode(rustix::fs::stat(&self.path)) {
            return false;
        }
        let next = match find_with_path(self.process) {
            Ok((file, path)) if inode(rustix::fs::fstat(&file)) == own => {
                self.path = path;
                return false;
            }
            Ok((file, path)) if !self.has_ended() => self.next(file, path),
            _ => None,
        };
        match next {
            Some(next) => {
                let period = self.period();
                *self = next;
                self.set(period);
                true
            }
            None => {
                // It may have closed the descriptor only; then the mapping goes on.
                if is_unmapped(self.process, &self.file) {
                    let since = *self.unmapped.get_or_insert_with(Instant::now);
                    self.has_left = since.elapsed() >= STARTING;
                }
                false
            }
        }
    }

    /// The same process with another memory, if that is complete.
    fn next(&self, file: OwnedFd, path: PathBuf) -> Option<Self> {
        let descriptor = self.descriptor.try_clone().ok()?;
        let access = match self.only_looks() {
            true => Access::Read,
            // Another watcher may have been faster.
            false => Access::Look,
        };
        Self::of_file(self.process, descriptor, file, path, access).ok()
    }

    /// The state of the process now.
    ///
    /// # Errors
    /// If the process has destroyed the header of its memory.
    pub fn snapshot(&self, keys: &Keys) -> Result<Snapshot, AttachError> {
        let process = self.process;
        // A process that ends while its memory is read may not be seen in its last state.
        let has_ended = self.has_ended() && !self.has_left();
        let mut state = State::read(self.mapped.memory())
            .map_err(|source| AttachError::Unreadable { process, source })?;
        self.add_executable(&mut state);
        let mut snapshot = Snapshot::new(process, self.root.clone(), state, keys);
        snapshot.time = snapshot.time.saturating_add_signed(self.clock_ahead);
        snapshot.parent = parent_of(process).unwrap_or(0);
        if !has_ended {
            snapshot.exit = Exit::Running;
            snapshot.resident = Resident::of(process, &snapshot.state.process.recorder);
        }
        Ok(snapshot)
    }

    /// A process in a chroot without `/proc` does not know its executable. Only that module has no path.
    fn add_executable(&self, state: &mut State) {
        if !state.process.executable.is_empty() {
            return;
        }
        state.process.executable.clone_from(&self.executable);
        let modules = state.modules.iter_mut().map(|(_, it)| it);
        for module in modules.filter(|it| it.path.is_empty()) {
            module.path.clone_from(&self.executable);
        }
    }
}

/// Whether enough further descriptors are free after this one, which is the lowest free one.
fn leaves_descriptors(descriptor: &OwnedFd) -> bool {
    let limit = getrlimit(Resource::Nofile).current;
    let number = u64::try_from(descriptor.as_raw_fd()).unwrap_or(0);
    limit.is_none_or(|limit| number + RESERVE.min(limit / 4) < limit)
}

/// The device and inode that tell a file from all others.
fn inode(status: rustix::io::Result<rustix::fs::Stat>) -> Option<(u64, u64)> {
    status.ok().map(|it| (it.st_dev, it.st_ino))
}

/// The folder below which a process finds its files, if it is another one than ours: it is in another
/// mount namespace, or in a chroot.
fn root_of(process: u32) -> Option<String> {
    let root = format!("/proc/{process}/root");
    let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
    let theirs = namespace(&process.to_string())?;
    let is_elsewhere = namespace("self").is_some_and(|ours| ours != theirs);
    let folder = |path: &str| inode(rustix::fs::stat(path));
    let is_other = folder(&root).is_some_and(|theirs| folder("/") != Some(theirs));
    (is_elsewhere || is_other).then_some(root)
}

/// The path of a process's executable as the process would name it.
fn executable_of(process: u32) -> Vec<u8> {
    let link = |name: &str| std::fs::read_link(format!("/proc/{process}/{name}"));
    let Ok(path) = link("exe") else {
        return Vec::new();
    };
    let below = link("root").ok();
    let below = below.and_then(|root| path.strip_prefix(root).ok());
    let path = below.map_or(path.clone(), |it| Path::new("/").join(it));
    path.into_os_string().into_vec()
}

/// Whether a process has loaded the recorder, to be watched: its environment and its mappings
/// say so.
fn is_prepared(process: u32) -> bool {
    let read = |file: &str| std::fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
    let environment = read("environ");
    let mut variables = environment.split(|byte| *byte == 0);
    let is_wanted = variables.any(|it| {
        let value = it.strip_prefix(ENVIRONMENT_VARIABLE.as_bytes());
        let value = value.and_then(|it| it.strip_prefix(b"="));
        matches!(
            value.and_then(Request::parse),
            Some(Request::Watch(_) | Request::Standby)
        )
    });
    is_wanted && memmem(&read("maps"), RECORDER)
}

fn memmem(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|it| it == wanted)
}

/// What the monotonic clock of a process is ahead of ours, in nanoseconds, because it is in another
/// time namespace (`time_namespaces(7)`).
fn clock_ahead(process: u32) -> i64 {
    let of = |process: &str| -> Option<i64> {
        let link = |name: &str| std::fs::read_link(format!("/proc/{process}/ns/{name}")).ok();
        let text = std::fs::read_to_string(format!("/proc/{process}/timens_offsets")).ok()?;
        let line = text.lines().find_map(|it| it.strip_prefix("monotonic"))?;
        let mut numbers = line.split_whitespace().map(str::parse::<i64>);
        let (seconds, rest) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let ns = seconds.checked_mul(1_000_000_000)?.checked_add(rest)?;
        // The file is about the namespace of future children.
        (link("time")? == link("time_for_children")?).then_some(ns)
    };
    let difference = of(&process.to_string()).zip(of("self"));
    difference.map_or(0, |(theirs, ours)| theirs.saturating_sub(ours))
}

fn has_ended(descriptor: &OwnedFd) -> bool {
    let mut wanted = [PollFd::new(descriptor, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut wanted, Some(&now)).is_ok_and(|ready| ready > 0)
}
