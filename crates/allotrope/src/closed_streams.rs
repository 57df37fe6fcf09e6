//! Which of the standard streams were closed when this command was started.
//! Rust's run-time system opens `/dev/null` in their places before `main`, so
//! that no other file gets their numbers and our messages; the recorded program
//! is to find them closed again.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::stdio;

/// Bit N stands for descriptor N.
static CLOSED: AtomicU8 = AtomicU8::new(0);

fn streams() -> [BorrowedFd<'static>; 3] {
    [stdio::stdin(), stdio::stdout(), stdio::stderr()]
}

/// The streams that were closed: bit N stands for descriptor N.
pub fn closed() -> u8 {
    CLOSED.load(Ordering::Relaxed)
}

/// Has the next program that this process becomes find these streams closed.
pub fn close_on_exec(closed: u8) {
    for (number, stream) in streams().into_iter().enumerate() {
        if closed >> number & 1 != 0 {
            // Fails for a closed one only.
            let _ = fcntl_setfd(stream, FdFlags::CLOEXEC);
        }
    }
}

// Only asks the kernel; see `signal_state`.
#[ctor::ctor(unsafe)]
fn look() {
    let mut closed = 0;
    for (number, stream) in streams().into_iter().enumerate() {
        if fcntl_getfd(stream) == Err(rustix::io::Errno::BADF) {
            closed |= 1 << number;
        }
    }
    CLOSED.store(closed, Ordering::Relaxed);
}
