//! A hostile module, also with a `.gnu_debugdata` section, and a hostile debug file
//! (`.dwo`, `.dwp`, or the file named by `.gnu_debuglink`): resolving ends.
//!
//! Input: the length of the module (two bytes, little-endian), the module, and the file
//! that is stored beside it as `a.dwo`, `module.dwp` and `module.debug`. A good seed is
//! a small program built with
//! `cc -g -gsplit-dwarf -fdebug-prefix-map=$PWD=. -nostdlib -static`, and its `.dwo` file.

#![no_main]

use allotrope_symbols::{Ran, Locator, ModuleSymbols};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((length, rest)) = input.split_first_chunk::<2>() else {
        return;
    };
    let Some((module, beside)) = rest.split_at_checked(u16::from_le_bytes(*length).into()) else {
        return;
    };
    let Ok(folder) = tempfile::tempdir() else {
        return;
    };
    let path = folder.path().join("module");
    let written = std::fs::write(&path, module)
        .and_then(|()| std::fs::write(folder.path().join("a.dwo"), beside))
        .and_then(|()| std::fs::write(folder.path().join("module.dwp"), beside))
        .and_then(|()| std::fs::write(folder.path().join("module.debug"), beside));
    if written.is_err() {
        return;
    }
    let Ok(symbols) = ModuleSymbols::load(&Locator::new(), &path, &Ran::unverified(), None) else {
        return;
    };
    let _ = symbols.unoptimised();
    let addresses: Vec<(u64, bool)> = (0x1000..0x1100).map(|address| (address, true)).collect();
    assert_eq!(symbols.resolve(&addresses).len(), addresses.len());
});
