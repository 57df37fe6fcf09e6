//! Normalises function names of other tools to the short and the full form of a
//! profile: demangles them, and removes the parameter lists of demangled C++
//! names. Names that are not certainly C++ stay unchanged, above all those of Swift,
//! whose parameter labels are part of the name.

use std::borrow::Cow;

use allotrope_demangle::Demangler;

/// The short name of a function, and its full form if that differs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FunctionName {
    pub function: String,
    pub signature: String,
}

/// Parses a name that a tool printed. `file` is the source file if known; it
/// distinguishes `run()` in C++ from `run()` in Swift.
pub(crate) fn parse_name(demangler: &Demangler, printed: &str, file: &str) -> FunctionName {
    let name = printed.trim();
    if let Some(mangled) = mangled(name) {
        let names = demangler.demangle(mangled);
        // A name that stays mangled only loses a compiler's suffix.
        if !mangled.starts_with(&*names.function) {
            return FunctionName {
                function: names.function,
                signature: names.signature,
            };
        }
        if is_c_identifier(name) {
            return FunctionName {
                function: names.function,
                signature: String::new(),
            };
        }
    }
    if is_c_identifier(name) {
        return FunctionName {
            function: demangler.demangle(name).function,
            signature: String::new(),
        };
    }
    match cpp_function(name, file) {
        Some(function) => FunctionName {
            function,
            signature: name.to_owned(),
        },
        None => FunctionName {
            function: name.to_owned(),
            signature: String::new(),
        },
    }
}

/// Whether a name is mangled, in C++'s, Rust's or Swift's scheme.
pub(crate) fn is_mangled(name: &str) -> bool {
    mangled(name).is_some()
}

/// A mangled name; macOS prepends an additional underscore, which is part of the prefix
/// in Swift's scheme.
fn mangled(name: &str) -> Option<&str> {
    const SWIFT: [&str; 7] = ["$s", "$S", "$e", "_$s", "_$S", "_$e", "_T0"];
    let linkage = name.strip_prefix('_').filter(|n| n.starts_with("_Z"));
    let linkage = linkage.unwrap_or(name);
    let prefixes = ["_Z", "_R"].into_iter().chain(SWIFT);
    let mut prefixes = prefixes.filter(|prefix| linkage.starts_with(prefix));
    prefixes.next().map(|_| linkage)
}

/// A C name, possibly with a compiler's suffix. Swift's mangling begins with
/// `$`.
fn is_c_identifier(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b))
}

/// Splits off a trailing `+0xHEX` or `+DEC`; no other `+` is an offset.
pub(crate) fn split_offset(symbol: &str) -> (&str, Option<u64>) {
    let Some((name, digits)) = symbol.rsplit_once('+') else {
        return (symbol, None);
    };
    let offset = match digits.strip_prefix("0x") {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u64::from_str_radix(hex, 16).ok()
        }
        None if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok(),
        _ => None,
    };
    match offset {
        Some(offset) if !name.is_empty() => (name, Some(offset)),
        _ => (symbol, None),
    }
}

/// The last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether the text is an address, which tools print for unknown functions.
pub(crate) fn is_raw_address(text: &str) -> bool {
    text.strip_prefix("0x")
        .is_some_and(|hex| !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Words that occur in demangled Swift names and not in those of C++.
const SWIFT_WORDS: [&str; 9] = [
    "closure #",
    "thunk for ",
    "@",
    "specialized ",
    "specialization ",
    "protocol witness ",
    "partial apply",
    "merged ",
    " -> ",
];

/// Prefixes of compiler-generated C++ functions.
const CPP_KINDS: [&str; 3] = [
    "non-virtual thunk to ",
    "virtual thunk to ",
    "covariant return thunk to ",
];

/// The qualified name of a demangled C++ function; `None` if the text is not
/// certainly one with a parameter list.
fn cpp_function(name: &str, file: &str) -> Option<String> {
    if SWIFT_WORDS.iter().any(|word| name.contains(word)) {
        return None;
    }
    for kind in CPP_KINDS {
        if let Some(rest) = name.strip_prefix(kind) {
            // Compilers write one of them.
            let function = function_of_cpp(rest, file)?;
            return Some(format!("{kind}{function}"));
        }
    }
    function_of_cpp(name, file).map(Cow::into_owned)
}

/// Parses a name without such a prefix.
fn function_of_cpp<'a>(name: &'a str, file: &str) -> Option<Cow<'a, str>> {
    let (head, parameters) = split_parameters(without_qualifiers(name))?;
    let sure = if parameters.is_empty() {
        head.contains("::") || is_c_family(file)
    } else {
        !has_label(parameters) && (head.contains("::") || !head.contains('.'))
    };
    if !sure {
        return None;
    }
    without_return_type(head)
}

