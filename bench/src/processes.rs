//! Samples the memory of a tool's own processes from `/proc` while they run.

use std::collections::HashMap;
use std::path::PathBuf;

/// The descendants of one process, except a launcher and its descendants (the program).
pub struct Processes {
    root: u32,
    /// Executables of launchers; these processes and their descendants are left out.
    launchers: Vec<PathBuf>,
    /// Peak resident set of each process by pid, in KiB.
    peaks: HashMap<u32, u64>,
}

impl Processes {
    /// The descendants of the process `root`.
    pub fn below(root: u32, launchers: Vec<PathBuf>) -> Self {
        Self {
            root,
            launchers,
            peaks: HashMap::new(),
        }
    }

    /// Samples all processes once.
    pub fn sample(&mut self) {
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

    /// The largest peak resident set of any of them at its last sample, KiB.
    pub fn largest_kib(&self) -> u64 {
        self.peaks.values().copied().max().unwrap_or_default()
    }
}

fn children(process: u32) -> Vec<u32> {
    // `/proc` lists the children of a process by the thread that started them.
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
    fn a_child_and_its_memory_are_sampled() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let mut processes = Processes::below(std::process::id(), Vec::new());
        processes.sample();
        let seen = processes.peaks.contains_key(&child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen);
        assert!(processes.largest_kib() > 0);
    }
}
