//! Symbol tables of small and of damaged files.

use allotrope_detour::allocators::Allocator;
use allotrope_detour::elf::{Elf, Table};
use allotrope_detour::plan::{Plan, Refusal};
use allotrope_detour::survey::Survey;
use proptest::collection::vec;
use proptest::prelude::*;

const CODE: u64 = 0x1000;
const GLOBAL: u8 = 0x12;
const LOCAL: u8 = 0x02;
const RESOLVER: u8 = 0x1a;

/// Types of sections.
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const DYNSYM: u32 = 11;

/// A function of eight bytes: `push rbp; mov rbp, rsp; pop rbp; nop; nop; ret`.
const FUNCTION: [u8; 8] = [0x55, 0x48, 0x89, 0xe5, 0x5d, 0x90, 0x90, 0xc3];

/// A file with one such function for each symbol (name, kind and binding), or at the place
/// of another one.
fn file(symbols: &[(&str, u8, u64)]) -> Vec<u8> {
    with_table(symbols, SYMTAB)
}

/// Same as [`file`], but the file exports the symbols.
fn exported(symbols: &[(&str, u8, u64)]) -> Vec<u8> {
    with_table(symbols, DYNSYM)
}

fn with_table(symbols: &[(&str, u8, u64)], kind: u32) -> Vec<u8> {
    let mut strings = vec![0];
    let mut table = vec![0; 24];
    for (name, information, place) in symbols {
        table.extend((strings.len() as u32).to_le_bytes());
        table.extend([*information, 0, 1, 0]);
        table.extend((CODE + place * 8).to_le_bytes());
        table.extend(8_u64.to_le_bytes());
        strings.extend(name.bytes());
        strings.push(0);
    }
    let code = FUNCTION.repeat(symbols.len());
    let (code_at, table_at) = (120, 120 + code.len());
    let strings_at = table_at + table.len();
    let sections_at = strings_at + strings.len();
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    bytes.extend([0, 64, sections_at as u64].map(u64::to_le_bytes).concat());
    bytes.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 3, 0, 0, 0]);
    // PT_LOAD, readable and executable.
    bytes.extend([1_u32, 5].map(u32::to_le_bytes).concat());
    let size = code.len() as u64;
    let words = [code_at as u64, CODE, CODE, size, size, 4096];
    bytes.extend(words.map(u64::to_le_bytes).concat());
    bytes.extend(&code);
    bytes.extend(&table);
    bytes.extend(&strings);
    bytes.extend([0; 64]);
    for (kind, at, length, link) in [
        (kind, table_at, table.len(), 2_u32),
        (STRTAB, strings_at, strings.len(), 0),
    ] {
        bytes.extend([0, kind].map(u32::to_le_bytes).concat());
        let words = [0, 0, at as u64, length as u64];
        bytes.extend(words.map(u64::to_le_bytes).concat());
        bytes.extend([link, 0].map(u32::to_le_bytes).concat());
        bytes.extend([8_u64, 24].map(u64::to_le_bytes).concat());
    }
    bytes
}

/// Names of the entry points, and of the allocators.
fn survey(symbols: &[(&str, u8, u64)]) -> (Vec<String>, Vec<Allocator>) {
    let file = file(symbols);
    let elf = Elf::open(file.as_slice()).expect("it is an ELF file");
    assert!(elf.has(Table::All) && !elf.has(Table::Exported));
    let survey = Survey::of(&elf);
    let found = survey.found().map(|found| {
        assert!(found.is_resolver || Plan::new(&elf, found).is_ok());
        format!("{}{}", found.known.prefix, found.known.function.name)
    });
    (found.collect(), survey.allocators().collect())
}

#[test]
fn the_functions_of_one_allocator() {
    let symbols = [
        ("main", GLOBAL, 0),
        ("_rjem_malloc", LOCAL, 1),
        ("_rjem_sdallocx", LOCAL, 2),
    ];
    let (names, allocators) = survey(&symbols);
    assert_eq!(names, ["_rjem_malloc", "_rjem_sdallocx"]);
    assert_eq!(allocators, [Allocator::Jemalloc]);
}