/// Removes what may follow a parameter list: clone suffixes and the qualifiers
/// of member functions.
fn without_qualifiers(name: &str) -> &str {
    let mut rest = name.split(" [clone ").next().unwrap_or(name).trim_end();
    while let Some(shorter) = [" const", " volatile", "&&", "&", " noexcept"]
        .iter()
        .find_map(|qualifier| rest.strip_suffix(qualifier))
    {
        rest = shorter.trim_end();
    }
    rest
}

/// `f(int)` → `f`, `int`.
fn split_parameters(name: &str) -> Option<(&str, &str)> {
    let inner = name.strip_suffix(')')?;
    let mut depth = 1;
    for (at, byte) in inner.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let head = &inner[..at];
            // `operator()` without a parameter list is a whole name.
            let all_name = head.is_empty() || head == "operator" || head.ends_with("::operator");
            return (!all_name).then(|| (head, &inner[at + 1..]));
        }
    }
    None
}

/// Whether parameters have a label: in Swift, a single colon follows one.
fn has_label(parameters: &str) -> bool {
    let without_paths = parameters.replace("::", "");
    without_paths.contains(':')
}

fn is_c_family(file: &str) -> bool {
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    matches!(
        extension,
        "c" | "cc"
            | "cpp"
            | "cxx"
            | "c++"
            | "C"
            | "h"
            | "hh"
            | "hpp"
            | "hxx"
            | "h++"
            | "inl"
            | "ipp"
            | "tcc"
            | "tpp"
    )
}

/// `void f<int>` → `f<int>`: only template instances have a return type. `None`
/// for other names with spaces, which are not C++.
fn without_return_type(head: &str) -> Option<Cow<'_, str>> {
    let (scanned, operator) = split_operator(head);
    let start = last_space_outside_brackets(scanned).map_or(0, |space| space + 1);
    let name = &head[start..];
    if name.is_empty() {
        return None;
    }
    let template = name.ends_with('>') || operator;
    (start == 0 || template).then_some(Cow::Borrowed(name))
}

/// Splits before the last `operator`, whose name may contain spaces and
/// brackets.
fn split_operator(head: &str) -> (&str, bool) {
    let is_word = |at: usize| {
        let before = head[..at].bytes().next_back();
        let after = head[at + "operator".len()..].bytes().next();
        let joins = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
        !joins(before) && !joins(after)
    };
    match head.rmatch_indices("operator").find(|(at, _)| is_word(*at)) {
        Some((at, _)) => (&head[..at], true),
        None => (head, false),
    }
}

