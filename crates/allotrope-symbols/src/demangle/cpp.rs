//! The Itanium C++ ABI's scheme, by `cpp_demangle`, held within bounds.

use std::fmt;

use cpp_demangle::{
    BorrowedSymbol, DemangleNodeType, DemangleOptions, DemangleWrite, ParseOptions,
};

use super::Names;

/// Substitutions let the output grow exponentially with the input.
const MAX_DEMANGLED: usize = 1 << 20;

/// Levels of recursion that fit any thread's stack: the parser's own default.
const SHALLOW: u32 = 96;
/// Levels for names that need more: a template argument takes about six, and
/// expression templates nest dozens of them.
const DEEP: u32 = 1024;
/// Stack for them: a level takes less than 20 KiB even in a debug build, or
/// the parser's default would not fit the stack of a thread.
const DEEP_STACK: usize = 64 << 20;

/// `None` where the name does not follow the scheme or leaves the bounds.
pub(super) fn demangle(name: &str) -> Option<Names> {
    // Unlike the parser: `_GLOBAL__sub_I_x` is a name people know as it is.
    if !name.starts_with("_Z") {
        return None;
    }
    match demangle_within(name, SHALLOW) {
        Outcome::Names(names) => Some(names),
        Outcome::NotCpp => None,
        Outcome::TooDeep => demangle_deep(name),
    }
}

enum Outcome {
    Names(Names),
    NotCpp,
    TooDeep,
}

#[cold]
fn demangle_deep(name: &str) -> Option<Names> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("demangle".to_owned())
            .stack_size(DEEP_STACK)
            .spawn_scoped(scope, || demangle_within(name, DEEP));
        match thread.ok()?.join() {
            Ok(Outcome::Names(names)) => Some(names),
            _ => None,
        }
    })
}

fn demangle_within(name: &str, recursion_limit: u32) -> Outcome {
    let parsing = ParseOptions::default().recursion_limit(recursion_limit);
    let symbol = match BorrowedSymbol::new_with_options(name.as_bytes(), &parsing) {
        Ok(symbol) => symbol,
        Err(cpp_demangle::error::Error::TooMuchRecursion) => return Outcome::TooDeep,
        Err(_) => return Outcome::NotCpp,
    };
    let full = DemangleOptions::new().recursion_limit(recursion_limit);
    let bare = full.no_params().no_return_type();
    match (spell(&symbol, &bare), spell(&symbol, &full)) {
        (Ok(function), Ok(signature)) => Outcome::Names(Names {
            function,
            signature,
        }),
        // The formatter does not say why it gave up.
        _ => Outcome::TooDeep,
    }
}

fn spell(symbol: &BorrowedSymbol<'_>, options: &DemangleOptions) -> Result<String, fmt::Error> {
    let mut text = BoundedText::default();
    symbol.structured_demangle(&mut text, options)?;
    Ok(text.text)
}

/// Text that refuses to grow beyond [`MAX_DEMANGLED`].
#[derive(Default)]
struct BoundedText {
    text: String,
    /// Parts of the name visited; those may be many with little text.
    nodes: usize,
}

impl DemangleWrite for BoundedText {
    fn push_demangle_node(&mut self, _: DemangleNodeType) {
        self.nodes += 1;
    }

    fn write_string(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > MAX_DEMANGLED || self.nodes > MAX_DEMANGLED {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
