//! Finds the processes that have a memory.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use allotrope_shm::samples::file::{FindError, find};

/// The processes of this user, or of all users for root.
#[derive(Debug, Default)]
pub struct Found {
    /// Those that have a memory.
    pub processes: BTreeSet<u32>,
    /// Those at which the kernel does not let us look, and those whose memory cannot be used.
    pub unopened: usize,
}

/// Looks at all processes for which `is_wanted` says yes to the name (`/proc/PID/comm`).
/// `known` ones are not looked at.
pub fn discover(known: &BTreeSet<u32>, is_wanted: impl Fn(&str) -> bool) -> Found {
    let mut found = Found::default();
    let user = rustix::process::geteuid();
    let own = std::process::id();
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    for folder in folders {
        let name = folder.file_name();
        let process = name.to_str().and_then(|it| it.parse::<u32>().ok());
        let Some(process) = process.filter(|it| *it != own && !known.contains(it)) else {
            continue;
        };
        // The folder of a process that may not be looked at belongs to root.
        let is_ours = |it: fs::Metadata| user.is_root() || it.uid() == user.as_raw();
        if !folder.metadata().is_ok_and(is_ours) {
            continue;
        }
        let comm = fs::read(folder.path().join("comm")).unwrap_or_default();
        if !is_wanted(String::from_utf8_lossy(&comm).trim_end_matches('\n')) {
            continue;
        }
        match find(process) {
            Ok(_) => drop(found.processes.insert(process)),
            Err(FindError::NoProcess(_) | FindError::NotWatched(_)) => {}
            Err(_) => found.unopened += 1,
        }
    }
    found
}
