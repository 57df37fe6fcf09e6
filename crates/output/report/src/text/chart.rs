//! Live bytes over time, drawn with bars.

use allotrope_profile::{Process, Site, TimeCell, TimeTable};

/// Bars from nothing to the most.
pub(super) const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A series of values over time, each the value at the end of a part of it.
pub(super) struct Step {
    /// The end of the part, in nanoseconds.
    pub end_ns: u64,
    /// The largest value in it.
    pub most: u64,
    /// The value at its end.
    pub last: u64,
}

/// The most in each of `count` equal parts of the time from `from_ns` to `end_ns`.
pub(super) fn columns(steps: &[Step], [from_ns, end_ns]: [u64; 2], count: usize) -> Vec<u64> {
    let span = u128::from(end_ns.saturating_sub(from_ns)).max(1);
    let mut columns = vec![0; count];
    let mut next = 0;
    let mut before = 0;
    for step in steps {
        let end = step.end_ns.saturating_sub(from_ns);
        // The column in which the step ends.
        let column = (u128::from(end) * count as u128).div_ceil(span) as usize;
        let column = column.clamp(1, count) - 1;
        // Columns within one step have what was live before it.
        while next <= column {
            columns[next] = before;
            next += 1;
        }
        columns[column] = columns[column].max(step.most);
        before = step.last;
    }
    columns[next..].fill(before);
    columns
}

/// One bar for each value.
pub(super) fn bars(values: &[u64]) -> String {
    let most = values.iter().copied().max().unwrap_or(0);
    values.iter().map(|&value| bar(value, most)).collect()
}

/// The bar of a value: the higher, the nearer to `most`.
pub(super) fn bar(value: u64, most: u64) -> char {
    let steps = (BARS.len() - 1) as u128;
    let step = (u128::from(value) * steps).div_ceil(u128::from(most.max(1)));
    BARS[step.min(steps) as usize]
}

/// The live bytes of a process over its time.
pub(super) fn of_process(process: &Process, count: usize) -> Option<Vec<u64>> {
    let series = &process.live;
    if series.samples.is_empty() {
        return None;
    }
    let ends = (1..).map(|n: u64| {
        series
            .from_ns
            .saturating_add(series.width_ns.saturating_mul(n))
    });
    let steps = series
        .samples
        .iter()
        .zip(ends)
        .map(|(sample, end_ns)| Step {
            end_ns,
            most: sample.max_bytes,
            last: sample.bytes,
        });
    let steps: Vec<Step> = steps.collect();
    Some(columns(&steps, span(process), count))
}

/// Returns the start and the end of a process, in nanoseconds.
fn span(process: &Process) -> [u64; 2] {
    let started = process.started_us.saturating_mul(1000);
    [
        started,
        started.saturating_add(process.duration_us.saturating_mul(1000)),
    ]
}

/// The live bytes of some sites of a process over its time; `None` without a time table,
/// or if nothing was live at the end of any of its buckets.
pub(super) fn of_sites<'a>(
    process: &Process,
    sites: impl Iterator<Item = &'a Site>,
    count: usize,
) -> Option<Vec<u64>> {
    let table = process.times.as_ref()?;
    let first = process.sites.first()?.number;
    let sites = sites.map(|site| site.number - first);
    of_cells(table, sites.flat_map(|site| table.cells_of(site)), count)
}

/// The live bytes of what a thread of a process allocated, by the thread's index; `None`
/// without a time table of threads, or if nothing was live at the end of any of its buckets.
pub(super) fn of_thread(process: &Process, thread: u32, count: usize) -> Option<Vec<u64>> {
    let table = process.thread_times.as_ref()?;
    of_cells(table, table.cells_of(thread), count)
}

fn of_cells<'a>(
    table: &TimeTable,
    cells: impl IntoIterator<Item = &'a TimeCell>,
    count: usize,
) -> Option<Vec<u64>> {
    let live = table.live_at_ends(cells);
    if live.iter().all(|live| live.bytes == 0) {
        return None;
    }
    let ends = table.starts_ns.iter().skip(1).copied();
    let steps = live
        .iter()
        .zip(ends.chain([table.end_ns]))
        .map(|(live, end_ns)| Step {
            end_ns,
            most: live.bytes,
            last: live.bytes,
        });
    let steps: Vec<Step> = steps.collect();
    let from = table.starts_ns.first().copied().unwrap_or(0);
    Some(columns(&steps, [from, table.end_ns], count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(values: &[(u64, u64, u64)]) -> Vec<Step> {
        let step = |&(end_ns, most, last): &(u64, u64, u64)| Step { end_ns, most, last };
        values.iter().map(step).collect()
    }

    #[test]
    fn a_column_has_the_most_of_its_part_of_the_time() {
        // Four parts of 1000 ns; 80 bytes in the second, 8 from there to the end.
        let steps = steps(&[(1_000, 0, 0), (2_000, 80, 80), (3_000, 8, 8), (4_000, 8, 8)]);
        let columns = columns(&steps, [0, 4_000], 40);
        // A part is ten columns; what is live is known at its end.
        assert_eq!(columns[..19], [0; 19]);
        assert_eq!(columns[19..29], [80; 10]);
        // The column in which the third part ends begins with what was live before.
        assert_eq!(columns[39], 8);
    }

    #[test]
    fn what_is_live_at_the_end_of_the_steps_stays() {
        let steps = steps(&[(1_000, 90, 30)]);
        assert_eq!(columns(&steps, [0, 4_000], 4), [90, 30, 30, 30]);
        assert_eq!(columns(&[], [0, 0], 2), [0, 0]);
    }

    #[test]
    fn bars_rise_with_values() {
        assert_eq!(bars(&[0, 1, 40, 80]), " ▁▄█");
        assert_eq!(bars(&[0, 0]), "  ");
        assert_eq!(bar(u64::MAX, u64::MAX), '█');
    }
}