#[test]
fn an_address_with_several_names_counts_once() {
    let symbols = [
        ("tc_free", GLOBAL, 0),
        ("_ZdlPv", GLOBAL, 0),
        ("free", GLOBAL, 0),
        ("tc_malloc", GLOBAL, 1),
    ];
    assert_eq!(survey(&symbols).0, ["free", "tc_malloc"]);
}

/// Only functions of known allocators are found, and those that a program exports: what else it
/// calls `malloc` may be anything.
#[test]
fn a_malloc_of_the_programs_own_stays() {
    let symbols = [("malloc", GLOBAL, 0), ("free", GLOBAL, 1)];
    assert_eq!(survey(&symbols), (vec![], vec![]));
    let symbols = [("malloc", LOCAL, 0), ("mallctl", GLOBAL, 1)];
    assert_eq!(survey(&symbols).0, Vec::<String>::new());
    let symbols = [("malloc", GLOBAL, 0), ("mallctl", GLOBAL, 1)];
    assert_eq!(survey(&symbols).0, ["malloc"]);
}

#[test]
fn an_exported_malloc_and_free_are_the_processs() {
    let names = |symbols: &[_]| {
        let file = exported(symbols);
        let elf = Elf::open(file.as_slice()).expect("it is an ELF file");
        let survey = Survey::of(&elf);
        let names: Vec<_> = survey.found().map(|it| it.known.shown().concat()).collect();
        (names.join(" "), survey.is_of_its_own())
    };
    let with = |more: &[(&'static str, u8, u64)]| {
        let own = [("malloc", GLOBAL, 0), ("free", GLOBAL, 1)];
        names(&[&own, more].concat())
    };
    assert_eq!(with(&[]), ("malloc free".to_owned(), true));
    // A name that only jemalloc has may mean anything in another allocator.
    let more = [("calloc", GLOBAL, 2), ("rallocx", GLOBAL, 3)];
    assert_eq!(with(&more), ("malloc free calloc".to_owned(), true));
    let jemalloc = [("mallocx", GLOBAL, 2), ("rallocx", GLOBAL, 3)];
    let all = "malloc free mallocx rallocx".to_owned();
    assert_eq!(with(&jemalloc), (all, false));
    // A sanitizer's, and half of an allocator, are none.
    let sanitizer = [("__asan_init", LOCAL, 2)];
    assert_eq!(with(&sanitizer), (String::new(), false));
    assert_eq!(names(&[("malloc", GLOBAL, 0)]), (String::new(), false));
}

#[test]
fn a_function_that_is_chosen_at_run_time_is_refused() {
    let file = file(&[("mi_malloc", RESOLVER, 0)]);
    let elf = Elf::open(file.as_slice()).expect("it is an ELF file");
    let survey = Survey::of(&elf);
    let found = survey.found().next().expect("it is there");
    assert_eq!(Plan::new(&elf, found), Err(Refusal::Resolver));
}

fn examine(file: &[u8]) {
    let Some(elf) = Elf::open(file) else {
        return;
    };
    let _ = (elf.extent(), elf.program_headers());
    for found in Survey::of(&elf).found() {
        if let Ok(plan) = Plan::new(&elf, found) {
            let _ = plan.trampoline(found.address.wrapping_add(4096), found.address);
        }
    }
}

proptest! {
    /// No file makes the survey panic or read outside it.
    #[test]
    fn damaged_files(at in vec((0_usize..600, any::<u8>()), 0..40), cut in 0_usize..700) {
        let mut file = file(&[("malloc", GLOBAL, 0), ("mallctl", GLOBAL, 1), ("free", GLOBAL, 2)]);
        for (at, byte) in at {
            let length = file.len();
            file[at % length] = byte;
        }
        examine(&file);
        file.truncate(cut);
        examine(&file);
    }

    /// Nor does any code; what is moved ends in a jump back.
    #[test]
    fn any_code(code in vec(any::<u8>(), 0..64), size in 0_usize..64, address in any::<u64>()) {
        if let Ok(plan) = Plan::of(&code, size, address) {
            prop_assert!(code.starts_with(plan.code()));
            for at in [address.wrapping_sub(4096), address.wrapping_add(1 << 30)] {
                if let Ok((bytes, length)) = plan.trampoline(at, address) {
                    prop_assert!(bytes[..length][length - 5] == 0xe9);
                }
            }
        }
    }
}
