//! The hidden subcommand `__hold`: the *holder*, a process that keeps the memories of prepared
//! processes (`samples` of `allotrope-shm`) open, so that the last state of one that was killed can be read.
//!
//! There is one for each user. It finds processes as a watcher does, by their descriptors: the processes do nothing for it, and
//! need not know of it. `allotrope postmortem` finds the descriptors in the holder's own folder in
//! `/proc`. It ends when there is nothing to keep.

use std::collections::HashMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use allotrope_shm::layout::{ENVIRONMENT_VARIABLE, WATCH_VARIABLE};
use allotrope_shm::samples::file::{
    FindError, HOLDER, HOLDER_NAME, Mapped, find, holders, is_unmapped,
};
use allotrope_shm::samples::reader::State;
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::exit_status::{FAILED, FINE, Failure, WithStatus};
use crate::limits;

/// Name of the subcommand.
pub const NAME: &str = "__hold";

/// The variable that names another holder than the user's usual one, for tests.
pub const VARIABLE: &str = "ALLOTROPE_HOLDER";

/// How often new processes are looked for.
const PAUSE: Duration = Duration::from_millis(250);
/// How many times a new process, or one that has another name, is looked at.
const LOOKS: u8 = 8;
/// Number of pauses after which names are compared, and processes that have executed another
/// program are looked for.
const SELDOM: u64 = 8;
/// How long, how many and how many bytes of processes that have ended are kept.
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);
const MAX: usize = 32;
const MAX_BYTES: u64 = 256 << 20;
/// How long it stays when there is nothing to keep.
const IDLE: Duration = Duration::from_secs(60);

/// Arguments of the hidden subcommand.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Start a holder that is nobody's child, if there is none
    #[arg(long)]
    detach: bool,
    /// The name of the holder
    #[arg(long, default_value = "")]
    name: String,
}

/// Starts the user's holder if it does not run. `false`: it can have none.
pub fn start() -> anyhow::Result<bool> {
    // The program would inherit it as a child: orphans go to the first process of their namespace.
    let own = rustix::process::getpid();
    if own.is_init() || rustix::process::child_subreaper().is_ok_and(|it| it.is_some()) {
        return Ok(false);
    }
    if !holders(&name()).is_empty() {
        return Ok(true);
    }
    // A process in between: the program must not find a child that it did not start.
    let status = own_command(&name())
        .arg("--detach")
        .status()
        .context("cannot start the holder")?;
    anyhow::ensure!(status.success(), "the holder was not started");
    Ok(true)
}

/// The name of the holder to use. Other versions have other memories, and holders of their own.
pub fn name() -> String {
    let name = std::env::var(VARIABLE).unwrap_or_default();
    format!("{}/{name}", env!("CARGO_PKG_VERSION"))
}

fn own_command(name: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .args([NAME, HOLDER_NAME, name])
        .env_remove("LD_PRELOAD")
        .env_remove(ENVIRONMENT_VARIABLE)
        .env_remove(WATCH_VARIABLE)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/");
    command
}

/// Holds until there is nothing to keep.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    if arguments.detach {
        own_command(&arguments.name)
            .spawn()
            .context("cannot start the holder")
            .status(FAILED)?;
        return Ok(FINE);
    }
    become_holder();
    Holder::default().hold(&arguments.name);
    Ok(FINE)
}

/// Leaves the session, the descriptors and the name behind that it was started with.
fn become_holder() {
    // Each may fail, and it holds all the same.
    let _ = nix::unistd::setsid();
    let entries = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let numbers = entries.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    // Not while the folder is being read, which takes a descriptor, too.
    for number in numbers.filter(|it| *it > 2).collect::<Vec<_>>() {
        let _ = nix::unistd::close(number);
    }
    limits::raise_descriptors();
    let _ = fs::write("/proc/self/comm", HOLDER);
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
}

/// A process that runs.
struct Live {
    process: u32,
    pidfd: OwnedFd,
    file: OwnedFd,
}

/// The memory of one that has ended.
struct Kept {
    file: OwnedFd,
    ended: Instant,
}

/// A process in which no memory was found yet.
struct Other {
    name: Vec<u8>,
    looks: u8,
}

#[derive(Default)]
struct Holder {
    live: Vec<Live>,
    kept: Vec<Kept>,
    others: HashMap<u32, Other>,
}

impl Holder {
    fn hold(&mut self, name: &str) {
        let mut used = Instant::now();
        for turn in 0_u64.. {
            if turn.is_multiple_of(SELDOM) {
                self.look_again();
                // Of two that were started at once one stays.
                if self.kept.is_empty() && has_other(name) {
                    return;
                }
            }
            self.find_new();
            self.wait();
            self.keep_ended();
            self.forget();
            if !(self.live.is_empty() && self.kept.is_empty()) {
                used = Instant::now();
            } else if used.elapsed() > IDLE {
                return;
            }
        }
    }

