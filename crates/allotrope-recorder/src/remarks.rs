//! Tells the collector what no ring can tell: that a program is about to run
//! which cannot be recorded, or that part of this one is not seen.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use allotrope_shm::layout::{REMARK_PATH, remark_state};

use crate::{events, process};

/// Makes a remark about the process `pid`; of a long path the end is told.
#[cold]
pub fn make(pid: u32, what: u32, path: &[u8]) {
    if !process::has_arena() {
        return;
    }
    let path = &path[path.len().saturating_sub(REMARK_PATH)..];
    let free = process::remarks().iter().find(|remark| {
        let (free, claimed) = (remark_state::FREE, remark_state::CLAIMED);
        remark.state.load(Relaxed) == free
            && remark
                .state
                .compare_exchange(free, claimed, Acquire, Relaxed)
                .is_ok()
    });
    let shared = process::shared();
    let Some(remark) = free else {
        shared.remarks_lost.fetch_add(1, Relaxed);
        return;
    };
    remark.pid.store(pid, Relaxed);
    remark.what.store(what, Relaxed);
    remark.length.store(path.len() as u32, Relaxed);
    for (place, chunk) in remark.path.iter().zip(path.chunks(8)) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        place.store(u64::from_le_bytes(word), Relaxed);
    }
    remark.state.store(remark_state::READY, Release);
    shared.remarks.fetch_add(1, Release);
    events::ring_doorbell();
}
