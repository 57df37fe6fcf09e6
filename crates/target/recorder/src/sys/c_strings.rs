//! C strings and arrays of them that the program passes. What it passes may be wrong:
//! the kernel would then refuse the call, and the program must not end in the recorder.

use core::ffi::{CStr, c_char};

use allotrope_unwind::Memory;

use crate::sys::readable::page_is_readable;

/// The C string at an address; `None` if it cannot be read.
///
/// # Safety
/// What can be read there stays and does not change as long as the result is used.
pub unsafe fn c_string<'a>(start: *const c_char) -> Option<&'a CStr> {
    // SAFETY: passed on.
    unsafe { read(&mut Memory::unknown(page_is_readable), start) }
}

/// # Safety
/// As [`c_string`].
unsafe fn read<'a>(memory: &mut Memory, start: *const c_char) -> Option<&'a CStr> {
    const PAGE: u64 = 4096;
    let mut bytes = 0;
    loop {
        let end = (start as u64).checked_add(bytes)?;
        let rest = PAGE - end % PAGE;
        if !memory.holds(end, rest) {
            return None;
        }
        bytes += rest;
        // SAFETY: all of these pages can be read, and the caller vouches for the rest.
        let text = unsafe { core::slice::from_raw_parts(start.cast(), bytes as usize) };
        if let Ok(text) = CStr::from_bytes_until_nul(text) {
            return Some(text);
        }
    }
}

/// An array of C strings that a null pointer ends, as `argv` and `environ`.
#[derive(Clone, Copy)]
pub struct StringArray<'a>(&'a [*const c_char]);

impl<'a> StringArray<'a> {
    /// The array at an address, an empty one if that is null; `None` if the array or one
    /// of its strings cannot be read.
    ///
    /// # Safety
    /// What can be read there stays and does not change during `'a`.
    pub unsafe fn new(first: *const *const c_char) -> Option<Self> {
        if first.is_null() {
            return Some(Self(&[]));
        }
        if !first.is_aligned() {
            return None;
        }
        let mut pointers = Memory::unknown(page_is_readable);
        let mut strings = Memory::unknown(page_is_readable);
        let mut count = 0;
        loop {
            let entry = pointers.word(first.wrapping_add(count) as u64)? as *const c_char;
            if entry.is_null() {
                break;
            }
            // SAFETY: passed on.
            unsafe { read(&mut strings, entry) }?;
            count += 1;
        }
        // SAFETY: all of them have just been read, and the caller vouches for the rest.
        Some(Self(unsafe { core::slice::from_raw_parts(first, count) }))
    }

    /// The addresses of the strings.
    pub fn pointers(self) -> &'a [*const c_char] {
        self.0
    }

    /// The strings.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        // SAFETY: `new` has read all of them, and they do not change during `'a`.
        let text = |entry: &*const c_char| unsafe { CStr::from_ptr(*entry) }.to_bytes();
        self.0.iter().map(text)
    }

    /// The value of a variable, of an environment.
    pub fn variable(self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find_map(|entry| value(entry, name))
    }
}

/// The value in the entry of an environment, if it is that of the variable `name`.
pub fn value<'a>(entry: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    entry.strip_prefix(name)?.strip_prefix(b"=")
}
