//! The windows of a recording as samples of cases.

use allotrope_profile::Profile;
use allotrope_trace::TraceReader;

use crate::paths::Project;
use crate::protocol::Problem;
use crate::sample::Sample;

/// A window's occurrence.
#[derive(Debug, Clone)]
pub struct WindowSample {
    /// The window's name.
    pub name: String,
    /// Its numbers.
    pub sample: Sample,
}

impl WindowSample {
    /// All windows of a recording, in the order of their opening.
    ///
    /// # Errors
    /// A window that was never closed has no numbers.
    pub fn all(_: &TraceReader, _: &Profile, _: &Project) -> Result<Vec<Self>, Problem> {
        Ok(Vec::new())
    }

    /// What a person should know before trusting its numbers.
    pub fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
