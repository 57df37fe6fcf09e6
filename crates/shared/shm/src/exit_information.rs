//! Reads the wait status of an ended process through its pidfd.

use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct pidfd_info` of `linux/pidfd.h` in its first version (64 bytes).
#[repr(C)]
#[derive(Default)]
struct Information {
    mask: u64,
    _cgroup: u64,
    _ids: [u32; 11],
    exit_code: i32,
}

const _: () = assert!(size_of::<Information>() == 64);

/// `PIDFD_GET_INFO`: `_IOWR(0xff, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: libc::c_ulong = 3 << 30 | 64 << 16 | 0xff << 8 | 11;
/// `PIDFD_INFO_EXIT`: the exit code is requested, or was filled in.
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// The wait status (wait(2)) of a process that has ended and was waited for by any
/// process. `None` before that, and on kernels before 6.15.
pub fn wait_status(process: BorrowedFd<'_>) -> Option<i32> {
    let mut information = Information {
        mask: PIDFD_INFO_EXIT,
        ..Information::default()
    };
    // SAFETY: the descriptor is open; the request's number contains the size of the
    // structure, so the kernel writes no further.
    let result = unsafe { libc::ioctl(process.as_raw_fd(), PIDFD_GET_INFO, &raw mut information) };
    (result == 0 && information.mask & PIDFD_INFO_EXIT != 0).then_some(information.exit_code)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_status_of_a_process_that_was_waited_for_is_known() {
        for (script, status) in [("exit 7", 7 << 8), ("kill -9 $$", 9)] {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let pid = rustix::process::Pid::from_child(&child);
            let handle =
                rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
            child.wait().unwrap();
            match wait_status(handle.as_fd()) {
                Some(found) => assert_eq!(found, status, "{script}"),
                None => println!("skipped: this kernel does not tell (it needs Linux 6.15)"),
            }
        }
    }
}
