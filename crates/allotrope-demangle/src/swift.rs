//! Swift's scheme, by the compiler's own demangler (symbolic-demangle), which
//! is C++: an optional feature of this crate.
//!
//! The signature is what `swift demangle` prints. The function is what
//! `swift demangle --simplified` prints and backtraces show: without the module, which
//! Swift's users do not write either.

use symbolic_common::{Language, Name, NameMangling};
use symbolic_demangle::{Demangle, DemangleOptions};

use super::Names;

/// Longest name in bytes. It bounds the recursion of the C++ code, which is as deep as a
/// name nests.
const MAX_LENGTH: usize = 4 << 10;

/// The demangler's text for an operand that a name lacks: the name was cut or is no
/// compiler's.
const INCOMPLETE: &str = "<null node pointer>";

/// Returns `None` if the name is not Swift's.
pub(super) fn demangle(name: &str) -> Option<Names> {
    if !is_swift(name) || name.len() > MAX_LENGTH {
        return None;
    }
    let symbol = Name::new(name, NameMangling::Mangled, Language::Swift);
    let signature = symbol.demangle(DemangleOptions::complete())?;
    if signature.contains(INCOMPLETE) {
        return None;
    }
    let function = symbol.demangle(DemangleOptions::name_only());
    let function = function.unwrap_or_else(|| signature.clone());
    Some(Names {
        function,
        signature,
    })
}

/// Whether a name has a prefix of Swift: `$s` since Swift 5, `$S` in 4.2, `_T0` in 4, `$e`
/// in embedded Swift. Some linkers add an underscore before it.
pub(super) fn is_swift(name: &str) -> bool {
    let bare = name.strip_prefix('_').unwrap_or(name);
    ["$s", "$S", "$e"]
        .iter()
        .any(|prefix| bare.starts_with(prefix))
        || name.starts_with("_T0")
}

#[cfg(all(test, not(without_cxx)))]
mod tests {
    use crate::demangle;

    #[test]
    fn swift_names_are_spelled_as_by_swifts_tools() {
        // From the Swift compiler's own tests and documentation.
        for (raw, function, signature) in [
            ("$s4main1fyyF", "f", "main.f() -> ()"),
            ("_$s4main1fyyF", "f", "main.f() -> ()"),
            (
                "$s8mangling12GenericUnionO3FooyACyxGSicAEmlF",
                "GenericUnion.Foo<A>",
                "mangling.GenericUnion.Foo<A>(mangling.GenericUnion<A>.Type) -> \
                 (Swift.Int) -> mangling.GenericUnion<A>",
            ),
            (
                "$s4main1fyyFyycfU_",
                "closure #1 in f",
                "closure #1 () -> () in main.f() -> ()",
            ),
            ("$s4test3fooyyF.llvm.123", "foo", "test.foo() -> ()"),
        ] {
            let names = demangle(raw);
            assert_eq!(
                (&names.function[..], &names.signature[..]),
                (function, signature)
            );
        }
    }

    const REABSTRACTION: &str = "$s3NIO7Channel_pxq_q0_r1_lyypypAA15EventLoopFutureCyytGIsegnnr_Iegnr_AaB_pypypAEIegnno_Ieggo_TR";

    #[test]
    fn a_reabstraction_thunk_is_named_as_such() {
        let names = demangle(REABSTRACTION);
        let expected = "reabstraction thunk helper from @escaping @callee_guaranteed";
        assert!(names.signature.starts_with(expected), "{names:?}");
        assert!(
            names.signature.contains("NIO.EventLoopFuture<()>"),
            "{names:?}"
        );
        assert!(names.function.starts_with("thunk for "), "{names:?}");
    }

    #[test]
    fn names_that_only_look_like_swift_stay_raw() {
        for raw in [
            "$s",
            "$s4mainX",
            "$sjunk",
            "_T0",
            "$s4main3FooV3baz_SaySiGvg",
            "$s3NIO7ChannelTR",
            "$s3NIO7Channel_pTRTA",
        ] {
            assert_eq!(demangle(raw).function, raw);
        }
    }

    /// The demangler is C++ code; damaged names must not crash it.
    #[test]
    fn damaged_names_do_not_crash() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % bound as u64) as usize
        };
        for _ in 0..20_000 {
            let mut name = REABSTRACTION.as_bytes().to_vec();
            for _ in 0..1 + below(6) {
                let at = 2 + below(name.len() - 2);
                match below(3) {
                    0 => name[at] = b' ' + below(95) as u8,
                    1 => drop(name.remove(at)),
                    _ => name.extend_from_within(at..),
                }
                name.truncate(super::MAX_LENGTH);
            }
            let _ = demangle(std::str::from_utf8(&name).unwrap());
        }
        for part in [
            "y", "Say", "SaySaG", "AaB_", "yyc", "Sg", "x_q_t", "n_", "m", "XSa",
        ] {
            let name = format!("$s{}", part.repeat(super::MAX_LENGTH / part.len() - 1));
            let _ = demangle(&name);
        }
    }
}
