//! The functions of allocators that the user named: whether a file has them, and whether the recorder
//! can patch them, judged as the recorder does (`allotrope-detour`).

use std::io;
use std::path::Path;

use allotrope_detour::elf::Elf;
use allotrope_detour::named;
use allotrope_detour::plan::{Plan, Refusal};
use allotrope_detour::survey::{self, Survey};
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
    /// It is one of an allocator that is recorded anyway.
    Recorded,
    /// It can be patched.
    Patched,
}

impl Finding {
    /// What two files show.
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Missing, other) => other,
            (Self::Refused(_), other @ (Self::Patched | Self::Recorded)) => other,
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

/// What the file at `path` shows of the functions in a value of the variable, in their order. Allocators that
/// are known are patched in a program only, not in a library.
///
/// # Errors
/// If there is no regular file at `path` that can be opened.
pub fn of(path: &Path, is_program: bool, value: &[u8]) -> io::Result<Vec<Finding>> {
    let file = allotrope_files::open_regular(path)?;
    let cache = ReadCache::new(&file);
    let bytes = Cached(&cache);
    let mut findings = vec![Finding::Missing; named::all(value).count()];
    if let Some(elf) = Elf::open(&bytes) {
        let survey = is_program.then(|| Survey::of(&elf));
        let known = |address| {
            let mut found = survey.iter().flat_map(Survey::found);
            found.any(|found| found.address == address)
        };
        survey::find_named(&elf, value, |number, symbol| {
            let plan = || Plan::at(&elf, symbol.address, symbol.size, symbol.is_resolver);
            let found = match known(symbol.address) {
                true => Finding::Recorded,
                false => plan().map_or_else(Finding::Refused, |_| Finding::Patched),
            };
            findings[number] = findings[number].or(found);
        });
    }
    Ok(findings)
}
