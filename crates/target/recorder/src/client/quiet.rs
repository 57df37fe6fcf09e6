//! Waits until no other thread of the image makes events, by polling what their rings
//! have published or counted. A thread that allocates nothing cannot be seen.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::emit::mode;
use crate::state::process;
use crate::sys::system;

/// Time between two polls, in milliseconds.
const INTERVAL: u64 = 1;

/// Waits until for `quiet` milliseconds no other thread has made an event, at
/// most `timeout` milliseconds. `false`: there was no such time. An image
/// that is not recorded has no events.
pub fn wait(quiet: u32, timeout: u32) -> bool {
    let begin = system::milliseconds();
    let mut since = begin;
    let mut seen = None;
    while process::is_recording() && process::control().stopped.load(Relaxed) == 0 {
        let now = system::milliseconds();
        let activity = activity_of_others();
        if activity.is_none() || activity != seen {
            seen = activity;
            since = now;
        }
        if now.saturating_sub(since) >= u64::from(quiet) && activity.is_some() {
            return true;
        }
        if now.saturating_sub(begin) >= u64::from(timeout) {
            return false;
        }
        // Nobody wakes it.
        let nothing = AtomicU32::new(0);
        system::futex_wait(&nothing, 0, INTERVAL);
    }
    true
}

/// How much other threads of this image have published, which only grows;
/// `None` if one waits for space in the middle of an event.
fn activity_of_others() -> Option<u64> {
    if process::is_forked() {
        // A child that has made no event: it has one thread and no ring.
        return Some(0);
    }
    let (owner, own) = (process::owner(), system::thread_id());
    let others = process::rings()
        .iter()
        .enumerate()
        .filter(|(_, ring)| ring.owner.load(Acquire) == owner && ring.tid.load(Relaxed) != own);
    let activity = mode::current().activity;
    let mut written = 0_u64;
    for (index, ring) in others {
        if ring.waiting.load(Relaxed) != 0 {
            return None;
        }
        written = written.wrapping_add(ring.written.load(Acquire));
        written = written.wrapping_add(activity(index as u32));
    }
    Some(written)
}
