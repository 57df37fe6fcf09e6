//! What is read of a file of stacks, whatever its format.

use std::path::Path;

use allotrope_formats::{Events, Format};
use allotrope_profile::sampled::{SampledProfile, SampledStacks};
use allotrope_profile::warnings::sampled_warnings;
use allotrope_profile::{
    AggregateError, Block, BlockEvent, Filter, ImageId, Options, Profile, StackId, StackSet,
    block_events,
};
use allotrope_text::Shown;

use crate::error::ReadingError;
use crate::recording::Recording;

/// What was read of a file.
pub struct Source {
    /// The stacks.
    pub set: StackSet,
    /// If it is a sampled profile, the samples behind the figures of the stacks.
    pub sampled: Option<Box<SampledStacks>>,
    /// If it is a recording that was read with [`Reader::recorded_stacks`], what it has besides
    /// sums.
    ///
    /// [`Reader::recorded_stacks`]: crate::Reader::recorded_stacks
    pub recorded: Option<Box<RecordedSource>>,
    /// The format, if another tool's file was read.
    pub format: Option<Format>,
    /// Notes on how far the figures can be trusted, a sentence each.
    pub notes: Vec<String>,
}

/// A recording: its profile, whose sites are the stacks of the source, and its events.
pub struct RecordedSource {
    /// The profile.
    pub profile: Profile,
    pub(crate) recording: Recording,
}

impl Events for RecordedSource {
    fn block_events(
        &self,
        sites: &[(ImageId, StackId)],
        callback: &mut dyn FnMut(BlockEvent, &Block),
    ) -> Result<(), AggregateError> {
        block_events(self.recording.trace(), &Options::default(), sites, callback)
    }
}

/// The runs of a window in a recording: stacks of each, and their iterations.
pub struct WindowRuns {
    /// The runs, with a title each.
    pub sets: Vec<StackSet>,
    /// The iterations that each run declares; 0 if it declares none.
    pub iterations: Vec<u64>,
    /// As in a [`Source`].
    pub notes: Vec<String>,
}

impl Source {
    /// The stacks of a sampled profile, which was read from `path`.
    ///
    /// # Errors
    /// If nothing was ever sampled: then nothing is known.
    pub fn of_samples(path: &Path, profile: &SampledProfile) -> Result<Self, ReadingError> {
        let (mut set, Some(samples)) = profile.stack_set() else {
            return Err(ReadingError::Unusable(format!(
                "{}: sampling was never on in any of its processes, so it has no figures",
                path.shown()
            )));
        };
        let of = path.shown();
        let mut notes = vec![format!("note: {of}: {}", profile.note())];
        let mut warnings = profile.warnings();
        warnings.extend(sampled_warnings(profile));
        notes.extend(warnings.iter().map(|it| format!("warning: {of}: {it}")));
        if let Some(sampling) = &mut set.run.sampling {
            sampling.notes.push(profile.note());
            sampling.notes.extend(warnings);
        }
        Ok(Self {
            set,
            sampled: Some(Box::new(samples)),
            recorded: None,
            format: None,
            notes,
        })
    }

    /// Keeps only the stacks with a frame that matches.
    pub fn filter(&mut self, filter: &Filter) {
        if let Some(sampled) = &mut self.sampled {
            sampled.filter(&self.set, filter);
        }
        if let Some(recorded) = &mut self.recorded {
            recorded.profile.filter(filter);
        }
        self.set.filter(filter);
    }

    /// Keeps only the process image with this id. `path` names the file in an error.
    ///
    /// # Errors
    /// If there is no such process, or the file has no processes.
    pub fn keep_process(&mut self, path: &Path, id: ImageId) -> Result<(), ReadingError> {
        let Some(recorded) = &mut self.recorded else {
            return Err(ReadingError::Unusable(format!(
                "{} has no process images to choose from; leave --process out",
                path.shown()
            )));
        };
        let profile = &mut recorded.profile;
        profile.processes.retain(|process| process.id == id);
        if profile.processes.is_empty() {
            return Err(ReadingError::Unusable(format!(
                "there is no process {id} in {}; `allotrope report --by process` lists them",
                path.shown()
            )));
        }
        self.set = StackSet::from(&*profile);
        Ok(())
    }
}
