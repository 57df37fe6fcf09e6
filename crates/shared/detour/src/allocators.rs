//! The table of allocators: every name by which a part of Allotrope recognises one, a row for each
//! allocator and a column for each use. What the functions do that programs call is in
//! [`functions`](crate::functions).

/// An allocator whose functions are detoured where it is linked into a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // they have the names of the allocators
pub enum Allocator {
    Jemalloc,
    Tcmalloc,
    Mimalloc,
}

impl Allocator {
    /// All of them; the first rows of [`ALLOCATORS`], in the same order.
    pub const ALL: [Self; 3] = [Self::Jemalloc, Self::Tcmalloc, Self::Mimalloc];

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    const fn row(self) -> &'static Row {
        &ALLOCATORS[self as usize]
    }

    /// The allocator that a function belongs to, if its name shows it. A prefix of Rust's
    /// jemalloc does not: it is not the program's `malloc`.
    pub fn of_function(name: &[u8]) -> Option<Self> {
        let has = |it: &Self| it.row().as_malloc.iter().any(|it| it.as_bytes() == name);
        Self::ALL.into_iter().find(has)
    }
}

/// The names of an allocator. A use that does not know an allocator has nothing in its column.
#[derive(Debug)]
pub struct Row {
    /// Its name in reports.
    pub name: &'static str,
    /// How the file names of its shared libraries begin.
    pub library: &'static str,
    /// Names of its library's file for a replay with it, the best first.
    pub replayed: &'static [&'static str],
    /// The modules whose frames are all glue, as a pattern of a glue list.
    pub glue: Option<&'static str>,
    /// Functions that it defines if it is linked in as the program's `malloc`: the recorder
    /// detours these programs.
    pub as_malloc: &'static [&'static str],
    /// Functions that it defines if it is linked in at all, perhaps under names of its own:
    /// they name it where a program cannot be recorded.
    pub linked: &'static [&'static str],
    /// Prefixes of its inner functions: samples in these are the allocator's.
    pub inner: &'static [&'static str],
}

const NOTHING: Row = Row {
    name: "",
    library: "",
    replayed: &[],
    glue: None,
    as_malloc: &[],
    linked: &[],
    inner: &[],
};

/// The table.
pub static ALLOCATORS: [Row; 8] = [
    Row {
        name: "jemalloc",
        library: "libjemalloc",
        replayed: &["libjemalloc.so.2", "libjemalloc.so"],
        glue: Some("libjemalloc.so*"),
        as_malloc: &[
            "mallocx",
            "sdallocx",
            "mallctl",
            "je_arena_malloc_hard",
            "je_malloc_tsd_boot0",
        ],
        linked: &[
            "mallctl",
            "je_mallctl",
            "_rjem_mallctl",
            "_rjem_malloc",
            "_rjem_sdallocx",
        ],
        inner: &["_rjem_", "je_"],
    },
    Row {
        name: "tcmalloc",
        library: "libtcmalloc",
        replayed: &[
            "libtcmalloc_minimal.so.4",
            "libtcmalloc.so.4",
            "libtcmalloc_minimal.so",
            "libtcmalloc.so",
        ],
        glue: Some("libtcmalloc*"),
        as_malloc: &["TCMallocInternalMalloc", "tc_malloc", "tc_free"],
        linked: &["tc_malloc"],
        inner: &["tc_", "tcmalloc::", "TCMalloc"],
    },
    Row {
        name: "mimalloc",
        library: "libmimalloc",
        replayed: &["libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so"],
        glue: Some("libmimalloc.so*"),
        as_malloc: &["mi_malloc", "mi_free"],
        linked: &["mi_malloc", "mi_heap_malloc", "_mi_malloc_generic"],
        inner: &["_mi_", "mi_"],
    },
    Row {
        name: "snmalloc",
        library: "libsnmalloc",
        linked: &["sn_malloc"],
        ..NOTHING
    },
    Row {
        name: "rpmalloc",
        library: "librpmalloc",
        ..NOTHING
    },
    Row {
        name: "Hoard",
        library: "libhoard",
        ..NOTHING
    },
    Row {
        name: "tbbmalloc",
        library: "libtbbmalloc",
        ..NOTHING
    },
    Row {
        name: "Scudo",
        library: "libscudo",
        ..NOTHING
    },
];

/// A function of the run-time library of each sanitizer of compilers, and the sanitizer's name. Its
/// `malloc` is no allocator to detour: it belongs to checks of every access.
pub static SANITIZERS: [(&str, &str); 6] = [
    ("__asan_init", "AddressSanitizer"),
    ("__hwasan_init", "HWAddressSanitizer"),
    ("__lsan_init", "LeakSanitizer"),
    ("__msan_init", "MemorySanitizer"),
    ("__tsan_init", "ThreadSanitizer"),
    ("dfsan_set_label", "DataFlowSanitizer"),
];

/// The name of the sanitizer whose run-time library defines this function.
pub fn sanitizer_of_function(name: &[u8]) -> Option<&'static str> {
    let known = SANITIZERS.iter().find(|(it, _)| it.as_bytes() == name);
    known.map(|(_, sanitizer)| *sanitizer)
}

/// Whether [`sanitizer_of_function`] can know a function whose name begins so.
#[inline(always)]
pub fn may_be_sanitizers(name: &[u8]) -> bool {
    matches!(
        name.first_chunk(),
        Some(b"__a" | b"__h" | b"__l" | b"__m" | b"__t" | b"dfs")
    )
}

/// The functions by which programs request and return memory, as they are in stacks: the inner
/// end of a stack, about which a report and pprof say nothing. Never a function that calls code
/// of the program.
pub static INNERMOST: [&str; 23] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "cfree",
    "free",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_memalign",
    "__GI___libc_malloc",
    "mallocx",
    "rallocx",
    "je_malloc",
    "tc_malloc",
    "mi_malloc",
    "operator new",
    "operator new[]",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::may_be_known;

    #[test]
    fn detoured_allocators_are_the_first_rows() {
        for allocator in Allocator::ALL {
            assert!(!allocator.row().as_malloc.is_empty());
            for name in allocator.row().as_malloc {
                assert_eq!(Allocator::of_function(name.as_bytes()), Some(allocator));
                assert!(may_be_known(name.as_bytes()), "{name}");
            }
        }
        let names = Allocator::ALL.map(Allocator::name);
        assert_eq!(names, ["jemalloc", "tcmalloc", "mimalloc"]);
        assert_eq!(Allocator::of_function(b"_rjem_malloc"), None);
    }

    #[test]
    fn sanitizers_are_known_by_their_functions() {
        for (function, sanitizer) in SANITIZERS {
            assert!(may_be_sanitizers(function.as_bytes()), "{function}");
            let found = sanitizer_of_function(function.as_bytes());
            assert_eq!(found, Some(sanitizer));
        }
        assert_eq!(sanitizer_of_function(b"__asan_init2"), None);
    }
}
