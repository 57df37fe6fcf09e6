//! The live bytes of some sites over time, as a line of bars.

use allotrope_profile::TimeTable;

use crate::numbers::{bytes, duration};
use crate::selection::Row;

/// Columns of the line.
const COLUMNS: usize = 40;
/// From nothing to the most.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The live bytes of a row's sites over the time of their process, and the most of them;
/// `None` without a time table, or if nothing was live at the end of any of its buckets.
pub(super) fn curve(row: &Row<'_>) -> Option<String> {
    let table = row.process.times.as_ref()?;
    let first = row.process.sites.first()?.number;
    let sites = row.sites.iter().map(|site| site.number - first);
    let live = table.live_at_ends(sites.flat_map(|site| table.cells_of(site)));
    let live: Vec<u64> = live.iter().map(|live| live.bytes).collect();
    let most = live.iter().copied().max().filter(|&most| most > 0)?;
    let bars = columns(table, &live)
        .into_iter()
        .map(|bytes| bar(bytes, most));
    let bars: String = bars.collect();
    let ran = duration(row.process.duration_us as f64);
    Some(format!(
        "{bars}  up to {} live, in {ran}",
        self::bytes(most)
    ))
}

/// The most that was live in each column's part of the time; `live` has what was live at the
/// end of each bucket.
fn columns(table: &TimeTable, live: &[u64]) -> [u64; COLUMNS] {
    let from = table.starts_ns.first().copied().unwrap_or(0);
    let span = u128::from(table.end_ns.saturating_sub(from)).max(1);
    let mut columns = [0; COLUMNS];
    let mut next = 0;
    let mut before = 0;
    for (bucket, &live) in live.iter().enumerate() {
        let end = table.starts_ns.get(bucket + 1).copied();
        let end = end.unwrap_or(table.end_ns).saturating_sub(from);
        // The column in which the bucket ends.
        let column = (u128::from(end) * COLUMNS as u128).div_ceil(span) as usize;
        let column = column.clamp(1, COLUMNS) - 1;
        // Columns within one bucket have what was live before it.
        while next <= column {
            columns[next] = before;
            next += 1;
        }
        columns[column] = columns[column].max(live);
        before = live;
    }
    columns
}

fn bar(bytes: u64, most: u64) -> char {
    let steps = (BARS.len() - 1) as u128;
    let step = (u128::from(bytes) * steps).div_ceil(u128::from(most));
    BARS[step.min(steps) as usize]
}

#[cfg(test)]
mod tests {
    use allotrope_profile::{LIVE_AT_END, TimeCell};

    use super::*;

    fn table(starts_ns: Vec<u64>, cells: &[(u16, u16, u64)]) -> TimeTable {
        let cell = |&(allocated, freed, bytes): &(u16, u16, u64)| TimeCell {
            site: 0,
            allocated,
            freed,
            blocks: 1,
            bytes,
        };
        TimeTable {
            starts_ns,
            end_ns: 4_000,
            cells: cells.iter().map(cell).collect(),
            widened: Vec::new(),
        }
    }

    #[test]
    fn a_column_has_the_most_of_its_part_of_the_time() {
        // Four buckets of 1000 ns; 80 bytes in the second, 8 from there to the end.
        let table = table(
            vec![0, 1_000, 2_000, 3_000],
            &[(1, 2, 72), (1, LIVE_AT_END, 8)],
        );
        let live = table.live_at_ends(table.cells_of(0));
        let live: Vec<u64> = live.iter().map(|live| live.bytes).collect();
        assert_eq!(live, [0, 80, 8, 8]);
        let columns = columns(&table, &live);
        // A bucket is ten columns; what is live is known at its end.
        assert_eq!(columns[..19], [0; 19]);
        assert_eq!(columns[19], 80);
        assert_eq!(columns[29], 80);
        assert_eq!(columns[39], 8);
        let bars: String = columns.iter().map(|&bytes| bar(bytes, 80)).collect();
        assert!(bars.ends_with('▁'), "{bars}");
        assert!(bars.contains('█'), "{bars}");
        assert_eq!((bar(0, 80), bar(1, 80), bar(80, 80)), (' ', '▁', '█'));
    }
}
