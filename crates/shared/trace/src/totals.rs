//! The payload of the closing chunk: totals over the chunks before it. A reader
//! compares them with its own totals to detect missing chunks.

use crate::varint::{Cursor, Malformed};

/// Bytes of the encoded totals. A later minor version may append fields.
pub(crate) const TOTALS: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    chunks: u64,
    records: u64,
    events: u64,
    counted: u64,
}

impl Totals {
    /// Counts a chunk of any kind but the closing one.
    pub(crate) fn add_chunk(&mut self) {
        self.chunks += 1;
    }

    pub(crate) fn add_records(&mut self, records: u32) {
        self.records += u64::from(records);
    }

    pub(crate) fn add_events(&mut self, events: u64, counted: u64) {
        self.events += events;
        self.counted += counted;
    }

    pub(crate) fn to_bytes(self) -> [u8; TOTALS] {
        let mut bytes = [0; TOTALS];
        bytes[0..8].copy_from_slice(&self.chunks.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.records.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.events.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.counted.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(bytes);
        Ok(Self {
            chunks: cursor.u64()?,
            records: cursor.u64()?,
            events: cursor.u64()?,
            counted: cursor.u64()?,
        })
    }
}
