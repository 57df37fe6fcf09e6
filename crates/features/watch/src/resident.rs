//! The resident set of a watched process, and what of it is the recorder's: the memory of its samples
//! and the state of each thread. With many threads and stacks that is much more than the program's own.
//!
//! Error: the recorder's code and static data, and in a forked child a page for each thread of
//! its parent, are not counted as the recorder's.

use std::fs::File;

use allotrope_shm::layout::MAX_STATE;
use allotrope_shm::page_map;
use allotrope_shm::samples::layout::BYTES;
use allotrope_shm::samples::reader::RecorderMemory;

use crate::process_status::status_field;

/// Resident memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// As the kernel counts it: with the recorder's.
    pub bytes: u64,
    /// The recorder's part of it; `None`: it cannot be read.
    pub recorder_bytes: Option<u64>,
}

impl Resident {
    /// That of a process now (`proc_pid_status(5)`), whose recorder has this memory; `None`: the process has
    /// ended.
    pub fn of(process: u32, recorder: &RecorderMemory) -> Option<Self> {
        let kib = status_field(process, "VmRSS:")?;
        let pagemap = File::open(format!("/proc/{process}/pagemap")).ok();
        Some(Self {
            bytes: kib.saturating_mul(1024),
            recorder_bytes: pagemap.and_then(|map| recorders(&map, recorder)),
        })
    }

    /// The program's part, as far as it is known.
    pub fn of_program(&self) -> u64 {
        self.bytes.saturating_sub(self.recorder_bytes.unwrap_or(0))
    }
}

/// The resident bytes of the recorder. The process says where they are: it can spoil its own figure.
fn recorders(map: &File, memory: &RecorderMemory) -> Option<u64> {
    if memory.state_bytes > MAX_STATE {
        return None;
    }
    let states = memory.states.iter();
    let states = states.map(|state| page_map::resident(map, *state, memory.state_bytes));
    let own = page_map::resident(map, memory.memory, BYTES as u64)?;
    Some(states.sum::<Option<u64>>()?.saturating_add(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_made_up_spoils_its_own_figure_only() {
        let map = File::open("/proc/self/pagemap").expect("it is our own");
        let made_up = |states: Vec<u64>, state_bytes| {
            let memory = u64::MAX - 1;
            let memory = RecorderMemory {
                memory,
                states,
                state_bytes,
            };
            recorders(&map, &memory)
        };
        let found = made_up(vec![0x10, 1 << 47, 1 << 63, u64::MAX], MAX_STATE);
        assert!(matches!(found, Some(0) | None), "{found:?}");
        assert_eq!(made_up(Vec::new(), MAX_STATE + 1), None);
        // More than all of the process has.
        let resident = Resident {
            bytes: 4096,
            recorder_bytes: Some(u64::MAX),
        };
        assert_eq!(resident.of_program(), 0);
    }
}
