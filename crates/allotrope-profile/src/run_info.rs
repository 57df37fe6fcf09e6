//! The run that a set of stacks comes from: process, times and modules. Exporters write
//! what is known of it; nothing here is guessed.

use allotrope_text::text_of_path;

use crate::model::{Module, Process, Profile};

/// The run that stacks come from. What is unknown is `None` or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunInfo {
    /// Number of process images whose stacks are added up; 0 if unknown.
    pub images: usize,
    /// Process id, if all images have the same one.
    pub pid: Option<u32>,
    /// Start, in nanoseconds since 1970 UTC.
    pub started_unix_ns: Option<u64>,
    /// Microseconds from the start of the first image to the end of the last one.
    pub duration_us: Option<u64>,
    /// Time of the peak, in microseconds since the start. `None` for several images: each
    /// has its peak at a time of its own.
    pub peak_time_us: Option<u64>,
    /// Path of the executable; for several images, of the one that allocated the most
    /// bytes. Empty if unknown.
    pub executable: String,
    /// The modules that are known; frames refer to them by file name.
    pub modules: Vec<Module>,
}

impl RunInfo {
    /// Of these processes of a profile. Images without allocations, such as a launcher
    /// that only calls `exec`, are left out if others allocated.
    pub(crate) fn of_processes(profile: &Profile, processes: &[Process]) -> Self {
        let mut images: Vec<&Process> = processes.iter().collect();
        if images.iter().any(|image| !image.sites.is_empty()) {
            images.retain(|image| !image.sites.is_empty());
        }
        let Some(first) = images.iter().map(|image| image.started_us).min() else {
            return Self::default();
        };
        let end = |image: &&Process| image.started_us.saturating_add(image.duration_us);
        let last = images.iter().map(end).max().unwrap_or(first);
        let largest = images
            .iter()
            .max_by_key(|image| image.totals.allocated_bytes);
        let same_pid = images.iter().all(|image| image.pid == images[0].pid);
        let started = profile.recording.started_unix_ns;
        Self {
            images: images.len(),
            pid: same_pid.then_some(images[0].pid),
            started_unix_ns: (started != 0)
                .then(|| started.saturating_add(first.saturating_mul(1_000))),
            duration_us: Some(last - first),
            peak_time_us: match images[..] {
                [only] => Some(only.totals.peak_time_us),
                _ => None,
            },
            executable: largest.map_or_else(String::new, |image| {
                text_of_path(&image.executable).into_owned()
            }),
            modules: profile.modules.clone(),
        }
    }
}