fn last_space_outside_brackets(text: &str) -> Option<usize> {
    let mut depth = 0_i32;
    let mut last = None;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' | b')' | b'}' | b']' => depth -= 1,
            b' ' if depth == 0 => last = Some(at),
            _ => {}
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(printed: &str, file: &str) -> FunctionName {
        parse_name(&Demangler::default(), printed, file)
    }

    #[test]
    fn only_a_trailing_number_is_an_offset() {
        for (symbol, expected) in [
            ("f+0x19", ("f", Some(0x19))),
            ("f+32", ("f", Some(32))),
            ("f", ("f", None)),
            ("operator+", ("operator+", None)),
            ("operator+=", ("operator+=", None)),
            ("operator++", ("operator++", None)),
            ("operator++0x10", ("operator+", Some(16))),
            (
                "a::operator+(a const&)+0x10",
                ("a::operator+(a const&)", Some(16)),
            ),
            ("f+0x", ("f+0x", None)),
            ("f+0xzz", ("f+0xzz", None)),
            ("f+-1", ("f+-1", None)),
            ("+5", ("+5", None)),
            (
                "f+99999999999999999999999",
                ("f+99999999999999999999999", None),
            ),
        ] {
            assert_eq!(split_offset(symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn mangled_names_are_demangled() {
        for (printed, function, signature) in [
            ("_ZN1a1bEi", "a::b", "a::b(int)"),
            ("__ZN1a1bEi", "a::b", "a::b(int)"),
            (
                "_ZN4core3ptr4drop17h0123456789abcdefE",
                "core::ptr::drop",
                "core::ptr::drop",
            ),
        ] {
            let spelling = parse(printed, "");
            assert_eq!(spelling.function, function);
            assert!(spelling.signature.starts_with(signature), "{spelling:?}");
        }
        assert_eq!(parse("memcpy.part.0", "").function, "memcpy");
        assert_eq!(parse("main", "").signature, "");
    }

    /// The names are from the Swift compiler's own tests.
    #[test]
    fn mangled_swift_names_are_demangled() {
        for (printed, function, signature) in [
            ("$s4main1fyyF", "f", "main.f() -> ()"),
            ("_$s4main1fyyF", "f", "main.f() -> ()"),
            ("$s4test3fooyyF.llvm.123", "foo", "test.foo() -> ()"),
            (
                "$s4main1fyyFyycfU_",
                "closure #1 in f",
                "closure #1 () -> () in main.f() -> ()",
            ),
        ] {
            let names = parse(printed, "");
            // Without a C++ compiler or the feature there is no demangler.
            if allotrope_demangle::demangle("$s4main1fyyF").function == "f" {
                assert_eq!((&*names.function, &*names.signature), (function, signature));
            } else {
                assert_eq!((&*names.function, &*names.signature), (printed, ""));
            }
        }
    }

    #[test]
    fn parameter_lists_of_cpp_names_are_removed() {
        for (printed, function) in [
            ("a::b(int)", "a::b"),
            ("a::b() const", "a::b"),
            ("main(int, char**)", "main"),
            ("void std::f<int>(int&&)", "std::f<int>"),
            (
                "std::pair<int, int> f<int>(void (*)(int)) [clone .cold]",
                "f<int>",
            ),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("operator new(unsigned long)", "operator new"),
            ("operator new[](unsigned long)", "operator new[]"),
            ("a::operator()(int) const", "a::operator()"),
            ("a::operator bool() const", "a::operator bool"),
            (
                "std::ostream& std::operator<< <char>(std::ostream&, char)",
                "std::operator<< <char>",
            ),
            (
                "f()::{lambda()#1}::operator()() const",
                "f()::{lambda()#1}::operator()",
            ),
            ("my_operator(int)", "my_operator"),
            (
                "_swift_allocObject_(swift::TargetHeapMetadata<swift::InProcess> const*, unsigned long)",
                "_swift_allocObject_",
            ),
            ("non-virtual thunk to a::b()", "non-virtual thunk to a::b"),
        ] {
            let spelling = parse(printed, "");
            assert_eq!(spelling.function, function);
            assert_eq!(spelling.signature, printed);
        }
        assert_eq!(parse("run()", "a.cpp").function, "run");
    }

    #[test]
    fn names_of_other_languages_stay() {
        for printed in [
            "doRequests(group:number:)",
            "SelectableEventLoop.run()",
            "run()",
            "closure #1 in run(identifier:)",
            "specialized SelectableEventLoop.handleEvent<A>(_:channel:)",
            "partial apply for thunk for @callee_guaranteed () -> (@error @owned Error)",
            "NIO.URing.getEnvironmentVar(Swift.String) -> Swift.String?",
            "NIO.URing.f(Swift.String)",
            // Cut: the thunk lacks its types.
            "$s3NIO7Channel_pTRTA.18",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            "<T as a::B>::c",
            "net/http.(*conn).serve",
            "operator()",
            "(anonymous namespace)",
            "0x1",
            "hello world (really)",
        ] {
            let spelling = parse(printed, "x.swift");
            assert_eq!((&*spelling.function, &*spelling.signature), (printed, ""));
        }
    }
}
