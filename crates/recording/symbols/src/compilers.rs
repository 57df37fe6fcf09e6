//! Which compilers made a module, and with which options, as far as its file says. gcc writes
//! its options into the debug information (`DW_AT_producer`: `GNU C17 12.2.0 -mtune=generic -g
//! -O2`), clang only with `-grecord-command-line`, rustc none.

use std::collections::BTreeSet;
use std::path::Path;

use crate::dwarf::compilers_with_options;
use crate::elf::ElfFile;
use crate::error::SymbolError;

/// The compilers that made a module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compilers {
    /// Names and versions of compilers and linkers, the texts of the section `.comment`, sorted.
    pub names: Vec<String>,
    /// Compilers with their options, one text for each different command line.
    pub with_options: BTreeSet<String>,
}

impl Compilers {
    /// Reads the file of a module.
    ///
    /// # Errors
    /// If it is no ELF file for x86-64 or cannot be read.
    pub fn of(module: &Path) -> Result<Self, SymbolError> {
        let file = ElfFile::open(module)?;
        Ok(Self {
            names: file.compilers(),
            with_options: compilers_with_options(&file),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_of_this_test_is_found() {
        let this = std::env::current_exe().expect("it is running");
        let compilers = Compilers::of(&this).expect("an ELF file");
        assert!(compilers.names.iter().any(|text| text.contains("rustc")));
    }
}
