//! Reads properties of processes from `/proc`. Each one may be missing: the process
//! has ended, or the collector may not read it.
//!
//! Callers use the process ids of the collector's own pid namespace, also if `/proc`
//! was mounted in an outer namespace and shows the ids of that one; this file converts
//! between the two. "Shown" ids are those in `/proc`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use allotrope_preflight::privileges::Credentials;
use allotrope_shm::layout::PAGE;
use allotrope_trace::model::MAX_ENVIRONMENT;
use rustc_hash::FxHashMap;

/// Identity of an executable's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Largest number of bytes of `/proc/PID/environ` that are read.
const ENVIRONMENT_LIMIT: u64 = 4 << 20;
/// Largest number of bytes of `/proc/PID/maps` that are read.
const MAPS_LIMIT: u64 = 32 << 20;

/// Which processes `/proc` shows, and under which ids.
#[derive(Debug)]
enum View {
    /// The processes of our own pid namespace, under its ids.
    Own,
    /// The processes of an outer namespace this many levels above ours, under its ids
    /// (`unshare --pid` without `--mount-proc`).
    Outer(usize),
    /// The processes of another namespace, or none.
    Other,
}

static VIEW: LazyLock<View> = LazyLock::new(|| match ids_in("self") {
    Some(ids) if ids.last() == Some(&std::process::id()) => match ids.len() - 1 {
        0 => View::Own,
        levels => View::Outer(levels),
    },
    _ => View::Other,
});

/// Maps our ids to those in `/proc`, if these differ; filled by [`all`]. Entries may
/// be out of date.
static OUTER_IDS: LazyLock<Mutex<FxHashMap<u32, u32>>> = LazyLock::new(Mutex::default);

/// The `NSpid` line of `/proc/FOLDER/status`: the ids of a process or thread, from the
/// namespace of `/proc` inwards to its own.
fn ids_in(folder: &str) -> Option<Vec<u32>> {
    let status = fs::read_to_string(format!("/proc/{folder}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    let ids: Vec<u32> = line
        .split_ascii_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    (!ids.is_empty()).then_some(ids)
}

/// Our id of the process that `/proc` shows as `shown`, if it belongs to our namespace
/// or to one nested in it.
fn own_id(shown: u32) -> Option<u32> {
    match *VIEW {
        View::Own => Some(shown),
        View::Other => None,
        View::Outer(levels) => {
            let own = *ids_in(&shown.to_string())?.get(levels)?;
            belongs_to_us(shown, levels).then_some(own)
        }
    }
}

/// Whether a process at our level of namespaces or a deeper one is in our own namespace
/// or has an ancestor there. Otherwise it belongs to a sibling namespace, which uses
/// the same ids.
fn belongs_to_us(shown: u32, levels: usize) -> bool {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/pid")).ok();
    let mut shown = shown;
    while let Some(ids) = ids_in(&shown.to_string()) {
        if ids.len() <= levels + 1 {
            let theirs = namespace(&shown.to_string());
            return ids.len() == levels + 1 && theirs.is_some() && theirs == namespace("self");
        }
        let stat = fs::read_to_string(format!("/proc/{shown}/stat"));
        match stat.ok().and_then(|text| parse_stat(&text)) {
            Some(stat) => shown = stat.parent,
            None => return false,
        }
    }
    false
}

/// The id under which `/proc` shows the process with our id `pid`.
fn shown_id(pid: u32) -> Option<u32> {
    let View::Outer(levels) = *VIEW else {
        return matches!(*VIEW, View::Own).then_some(pid);
    };
    let is_it =
        |shown: &u32| ids_in(&shown.to_string()).is_some_and(|ids| ids.get(levels) == Some(&pid));
    let find = || {
        let known = OUTER_IDS.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&pid).copied()
    };
    find().filter(is_it).or_else(|| {
        all();
        find().filter(is_it)
    })
}

/// Path of the file `name` in the process's folder; a path that does not exist if
/// `/proc` does not show the process.
fn entry(pid: u32, name: &str) -> String {
    match shown_id(pid) {
        Some(shown) => format!("/proc/{shown}/{name}"),
        None => format!("/proc/none/{name}"),
    }
}

/// Identity of the running executable's file.
pub(crate) fn executable_identity(pid: u32) -> Option<FileIdentity> {
    let metadata = fs::metadata(entry(pid, "exe")).ok()?;
    Some(FileIdentity {
        device: metadata.dev(),
        inode: metadata.ino(),
    })
}

/// Path of the running executable.
pub(crate) fn executable_path(pid: u32) -> Option<PathBuf> {
    fs::read_link(entry(pid, "exe")).ok()
}

/// The folder of a process in `/proc`.
pub(crate) fn folder(pid: u32) -> PathBuf {
    PathBuf::from(entry(pid, ""))
}

/// A path that opens the running executable, even if its file was deleted.
pub(crate) fn executable(pid: u32) -> PathBuf {
    PathBuf::from(entry(pid, "exe"))
}

/// Converts an absolute path in the process's root folder to a path in ours.
pub(crate) fn rooted(pid: u32, path: impl AsRef<Path>) -> PathBuf {
    let mut rooted = OsString::from(entry(pid, "root"));
    rooted.push(path.as_ref());
    rooted.into()
}

/// User ids, group ids and rights of the process.
pub(crate) fn credentials(pid: u32) -> Option<Credentials> {
    Credentials::parse(&fs::read(entry(pid, "status")).ok()?)
}

/// Resident memory in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(entry(pid, "statm")).ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(PAGE as u64)
}

