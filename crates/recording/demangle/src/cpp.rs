//! C++: the Itanium ABI's scheme, by `cpp_demangle`, with bounds on stack and output.

use std::fmt::{self, Write as _};

use cpp_demangle::{
    BorrowedSymbol, DemangleNodeType, DemangleOptions, DemangleWrite, ParseOptions,
};

use super::Names;
use super::work::{BoundedText, Work};

mod member;

/// Longest output in bytes. Substitutions can make it grow exponentially with the input.
const MAX_DEMANGLED: usize = 1 << 20;

/// Levels of recursion that fit any thread's stack: the parser's own default.
const SHALLOW: u32 = 96;
/// Levels for names that need more: a template argument takes about six, and
/// expression templates nest dozens of them.
const DEEP: u32 = 1024;
/// Stack in bytes for [`DEEP`] levels. A level takes less than 20 KiB even in a debug
/// build; otherwise the parser's default would overflow the stack of a thread.
const DEEP_STACK: usize = 64 << 20;

/// Returns `None` if the name does not follow the scheme or exceeds the bounds.
pub(super) fn demangle(name: &str, work: &Work) -> Option<Names> {
    // The parser also demangles `_GLOBAL__sub_I_x`, which people know by this name.
    if !name.starts_with("_Z") {
        return None;
    }
    if let Some((kind, target)) = thunk(name) {
        let names = demangle_function(&format!("_Z{target}"), work)?;
        return Some(Names {
            function: format!("{kind} thunk to {}", names.function),
            signature: format!("{kind} thunk to {}", names.signature),
        });
    }
    demangle_function(name, work)
}

fn demangle_function(name: &str, work: &Work) -> Option<Names> {
    demangle_as_written(name, work).or_else(|| {
        let rewritten = member::rewrite(name)?;
        let names = demangle_as_written(&rewritten, work)?;
        Some(Names {
            function: member::restore(&names.function),
            signature: member::restore(&names.signature),
        })
    })
}

fn demangle_as_written(name: &str, work: &Work) -> Option<Names> {
    match demangle_within(name, SHALLOW, work) {
        Outcome::Names(names) => Some(names),
        Outcome::NotCpp => None,
        Outcome::TooDeep if work.is_exhausted() => None,
        Outcome::TooDeep => demangle_deep(name, work),
    }
}

/// The kind of a thunk and the mangled name of its target. The parser has its own
/// spelling of thunks; this is the one of other tools.
fn thunk(name: &str) -> Option<(&'static str, &str)> {
    let thunk = name.strip_prefix("_ZT")?;
    match thunk.as_bytes().first()? {
        b'h' => Some(("non-virtual", after_call_offset(thunk)?)),
        b'v' => Some(("virtual", after_call_offset(thunk)?)),
        b'c' => {
            let result = after_call_offset(&thunk[1..])?;
            Some(("covariant return", after_call_offset(result)?))
        }
        _ => None,
    }
}

/// The text after a `<call-offset>`: `h` and one number, or `v` and two numbers.
fn after_call_offset(text: &str) -> Option<&str> {
    let number = |text| {
        let (number, rest) = str::split_once(text, '_')?;
        let digits = number.strip_prefix('n').unwrap_or(number);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(rest)
    };
    match text.split_at_checked(1)? {
        ("h", rest) => number(rest),
        ("v", rest) => number(rest).and_then(number),
        _ => None,
    }
}

enum Outcome {
    Names(Names),
    NotCpp,
    TooDeep,
}

/// Demangles in a thread with a larger stack.
#[cold]
fn demangle_deep(name: &str, work: &Work) -> Option<Names> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("demangle".to_owned())
            .stack_size(DEEP_STACK)
            .spawn_scoped(scope, || demangle_within(name, DEEP, work));
        match thread.ok()?.join() {
            Ok(Outcome::Names(names)) => Some(names),
            _ => None,
        }
    })
}

