//! An ELF file and addresses in it, both hostile: loading and resolving end,
//! with one answer for each address.
//!
//! Input: the number of addresses (one byte), eight bytes for each address (the highest
//! bit: it is a return address), the file. The fuzzer needs a seed, because it does not
//! discover the ELF format by itself. A good one is the byte 1, the address of a
//! function, and a small program built with `cc -O1 -g -nostdlib -static`.

#![no_main]

use std::io::Write;

use allotrope_symbols::{Ran, Locator, ModuleSymbols};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((count, rest)) = input.split_first() else {
        return;
    };
    let Some((addresses, elf)) = rest.split_at_checked(usize::from(*count) * 8) else {
        return;
    };
    let addresses: Vec<(u64, bool)> = addresses
        .chunks_exact(8)
        .filter_map(|bytes| bytes.try_into().ok().map(u64::from_le_bytes))
        .map(|bits| (bits & !(1 << 63), bits >> 63 == 0))
        .collect();
    let Ok(mut file) = tempfile::tempfile() else {
        return;
    };
    if file.write_all(elf).is_err() {
        return;
    }
    let path = std::path::Path::new("/nonexistent/module");
    let Ok(symbols) = ModuleSymbols::load(&Locator::new(), path, &Ran::unverified(), Some(file)) else {
        return;
    };
    let _ = symbols.unoptimised();
    assert_eq!(symbols.resolve(&addresses).len(), addresses.len());
});
