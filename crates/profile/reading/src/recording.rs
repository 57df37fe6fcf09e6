//! A recording that is open, and the profiles that are made of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use allotrope_profile::{
    AggregateError, Options, Peak, Profile, RunTimes, TraceSource, aggregate_readable,
    peaks_readable, run_times,
};
use allotrope_text::Shown;
use allotrope_trace::model::{self, Record};
use allotrope_trace::{Entry, TraceReader};

use crate::error::ReadingError;
use crate::observer::Observer;

/// A recording that is open.
pub struct Recording {
    path: PathBuf,
    trace: TraceReader,
    observer: Arc<dyn Observer>,
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
    /// Stacks that deallocated blocks, of which the frames are wanted.
    pub stacks: &'a [(model::ImageId, model::StackId)],
}

impl Wanted<'_> {
    /// What findings are made of.
    pub const FINDINGS: Self = Self {
        times: Some(&[]),
        peaks: &[],
        thread_times: false,
        evidence: true,
        site_details: false,
        stacks: &[],
    };
}

/// A part of a recording: what happened in a window, in a range of time, or was live at a moment.
pub struct Selection {
    /// The figures of the part.
    pub profile: Profile,
    /// A line that describes the part.
    pub line: String,
}

impl Recording {
    /// A recording that somebody else has opened. Errors name it by the path.
    pub fn new(path: &Path, trace: TraceReader, observer: Arc<dyn Observer>) -> Self {
        Self {
            path: path.to_owned(),
            trace,
            observer,
        }
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, for what else can be aggregated of it; [`error`](Self::error) names their errors.
    pub fn trace(&self) -> &TraceReader {
        &self.trace
    }

    /// The file.
    pub fn trace_mut(&mut self) -> &mut TraceReader {
        &mut self.trace
    }

    /// What it says about itself as a whole.
    pub fn about(&self) -> model::Recording {
        let recording = self.trace.entries().find_map(|entry| match entry {
            Ok(Entry::Record(Record::Recording(it))) => Some(it),
            _ => None,
        });
        recording.unwrap_or_default()
    }

    /// Why it is not whole; `None` if it is.
    pub fn cut(&self) -> Option<String> {
        TraceSource::cut(&self.trace)
    }

    /// What a user should know if it is not whole, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let path = self.path.shown();
        let growing = self.trace.is_growing().then(|| {
            format!("note: {path} is still being recorded; this is what was recorded so far")
        });
        let cut = self.cut();
        let cut = cut.map(|cut| format!("warning: {path} is not whole: {cut}"));
        growing.into_iter().chain(cut).collect()
    }

    /// The figures of all of it.
    ///
    /// # Errors
    /// As [`profile_with`](Self::profile_with).
    pub fn profile(&mut self) -> Result<Profile, ReadingError> {
        self.profile_with(Wanted::default())
    }

    /// The figures of all of it, and what else is wanted. A damaged recording is read up to the
    /// damage, which [`Profile::cut`] describes.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn profile_with(&mut self, wanted: Wanted<'_>) -> Result<Profile, ReadingError> {
        let options = Options {
            time_table: wanted.times,
            peaks: wanted.peaks,
            thread_times: wanted.thread_times,
            evidence: wanted.evidence,
            site_details: wanted.site_details,
            stacks: wanted.stacks,
            ..Options::default()
        };
        let profile = observed(&*self.observer, "reading the trace", options, |options| {
            aggregate_readable(&mut self.trace, options)
        });
        profile.map_err(|error| self.error(error))
    }

    /// When each process had its peak. A damaged recording is read up to the damage.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn peaks(&mut self) -> Result<Vec<Peak>, ReadingError> {
        let options = Options::default();
        let peaks = observed(&*self.observer, "finding the peak", options, |options| {
            peaks_readable(&mut self.trace, options)
        });
        peaks.map_err(|error| self.error(error))
    }

    /// When its processes ran, and its marks.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn run_times(&self) -> Result<RunTimes, ReadingError> {
        run_times(&self.trace).map_err(|error| self.error(error))
    }

    /// An error of an aggregation of this recording.
    pub fn error(&self, error: AggregateError) -> ReadingError {
        let path = &*self.path;
        match error {
            AggregateError::Read(error) => ReadingError::unreadable(path, error),
            error => ReadingError::Failed(format!("cannot read {}: {error}", path.shown())),
        }
    }

    /// Aggregates with the details of sites, and reports the progress of `work`.
    pub(crate) fn detailed(
        &self,
        work: &'static str,
        aggregate: impl FnOnce(&Options<'_>) -> Result<Profile, AggregateError>,
    ) -> Result<Profile, ReadingError> {
        let options = Options {
            site_details: true,
            ..Options::default()
        };
        let profile = observed(&*self.observer, work, options, aggregate);
        profile.map_err(|error| self.error(error))
    }
}

/// Aggregates with options that report the progress of `work`.
fn observed<T>(
    observer: &dyn Observer,
    work: &'static str,
    options: Options<'_>,
    aggregate: impl FnOnce(&Options<'_>) -> Result<T, AggregateError>,
) -> Result<T, AggregateError> {
    let show = |done, total| observer.progress(work, done, total);
    let result = aggregate(&Options {
        progress: Some(&show),
        ..options
    });
    observer.finished();
    result
}

/// When the recording of a profile began, if the clock was set.
pub fn recorded_at(profile: &Profile) -> Option<SystemTime> {
    let started = Duration::from_nanos(profile.recording.started_unix_ns);
    SystemTime::UNIX_EPOCH.checked_add(started)
}
