//! Processes of the recorded process tree that have no image: pending ones, which may
//! still get one (a forked child that has not allocated yet, a program that is being
//! loaded), and unrecorded ones, with the reason. `attach`, `exit` and `recording` add
//! and remove processes; `scan` has the tree searched for others.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use allotrope_preflight::NotRecordable;
use allotrope_preflight::file::judge_path;
use allotrope_trace::model::Unrecorded;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::process;
use crate::process_exit::Search;

/// Interval at which children of recorded processes are searched.
const CHILDREN_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which all processes are scanned once no image is left.
const PENDING_INTERVAL: Duration = Duration::from_millis(50);
/// How long a program may take from its `exec` to its recorder's report
/// before the recording ends without it.
const LOADING: Duration = Duration::from_millis(300);
/// Threads whose children are read in one scan.
const THREADS_AT_ONCE: usize = 256;
/// Largest number of unrecorded images in the list.
const MAX_UNRECORDED: usize = 1024;

/// A process, by its pids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    /// The process's pid in our pid namespace, if it was found there.
    found: Option<u32>,
    /// The process's pid in its own pid namespace.
    own: u32,
}

impl Process {
    pub(crate) fn new(found: Option<u32>, own: u32) -> Self {
        Self { found, own }
    }

    /// The pid to show.
    fn pid(self) -> u32 {
        self.found.unwrap_or(self.own)
    }
}

/// A process that runs without a recorder.
#[derive(Debug)]
struct Noted {
    /// The process's pid in its own pid namespace.
    own_pid: u32,
    /// The image that ran before it in the process has ended.
    has_ended: bool,
    image: Unrecorded,
}

impl Noted {
    /// Whether this may be the image with this `executable` in a process with this
    /// innermost pid. Compares only file names: the paths differ if links were followed.
    fn is_of(&self, own_pid: u32, executable: &Path) -> bool {
        let noted = Path::new(&self.image.executable);
        !self.has_ended && self.own_pid == own_pid && noted.file_name() == executable.file_name()
    }
}

/// The processes without an image.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    /// `NAME=VALUE` in the environment of every process of the recording.
    assignment: String,
    /// Children and programs started by `exec` are recorded too.
    follows: bool,
    /// Unrecorded processes by pid in our namespace.
    unrecorded: FxHashMap<u32, Noted>,
    /// Unrecorded processes that were not found when a diagnostic about them arrived.
    unfound: Vec<Noted>,
    /// Diagnostics of images about themselves, and notes about unknown images.
    others: Vec<Unrecorded>,
    /// Processes that one scan found without an image; if the next scan finds them
    /// again, they count as unrecorded.
    unrecorded_candidates: FxHashSet<u32>,
    next_children: Option<Instant>,
    /// Processes that map the arena but have no image.
    pending: Vec<u32>,
    /// Processes that have the recording's environment but do not map the arena, with
    /// the time at which each was first found.
    loading: FxHashMap<u32, Instant>,
    next_pending_scan: Option<Instant>,
    /// Pids of the last message to the launcher.
    pub(crate) sent: Vec<u32>,
}

impl ProcessTree {
    pub(crate) fn new(assignment: String, follows: bool) -> Self {
        Self {
            assignment,
            follows,
            unrecorded: FxHashMap::default(),
            unfound: Vec::new(),
            others: Vec::new(),
            unrecorded_candidates: FxHashSet::default(),
            next_children: None,
            pending: Vec::new(),
            loading: FxHashMap::default(),
            next_pending_scan: None,
            sent: Vec::new(),
        }
    }

    /// An image of `process` has attached, with this `executable`: removes what was
    /// noted about it.
    pub(crate) fn arrived(&mut self, process: Process, executable: &Path) {
        let pid = process.pid();
        let removed = self.unrecorded.remove(&pid);
        if removed.is_none() {
            let is_it = |noted: &Noted| match process.found {
                // Processes of several namespaces may have the same innermost pid.
                Some(_) => noted.is_of(process.own, executable),
                None => noted.own_pid == process.own,
            };
            if let Some(index) = self.unfound.iter().rposition(is_it) {
                self.unfound.remove(index);
            } else if process.found.is_none() {
                let mut noted = self.unrecorded.iter();
                let found = noted.find(|(_, noted)| is_it(noted));
                let pid = found.map(|(pid, _)| *pid);
                pid.and_then(|pid| self.unrecorded.remove(&pid));
            }
        }
        self.unrecorded_candidates.remove(&pid);
        self.loading.remove(&pid);
        self.pending.retain(|pending| *pending != pid);
    }

