//! The other threads of the process: where their stacks are, and what the kernel shows of their
//! registers (`/proc/self/task/TID/syscall`): of a thread that waits in a system call its
//! arguments and the stack pointer, of a thread that runs nothing.

use core::ffi::CStr;
use core::sync::atomic::Ordering::Relaxed;

use crate::state::process;
use crate::sys::kernel;
use crate::sys::system::{self, Descriptor};

use super::Stop;
use super::mappings::hexadecimal;

/// Arguments of a system call.
const ARGUMENTS: usize = 6;

/// A thread.
#[derive(Default)]
pub struct Other {
    /// Its stack pointer, if it does not run.
    pub stack_pointer: Option<u64>,
    /// Its thread pointer, if it has had an event.
    pub thread_pointer: Option<u64>,
    /// Values of registers.
    pub arguments: [u64; ARGUMENTS],
}

/// Calls `visit` with each thread but the calling one; returns how many there are.
pub fn each_other(mut visit: impl FnMut(&Other) -> Result<(), Stop>) -> Result<u32, Stop> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let folder = Descriptor::open(c"/proc/self/task", flags).ok_or(Stop::Forbidden)?;
    let own = system::thread_id();
    let mut count = 0_u32;
    let mut buffer = [0; 4096];
    loop {
        let length = kernel::getdents64(folder.number(), &mut buffer);
        let length = usize::try_from(length).map_err(|_| Stop::Forbidden)?;
        if length == 0 {
            return Ok(count);
        }
        let mut rest = &buffer[..length];
        // `struct linux_dirent64`: inode and offset, 8 bytes each, length, type, name.
        while let Some([low, high]) = rest.get(16..18) {
            let record = usize::from(u16::from_le_bytes([*low, *high])).max(19);
            let Some((entry, behind)) = rest.split_at_checked(record) else {
                break;
            };
            rest = behind;
            let Some(tid) = decimal(&entry[19..]) else {
                continue;
            };
            if tid == own {
                continue;
            }
            // The first thread stays in the list after its end.
            if let Some(other) = of(tid) {
                count += 1;
                visit(&other)?;
            }
        }
    }
}

/// The number that a name consists of; `None` for `.` and `..`.
fn decimal(name: &[u8]) -> Option<u32> {
    let name = CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?;
    name.parse().ok()
}

/// What is known of a thread; `None`: it has ended.
fn of(tid: u32) -> Option<Other> {
    let mut other = Other::default();
    let state = process::threads().find(|state| state.tid.load(Relaxed) == tid);
    let pointer = state.map(|state| state.thread_pointer.load(Relaxed));
    other.thread_pointer = pointer.filter(|pointer| *pointer != 0);
    let mut text = [0; 256];
    let length = system::read_file_of_thread(tid, b"/syscall", &mut text);
    // A number, its arguments, the stack pointer and the program counter; `running`; or, where it
    // waits elsewhere, `-1` and the last two.
    let fields = text[..length].trim_ascii().split(|byte| *byte == b' ');
    let count = fields.clone().count();
    let mut registers = fields.skip(1).filter_map(hexadecimal);
    if count == 1 + ARGUMENTS + 2 {
        for argument in &mut other.arguments {
            *argument = registers.next().unwrap_or(0);
        }
    }
    other.stack_pointer = registers.next();
    // 0 of one that has ended.
    (other.stack_pointer != Some(0)).then_some(other)
}
