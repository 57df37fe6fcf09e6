//! The compilers of a module's units, the options with which they compiled, and whether with
//! optimisation: from what they wrote into `DW_AT_producer`, or else from the shape of what they
//! made.

use std::collections::{BTreeMap, BTreeSet};

use super::budget::Budget;
use super::bytes::UnitRef;
use super::shape::shape;
use super::split::{SplitFiles, WithUnit};
use super::units::{Root, Units, read_root};

/// DWARF 5, 7.12. Assembly has no optimisation, so its units are not counted.
const ASSEMBLER: gimli::DwLang = gimli::DW_LANG_Mips_Assembler;

/// The most split files that are opened only to read the producer.
const MAX_OPENED: usize = 256;

/// The functions with variables that the units of a compiler without options need, so that
/// their shape says something: a small optimised function may have all of its variables in
/// its frame, too. Debug builds of Rust have many small units, so it is their sum.
const MIN_FUNCTIONS: u32 = 8;

/// The most units of a module whose shape is read, the largest ones.
const MAX_SHAPES: usize = 256;

/// The longest name of a compiler in bytes, and the most of them.
const MAX_COMPILER_BYTES: usize = 200;
const MAX_COMPILERS: usize = 16;

/// How a unit was compiled.
enum Compiled {
    WithOptimisation,
    WithoutOptimisation,
    /// The producer says nothing, and the shape is that of a unit without optimisation, in so
    /// many functions with variables.
    InFrames {
        producer: Vec<u8>,
        functions: u32,
    },
}

/// Whether units with more than half of the code were compiled without
/// optimisation; `None` if the units without that information could decide it.
pub(super) fn unoptimised(
    units: &Units<'_, '_>,
    split: &SplitFiles,
    budget: &Budget,
) -> Option<bool> {
    let of_code = |index: usize| {
        let root = units.root(index, budget)?;
        let unit = units.parse(index)?;
        let is_counted = root.is_compile_unit && !is_assembly(&root) && !is_of_rust(&unit);
        let code = root.ranges.iter().map(|range| range.end - range.start);
        let code = code.fold(0, u64::saturating_add);
        is_counted.then_some((index, root, code))
    };
    let mut counted: Vec<_> = (0..units.len()).filter_map(of_code).collect();
    counted.sort_by_key(|(index, _, code)| (std::cmp::Reverse(*code), *index));
    // If there are many units without options, the largest ones stand for all.
    let mut shapes = 0;
    counted.retain(|(_, root, _)| {
        let is_read = !root.is_skeleton && needs_shape(root);
        shapes += usize::from(is_read);
        !is_read || shapes <= MAX_SHAPES
    });
    let all = counted
        .iter()
        .fold(0, |all: u64, (.., code)| all.saturating_add(*code));
    let mut opened = 0;
    let mut without = 0u64;
    let mut with = 0u64;
    let mut in_frames: BTreeMap<Vec<u8>, (u32, u64)> = BTreeMap::new();
    for (index, root, code) in counted {
        let compiled = match root.is_skeleton {
            true if split.is_packaged() || opened < MAX_OPENED => {
                opened += 1;
                let unit = units.unit(index);
                unit.and_then(|unit| {
                    split.find(UnitRef::new(units.dwarf(), &unit), ReadUnit(budget))?
                })
            }
            _ => {
                let unit = units.parse(index);
                unit.and_then(|unit| compiled(&root, UnitRef::new(units.dwarf(), &unit), budget))
            }
        };
        match compiled {
            Some(Compiled::WithoutOptimisation) => without = without.saturating_add(code),
            Some(Compiled::WithOptimisation) => with = with.saturating_add(code),
            Some(Compiled::InFrames {
                producer,
                functions,
            }) => {
                let sum = in_frames.entry(producer).or_default();
                sum.0 = sum.0.saturating_add(functions);
                sum.1 = sum.1.saturating_add(code);
            }
            None => {}
        }
        // What is left cannot change it. A debug build has much to read.
        let enough = in_frames.values().filter(|it| it.0 >= MIN_FUNCTIONS);
        let in_frames = enough.fold(0, |sum: u64, it| sum.saturating_add(it.1));
        if without.saturating_add(in_frames) > all / 2 {
            return Some(true);
        }
        if with > all / 2 {
            return Some(false);
        }
    }
    None
}