    /// Whether the process is known to run without a recorder.
    pub(crate) fn is_unrecorded(&self, pid: u32) -> bool {
        self.unrecorded.contains_key(&pid)
    }

    /// Notes an image that cannot be recorded. If a process has a note already, the
    /// earlier one stays.
    pub(crate) fn note_unrecorded(
        &mut self,
        process: Process,
        executable: Option<PathBuf>,
        reason: &str,
    ) {
        if self.unrecorded.len() + self.unfound.len() >= MAX_UNRECORDED {
            return;
        }
        let executable = executable.unwrap_or_default();
        let noted = Noted {
            own_pid: process.own,
            has_ended: false,
            image: Unrecorded {
                pid: process.pid(),
                executable,
                reason: reason.to_owned(),
                partly: false,
            },
        };
        match process.found {
            Some(pid) => {
                self.unrecorded.entry(pid).or_insert(noted);
            }
            // The recorder of a new program may report what that of the program before
            // it in the process has reported.
            None => {
                let path = &noted.image.executable;
                let mut known = self.unfound.iter();
                if !known.any(|it| it.is_of(process.own, path) && it.image.reason == reason) {
                    self.unfound.push(noted);
                }
            }
        }
    }

    /// Adds a note about images of which neither pid nor executable is known.
    pub(crate) fn note_more(&mut self, reason: String) {
        self.others.push(Unrecorded {
            pid: 0,
            executable: PathBuf::new(),
            reason,
            partly: false,
        });
    }

    /// Notes a diagnostic: `what` is the reason why the program at `path`, which is
    /// about to run, or the reporting process itself, is not recorded.
    pub(crate) fn note_diagnostic(&mut self, process: Process, what: u32, path: &[u8]) {
        let found = NotRecordable::of_code(what);
        let reason = found.sentence(&String::from_utf8_lossy(path));
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        if !found.is_within() {
            if self.follows {
                self.note_unrecorded(process, Some(path), &reason);
            }
            return;
        }
        let executable = process.found.and_then(process::executable_path);
        let diagnostic = Unrecorded {
            pid: process.pid(),
            executable: executable.unwrap_or_default(),
            reason,
            partly: found.is_partial(),
        };
        if self.others.len() < MAX_UNRECORDED && !self.others.contains(&diagnostic) {
            self.others.push(diagnostic);
        }
    }

    /// Notes that the process runs without a recorder, and determines why.
    pub(crate) fn note_unrecordable(&mut self, process: Process) {
        if self.follows {
            let pid = process.pid();
            let reason = judge_process(pid)
                .unwrap_or(NotRecordable::Unknown)
                .sentence("");
            self.note_unrecorded(process, process::executable_path(pid), &reason);
        }
    }

    /// Notes that the process executed `executable` without a recorder and has ended
    /// since.
    pub(crate) fn note_replaced(&mut self, process: Process, executable: PathBuf) {
        if self.follows {
            // Its recorder may have posted a diagnostic with the reason.
            let mut unfound = self.unfound.iter_mut();
            if process.found.is_none()
                && let Some(noted) = unfound.find(|noted| noted.is_of(process.own, &executable))
            {
                noted.has_ended = true;
                return;
            }
            let found = judge_path(&executable).ok().flatten();
            let reason = found.unwrap_or(NotRecordable::Unknown).sentence("");
            self.note_unrecorded(process, Some(executable), &reason);
        }
    }

    /// Takes the list of unrecorded images, sorted by pid.
    pub(crate) fn take_unrecorded(&mut self) -> Vec<Unrecorded> {
        let found = self.unrecorded.drain().map(|(_, noted)| noted);
        let noted = found.chain(self.unfound.drain(..));
        let mut images: Vec<Unrecorded> = noted.map(|noted| noted.image).collect();
        images.append(&mut self.others);
        images.sort_by_key(|image| (image.pid, image.partly));
        images
    }

