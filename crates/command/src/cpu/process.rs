//! Signals that this process gets, and what the kernel tells of a running process.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};

use anyhow::Context;

use crate::exit_status::{FAILED, Failure, WithStatus};
use crate::record::signals::{self, Received};
use crate::signal_state;

/// CPU time of a process and its ended threads so far, in ticks of the kernel's clock (100 a
/// second); 0 if it has ended.
pub fn used_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // proc_pid_stat(5): the name, in parentheses, may contain anything; utime and stime are the
    // 12th and the 13th word behind it.
    let words = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let times = words.split(' ').skip(11).take(2);
    times.filter_map(|it| it.parse::<u64>().ok()).sum()
}

/// Whether a process has not ended: one whose end its parent has not taken yet is a zombie
/// without threads.
pub fn runs(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    if threads.is_ok_and(|threads| threads.count() > 1) {
        return true;
    }
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in parentheses, may contain anything.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some(None | Some('Z' | 'X')))
}

/// Catches signals, so that Ctrl-C ends the sampling and not this process.
pub fn catch() -> Result<(signals::Job, Receiver<Received>), Failure> {
    let (sender, received) = channel();
    let ignored = signal_state::ignored();
    let job = signals::catch(ignored, Arc::new(AtomicBool::new(false)), move |signal| {
        let _ = sender.send(signal);
    });
    let job = job.context("cannot handle signals").status(FAILED)?;
    Ok((job, received))
}