/// The compilers of all units with code, without their options, sorted. Those whose names
/// the section `.comment` has in another form are left out: GCC and assemblers.
pub(super) fn compilers(units: &Units<'_, '_>, budget: &Budget) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let roots = (0..units.len()).filter_map(|index| units.root(index, budget));
    let roots = roots.filter(|root| !root.ranges.is_empty() && !is_assembly(root));
    for producer in roots.filter_map(|root| root.producer) {
        let text = String::from_utf8_lossy(producer);
        let name = text.split_once(" -").map_or(&*text, |(name, _)| name);
        let name = name.trim();
        let is_known = name.is_empty() || name.starts_with("GNU ");
        if !is_known && name.len() <= MAX_COMPILER_BYTES && found.len() < MAX_COMPILERS {
            found.insert(name.to_owned());
        }
    }
    found
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

/// Reads the split part of a skeleton unit.
struct ReadUnit<'b>(&'b Budget);

impl WithUnit<Option<Compiled>> for ReadUnit<'_> {
    fn with<'x>(self, _: &Units<'_, 'x>, unit: UnitRef<'_, 'x>) -> Option<Compiled> {
        compiled(&read_root(unit, self.0)?, unit, self.0)
    }
}

fn is_assembly(root: &Root<'_>) -> bool {
    let by_producer = |producer: &[u8]| producer.starts_with(b"GNU AS ");
    root.language == Some(ASSEMBLER) || root.producer.is_some_and(by_producer)
}

/// Whether a unit is of Rust's standard library, which is optimised in debug builds, too, and
/// in a small program larger than the program.
fn is_of_rust(unit: &super::bytes::Unit<'_>) -> bool {
    let folder = unit.comp_dir.map(|folder| folder.slice());
    // The second is that of the crates that the library uses.
    folder.is_some_and(|it| it.starts_with(b"/rustc/") || it.starts_with(b"/rust/deps/"))
}

/// How a unit was compiled; `None` if nothing says it.
fn compiled(root: &Root<'_>, unit: UnitRef<'_, '_>, budget: &Budget) -> Option<Compiled> {
    if root.is_optimised {
        return Some(Compiled::WithOptimisation);
    }
    let producer = root.producer?;
    let by_producer = match is_swift(root) {
        // swiftc always marks what it optimised.
        true => Some(true),
        false => options_unoptimised(std::str::from_utf8(producer).ok()?),
    };
    match by_producer {
        Some(true) => Some(Compiled::WithoutOptimisation),
        Some(false) => Some(Compiled::WithOptimisation),
        None => {
            let shape = shape(unit, budget)?;
            shape.is_unoptimised().then(|| Compiled::InFrames {
                producer: producer.to_vec(),
                functions: shape.functions,
            })
        }
    }
}

/// Whether only its shape says how a unit was compiled.
fn needs_shape(root: &Root<'_>) -> bool {
    let by_options = |producer: &[u8]| options_unoptimised(std::str::from_utf8(producer).ok()?);
    let by_options = root.producer.and_then(by_options);
    !root.is_optimised && !is_swift(root) && by_options.is_none()
}

/// Whether a unit is Swift's. Its producer is `Swift version 6.0.3 (swift-6.0.3-RELEASE)` or
/// `Apple Swift version …`.
fn is_swift(root: &Root<'_>) -> bool {
    let named = |producer: &[u8]| {
        producer.starts_with(b"Swift version ") || producer.starts_with(b"Apple Swift version ")
    };
    root.language == Some(gimli::DW_LANG_Swift) || root.producer.is_some_and(named)
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