    /// The next scan of children is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.follows && self.next_children.is_none_or(|next| next <= now)
    }

    /// Searches for processes that run a program without a recorder: children of
    /// `roots` (the processes with images) and of unrecorded processes, and `first`
    /// (the first process) if it has no image. One scan is enough if the program's file
    /// cannot be recorded; otherwise two scans have to find the process, since a program
    /// needs time to load. A process that ends earlier may go unnoticed.
    pub(crate) fn scan(
        &mut self,
        mut roots: Vec<u32>,
        first: Option<u32>,
        search: &Search,
        now: Instant,
    ) {
        self.next_children = Some(now + CHILDREN_INTERVAL);
        let recorded: FxHashSet<u32> = roots.iter().copied().collect();
        let mut unrecorded_candidates = FxHashSet::default();
        if let Some(first) = first.filter(|pid| !recorded.contains(pid)) {
            if runs_without_recorder(first, search) {
                unrecorded_candidates.insert(first);
            }
            roots.push(first);
        }
        // Children of unrecorded processes belong to the tree, too.
        let mut queue = roots;
        queue.extend(self.unrecorded.keys());
        let mut visited = FxHashSet::default();
        let mut threads_left = THREADS_AT_ONCE;
        while let Some(pid) = queue.pop() {
            if threads_left == 0 || !visited.insert(pid) {
                continue;
            }
            let children = process::children(pid, &mut threads_left);
            for child in children.into_iter().filter(|it| !recorded.contains(it)) {
                if !self.unrecorded.contains_key(&child) && runs_without_recorder(child, search) {
                    unrecorded_candidates.insert(child);
                }
            }
        }
        unrecorded_candidates.retain(|pid| !self.unrecorded.contains_key(pid));
        let seen_before = std::mem::take(&mut self.unrecorded_candidates);
        for pid in unrecorded_candidates {
            if seen_before.contains(&pid) || cannot_load(pid) {
                self.note_unrecordable(Process::new(Some(pid), pid));
            } else {
                self.unrecorded_candidates.insert(pid);
            }
        }
    }

    /// Whether some process may still get an image. Called when no image is left; scans
    /// all processes of the machine, every [`PENDING_INTERVAL`] while there is one.
    pub(crate) fn has_pending(&mut self, search: &Search, now: Instant) -> bool {
        if !self.follows {
            return false;
        }
        // A "no" ends the recording, so it is never that of an earlier scan: a process that
        // was pending then may have got its image, forked and ended.
        let was_pending = !self.pending.is_empty() || self.is_loading(now);
        if was_pending && self.next_pending_scan.is_some_and(|next| now < next) {
            return true;
        }
        self.next_pending_scan = Some(now + PENDING_INTERVAL);
        self.pending.clear();
        let own = std::process::id();
        for pid in process::all().into_iter().filter(|pid| *pid != own) {
            if search.maps_arena(pid) == Some(true) {
                self.pending.push(pid);
            } else if process::has_environment(pid, &self.assignment).unwrap_or(false) {
                self.loading.entry(pid).or_insert(now);
            }
        }
        !self.pending.is_empty() || self.is_loading(now)
    }

    /// Whether some program was found for the first time less than [`LOADING`] ago.
    fn is_loading(&self, now: Instant) -> bool {
        let mut since = self.loading.values();
        since.any(|since| now.saturating_duration_since(*since) < LOADING)
    }

    /// Processes that were found to map the arena without having an image.
    pub(crate) fn pending(&self) -> impl Iterator<Item = u32> + '_ {
        self.pending.iter().copied()
    }
}

/// Whether a process of the tree lives without a recorder: it does not map the arena.
/// A forked child inherits the mapping.
fn runs_without_recorder(pid: u32, search: &Search) -> bool {
    search.maps_arena(pid) != Some(true) && process::stat(pid).is_some_and(|stat| !stat.is_dead())
}

