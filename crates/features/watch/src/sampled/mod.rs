//! The snapshots of watched processes as a *sampled profile*: for a file ([`write()`]) that `allotrope
//! report`, `show`, `diff` and `export` read, or for an export while the processes run ([`profile()`]).
//!
//! Both are made of the same records. A file has the format of a trace with major version 3
//! (`docs/trace-format.md`): for each process its modules, stacks, live samples and totals, and how
//! much is missing; no events. Names of functions are looked up when the records are made.
//! `allotrope-profile` (`sampled`) computes the estimates.
//!
//! The state comes from a process that may be hostile. `samples` of `allotrope-shm` has checked and
//! bounded it; here each stack node is visited once, and no stack gets deeper than `MAX_DEPTH`
//! frames.

mod image;
mod modules;

use std::io::{self, BufWriter, Write};

use allotrope_profile::sampled::{SampledError, SampledProfile};
use allotrope_symbols::Locator;
use allotrope_symbols::symbolize::{Candidates, Contents};
use allotrope_trace::model::{Clock, Record, Recording};
use allotrope_trace::{TraceWriter, WriteError};

use crate::sampled::modules::{ModuleTable, arguments};
use crate::snapshot::Snapshot;

/// Most frames of a stack, as in a recording.
const MAX_DEPTH: u32 = 4096;

/// Why a profile could not be written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The file could not be created or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The profile could not be encoded.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The profile of these snapshots. With a locator, functions get names.
///
/// # Errors
/// If there are more samples than processes can have.
pub fn profile(
    snapshots: &[Snapshot],
    locator: Option<&Locator>,
) -> Result<SampledProfile, SampledError> {
    SampledProfile::of_records(records(snapshots, locator))
}

/// Writes the profile of these snapshots to `out`. With a locator, functions get names.
///
/// # Errors
/// If `out` fails.
pub fn write(
    out: impl Write,
    snapshots: &[Snapshot],
    locator: Option<&Locator>,
) -> Result<(), SaveError> {
    let mut writer = TraceWriter::sampled(BufWriter::new(out))?;
    for record in records(snapshots, locator) {
        writer.write(&record)?;
    }
    let out = writer.finish()?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(())
}

/// The records of a profile. Ticks are nanoseconds of `CLOCK_MONOTONIC`.
fn records(snapshots: &[Snapshot], locator: Option<&Locator>) -> Vec<Record> {
    let processes = snapshots.iter().map(|it| &it.state.process);
    let first = processes.min_by_key(|process| process.began);
    let uname = rustix::system::uname();
    let text = |it: &std::ffi::CStr| it.to_string_lossy().into_owned();
    let mut records = vec![Record::Recording(Recording {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: first.map_or_else(Vec::new, |it| arguments(&it.command)),
        started_unix_ns: first.map_or(0, |it| it.began_real),
        started_tick: first.map_or(0, |it| it.began),
        system: format!("{} {}", text(uname.sysname()), text(uname.release())),
        architecture: text(uname.machine()),
        depth_limit: MAX_DEPTH,
        counts_only: false,
        free_stacks: false,
    })];
    let ticks = snapshots.iter();
    let ticks = ticks.flat_map(|it| [it.state.process.began, it.time]);
    let ends = [ticks.clone().min(), ticks.max()];
    records.extend(ends.into_iter().flatten().map(|tick| {
        Record::Clock(Clock {
            tick,
            monotonic_ns: tick,
        })
    }));
    let mut modules = ModuleTable::default();
    for (image, snapshot) in (0..).zip(snapshots) {
        image::add(image, snapshot, &mut modules, &mut records);
    }
    if let Some(locator) = locator {
        let candidates = Candidates {
            unverified: false,
            of_processes: true,
        };
        let naming = Contents::of_records(&records).name(locator, candidates, |_, _| {});
        records.extend(naming.symbols.into_iter().map(Record::Symbols));
    }
    records
}
