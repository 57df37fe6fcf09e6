//! The names that other tools print, brought to the two spellings a profile
//! shows: mangled names are demangled, parameter lists of C++ names that were
//! demangled already are taken off, and everything that is not surely C++
//! (Swift above all, whose parameter labels are part of the name) stays as it
//! is.

use std::borrow::Cow;

/// A function's names: the short one, and the full form where it says more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Spelling {
    pub function: String,
    pub signature: String,
}

/// The spellings of a name that a tool printed. `file` is the source file if
/// the tool names one: it tells `run()` of C++ from `run()` of Swift.
pub(crate) fn spell(printed: &str, file: &str) -> Spelling {
    let name = printed.trim();
    if let Some(mangled) = mangled(name) {
        let names = allotrope_demangle::demangle(mangled);
        if names.function != mangled {
            return Spelling {
                function: names.function,
                signature: names.signature,
            };
        }
    }
    if is_c_identifier(name) {
        return Spelling {
            function: allotrope_demangle::demangle(name).function,
            signature: String::new(),
        };
    }
    match cpp_function(name, file) {
        Some(function) => Spelling {
            function,
            signature: name.to_owned(),
        },
        None => Spelling {
            function: name.to_owned(),
            signature: String::new(),
        },
    }
}

/// A linkage name; macOS puts one more underscore before it.
fn mangled(name: &str) -> Option<&str> {
    let linkage = name.strip_prefix('_').filter(|n| n.starts_with("_Z"));
    let linkage = linkage.unwrap_or(name);
    (linkage.starts_with("_Z") || linkage.starts_with("_R")).then_some(linkage)
}

/// A C name, perhaps with a compiler's suffix. `$` begins Swift's scheme.
fn is_c_identifier(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b))
}

/// A trailing `+0xHEX` or `+DEC` is an offset, nothing else that has a plus.
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

/// Whether text is an address as tools print one they can not name.
pub(crate) fn is_raw_address(text: &str) -> bool {
    text.strip_prefix("0x")
        .is_some_and(|hex| !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// What a demangled Swift name may hold and a demangled C++ one does not.
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

/// Kinds of generated functions that stand before the name they are for.
const CPP_KINDS: [&str; 3] = [
    "non-virtual thunk to ",
    "virtual thunk to ",
    "covariant return thunk to ",
];

/// The qualified name of a demangled C++ function, `None` if the text is not
/// surely one with a parameter list.
fn cpp_function(name: &str, file: &str) -> Option<String> {
    if SWIFT_WORDS.iter().any(|word| name.contains(word)) {
        return None;
    }
    for kind in CPP_KINDS {
        if let Some(rest) = name.strip_prefix(kind) {
            return cpp_function(rest, file).map(|function| format!("{kind}{function}"));
        }
    }
    let (head, parameters) = split_parameters(without_qualifiers(name))?;
    let sure = if parameters.is_empty() {
        head.contains("::") || is_c_family(file)
    } else {
        !has_label(parameters) && (head.contains("::") || !head.contains('.'))
    };
    if !sure {
        return None;
    }
    without_return_type(head).map(Cow::into_owned)
}

/// Without what may follow a parameter list: a clone's mark, the qualifiers
/// of a member function.
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
            // "operator()" without a parameter list of its own is all name.
            let all_name = head.is_empty() || head == "operator" || head.ends_with("::operator");
            return (!all_name).then(|| (head, &inner[at + 1..]));
        }
    }
    None
}

/// A single colon is Swift's parameter label.
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

/// `void f<int>` → `f<int>`. Only instances of templates carry their return
/// type; `None` for other text with a space, which is no C++ name.
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

/// The part before the last `operator`, whose own name may hold spaces and
/// brackets of any kind.
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
            let spelling = spell(printed, "");
            assert_eq!(spelling.function, function);
            assert!(spelling.signature.starts_with(signature), "{spelling:?}");
        }
        assert_eq!(spell("memcpy.part.0", "").function, "memcpy");
        assert_eq!(spell("main", "").signature, "");
    }

    #[test]
    fn parameter_lists_of_cpp_names_come_off() {
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
            let spelling = spell(printed, "");
            assert_eq!(spelling.function, function);
            assert_eq!(spelling.signature, printed);
        }
        assert_eq!(spell("run()", "a.cpp").function, "run");
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
            "$s3NIO7Channel_pxq_q0_TRTA.18",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            "<T as a::B>::c",
            "net/http.(*conn).serve",
            "operator()",
            "(anonymous namespace)",
            "0x1",
            "hello world (really)",
        ] {
            let spelling = spell(printed, "x.swift");
            assert_eq!((&*spelling.function, &*spelling.signature), (printed, ""));
        }
    }
}
