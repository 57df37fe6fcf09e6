//! The open file descriptors of a recorded process, counted by what they refer to
//! (`/proc/PID/fd`). `windows` compares those at the start and at the end of a window.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use allotrope_trace::model::{Descriptors, LeftOpen};

/// Largest number of descriptors of one process; the draining thread reads them.
const MAX_DESCRIPTORS: usize = 64 << 10;
/// Largest number of bytes of names of one process.
const MAX_BYTES: usize = 1 << 20;
/// Largest number of names in the result of a comparison; the descriptors of further names are only
/// counted.
const LISTED: usize = 64;

/// The number of descriptors for each name: a path, or a kind such as `socket:`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OpenDescriptors {
    by_name: BTreeMap<String, u32>,
    count: u32,
}

impl OpenDescriptors {
    /// Reads the descriptors of the process `pid`; `None` if there is no pid, if they
    /// may not be read, or if there are too many.
    pub(crate) fn of(pid: Option<u32>) -> Option<Self> {
        let mut open = Self::default();
        let mut bytes = 0;
        for entry in fs::read_dir(format!("/proc/{}/fd", pid?)).ok()? {
            // Closed since the folder was read.
            let Ok(target) = fs::read_link(entry.ok()?.path()) else {
                continue;
            };
            let name = name(&String::from_utf8_lossy(target.as_os_str().as_bytes()));
            open.count += 1;
            let count = open.by_name.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 {
                bytes += name.len();
            }
            if open.count as usize > MAX_DESCRIPTORS || bytes > MAX_BYTES {
                return None;
            }
        }
        Some(open)
    }

    /// The descriptors in `self`, at a window's end, that exceed those in `before`, at
    /// its start.
    pub(crate) fn since(&self, before: &Self) -> Descriptors {
        let mut more = 0_u64;
        let mut left = Vec::new();
        for (name, &count) in &self.by_name {
            let then = before.by_name.get(name).copied().unwrap_or(0);
            let Some(count) = count.checked_sub(then).filter(|&count| count > 0) else {
                continue;
            };
            if left.len() < LISTED {
                left.push(LeftOpen {
                    name: name.clone(),
                    count,
                });
            } else {
                more += u64::from(count);
            }
        }
        Descriptors {
            before: before.count,
            after: self.count,
            left,
            more,
        }
    }
}

/// The name for a link of `/proc/PID/fd`. Each socket and pipe has its own number
/// instead of a name (proc_pid_fd(5)), so these are counted by their kind.
fn name(target: &str) -> String {
    match target.split_once(":[") {
        Some((kind @ ("socket" | "pipe"), _)) => format!("{kind}:"),
        _ => target.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn sockets_and_pipes_are_named_by_their_kind() {
        assert_eq!(name("socket:[4711]"), "socket:");
        assert_eq!(name("pipe:[4711]"), "pipe:");
        assert_eq!(name("anon_inode:[eventfd]"), "anon_inode:[eventfd]");
        assert_eq!(name("/odd/socket:[1]"), "/odd/socket:[1]");
    }

    #[test]
    fn descriptors_that_were_not_open_before_are_left_open() {
        let of = |names: &[(&str, u32)]| OpenDescriptors {
            by_name: names.iter().map(|&(n, c)| (n.to_owned(), c)).collect(),
            count: names.iter().map(|&(_, count)| count).sum(),
        };
        let before = of(&[("/a", 1), ("/gone", 3), ("pipe:", 2)]);
        let after = of(&[("/a", 1), ("/b", 1), ("pipe:", 5)]);
        let found = after.since(&before);
        let left = |name: &str, count| LeftOpen {
            name: name.into(),
            count,
        };
        assert_eq!(found.left, [left("/b", 1), left("pipe:", 3)]);
        assert_eq!((found.before, found.after, found.leaked()), (6, 7, 4));
    }

    #[test]
    fn descriptors_of_names_beyond_the_limit_are_counted() {
        let after = OpenDescriptors {
            by_name: (0..LISTED + 5).map(|n| (format!("/{n}"), 2)).collect(),
            count: (LISTED as u32 + 5) * 2,
        };
        let found = after.since(&OpenDescriptors::default());
        assert_eq!(found.left.len(), LISTED);
        assert_eq!(found.more, 10);
        assert_eq!(found.leaked(), u64::from(after.count));
    }

    #[test]
    fn only_the_descriptors_of_an_existing_process_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("open");
        let file = File::create(&path).unwrap();
        let open = OpenDescriptors::of(Some(std::process::id())).unwrap();
        let name = path.to_str().unwrap();
        assert_eq!(open.by_name.get(name), Some(&1));
        drop(file);
        assert_eq!(OpenDescriptors::of(None), None);
        assert_eq!(OpenDescriptors::of(Some(u32::MAX)), None);
    }
}
