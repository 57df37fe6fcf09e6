//! Compilers' sanitizers, whose run-time libraries replace `malloc`: which one a
//! program has, and whether it can be recorded with it.
//!
//! A shared one is an allocator library like others, and what it is asked for is
//! recorded; but AddressSanitizer's ends the program if another library is loaded
//! before it. Linked into the program, it is called past the recorder.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// How the names of AddressSanitizer's shared libraries begin: gcc's, clang's.
const ADDRESS_LIBRARIES: [&[u8]; 2] = [b"libasan.so", b"libclang_rt.asan"];
/// Function by which each run-time library is known, if it is linked in.
const FUNCTIONS: [(&[u8], &str); 6] = [
    (b"__asan_init", "AddressSanitizer"),
    (b"__hwasan_init", "HWAddressSanitizer"),
    (b"__lsan_init", "LeakSanitizer"),
    (b"__msan_init", "MemorySanitizer"),
    (b"__tsan_init", "ThreadSanitizer"),
    (b"dfsan_set_label", "DataFlowSanitizer"),
];
const OPTIONS: &str = "ASAN_OPTIONS";
const LINK_ORDER: &[u8] = b"verify_asan_link_order=";

/// The name of the sanitizer whose run-time library defines this function.
pub fn defining(function: &[u8]) -> Option<&'static str> {
    let known = FUNCTIONS.iter().find(|(known, _)| *known == function);
    known.map(|(_, name)| *name)
}

/// Whether a library of this name or path is AddressSanitizer's.
pub fn is_address_library(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    ADDRESS_LIBRARIES
        .iter()
        .any(|library| name.starts_with(library))
}

/// Whether one of the libraries in a value of `LD_PRELOAD` is AddressSanitizer's.
pub fn preloads_address_library(list: &OsStr) -> bool {
    let mut libraries = list.as_bytes().split(|byte| matches!(byte, b' ' | b':'));
    libraries.any(is_address_library)
}

/// Whether AddressSanitizer will insist on being the first library of a program
/// that this process starts.
pub fn insists_on_being_first() -> bool {
    std::env::var_os(OPTIONS).is_none_or(|options| verifies_link_order(options.as_bytes()))
}

/// The last of several counts. Flags are set off by blanks, commas or colons, and
/// read as `sanitizer_flag_parser.cpp` of compiler-rt does.
fn verifies_link_order(options: &[u8]) -> bool {
    let flags = options.split(|byte| b" ,:\n\t\r".contains(byte));
    let last = flags
        .filter_map(|flag| flag.strip_prefix(LINK_ORDER))
        .next_back();
    !matches!(last, Some(b"0" | b"no" | b"false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        assert!(is_address_library(b"libasan.so.8"));
        assert!(is_address_library(b"/usr/lib/libclang_rt.asan-x86_64.so"));
        assert!(!is_address_library(b"/libasan.so/libubsan.so.1"));
        assert!(preloads_address_library(OsStr::new(
            "libm.so.6:/x/libasan.so.6"
        )));
        assert!(!preloads_address_library(OsStr::new(
            "libm.so.6 libtsan.so.2"
        )));
    }

    #[test]
    fn the_last_flag_counts() {
        assert!(verifies_link_order(b"detect_leaks=0"));
        assert!(!verifies_link_order(
            b"detect_leaks=0:verify_asan_link_order=0"
        ));
        assert!(!verifies_link_order(b"verify_asan_link_order=false"));
        assert!(verifies_link_order(
            b"verify_asan_link_order=0,verify_asan_link_order=1"
        ));
    }
}
