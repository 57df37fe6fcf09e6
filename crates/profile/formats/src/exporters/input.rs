//! What an exporter reads: a stack set and, of a recording, its profile and its events.

use allotrope_profile::sampled::SampledStacks;
use allotrope_profile::{
    AggregateError, Block, BlockEvent, ImageId, Process, Profile, StackId, StackSet,
};

use crate::error::ExportError;

/// What is exported.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The stacks. Every source has them.
    pub set: &'a StackSet,
    /// The recording that they come from. `None` for stacks of other tools, sampled profiles
    /// and what was live at a moment.
    pub recorded: Option<Recorded<'a>>,
    /// Of a sampled profile: the samples behind its figures.
    pub samples: Option<&'a SampledStacks>,
}

/// A recording: processes, threads and times.
#[derive(Clone, Copy)]
pub struct Recorded<'a> {
    /// The sites of its processes, one process after the other, are the stacks of
    /// [`Input::set`], and its frames have the same indexes there. It has time tables if the
    /// exporter [wants times](super::Wanted::Times).
    pub profile: &'a Profile,
    /// Reads the events.
    pub events: &'a dyn Events,
}

/// Reads the events of a recording.
pub trait Events {
    /// Calls `callback` with the events of these sites, as
    /// [`block_events`](allotrope_profile::block_events) does.
    ///
    /// # Errors
    /// If the recording cannot be read.
    fn block_events(
        &self,
        sites: &[(ImageId, StackId)],
        callback: &mut dyn FnMut(BlockEvent, &Block),
    ) -> Result<(), AggregateError>;
}

impl<'a> Input<'a> {
    /// Stacks that are all that is known.
    pub fn of_set(set: &'a StackSet) -> Self {
        Self {
            set,
            recorded: None,
            samples: None,
        }
    }

    /// The recording.
    pub(super) fn require_recording(&self) -> Result<Recorded<'a>, ExportError> {
        self.recorded.ok_or(ExportError::NoTimes)
    }
}

/// The name of a process: that of its executable's file.
pub(super) fn process_name(process: &Process) -> String {
    let path = allotrope_text::text_of_path(&process.executable);
    let name = path.rsplit('/').next().filter(|name| !name.is_empty());
    name.unwrap_or("program").to_owned()
}