/// The process's page map; see [`crate::recorder_memory`].
pub(crate) fn page_map(pid: u32) -> Option<File> {
    File::open(entry(pid, "pagemap")).ok()
}

fn numbered_entries(folder: &str) -> Option<Vec<u32>> {
    let entries = fs::read_dir(folder).ok()?;
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Some(entries.filter_map(number).collect())
}

/// Whether the process has another mount namespace than we have.
pub(crate) fn has_own_mounts(pid: u32) -> bool {
    static OWN: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| fs::read_link("/proc/self/ns/mnt").ok());
    let theirs = fs::read_link(entry(pid, "ns/mnt")).ok();
    theirs.is_some() && theirs != *OWN
}

/// All processes of our namespace and those nested in it, as far as `/proc` shows them.
pub(crate) fn all() -> Vec<u32> {
    let shown = numbered_entries("/proc").unwrap_or_default();
    if matches!(*VIEW, View::Own) {
        return shown;
    }
    let ids: FxHashMap<u32, u32> = shown
        .into_iter()
        .filter_map(|shown| Some((own_id(shown)?, shown)))
        .collect();
    let all = ids.keys().copied().collect();
    *OUTER_IDS.lock().unwrap_or_else(PoisonError::into_inner) = ids;
    all
}

/// Whether the process is in a pid namespace nested in that of `/proc`, so that it has
/// other ids there.
pub(crate) fn is_in_inner_namespace(pid: u32) -> bool {
    shown_id(pid)
        .and_then(|shown| ids_in(&shown.to_string()))
        .is_some_and(|ids| ids.len() > 1)
}

/// The process's thread ids in its own namespace, unordered. `inner`: the result of
/// [`is_in_inner_namespace`].
pub(crate) fn threads(pid: u32, inner: bool) -> Option<Vec<u32>> {
    let shown = numbered_entries(&entry(pid, "task"))?;
    if !inner {
        return Some(shown);
    }
    let ids = tasks(pid, shown);
    Some(ids.map(|(_, own)| own).collect())
}

