//! The recording and the modules in the JSON report.

use std::borrow::Cow;

use allotrope_profile::{Module, Profile};
use allotrope_text::{text_of_os, text_of_path};
use serde::Serialize;

/// The recording as a whole.
#[derive(Serialize)]
pub(crate) struct RecordingForm<'a> {
    command: Vec<Cow<'a, str>>,
    /// Null if unknown.
    started_unix_us: Option<u64>,
    duration_us: u64,
    tool_version: &'a str,
    system: &'a str,
    architecture: &'a str,
    depth_limit: u32,
    counts_only: bool,
    free_stacks: bool,
    complete: bool,
}

/// A module file.
#[derive(Serialize)]
pub(crate) struct ModuleForm<'a> {
    path: Cow<'a, str>,
    /// Build id in hexadecimal; null if the module has none.
    build_id: Option<String>,
    /// Null if unknown.
    unoptimised: Option<bool>,
    compilers: &'a [String],
}

impl<'a> RecordingForm<'a> {
    pub(crate) fn of(profile: &'a Profile) -> Self {
        let recording = &profile.recording;
        let ends = profile.processes.iter();
        let ends = ends.map(|process| process.started_us.saturating_add(process.duration_us));
        let started = recording.started_unix_ns;
        Self {
            command: recording.command.iter().map(|it| text_of_os(it)).collect(),
            started_unix_us: (started > 0).then_some(started / 1_000),
            duration_us: ends.max().unwrap_or(0),
            tool_version: &recording.tool_version,
            system: &recording.system,
            architecture: &recording.architecture,
            depth_limit: recording.depth_limit,
            counts_only: recording.counts_only,
            free_stacks: recording.free_stacks,
            complete: profile.is_complete(),
        }
    }
}

impl<'a> ModuleForm<'a> {
    pub(crate) fn of(module: &'a Module) -> Self {
        let hexadecimal = || module.build_id.iter().map(|byte| format!("{byte:02x}"));
        Self {
            path: text_of_path(&module.path),
            build_id: (!module.build_id.is_empty()).then(|| hexadecimal().collect()),
            unoptimised: module.unoptimised,
            compilers: &module.compilers,
        }
    }
}
