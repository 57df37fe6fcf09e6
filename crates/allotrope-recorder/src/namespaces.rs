//! Whether this process has left the network namespace in which it found its
//! collector: the collector's abstract socket is not to be found in another.
//! The programs that it executes there may still find the collector by `/proc`.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};

use crate::system;

const LINK: &[u8] = b"/proc/self/ns/net\0";
/// `net:[4026531840]`, with room for any 64-bit number.
const LINK_BYTES: usize = 32;

/// Where the link led when this image began.
struct AtStart {
    bytes: UnsafeCell<[u8; LINK_BYTES]>,
    /// 0: it is not known.
    length: AtomicUsize,
}
// SAFETY: written once, when the image begins, with signals blocked; read only
// behind the length.
unsafe impl Sync for AtStart {}

static AT_START: AtStart = AtStart {
    bytes: UnsafeCell::new([0; LINK_BYTES]),
    length: AtomicUsize::new(0),
};

/// Notes the namespace in which this image has found its collector.
pub fn remember() {
    // SAFETY: see `Sync`.
    let bytes = unsafe { &mut *AT_START.bytes.get() };
    let length = system::read_link(LINK, bytes);
    AT_START.length.store(length, Release);
}

/// Whether this process is in another network namespace now; `false` too where
/// that can not be known.
pub fn has_left() -> bool {
    let length = AT_START.length.load(Acquire);
    let mut now = [0; LINK_BYTES];
    let now_length = system::read_link(LINK, &mut now);
    // SAFETY: nobody writes once the length is there.
    let at_start = unsafe { &*AT_START.bytes.get() };
    length != 0 && now_length != 0 && now[..now_length] != at_start[..length]
}
