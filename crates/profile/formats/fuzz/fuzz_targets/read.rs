//! Any bytes are read as stacks or refused with an error. Every exporter writes the
//! stacks that were read, and the JSON is read again. Seed it with the samples of
//! `tests/damage.rs` and files that the tools write; formats with tables are hardly
//! reached by random bytes. `tests/damage.rs` is its short form.
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
        // Writing fails only if the source lacks the metric.
        if exporter
            .write(&read.set, &ExportOptions::default(), &mut out)
            .is_ok()
            && exporter.name() == "json"
        {
            let again = read_bytes("written", &out[..]).expect("our own JSON is readable");
            assert_eq!(again.set, read.set);
        }
    }
});