    /// Looks for memories in processes that are new.
    fn find_new(&mut self) {
        let user = rustix::process::geteuid();
        let mut present = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let process = entry.file_name().to_str().and_then(|it| it.parse().ok());
            let Some(process) = process.filter(|it| *it != std::process::id()) else {
                continue;
            };
            present.push(process);
            if self.live.iter().any(|it| it.process == process) {
                continue;
            }
            let other = self.others.entry(process).or_insert_with(|| Other {
                name: name_of(process),
                looks: LOOKS,
            });
            if other.looks == 0 {
                continue;
            }
            other.looks -= 1;
            let is_ours = entry
                .metadata()
                .is_ok_and(|it| user.is_root() || it.uid() == user.as_raw());
            if let Some(live) = is_ours.then(|| Live::find(process)).flatten() {
                self.others.remove(&process);
                self.live.push(live);
            }
        }
        self.others.retain(|process, _| present.contains(process));
    }

    /// Processes may have executed another program.
    fn look_again(&mut self) {
        for (process, other) in &mut self.others {
            let name = name_of(*process);
            if name != other.name {
                *other = Other { name, looks: LOOKS };
            }
        }
        let inode = |file: &OwnedFd| rustix::fs::fstat(file).map(|it| it.st_ino).ok();
        self.live.retain_mut(|live| match find(live.process) {
            Ok(file) => {
                if inode(&file) != inode(&live.file) {
                    live.file = file;
                }
                true
            }
            // It has closed the descriptor, or executed a program that is not prepared.
            Err(FindError::NotWatched(process)) => {
                live.has_ended() || !is_unmapped(process, &live.file)
            }
            Err(_) => true,
        });
    }

    /// Waits for a while, or until a process ends.
    fn wait(&self) {
        let pidfds = self.live.iter().map(|it| &it.pidfd);
        let mut wanted: Vec<PollFd<'_>> = pidfds.map(|it| PollFd::new(it, PollFlags::IN)).collect();
        let pause = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(PAUSE.subsec_nanos()),
        };
        let _ = poll(&mut wanted, Some(&pause));
    }

    fn keep_ended(&mut self) {
        let ended: Vec<Live> = self.live.extract_if(.., |it| it.has_ended()).collect();
        for live in ended {
            if was_ended(&live.file) {
                self.kept.push(Kept {
                    file: live.file,
                    ended: Instant::now(),
                });
            }
        }
    }

    /// Forgets what is too old or too much, the oldest first.
    fn forget(&mut self) {
        self.kept.retain(|it| it.ended.elapsed() < MAX_TIME);
        let bytes = |kept: &[Kept]| kept.iter().map(Kept::bytes).sum::<u64>();
        while self.kept.len() > MAX || bytes(&self.kept) > MAX_BYTES {
            self.kept.remove(0);
        }
    }
}

impl Live {
    /// A process that has a memory.
    fn find(process: u32) -> Option<Self> {
        let id = i32::try_from(process).ok().and_then(Pid::from_raw)?;
        // The descriptor first, so that the memory is that of this process.
        let pidfd = pidfd_open(id, PidfdFlags::empty()).ok()?;
        let live = Self {
            process,
            pidfd,
            file: find(process).ok()?,
        };
        (!live.has_ended()).then_some(live)
    }

    fn has_ended(&self) -> bool {
        let mut wanted = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut wanted, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

impl Kept {
    fn bytes(&self) -> u64 {
        let blocks = rustix::fs::fstat(&self.file).map_or(0, |it| it.st_blocks);
        u64::try_from(blocks).unwrap_or(0).saturating_mul(512)
    }
}

/// Whether the process did not exit by itself: who does has freed what it wanted.
fn was_ended(file: &OwnedFd) -> bool {
    let Ok(mapped) = Mapped::new(file) else {
        return false;
    };
    State::read(mapped.memory()).is_ok_and(|state| state.process.exit_status.is_none())
}

/// Whether an earlier holder does the same for the same user.
fn has_other(name: &str) -> bool {
    let user = |process: u32| fs::metadata(format!("/proc/{process}")).map(|it| it.uid());
    let own = std::process::id();
    let Ok(own_user) = user(own) else {
        return false;
    };
    let is_same = |it: &u32| *it < own && user(*it).is_ok_and(|it| it == own_user);
    holders(name).iter().any(is_same)
}

fn name_of(process: u32) -> Vec<u8> {
    fs::read(format!("/proc/{process}/comm")).unwrap_or_default()
}
