//! Opens and aggregates a trace file that the command line names. An error becomes one
//! sentence and an exit status.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use allotrope_files::open_regular;
use allotrope_formats::Limits;
use allotrope_profile::{
    AggregateError, Options, Peak, Profile, TraceSource, aggregate_readable, peaks_readable,
};
use allotrope_symbols::symbolize::{Candidates, Contents};
use allotrope_symbols::{IndexCache, Locator};
use allotrope_text::Shown;
use allotrope_trace::model::{Record, Recording};
use allotrope_trace::{Entry, ReadError, TraceReader};
use anyhow::{Context, anyhow};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::exit_status::{BAD_INPUT, FAILED, Failure};
use crate::memory;
use crate::message;
use crate::progress::{Progress, show_naming};

/// Opens a trace; refuses what is no regular file. If it is still being written, finds the
/// names of its functions, which the recording writes at its end; demangled within the limits.
pub fn open(path: &Path, limits: Limits) -> Result<TraceReader, Failure> {
    let mut trace = open_without_names(path)?;
    if trace.is_growing() {
        name(path, &mut trace, limits)?;
    }
    Ok(trace)
}

/// Opens a trace for uses that need no names of functions.
pub fn open_without_names(path: &Path) -> Result<TraceReader, Failure> {
    let metadata = fs::metadata(path)
        .with_context(|| format!("cannot read {}", path.shown()))
        .map_err(|error| Failure::new(BAD_INPUT, error))?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() {
            "it is a folder"
        } else {
            "it is no regular file"
        };
        let sentence = anyhow!(
            "cannot read {}: {what}; name a file that `allotrope record` wrote",
            path.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    memory::add_file(metadata.len());
    // Asked first: a recording that ends in between is whole when it is opened.
    let is_growing = is_growing(path);
    let mut trace = TraceReader::open(path).map_err(|error| unreadable(path, error))?;
    if is_growing && !trace.is_complete() {
        trace.set_growing();
    }
    Ok(trace)
}

/// Whether a collector is writing this file: it holds a lock (flock(2)), which ends with
/// the collector, however that ends.
pub fn is_growing(path: &Path) -> bool {
    let lock = |file: File| flock(file, FlockOperation::NonBlockingLockShared);
    matches!(open_regular(path).map(lock), Ok(Err(Errno::WOULDBLOCK)))
}

/// Adds the names of all functions to a trace, for as long as it is open.
fn name(path: &Path, trace: &mut TraceReader, limits: Limits) -> Result<(), Failure> {
    let progress = Arc::new(Progress::new(false));
    progress.show("reading the trace", 0, 1);
    let contents = Contents::read(trace).map_err(|error| unreadable(path, error))?;
    let locator = Locator::new()
        .with_index_cache(IndexCache::of_user())
        .with_most_names(limits.names());
    let total = contents.modules().len() as u64;
    let shown = Arc::clone(&progress);
    let candidates = Candidates {
        unverified: false,
        of_processes: true,
    };
    let naming = contents.name(&locator, candidates, move |done, work| {
        show_naming(&shown, done as u64, total, work);
    });
    progress.finish();
    for complaint in locator.take_complaints() {
        message::print(format_args!("warning: {complaint}"));
    }
    trace.add_records(naming.symbols.into_iter().map(Record::Symbols));
    Ok(())
}

/// What a trace says about the recording as a whole.
pub fn recording(trace: &TraceReader) -> Recording {
    let recording = trace.entries().find_map(|entry| match entry {
        Ok(Entry::Record(Record::Recording(it))) => Some(it),
        _ => None,
    });
    recording.unwrap_or_default()
}

/// What a user should know of a trace that is not whole, a sentence each.
pub fn notes(path: &Path, trace: &TraceReader) -> Vec<String> {
    let path = path.shown();
    let growing = trace
        .is_growing()
        .then(|| format!("note: {path} is still being recorded; this is what was recorded so far"));
    let cut = TraceSource::cut(trace).map(|cut| format!("warning: {path} is not whole: {cut}"));
    growing.into_iter().chain(cut).collect()
}

/// Why a trace is not whole; `None` if it is.
pub fn cut(trace: &TraceReader) -> Option<String> {
    TraceSource::cut(trace).map(|cut| cut.to_string())
}

/// Aggregates a trace into a profile. A damaged trace is aggregated up to the damage, which
/// [`Profile::cut`] describes.
pub fn profile(
    path: &Path,
    trace: &mut TraceReader,
    progress: &Progress,
) -> Result<Profile, Failure> {
    profile_with(path, trace, Wanted::default(), progress)
}

/// What a profile has besides its figures.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Time tables, which are exact at these times.
    pub times: Option<&'a [u64]>,
    /// The peaks, just after which the tables of their processes are exact, too.
    pub peaks: &'a [Peak],
    /// Time tables of the threads, too.
    pub thread_times: bool,
    /// Evidence for findings.
    pub evidence: bool,
    /// The details of each site.
    pub site_details: bool,
}

impl Wanted<'_> {
    /// What findings are made of.
    pub const FINDINGS: Self = Self {
        times: Some(&[]),
        peaks: &[],
        thread_times: false,
        evidence: true,
        site_details: false,
    };
}

/// When each process had its peak. A damaged trace is aggregated up to the damage.
pub fn peaks(
    path: &Path,
    trace: &mut TraceReader,
    progress: &Progress,
) -> Result<Vec<Peak>, Failure> {
    let show = |done, total| progress.show("finding the peak", done, total);
    let options = Options {
        progress: Some(&show),
        ..Options::default()
    };
    let peaks = peaks_readable(trace, &options).map_err(|error| not_aggregated(path, error));
    progress.finish();
    peaks
}

/// Same as [`profile()`], with more than the figures.
pub fn profile_with(
    path: &Path,
    trace: &mut TraceReader,
    wanted: Wanted<'_>,
    progress: &Progress,
) -> Result<Profile, Failure> {
    let show = |done, total| progress.show("reading the trace", done, total);
    let options = Options {
        progress: Some(&show),
        time_table: wanted.times,
        peaks: wanted.peaks,
        thread_times: wanted.thread_times,
        evidence: wanted.evidence,
        site_details: wanted.site_details,
        ..Options::default()
    };
    let profile = aggregate_readable(trace, &options).map_err(|error| not_aggregated(path, error));
    progress.finish();
    profile
}

/// The failure of this command for an error of an aggregation.
pub fn not_aggregated(path: &Path, error: AggregateError) -> Failure {
    match error {
        AggregateError::Read(error) => unreadable(path, error),
        error => Failure::new(FAILED, anyhow!("cannot read {}: {error}", path.shown())),
    }
}

fn unreadable(path: &Path, error: ReadError) -> Failure {
    Failure::new(BAD_INPUT, anyhow!("{}: {error}", path.shown()))
}

/// When the recording began, if the clock was set.
pub fn recorded_at(profile: &Profile) -> Option<SystemTime> {
    let started = Duration::from_nanos(profile.recording.started_unix_ns);
    SystemTime::UNIX_EPOCH.checked_add(started)
}
