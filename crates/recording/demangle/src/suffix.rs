//! Removes the suffixes that compilers add to the names of clones of a function.

/// Suffix words, each possibly followed by a number. From the callers of gcc's
/// `clone_function_name` and LLVM's promotion and splitting passes.
const WORDS: [&str; 11] = [
    "isra",
    "part",
    "constprop",
    "cold",
    "lto_priv",
    "llvm",
    "localalias",
    "warm",
    "hot",
    "specialized",
    "__uniq",
];

/// Returns `name` without `.isra.0`, `.part.1.cold`, `.llvm.123`, `[clone .cold]`, a bare
/// `.18` and similar suffixes, any number of them.
pub(super) fn without_compiler_suffix(name: &str) -> &str {
    let mut rest = name;
    while let Some(shorter) = without_last(rest) {
        rest = shorter;
    }
    rest
}

fn without_last(name: &str) -> Option<&str> {
    let name = name.trim_end();
    if let Some(bracketed) = name.strip_suffix(']') {
        let (before, _) = bracketed.rsplit_once("[clone ")?;
        return Some(before.trim_end()).filter(|before| !before.is_empty());
    }
    let (before, last) = name.rsplit_once('.')?;
    // A name that ends in a dot or consists of a suffix only was not written by a compiler.
    let numbered = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    (!before.is_empty() && (numbered || WORDS.contains(&last))).then_some(before)
}

#[cfg(test)]
mod tests {
    use super::without_compiler_suffix;

    #[test]
    fn drops_every_compiler_suffix() {
        for suffix in [
            "",
            ".isra.0",
            ".part.1",
            ".constprop.0",
            ".cold",
            ".cold.3",
            ".lto_priv.0",
            ".llvm.12345",
            ".isra.0.constprop.1.cold",
            ".18",
            ".localalias",
            " [clone .cold]",
            " [clone .isra.0] [clone .cold]",
            ".__uniq.1234.llvm.5",
            ".part.0.isra.0",
        ] {
            let name = format!("f{suffix}");
            assert_eq!(without_compiler_suffix(&name), "f", "{name}");
        }
    }

    #[test]
    fn leaves_suffixes_that_belong_to_the_name() {
        for name in [
            "main.main",
            "f.",
            ".cold",
            ".5",
            "operator[]",
            "f.x86",
            "a.b.c",
            "]",
            "[clone ]",
        ] {
            assert_eq!(without_compiler_suffix(name), name);
        }
    }
}
