//! The functions of which the user says that they are the allocator's, and patterns of functions:
//! `hak_*` by name, `file:hakmem.c` by source file.

use std::cell::RefCell;
use std::collections::BTreeSet;

use allotrope_symbols::NamedFrame as Named;

use crate::cpu::allocator_code::plain;

/// A pattern of functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// The whole name matches; `*` stands for any text, `?` for a character.
    Function(String),
    /// The end of the path of the source file does.
    File(String),
}

/// Why a pattern is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a pattern is the name of a function or `file:` and the name of a source file, such as hak_* or file:hakmem.c"
)]
pub struct NoPattern;

impl std::str::FromStr for Pattern {
    type Err = NoPattern;

    fn from_str(text: &str) -> Result<Self, NoPattern> {
        let pattern = match text.strip_prefix("file:") {
            Some(file) => Self::File(file.to_owned()),
            None => Self::Function(text.to_owned()),
        };
        match &pattern {
            Self::File(text) | Self::Function(text) if text.is_empty() => Err(NoPattern),
            _ => Ok(pattern),
        }
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Function(text) => f.write_str(text),
            Self::File(text) => write!(f, "file:{text}"),
        }
    }
}

impl Pattern {
    /// Whether a function matches.
    pub(crate) fn has(&self, function: &str, file: &str) -> bool {
        match self {
            Self::Function(pattern) => {
                matches(pattern, function) || matches(pattern, plain(function))
            }
            Self::File(pattern) => {
                let starts = file.match_indices('/').map(|(at, _)| at + 1);
                let mut ends = std::iter::once(0).chain(starts);
                !file.is_empty() && ends.any(|at| matches(pattern, &file[at..]))
            }
        }
    }
}

/// The functions that the user names.
#[derive(Debug, Default)]
pub struct Chosen {
    patterns: Vec<Pattern>,
    found: RefCell<BTreeSet<usize>>,
}

impl Chosen {
    /// Those that match a pattern.
    pub fn new(patterns: Vec<Pattern>) -> Self {
        Self {
            patterns,
            found: RefCell::default(),
        }
    }

    /// Whether it is one of them.
    pub(crate) fn has(&self, named: &Named) -> bool {
        let all = self.patterns.iter().enumerate();
        let matching = all.filter(|(_, it)| it.has(&named.function, &named.file));
        let mut matching = matching.map(|(at, _)| at).peekable();
        let is_any = matching.peek().is_some();
        self.found.borrow_mut().extend(matching);
        is_any
    }

    /// The patterns that no function has matched that was sampled.
    pub fn unmatched(&self) -> Vec<&Pattern> {
        let found = self.found.borrow();
        let all = self.patterns.iter().enumerate();
        let missing = all.filter(|(at, _)| !found.contains(at));
        missing.map(|(_, pattern)| pattern).collect()
    }
}

/// Whether the whole text matches a pattern with `*` and `?`: greedy, and back to the last star
/// where that fails, which takes at most the product of the lengths.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|it| *it == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text) in [
            ("hak_*", "hak_free_at"),
            ("*_at", "hak_free_at"),
            ("h?k_*_*", "hak_free_at"),
            ("hak_free_at", "hak_free_at"),
            ("*a*b*", "xxaxxbxx"),
            ("*", ""),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("hak_*", "xhak_free"),
            ("hak", "hak_free"),
            ("?", ""),
            ("a*b", "acbc"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_function_is_chosen_by_name_or_by_file() {
        let has = |pattern: &str| {
            let pattern: Pattern = pattern.parse().unwrap();
            pattern.has("hak_free_at.part.0", "/home/a/core/hakmem.c")
        };
        for pattern in ["hak_free_at", "hak_*", "file:hakmem.c", "file:core/*.c"] {
            assert!(has(pattern), "{pattern}");
        }
        for pattern in ["hak", "file:mem.c", "file:core"] {
            assert!(!has(pattern), "{pattern}");
        }
        for text in ["", "file:"] {
            assert_eq!(text.parse::<Pattern>(), Err(NoPattern));
        }
    }
}
