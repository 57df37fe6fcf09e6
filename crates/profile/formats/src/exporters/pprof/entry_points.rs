//! The functions that a pprof profile drops from the inner end of a stack: those by which
//! programs and the standard libraries' allocators allocate memory.
//!
//! pprof removes a frame whose whole name matches, and everything that it calls. So the
//! list has only functions that never call code of the user. Containers and other library
//! functions that allocate are not in the list.

/// Regular expressions (RE2), each for a whole name without parameters.
const PATTERNS: &[&str] = &[
    // C, glibc, and other allocators.
    r"malloc|calloc|realloc|reallocarray|posix_memalign|aligned_alloc|memalign|valloc|pvalloc",
    r"cfree|free",
    r"__libc_(malloc|calloc|realloc|memalign|valloc|pvalloc)|__GI___libc_malloc",
    r"mallocx|rallocx|je_malloc|tc_malloc|mi_malloc",
    // C++.
    r"operator new(\[\])?",
    r"std::(__1::)?(__new_allocator|allocator|allocator_traits)<.*>::allocate",
    r"__gnu_cxx::new_allocator<.*>::allocate",
    r"__cxa_allocate_exception",
    // Rust.
    r"__rust_alloc(_zeroed)?|__rust_realloc|__(rdl|rg)_(alloc(_zeroed)?|realloc)|__rustc::.*",
    r"alloc::alloc::.*|<alloc::alloc::Global as .*>::.*|alloc::raw_vec::.*",
    // Swift.
    r"_?swift_(allocObject_?|slowAlloc|slowAllocTyped|allocBox)",
];

/// One expression that matches all of them.
pub(super) fn pattern() -> String {
    PATTERNS.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotrope_attribution::Glue;

    /// The names in the list, without the patterns.
    #[test]
    fn every_dropped_function_is_glue() {
        let glue = Glue::default();
        let plain = PATTERNS.iter().filter(|pattern| !pattern.contains('('));
        let patterns = plain.flat_map(|pattern| pattern.split('|'));
        let names: Vec<&str> = patterns
            .filter(|name| {
                name.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            })
            .collect();
        assert!(names.len() > 15, "{names:?}");
        for name in names {
            let frame = allotrope_profile::StackFrame {
                function: name.into(),
                ..Default::default()
            };
            assert!(glue.has(&frame), "{name}");
        }
    }
}
