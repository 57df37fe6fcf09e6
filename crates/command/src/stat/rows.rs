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
}

/// The rows of a recording.
pub struct Rows {
    /// Rows of each process, in order of start; those of one in order of time.
    processes: Vec<Vec<Row>>,
    /// The start of the first process, in seconds since 1970 UTC.
    started: f64,
    /// The named moments, in seconds since the start of the first process.
    pub marks: Vec<(String, f64)>,
}

impl Row {
    pub fn live_bytes(&self) -> u64 {
        self.allocated_bytes.wrapping_sub(self.deallocated_bytes)
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
            };
            process.samples.iter().map(row).collect()
        };
        let mark = |mark: &Mark| (mark.name.clone(), seconds(mark.time_ns));
        Self {
            processes: samples.into_iter().map(rows).collect(),
            started: started_unix_ns.saturating_add(run.started_ns) as f64 / 1e9,
            marks: run.marks.iter().map(mark).collect(),
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
                if at + 1 == of_process.len() {
                    ended[0] = ended[0].wrapping_add(now.live_bytes());
                    ended[1] = ended[1].wrapping_add(now.resident_bytes);
                }
            }
            totals.push(total);
            total.live_bytes = total.live_bytes.wrapping_sub(ended[0]);
            total.resident_bytes = total.resident_bytes.wrapping_sub(ended[1]);
        }
        totals
    }

    /// Writes a CSV file (RFC 4180, but with line feeds only).
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{CSV_HEAD}")?;
        for row in self.in_order() {
            writeln!(
                out,
                "{:.6},{},{},{},{},{},{},{}",
                row.seconds,
                row.pid,
                row.allocated_bytes,
                row.deallocated_bytes,
                row.live_bytes(),
                row.resident_bytes,
                row.allocations,
                row.deallocations
            )?;
        }
        Ok(())
    }

    /// Writes a line for each time: seconds since 1970 UTC, bytes allocated and freed.
    pub fn write_log(&self, out: &mut dyn Write) -> io::Result<()> {
        for total in self.totals() {
            let time = (self.started + total.seconds) as u64;
            let (allocated, deallocated) = (total.allocated_bytes, total.deallocated_bytes);
            writeln!(
                out,
                "Time: {time}, Allocated: {allocated}, Deallocated: {deallocated}"
            )?;
        }
        Ok(())
    }
}

/// The first line of the CSV file.
const CSV_HEAD: &str = "seconds,pid,allocated_bytes,deallocated_bytes,live_bytes,resident_bytes,allocations,deallocations";

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
mod tests {
    use super::*;
    use allotrope_profile::{HeapPoint, ResidentPoint};

    fn process(pid: u32, samples: &[(u64, u64, u64)]) -> HeapCurve {
        let sample = |&(seconds, allocated_bytes, live_bytes): &(u64, u64, u64)| HeapPoint {
            time_ns: seconds * 1_000_000_000,
            allocated_bytes,
            live_bytes,
            allocations: allocated_bytes / 10,
            deallocations: 0,
        };
        HeapCurve {
            id: pid,
            pid,
            // Half a second before its first sample.
            started_ns: samples[0].0 * 1_000_000_000 - 500_000_000,
            executable: "/bin/x".into(),
            samples: samples.iter().map(sample).collect(),
            resident: vec![ResidentPoint {
                time_us: 1_500_000,
                bytes: 6000,
                recorder_bytes: Some(1000),
            }],
        }
    }

    fn rows() -> Rows {
        let run = RunTimes {
            started_ns: 1_000_000_000,
            ..RunTimes::default()
        };
        let samples = vec![
            process(7, &[(2, 100, 60), (3, 200, 50)]),
            process(8, &[(3, 30, 30), (4, 40, 20)]),
        ];
        Rows::new(samples, &run, 500_000_000_000)
    }

    #[test]
    fn the_csv_file_has_a_row_for_each_process_and_time() {
        let mut csv = Vec::new();
        rows().write_csv(&mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        let lines: Vec<&str> = csv.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "1.000000,7,100,40,60,5000,10,0",
                "2.000000,7,200,150,50,5000,20,0",
                "2.000000,8,30,0,30,5000,3,0",
                "3.000000,8,40,20,20,5000,4,0",
            ]
        );
    }

    #[test]
    fn totals_drop_what_was_live_in_processes_that_have_ended() {
        let totals = rows().totals();
        let seen: Vec<_> = totals
            .iter()
            .map(|it| {
                (
                    it.seconds,
                    it.allocated_bytes,
                    it.live_bytes,
                    it.resident_bytes,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (1.0, 100, 60, 5000),
                (2.0, 230, 80, 10_000),
                (3.0, 240, 20, 5000)
            ]
        );
        let mut log = Vec::new();
        rows().write_log(&mut log).unwrap();
        let log = String::from_utf8(log).unwrap();
        assert!(
            log.starts_with("Time: 502, Allocated: 100, Deallocated: 40\n"),
            "{log}"
        );
    }

    /// Nothing is known of the time before a process began.
    #[test]
    fn a_rate_is_that_of_the_time_in_which_the_process_ran() {
        let rate = |line: &str| line.split_whitespace().last().map(str::to_owned);
        let mut last = LastLines::default();
        let rows = rows();
        let lines = rows.in_order().into_iter().map(|row| last.next(row));
        let rates: Vec<_> = lines.filter_map(|line| rate(&line)).collect();
        // 10 in half a second, then 10 more in a second; 3 in half a second, then one in a second.
        assert_eq!(rates, ["20", "10", "6", "1"]);
        // Another program, which counts from 0.
        let mut row = *rows.in_order()[3];
        (row.id, row.started, row.seconds, row.allocations) = (9, 3.5, 4.0, 40);
        assert_eq!(rate(&last.next(&row)).as_deref(), Some("80"));
    }

    #[test]
    fn lines_fit_80_columns() {
        let line = rows().processes[0][0].line(None);
        let head = head();
        assert!(head.trim_end().len() <= 80 && line.trim_end().len() == head.trim_end().len());
    }
}
