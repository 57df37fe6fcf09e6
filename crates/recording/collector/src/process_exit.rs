//! Finds the process of a newly attached image ([`Search`]) and detects the ends of
//! processes ([`ExitWatcher`], an epoll set of pidfds).
//!
//! A recorder writes the pid that it has in its own pid namespace; processes of
//! several namespaces may have this pid. The recorder's process is the one whose
//! innermost pid it is and whose page tables contain the arena page with the `Image`
//! event: no other process touches that page, and a fork does not copy page-table
//! entries of shared memory. The collector may not be allowed to read the page tables
//! (the process made itself undumpable, or runs as another user). Then the candidates
//! are ranked by properties that every user may read: command line, parent, ancestors.
//! A process that started before the collector is never a candidate.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::process::{self, Stat};

/// Name of the arena in `/proc/PID/maps`.
const ARENA_NAME: &str = "/memfd:allotrope";
/// Largest number of ancestors of a process that are checked.
const GENERATIONS: usize = 64;

/// How the collector detects the end of an image's process.
#[derive(Debug)]
pub(crate) enum ExitDetection {
    /// The pidfd of the process: readable when the process has ended.
    Process(OwnedFd),
    /// The process is visible but has no pidfd in the epoll set; `scan` polls its
    /// state.
    Polled,
    /// The process has ended or runs another image already.
    Gone,
    /// The process may live but is not visible. `exit` takes the image as ended if it
    /// has written nothing for a while and either announced its exit or only such
    /// images are left.
    Unseen,
}

/// The result of [`Search::find`].
#[derive(Debug)]
pub(crate) struct Found {
    /// The pid in our namespace; if the process was not found, the recorder's own pid.
    pub(crate) pid: u32,
    pub(crate) exit_detection: ExitDetection,
}

/// The properties of a process that its recorder wrote into the `Image` event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Pid in the process's own namespace.
    pub(crate) pid: u32,
    /// Pid of the parent in that namespace; 0 if the parent is outside.
    pub(crate) parent: u32,
    /// The command line.
    pub(crate) command: &'a [OsString],
    /// The image is a forked child, so its process had no image before.
    pub(crate) is_fork: bool,
    /// Offset of the `Image` event in the arena, in bytes.
    pub(crate) written_at: u64,
}

/// What the recording knows of processes, by their pids in our namespace.
pub(crate) trait KnownProcesses {
    /// The process belongs to the recorded process tree.
    fn is_in_tree(&self, pid: u32) -> bool;
    /// The process has a living image.
    fn has_image(&self, pid: u32) -> bool;
    /// The process has a living image that has not announced an `exec`.
    fn is_taken(&self, pid: u32) -> bool;
}

/// Searches `/proc` for the processes of one recording.
#[derive(Debug)]
pub(crate) struct Search {
    arena_inode: u64,
    /// Start time of the collector in clock ticks since boot; every recorded process
    /// starts later.
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

    /// Whether the process `pid` maps the arena; `None` if the collector may not know.
    pub(crate) fn maps_arena(&self, pid: u32) -> Option<bool> {
        match process::maps_file(pid, ARENA_NAME, self.arena_inode) {
            Ok(maps) => Some(maps),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(_) => Some(false),
        }
    }

    /// The `stat` of the process, if the process is not older than the collector.
    pub(crate) fn recent_stat(&self, pid: u32) -> Option<Stat> {
        process::stat(pid).filter(|stat| stat.started >= self.oldest)
    }

