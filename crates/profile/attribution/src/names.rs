//! Normalises function names, so that two builds of one function get equal
//! names. Each of three steps takes the result of the previous one:
//! [`canonical`] removes what a compiler or linker added, [`unwrapped`] the
//! numbers of closures and the wrappers around a function, [`untemplated`] the
//! template arguments.

/// Suffixes that gcc, clang and their linkers append to clones of a function; a
/// number may follow each.
const CLONE_SUFFIXES: &[&str] = &[
    "isra",
    "constprop",
    "part",
    "lto_priv",
    "cold",
    "llvm",
    "clone",
    "localalias",
    "specialized",
    "__uniq",
    "cfi",
    "warm",
    "hot",
];

/// Prefixes that describe how a function was built or is reached.
const WRAPPERS: &[&str] = &[
    "specialized ",
    "partial apply for ",
    "partial apply forwarder for ",
    "merged ",
    "curry thunk of ",
    "dispatch thunk of ",
    "protocol witness for ",
    "reabstraction thunk helper ",
    "@objc ",
    "outlined ",
    "non-virtual thunk to ",
    "virtual thunk to ",
    "covariant return thunk to ",
];

/// Prefixes with an argument list, which ends at ` of `.
const WRAPPERS_WITH_ARGUMENTS: &[&str] = &[
    "generic specialization <",
    "generic partial specialization <",
    "generic not re-abstracted specialization <",
    "function signature specialization <",
];

/// Removes clone suffixes, hashes, addresses, symbol versions, ABI tags and
/// inline namespaces.
pub fn canonical(name: &str) -> String {
    let name = without_clone_annotations(name.trim());
    let mut name = name.as_str();
    loop {
        let shorter = strip_version(strip_clone(strip_rust_hash(strip_offset(name))));
        if shorter.len() == name.len() {
            break;
        }
        name = shorter;
    }
    if is_address(name) {
        return "0x".to_owned();
    }
    let name = without_tags(name);
    // Demanglers differ: `vector<vector<int> >` and `vector<vector<int>>`.
    let mut closed = name
        .replace("std::__cxx11::", "std::")
        .replace("std::__1::", "std::");
    while closed.contains(" >") && !closed.contains("operator >") {
        closed = closed.replace(" >", ">");
    }
    closed
}

/// Removes closure numbers and wrappers from a canonical name, so that all
/// functions that the compiler generated from one source function get its name.
pub fn unwrapped(canonical: &str) -> String {
    let mut name = canonical;
    loop {
        let inner = strip_wrapper(name);
        if inner.len() == name.len() {
            break;
        }
        name = inner;
    }
    without_numbers(name)
}

/// Removes template or generic arguments. A leading bracket, as in `<T as
/// Trait>::method`, stays.
pub fn untemplated(name: &str) -> String {
    let mut bare = String::with_capacity(name.len());
    let mut open = 0_usize;
    let mut rest = name;
    if let Some(inside) = name.strip_prefix('<') {
        bare.push('<');
        rest = inside;
    }
    let leading = !bare.is_empty();
    let mut closed_leading = !leading;
    while let Some(c) = rest.chars().next() {
        if open == 0
            && let Some(operator) = operator_symbol(&bare, rest)
        {
            bare.push_str(operator);
            rest = &rest[operator.len()..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            // The arrow of a function type is no closing bracket.
            '-' if rest.starts_with('>') => {
                rest = &rest[1..];
                if open == 0 {
                    bare.push_str("->");
                }
            }
            '<' => open += 1,
            '>' if open > 0 => open -= 1,
            '>' if !closed_leading => {
                closed_leading = true;
                bare.push('>');
            }
            _ if open == 0 => bare.push(c),
            _ => {}
        }
    }
    // Rust has two spellings: `Vec<T>::push` and `Vec::<T>::push`.
    bare.replace("::::", "::")
}

/// The form of a function's name that glue patterns match.
pub fn bare(function: &str) -> String {
    if function.starts_with('<') || function.starts_with("operator") {
        return function.to_owned();
    }
    untemplated(function)
}

fn without_clone_annotations(name: &str) -> String {
    let mut rest = name;
    let mut kept = String::with_capacity(name.len());
    while let Some(start) = rest.find("[clone ") {
        let Some(end) = rest[start..].find(']') else {
            break;
        };
        kept.push_str(rest[..start].trim_end());
        rest = &rest[start + end + 1..];
    }
    kept.push_str(rest);
    kept
}

/// Removes a trailing `+0x1f` or `+31`. No function is called `operator+1`, so
/// the plus of an operator is never taken for an offset.
fn strip_offset(name: &str) -> &str {
    let Some((function, offset)) = name.rsplit_once('+') else {
        return name;
    };
    let is_offset = match offset.strip_prefix("0x") {
        Some(digits) => consists_of(digits, |c| c.is_ascii_hexdigit()),
        None => consists_of(offset, |c| c.is_ascii_digit()),
    };
    if is_offset && !function.is_empty() && !function.ends_with("operator") {
        function
    } else {
        name
    }
}

/// Removes `::h0123456789abcdef`.
fn strip_rust_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((function, hash))
            if hash.len() == 16 && consists_of(hash, |c| c.is_ascii_hexdigit()) =>
        {
            function
        }
        _ => name,
    }
}

