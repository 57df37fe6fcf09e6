//! Which frames at the inner end of a stack are the allocator's and the
//! language's own, so that a site is headlined by the user's code. The list is
//! `glue.txt`.

use std::sync::OnceLock;

use rustc_hash::{FxHashMap, FxHashSet};

const LIST: &str = include_str!("glue.txt");

/// The list, for quick matching.
#[derive(Default)]
struct Glue {
    functions: FxHashSet<&'static str>,
    prefixes: Vec<&'static str>,
    /// By module pattern: function patterns.
    in_modules: Vec<(Pattern, Vec<Pattern>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Pattern {
    Exactly(&'static str),
    From(&'static str),
}

impl Pattern {
    fn new(text: &'static str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::From(prefix),
            None => Self::Exactly(text),
        }
    }

    fn matches(self, text: &str) -> bool {
        match self {
            Self::Exactly(exact) => text == exact,
            Self::From(prefix) => text.starts_with(prefix),
        }
    }
}

/// Whether the function is glue; `function` is the qualified name.
pub(crate) fn is_glue(module: &str, function: &str) -> bool {
    static GLUE: OnceLock<Glue> = OnceLock::new();
    let glue = GLUE.get_or_init(Glue::read);
    let bare = without_arguments(function);
    glue.functions.contains(bare.as_str())
        || glue.prefixes.iter().any(|prefix| bare.starts_with(prefix))
        || glue.in_modules.iter().any(|(of, functions)| {
            of.matches(module) && functions.iter().any(|pattern| pattern.matches(&bare))
        })
}

impl Glue {
    fn read() -> Self {
        let mut glue = Self::default();
        let mut modules: FxHashMap<Pattern, Vec<Pattern>> = FxHashMap::default();
        let lines = LIST.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            // `operator new` and `<A as B>::*` have spaces of their own.
            match line.split_once(' ') {
                Some((module, function)) if module.contains(".so") || module.contains('*') => {
                    let functions = modules.entry(Pattern::new(module)).or_default();
                    functions.push(Pattern::new(function));
                }
                _ => match Pattern::new(line) {
                    Pattern::Exactly(function) => {
                        glue.functions.insert(function);
                    }
                    Pattern::From(prefix) => glue.prefixes.push(prefix),
                },
            }
        }
        glue.in_modules = modules.into_iter().collect();
        glue
    }
}

/// The name without template or generic arguments; one that begins with a
/// bracket (`<T as Trait>::method`) is left as it is.
fn without_arguments(function: &str) -> String {
    if function.starts_with('<') || function.starts_with("operator") {
        return function.to_owned();
    }
    let mut bare = String::with_capacity(function.len());
    let mut open = 0_usize;
    for c in function.chars() {
        match c {
            '<' => open += 1,
            '>' => open = open.saturating_sub(1),
            _ if open == 0 => bare.push(c),
            _ => {}
        }
    }
    // Rust writes `Vec<T>::push` and `Vec::<T>::push`.
    bare.replace("::::", "::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_and_containers_insides_are_glue() {
        for (module, function) in [
            ("libc.so.6", "malloc"),
            ("app", "operator new"),
            ("libstdc++.so.6", "std::locale::locale"),
            ("app", "std::__new_allocator<int>::allocate"),
            ("app", "std::vector<int, std::allocator<int>>::push_back"),
            ("app", "alloc::raw_vec::RawVec<T,A>::grow_one"),
            ("app", "alloc::raw_vec::RawVec::<T, A>::grow_one"),
            (
                "app",
                "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
            ),
            ("app", "__rust_alloc"),
            ("liballotrope_recorder.so", "anything"),
        ] {
            assert!(is_glue(module, function), "{module} {function}");
        }
    }

    #[test]
    fn the_users_code_is_not() {
        for (module, function) in [
            ("app", "main"),
            ("app", "mallocator"),
            ("app", "my::allocator::take"),
            ("app", "operator new_thing"),
            ("app", "strdup"),
            ("app", "operator<<"),
        ] {
            assert!(!is_glue(module, function), "{module} {function}");
        }
    }
}
