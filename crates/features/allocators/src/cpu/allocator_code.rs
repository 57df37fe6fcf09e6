//! Which functions belong to an allocator. A library that exports `malloc` and `free` is one
//! as a whole; of a C library, only the functions of its allocator are; and in any module the
//! entry points of the allocators that can be linked into programs, by their names, and C++'s
//! operators.

use allotrope_detour::allocators::ALLOCATORS;
use allotrope_detour::functions;

/// The functions of glibc's `malloc/malloc.c`, `arena.c` and `hooks.c` (2.17 to 2.41), as they
/// are in its symbol table. They are not in the table of allocators: they are what distinguishes
/// one part of a library from the others, and none of them names an allocator.
const GLIBC: &[&str] = &[
    "_int_free",
    "_int_free_check",
    "_int_free_chunk",
    "_int_free_create_chunk",
    "_int_free_maybe_consolidate",
    "_int_free_merge_chunk",
    "_int_malloc",
    "_int_memalign",
    "_int_realloc",
    "_mid_memalign",
    "aligned_alloc",
    "alloc_perturb",
    "arena_get2",
    "arena_get_retry",
    "calloc",
    "cfree",
    "detach_arena",
    "free",
    "free_perturb",
    "get_free_list",
    "grow_heap",
    "heap_max_size",
    "heap_trim",
    "int_mallinfo",
    "malloc",
    "malloc_consolidate",
    "malloc_hook_ini",
    "malloc_printerr",
    "malloc_trim",
    "malloc_usable_size",
    "memalign",
    "memalign_hook_ini",
    "mremap_chunk",
    "mtrim",
    "munmap_chunk",
    "musable",
    "new_heap",
    "posix_memalign",
    "ptmalloc_init",
    "pvalloc",
    "realloc",
    "realloc_hook_ini",
    "reallocarray",
    "shrink_heap",
    "sysmalloc",
    "sysmalloc_mmap",
    "systrim",
    "tcache_free_init",
    "tcache_get",
    "tcache_init",
    "tcache_key_initialize",
    "tcache_put",
    "tcache_thread_shutdown",
    "unlink_chunk",
    "valloc",
];

/// What a module is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A library that is an allocator.
    Allocator,
    /// A C library, whose allocator is a part of it.
    CLibrary,
    /// Anything else. An allocator may be linked into it.
    Other,
}

/// Whether a function of such a module belongs to an allocator. `function` is its name
/// without parameters; `None` if it has none.
pub fn belongs(kind: Kind, function: Option<&str>) -> bool {
    match (kind, function) {
        (Kind::Allocator, _) => true,
        (_, None) => false,
        (Kind::CLibrary, Some(function)) => is_glibc(function),
        (Kind::Other, Some(function)) => is_linked(function),
    }
}

/// Whether programs call it to allocate or free memory.
pub(crate) fn is_entry_point(function: &str) -> bool {
    let name = plain(function);
    functions::by_name(name.as_bytes()).is_some() || is_operator(name)
}

fn is_glibc(function: &str) -> bool {
    GLIBC.binary_search(&plain(function)).is_ok()
}

fn is_linked(function: &str) -> bool {
    let name = plain(function);
    let mut inner = ALLOCATORS.iter().flat_map(|row| row.inner);
    is_entry_point(name) || inner.any(|prefix| name.starts_with(prefix))
}

fn is_operator(name: &str) -> bool {
    let rest = name.strip_prefix("operator ").unwrap_or_default();
    let rest = rest.strip_suffix("[]").unwrap_or(rest);
    rest == "new" || rest == "delete"
}

/// Returns the name without what compilers and glibc add to it: `__libc_malloc`,
/// `__GI___libc_free`, `_int_malloc.cold`, `free_perturb.part.0`.
pub fn plain(function: &str) -> &str {
    let name = function.split('.').next().unwrap_or(function);
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    let name = name.strip_prefix("__libc_").unwrap_or(name);
    match name.strip_prefix("__") {
        // `__malloc`, `__posix_memalign`
        Some(rest) if GLIBC.binary_search(&rest).is_ok() => rest,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(GLIBC.is_sorted());
    }

    #[test]
    fn functions_of_a_c_library() {
        for name in [
            "malloc",
            "__libc_malloc",
            "__GI___libc_free",
            "_int_malloc",
            "_int_free.cold",
            "free_perturb.part.0",
            "__posix_memalign",
        ] {
            assert!(belongs(Kind::CLibrary, Some(name)), "{name}");
        }
        for name in [
            "memcpy",
            "getenv",
            "__libc_start_main",
            "mallopt_x",
            "fopen",
        ] {
            assert!(!belongs(Kind::CLibrary, Some(name)), "{name}");
        }
        assert!(!belongs(Kind::CLibrary, None));
    }

    #[test]
    fn functions_of_programs_and_of_allocators() {
        for name in [
            "mi_malloc",
            "_mi_page_free",
            "_rjem_sdallocx",
            "operator new",
            "operator delete[]",
            "tc_free",
        ] {
            assert!(belongs(Kind::Other, Some(name)), "{name}");
        }
        for name in [
            "main",
            "operator new_thing",
            "mix",
            "tcp_send",
            "_int_malloc",
        ] {
            assert!(!belongs(Kind::Other, Some(name)), "{name}");
        }
        assert!(belongs(Kind::Allocator, Some("arena_slab_alloc")));
        assert!(belongs(Kind::Allocator, None));
    }

    #[test]
    fn entry_points() {
        assert!(is_entry_point("malloc"));
        assert!(is_entry_point("__libc_calloc"));
        assert!(is_entry_point("operator new[]"));
        assert!(!is_entry_point("_int_malloc"));
    }
}
