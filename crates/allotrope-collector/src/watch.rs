//! Finds the process behind a recorder and notices its end.
//!
//! A recorder knows its own pid, in its own pid namespace. The process is
//! ours to watch if it maps the arena; otherwise it is looked for among all
//! processes by its innermost pid.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::process;

/// Name of the arena in `/proc/PID/maps`.
const ARENA_NAME: &str = "/memfd:allotrope";

/// What could be found of an image's process.
#[derive(Debug)]
pub(crate) enum Watch {
    /// Its end makes this readable.
    Process(OwnedFd),
    /// It is in sight, but has to be looked at now and then.
    Polled,
    /// It has ended, or is another image by now.
    Gone,
    /// It lives where it can not be seen: it counts as ended when its recorder
    /// said that it exits, or when it alone is left and has been silent.
    Unseen,
}

/// A process found for a recorder.
#[derive(Debug)]
pub(crate) struct Found {
    /// Its pid in our namespace; the recorder's own where it was not found.
    pub(crate) pid: u32,
    pub(crate) watch: Watch,
}

/// Whether the process `pid` maps the arena; `None` if that can not be seen.
pub(crate) fn maps_arena(pid: u32, arena_inode: u64) -> Option<bool> {
    match process::maps_file(pid, ARENA_NAME, arena_inode) {
        Ok(maps) => Some(maps),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
        Err(_) => Some(false),
    }
}

/// Finds the process whose recorder says that its pid is `pid`.
pub(crate) fn find(pid: u32, arena_inode: u64) -> Found {
    if let Some(handle) = open(pid)
        && is_recorded(pid, arena_inode)
    {
        let watch = Watch::Process(handle);
        return Found { pid, watch };
    }
    let in_another_namespace = process::all().into_iter().find(|candidate| {
        process::namespace_pids(*candidate)
            .is_some_and(|pids| pids.len() > 1 && pids.last() == Some(&pid))
            && is_recorded(*candidate, arena_inode)
    });
    match in_another_namespace.and_then(|outer| Some((outer, open(outer)?))) {
        Some((pid, handle)) => Found {
            pid,
            watch: Watch::Process(handle),
        },
        None => Found {
            pid,
            watch: missing(pid),
        },
    }
}

/// A process that was not found is gone if every process can be seen.
fn missing(pid: u32) -> Watch {
    let sees_everything = process::stat(1).is_some() && own_namespace_is_the_first();
    if sees_everything || process::namespace_pids(pid).is_some_and(|pids| pids == [pid]) {
        Watch::Gone
    } else {
        Watch::Unseen
    }
}

/// Whether `/proc` shows this process under one pid only and as itself, that
/// is whether it belongs to our own pid namespace.
fn own_namespace_is_the_first() -> bool {
    let own = std::process::id();
    process::namespace_pids(own).is_some_and(|pids| pids == [own])
}

fn open(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

fn is_recorded(pid: u32, arena_inode: u64) -> bool {
    match maps_arena(pid, arena_inode) {
        Some(true) | None => true,
        // A zombie maps nothing any more.
        Some(false) => process::stat(pid).is_some_and(|stat| stat.is_dead()),
    }
}

/// All processes that are watched at once.
#[derive(Debug)]
pub(crate) struct Watcher {
    epoll: OwnedFd,
}

/// Ends noticed at once; more are noticed the next time.
const ENDS: usize = 64;

impl Watcher {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll })
    }

    /// Watches `process` under the number `key`, until it is closed.
    pub(crate) fn add(&self, process: &OwnedFd, key: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(key);
        epoll::add(&self.epoll, process, data, epoll::EventFlags::IN)?;
        Ok(())
    }

    /// Stops watching it.
    pub(crate) fn remove(&self, process: &OwnedFd) {
        // Fails only if it was not watched.
        let _ = epoll::delete(&self.epoll, process);
    }

    /// Keys of processes that have ended; does not wait.
    pub(crate) fn ended(&self) -> Vec<u64> {
        let mut events = Vec::with_capacity(ENDS);
        let now = rustix::time::Timespec::default();
        let buffer = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, buffer, Some(&now)) {
            Ok(_) => events.iter().map(|event| event.data.u64()).collect(),
            Err(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_end_of_a_process_is_noticed() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let handle = open(child.id()).unwrap();
        let watcher = Watcher::new().unwrap();
        watcher.add(&handle, 77).unwrap();
        assert!(watcher.ended().is_empty());
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while watcher.ended() != [77] {
            assert!(std::time::Instant::now() < deadline);
        }
        watcher.remove(&handle);
        assert!(watcher.ended().is_empty());
        // Still a zombie: found, with no memory mapped.
        assert!(matches!(find(child.id(), 1).watch, Watch::Process(_)));
        child.wait().unwrap();
        assert!(!matches!(find(child.id(), 1).watch, Watch::Process(_)));
    }

    #[test]
    fn a_process_that_does_not_map_the_arena_is_not_the_recorded_one() {
        let found = find(std::process::id(), u64::MAX);
        assert!(!matches!(found.watch, Watch::Process(_)));
    }
}
