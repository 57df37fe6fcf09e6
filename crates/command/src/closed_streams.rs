//! Which of the standard streams were closed when this command was started.
//! Rust's runtime opens `/dev/null` in their place before `main`, so that no file
//! that is opened later gets their descriptors and receives messages. The recorded
//! program must find them closed again: `exec_program` closes them.

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

/// Closes these streams at the next exec of this process.
pub fn close_on_exec(closed: u8) {
    for (number, stream) in streams().into_iter().enumerate() {
        if closed >> number & 1 != 0 {
            // Fails only for a closed stream.
            let _ = fcntl_setfd(stream, FdFlags::CLOEXEC);
        }
    }
}

/// A constructor, as that of `signal_state`.
// SAFETY: the section is an array of functions of this type. This one makes system calls only.
#[used]
#[allow(unsafe_code)]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = read;

extern "C" fn read() {
    let mut closed = 0;
    for (number, stream) in streams().into_iter().enumerate() {
        if fcntl_getfd(stream) == Err(rustix::io::Errno::BADF) {
            closed |= 1 << number;
        }
    }
    CLOSED.store(closed, Ordering::Relaxed);
}