/// Pairs each thread id in `/proc` with the thread's id in its own namespace.
fn tasks(pid: u32, shown: Vec<u32>) -> impl Iterator<Item = (u32, u32)> {
    let process = shown_id(pid).unwrap_or(0);
    shown.into_iter().filter_map(move |shown| {
        let ids = ids_in(&format!("{process}/task/{shown}"))?;
        Some((shown, *ids.last()?))
    })
}

/// Name of a thread; `inner` as for [`threads`].
pub(crate) fn thread_name(pid: u32, tid: u32, inner: bool) -> Option<String> {
    let shown = match inner {
        false => tid,
        true => {
            let shown = numbered_entries(&entry(pid, "task"))?;
            tasks(pid, shown).find(|(_, own)| *own == tid)?.0
        }
    };
    let name = fs::read(entry(pid, &format!("task/{shown}/comm"))).ok()?;
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The process's command line, split as for the trace.
pub(crate) fn command(pid: u32) -> Vec<OsString> {
    let bytes = fs::read(entry(pid, "cmdline")).unwrap_or_default();
    arguments(&bytes)
}

/// Splits a command line; each word ends with a zero byte.
pub(crate) fn arguments(bytes: &[u8]) -> Vec<OsString> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    let words = bytes.split(|byte| *byte == 0);
    words
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect()
}

/// Kinds of namespaces that can keep a recorder from reaching the collector.
const NAMESPACES: [&str; 2] = ["net", "pid"];

/// The kinds among [`NAMESPACES`] in which the process is in another namespace than the
/// collector; kinds that cannot be read are left out.
pub(crate) fn other_namespaces(pid: u32) -> Vec<&'static str> {
    let link = |path: String| fs::read_link(path).ok();
    let is_other = |kind: &&str| {
        let theirs = link(entry(pid, &format!("ns/{kind}")));
        theirs.is_some() && theirs != link(format!("/proc/self/ns/{kind}"))
    };
    NAMESPACES.into_iter().filter(is_other).collect()
}

/// Children of a process (needs a kernel with `CONFIG_PROC_CHILDREN`). Reads the lists
/// of at most `threads_left` of its threads and subtracts their number.
pub(crate) fn children(pid: u32, threads_left: &mut usize) -> Vec<u32> {
    let children_of = |tid: u32| {
        let text = fs::read_to_string(entry(pid, &format!("task/{tid}/children")));
        text.unwrap_or_default()
    };
    let mut children = Vec::new();
    let tids = numbered_entries(&entry(pid, "task")).unwrap_or_default();
    let asked = tids.len().min(*threads_left);
    *threads_left -= asked;
    for tid in tids.into_iter().take(asked) {
        let text = children_of(tid);
        children.extend(
            text.split_ascii_whitespace()
                .filter_map(|number| own_id(number.parse().ok()?)),
        );
    }
    children
}

/// Some fields of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// `R`, `S`, `Z`, ….
    pub(crate) state: char,
    /// Our id of the parent; 0 if the parent is outside our pid namespace.
    pub(crate) parent: u32,
    /// Start time in clock ticks since boot.
    pub(crate) started: u64,
    /// Wait status (wait(2)); 0 also if the kernel hides it from us.
    pub(crate) exit_code: i32,
}

impl Stat {
    /// The process has ended but was not waited for (a zombie).
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// The thread is stopped, by a signal or by a debugger.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

/// State, parent, start time and exit code of a process.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let stat = parse_stat(&fs::read_to_string(entry(pid, "stat")).ok()?)?;
    let parent = own_id(stat.parent).unwrap_or(0);
    Some(Stat { parent, ..stat })
}

