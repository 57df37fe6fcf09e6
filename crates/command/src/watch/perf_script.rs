//! `watch --perf-script`: a report from what perf has printed.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use allotrope_files::open_regular;
use allotrope_formats::{Exceeded, Excess, bounded};
use allotrope_sampling::Period;
use allotrope_text::Shown;
use allotrope_watch::perf_events;
use allotrope_watch::perf_report::PerfBlocks;
use anyhow::{Context, anyhow};

use super::Arguments;
use super::output::{Format, Output};
use crate::exit_status::{BAD_INPUT, FINE, Failure, WithStatus};
use crate::message;

/// libpoireau's own period.
const POIREAU: u64 = 32 << 20;

/// Reads the file, or the standard input for `-`, and prints the report.
pub fn run(arguments: &Arguments, path: &Path, mut output: Output) -> Result<u8, Failure> {
    if arguments.format == Format::Poireau {
        let sentence = "--perf-script reports as text or JSON; leave `--format poireau` out";
        return Err(Failure::new(BAD_INPUT, anyhow!(sentence)));
    }
    let is_input = path.as_os_str() == "-";
    let file = match is_input {
        true => None,
        false => Some(
            open_file_or_pipe(path)
                .with_context(|| format!("cannot read {}", path.shown()))
                .status(BAD_INPUT)?,
        ),
    };
    let real_time = file
        .as_ref()
        .and_then(modified)
        .unwrap_or_else(SystemTime::now);
    let input: Box<dyn BufRead> = match file {
        Some(file) => Box::new(BufReader::new(file)),
        None => Box::new(io::stdin().lock()),
    };
    let period = arguments.period.or(Period::new(POIREAU));
    let mut blocks = PerfBlocks::new(period.unwrap_or_default());
    let limits = arguments.input.limits();
    let unknown = perf_events::read(bounded(input, limits), |event| {
        blocks.add(event);
        match blocks.memory() > limits.memory() {
            true => Err(io::Error::other(Exceeded {
                excess: Excess::Memory,
                limits,
            })),
            false => Ok(()),
        }
    })
    .with_context(|| format!("cannot read {}", path.shown()))
    .status(BAD_INPUT)?;
    if blocks.is_empty() {
        return Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "{} has no events of libpoireau's or allotrope's probes; write it with `perf script` or `perf trace`",
                path.shown()
            ),
        ));
    }
    if unknown > 0 {
        message::print(format_args!(
            "warning: {} has {unknown} lines that are no events; they are left out",
            path.shown()
        ));
    }
    let real_time = real_time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let real_time = u64::try_from(real_time.as_nanos()).unwrap_or(u64::MAX);
    let old_age = u64::try_from(arguments.old.as_nanos()).unwrap_or(u64::MAX);
    let report = blocks.report(real_time, old_age, arguments.top.into());
    output.print(&report)?;
    Ok(FINE)
}

/// Devices are refused: opening them may have effects.
fn open_file_or_pipe(path: &Path) -> io::Result<File> {
    // The shell names a pipe for `<(perf script)`.
    match std::fs::metadata(path)?.file_type().is_fifo() {
        true => File::open(path),
        false => open_regular(path),
    }
}

/// When a file was written. A pipe is being written.
fn modified(file: &File) -> Option<SystemTime> {
    let metadata = file.metadata().ok()?;
    let is_pipe = metadata.file_type().is_fifo();
    metadata.modified().ok().filter(|_| !is_pipe)
}
