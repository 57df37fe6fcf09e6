//! Columns of numbers as bytes: how the page's data is encoded. `docs/page-data.md` describes
//! it for readers. What the columns mean is the business of the other files.
//!
//! A number is a LEB128 varint; a signed one is zigzag-coded first. Numbers above
//! [`MAX`] are written as this: the page calculates in doubles, which have no others
//! exactly, and such a number can only come from a damaged or hostile trace.

use allotrope_profile::{LIVE_AT_END, TimeCell};

/// The largest number that a double and its neighbours are exact for: 2^53 - 1.
pub const MAX: u64 = (1 << 53) - 1;

/// Version of the layout.
pub const VERSION: u8 = 5;

/// Columns that are compressed together, by name.
#[derive(Debug, Default)]
pub struct Columns {
    columns: Vec<(String, Vec<u8>)>,
}

impl Columns {
    /// Adds a column of numbers.
    pub fn numbers(&mut self, name: &str, values: impl IntoIterator<Item = u64>) {
        let mut bytes = Vec::new();
        values
            .into_iter()
            .for_each(|value| write(&mut bytes, value.min(MAX)));
        self.bytes(name, bytes);
    }

    /// Adds a column of numbers as the differences from one to the next, the first one from
    /// 0.
    pub fn differences(&mut self, name: &str, values: impl IntoIterator<Item = u64>) {
        let mut bytes = Vec::new();
        let mut before = 0;
        for value in values {
            let value = value.min(MAX);
            write_signed(&mut bytes, value as i64 - before);
            before = value as i64;
        }
        self.bytes(name, bytes);
    }

    /// Adds a column of bytes.
    pub fn bytes(&mut self, name: &str, bytes: Vec<u8>) {
        debug_assert!(name.len() <= usize::from(u8::MAX), "{name}");
        self.columns.push((name.to_owned(), bytes));
    }

    /// All columns, one after the other: the version; then for each one the length of its
    /// name, the name, its length, the column.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        for (name, column) in &self.columns {
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name.as_bytes());
            write(&mut bytes, column.len() as u64);
            bytes.extend_from_slice(column);
        }
        bytes
    }
}

fn write(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn write_signed(bytes: &mut Vec<u8>, value: i64) {
    write(bytes, (value << 1 ^ value >> 63) as u64);
}

/// The number of a class of sizes: 0 for 0 bytes, 1 for 1, 2 for 2, 3 for up to 4, …
pub fn class(up_to_bytes: u64) -> u64 {
    match up_to_bytes {
        0 => 0,
        bytes => u64::from(bytes.ilog2()) + 1,
    }
}

/// The cells of a list of sites or threads. Within one, the bucket of allocation is the
/// difference to the cell before; that of deallocation the difference to that of
/// allocation, plus 1, or 0 for blocks that are live at the end.
pub fn cell_columns<'a>(
    columns: &mut Columns,
    name: &str,
    rows: impl Iterator<Item = &'a [TimeCell]> + Clone,
) {
    let mut column = |what: &str, values: Vec<u64>| {
        columns.numbers(&format!("{name}.{what}"), values);
    };
    let all = || rows.clone().flatten();
    column("count", rows.clone().map(|it| it.len() as u64).collect());
    let mut allocated = Vec::new();
    for row in rows.clone() {
        let mut before = 0;
        for cell in row {
            // In order of time.
            allocated.push(u64::from(cell.allocated.saturating_sub(before)));
            before = cell.allocated;
        }
    }
    column("allocated", allocated);
    let freed = |it: &TimeCell| match it.freed {
        LIVE_AT_END => 0,
        freed => u64::from(freed.saturating_sub(it.allocated)) + 1,
    };
    column("freed", all().map(freed).collect());
    column("blocks", all().map(|it| it.blocks).collect());
    column("bytes", all().map(|it| it.bytes).collect());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_each_other_with_their_names() {
        let mut columns = Columns::default();
        columns.numbers("a", [0, 127, 128, u64::MAX]);
        columns.differences("bc", [5, 3]);
        let mut expected = vec![VERSION, 1, b'a', 12, 0, 0x7f, 0x80, 0x01];
        // 2^53 - 1: seven groups of seven bits, and four more.
        expected.extend([0xff; 7]);
        expected.push(0x0f);
        // 5 and -2, zigzag-coded.
        expected.extend([2, b'b', b'c', 2, 10, 3]);
        assert_eq!(columns.encode(), expected);
    }
}
