//! What `/proc` says about a process. Every answer may be missing: the process
//! may be gone, or not be ours to look at.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use allotrope_ring::layout::PAGE;

/// Which file an executable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Bytes of a process's environment that are searched.
const ENVIRONMENT_LIMIT: u64 = 4 << 20;
/// Bytes of a process's map of memory that are searched.
const MAPS_LIMIT: u64 = 32 << 20;

fn entry(pid: u32, name: &str) -> String {
    format!("/proc/{pid}/{name}")
}

/// The file of the running executable.
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

/// The running executable, even if its path is gone.
pub(crate) fn open_executable(pid: u32) -> io::Result<File> {
    File::open(entry(pid, "exe"))
}

/// Where the process finds `path`, as this process does.
pub(crate) fn rooted(pid: u32, path: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root{path}"))
}

/// Resident memory in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(entry(pid, "statm")).ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(PAGE as u64)
}

fn numbered_entries(folder: &str) -> Option<Vec<u32>> {
    let entries = fs::read_dir(folder).ok()?;
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Some(entries.filter_map(number).collect())
}

/// Every process that can be seen.
pub(crate) fn all() -> Vec<u32> {
    numbered_entries("/proc").unwrap_or_default()
}

/// Thread ids, in no order.
pub(crate) fn threads(pid: u32) -> Option<Vec<u32>> {
    numbered_entries(&entry(pid, "task"))
}

/// Name of a thread.
pub(crate) fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let name = fs::read(entry(pid, &format!("task/{tid}/comm"))).ok()?;
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Children of a process (needs a kernel with `CONFIG_PROC_CHILDREN`); each of
/// its threads that is asked takes one from `threads_left`.
pub(crate) fn children(pid: u32, threads_left: &mut usize) -> Vec<u32> {
    let children_of = |tid: u32| {
        let text = fs::read_to_string(entry(pid, &format!("task/{tid}/children")));
        text.unwrap_or_default()
    };
    let mut children = Vec::new();
    let tids = threads(pid).unwrap_or_default();
    let asked = tids.len().min(*threads_left);
    *threads_left -= asked;
    for tid in tids.into_iter().take(asked) {
        let text = children_of(tid);
        children.extend(
            text.split_ascii_whitespace()
                .filter_map(|number| number.parse::<u32>().ok()),
        );
    }
    children
}

/// Some fields of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// `R`, `S`, `Z`, ….
    pub(crate) state: char,
    /// Wait status; 0 also where the kernel does not let us know it.
    pub(crate) exit_code: i32,
}

impl Stat {
    /// The process has ended and was not waited for yet.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// State and exit code of a process.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(entry(pid, "stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The second field is the name in parentheses and may hold anything; the
    // last closing one ends it. proc(5) counts fields from 1: state is the
    // third, exit_code the 52nd.
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let exit_code = fields.nth(52 - 4)?.parse().ok()?;
    Some(Stat { state, exit_code })
}

/// Whether the process runs as the same user as this one.
pub(crate) fn is_own(pid: u32) -> bool {
    let owner = |folder: String| fs::metadata(folder).ok().map(|metadata| metadata.uid());
    owner(format!("/proc/{pid}")).is_some_and(|uid| Some(uid) == owner("/proc/self".into()))
}

/// The ids a process has, in our pid namespace first, in its own last.
pub(crate) fn namespace_pids(pid: u32) -> Option<Vec<u32>> {
    let status = fs::read_to_string(entry(pid, "status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(
        line.split_ascii_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect(),
    )
}

/// Whether the process maps the file with `inode` whose name begins with
/// `name` (as `/proc/PID/maps` shows it).
pub(crate) fn maps_file(pid: u32, name: &str, inode: u64) -> io::Result<bool> {
    let mut lines = BufReader::new(File::open(entry(pid, "maps"))?.take(MAPS_LIMIT));
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(false);
        }
        if is_mapping_of(&line, name, inode) {
            return Ok(true);
        }
    }
}

/// `start-end mode offset device inode   name`
fn is_mapping_of(line: &[u8], name: &str, inode: u64) -> bool {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.split_ascii_whitespace();
    let found = fields.nth(4).and_then(|text| text.parse::<u64>().ok());
    found == Some(inode) && fields.next().is_some_and(|path| path.starts_with(name))
}

/// Whether the process was started with this `NAME=VALUE` in its environment.
pub(crate) fn has_environment(pid: u32, assignment: &str) -> io::Result<bool> {
    let mut bytes = Vec::new();
    File::open(entry(pid, "environ"))?
        .take(ENVIRONMENT_LIMIT)
        .read_to_end(&mut bytes)?;
    Ok(bytes
        .split(|byte| *byte == 0)
        .any(|variable| variable == assignment.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_hold_parentheses_and_spaces() {
        let mut text = String::from("7 (a) R (b) Z");
        for field in 4..52 {
            text.push_str(&format!(" {field}"));
        }
        text.push_str(" 1792\n");
        let expected = Stat {
            state: 'Z',
            exit_code: 7 << 8,
        };
        assert_eq!(parse_stat(&text), Some(expected));
        assert!(expected.is_dead());
        assert_eq!(parse_stat("7 (a"), None);
    }

    #[test]
    fn this_process_can_be_read() {
        let pid = std::process::id();
        assert!(threads(pid).unwrap().contains(&pid));
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
    }

    #[test]
    fn an_environment_is_searched_for_the_whole_assignment() {
        let pid = std::process::id();
        let path = std::env::var("PATH").unwrap();
        assert!(has_environment(pid, &format!("PATH={path}")).unwrap());
        assert!(!has_environment(pid, &format!("PATH={path}x")).unwrap());
    }
}
