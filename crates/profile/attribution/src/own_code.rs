//! Whose code a frame is: decided by the path of its source file, because names do not
//! show it (`<str as ToOwned>::to_owned` has no `std::` in it). [`Glue`](crate::Glue)
//! combines this with patterns on names.
//!
//! Paths come from debug information, so they are those of the machine that compiled
//! the code. Nothing is looked up in the file system.

use crate::names;

/// Whose code a frame is. The larger, the better it stands for a whole stack: see
/// [`Heads`](crate::Heads).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Allocators, language runtimes, standard libraries, thread starts.
    Glue,
    /// An address in an installed library that no symbol names.
    UnnamedLibrary,
    /// An address in the program, or in a library that may be a part of it, that no symbol
    /// names. It may be the user's own, so no caller stands for it.
    Unnamed,
    /// A dependency's, or a library's of which no source is known; and functions that
    /// the compiler wrote, such as a derived `clone`.
    Library,
    /// The program's own file, but no source is known.
    Program,
    /// The user's: its source is known, and is neither a dependency's nor a language's.
    Own,
    /// The user's, and its source is a file of the repository under test. Only if these
    /// files are known ([`Glue::within`](crate::Glue::within)).
    Repository,
}

impl Origin {
    /// Whether no symbol names the code.
    pub fn is_unnamed(self) -> bool {
        matches!(self, Self::Unnamed | Self::UnnamedLibrary)
    }
}

/// Finds the least origin of the frames that stand for a stack: the best that it has. A
/// `main` without source does not stand for what a library does below it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BestOrigin {
    best: Origin,
    /// Of the outermost frame so far that is not glue.
    root: Origin,
}

impl BestOrigin {
    pub(crate) const NONE: Self = Self {
        best: Origin::Glue,
        root: Origin::Glue,
    };

    /// Adds the next frame, further out than those before.
    #[inline]
    pub(crate) fn add(&mut self, origin: Origin) {
        // What calls `main` in a stripped program is a `_start` without a name.
        let is_start = origin == Origin::Unnamed && self.root == Origin::Program;
        if origin > Origin::Glue && !is_start {
            self.best = self.best.max(self.root);
            self.root = origin;
        }
    }

    pub(crate) fn get(self) -> Origin {
        match self.root {
            Origin::Program if self.best == Origin::Library => self.best,
            root => self.best.max(root),
        }
    }
}

/// Parts of paths that only a standard library's files have.
const STANDARD: &[&str] = &[
    // Rust: as shipped, as installed by rustup's rust-src, and std's dependencies.
    "/lib/rustlib/src/rust/",
    "/rust/deps/",
    // C++: GCC's and LLVM's headers and sources.
    "/include/c++/",
    "/libstdc++-v3/",
    "/libcxx/",
    "/libcxxabi/",
    "/lib/gcc/",
    "/lib/clang/",
    // The C library's sources, as distributions build them.
    "/glibc-2.",
    "/musl-1.",
    // Swift.
    "/swift/stdlib/",
    "/swift/include/swift/",
    "/usr/lib/swift/",
    "/swift-corelibs-",
    // Go.
    "/usr/local/go/src/",
    "/usr/lib/go/src/",
    "/golang.org/toolchain@",
];

/// Beginnings of relative paths that only a standard library's files have: its own
/// build folder is not known.
const STANDARD_RELATIVE: &[&str] = &[
    "library/alloc/",
    "library/core/",
    "library/std/",
    "library/proc_macro/",
    "library/test/",
    "library/backtrace/",
    "library/portable-simd/",
    "library/stdarch/",
    "../sysdeps/",
    "../nptl/",
    "./malloc/",
    "./stdio-common/",
    "./libio/",
    "./elf/",
    "./csu/",
    "./nptl/",
    "./stdlib/",
    "./string/",
];

/// Parts of paths that only a dependency's files have: caches of package managers,
/// and what is installed.
const DEPENDENCY: &[&str] = &[
    "/usr/include/",
    "/usr/local/include/",
    "/usr/src/debug/",
    "/usr/lib/",
    "/usr/local/lib/",
    "/usr/share/",
    "/opt/homebrew/",
    "/nix/store/",
    "/gnu/store/",
    // Rust, also where CARGO_HOME is another folder.
    "/.cargo/registry/",
    "/.cargo/git/",
    "/cargo/registry/",
    "/cargo/git/checkouts/",
    "/registry/src/index.crates.io-",
    "/registry/src/github.com-",
    // Go, Swift, JavaScript, Python.
    "/pkg/mod/",
    "/.build/checkouts/",
    "/SourcePackages/checkouts/",
    "/node_modules/",
    "/site-packages/",
    "/dist-packages/",
    // C and C++: Conan, vcpkg, CMake's FetchContent.
    "/.conan/data/",
    "/.conan2/p/",
    "/vcpkg_installed/",
    "/vcpkg/buildtrees/",
    "/_deps/",
];

