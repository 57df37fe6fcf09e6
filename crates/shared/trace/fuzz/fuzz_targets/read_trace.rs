//! Opens arbitrary bytes as a trace and reads everything in it. Reads each input twice:
//! unchanged, and with correct checksums, because a fuzzer never finds these.
//! `tests/damage.rs` has a short form of this as a test.
//!
//! ```sh
//! cd crates/shared/trace && mkdir -p fuzz/corpus/read_trace
//! cargo +nightly fuzz run read_trace fuzz/corpus/read_trace fuzz/seeds/read_trace
//! ```
#![no_main]

use allotrope_trace::{Entry, OutlineEntry, TraceReader};
use libfuzzer_sys::fuzz_target;

const FILE_HEADER: usize = 16;
const CHUNK_HEADER: usize = 28;

fn read_all(bytes: &[u8]) {
    let Ok(mut reader) = TraceReader::new(bytes) else { return };
    assert!(reader.readable_bytes() <= bytes.len() as u64);
    let mut events = Vec::new();
    for entry in reader.entries().flatten() {
        if let Entry::Events(at) = entry {
            let read = reader.read_events(&at, &mut events);
            assert_eq!(events.len(), read.map_or(0, |()| at.events as usize));
        }
    }
    let (mut stack_nodes, mut nodes) = (reader.stack_nodes(), Vec::new());
    for entry in reader.outline().flatten() {
        if let OutlineEntry::Stacks(at) = entry {
            let read = stack_nodes.read(&at, &mut nodes);
            assert!(read.is_err() || nodes.len() == at.nodes);
        }
    }
    if reader.verify().is_ok() {
        assert!(reader.readable_bytes() <= bytes.len() as u64);
    }
}

/// Sets the file header and the checksums of all chunks.
fn repair(file: &mut [u8]) {
    if file.len() < FILE_HEADER {
        return;
    }
    file[..FILE_HEADER].copy_from_slice(b"ALLOTROP\x02\0\0\0\0\0\0\0");
    let mut at = FILE_HEADER;
    while at + CHUNK_HEADER <= file.len() {
        let summary = usize::from(u16::from_le_bytes([file[at + 4], file[at + 5]]));
        let stored = [file[at + 8], file[at + 9], file[at + 10], file[at + 11]];
        let payload = at + CHUNK_HEADER + summary;
        let end = payload.saturating_add(u32::from_le_bytes(stored) as usize);
        if end > file.len() {
            return;
        }
        let payload_crc = crc32fast::hash(&file[payload..end]).to_le_bytes();
        file[at + 20..at + 24].copy_from_slice(&payload_crc);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&file[at..at + 24]);
        crc.update(&file[at + CHUNK_HEADER..payload]);
        file[at + 24..at + 28].copy_from_slice(&crc.finalize().to_le_bytes());
        at = end;
    }
}

fuzz_target!(|bytes: &[u8]| {
    read_all(bytes);
    let mut repaired = bytes.to_vec();
    repair(&mut repaired);
    read_all(&repaired);
});