/// Removes one `.18`, `.isra.0`, `.cold`.
fn strip_clone(name: &str) -> &str {
    let Some((function, suffix)) = name.rsplit_once('.') else {
        return name;
    };
    if function.is_empty() || function.ends_with('.') {
        return name;
    }
    let numbered = consists_of(suffix, |c| c.is_ascii_digit());
    if numbered || CLONE_SUFFIXES.contains(&suffix) {
        function
    } else {
        name
    }
}

/// Removes `@plt`, `@@GLIBC_2.34`.
fn strip_version(name: &str) -> &str {
    match name.split_once('@') {
        Some((function, version))
            if !function.is_empty()
                && !function.ends_with(' ')
                && consists_of(version, |c| c.is_ascii_alphanumeric() || "@._".contains(c)) =>
        {
            function
        }
        _ => name,
    }
}

fn is_address(name: &str) -> bool {
    name.strip_prefix("0x")
        .is_some_and(|digits| consists_of(digits, |c| c.is_ascii_hexdigit()))
}

/// Removes `[abi:cxx11]` and Rust's crate hash, `core[0123456789abcdef]`.
fn without_tags(name: &str) -> String {
    let mut kept = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(start) = rest.find('[') {
        let Some(length) = rest[start..].find(']') else {
            break;
        };
        let tag = &rest[start + 1..start + length];
        let end = start + length + 1;
        let hash = tag.len() >= 8 && consists_of(tag, |c| c.is_ascii_hexdigit());
        if hash || tag.starts_with("abi:") {
            kept.push_str(&rest[..start]);
        } else {
            kept.push_str(&rest[..end]);
        }
        rest = &rest[end..];
    }
    kept.push_str(rest);
    kept
}

fn strip_wrapper(name: &str) -> &str {
    for wrapper in WRAPPERS {
        if let Some(inner) = name.strip_prefix(wrapper) {
            return match inner.split_once(" in conformance ") {
                Some((witness, _)) if *wrapper == "protocol witness for " => witness,
                _ => inner,
            };
        }
    }
    for wrapper in WRAPPERS_WITH_ARGUMENTS {
        if name.starts_with(wrapper)
            && let Some((_, inner)) = name.split_once("> of ")
        {
            return inner;
        }
    }
    // Swift's asynchronous code: `(1) suspend resume partial function for f`.
    if name.starts_with('(')
        && let Some((_, inner)) = name.split_once(" resume partial function for ")
    {
        return inner;
    }
    if name.starts_with("$s") {
        // Swift mangles a partial application as the function and this suffix.
        return name.strip_suffix("TA").unwrap_or(name);
    }
    match name.strip_suffix("partial apply") {
        Some(inner) if !inner.is_empty() => inner.trim_end(),
        _ => name,
    }
}

/// Removes the numbers that compilers give to closures: `closure #3 in`,
/// `{closure#0}`, `{lambda(int)#1}`, `$_0`, `.func1`.
fn without_numbers(name: &str) -> String {
    let name = name
        .replace("{{closure}}", "{closure}")
        .replace("'lambda'", "{lambda}");
    let mut kept = String::with_capacity(name.len());
    let mut rest = name.as_str();
    while let Some(c) = rest.chars().next() {
        if let Some((shown, length)) = number_at(&kept, rest) {
            kept.push_str(shown);
            rest = &rest[length..];
            continue;
        }
        kept.push(c);
        rest = &rest[c.len_utf8()..];
    }
    kept
}

