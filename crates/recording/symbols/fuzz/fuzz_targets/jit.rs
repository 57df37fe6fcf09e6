//! Hostile perf maps and jitdumps: reading ends, and only code that contains the address
//! is found. Input: the file, read as both.

#![no_main]

use allotrope_symbols::{JitDump, PerfMap};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(file) = tempfile::NamedTempFile::new() else {
        return;
    };
    if std::fs::write(file.path(), input).is_err() {
        return;
    }
    let mut map = PerfMap::at(file.path());
    let _ = map.refresh();
    let dump = JitDump::open(file.path()).ok();
    for address in [0, 0x1000, 0x2000, u64::MAX / 2, u64::MAX] {
        let code = map.code(address).into_iter();
        let dumped = dump.iter().filter_map(|dump| dump.code(address, u64::MAX));
        for code in code.chain(dumped) {
            assert!(code.start <= address && address < code.end);
            let _ = code.frame(address);
        }
    }
});
