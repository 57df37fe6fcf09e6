//! Reads a log of lines `Time: 1717171717, Allocated: 12345, Deallocated: 2345`: one that `stat --log` wrote,
//! or a program itself, with the crate stats_alloc.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use allotrope_files::open_regular;
use anyhow::{Context, Result, anyhow, bail};

use super::MAX_INTERVALS;
use super::rows::{Row, Rows, is_log};

/// Longest line.
const MAX_LINE: u64 = 200;
/// Bytes by which a log is recognised.
const HEAD: u64 = 64 << 10;

/// Whether a file is such a log.
pub fn is_such(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = |file: File| file.take(HEAD).read_to_end(&mut head);
    open_regular(path).and_then(read).is_ok() && is_log(&head)
}

/// Reads a log.
pub fn read(path: &Path) -> Result<Rows> {
    let file = open_regular(path).context("cannot be opened")?;
    parse(BufReader::new(file))
}

/// A line: time, bytes allocated and freed.
type Line = (u64, u64, u64);

fn parse(mut input: impl BufRead) -> Result<Rows> {
    let mut lines: Vec<Line> = Vec::new();
    let mut text = String::new();
    for number in 1_u64.. {
        text.clear();
        let read = (&mut input).take(MAX_LINE).read_line(&mut text);
        if read.with_context(|| format!("line {number} cannot be read"))? == 0 {
            break;
        }
        match line(text.trim_end()) {
            Some(line) => lines.push(line),
            // The program was ended while it wrote.
            None if !text.ends_with('\n') && text.len() < MAX_LINE as usize => break,
            None if text.trim().is_empty() => {}
            None => bail!("line {number} is none of `Time: …, Allocated: …, Deallocated: …`"),
        }
        if lines.len() as u64 > MAX_INTERVALS {
            bail!("it has more than {MAX_INTERVALS} lines");
        }
    }
    let first = lines.first().ok_or_else(|| anyhow!("it has no lines"))?.0;
    if let Some(at) = lines.windows(2).position(|it| it[1].0 < it[0].0) {
        bail!(
            "the time of line {} is before that of the line above",
            at + 2
        );
    }
    let mut rows = Vec::with_capacity(lines.len());
    // Times are whole seconds: several lines of one second are spread over it.
    for same in lines.chunk_by(|one, other| one.0 == other.0) {
        for (at, &(time, allocated_bytes, freed)) in same.iter().enumerate() {
            let seconds = (time - first) as f64 + at as f64 / same.len() as f64;
            // More cannot have been freed: the counters were not read at one moment.
            let deallocated_bytes = freed.min(allocated_bytes);
            rows.push(Row {
                seconds,
                id: 0,
                pid: 0,
                started: 0.0,
                allocated_bytes,
                deallocated_bytes,
                resident_bytes: 0,
                allocations: 0,
                deallocations: 0,
                most_live_bytes: allocated_bytes - deallocated_bytes,
                most_seconds: seconds,
            });
        }
    }
    Ok(Rows::of_log(rows, first as f64))
}

fn line(text: &str) -> Option<Line> {
    let rest = text.strip_prefix("Time: ")?;
    let (time, rest) = rest.split_once(", Allocated: ")?;
    let (allocated, freed) = rest.split_once(", Deallocated: ")?;
    let number = |text: &str| text.parse::<u64>().ok();
    Some((number(time)?, number(allocated)?, number(freed)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_second_are_spread_over_it() {
        let log = "Time: 100, Allocated: 10, Deallocated: 0\n\
                   Time: 100, Allocated: 30, Deallocated: 5\n\
                   Time: 102, Allocated: 40, Deallocated: 50\n\
                   Time: 103, Alloc";
        let rows = parse(log.as_bytes()).expect("a log");
        let rows: Vec<_> = rows
            .in_order()
            .iter()
            .map(|it| (it.seconds, it.live_bytes()))
            .collect();
        assert_eq!(rows, [(0.0, 10), (0.5, 25), (2.0, 0)]);
    }

    #[test]
    fn what_is_no_log_is_refused() {
        for (log, part) in [
            ("", "no lines"),
            ("Time: 1, Allocated: 2, Deallocated: 3\nx\n", "line 2"),
            ("Time: -1, Allocated: 2, Deallocated: 3\n", "line 1"),
            (
                "Time: 2, Allocated: 2, Deallocated: 0\nTime: 1, Allocated: 2, Deallocated: 0\n",
                "line 2",
            ),
            (&"9".repeat(300), "line 1"),
        ] {
            let error = parse(log.as_bytes()).err().expect("an error").to_string();
            assert!(error.contains(part), "{log}: {error}");
        }
    }
}
