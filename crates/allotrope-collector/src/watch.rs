//! Finds the process behind a recorder and notices its end.
//!
//! A recorder knows its own pid, in its own pid namespace, and several
//! namespaces use the same ones. Its process is the one whose innermost pid this
//! is and that has the page of the arena in which it registered: no other
//! touches that, and a fork does not copy page tables of shared memory. Whether
//! it has can be hidden from us (it has made itself undumpable, or runs as another
//! user): then what everybody may see has to speak for it. A process that is older
//! than the recording is never it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::process::{self, Stat};

/// Name of the arena in `/proc/PID/maps`.
const ARENA_NAME: &str = "/memfd:allotrope";
/// Generations through which an ancestor is looked for.
const GENERATIONS: usize = 64;

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

/// What a recorder says of its process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Its pid in its own namespace.
    pub(crate) pid: u32,
    /// Its parent's there; 0 if that is outside.
    pub(crate) parent: u32,
    /// Its command line.
    pub(crate) command: &'a [OsString],
    /// It is a forked child, whose process has had no image before.
    pub(crate) is_fork: bool,
    /// Where in the arena it wrote that.
    pub(crate) written_at: u64,
}

/// What is known of a process in our own namespace.
pub(crate) trait Known {
    /// It is one of the recorded process_tree.
    fn is_family(&self, pid: u32) -> bool;
    /// It has a living image.
    fn has_image(&self, pid: u32) -> bool;
    /// It has one that did not say that another one replaces it.
    fn is_taken(&self, pid: u32) -> bool;
}

/// Looks for the processes of one recording.
#[derive(Debug)]
pub(crate) struct Search {
    arena_inode: u64,
    /// When the collector started, in clock ticks: before every recorded program.
    oldest: u64,
}

impl Search {
    pub(crate) fn new(arena_inode: u64) -> Self {
        let own = process::stat(std::process::id());
        Self {
            arena_inode,
            oldest: own.map_or(0, |stat| stat.started),
        }
    }

    /// Whether the process `pid` maps the arena; `None` if that can not be seen.
    pub(crate) fn maps_arena(&self, pid: u32) -> Option<bool> {
        match process::maps_file(pid, ARENA_NAME, self.arena_inode) {
            Ok(maps) => Some(maps),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(_) => Some(false),
        }
    }

    /// State of the process, if it can be one that was started by the recording.
    pub(crate) fn young(&self, pid: u32) -> Option<Stat> {
        process::stat(pid).filter(|stat| stat.started >= self.oldest)
    }

