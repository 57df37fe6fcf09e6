//! Saves the state of watched processes as a *sampled profile*, a file that `allotrope
//! report`, `show`, `diff` and `export` read.
//!
//! The file has the format of a trace with major version 3 (`docs/trace-format.md`): for each
//! process its modules, stacks, live samples and totals, and how much is missing; no events.
//! Names of functions are looked up when it is saved. `allotrope-profile` reads it again
//! (`sampled`), and computes the estimates.
//!
//! The state comes from a process that may be hostile. `samples` of `allotrope-shm` has checked and
//! bounded it; here each stack node is visited once, and no stack gets deeper than
//! [`MAX_DEPTH`] frames.

mod image;
mod modules;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use allotrope_files::Output;
use allotrope_shm::samples::reader::State;
use allotrope_symbols::Locator;
use allotrope_symbols::symbolize::{Candidates, Contents};
use allotrope_trace::model::{Clock, Exit, Record, Recording};
use allotrope_trace::{ReadError, TraceReader, TraceWriter, WriteError};

use crate::sampled::modules::{ModuleTable, arguments};

/// Most frames of a stack, as in a recording.
pub const MAX_DEPTH: u32 = 4096;

/// A watched process.
#[derive(Debug, Clone, Copy)]
pub struct Watched<'a> {
    /// What was read from its memory.
    pub state: &'a State,
    /// Its process id, in the namespace of the watcher.
    pub pid: u32,
    /// Its parent's process id; 0 if unknown.
    pub parent_pid: u32,
    /// When its memory was read, by `CLOCK_MONOTONIC`, in nanoseconds.
    pub read_at: u64,
    /// How it ended; [`Exit::Running`] if it runs.
    pub exit: Exit,
}

/// The watcher.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// Version of the tool.
    pub tool_version: &'a str,
    /// Most frames of a stack that the recorder captures.
    pub depth_limit: u32,
}

/// Why a profile could not be saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The file could not be created or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The profile could not be encoded.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What was encoded could not be read again to find names.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Writes the processes' states to the file `path`, which is created or replaced once it is
/// complete. With a locator, functions get names.
///
/// # Errors
/// If the file cannot be written. An existing one then stays as it was.
pub fn save(
    path: &Path,
    watched: &[Watched<'_>],
    about: About<'_>,
    locator: Option<&Locator>,
) -> Result<(), SaveError> {
    let mut output = Output::create(path)?;
    write(&mut output, watched, about, locator)?;
    output.finish()?;
    Ok(())
}

/// Writes the processes' states to `out`, as [`save`] does.
///
/// # Errors
/// If `out` fails.
pub fn write(
    out: impl Write,
    watched: &[Watched<'_>],
    about: About<'_>,
    locator: Option<&Locator>,
) -> Result<(), SaveError> {
    let mut records = records(watched, about);
    if let Some(locator) = locator {
        let names = names(&records, locator)?;
        records.extend(names);
    }
    let out = encode(BufWriter::new(out), &records)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(())
}

fn encode<W: Write>(out: W, records: &[Record]) -> Result<W, WriteError> {
    let mut writer = TraceWriter::sampled(out)?;
    for record in records {
        writer.write(record)?;
    }
    writer.finish()
}

/// All records but names. Ticks are nanoseconds of `CLOCK_MONOTONIC`.
fn records(watched: &[Watched<'_>], about: About<'_>) -> Vec<Record> {
    let processes = watched.iter().map(|it| &it.state.process);
    let first = processes.min_by_key(|process| process.began);
    let uname = rustix::system::uname();
    let text = |it: &std::ffi::CStr| it.to_string_lossy().into_owned();
    let mut records = vec![Record::Recording(Recording {
        tool_version: about.tool_version.to_owned(),
        command: first.map_or_else(Vec::new, |it| arguments(&it.command)),
        started_unix_ns: first.map_or(0, |it| it.began_real),
        started_tick: first.map_or(0, |it| it.began),
        system: format!("{} {}", text(uname.sysname()), text(uname.release())),
        architecture: text(uname.machine()),
        depth_limit: about.depth_limit,
        counts_only: false,
        free_stacks: false,
    })];
    let ticks = watched
        .iter()
        .flat_map(|it| [it.state.process.began, it.read_at]);
    let ends = [ticks.clone().min(), ticks.max()];
    records.extend(ends.into_iter().flatten().map(|tick| {
        Record::Clock(Clock {
            tick,
            monotonic_ns: tick,
        })
    }));
    let mut modules = ModuleTable::default();
    for (image, watched) in (0..).zip(watched) {
        image::add(image, watched, &mut modules, &mut records);
    }
    records
}

/// Records of the names of the functions.
fn names(records: &[Record], locator: &Locator) -> Result<Vec<Record>, SaveError> {
    let encoded = encode(Vec::new(), records)?;
    let trace = TraceReader::sampled(&encoded[..])?;
    let contents = Contents::read(&trace)?;
    let candidates = Candidates {
        unverified: false,
        of_processes: true,
    };
    let naming = contents.name(locator, candidates, |_, _| {});
    Ok(naming.symbols.into_iter().map(Record::Symbols).collect())
}
