//! The functions that a pprof profile drops from the inner end of a stack: those by which
//! programs and the standard libraries' allocators allocate memory.
//!
//! pprof removes a frame whose whole name matches, and everything that it calls. So the
//! list has only functions that never call code of the user. Containers and other library
//! functions that allocate are not in the list.
//!
//! Those of C, C++ and other allocators are from the table of allocators; here is what only a
//! pattern names.

use allotrope_detour::allocators::INNERMOST;

/// Regular expressions (RE2), each for a whole name without parameters.
const PATTERNS: &[&str] = &[
    // glibc.
    r"__libc_(valloc|pvalloc)",
    // C++.
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
    let innermost = INNERMOST.iter().map(|name| name.replace("[]", r"\[\]"));
    let patterns = PATTERNS.iter().map(|pattern| (*pattern).to_owned());
    innermost.chain(patterns).collect::<Vec<_>>().join("|")
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
        let patterns = plain
            .flat_map(|pattern| pattern.split('|'))
            .chain(INNERMOST);
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