/// Whether a thread of the process is stopped; `None` if its state cannot be read.
pub(crate) fn is_stopped(pid: u32) -> Option<bool> {
    // The main thread, whose state this is, may have ended before the others.
    if stat(pid)?.is_stopped() {
        return Some(true);
    }
    let of_thread =
        |tid| parse_stat(&fs::read_to_string(entry(pid, &format!("task/{tid}/stat"))).ok()?);
    let shown = numbered_entries(&entry(pid, "task"))?;
    let mut threads = shown.into_iter().filter_map(of_thread);
    Some(threads.any(|thread| thread.is_stopped()))
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The second field is the name in parentheses. It may contain any character, so
    // the last `)` ends it. proc(5) counts fields from 1: state is the third, ppid the
    // fourth, starttime the 22nd, exit_code the 52nd.
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(22 - 5)?.parse().ok()?;
    let exit_code = fields.nth(52 - 23)?.parse().ok()?;
    Some(Stat {
        state,
        parent,
        started,
        exit_code,
    })
}

/// Whether the process runs as the same user as this one.
pub(crate) fn is_own(pid: u32) -> bool {
    let owner = |folder: String| fs::metadata(folder).ok().map(|metadata| metadata.uid());
    owner(entry(pid, "")).is_some_and(|uid| Some(uid) == owner("/proc/self".into()))
}

/// The process's ids, from our pid namespace inwards to its own.
pub(crate) fn namespace_pids(pid: u32) -> Option<Vec<u32>> {
    let mut ids = ids_in(&shown_id(pid)?.to_string())?;
    if let View::Outer(levels) = *VIEW {
        ids.drain(..levels.min(ids.len()));
    }
    Some(ids)
}

/// Whether the process maps the file with this inode whose name in `/proc/PID/maps`
/// begins with `name`.
pub(crate) fn maps_file(pid: u32, name: &str, inode: u64) -> io::Result<bool> {
    let first = find_mapping(pid, name, inode, |_| true)?;
    Ok(first.is_some())
}

/// The address at which the process maps the byte at `offset` of such a file.
pub(crate) fn mapped_at(pid: u32, name: &str, inode: u64, offset: u64) -> io::Result<Option<u64>> {
    let found = find_mapping(pid, name, inode, |mapping| {
        offset
            .checked_sub(mapping.offset)
            .is_some_and(|within| within < mapping.bytes)
    })?;
    Ok(found.map(|mapping| mapping.start + (offset - mapping.offset)))
}

/// A mapped range of a file.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    bytes: u64,
    /// Offset of its start in the file.
    offset: u64,
}

/// The first mapping of the file for which `is_wanted` is true.
fn find_mapping(
    pid: u32,
    name: &str,
    inode: u64,
    is_wanted: impl Fn(&Mapping) -> bool,
) -> io::Result<Option<Mapping>> {
    let mut lines = BufReader::new(File::open(entry(pid, "maps"))?.take(MAPS_LIMIT));
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if let Some(mapping) = mapping_of(&line, name, inode).filter(&is_wanted) {
            return Ok(Some(mapping));
        }
    }
}

/// Whether the process's page tables have a present page at this address; `None` if
/// they cannot be read.
pub(crate) fn has_page(pid: u32, address: u64) -> Option<bool> {
    // Documentation/admin-guide/mm/pagemap.rst: a word for each page, bit 63: present.
    let mut word = [0; 8];
    page_map(pid)?
        .read_exact_at(&mut word, address / PAGE as u64 * 8)
        .ok()?;
    Some(u64::from_le_bytes(word) >> 63 != 0)
}

/// Parses a line of `/proc/PID/maps`, `start-end mode offset device inode   name`;
/// `None` if it is about another file.
fn mapping_of(line: &[u8], name: &str, inode: u64) -> Option<Mapping> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.split_ascii_whitespace();
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
    let offset = hexadecimal(fields.nth(1)?)?;
    let found = fields.nth(1)?.parse() == Ok(inode);
    let is_it = found && fields.next().is_some_and(|path| path.starts_with(name));
    is_it.then_some(Mapping {
        start,
        bytes: end.checked_sub(start)?,
        offset,
    })
}

