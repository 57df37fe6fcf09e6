//! Rust's two schemes, by `rustc-demangle`, which bounds recursion itself.

use std::fmt::Write as _;

use super::Names;
use super::work::{BoundedText, Work};

/// Longest spelling in bytes. Back references can make it grow exponentially with the name.
const MAX_LENGTH: usize = 512 << 10;

/// Returns `None` if the name is not Rust's. The spellings have no hashes.
pub(super) fn demangle(name: &str, work: &Work) -> Option<Names> {
    if !name.starts_with("_R") && !is_legacy(name) {
        return None;
    }
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut text = BoundedText::new(work, MAX_LENGTH);
    write!(text, "{demangled:#}").ok()?;
    // The formatter may go on after an error.
    if work.is_exhausted() {
        return None;
    }
    // The second spelling of the same length.
    work.take(text.text.len()).ok()?;
    Some(Names::plain(&text.text))
}

/// Whether a name is a legacy one. Legacy names look like C++ names, but the last part of
/// the path is `h` and sixteen hexadecimal digits. `rustc-demangle` would also accept C++
/// data members.
fn is_legacy(name: &str) -> bool {
    let Some(path) = name.strip_prefix("_ZN").and_then(|n| n.strip_suffix('E')) else {
        return false;
    };
    let hash = path.len().checked_sub(19).and_then(|at| path.get(at..));
    hash.and_then(|hash| hash.strip_prefix("17h"))
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use crate::demangle;

    #[test]
    fn legacy_names_lose_their_hash() {
        for (raw, function) in [
            (
                "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
                "core::fmt::Write::write_fmt",
            ),
            (
                "_ZN4main4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
                "main::main::{{closure}}",
            ),
            (
                "_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE",
                "<alloc::string::String as core::fmt::Display>::fmt",
            ),
            ("_ZN1a1b17h0123456789abcdefE.llvm.77", "a::b"),
        ] {
            let names = demangle(raw);
            assert_eq!(
                (names.function.as_str(), names.signature.as_str()),
                (function, function)
            );
        }
    }

    #[test]
    fn v0_names_lose_their_hashes() {
        for (raw, function) in [
            ("_RNvCsgXnCxYNOCwK_7mycrate3foo", "mycrate::foo"),
            (
                "_RNCNvCs1234_7mycrate4main0B3_",
                "mycrate::main::{closure#0}",
            ),
            (
                "_RNCNvCs1234_7mycrate4mains_0B3_",
                "mycrate::main::{closure#1}",
            ),
            ("_RINvCs1234_7mycrate3foolE", "mycrate::foo::<i32>"),
            ("_RNvCs1234_7mycrate3foo.llvm.123", "mycrate::foo"),
        ] {
            assert_eq!(demangle(raw).function, function);
        }
    }

    #[test]
    fn a_cpp_name_in_a_namespace_is_not_legacy_rust() {
        assert_eq!(demangle("_ZN1a1bEv").signature, "a::b()");
        assert_eq!(demangle("_ZN1a1bE").signature, "a::b");
    }
}
