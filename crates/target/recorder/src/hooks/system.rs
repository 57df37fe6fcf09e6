//! Functions of the C library that name threads, forbid the time stamp counter, filter
//! system calls, or end a thread or the process by a system call. The recorder only observes
//! them; their stubs are in `x86_64::system`.

use core::ffi::{c_char, c_int, c_long, c_ulong};
use core::ptr;

use allotrope_shm::wire::ThreadName;

use crate::emit::thread_names;
use crate::hooks::x86_64::unresolved;
use crate::lifecycle::exit;
use crate::lifecycle::naming;
use crate::sys::arch;
use crate::sys::arch::time_stamp;
use crate::sys::next::{self, Function};

/// A call of `prctl` that changes a setting which matters to the recorder. Returns the address
/// of the function that makes the call.
pub extern "C" fn prepare_prctl(option: c_int) -> usize {
    note_option(option);
    match next::resolved(Function::Prctl) {
        0 => unresolved::system_prctl as *const () as usize,
        next => next,
    }
}

/// Same as [`prepare_prctl`] for `syscall`, also if it ends the thread or the process. Its first
/// two arguments are `number` and `first`.
pub extern "C" fn prepare_syscall(number: c_long, first: c_int) -> usize {
    if number == libc::SYS_seccomp {
        thread_names::filter_comes();
    } else if number == libc::SYS_prctl {
        note_option(first);
    } else if number == libc::SYS_exit {
        naming::thread_exits();
    } else if number == libc::SYS_exit_group && thread_names::may_ask() && naming::has_own_state() {
        exit::note_exit(first, ptr::null_mut());
    }
    match next::resolved(Function::Syscall) {
        0 => unresolved::system_call as *const () as usize,
        next => next,
    }
}

fn note_option(option: c_int) {
    match option {
        libc::PR_SET_TSC => time_stamp::permission_changes(),
        libc::PR_SET_SECCOMP => thread_names::filter_comes(),
        _ => {}
    }
}

/// A call of `prctl` that names the calling thread (`PR_SET_NAME`).
///
/// # Safety
/// As the original.
pub unsafe extern "C" fn set_name(
    option: c_int,
    name: *const c_char,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    let Some(next) = next::prctl() else {
        return -1;
    };
    // SAFETY: passed on.
    let result = unsafe { next(option, name, third, fourth, fifth) };
    if result == 0 {
        // SAFETY: the kernel has just read it.
        naming::was_set(arch::thread_pointer(), unsafe { read_name(name) });
    }
    result
}

/// Names a thread.
///
/// # Safety
/// As the original.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setname_np(thread: libc::pthread_t, name: *const c_char) -> c_int {
    let Some(next) = next::pthread_setname() else {
        return libc::ENOSYS;
    };
    // SAFETY: passed on.
    let result = unsafe { next(thread, name) };
    if result == 0 {
        // SAFETY: the C library has just read it.
        naming::was_set(thread, unsafe { read_name(name) });
    }
    result
}

/// The name as the kernel cuts it.
///
/// # Safety
/// The bytes can be read up to a zero byte or the 15th one.
unsafe fn read_name(start: *const c_char) -> ThreadName {
    let mut name = ThreadName::default();
    for (at, byte) in name[..15].iter_mut().enumerate() {
        // SAFETY: no byte before it is zero.
        *byte = unsafe { start.add(at).read() } as u8;
        if *byte == 0 {
            break;
        }
    }
    name
}
