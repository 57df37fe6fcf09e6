//! The processes of a recording, those with the largest peaks first.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::Path;

use allotrope_profile::{Process, Profile};
use allotrope_text::TextWriter;
use allotrope_text::document::{Table, left, right, write_lines};

use crate::numbers::{bytes, count, duration};
use crate::selection::processes;
use crate::text::{TextOptions, header, totals};

/// One process, or several that ran the same program.
struct Row<'a> {
    processes: Vec<&'a Process>,
}

impl<'a> Row<'a> {
    fn sum(&self, of: impl Fn(&Process) -> u64) -> u64 {
        let values = self.processes.iter().map(|process| of(process));
        values.fold(0, u64::saturating_add)
    }

    fn peak(&self) -> u64 {
        let peaks = self.processes.iter().map(|it| it.totals.peak_bytes);
        peaks.max().unwrap_or(0)
    }

    /// Returns the process with the largest peak.
    fn first(&self) -> Option<&'a Process> {
        self.processes.first().copied()
    }
}

/// Writes all processes.
pub fn write_processes(
    profile: &Profile,
    merge: bool,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    let shown: Vec<&Process> = processes(profile, options).collect();
    write_lines(&mut out, lines(profile, &shown, merge, usize::MAX, options))?;
    out.flush()
}

/// A title and a line for each process, at most `most`, and a line for the rest.
pub(super) fn lines(
    profile: &Profile,
    shown: &[&Process],
    merge: bool,
    most: usize,
    options: &TextOptions,
) -> Vec<String> {
    let mut rows = rows(shown, merge);
    let rest = rows.split_off(rows.len().min(most));
    let cells = rows.iter().map(|row| {
        let command = row.first().map_or_else(String::new, titled);
        let command = match row.processes.len() {
            1 => command,
            many => format!("×{} {command}", count(many as u64)),
        };
        cells(profile, row).into_iter().chain([command])
    });
    let titles = ["id", "ran", "allocations", "bytes", "peak", "end"].map(right);
    let columns = titles.into_iter().chain([left("processes, by peak")]);
    let mut table = Table::new(columns).rows(cells);
    if !rest.is_empty() {
        let processes: usize = rest.iter().map(|row| row.processes.len()).sum();
        let most = rest.iter().map(Row::peak).max().unwrap_or(0);
        table = table.more(format!(
            "{} more with peaks up to {}: report --by process",
            count(processes as u64),
            bytes(most)
        ));
    }
    table.lines(options.style)
}

/// The command line, after the name that the process gave itself, if it has one: the name of its
/// main thread, which is the program's otherwise.
fn titled(process: &Process) -> String {
    const MAX_NAME: usize = 15;
    let command = totals::command(process);
    let main = process.threads.iter().find(|it| it.tid == process.pid);
    let Some(name) = main.map(|it| it.name.trim()).filter(|it| !it.is_empty()) else {
        return command;
    };
    let is_of = |path: &Path| {
        let file = path.file_name().unwrap_or_default().as_encoded_bytes();
        // The kernel keeps as many bytes.
        file.get(..MAX_NAME).unwrap_or(file) == name.as_bytes()
    };
    let words = process.command.iter().map(Path::new);
    match is_of(&process.executable) || words.take(2).any(is_of) {
        true => command,
        false => format!("{name}: {command}"),
    }
}

fn allocated(process: &Process) -> u64 {
    process.totals.allocated_bytes
}

/// The processes, or groups of those that ran the same program in the same way, those
/// with the largest peaks first.
fn rows<'a>(shown: &[&'a Process], merge: bool) -> Vec<Row<'a>> {
    let mut sorted: Vec<&Process> = shown.to_vec();
    sorted.sort_by_key(|it| (Reverse(it.totals.peak_bytes), Reverse(allocated(it)), it.id));
    let mut rows: Vec<Row<'a>> = Vec::new();
    for process in sorted {
        let alike = |row: &&mut Row<'a>| {
            let first = row.first();
            first.is_some_and(|it| {
                it.executable == process.executable
                    && std::mem::discriminant(&it.origin) == std::mem::discriminant(&process.origin)
            })
        };
        let row = if merge {
            rows.iter_mut().find(alike)
        } else {
            None
        };
        match row {
            Some(row) => row.processes.push(process),
            None => rows.push(Row {
                processes: vec![process],
            }),
        }
    }
    rows.sort_by_key(|row| Reverse(row.peak()));
    rows
}

fn cells(profile: &Profile, row: &Row<'_>) -> [String; 6] {
    let ran = row.processes.iter().map(|it| it.duration_us).max();
    let ends = row.processes.iter().map(|it| header::exit(profile, it));
    let ends: Vec<String> = ends.collect();
    let end = match &ends[..] {
        [first, others @ ..] if others.iter().all(|end| end == first) => first.clone(),
        _ => "mixed".to_owned(),
    };
    [
        row.first().map_or_else(String::new, |it| it.id.to_string()),
        duration(ran.unwrap_or(0) as f64),
        count(row.sum(|it| it.totals.allocations)),
        bytes(row.sum(allocated)),
        bytes(row.peak()),
        end,
    ]
}
