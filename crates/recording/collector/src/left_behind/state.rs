//! What was done about processes that the first one left behind.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use crate::protocol::{LeftBehind, WhenLeftBehind};

/// What was done about such processes.
#[derive(Debug, Default)]
pub(crate) struct LeftBehindState {
    pub(crate) when: WhenLeftBehind,
    /// When the end of the first process was noticed.
    pub(super) since: Option<Instant>,
    by_pid: BTreeMap<u32, LeftBehind>,
}

impl LeftBehindState {
    pub(crate) fn new(when: WhenLeftBehind) -> Self {
        Self {
            when,
            ..Self::default()
        }
    }

    /// The processes, by pid.
    pub(crate) fn take(&mut self) -> Vec<LeftBehind> {
        std::mem::take(&mut self.by_pid).into_values().collect()
    }

    pub(super) fn signal_sent(&self, pid: u32) -> Option<i32> {
        self.by_pid.get(&pid).map(|it| it.signal)
    }

    pub(super) fn note(&mut self, pid: u32, executable: PathBuf, signal: i32) {
        let note = self.by_pid.entry(pid).or_insert_with(|| LeftBehind {
            pid,
            executable,
            signal,
        });
        note.signal = signal;
    }
}