/// If `rest` begins with a closure number: its replacement, and its length in
/// bytes.
fn number_at(before: &str, rest: &str) -> Option<(&'static str, usize)> {
    for (sign, shown) in [(" #", ""), ("#", ""), ("$_", "{lambda}")] {
        if let Some(after) = rest.strip_prefix(sign) {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                return Some((shown, sign.len() + digits));
            }
        }
    }
    // Go: `main.run.func1`.
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0 && before.ends_with(".func")).then_some(("", digits))
}

/// The symbol at the start of `rest` if `before` ends with the word `operator`:
/// its angle brackets are no template arguments.
fn operator_symbol<'a>(before: &str, rest: &'a str) -> Option<&'a str> {
    if !before.ends_with("operator") {
        return None;
    }
    [
        "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">",
    ]
    .into_iter()
    .find(|symbol| rest.starts_with(symbol))
    .map(|symbol| &rest[..symbol.len()])
}

fn consists_of(text: &str, of: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_of_compilers_and_linkers_are_removed() {
        for (name, expected) in [
            ("$s3NIO7ChannelTRTA.18", "$s3NIO7ChannelTRTA"),
            ("$s3NIO7ChannelTRTA.33", "$s3NIO7ChannelTRTA"),
            ("parse.isra.0", "parse"),
            ("parse.constprop.0.isra.1", "parse"),
            ("parse.part.0.cold", "parse"),
            ("parse.llvm.12345678", "parse"),
            ("parse.lto_priv.0", "parse"),
            ("parse(int) [clone .isra.0] [clone .cold]", "parse(int)"),
            ("app::run::h0123456789abcdef", "app::run"),
            ("core[f3a1b2c4d5e6f708]::fmt::write", "core::fmt::write"),
            ("make[abi:cxx11]", "make"),
            ("malloc@plt", "malloc"),
            ("__libc_start_main@@GLIBC_2.34", "__libc_start_main"),
            ("libx.so+0x1f", "libx.so"),
            ("run+31", "run"),
            ("0x7f0012", "0x"),
            ("a<b<int> >", "a<b<int>>"),
        ] {
            assert_eq!(canonical(name), expected, "{name}");
        }
    }

    #[test]
    fn names_that_only_look_decorated_are_kept() {
        for name in [
            "operator+",
            "operator+=",
            "BaseSocket.readable0()",
            "version2",
            "a::hash",
            "thunk for @escaping @callee_guaranteed () -> ()",
            "operator[]",
            "main.run",
        ] {
            assert_eq!(canonical(name), name);
        }
    }

    #[test]
    fn an_operators_plus_is_no_offset() {
        assert_eq!(canonical("operator++0x1f"), "operator+");
        assert_eq!(canonical("operator+=+0x1f"), "operator+=");
        assert_ne!(canonical("operator+"), canonical("operator+="));
    }

    #[test]
    fn closure_numbers_and_wrappers_are_removed() {
        for (name, expected) in [
            ("closure #3 in Loop.run()", "closure in Loop.run()"),
            (
                "partial apply for closure #2 in Loop.run()",
                "closure in Loop.run()",
            ),
            ("specialized Socket.read()", "Socket.read()"),
            (
                "protocol witness for A.buffer(b:) in conformance C",
                "A.buffer(b:)",
            ),
            (
                "generic specialization <Swift.Int> of Swift.copy(A) -> B",
                "Swift.copy(A) -> B",
            ),
            ("app::run::{closure#0}", "app::run::{closure}"),
            ("app::run::{{closure}}", "app::run::{closure}"),
            ("run()::{lambda(int)#2}", "run()::{lambda(int)}"),
            ("run()::$_0", "run()::{lambda}"),
            ("main.run.func12", "main.run.func"),
            ("non-virtual thunk to A::b", "A::b"),
            ("$s3NIO7ChannelTRTA", "$s3NIO7ChannelTR"),
            ("one2three", "one2three"),
        ] {
            assert_eq!(unwrapped(name), expected, "{name}");
        }
    }

    #[test]
    fn template_arguments_are_removed_and_operators_are_kept() {
        for (name, expected) in [
            ("a<int>::b<c<d>>::e", "a::b::e"),
            ("Vec::<T>::push", "Vec::push"),
            ("operator<", "operator<"),
            ("operator<<<char>", "operator<<"),
            ("a::operator-><int>", "a::operator->"),
            ("<A<B> as C<D>>::e", "<A as C>::e"),
            ("f<int ()() -> x>::g", "f::g"),
            ("handleEvent<A>(_:channel:)", "handleEvent(_:channel:)"),
        ] {
            assert_eq!(untemplated(name), expected, "{name}");
        }
    }
}
