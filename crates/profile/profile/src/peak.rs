//! The peak of a process.

use allotrope_trace::model::ImageId;

/// The peak of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peak {
    pub(crate) image: ImageId,
    /// Nanoseconds since the start of the recording.
    pub(crate) ns: u64,
    pub(crate) allocated: u64,
    pub(crate) live: u64,
}

impl Peak {
    /// The process.
    pub fn image(&self) -> ImageId {
        self.image
    }

    /// The time just after it, in nanoseconds since the start of the recording: where a time
    /// table is divided. What is live there was live at the peak.
    pub fn after_ns(&self) -> u64 {
        self.ns.saturating_add(1)
    }

    /// Whether it is the moment after so many allocations, when so many of them were live.
    pub(crate) fn is_at(&self, allocated: u64, live: u64) -> bool {
        self.allocated == allocated && self.live == live
    }
}
