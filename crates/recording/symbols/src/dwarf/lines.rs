//! Source positions from a unit's line program.
//!
//! The rows are not stored: one pass over the program picks those that contain a
//! requested address.

use gimli::{ColumnType, LineRow};

use super::budget::Budget;
use super::bytes::UnitRef;

/// A source position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Index into the unit's file table.
    pub(super) file: u64,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// The position of each of the sorted `addresses`.
pub(super) fn positions(
    unit: UnitRef<'_, '_>,
    addresses: &[u64],
    budget: &Budget,
) -> Vec<Option<Position>> {
    let mut found = vec![None; addresses.len()];
    // If a sequence is damaged, those before it are used.
    let _ = run_program(unit, addresses, budget, &mut found);
    found
}

/// Every address at which a row begins or a sequence ends, unsorted.
pub(super) fn boundaries(unit: UnitRef<'_, '_>, budget: &Budget) -> Vec<u64> {
    let mut found = Vec::new();
    let program = unit.line_program.clone();
    let mut last = None;
    if let Some(mut rows) = program.map(gimli::IncompleteLineProgram::rows) {
        while let Ok(Some((_, row))) = rows.next_row() {
            if budget.spend(1).is_none() {
                break;
            }
            // A row with the same position as the one before is no boundary.
            let new = (!row.end_sequence()).then(|| position(row));
            if new != last || found.is_empty() || new.is_none() {
                found.push(row.address());
            }
            last = new;
        }
    }
    found
}

fn run_program(
    unit: UnitRef<'_, '_>,
    addresses: &[u64],
    budget: &Budget,
    found: &mut [Option<Position>],
) -> Option<()> {
    let mut rows = unit.line_program.clone()?.rows();
    let mut sequence: Vec<(u64, Position)> = Vec::new();
    while let Some((_, row)) = rows.next_row().ok()? {
        budget.spend(1)?;
        if row.end_sequence() {
            take_sequence(&sequence, row.address(), addresses, found);
            sequence.clear();
            continue;
        }
        let position = position(row);
        match sequence.last_mut() {
            // Of several rows at one address the last describes its code.
            Some(last) if last.0 == row.address() => last.1 = position,
            _ => sequence.push((row.address(), position)),
        }
    }
    Some(())
}

fn position(row: &LineRow) -> Position {
    let line = row.line().map_or(0, std::num::NonZero::get);
    let column = match row.column() {
        // A column without a line means nothing.
        ColumnType::Column(column) if line != 0 => column.get(),
        _ => 0,
    };
    Position {
        file: row.file_index(),
        line: u32::try_from(line).unwrap_or(0),
        column: u32::try_from(column).unwrap_or(0),
    }
}

/// Finds positions in one sequence, whose rows are sorted by address. `end` is the first
/// address after it.
fn take_sequence(
    rows: &[(u64, Position)],
    end: u64,
    addresses: &[u64],
    found: &mut [Option<Position>],
) {
    // Like the functions, sequences of code that the linker dropped start at 0.
    let Some(start) = rows.first().map(|row| row.0).filter(|start| *start != 0) else {
        return;
    };
    let first = addresses.partition_point(|address| *address < start);
    for (address, found) in addresses[first..].iter().zip(&mut found[first..]) {
        if *address >= end {
            break;
        }
        let after = rows.partition_point(|row| row.0 <= *address);
        if let Some((_, position)) = after.checked_sub(1).and_then(|index| rows.get(index)) {
            found.get_or_insert(*position);
        }
    }
}

/// The path of a file in the unit's table, joined with its directory and the unit's.
/// `..` stays in it.
pub(super) fn file_path(unit: UnitRef<'_, '_>, index: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index)?;
    let mut path = String::new();
    if let Some(folder) = unit.comp_dir {
        path.push_str(&folder.to_string_lossy());
    }
    // Directory 0 is the unit's.
    if file.directory_index() != 0
        && let Some(folder) = file.directory(header)
    {
        push_path(&mut path, &unit.attr_string(folder).ok()?.to_string_lossy());
    }
    push_path(
        &mut path,
        &unit.attr_string(file.path_name()).ok()?.to_string_lossy(),
    );
    Some(path)
}

/// The MD5 sum of a file in the unit's table as the compiler read it; gcc writes none.
pub(super) fn file_md5(unit: UnitRef<'_, '_>, index: u64) -> Option<[u8; 16]> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index).filter(|_| header.file_has_md5())?;
    Some(*file.md5())
}

fn push_path(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn line(line: u32) -> Position {
        Position {
            file: 1,
            line,
            column: 0,
        }
    }

    fn lines(rows: &[(u64, Position)], end: u64, addresses: &[u64]) -> Vec<Option<u32>> {
        let mut found = vec![None; addresses.len()];
        take_sequence(rows, end, addresses, &mut found);
        found.into_iter().map(|found| Some(found?.line)).collect()
    }

    #[test]
    fn a_row_extends_to_the_next() {
        let rows = [(10, line(1)), (20, line(2))];
        let found = lines(&rows, 30, &[9, 10, 19, 20, 29, 30]);
        assert_eq!(found, [None, Some(1), Some(1), Some(2), Some(2), None]);
    }

    #[test]
    fn a_sequence_at_zero_is_ignored() {
        assert_eq!(lines(&[(0, line(1))], 30, &[10]), [None]);
    }

    #[test]
    fn an_absolute_part_replaces_the_path() {
        let mut path = String::from("/build");
        push_path(&mut path, "src");
        push_path(&mut path, "a.c");
        assert_eq!(path, "/build/src/a.c");
        push_path(&mut path, "/usr/include/b.h");
        assert_eq!(path, "/usr/include/b.h");
    }
}
