//! The cells of the time tables of a recording, in a bounded number.
//!
//! If there are too many, those of the stacks with the fewest bytes get coarser times, in
//! steps of a factor of two. If even one cell for each stack is too much, the lightest stacks
//! become one. Sums of allocations and bytes remain exact.

use allotrope_profile::{LIVE_AT_END, Process, Profile, TimeCell, TimeTable};

/// The stack of cells that stand for several.
pub(super) const OTHER_SITES: u32 = u32::MAX;
/// The binary logarithm of the widest buckets: all times are one bucket.
const WIDEST: u8 = 16;

/// The cells of a process, in order of site, with the times of each.
pub(super) struct Cells<'a> {
    table: &'a TimeTable,
    pub cells: Vec<Cell>,
}

/// Blocks of a site that were allocated in one span of time and freed in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    /// Cell of the time table; its site may be [`OTHER_SITES`].
    pub cell: TimeCell,
    /// The binary logarithm of how many buckets a span has.
    width: u8,
}

impl Cells<'_> {
    /// When the blocks of a cell were allocated and freed, in nanoseconds since the start of
    /// the recording: a third and two thirds into the spans. So what is allocated and freed in
    /// any range of whole spans is so by these times, too.
    pub fn times(&self, cell: &Cell) -> (u64, Option<u64>) {
        let within = |bucket: u16, thirds: u64| {
            let (start, end) = self.span(bucket, cell.width);
            start + (end - start) / 3 * thirds
        };
        let freed = (cell.cell.freed != LIVE_AT_END).then(|| within(cell.cell.freed, 2));
        (within(cell.cell.allocated, 1), freed)
    }

    /// The start and end of the span that begins with a bucket.
    fn span(&self, bucket: u16, width: u8) -> (u64, u64) {
        let starts = &self.table.starts_ns;
        let end_of_table = self.table.end_ns;
        let at = |bucket: usize| starts.get(bucket).copied().unwrap_or(end_of_table);
        let start = at(usize::from(bucket));
        let end = at(usize::from(bucket).saturating_add(1 << width));
        (start, end.max(start))
    }
}

/// The number of cells of all processes.
pub(super) fn count(profile: &Profile) -> usize {
    let tables = profile.processes.iter().filter_map(|it| it.times.as_ref());
    tables.map(|table| table.cells.len()).sum()
}

/// The cells of each process that has a time table, at most `most` for all of them.
pub(super) fn bounded(profile: &Profile, most: usize) -> Vec<(&Process, Cells<'_>)> {
    let processes = profile.processes.iter();
    let mut all: Vec<(&Process, Cells<'_>)> = processes
        .filter_map(|process| Some((process, of_table(process.times.as_ref()?))))
        .collect();
    let total: usize = all.iter().map(|(_, cells)| cells.cells.len()).sum();
    if total > most {
        // Processes share the rows by their cells.
        for (_, cells) in &mut all {
            let share = cells.cells.len() as u128 * most as u128 / total as u128;
            coarsen(&mut cells.cells, (share as usize).max(1));
        }
    }
    all
}

fn of_table(table: &TimeTable) -> Cells<'_> {
    let width = |site: u32| table.widened.get(site as usize).copied().unwrap_or(0);
    let cells = table.cells.iter().map(|&cell| Cell {
        width: width(cell.site),
        cell,
    });
    Cells {
        cells: cells.collect(),
        table,
    }
}

/// Makes the times of the lightest sites coarser until there are at most so many cells.
fn coarsen(cells: &mut Vec<Cell>, most: usize) {
    let mut sites: Vec<Vec<Cell>> = cells
        .chunk_by(|a, b| a.cell.site == b.cell.site)
        .map(<[Cell]>::to_vec)
        .collect();
    let mut total = cells.len();
    sites.sort_by_key(|site| {
        site.iter()
            .map(|it| u128::from(it.cell.bytes))
            .sum::<u128>()
    });
    for width in 1..=WIDEST {
        for site in &mut sites {
            if total <= most {
                break;
            }
            total -= site.len();
            widen(site, width);
            total += site.len();
        }
    }
    // A cell of blocks that were freed, and one of those that were live at the end.
    let mut others = Vec::new();
    let mut lightest = sites.iter_mut();
    while total + others.len() > most
        && let Some(site) = lightest.next()
    {
        total -= site.len();
        others.extend(site.drain(..).map(|mut it| {
            it.cell.site = OTHER_SITES;
            it
        }));
        widen(&mut others, WIDEST);
    }
    sites.push(others);
    sites.sort_by_key(|site| site.first().map_or(OTHER_SITES, |it| it.cell.site));
    *cells = sites.into_iter().flatten().collect();
}

