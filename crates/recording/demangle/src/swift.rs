//! Swift's scheme, by the compiler's own demangler (symbolic-demangle), which
//! is C++: an optional feature of this crate.
//!
//! The signature is what `swift demangle` prints. The function is what
//! `swift demangle --simplified` prints and backtraces show: without the module, which
//! Swift's users do not write either.

use symbolic_common::{Language, Name, NameMangling};
use symbolic_demangle::{Demangle, DemangleOptions};

use super::Names;
use super::work::Work;

/// Longest name in bytes. It bounds the recursion of the C++ code, which is as deep as a
/// name nests.
const MAX_LENGTH: usize = 4 << 10;

/// The demangler's text for an operand that a name lacks: the name was cut or is no
/// compiler's.
const INCOMPLETE: &str = "<null node pointer>";

/// The most nodes that the C++ code may print, by a rough bound. It has no bound of its own, and
/// a name of 250 bytes would keep it busy for ever.
const MAX_PRINTED: u64 = 1 << 20;

/// Returns `None` if the name is not Swift's, or would be too long.
pub(super) fn demangle(name: &str, work: &Work) -> Option<Names> {
    if !is_swift(name) || name.len() > MAX_LENGTH {
        return None;
    }
    if bound(name) > MAX_PRINTED {
        work.exhaust();
        return None;
    }
    let names = demangle_short(name);
    // A name that stays raw may have been too long for the demangler's buffer, after it was
    // printed as a whole. The bound is rough, and many such names are merely damaged.
    let printed = match &names {
        Some(names) => names.function.len() + names.signature.len(),
        None => usize::try_from(bound(name) / 4).unwrap_or(usize::MAX),
    };
    work.take(printed).ok()?;
    names
}

/// A bound on the length of the printed name. The only parts that a name can repeat are those to
/// which an `A` refers: with the letter of an earlier part, lower case if another reference
/// follows, and how often it is repeated before the letter (Swift's `docs/ABI/Mangling.rst`,
/// "Substitutions"). What is before a reference is at most printed so many times more.
///
/// Letters of identifiers, which are no references, are left out where that is certain.
fn bound(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let number = |from: usize| {
        let digits = bytes[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        let end = from + digits.count();
        (name[from..end].parse().unwrap_or(u64::MAX), end)
    };
    let mut length = bytes.len() as u64;
    let mut index = 0;
    while index < bytes.len() {
        if at(index) == b'A' {
            index += 1;
            loop {
                let (repeated, end) = match at(index).is_ascii_digit() {
                    true => number(index),
                    false => (1, index),
                };
                // With `_`, the number is that of the part.
                let times = if at(end) == b'_' { 1 } else { repeated };
                length = length.saturating_mul(times.saturating_add(1));
                index = end + 1;
                if !at(end).is_ascii_lowercase() {
                    break;
                }
            }
            continue;
        }
        if !at(index).is_ascii_digit() {
            index += 1;
            continue;
        }
        let before = |distance: usize| index.checked_sub(distance).map_or(0, at);
        // A number of another meaning: `S2i`, `Tg5`, `0_`.
        let (count, end) = number(index);
        if before(1) == b'S' || before(2) == b'T' || at(end) == b'_' {
            index = end;
        } else if at(index) == b'0' {
            // Words of earlier identifiers, the last in upper case.
            index += 1;
            while at(index).is_ascii_lowercase() {
                index += 1;
            }
            index += usize::from(at(index).is_ascii_uppercase());
        } else {
            index = usize::try_from(count).map_or(bytes.len(), |count| end.saturating_add(count));
        }
    }
    length
}

fn demangle_short(name: &str) -> Option<Names> {
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

    /// A dictionary of the type before it, twice, in each step: the part with this letter.
    #[test]
    fn a_short_name_of_a_long_one_stays_raw() {
        let nested = |steps: u8| {
            let start = "SDy".repeat(usize::from(steps));
            let references = (0..steps).map(|step| format!("A{}G", char::from(b'C' + step)));
            format!(
                "$s4main1fyy{start}SDyS2iG{}F",
                references.collect::<String>()
            )
        };
        let names = demangle(&nested(2));
        assert_eq!(names.signature.matches("Swift.Int").count(), 8, "{names:?}");
        for steps in [9, 16, 23] {
            assert_eq!(demangle(&nested(steps)).function, nested(steps));
        }
        // The same with a number before the letter.
        let repeated = "$s4main1fyySDyS2iGA2000aA2000aA2000aA2000aF";
        assert_eq!(demangle(repeated).function, repeated);
    }

    #[test]
    fn letters_of_identifiers_are_no_references() {
        let many = "5Async".repeat(30);
        assert!(super::bound(&format!("$s4main{many}yyF")) < 1_000);
        assert!(super::bound(REABSTRACTION) < super::MAX_PRINTED / 16);
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