/// Why a process has no recorder, judged by its executable, its rights and its
/// namespaces; `None` if unknown.
fn judge_process(pid: u32) -> Option<NotRecordable> {
    let path = process::executable_path(pid);
    let judge = |path: &Path| judge_path(path).ok().flatten();
    let by_file = match judge(&process::executable(pid)) {
        // We may not even follow the link in /proc of a privileged process.
        None | Some(NotRecordable::Unreadable) => path.as_deref().and_then(judge),
        found => found,
    };
    let by_rights = || {
        let found = process::credentials(pid)?.of_privileged_program();
        let is_closed = path.is_none() && !process::is_own(pid);
        found.or(is_closed.then_some(NotRecordable::Privileged))
    };
    let is_elsewhere = || !process::other_namespaces(pid).is_empty();
    by_file
        .or_else(by_rights)
        .or_else(|| is_elsewhere().then_some(NotRecordable::OtherNamespaces))
}

/// Whether the process can never load a recorder, however long it runs.
fn cannot_load(pid: u32) -> bool {
    judge_process(pid).is_some_and(NotRecordable::is_certain)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_that_just_started_is_waited_for_a_little() {
        let assignment = format!("ALLOTROPE_TEST={}", std::process::id());
        let mut process_tree = ProcessTree::new(assignment, true);
        let begin = Instant::now();
        assert!(!process_tree.has_pending(&Search::new(u64::MAX), begin));
        let mut child = Command::new("cat")
            .env("ALLOTROPE_TEST", std::process::id().to_string())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        // A moment after `exec` its environment is not there yet.
        let environment = format!("/proc/{}/environ", child.id());
        while std::fs::read(&environment).is_ok_and(|it| it.is_empty()) {}
        // However early it is found after a scan that found none.
        assert!(process_tree.has_pending(&Search::new(u64::MAX), begin));
        let later = begin + PENDING_INTERVAL;
        assert!(process_tree.has_pending(&Search::new(u64::MAX), later));
        assert!(!process_tree.has_pending(&Search::new(u64::MAX), later + LOADING));
        assert_eq!(process_tree.pending().count(), 0);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Two containers in which process 2 becomes another program.
    #[test]
    fn a_process_that_arrives_is_not_taken_for_one_of_another_namespace() {
        let mut process_tree = ProcessTree::new(String::new(), true);
        let [one, other] = [51, 61].map(|outer| Process::new(Some(outer), 2));
        let gone = Process::new(None, 2);
        for process in [one, other, gone] {
            let path = Some(PathBuf::from("/bin/a"));
            process_tree.note_unrecorded(process, path, "why");
        }
        assert!(process_tree.is_unrecorded(51));
        process_tree.arrived(one, Path::new("/bin/a"));
        process_tree.arrived(Process::new(Some(71), 2), Path::new("/bin/b"));
        // Noting its end does not add a second entry.
        process_tree.note_replaced(gone, PathBuf::from("a"));
        let pids: Vec<u32> = process_tree
            .take_unrecorded()
            .iter()
            .map(|it| it.pid)
            .collect();
        assert_eq!(pids, [2, 61]);

        // Its process was found before, but not when the image attaches.
        process_tree.note_unrecorded(one, None, "why");
        process_tree.arrived(gone, Path::new("/bin/a"));
        assert!(process_tree.take_unrecorded().is_empty());
    }

    #[test]
    fn a_child_without_recorder_is_noted_when_seen_twice() {
        let assignment = format!("ALLOTROPE_TEST_CHILD={}", std::process::id());
        let mut process_tree = ProcessTree::new(assignment, true);
        let mut child = Command::new("cat")
            .env("ALLOTROPE_TEST_CHILD", std::process::id().to_string())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let roots = vec![std::process::id()];
        let now = Instant::now();
        process_tree.scan(roots.clone(), None, &Search::new(u64::MAX), now);
        assert!(!process_tree.is_due(now));
        assert!(process_tree.is_due(now + CHILDREN_INTERVAL));
        process_tree.scan(roots, None, &Search::new(u64::MAX), now + CHILDREN_INTERVAL);
        // Other tests of this process have children, too.
        let mut unrecorded = process_tree.take_unrecorded();
        unrecorded.retain(|unrecorded| unrecorded.pid == child.id());
        assert_eq!(unrecorded.len(), 1);
        assert_eq!(unrecorded[0].reason, NotRecordable::Unknown.sentence(""));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