    /// Whether a living process with this innermost pid maps the arena; `None` if no
    /// such process is visible, but one exists whose mappings are hidden.
    pub(crate) fn is_alive(&self, pid: u32) -> Option<bool> {
        let mut may = false;
        for candidate in self.with_innermost(pid) {
            let stat = self.recent_stat(candidate);
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

    /// Finds the process of a new image, which must still wait for its attachment: it
    /// runs no other image meanwhile.
    pub(crate) fn find(&self, wanted: Wanted<'_>, known: &impl KnownProcesses) -> Found {
        let pid = wanted.pid;
        if self.is_certain(wanted)
            && let Some(handle) = open(pid)
        {
            let exit_detection = ExitDetection::Process(handle);
            return Found {
                pid,
                exit_detection,
            };
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
        // Among several with the same points none is chosen: a wrong process would be
        // worse than none.
        if let [pid] = best[..]
            && let Some(handle) = open(pid)
        {
            let exit_detection = ExitDetection::Process(handle);
            return Found {
                pid,
                exit_detection,
            };
        }
        let is_alive = |pid: &u32| self.recent_stat(*pid).is_some_and(|stat| !stat.is_dead());
        let exit_detection = match hidden || best.iter().any(is_alive) {
            true => ExitDetection::Unseen,
            false => missing(pid),
        };
        Found {
            pid,
            exit_detection,
        }
    }

    /// Whether the process has touched the arena's page at `offset`; `None` if the
    /// process maps the page but its page tables are hidden.
    fn has_written(&self, pid: u32, offset: u64) -> io::Result<Option<bool>> {
        let address = process::mapped_at(pid, ARENA_NAME, self.arena_inode, offset)?;
        Ok(address.map_or(Some(false), |address| process::has_page(pid, address)))
    }

    /// Whether the process in our own namespace with this pid is certainly the wanted
    /// one: the usual case, which needs no scan of all processes.
    fn is_certain(&self, wanted: Wanted<'_>) -> bool {
        let pid = wanted.pid;
        process::namespace_pids(pid).is_some_and(|ids| ids == [pid])
            && self.recent_stat(pid).is_some()
            && matches!(self.has_written(pid, wanted.written_at), Ok(Some(true)))
    }

    /// How likely a process with the right innermost pid is the wanted one.
    fn rank(&self, candidate: u32, wanted: Wanted<'_>, known: &impl KnownProcesses) -> Rank {
        let Some(stat) = self.recent_stat(candidate) else {
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
            // A zombie has no mappings.
            _ if stat.is_dead() => match self.descends(candidate, known) {
                true => 16,
                false => return Rank::Not,
            },
            // The kernel may have reclaimed the page.
            Ok(Some(false)) if self.maps_arena(candidate) == Some(true) => return Rank::Hidden,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                match same_command || self.descends(candidate, known) {
                    true => 8,
                    false => return Rank::Hidden,
                }
            }
            _ => return Rank::Not,
        };
        // A parent outside the namespace has no pid in it; its recorder writes 0.
        let parent = process::namespace_pids(stat.parent).and_then(|ids| ids.last().copied());
        let same_parent = match wanted.parent {
            0 => true,
            wanted => parent == Some(wanted),
        };
        let points = [(!is_taken, 4), (same_command, 2), (same_parent, 1)];
        let points = points.iter().filter(|(holds, _)| *holds);
        Rank::Points(basis + points.map(|(_, points)| points).sum::<u32>())
    }

    /// Our pid of a process that a diagnostic or an image slot names by its innermost
    /// pid. Unlike in [`Self::find`] the process may run another image by now, so it is
    /// enough that it maps the arena or descends from the recorded process tree.
    pub(crate) fn find_mentioned(&self, pid: u32, known: &impl KnownProcesses) -> Option<u32> {
        let is_own = process::namespace_pids(pid).is_some_and(|ids| ids == [pid]);
        if is_own && self.recent_stat(pid).is_some() && self.descends(pid, known) {
            return Some(pid);
        }
        let is_recent = |candidate: &u32| self.recent_stat(*candidate).is_some();
        let mut others = self.with_innermost(pid).filter(is_recent);
        others.find(|it| self.maps_arena(*it) == Some(true) || self.descends(*it, known))
    }

    /// Whether the process or one of its ancestors belongs to the recorded process
    /// tree.
    pub(crate) fn descends(&self, pid: u32, known: &impl KnownProcesses) -> bool {
        let mut pid = pid;
        for _ in 0..GENERATIONS {
            if known.is_in_tree(pid) {
                return true;
            }
            match self.recent_stat(pid) {
                Some(stat) if stat.parent != 0 => pid = stat.parent,
                _ => return false,
            }
        }
        false
    }
}

/// How likely a candidate is the wanted process.
#[derive(Debug)]
enum Rank {
    /// It is another process.
    Not,
    /// It may be the wanted one; what would show that is hidden from the collector.
    Hidden,
    /// More points are likelier; 64 are certain.
    Points(u32),
}

/// The state of a process that was not found: gone if the collector sees all
/// processes, or sees another one with this pid in its own namespace.
fn missing(pid: u32) -> ExitDetection {
    let sees_everything = process::stat(1).is_some() && is_shown_in_proc();
    if sees_everything || process::namespace_pids(pid).is_some_and(|pids| pids == [pid]) {
        ExitDetection::Gone
    } else {
        ExitDetection::Unseen
    }
}

/// Whether `/proc` shows the collector itself: it belongs to our pid namespace or to
/// an outer one.
fn is_shown_in_proc() -> bool {
    let own = std::process::id();
    process::namespace_pids(own).is_some_and(|pids| pids == [own])
}

fn open(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// The processes whose ends are awaited: an epoll set of pidfds.
#[derive(Debug)]
pub(crate) struct ExitWatcher {
    epoll: OwnedFd,
}

/// Largest number of ended processes that one call of [`ExitWatcher::ended`] returns; the next call
/// returns further ones.
const ENDS: usize = 64;

impl ExitWatcher {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll })
    }

    /// Adds a pidfd until it is closed; [`Self::ended`] returns `key` for it.
    pub(crate) fn add(&self, process: &OwnedFd, key: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(key);
        epoll::add(&self.epoll, process, data, epoll::EventFlags::IN)?;
        Ok(())
    }

    /// Removes a pidfd.
    pub(crate) fn remove(&self, process: &OwnedFd) {
        // Fails only if it was not added.
        let _ = epoll::delete(&self.epoll, process);
    }

    /// The keys of processes that have ended; does not wait.
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

    impl KnownProcesses for Only {
        fn is_in_tree(&self, pid: u32) -> bool {
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
        let watcher = ExitWatcher::new().unwrap();
        watcher.add(&handle, 77).unwrap();
        assert!(watcher.ended().is_empty());
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while watcher.ended() != [77] {
            assert!(std::time::Instant::now() < deadline);
        }
        watcher.remove(&handle);
        assert!(watcher.ended().is_empty());
        // A zombie is found although it maps no memory.
        assert!(matches!(
            find(child.id(), 1).exit_detection,
            ExitDetection::Process(_)
        ));
        child.wait().unwrap();
        assert!(!matches!(
            find(child.id(), 1).exit_detection,
            ExitDetection::Process(_)
        ));
    }

    #[test]
    fn an_older_process_is_never_the_recorded_one() {
        let search = Search::new(1);
        assert!(search.recent_stat(std::process::id()).is_some());
        assert!(search.recent_stat(1).is_none());
        assert!(!matches!(
            find(1, 1).exit_detection,
            ExitDetection::Process(_)
        ));
        assert_eq!(search.find_mentioned(1, &Only(1)), None);
        assert!(search.descends(std::process::id(), &Only(std::process::id())));
        assert!(!search.descends(std::process::id(), &Only(1)));
    }

    #[test]
    fn a_process_that_does_not_map_the_arena_is_not_the_recorded_one() {
        let found = find(std::process::id(), u64::MAX);
        assert!(!matches!(found.exit_detection, ExitDetection::Process(_)));
    }
}