/// Files of libstdc++ and of Rust's standard library that their names alone show:
/// valgrind's profiles have no folders.
const STANDARD_FILES: &[&str] = &[
    "new_allocator.h",
    "malloc_allocator.h",
    "alloc_traits.h",
    "allocated_ptr.h",
    "basic_string.h",
    "basic_string.tcc",
    "char_traits.h",
    "deque.tcc",
    "hashtable.h",
    "hashtable_policy.h",
    "list.tcc",
    "node_handle.h",
    "shared_ptr_base.h",
    "std_function.h",
    "unordered_map.h",
    "unordered_set.h",
    "vector.tcc",
    "raw_vec.rs",
    "spec_from_elem.rs",
    "spec_from_iter.rs",
    "spec_from_iter_nested.rs",
    "spec_extend.rs",
];

/// Whether a source file belongs to a language's standard library.
pub(crate) fn is_standard_library(file: &str) -> bool {
    if !file.contains('/') {
        return STANDARD_FILES.contains(&file)
            || (file.starts_with("stl_") && file.ends_with(".h"));
    }
    is_rust_std(file)
        || STANDARD.iter().any(|part| file.contains(part))
        || STANDARD_RELATIVE.iter().any(|part| file.starts_with(part))
        || is_versioned_go(file)
}

/// `/rustc/<commit or version>/library/…`: the path that rustc gives its own files.
fn is_rust_std(file: &str) -> bool {
    let Some((_, rest)) = file.split_once("/rustc/") else {
        // As budgets normalise it.
        return file.starts_with("rustc:library/");
    };
    rest.split_once('/')
        .is_some_and(|(_, rest)| rest.starts_with("library/"))
}

/// `/usr/lib/go-1.19/src/…` of Debian, `…/go1.22.1/src/…` of Go's own installer.
fn is_versioned_go(file: &str) -> bool {
    let folders = file.split('/').zip(file.split('/').skip(1));
    let is_go = |name: &str| {
        let version = name.strip_prefix("go-").or_else(|| name.strip_prefix("go"));
        version.is_some_and(|version| version.starts_with("1."))
    };
    folders
        .into_iter()
        .any(|(name, next)| is_go(name) && next == "src")
}

/// Whether a source file belongs to a dependency, or to a package that is installed.
pub(crate) fn is_dependency(file: &str) -> bool {
    // `cargo:`: as budgets normalise the path of a crate's source. `node:`: what Node.js has
    // within itself.
    file.starts_with("cargo:")
        || file.starts_with("node:")
        || DEPENDENCY.iter().any(|part| {
            // A path relative to the repository begins without the slash.
            file.contains(part) || file.starts_with(part.trim_start_matches('/'))
        })
}

/// Whether a Swift function is the standard library's, by its module in the demangled
/// form: the compiler puts a copy of a generic one, specialised, into the user's module,
/// and its line is one of the user's or none. What a user adds in an extension of a
/// standard type has the user's module in front: `(extension in App):Swift.Array.f()`.
pub(crate) fn is_swift_standard_library(signature: &str) -> bool {
    if !signature.contains("Swift.") {
        return false;
    }
    let mut name = names::unwrapped(signature);
    // `closure #1 (A) -> B in f() -> C`, also nested.
    while name.starts_with("closure ") || name.starts_with("implicit closure ") {
        match name.split_once(" in ") {
            Some((_, outer)) if outer.starts_with("Swift):") => {
                // The ` in ` of `(extension in Swift):Swift.f`.
                return true;
            }
            Some((_, outer)) => name = names::unwrapped(outer),
            None => break,
        }
    }
    let name = name.strip_prefix("static ").unwrap_or(&name);
    name.starts_with("Swift.") || name.starts_with("(extension in Swift):")
}

