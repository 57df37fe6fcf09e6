//! The open file descriptors of a recorded process, by what they refer to, as
//! `/proc/PID/fd` shows it. Held against each other at a window's ends.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use allotrope_trace::model::{Descriptors, LeftOpen};

/// Descriptors of one process that are looked at: the draining thread does it.
const MOST: usize = 64 << 10;
/// Bytes of names that are held for one process.
const MOST_BYTES: usize = 1 << 20;
/// Names that a comparison tells; further ones are counted.
const TOLD: usize = 64;

/// How many descriptors refer to what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OpenDescriptors {
    by_name: BTreeMap<String, u32>,
    count: u32,
}

impl OpenDescriptors {
    /// Those of the process `pid`; `None` if it may not be looked at, is not to
    /// be seen, or has too many.
    pub(crate) fn of(pid: Option<u32>) -> Option<Self> {
        let mut open = Self::default();
        let mut bytes = 0;
        for entry in fs::read_dir(format!("/proc/{}/fd", pid?)).ok()? {
            // One that is closed meanwhile is no longer open.
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
            if open.count as usize > MOST || bytes > MOST_BYTES {
                return None;
            }
        }
        Some(open)
    }

    /// What is open in `self`, a window's end, and was not `before`.
    pub(crate) fn since(&self, before: &Self) -> Descriptors {
        let mut more = 0_u64;
        let mut left = Vec::new();
        for (name, &count) in &self.by_name {
            let then = before.by_name.get(name).copied().unwrap_or(0);
            let Some(count) = count.checked_sub(then).filter(|&count| count > 0) else {
                continue;
            };
            if left.len() < TOLD {
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

/// What a link of `/proc/PID/fd` refers to. Sockets and pipes have a number
/// instead of a name (proc_pid_fd(5)), another one each time: they are told by
/// their kind.
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
    fn sockets_and_pipes_are_told_by_their_kind() {
        assert_eq!(name("socket:[4711]"), "socket:");
        assert_eq!(name("pipe:[4711]"), "pipe:");
        assert_eq!(name("anon_inode:[eventfd]"), "anon_inode:[eventfd]");
        assert_eq!(name("/odd/socket:[1]"), "/odd/socket:[1]");
    }

    #[test]
    fn what_is_open_and_was_not_is_left() {
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
    fn names_beyond_the_told_ones_are_counted() {
        let after = OpenDescriptors {
            by_name: (0..TOLD + 5).map(|n| (format!("/{n}"), 2)).collect(),
            count: (TOLD as u32 + 5) * 2,
        };
        let found = after.since(&OpenDescriptors::default());
        assert_eq!(found.left.len(), TOLD);
        assert_eq!(found.more, 10);
        assert_eq!(found.leaked(), u64::from(after.count));
    }

    #[test]
    fn this_process_can_be_looked_at_and_nobody_else_can() {
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
