//! The numbers of each process at regular times, and their text forms.

use std::collections::HashMap;
use std::io::{self, Write};

use allotrope_profile::{HeapCurve, Mark, RunTimes};
use allotrope_text::Style;
use allotrope_text::document::{Table, right};
use allotrope_text::numbers::{bytes, count};

/// The table of the lines, which are printed as they come.
fn table() -> Table {
    let columns = [
        ("time", 9),
        ("pid", 7),
        ("allocated", 11),
        ("deallocated", 11),
        ("live", 11),
        ("resident", 11),
        ("allocations/s", 13),
    ];
    let columns = columns.map(|(title, width)| right(title).at_least(width));
    Table::new(columns).indent(0).gap(1)
}

/// The head of the lines.
pub fn head() -> String {
    table().titles(Style::default()) + "\n"
}

/// A process at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Seconds since the start of the first process.
    pub seconds: f64,
    /// Number of the process in the recording.
    pub id: u32,
    pub pid: u32,
    /// When the process began, or its program after an `exec`, since the start of the first one.
    pub started: f64,
    pub allocated_bytes: u64,
    pub deallocated_bytes: u64,
    pub resident_bytes: u64,
    pub allocations: u64,
    pub deallocations: u64,
    /// The most bytes that were live since the row before, and when that was.
    pub most_live_bytes: u64,
    pub most_seconds: f64,
}

/// All processes together at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Total {
    /// Seconds since the start of the first process.
    pub seconds: f64,
    /// Bytes allocated since the start of the run, of all processes.
    pub allocated_bytes: u64,
    /// Bytes deallocated since the start of the run, of all processes.
    pub deallocated_bytes: u64,
    /// Live bytes of the processes that run.
    pub live_bytes: u64,
    /// Resident bytes of the processes that run.
    pub resident_bytes: u64,
    /// The most bytes that were live since the total before, and when that was. Of several processes the
    /// one counts whose own most adds most to what is live at the end of the time.
    pub most_live_bytes: u64,
    pub most_seconds: f64,
}

/// The rows of a recording.
pub struct Rows {
    /// Rows of each process, in order of start; those of one in order of time.
    processes: Vec<Vec<Row>>,
    /// The start of the first process, in seconds since 1970 UTC.
    started: f64,
    /// The named moments, in seconds since the start of the first process.
    pub marks: Vec<(String, f64)>,
    /// Resident memory is known. A log has none.
    pub has_resident: bool,
}

impl Row {
    pub fn live_bytes(&self) -> u64 {
        self.allocated_bytes.wrapping_sub(self.deallocated_bytes)
    }

    /// Writes a row of the CSV file.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{:.6},{},{},{},{},{},{},{}",
            self.seconds,
            self.pid,
            self.allocated_bytes,
            self.deallocated_bytes,
            self.live_bytes(),
            self.resident_bytes,
            self.allocations,
            self.deallocations
        )
    }

    /// A line for people. `before` has the time and the allocations of the last line; `None`: the rate
    /// is that since the process began.
    pub fn line(&self, before: Option<(f64, u64)>) -> String {
        let (time, allocations) = before.unwrap_or((self.started, 0));
        let passed = self.seconds - time;
        let more = self.allocations.saturating_sub(allocations);
        let rate = match passed > 0.0 {
            true => count((more as f64 / passed).round() as u64),
            false => "-".to_owned(),
        };
        let cells = [
            format!("{:.2} s", self.seconds),
            self.pid.to_string(),
            bytes(self.allocated_bytes),
            bytes(self.deallocated_bytes),
            bytes(self.live_bytes()),
            bytes(self.resident_bytes),
            rate,
        ];
        table().line(cells, Style::default()) + "\n"
    }
}

/// The time and the allocations of the last line of each process, by its number in the recording: after
/// an `exec` it has another one.
#[derive(Default)]
pub struct LastLines(HashMap<u32, (f64, u64)>);

impl LastLines {
    /// The next line.
    pub fn next(&mut self, row: &Row) -> String {
        let now = (row.seconds, row.allocations);
        let before = self.0.insert(row.id, now);
        row.line(before)
    }
}

impl Rows {
    /// The recording began at `started_unix_ns`, in nanoseconds since 1970 UTC.
    pub fn new(samples: Vec<HeapCurve>, run: &RunTimes, started_unix_ns: u64) -> Self {
        let seconds = |ns: u64| ns.saturating_sub(run.started_ns) as f64 / 1e9;
        let rows = |process: HeapCurve| {
            let resident = |ns: u64| {
                let resident = &process.resident;
                let after = resident.partition_point(|it| it.time_us <= ns / 1000);
                // Before the first one, that one is the best guess.
                let at = resident.get(after.saturating_sub(1));
                at.map_or(0, |it| it.program_bytes())
            };
            let row = |sample: &allotrope_profile::HeapPoint| Row {
                seconds: seconds(sample.time_ns),
                id: process.id,
                pid: process.pid,
                started: seconds(process.started_ns),
                allocated_bytes: sample.allocated_bytes,
                deallocated_bytes: sample.deallocated_bytes(),
                resident_bytes: resident(sample.time_ns),
                allocations: sample.allocations,
                deallocations: sample.deallocations,
                most_live_bytes: sample.most_live_bytes,
                most_seconds: seconds(sample.most_live_ns),
            };
            process.samples.iter().map(row).collect()
        };
        let mark = |mark: &Mark| (mark.name.clone(), seconds(mark.time_ns));
        Self {
            processes: samples.into_iter().map(rows).collect(),
            started: started_unix_ns.saturating_add(run.started_ns) as f64 / 1e9,
            marks: run.marks.iter().map(mark).collect(),
            has_resident: true,
        }
    }

