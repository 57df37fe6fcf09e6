//! Executes the program again with an environment from a file.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use allotrope_replayer::ENVIRONMENT_OPTION;

use crate::system;

/// Most arguments that are passed on.
const ARGUMENTS: usize = 8;

/// If the first argument says so, executes this program with the environment in the file that the
/// second one names, and does not return.
///
/// # Safety
///
/// There must be no other thread, and the arguments must be those of C's `main`.
pub unsafe fn replace(count: c_int, arguments: *const *const c_char) {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: there are `count` arguments, strings that live as long as the program.
    let argument = |at: usize| unsafe { CStr::from_ptr(*arguments.add(at)) };
    if count < 3 || argument(1).to_bytes() != ENVIRONMENT_OPTION.as_bytes() {
        return;
    }
    let Some(environment) = pointers_of(argument(2)) else {
        system::print(c"allotrope-replayer: cannot read the environment\n");
        system::exit_now(2);
    };
    let mut passed = [ptr::null(); ARGUMENTS + 1];
    let others = (3..count).take(ARGUMENTS - 1);
    for (to, at) in passed.iter_mut().zip([0].into_iter().chain(others)) {
        *to = argument(at).as_ptr();
    }
    // One more execution for the addresses is not necessary.
    system::fix_next_addresses();
    // SAFETY: there is no other thread, and both arrays end with a null pointer.
    let error = unsafe { system::execute_again(passed.as_ptr(), environment) };
    system::print(match error {
        libc::E2BIG => c"the environment is larger than a program may have here (ulimit -s)\n",
        _ => c"allotrope-replayer: cannot execute itself with the environment\n",
    });
    system::exit_now(2)
}

/// The entries of the file as the array that execve(2) takes. Their memory is never freed.
fn pointers_of(path: &CStr) -> Option<*const *const c_char> {
    let file = system::open(path)?;
    let length = usize::try_from(system::file_bytes(file)?).ok()?;
    let memory = system::own_memory(length)?;
    // SAFETY: the memory is new, has so many bytes, and is this function's alone.
    let bytes = unsafe { std::slice::from_raw_parts_mut(memory, length) };
    system::read_at(file, bytes, 0)?;
    if bytes.last().is_some_and(|last| *last != 0) {
        return None;
    }
    let entries = bytes.iter().filter(|byte| **byte == 0).count();
    let size = (entries + 1).checked_mul(size_of::<*const c_char>())?;
    let pointers: *mut *const c_char = system::own_memory(size)?.cast();
    // The memory is zero: the last pointer is null.
    let starts = bytes.split_inclusive(|byte| *byte == 0);
    for (at, entry) in starts.enumerate() {
        // SAFETY: there is one entry for each zero byte, and memory for a pointer to each.
        unsafe { pointers.add(at).write(entry.as_ptr().cast()) };
    }
    Some(pointers)
}