/// Whether a Swift function is one that the compiler adds to a type: what allocates an
/// instance before its `init` runs, copies and destructions of values, metadata.
pub(crate) fn is_generated_by_swift(function: &str) -> bool {
    const PREFIXES: &[&str] = &[
        "outlined ",
        "type metadata accessor for ",
        "lazy protocol witness table accessor for ",
    ];
    function.ends_with(".__allocating_init")
        || function.ends_with(".__deallocating_deinit")
        || PREFIXES.iter().any(|prefix| function.starts_with(prefix))
}

/// Whether a module is the C library's, so that its sources are too. Their paths are
/// often relative to the folder of a part of it (`./locale/loadlocale.c`), as a
/// program's own may be.
pub(crate) fn is_c_library(module: &str) -> bool {
    const NAMES: &[&str] = &[
        "libc.so.6",
        "libm.so.6",
        "libpthread.so.0",
        "libdl.so.2",
        "librt.so.1",
        "libresolv.so.2",
        "libutil.so.1",
        "libanl.so.1",
    ];
    NAMES.contains(&module) || module.starts_with("ld-linux") || module.starts_with("libnss_")
}

/// Whether a module's file name is that of a shared library.
pub(crate) fn is_library(module: &str) -> bool {
    module.contains(".so") || module.ends_with(".dylib") || module == "linux-vdso"
}

/// Whether a module is an interpreter, or the library of one: what it runs is the user's, but it
/// is not, also where its source is known.
pub(crate) fn is_interpreter(module: &str) -> bool {
    const NAMES: &[&str] = &["node", "nodejs", "python", "ruby"];
    let name = module.strip_prefix("lib").unwrap_or(module);
    // `python3.11`, `libpython3.11.so.1.0`, `libruby-3.1.so.3.1`.
    let name = name.split(".so").next().unwrap_or(name);
    let end = name.find(|c: char| !c.is_ascii_alphabetic());
    let (name, version) = name.split_at(end.unwrap_or(name.len()));
    let is_version = |c: char| c.is_ascii_digit() || ".-_dm".contains(c);
    NAMES.contains(&name) && version.chars().all(is_version)
}

/// Whether a shared library may be a part of the program: installed libraries have a version
/// behind `.so`, plugins and what a program unpacks have none.
pub(crate) fn is_plugin(module: &str) -> bool {
    module.ends_with(".so") && module != "libc.so"
}