    /// The rows of one process that a log has; it began at `started`, in seconds since 1970.
    pub fn of_log(rows: Vec<Row>, started: f64) -> Self {
        Self {
            processes: vec![rows],
            started,
            marks: Vec::new(),
            has_resident: false,
        }
    }

    /// The rows of each process.
    pub fn processes(&self) -> impl Iterator<Item = &[Row]> {
        self.processes.iter().map(Vec::as_slice)
    }

    /// All rows in order of time; at one time in order of the processes' start.
    pub fn in_order(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.processes.iter().flatten().collect();
        rows.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
        rows
    }

    /// All processes together, at each time at which there is a row.
    pub fn totals(&self) -> Vec<Total> {
        let numbered = self.processes.iter().enumerate();
        let mut rows: Vec<(usize, usize)> = numbered
            .flat_map(|(process, rows)| (0..rows.len()).map(move |at| (process, at)))
            .collect();
        let row = |&(process, at): &(usize, usize)| self.processes[process][at];
        rows.sort_by(|one, other| row(one).seconds.total_cmp(&row(other).seconds));
        let mut totals = Vec::new();
        let mut total = Total::default();
        for same_time in rows.chunk_by(|one, other| row(one).seconds == row(other).seconds) {
            let mut ended = [0_u64; 2];
            let mut most = (0, 0.0);
            for &(process, at) in same_time {
                let of_process = &self.processes[process];
                let now = of_process[at];
                let before = at.checked_sub(1).map(|before| of_process[before]);
                let change = |sum: &mut u64, of: fn(&Row) -> u64| {
                    let was = before.as_ref().map_or(0, of);
                    *sum = sum.wrapping_add(of(&now)).wrapping_sub(was);
                };
                total.seconds = now.seconds;
                change(&mut total.allocated_bytes, |it| it.allocated_bytes);
                change(&mut total.deallocated_bytes, |it| it.deallocated_bytes);
                change(&mut total.live_bytes, Row::live_bytes);
                change(&mut total.resident_bytes, |it| it.resident_bytes);
                let more = now.most_live_bytes.saturating_sub(now.live_bytes());
                if more > most.0 {
                    most = (more, now.most_seconds);
                }
                if at + 1 == of_process.len() {
                    ended[0] = ended[0].wrapping_add(now.live_bytes());
                    ended[1] = ended[1].wrapping_add(now.resident_bytes);
                }
            }
            total.most_live_bytes = total.live_bytes.saturating_add(most.0);
            total.most_seconds = if most.0 > 0 { most.1 } else { total.seconds };
            totals.push(total);
            total.live_bytes = total.live_bytes.wrapping_sub(ended[0]);
            total.resident_bytes = total.resident_bytes.wrapping_sub(ended[1]);
        }
        totals
    }

    /// Writes a CSV file (RFC 4180, but with line feeds only).
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{CSV_HEAD}")?;
        self.in_order()
            .into_iter()
            .try_for_each(|row| row.write_csv(out))
    }

    /// Writes a line for each time: seconds since 1970 UTC, bytes allocated and freed.
    pub fn write_log(&self, out: &mut dyn Write) -> io::Result<()> {
        for total in self.totals() {
            let time = (self.started + total.seconds) as u64;
            write_log_line(time, total.allocated_bytes, total.deallocated_bytes, out)?;
        }
        Ok(())
    }

    /// Writes a line for each time, of all processes together.
    pub fn write_totals(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(head().as_bytes())?;
        for total in self.totals() {
            let unknown = || "-".to_owned();
            let cells = [
                format!("{:.2} s", total.seconds),
                unknown(),
                bytes(total.allocated_bytes),
                bytes(total.deallocated_bytes),
                bytes(total.live_bytes),
                unknown(),
                unknown(),
            ];
            writeln!(out, "{}", table().line(cells, Style::default()))?;
        }
        Ok(())
    }
}

/// Writes a line of a log: seconds since 1970 UTC, bytes allocated and freed.
pub fn write_log_line(
    time: u64,
    allocated: u64,
    deallocated: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "Time: {time}, Allocated: {allocated}, Deallocated: {deallocated}"
    )
}

/// The first line of the CSV file.
pub const CSV_HEAD: &str = "seconds,pid,allocated_bytes,deallocated_bytes,live_bytes,resident_bytes,allocations,deallocations";

/// Whether a file that begins so is a CSV file of [`Rows::write_csv`].
pub fn is_csv(head: &[u8]) -> bool {
    head.strip_prefix(CSV_HEAD.as_bytes())
        .is_some_and(|rest| rest.starts_with(b"\n"))
}

/// Whether a file that begins so is a log of [`Rows::write_log`].
pub fn is_log(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split_inclusive('\n').peekable();
    let is_line = |line: &str| {
        let without_digits = line.replace(|it: char| it.is_ascii_digit(), "");
        // The last one may be cut.
        without_digits == "Time: , Allocated: , Deallocated: \n" || !line.ends_with('\n')
    };
    lines.peek().is_some_and(|line| line.ends_with('\n')) && lines.all(is_line)
}

#[cfg(test)]
mod tests;