/// Widens the spans of one site's cells, and adds up equal ones.
fn widen(cells: &mut Vec<Cell>, width: u8) {
    let start = |bucket: u16| match u32::from(width) {
        16.. => 0,
        width => bucket >> width << width,
    };
    for Cell { cell, width: own } in cells.iter_mut() {
        if *own < width {
            *own = width;
            cell.allocated = start(cell.allocated);
            if cell.freed != LIVE_AT_END {
                cell.freed = start(cell.freed);
            }
        }
    }
    cells.sort_by_key(|it| (it.cell.allocated, it.cell.freed));
    cells.dedup_by(|other, sum| {
        let key = |it: &Cell| (it.cell.allocated, it.cell.freed, it.width);
        let is_equal = key(other) == key(sum);
        if is_equal {
            sum.cell.blocks += other.cell.blocks;
            sum.cell.bytes = sum.cell.bytes.wrapping_add(other.cell.bytes);
        }
        is_equal
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells of a site that allocates a block of so many bytes in each of 256 buckets.
    fn site(number: u32, bytes: u64) -> impl Iterator<Item = Cell> {
        (0..256).map(move |bucket| Cell {
            cell: TimeCell {
                site: number,
                allocated: bucket,
                freed: if bucket < 200 { bucket } else { LIVE_AT_END },
                blocks: 1,
                bytes,
            },
            width: 0,
        })
    }

    fn sums(cells: &[Cell]) -> (u64, u64) {
        let sum = |of: fn(&TimeCell) -> u64| cells.iter().map(|it| of(&it.cell)).sum();
        (sum(|cell| cell.blocks), sum(|cell| cell.bytes))
    }

    #[test]
    fn the_lightest_sites_become_coarser_and_sums_remain() {
        let mut cells: Vec<Cell> = site(0, 1000).chain(site(1, 1)).collect();
        let before = sums(&cells);
        // 256 of the heavy site, and 128 of the light one, in steps of a factor of two.
        coarsen(&mut cells, 400);
        assert_eq!(cells.len(), 256 + 128);
        assert_eq!(sums(&cells), before);
        let heavy: Vec<Cell> = cells
            .iter()
            .copied()
            .filter(|it| it.cell.site == 0)
            .collect();
        assert!(heavy.into_iter().eq(site(0, 1000)));
    }

    #[test]
    fn more_sites_than_cells_are_allowed_become_one() {
        let mut cells: Vec<Cell> = (0..50)
            .flat_map(|number| site(number, 1 + u64::from(number)))
            .collect();
        let before = sums(&cells);
        coarsen(&mut cells, 20);
        assert!(cells.len() <= 20);
        assert_eq!(sums(&cells), before);
        // The heaviest site has cells of its own.
        assert!(cells.iter().any(|it| it.cell.site == 49));
        assert!(cells.iter().any(|it| it.cell.site == OTHER_SITES));
    }

    #[test]
    fn times_are_inside_of_their_spans() {
        let mut table = TimeTable::default();
        table.starts_ns = vec![0, 30, 60];
        table.end_ns = 90;
        let cell = |allocated, freed, width| Cell {
            cell: TimeCell {
                site: 0,
                allocated,
                freed,
                blocks: 1,
                bytes: 1,
            },
            width,
        };
        let cells = Cells {
            table: &table,
            cells: Vec::new(),
        };
        assert_eq!(cells.times(&cell(0, 0, 0)), (10, Some(20)));
        assert_eq!(cells.times(&cell(1, 2, 0)), (40, Some(80)));
        assert_eq!(cells.times(&cell(2, LIVE_AT_END, 0)), (70, None));
        assert_eq!(cells.times(&cell(0, 0, 16)), (30, Some(60)));
    }
}
