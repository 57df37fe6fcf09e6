//! Any bytes are stacks or an error; what was read, every exporter writes, and
//! what it writes is read again. Seed it with the samples of
//! `tests/damage.rs` and files that the tools write: in the formats with
//! tables random bytes get nowhere. `tests/damage.rs` is its short form.
#![no_main]

use allotrope_formats::{EXPORTERS, ExportOptions, read_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(read) = read_bytes("fuzzed", bytes) else {
        return;
    };
    let frames = read.set.frames.len();
    for stack in &read.set.stacks {
        assert!(stack.frames.iter().all(|frame| (*frame as usize) < frames));
    }
    for exporter in EXPORTERS {
        let mut out = Vec::new();
        // A metric that is not known is the only thing to refuse.
        if exporter.write(&read.set, &ExportOptions::default(), &mut out).is_ok()
            && exporter.name() == "json"
        {
            let again = read_bytes("written", &out[..]).expect("our own JSON is readable");
            assert_eq!(again.set, read.set);
        }
    }
});