    /// Whether a living process with this innermost pid maps the arena; `None`
    /// if one may.
    pub(crate) fn is_alive(&self, pid: u32) -> Option<bool> {
        let mut may = false;
        for candidate in self.with_innermost(pid) {
            let stat = self.young(candidate);
            if stat.is_none_or(|stat| stat.is_dead()) {
                continue;
            }
            match self.maps_arena(candidate) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => may = true,
            }
        }
        (!may).then_some(false)
    }

    fn with_innermost(&self, pid: u32) -> impl Iterator<Item = u32> {
        process::all().into_iter().filter(move |candidate| {
            process::namespace_pids(*candidate).is_some_and(|ids| ids.last() == Some(&pid))
        })
    }

    /// Finds the process whose recorder registers.
    pub(crate) fn find(&self, wanted: Wanted<'_>, known: &impl Known) -> Found {
        let pid = wanted.pid;
        if self.is_plainly(wanted)
            && let Some(handle) = open(pid)
        {
            let watch = Watch::Process(handle);
            return Found { pid, watch };
        }
        let mut hidden = false;
        let mut most = 0;
        let mut best = Vec::new();
        for candidate in self.with_innermost(pid) {
            match self.rank(candidate, wanted, known) {
                Rank::Not => {}
                Rank::Hidden => hidden = true,
                Rank::Points(points) if points < most => {}
                Rank::Points(points) => {
                    if points > most {
                        best.clear();
                    }
                    most = points;
                    best.push(candidate);
                }
            }
        }
        // Of several that are alike none is better than the wrong one.
        if let [pid] = best[..]
            && let Some(handle) = open(pid)
        {
            let watch = Watch::Process(handle);
            return Found { pid, watch };
        }
        let is_alive = |pid: &u32| self.young(*pid).is_some_and(|stat| !stat.is_dead());
        let watch = match hidden || best.iter().any(is_alive) {
            true => Watch::Unseen,
            false => missing(pid),
        };
        Found { pid, watch }
    }

    /// Whether the process has touched the page of the arena at `offset`; `None`
    /// if it maps that and no more can be seen.
    fn has_written(&self, pid: u32, offset: u64) -> io::Result<Option<bool>> {
        let address = process::mapped_at(pid, ARENA_NAME, self.arena_inode, offset)?;
        Ok(address.map_or(Some(false), |address| process::has_page(pid, address)))
    }

    /// Whether it is the process of our own namespace with that pid, without
    /// doubt: no other need be looked at.
    fn is_plainly(&self, wanted: Wanted<'_>) -> bool {
        let pid = wanted.pid;
        process::namespace_pids(pid).is_some_and(|ids| ids == [pid])
            && self.young(pid).is_some()
            && matches!(self.has_written(pid, wanted.written_at), Ok(Some(true)))
    }

    /// How much speaks for a process with the right innermost pid.
    fn rank(&self, candidate: u32, wanted: Wanted<'_>, known: &impl Known) -> Rank {
        let Some(stat) = self.young(candidate) else {
            return Rank::Not;
        };
        if wanted.is_fork && known.has_image(candidate) {
            return Rank::Not;
        }
        let is_taken = known.is_taken(candidate);
        let same_command =
            !wanted.command.is_empty() && process::command(candidate) == wanted.command;
        let basis = match self.has_written(candidate, wanted.written_at) {
            Ok(Some(true)) => return Rank::Points(64),
            Ok(None) => 32,
            // A zombie maps nothing any more.
            _ if stat.is_dead() => match self.descends(candidate, known) {
                true => 16,
                false => return Rank::Not,
            },
            // It may have been taken from it for want of memory.
            Ok(Some(false)) if self.maps_arena(candidate) == Some(true) => return Rank::Hidden,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                match same_command || self.descends(candidate, known) {
                    true => 8,
                    false => return Rank::Hidden,
                }
            }
            _ => return Rank::Not,
        };
        // Outside of its namespace the parent has no pid, or 0.
        let parent = process::namespace_pids(stat.parent).and_then(|ids| ids.last().copied());
        let same_parent = match wanted.parent {
            0 => true,
            wanted => parent == Some(wanted),
        };
        let points = [(!is_taken, 4), (same_command, 2), (same_parent, 1)];
        let points = points.iter().filter(|(holds, _)| *holds);
        Rank::Points(basis + points.map(|(_, points)| points).sum::<u32>())
    }

    /// The process in our namespace of which a recorder says something without
    /// being it: it may be another image already.
    pub(crate) fn find_mentioned(&self, pid: u32, known: &impl Known) -> Option<u32> {
        let is_own = process::namespace_pids(pid).is_some_and(|ids| ids == [pid]);
        if is_own && self.young(pid).is_some() && self.descends(pid, known) {
            return Some(pid);
        }
        let young = |candidate: &u32| self.young(*candidate).is_some();
        let mut others = self.with_innermost(pid).filter(young);
        others.find(|it| self.maps_arena(*it) == Some(true) || self.descends(*it, known))
    }

    /// Whether the process or one of its ancestors is of the process_tree.
    pub(crate) fn descends(&self, pid: u32, known: &impl Known) -> bool {
        let mut pid = pid;
        for _ in 0..GENERATIONS {
            if known.is_family(pid) {
                return true;
            }
            match self.young(pid) {
                Some(stat) if stat.parent != 0 => pid = stat.parent,
                _ => return false,
            }
        }
        false
    }
}

/// What speaks for a process.
#[derive(Debug)]
enum Rank {
    /// It is another one.
    Not,
    /// It may be the one: nothing of it can be seen.
    Hidden,
    /// The more, the likelier; 64 is certain.
    Points(u32),
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

    /// A recording that knows one process as its own.
    struct Only(u32);

    impl Known for Only {
        fn is_family(&self, pid: u32) -> bool {
            pid == self.0
        }

        fn has_image(&self, _: u32) -> bool {
            false
        }

        fn is_taken(&self, _: u32) -> bool {
            false
        }
    }

    fn find(pid: u32, arena_inode: u64) -> Found {
        let wanted = Wanted {
            pid,
            parent: std::process::id(),
            command: &[],
            is_fork: false,
            written_at: 0,
        };
        Search::new(arena_inode).find(wanted, &Only(std::process::id()))
    }

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
    fn an_older_process_is_never_the_recorded_one() {
        let search = Search::new(1);
        assert!(search.young(std::process::id()).is_some());
        assert!(search.young(1).is_none());
        assert!(!matches!(find(1, 1).watch, Watch::Process(_)));
        assert_eq!(search.find_mentioned(1, &Only(1)), None);
        assert!(search.descends(std::process::id(), &Only(std::process::id())));
        assert!(!search.descends(std::process::id(), &Only(1)));
    }

    #[test]
    fn a_process_that_does_not_map_the_arena_is_not_the_recorded_one() {
        let found = find(std::process::id(), u64::MAX);
        assert!(!matches!(found.watch, Watch::Process(_)));
    }
}
