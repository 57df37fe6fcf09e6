//! Opens files: recordings, sampled profiles and other tools' stacks.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use allotrope_files::open_regular;
use allotrope_formats::Limits;
use allotrope_profile::AggregateError;
use allotrope_profile::sampled::{SampledError, SampledProfile};
use allotrope_symbols::symbolize::{Candidates, Contents};
use allotrope_symbols::{IndexCache, Locator};
use allotrope_text::Shown;
use allotrope_trace::model::Record;
use allotrope_trace::{TraceReader, is_sampled};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::ReadingError;
use crate::naming::show_naming;
use crate::observer::Observer;
use crate::recording::Recording;

/// Opens files within limits.
#[derive(Clone)]
pub struct Reader {
    pub(crate) limits: Limits,
    pub(crate) observer: Arc<dyn Observer>,
}

impl Default for Reader {
    /// With the usual limits and nobody who watches.
    fn default() -> Self {
        Self::new(Limits::default(), Arc::new(()))
    }
}

impl Reader {
    /// Reads within these limits and reports to the observer, also what is read of the files
    /// later.
    pub fn new(limits: Limits, observer: Arc<dyn Observer>) -> Self {
        Self { limits, observer }
    }

    /// Opens a recording; refuses what is no regular file. If it is still being written, finds
    /// the names of its functions, which are written at its end; demangled within the limits.
    ///
    /// # Errors
    /// If the file is no recording or cannot be read. One that ends early or is damaged can be
    /// read up to that point.
    pub fn open(&self, path: &Path) -> Result<Recording, ReadingError> {
        let mut recording = self.open_without_names(path)?;
        if recording.trace().is_growing() {
            self.name(&mut recording)?;
        }
        Ok(recording)
    }

    /// Opens a recording for uses that need no names of functions.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_without_names(&self, path: &Path) -> Result<Recording, ReadingError> {
        let metadata = fs::metadata(path).map_err(|error| ReadingError::io(path, error))?;
        if !metadata.is_file() {
            let what = if metadata.is_dir() {
                "it is a folder"
            } else {
                "it is no regular file"
            };
            return Err(ReadingError::Unusable(format!(
                "cannot read {}: {what}; name a file that `allotrope record` wrote",
                path.shown()
            )));
        }
        self.observer.opens(metadata.len());
        // Asked first: a recording that ends in between is whole when it is opened.
        let is_growing = is_growing(path);
        let trace = TraceReader::open(path);
        let mut trace = trace.map_err(|error| ReadingError::unreadable(path, error))?;
        if is_growing && !trace.is_complete() {
            trace.set_growing();
        }
        let observer = Arc::clone(&self.observer);
        Ok(Recording::new(path, trace, observer))
    }

    /// Opens a file if it is a sampled profile. `None`: it is something else, or cannot be read,
    /// which its other reader will say.
    ///
    /// # Errors
    /// If it is a damaged sampled profile.
    pub fn sampled(&self, path: &Path) -> Result<Option<SampledProfile>, ReadingError> {
        let mut start = Vec::new();
        let is_file = fs::metadata(path).is_ok_and(|it| it.is_file());
        let read = |start: &mut Vec<u8>| File::open(path)?.take(16).read_to_end(start);
        if !is_file || read(&mut start).is_err() || !is_sampled(&start) {
            return Ok(None);
        }
        let file = File::open(path).map_err(|error| ReadingError::io(path, error))?;
        let profile = TraceReader::sampled(file)
            .map_err(|error| SampledError::Read(AggregateError::Read(error)))
            .and_then(|trace| SampledProfile::read(&trace));
        let damaged = |error| ReadingError::Unusable(format!("{}: {error}", path.shown()));
        profile.map(Some).map_err(damaged)
    }

    /// Adds the names of all functions to a recording, for as long as it is open.
    fn name(&self, recording: &mut Recording) -> Result<(), ReadingError> {
        self.observer.progress("reading the trace", 0, 1);
        let contents = Contents::read(recording.trace());
        let contents =
            contents.map_err(|error| ReadingError::unreadable(recording.path(), error))?;
        let locator = Locator::new()
            .with_index_cache(IndexCache::of_user())
            .with_most_names(self.limits.names());
        let total = contents.modules().len() as u64;
        let observer = Arc::clone(&self.observer);
        let candidates = Candidates {
            unverified: false,
            of_processes: true,
        };
        let naming = contents.name(&locator, candidates, move |done, work| {
            show_naming(&*observer, done as u64, total, work);
        });
        self.observer.finished();
        for complaint in locator.take_complaints() {
            self.observer.warning(&complaint);
        }
        let symbols = naming.symbols.into_iter().map(Record::Symbols);
        recording.trace_mut().add_records(symbols);
        Ok(())
    }
}

/// Whether a collector is writing this file: it holds a lock (flock(2)), which ends with
/// the collector, however that ends.
pub fn is_growing(path: &Path) -> bool {
    let lock = |file: File| flock(file, FlockOperation::NonBlockingLockShared);
    matches!(open_regular(path).map(lock), Ok(Err(Errno::WOULDBLOCK)))
}
