//! Whether this process has left the network namespace in which it reached the
//! collector. The collector's abstract socket exists in that namespace only;
//! programs that the process executes elsewhere may still reach the collector
//! through `/proc`.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};

use crate::sys::system;

const LINK: &[u8] = b"/proc/self/ns/net\0";
/// `net:[4026531840]`, with room for any 64-bit number.
const LINK_BYTES: usize = 32;

/// The target of the link when this image began.
struct AtStart {
    bytes: UnsafeCell<[u8; LINK_BYTES]>,
    /// Bytes of the target; 0 if it is not known.
    length: AtomicUsize,
}
// SAFETY: `bytes` is written by `remember` alone, which runs once, when the image
// begins and before the length is published; it is read only after an Acquire
// load of a length that is not 0.
unsafe impl Sync for AtStart {}

static AT_START: AtStart = AtStart {
    bytes: UnsafeCell::new([0; LINK_BYTES]),
    length: AtomicUsize::new(0),
};

/// Stores the namespace in which this image has reached its collector.
pub fn remember() {
    // SAFETY: the image begins: no other thread is in this module yet.
    let bytes = unsafe { &mut *AT_START.bytes.get() };
    let length = system::read_link(LINK, bytes);
    AT_START.length.store(length, Release);
}

/// Whether this process is in another network namespace now; `false` also if
/// that is not known.
pub fn has_left() -> bool {
    let length = AT_START.length.load(Acquire);
    if length == 0 {
        return false;
    }
    let mut now = [0; LINK_BYTES];
    let now_length = system::read_link(LINK, &mut now);
    // SAFETY: a length other than 0 was published after the only write.
    let at_start = unsafe { &*AT_START.bytes.get() };
    now_length != 0 && now[..now_length] != at_start[..length]
}
