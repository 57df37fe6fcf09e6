//! Which allocator a program uses, judged by the libraries that it names and the symbols
//! that it defines.

use allotrope_detour::allocators::ALLOCATORS;

use crate::executable::Program;
pub use crate::symbol_facts::SymbolFacts;

/// An allocator other than the C library's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocator {
    /// A shared library; recorded like the C library's.
    Library {
        /// The allocator's name.
        name: &'static str,
        /// The library's file name.
        file: String,
    },
    /// Linked into the program as its `malloc`; the allocator's name if known.
    Replacing(Option<&'static str>),
    /// Linked into the program under names of its own, as Rust's
    /// `#[global_allocator]` crates do.
    Private(&'static str),
}

/// What to do about an allocator that is linked into a program as its `malloc`, and whose
/// entry points are not detoured.
pub const OF_REPLACING: &str = "link it as a shared library or leave it out of the recorded build; \
                                in Rust, wrap it in allotrope-client's Recorded";
/// What to do about an allocator in a program without symbols.
pub const OF_STRIPPED: &str = "record a build that keeps its symbols (do not strip it)";
/// What to do about an allocator that is linked under its own names.
pub const OF_PRIVATE: &str = "in Rust, wrap it in allotrope-client's Recorded; \
                              in C and C++, report its blocks with allotrope.h";

impl Allocator {
    /// The program's allocator, if it is not the C library's: one of the libraries that
    /// it names, or one that is linked into it.
    pub fn of(program: &Program, symbols: &SymbolFacts) -> Option<Self> {
        for needed in &program.needed {
            let mut known = ALLOCATORS.iter();
            if let Some(row) = known.find(|row| needed.starts_with(row.library)) {
                return Some(Self::Library {
                    name: row.name,
                    file: needed.clone(),
                });
            }
        }
        if symbols.defines_malloc {
            return Some(Self::Replacing(symbols.name));
        }
        symbols.name.map(Self::Private)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_in_allocators_and_libraries_are_distinguished() {
        let mut program = Program::default();
        let private = SymbolFacts {
            name: Some("mimalloc"),
            ..SymbolFacts::default()
        };
        assert_eq!(
            Allocator::of(&program, &private),
            Some(Allocator::Private("mimalloc"))
        );
        let replacing = SymbolFacts {
            defines_malloc: true,
            ..SymbolFacts::default()
        };
        assert_eq!(
            Allocator::of(&program, &replacing),
            Some(Allocator::Replacing(None))
        );
        assert_eq!(Allocator::of(&program, &SymbolFacts::default()), None);
        program.needed.push("libjemalloc.so.2".into());
        assert!(matches!(
            Allocator::of(&program, &private),
            Some(Allocator::Library {
                name: "jemalloc",
                ..
            })
        ));
    }
}
