//! The live bytes of a row's sites over time, as a line of bars.

use crate::numbers::{bytes, duration};
use crate::selection::Row;
use crate::text::chart;

/// Columns of the line.
const COLUMNS: usize = 40;

/// The live bytes of a row's sites over the time of their process, and the most of them;
/// `None` without a time table, or if nothing was live at the end of any of its buckets.
pub(super) fn curve(row: &Row<'_>) -> Option<String> {
    let columns = chart::of_sites(row.process, row.sites.iter().copied(), COLUMNS)?;
    let most = columns.iter().copied().max().unwrap_or(0);
    let ran = duration(row.process.duration_us as f64);
    Some(format!(
        "{}  up to {} live, in {ran}",
        chart::bars(&columns),
        bytes(most)
    ))
}