/// Whether a function's name only says where it is: `libfmt.so.9+0x6aee`, `0x7f00`.
pub(crate) fn is_unnamed(module: &str, function: &str) -> bool {
    let is_hex = |text: &str| {
        let digits = text.strip_prefix("0x");
        digits.is_some_and(|digits| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    let offset = (!module.is_empty())
        .then(|| function.strip_prefix(module))
        .flatten();
    let offset = offset.and_then(|rest| rest.strip_prefix('+'));
    function.is_empty() || function == "???" || is_hex(offset.unwrap_or(function))
}

/// Whose code a frame is, and whether its function only passes requests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// Whose code it is.
    pub origin: Origin,
    /// Whether its function is an allocation wrapper.
    pub is_wrapper: bool,
    /// Whether its function says no more than `main`: see [`mark_roots`](crate::mark_roots).
    pub is_root: bool,
}

impl Code {
    /// The code of a frame that does not exist.
    pub const NONE: Self = Self {
        origin: Origin::Glue,
        is_wrapper: false,
        is_root: false,
    };
}

impl From<Origin> for Code {
    /// Code that is no wrapper.
    fn from(origin: Origin) -> Self {
        Self {
            origin,
            is_wrapper: false,
            is_root: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_libraries_are_known_by_their_files() {
        for file in [
            "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/alloc/src/str.rs",
            "/rustc/1.95.0/library/core/src/ops/function.rs",
            "library/alloc/src/str.rs",
            "rustc:library/alloc/src/str.rs",
            "/rust/deps/hashbrown-0.15.2/src/raw/mod.rs",
            "/root/.rustup/toolchains/stable/lib/rustlib/src/rust/library/std/src/io/mod.rs",
            "/usr/include/c++/12/bits/stl_vector.h",
            "/usr/lib/llvm-14/bin/../include/c++/v1/vector",
            "/build/glibc-6iIyft/glibc-2.28/malloc/malloc.c",
            "./malloc/malloc.c",
            "../sysdeps/x86_64/start.S",
            "../../../../../src/libstdc++-v3/libsupc++/new_op.cc",
            "/home/build-user/swift/stdlib/public/core/Array.swift",
            "/usr/local/go/src/runtime/malloc.go",
            "/usr/lib/go-1.19/src/bufio/bufio.go",
            "/home/me/sdk/go1.22.1/src/fmt/print.go",
            // As valgrind writes them.
            "stl_vector.h",
            "new_allocator.h",
            "raw_vec.rs",
        ] {
            assert!(is_standard_library(file), "{file}");
        }
    }

    #[test]
    fn dependencies_are_known_by_their_files() {
        for file in [
            "/home/me/.cargo/registry/src/index.crates.io-6f17d22bba15001f/toml-0.8.2/src/de.rs",
            "/usr/local/cargo/registry/src/index.crates.io-1949cf8c6b5b557f/a-1.0.0/src/lib.rs",
            "/home/me/.cargo/git/checkouts/regex-0a1b2c/af3d/src/lib.rs",
            "cargo:toml-0.8.2/src/de.rs",
            "/usr/include/nlohmann/json.hpp",
            "/usr/include/x86_64-linux-gnu/bits/stdio2.h",
            "/usr/src/debug/fmt-9.1.0/src/format.cc",
            "/home/me/go/pkg/mod/github.com/a/b@v1.0.0/b.go",
            "/home/me/swift/.build/checkouts/swift-nio/Sources/NIOCore/ByteBuffer.swift",
            "/home/me/proj/build/_deps/fmt-src/include/fmt/core.h",
            "_deps/fmt-src/include/fmt/core.h",
            "node_modules/addon/addon.cc",
            "node:internal/modules/cjs/loader",
        ] {
            assert!(is_dependency(file), "{file}");
            assert!(!is_standard_library(file), "{file}");
        }
    }

    #[test]
    fn interpreters_are_known_by_their_names() {
        for module in [
            "python3.11",
            "python3",
            "libpython3.11.so.1.0",
            "libpython3.12d.so.1.0",
            "ruby",
            "ruby3.1",
            "libruby-3.1.so.3.1",
            "node",
        ] {
            assert!(is_interpreter(module), "{module}");
        }
        for module in [
            "_imaging.cpython-311-x86_64-linux-gnu.so",
            "python-thing",
            "noded",
            "rubygems.so",
            "app",
            "",
        ] {
            assert!(!is_interpreter(module), "{module}");
        }
    }

    #[test]
    fn the_users_files_are_neither() {
        for file in [
            "/home/me/proj/src/main.rs",
            "src/main.c",
            "main.cpp",
            "/usr/src/app/main.c",
            "/home/me/library/alloc/src/pool.c",
            "/home/me/go/src/github.com/me/tool/main.go",
            "/home/me/rustc/src/lib.rs",
            "/work/my-registry/src/a.rs",
            "stl.cpp",
            "string.rs",
        ] {
            assert!(!is_standard_library(file), "{file}");
            assert!(!is_dependency(file), "{file}");
        }
    }

    #[test]
    fn the_best_frames_stand_for_a_stack() {
        use Origin::{Glue, Library, Own, Program, Repository, Unnamed, UnnamedLibrary};
        for (origins, best) in [
            (&[Glue, Own, Repository, Own][..], Repository),
            (&[Glue, Library, Own, Glue], Own),
            (&[Glue, Program, Own], Own),
            (&[Glue, Library, Program, Program, Glue], Program),
            (&[Glue, Library, Program, Glue], Library),
            (&[Glue, Library, Unnamed, Program, Unnamed], Library),
            (
                &[Glue, Library, Program, Unnamed, Program, Unnamed],
                Program,
            ),
            (&[Glue, UnnamedLibrary, Program, Glue], Program),
            (&[Glue, Program, Glue], Program),
            (&[UnnamedLibrary, Unnamed], Unnamed),
            (&[Glue, Glue], Glue),
            (&[], Glue),
        ] {
            let mut found = BestOrigin::NONE;
            origins.iter().for_each(|&origin| found.add(origin));
            assert_eq!(found.get(), best, "{origins:?}");
        }
    }

    #[test]
    fn a_name_that_is_an_address_is_none() {
        for (module, function) in [
            ("libfmt.so.9", "libfmt.so.9+0x6aee"),
            ("app", "app+0x1"),
            ("", "0x7f0012"),
            ("", "???"),
            ("", ""),
        ] {
            assert!(is_unnamed(module, function), "{module} {function}");
        }
        for (module, function) in [
            ("app", "app"),
            ("app", "main"),
            ("app", "app+x"),
            ("", "0x"),
        ] {
            assert!(!is_unnamed(module, function), "{module} {function}");
        }
    }
}
