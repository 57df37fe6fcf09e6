//! Posts diagnostics to the collector: a program that is about to run cannot be
//! recorded, or part of this process is not recorded. They do not go through a
//! ring, since the posting process may have none.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use allotrope_preflight::NotRecordable;
use allotrope_shm::layout::{DIAGNOSTIC_PATH, diagnostic_state};

use crate::emit::events;
use crate::state::process;

/// Posts a diagnostic about the process `pid`. A path that is too long loses its
/// start.
#[cold]
pub fn post(pid: u32, reason: NotRecordable, path: &[u8]) {
    if !process::has_arena() {
        return;
    }
    let path = &path[path.len().saturating_sub(DIAGNOSTIC_PATH)..];
    let free = process::diagnostics().iter().find(|diagnostic| {
        let (free, claimed) = (diagnostic_state::FREE, diagnostic_state::CLAIMED);
        diagnostic.state.load(Relaxed) == free
            && diagnostic
                .state
                .compare_exchange(free, claimed, Acquire, Relaxed)
                .is_ok()
    });
    let shared = process::shared();
    let Some(diagnostic) = free else {
        shared.diagnostics_lost.fetch_add(1, Relaxed);
        return;
    };
    diagnostic.pid.store(pid, Relaxed);
    diagnostic.what.store(reason.code(), Relaxed);
    diagnostic.length.store(path.len() as u32, Relaxed);
    for (place, chunk) in diagnostic.path.iter().zip(path.chunks(8)) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        place.store(u64::from_le_bytes(word), Relaxed);
    }
    diagnostic.state.store(diagnostic_state::READY, Release);
    shared.diagnostics.fetch_add(1, Release);
    events::ring_doorbell();
}
