//! Whether this process has left the network namespace in which it reached the
//! collector. The collector's abstract socket exists in that namespace only;
//! programs that the process executes elsewhere may still reach the collector
//! through `/proc`.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::sys::system;

const LINK: &CStr = c"/proc/self/ns/net";

/// The namespace's number when this image began; 0 if it is not known.
static AT_START: AtomicU64 = AtomicU64::new(0);

/// Stores the namespace in which this image has reached its collector.
pub fn remember() {
    AT_START.store(current(), Relaxed);
}

/// Whether this process is in another network namespace now; `false` also if
/// that is not known.
pub fn has_left() -> bool {
    let (at_start, now) = (AT_START.load(Relaxed), current());
    at_start != 0 && now != 0 && now != at_start
}

/// The number in the link's target, `net:[4026531840]`.
fn current() -> u64 {
    let mut target = [0; 32];
    let length = system::read_link(LINK, &mut target);
    let digits = target[..length].iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0u64, |number, digit| {
        number
            .wrapping_mul(10)
            .wrapping_add(u64::from(digit - b'0'))
    })
}
