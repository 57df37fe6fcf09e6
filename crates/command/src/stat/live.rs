//! What `stat` writes while the program runs: lines for people, and rows of the files. At the end the files are
//! replaced by exact ones; until then, and if that never comes, they have what was known.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use allotrope_collector::protocol::ImageFigures;
use allotrope_files::{Whose, append};

use super::rows::{CSV_HEAD, LastLines, Row, head, write_log_line};

/// Writes the lines and rows of a program that runs.
pub struct LiveLines {
    /// Nothing is printed.
    pub quiet: bool,
    /// The files, once they are open; `None` again if that or writing fails, which the end reports.
    csv: Option<LiveFile>,
    log: Option<LiveFile>,
    has_head: bool,
    last: LastLines,
    /// Bytes allocated and freed, by process.
    sums: HashMap<u32, (u64, u64)>,
}

enum LiveFile {
    At(PathBuf),
    Open(File),
}

impl LiveLines {
    /// `csv` and `log`: the files that are wanted.
    pub fn new(quiet: bool, csv: Option<&Path>, log: Option<&Path>) -> Self {
        let file = |path: Option<&Path>| {
            let path = path.filter(|it| it.as_os_str() != "-")?;
            Some(LiveFile::At(path.to_owned()))
        };
        Self {
            quiet,
            csv: file(csv),
            log: file(log),
            has_head: false,
            last: LastLines::default(),
            sums: HashMap::new(),
        }
    }

    /// Takes the figures at a time since the start of the first process, in nanoseconds.
    pub fn take(&mut self, ns: u64, images: &[ImageFigures]) {
        if images.is_empty() {
            return;
        }
        let rows: Vec<Row> = images.iter().map(|it| row(ns, it)).collect();
        if !self.quiet {
            self.print(&rows);
        }
        write_to(&mut self.csv, CSV_HEAD, |out| {
            rows.iter().try_for_each(|row| row.write_csv(out))
        });
        for row in &rows {
            let sums = (row.allocated_bytes, row.deallocated_bytes);
            self.sums.insert(row.id, sums);
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = time.map_or(0, |it| it.as_secs());
        let sum = |of: fn(&(u64, u64)) -> u64| {
            let all = self.sums.values().map(of);
            all.fold(0_u64, u64::wrapping_add)
        };
        let (allocated, deallocated) = (sum(|it| it.0), sum(|it| it.1));
        write_to(&mut self.log, "", |out| {
            write_log_line(time, allocated, deallocated, out)
        });
    }

    fn print(&mut self, rows: &[Row]) {
        let mut text = String::new();
        if !self.has_head {
            self.has_head = true;
            text.push_str(&head());
        }
        rows.iter()
            .for_each(|row| text.push_str(&self.last.next(row)));
        // Nobody may read it.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

fn row(ns: u64, image: &ImageFigures) -> Row {
    let seconds = ns as f64 / 1e9;
    Row {
        seconds,
        id: image.id,
        pid: image.pid,
        started: image.started_ns as f64 / 1e9,
        allocated_bytes: image.allocated_bytes,
        deallocated_bytes: image.deallocated_bytes,
        resident_bytes: image.resident_bytes,
        allocations: image.allocations,
        deallocations: image.deallocations,
        most_live_bytes: image.allocated_bytes.wrapping_sub(image.deallocated_bytes),
        most_seconds: seconds,
    }
}

/// Writes to a file, which begins with the line `head` unless that is empty.
fn write_to(
    file: &mut Option<LiveFile>,
    head: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) {
    let mut text = Vec::new();
    let written = || -> io::Result<()> {
        if let Some(LiveFile::At(path)) = file {
            // That an earlier one may be replaced was checked before the program was started.
            let opened = append(path, Whose::Own)?;
            opened.set_len(0)?;
            if !head.is_empty() {
                writeln!(text, "{head}")?;
            }
            *file = Some(LiveFile::Open(opened));
        }
        let Some(LiveFile::Open(out)) = file else {
            return Ok(());
        };
        write(&mut text)?;
        // At once: nobody is to find half a line.
        out.write_all(&text)
    };
    if written().is_err() {
        *file = None;
    }
}
