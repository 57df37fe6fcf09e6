//! Demangles linkage names of C++, Rust, Swift, Haskell, OCaml and Emacs Lisp into the two
//! spellings that a profile shows.
//!
//! [`demangle`] decides which language's scheme a name follows; each scheme is in a
//! file of its own. Names may be hostile: time, memory and stack are bounded, for one name
//! by [`demangle`] and for all names of an input together by a [`Demangler`].
#![forbid(unsafe_code)]

mod cpp;
mod demangler;
mod emacs;
mod haskell;
mod ocaml;
mod rust;
mod suffix;
#[cfg(feature = "swift")]
mod swift;
mod work;

pub use demangler::Demangler;

use work::Work;

/// The spellings of one function's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Names {
    /// Qualified name without parameter list, return type and compiler suffix;
    /// template arguments stay.
    pub function: String,
    /// The full demangled form; for C the plain name. It has no compiler suffixes
    /// either: names in debug information have none, and those from symbol tables must
    /// be equal to them.
    pub signature: String,
}

/// Longest name in bytes that is demangled. Compilers write names of 10 KiB, and
/// the work on a hostile one can grow much faster than its length.
const MAX_RAW_NAME: usize = 64 << 10;

/// Returns the spellings of a linkage name or symbol. A name that follows no known
/// scheme is returned as a C name. A file may have many names: see [`Demangler`].
pub fn demangle(raw: &str) -> Names {
    demangle_within(raw, &Work::within(u64::MAX))
}

/// Same as [`demangle`], but stops when `work` is used up.
fn demangle_within(raw: &str, work: &Work) -> Names {
    let name = suffix::without_compiler_suffix(raw);
    if name.len() > MAX_RAW_NAME {
        return Names::plain(raw);
    }
    rust::demangle(name, work)
        .or_else(|| cpp::demangle(name, work))
        .or_else(|| swift(name, work))
        .or_else(|| ocaml::demangle(name))
        .or_else(|| haskell::demangle(name))
        .or_else(|| emacs::demangle(name))
        // `_RC0` is a crate whose name is empty: the raw name is more useful.
        .filter(|names| !names.function.is_empty())
        .unwrap_or_else(|| Names::plain(name))
}

#[cfg(feature = "swift")]
fn swift(name: &str, work: &Work) -> Option<Names> {
    swift::demangle(name, work)
}

#[cfg(not(feature = "swift"))]
fn swift(_: &str, _: &Work) -> Option<Names> {
    None
}

/// Whether a name follows a scheme that [`demangle`] knows.
pub fn is_mangled(raw: &[u8]) -> bool {
    let schemes: &[&[u8]] = match cfg!(feature = "swift") {
        true => &[b"_Z", b"_R", b"$s", b"$S"],
        false => &[b"_Z", b"_R"],
    };
    schemes.iter().any(|scheme| raw.starts_with(scheme))
}

impl Names {
    /// A name whose two spellings are the same.
    pub fn plain(name: &str) -> Self {
        Self {
            function: name.to_owned(),
            signature: name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by fuzzing.
    #[test]
    fn a_name_without_a_function_stays_raw() {
        assert_eq!(demangle("_RC0").function, "_RC0");
    }

    #[test]
    fn a_name_of_no_scheme_stays_raw() {
        for name in [
            "main",
            "",
            "_",
            "_Z",
            "_ZN",
            "_R",
            "_RN",
            "_Zebra",
            "?f@@YAXXZ",
        ] {
            assert_eq!(demangle(name), Names::plain(name));
        }
    }

    #[test]
    fn a_name_that_is_too_long_stays_raw() {
        let name = format!("_Z{}{}v", MAX_RAW_NAME, "f".repeat(MAX_RAW_NAME));
        assert_eq!(demangle(&name), Names::plain(&name));
    }
}