/// Whether the environment with which the process was started contains this
/// `NAME=VALUE`.
pub(crate) fn has_environment(pid: u32, assignment: &str) -> io::Result<bool> {
    let mut bytes = Vec::new();
    File::open(entry(pid, "environ"))?
        .take(ENVIRONMENT_LIMIT)
        .read_to_end(&mut bytes)?;
    Ok(bytes
        .split(|byte| *byte == 0)
        .any(|variable| variable == assignment.as_bytes()))
}

/// The entries of the environment with which the process was started; `None` if it cannot be
/// read as a whole.
pub(crate) fn environment(pid: u32) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(entry(pid, "environ")).ok()?;
    file.take(MAX_ENVIRONMENT + 1)
        .read_to_end(&mut bytes)
        .ok()?;
    (bytes.len() as u64 <= MAX_ENVIRONMENT).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_contain_parentheses_and_spaces() {
        let mut text = String::from("7 (a) R (b) Z");
        for field in 4..52 {
            text.push_str(&format!(" {field}"));
        }
        text.push_str(" 1792\n");
        let expected = Stat {
            state: 'Z',
            parent: 4,
            started: 22,
            exit_code: 7 << 8,
        };
        assert_eq!(parse_stat(&text), Some(expected));
        assert!(expected.is_dead());
        assert_eq!(parse_stat("7 (a"), None);
    }

    #[test]
    fn a_line_of_maps_is_parsed() {
        let line = b"7f10-7f30 rw-s 00000400 00:01 1057    /memfd:allotrope (deleted)\n";
        let expected = Mapping {
            start: 0x7f10,
            bytes: 0x20,
            offset: 0x400,
        };
        assert_eq!(mapping_of(line, "/memfd:allotrope", 1057), Some(expected));
        assert_eq!(mapping_of(line, "/memfd:allotrope", 1058), None);
        assert_eq!(mapping_of(line, "/memfd:other", 1057), None);
        assert_eq!(mapping_of(b"7f10-7f30 rw-s\n", "", 0), None);
    }

    #[test]
    fn this_process_can_be_read() {
        let pid = std::process::id();
        assert!(threads(pid, false).unwrap().contains(&pid));
        assert!(threads(pid, true).unwrap().contains(&pid));
        assert_eq!(thread_name(pid, pid, true), thread_name(pid, pid, false));
        assert!(!is_in_inner_namespace(pid));
        assert!(other_namespaces(pid).is_empty());
        assert_eq!(command(pid)[0], std::env::args_os().next().unwrap());
        assert!(resident_bytes(pid).unwrap() > 4096);
        assert!(all().contains(&pid));
        assert_eq!(namespace_pids(pid).unwrap()[0], pid);
        assert!(!stat(pid).unwrap().is_dead());
        let executable = std::env::current_exe().unwrap();
        assert_eq!(executable_path(pid), Some(executable.clone()));
        let inode = fs::metadata(&executable).unwrap().ino();
        assert_eq!(executable_identity(pid).unwrap().inode, inode);
        let name = executable.to_str().unwrap();
        assert!(maps_file(pid, name, inode).unwrap());
        assert!(!maps_file(pid, "/memfd:", inode).unwrap());
        let start = mapped_at(pid, name, inode, 7).unwrap().unwrap();
        assert_eq!(start % PAGE as u64, 7);
        let beyond = mapped_at(pid, name, inode, u64::MAX);
        assert_eq!(beyond.unwrap(), None);
        // The stack has a page here; there never is one at 0.
        assert_ne!(has_page(pid, &raw const start as u64), Some(false));
        assert_ne!(has_page(pid, 0), Some(true));
    }

    #[test]
    fn only_the_whole_assignment_is_found_in_the_environment() {
        let pid = std::process::id();
        let path = std::env::var("PATH").unwrap();
        assert!(has_environment(pid, &format!("PATH={path}")).unwrap());
        assert!(!has_environment(pid, &format!("PATH={path}x")).unwrap());
    }
}
