//! The memory of a tool's own processes while they run, from `/proc`.

use std::collections::HashMap;
use std::path::PathBuf;

/// Follows the descendants of one process, except what a launcher started.
pub struct Processes {
    root: u32,
    /// Executables whose processes and all below are the target's.
    launchers: Vec<PathBuf>,
    /// Largest resident set of each process seen, in KiB.
    peaks: HashMap<u32, u64>,
}

impl Processes {
    /// Of the process `root`, itself not included.
    pub fn below(root: u32, launchers: Vec<PathBuf>) -> Self {
        Self {
            root,
            launchers,
            peaks: HashMap::new(),
        }
    }

    /// Looks once.
    pub fn look(&mut self) {
        let mut left = children(self.root);
        while let Some(process) = left.pop() {
            let executable = std::fs::read_link(format!("/proc/{process}/exe"));
            if executable.is_ok_and(|path| self.launchers.contains(&path)) {
                continue;
            }
            if let Some(peak) = peak_kib(process) {
                let known = self.peaks.entry(process).or_default();
                *known = peak.max(*known);
            }
            left.extend(children(process));
        }
    }

    /// The largest resident set that one of them had when last looked at, KiB.
    pub fn largest_kib(&self) -> u64 {
        self.peaks.values().copied().max().unwrap_or_default()
    }
}

fn children(process: u32) -> Vec<u32> {
    // A process whose threads start children has them under each thread.
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let pids: Vec<u32> = list.split_whitespace().flat_map(str::parse).collect();
            pids
        })
        .collect()
}

fn peak_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_seen_and_its_memory_too() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let mut processes = Processes::below(std::process::id(), Vec::new());
        processes.look();
        let seen = processes.peaks.contains_key(&child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen);
        assert!(processes.largest_kib() > 0);
    }
}
