//! The data of a page, decoded as `docs/page-data.md` describes it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The columns of all parts by name, still as bytes.
pub struct Page {
    columns: BTreeMap<String, Vec<u8>>,
    pub meta: Value,
}

/// When blocks of rows were allocated and freed.
pub struct Cells {
    pub rows: Vec<Vec<Cell>>,
    /// Number of buckets that are one, by row.
    pub widths: Vec<u64>,
}

pub struct Cell {
    pub allocated: u64,
    /// The bucket; `u64::MAX`: live at the end.
    pub freed: u64,
    pub blocks: u64,
    pub bytes: u64,
}

/// Blocks and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    pub blocks: u64,
    pub bytes: u64,
}

/// What of a range is counted.
#[derive(Clone, Copy)]
pub enum Mode {
    Allocated,
    /// Allocated, and live at its end.
    Kept,
    /// Live at its end.
    Alive,
}

impl Page {
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("it was written");
        let mut columns = BTreeMap::new();
        for element in text.split("<script type=\"text/plain\" id=\"data-").skip(1) {
            let (_, rest) = element.split_once("\">").expect("an element");
            let (data, _) = rest.split_once("</script>").expect("its end");
            add_columns(data, &mut columns);
        }
        let meta = serde_json::from_slice(&columns["meta"]).expect("JSON");
        Self { columns, meta }
    }

    /// A column of numbers; empty if there is none.
    pub fn numbers(&self, name: &str) -> Vec<u64> {
        let mut bytes = self.columns.get(name).map_or(&[][..], Vec::as_slice);
        let mut numbers = Vec::new();
        while !bytes.is_empty() {
            numbers.push(number(&mut bytes));
        }
        numbers
    }

    /// A column of differences, as the numbers that they lead to.
    pub fn sums(&self, name: &str) -> Vec<u64> {
        let mut sum = 0_i64;
        let differences = self.numbers(name).into_iter();
        let sums = differences.map(|it| {
            let half = (it / 2) as i64;
            sum += if it % 2 == 1 { -half - 1 } else { half };
            sum as u64
        });
        sums.collect()
    }

    /// The elements of a column, by row; `count` is the column of their numbers.
    pub fn by_row<T: Clone>(&self, count: &str, values: &[T]) -> Vec<Vec<T>> {
        let mut rest = values;
        let rows = self.numbers(count).into_iter().map(|count| {
            let (row, after) = rest.split_at(count as usize);
            rest = after;
            row.to_vec()
        });
        rows.collect()
    }

    pub fn cells(&self, name: &str) -> Cells {
        let column = |what: &str| self.numbers(&format!("{name}.{what}"));
        let (allocated, freed) = (column("allocated"), column("freed"));
        let (blocks, bytes) = (column("blocks"), column("bytes"));
        let mut at = 0;
        let rows = column("count").into_iter().map(|count| {
            let mut bucket = 0;
            let cells = (0..count).map(|_| {
                bucket += allocated[at];
                let cell = Cell {
                    allocated: bucket,
                    freed: match freed[at] {
                        0 => u64::MAX,
                        after => bucket + after - 1,
                    },
                    blocks: blocks[at],
                    bytes: bytes[at],
                };
                at += 1;
                cell
            });
            cells.collect::<Vec<_>>()
        });
        let rows: Vec<Vec<Cell>> = rows.collect();
        let mut widths: Vec<u64> = column("widened").iter().map(|&it| 1 << it).collect();
        widths.resize(rows.len(), 1);
        Cells { rows, widths }
    }
}

impl Cells {
    /// The least and the most of a row in the buckets `from..to`.
    pub fn bounds(&self, row: usize, [from, to]: [u64; 2], mode: Mode) -> [Sum; 2] {
        let mut bounds = [Sum::default(); 2];
        let width = self.widths[row];
        for cell in &self.rows[row] {
            let part = |bucket: u64| bucket - bucket % width;
            let born = [part(cell.allocated), part(cell.allocated) + width - 1];
            let died = match cell.freed {
                u64::MAX => [u64::MAX; 2],
                freed => [part(freed), part(freed) + width - 1],
            };
            // Certainly and perhaps.
            let is_born = [
                born[0] >= from && born[1] < to,
                born[1] >= from && born[0] < to,
            ];
            let is_before = [born[1] < to, born[0] < to];
            let lives = [died[0] >= to, died[1] >= to];
            for (at, bound) in bounds.iter_mut().enumerate() {
                let counts = match mode {
                    Mode::Allocated => is_born[at],
                    Mode::Kept => is_born[at] && lives[at],
                    Mode::Alive => is_before[at] && lives[at],
                };
                if counts {
                    bound.blocks += cell.blocks;
                    bound.bytes += cell.bytes;
                }
            }
        }
        bounds
    }
}

fn add_columns(data: &str, columns: &mut BTreeMap<String, Vec<u8>>) {
    let deflated = STANDARD.decode(data).expect("base64");
    let mut bytes = Vec::new();
    let mut inflated = flate2::read::DeflateDecoder::new(&deflated[..]);
    inflated.read_to_end(&mut bytes).expect("deflate");
    let (version, mut rest) = bytes.split_first().expect("a version");
    assert_eq!(*version, 5);
    while let Some((&length, after)) = rest.split_first() {
        let (name, after) = after.split_at(length.into());
        rest = after;
        let length = number(&mut rest) as usize;
        let (column, after) = rest.split_at(length);
        rest = after;
        let name = String::from_utf8(name.to_vec()).expect("a name");
        columns.insert(name, column.to_vec());
    }
}

/// Takes a LEB128 number.
fn number(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (&byte, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}
