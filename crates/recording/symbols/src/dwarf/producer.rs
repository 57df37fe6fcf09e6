//! The options with which a module was compiled, and whether with optimisation, from what its
//! compilers wrote into `DW_AT_producer`.

use std::collections::BTreeSet;

use super::budget::Budget;
use super::bytes::UnitRef;
use super::split::{SplitFiles, WithUnit};
use super::units::{Root, Units, read_root};

/// DWARF 5, 7.12. Assembly has no optimisation, so its units are not counted.
const ASSEMBLER: gimli::DwLang = gimli::DW_LANG_Mips_Assembler;

/// The most split files that are opened only to read the producer.
const MAX_OPENED: usize = 256;

/// Whether units with more than half of the code were compiled without
/// optimisation; `None` if the units without that information could decide it.
pub(super) fn unoptimised(
    units: &Units<'_, '_>,
    split: &SplitFiles,
    budget: &Budget,
) -> Option<bool> {
    let mut opened = 0;
    let mut without = 0u64;
    let mut with = 0u64;
    let mut all = 0u64;
    for index in 0..units.len() {
        let root = units.root(index, budget);
        let Some(root) = root.filter(|root| root.is_compile_unit && !is_assembly(root)) else {
            continue;
        };
        let code = root.ranges.iter().map(|range| range.end - range.start);
        let code = code.fold(0, u64::saturating_add);
        all = all.saturating_add(code);
        let unoptimised = match root.is_skeleton {
            true if split.is_packaged() || opened < MAX_OPENED => {
                opened += 1;
                let unit = units.unit(index);
                unit.and_then(|unit| {
                    split.find(UnitRef::new(units.dwarf(), &unit), ReadRoot(budget))?
                })
            }
            _ => unit_is_unoptimised(&root),
        };
        match unoptimised {
            Some(true) => without = without.saturating_add(code),
            Some(false) => with = with.saturating_add(code),
            None => {}
        }
    }
    if without > all / 2 {
        Some(true)
    } else if with > all / 2 {
        Some(false)
    } else {
        None
    }
}

/// The compilers with options of all units, sorted. Assemblers, which do not optimise, are left
/// out.
pub(super) fn with_options(units: &Units<'_, '_>, budget: &Budget) -> BTreeSet<String> {
    let roots = (0..units.len()).filter_map(|index| units.root(index, budget));
    let texts = roots.filter_map(|it| Some(String::from_utf8_lossy(it.producer?).into_owned()));
    texts
        .filter(|it| it.contains(" -") && !it.starts_with("GNU AS "))
        .collect()
}

/// Reads the root entry of the split part of a skeleton unit.
struct ReadRoot<'b>(&'b Budget);

impl WithUnit<Option<bool>> for ReadRoot<'_> {
    fn with<'x>(self, _: &Units<'_, 'x>, unit: UnitRef<'_, 'x>) -> Option<bool> {
        unit_is_unoptimised(&read_root(unit, self.0)?)
    }
}

fn is_assembly(root: &Root<'_>) -> bool {
    let by_producer = |producer: &[u8]| producer.starts_with(b"GNU AS ");
    root.language == Some(ASSEMBLER) || root.producer.is_some_and(by_producer)
}

fn unit_is_unoptimised(root: &Root<'_>) -> Option<bool> {
    if root.is_optimised {
        return Some(false);
    }
    options_unoptimised(std::str::from_utf8(root.producer?).ok()?)
}

/// Whether the options in a producer disable optimisation; `None` if it has no options.
/// gcc writes its options after its name and version
/// (`GNU C17 12.2.0 -mtune=generic -march=x86-64 -g -O2`), clang only with
/// `-grecord-command-line`, rustc never.
fn options_unoptimised(producer: &str) -> Option<bool> {
    let mut options = producer
        .split_ascii_whitespace()
        .filter(|word| word.starts_with('-'));
    // No option at all: the compiler did not record them (`-gno-record-gcc-switches`).
    options.clone().next()?;
    // The last one counts; `-O` alone is `-O1`.
    let level = options.rfind(|option| {
        option.strip_prefix("-O").is_some_and(|level| {
            matches!(level, "" | "g" | "s" | "z" | "fast")
                || level.bytes().all(|b| b.is_ascii_digit())
        })
    });
    Some(level.is_none_or(|level| level == "-O0"))
}

#[cfg(test)]
mod tests {
    use super::options_unoptimised;

    #[test]
    fn the_last_optimisation_option_counts() {
        for (producer, expected) in [
            ("GNU C17 12.2.0 -mtune=generic -march=x86-64 -g", Some(true)),
            ("GNU C17 12.2.0 -mtune=generic -g -O2", Some(false)),
            ("GNU C++17 12.2.0 -O2 -O0 -g", Some(true)),
            ("GNU C++17 12.2.0 -O0 -Og", Some(false)),
            ("GNU C11 8.3.0 -O", Some(false)),
            ("GNU GIMPLE 12.2.0 -Ofast -fltrans", Some(false)),
            (
                "Debian clang version 14.0.6 /usr/bin/clang -O0 -g a.c",
                Some(true),
            ),
            ("Debian clang version 14.0.6", None),
            (
                "clang LLVM (rustc version 1.95.0 (59807616e 2026-04-14))",
                None,
            ),
            ("GNU C17 12.2.0", None),
            ("", None),
        ] {
            assert_eq!(options_unoptimised(producer), expected, "{producer}");
        }
    }
}
