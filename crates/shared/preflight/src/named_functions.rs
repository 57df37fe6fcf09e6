//! The functions of allocators that the user named: whether a file has them, and whether the recorder
//! can patch them, judged as the recorder does (`allotrope-detour`).

use std::io;
use std::path::Path;

use allotrope_detour::elf::Elf;
use allotrope_detour::named;
use allotrope_detour::plan::{Plan, Refusal};
use object::ReadCache;

use crate::linked_allocator::Cached;

/// What a file shows of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Finding {
    /// It has no symbol of this name.
    #[default]
    Missing,
    /// It cannot be patched.
    Refused(Refusal),
    /// It can be patched.
    Patched,
}

impl Finding {
    /// What two files show.
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Missing, other) => other,
            (Self::Refused(_), Self::Patched) => Self::Patched,
            (found, _) => found,
        }
    }

    /// Why the function cannot be patched, as in a sentence; `None` if it can, or is missing.
    pub const fn why(self) -> Option<&'static str> {
        let Self::Refused(refusal) = self else {
            return None;
        };
        Some(match refusal {
            Refusal::TooShort => "it is shorter than a jump",
            Refusal::Resolver => "it is chosen when the program starts (IFUNC)",
            Refusal::Size => "its symbol has no size, or a size that no such function has",
            Refusal::NoCode => "there is no code at its address",
            Refusal::Unknown => "one of its instructions is not known",
            Refusal::JumpInto => "a jump in it leads into its first instructions",
            Refusal::Immovable => "one of its first instructions cannot be moved",
            Refusal::TooFar => "what its first instructions refer to is too far away",
        })
    }
}

/// What the file at `path` shows of the functions in a value of the variable, in their order.
///
/// # Errors
/// If there is no regular file at `path` that can be opened.
pub fn of(path: &Path, value: &[u8]) -> io::Result<Vec<Finding>> {
    let file = allotrope_files::open_regular(path)?;
    let cache = ReadCache::new(&file);
    let bytes = Cached(&cache);
    let mut findings = vec![Finding::Missing; named::all(value).count()];
    if let Some(elf) = Elf::open(&bytes) {
        named::find(&elf, value, |number, symbol| {
            let found = match Plan::at(&elf, symbol.address, symbol.size, symbol.is_resolver) {
                Ok(_) => Finding::Patched,
                Err(refusal) => Finding::Refused(refusal),
            };
            findings[number] = findings[number].or(found);
        });
    }
    Ok(findings)
}
