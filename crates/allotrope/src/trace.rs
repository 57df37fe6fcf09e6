//! Opens and replays a trace file that the command line names. An error becomes one
//! sentence and an exit status.

use std::fs;
use std::path::Path;

use allotrope_profile::{Options, Profile, ReplayError, replay_readable};
use allotrope_text::Shown;
use allotrope_trace::{ReadError, TraceReader};
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, FAILED, Failure};
use crate::progress::Progress;

/// Opens a trace; refuses what is no regular file.
pub fn open(path: &Path) -> Result<TraceReader, Failure> {
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
    TraceReader::open(path).map_err(|error| unreadable(path, error))
}

/// Replays a trace into a profile. A damaged trace is replayed up to the damage, which
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
    /// Evidence for findings.
    pub evidence: bool,
    /// The details of each site.
    pub site_details: bool,
}

impl Wanted<'_> {
    /// What findings are made of.
    pub const FINDINGS: Self = Self {
        times: Some(&[]),
        evidence: true,
        site_details: false,
    };
}

/// The same with more than the figures.
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
        evidence: wanted.evidence,
        site_details: wanted.site_details,
        ..Options::default()
    };
    let profile = replay_readable(trace, &options).map_err(|error| unreplayable(path, error));
    progress.finish();
    profile
}

/// The failure of this command for an error of a replay.
pub fn unreplayable(path: &Path, error: ReplayError) -> Failure {
    match error {
        ReplayError::Read(error) => unreadable(path, error),
        error => Failure::new(FAILED, anyhow!("cannot replay {}: {error}", path.shown())),
    }
}

fn unreadable(path: &Path, error: ReadError) -> Failure {
    Failure::new(BAD_INPUT, anyhow!("{}: {error}", path.shown()))
}
