//! Compilers' sanitizers, whose run-time libraries replace `malloc`.
//!
//! Calls of a shared run-time library are recorded like those of other allocator
//! libraries. AddressSanitizer's, however, ends a program in which another library is
//! loaded before it, unless `ASAN_OPTIONS` has `verify_asan_link_order=0`. If a run-time
//! library is linked into the program, its `malloc` is called instead of the recorder's.

/// Prefixes of the names of AddressSanitizer's shared libraries: gcc's, clang's.
const ADDRESS_LIBRARIES: [&[u8]; 2] = [b"libasan.so", b"libclang_rt.asan"];
/// The flag by which AddressSanitizer checks that it is the first library.
const LINK_ORDER: &[u8] = b"verify_asan_link_order=";

/// Whether a library of this name or path is AddressSanitizer's.
pub fn is_address_library(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    ADDRESS_LIBRARIES
        .iter()
        .any(|library| name.starts_with(library))
}

/// Whether one of the libraries in a value of `LD_PRELOAD` is AddressSanitizer's.
pub fn preloads_address_library(list: &[u8]) -> bool {
    let mut libraries = list.split(|byte| matches!(byte, b' ' | b':'));
    libraries.any(is_address_library)
}

/// Whether AddressSanitizer requires to be the first library in a program with this
/// `ASAN_OPTIONS`. If the flag occurs several times, the last one counts. Flags are
/// separated as in compiler-rt's `sanitizer_flag_parser.cpp`.
pub fn insists_on_being_first(options: Option<&[u8]>) -> bool {
    let options = options.unwrap_or_default();
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
    fn libraries_are_recognised_by_their_names() {
        assert!(is_address_library(b"libasan.so.8"));
        assert!(is_address_library(b"/usr/lib/libclang_rt.asan-x86_64.so"));
        assert!(!is_address_library(b"/libasan.so/libubsan.so.1"));
        assert!(preloads_address_library(b"libm.so.6:/x/libasan.so.6"));
        assert!(!preloads_address_library(b"libm.so.6 libtsan.so.2"));
    }

    #[test]
    fn the_last_flag_counts() {
        let insists = |options: &[u8]| insists_on_being_first(Some(options));
        assert!(insists_on_being_first(None));
        assert!(insists(b"detect_leaks=0"));
        assert!(!insists(b"detect_leaks=0:verify_asan_link_order=0"));
        assert!(!insists(b"verify_asan_link_order=false"));
        assert!(insists(
            b"verify_asan_link_order=0,verify_asan_link_order=1"
        ));
    }
}
