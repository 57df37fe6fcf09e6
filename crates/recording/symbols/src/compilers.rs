//! Which compilers made a module, and with which options, as far as its file says. Most write
//! their names into the section `.comment`, Swift's only into the debug information. gcc writes
//! its options into the debug information (`DW_AT_producer`: `GNU C17 12.2.0 -mtune=generic -g
//! -O2`), clang only with `-grecord-command-line`, rustc none.

use std::collections::BTreeSet;
use std::path::Path;

use crate::dwarf::compilers_of;
use crate::elf::ElfFile;
use crate::error::SymbolError;

/// The compilers that made a module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compilers {
    /// Names and versions of compilers and linkers, sorted: the texts of the section `.comment`,
    /// and the compilers of the debug information that it lacks, as Swift's.
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
        let [producers, with_options] = compilers_of(&file);
        Ok(Self {
            names: with_producers(file.compilers(), producers),
            with_options,
        })
    }
}

/// Adds the compilers of the debug information to those of `.comment`, unless these have them:
/// the producer `clang LLVM (rustc version 1.95.0 (…))` is `rustc version 1.95.0 (…)` there.
pub(crate) fn with_producers(
    mut names: Vec<String>,
    producers: impl IntoIterator<Item = String>,
) -> Vec<String> {
    for producer in producers {
        let is_known = |name: &String| producer.contains(&**name) || name.contains(&producer);
        if !names.iter().any(is_known) {
            names.push(producer);
        }
    }
    names.sort();
    names
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

    #[test]
    fn compilers_that_the_comment_lacks_are_added() {
        let comment = ["GCC: (Debian 14.2.0-19) 14.2.0", "clang version 17.0.0"];
        let producers = [
            "Swift version 6.0.3 (swift-6.0.3-RELEASE)",
            "clang version 17.0.0",
        ];
        let names = with_producers(
            comment.map(str::to_owned).to_vec(),
            producers.map(str::to_owned),
        );
        assert_eq!(
            names,
            [
                "GCC: (Debian 14.2.0-19) 14.2.0",
                "Swift version 6.0.3 (swift-6.0.3-RELEASE)",
                "clang version 17.0.0"
            ]
        );
        let rustc = "rustc version 1.95.0 (59807616e 2026-04-14)";
        let names = with_producers(vec![rustc.to_owned()], [format!("clang LLVM ({rustc})")]);
        assert_eq!(names, [rustc]);
    }
}
