//! How many bytes the program had requested and not freed, over the operations: what memory
//! is compared with.

use std::io;

use allotrope_replayer::operations::Call;

use crate::replay::operations_file::Operations;

/// Live bytes of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCurve {
    /// The most live bytes.
    pub peak: u64,
    /// Live bytes after the last operation.
    pub end: u64,
    /// Number of operations done, ascending, and live bytes then.
    pub points: Vec<(u64, u64)>,
}

impl LiveCurve {
    /// Reads all operations. There are at most `count` points, at the same operations as those
    /// of a replay.
    ///
    /// # Errors
    ///
    /// If the operations cannot be read.
    pub fn of(operations: &Operations, count: u32) -> io::Result<Self> {
        let mut sizes = vec![0_u64; operations.slots() as usize];
        let (mut live, mut peak) = (0_u64, 0);
        let mut points = Vec::new();
        let at = |number: u64| {
            let total = u128::from(operations.len());
            (total * u128::from(number) / u128::from(count.max(1))) as u64
        };
        let mut next = 1;
        for (record, done) in operations.records(0..operations.len()).zip(1..) {
            let record = record?;
            let size = match record.call {
                call if call == Call::Free as u8 => 0,
                _ => record.size,
            };
            if let Some(slot) = sizes.get_mut(record.slot as usize) {
                live = live.saturating_sub(*slot).saturating_add(size);
                *slot = size;
            }
            peak = peak.max(live);
            while next <= u64::from(count) && at(next) <= done {
                points.push((done, live));
                next += 1;
            }
        }
        points.dedup();
        Ok(Self {
            peak,
            end: live,
            points,
        })
    }
}