fn demangle_within(name: &str, recursion_limit: u32, work: &Work) -> Outcome {
    let parsing = ParseOptions::default().recursion_limit(recursion_limit);
    let symbol = match BorrowedSymbol::new_with_options(name.as_bytes(), &parsing) {
        Ok(symbol) => symbol,
        Err(cpp_demangle::error::Error::TooMuchRecursion) => return Outcome::TooDeep,
        Err(_) => return Outcome::NotCpp,
    };
    let full = DemangleOptions::new().recursion_limit(recursion_limit);
    let bare = full.no_params().no_return_type();
    let spell = |options| spell(&symbol, options, work);
    match (spell(&bare), spell(&full)) {
        (Ok(function), Ok(signature)) => Outcome::Names(Names {
            function: without_qualifiers(name, &function).to_owned(),
            signature,
        }),
        // The formatter does not return the cause of its error.
        _ => Outcome::TooDeep,
    }
}

/// Removes the qualifiers of a member function, which belong to its parameter list.
/// The formatter does not remove `&` and `&&` of any function, nor any qualifier of a
/// function within another one (`_ZZ`), such as the call operator of a lambda. In other
/// names, a `const` at the end belongs to the result type of a conversion operator.
fn without_qualifiers<'a>(name: &str, function: &'a str) -> &'a str {
    let qualifiers: &[&str] = if name.starts_with("_ZZ") {
        &[" &&", " &", " const", " volatile"]
    } else {
        &[" &&", " &"]
    };
    let mut rest = function;
    while let Some(shorter) = qualifiers.iter().find_map(|q| rest.strip_suffix(q)) {
        rest = shorter;
    }
    // `operator &` has no such space; but no name may be reduced to `operator`.
    if rest.ends_with("operator") {
        function
    } else {
        rest
    }
}

fn spell(
    symbol: &BorrowedSymbol<'_>,
    options: &DemangleOptions,
    work: &Work,
) -> Result<String, fmt::Error> {
    let mut nodes = Nodes(BoundedText::new(work, MAX_DEMANGLED));
    symbol.structured_demangle(&mut nodes, options)?;
    Ok(without_empty_packs(with_literal_suffixes(&nodes.0.text)))
}

/// Removes the commas of empty parameter packs: `f<int, , >`. The name `operator,` is
/// not followed by a space.
fn without_empty_packs(mut text: String) -> String {
    for (empty, nothing) in [
        (", , ", ", "),
        (", >", ">"),
        (", )", ")"),
        ("<, ", "<"),
        ("(, ", "("),
    ] {
        while text.contains(empty) && !text.contains("operator<, ") {
            text = text.replace(empty, nothing);
        }
    }
    text
}

/// Writes `(unsigned long)4` as `4ul`, as C++ programmers and the other tools
/// do; casts to other types have no shorter form.
fn with_literal_suffixes(text: &str) -> String {
    const SUFFIXES: [(&str, &str); 5] = [
        ("(unsigned int)", "u"),
        ("(long)", "l"),
        ("(unsigned long)", "ul"),
        ("(long long)", "ll"),
        ("(unsigned long long)", "ull"),
    ];
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('(') {
        let (before, from) = rest.split_at(open);
        short.push_str(before);
        let cast = SUFFIXES.iter().find_map(|(cast, suffix)| {
            let literal = from.strip_prefix(cast)?;
            let sign = usize::from(literal.starts_with('-'));
            let digits = literal[sign..]
                .bytes()
                .take_while(u8::is_ascii_digit)
                .count();
            (digits > 0).then(|| (literal.split_at(sign + digits), suffix))
        });
        match cast {
            Some(((literal, after), suffix)) => {
                short.push_str(literal);
                short.push_str(suffix);
                rest = after;
            }
            None => {
                short.push('(');
                rest = &from[1..];
            }
        }
    }
    short.push_str(rest);
    short
}

/// The bounded text as the formatter takes it, which also counts the nodes of the name.
struct Nodes<'w>(BoundedText<'w>);

impl DemangleWrite for Nodes<'_> {
    fn push_demangle_node(&mut self, _: DemangleNodeType) {
        // There may be many nodes with little text. The next text fails if this did.
        let _ = self.0.step();
    }

    fn write_string(&mut self, part: &str) -> fmt::Result {
        self.0.write_str(part)
    }
}

#[cfg(test)]
mod tests;
