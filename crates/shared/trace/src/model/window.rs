//! Windows: named spans of the program, and which events belong to them.
//!
//! The *epoch* of an image is a counter that each opening and each closing of a
//! window increments. When a thread finds that the epoch changed since its last
//! event, it emits [`EventKind::Epoch`](super::EventKind::Epoch) before its next
//! one. So every event has an epoch: that of the last epoch event before it in its
//! stream, or 0. An event belongs to a window if its epoch is at least
//! [`Window::opened`] and below [`WindowEnd::closed`]. The order of events is that
//! of the program's own synchronisation; no clock is involved.

use super::{ImageId, QuietWait, ThreadId};

/// The value of an [`EventKind::Epoch`](super::EventKind::Epoch) event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EpochChange {
    /// The epoch of the following events of the stream.
    pub epoch: u64,
    /// The stream's thread opted out of windows: its events belong to none.
    pub opted_out: bool,
}

impl EpochChange {
    /// The event's `address`: the epoch shifted left by one bit, and `opted_out` in
    /// bit 0.
    pub const fn to_word(self) -> u64 {
        self.epoch << 1 | self.opted_out as u64
    }

    /// Undoes [`Self::to_word`].
    pub const fn from_word(word: u64) -> Self {
        Self {
            epoch: word >> 1,
            opted_out: word & 1 != 0,
        }
    }
}

/// A window opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The image.
    pub image: ImageId,
    /// The image's epoch after the opening. It identifies the window in its image.
    pub opened: u64,
    /// The thread that opened it, if known.
    pub thread: Option<ThreadId>,
    /// Only events of the thread that opened the window belong to it.
    pub this_thread_only: bool,
    /// Name of the window, at most 255 bytes.
    pub name: String,
    /// How often the program repeats the measured work in the window; 0 if unknown.
    pub iterations: u64,
    /// Result of waiting for the other threads before the opening.
    pub quiet: QuietWait,
    /// When the window opened.
    pub tick: u64,
}

/// A window closed. A window without this record is open until its image ends. If
/// there are several, the one with the smallest `closed` above `opened` is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowEnd {
    /// The image.
    pub image: ImageId,
    /// [`Window::opened`] of the window.
    pub opened: u64,
    /// The image's epoch after the closing.
    pub closed: u64,
    /// Result of waiting for the other threads before the closing.
    pub quiet: QuietWait,
    /// When the window closed.
    pub tick: u64,
    /// The open file descriptors, if the program requested them and the collector
    /// could read them.
    pub descriptors: Option<Descriptors>,
}

/// Totals at the opening or closing of a window, where the recorder only counts
/// calls. The totals of a window are those at its closing minus those at its
/// opening. Calls of threads that opted out of windows are not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowCounts {
    /// The image.
    pub image: ImageId,
    /// The image's epoch after the opening or closing.
    pub epoch: u64,
    /// The thread that opened or closed the window, if known.
    pub thread: Option<ThreadId>,
    /// Totals of all threads of the image.
    pub all: WindowSums,
    /// Totals of that thread.
    pub of_thread: WindowSums,
}

/// Totals since an arbitrary moment before the image's first window. Only
/// differences between two of them have a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowSums {
    /// Allocations.
    pub allocations: u64,
    /// Requested bytes of the allocations.
    pub allocated_bytes: u64,
    /// Deallocations.
    pub deallocations: u64,
    /// Reallocations; the allocations include them.
    pub reallocations: u64,
}

/// The open file descriptors of a process at the closing of a window, compared with
/// those at its opening. Descriptors are compared by what they refer to: a path, or a
/// type for objects without a path (`socket:`, `pipe:`, `anon_inode:[eventfd]`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Descriptors {
    /// Number of descriptors at the opening.
    pub before: u32,
    /// Number of descriptors at the closing.
    pub after: u32,
    /// The names that have more descriptors at the closing than at the opening.
    pub left: Vec<LeftOpen>,
    /// Additional descriptors of names that are missing in `left`.
    pub more: u64,
}

impl Descriptors {
    /// Number of descriptors that the window left open.
    pub fn leaked(&self) -> u64 {
        let listed = self.left.iter().map(|left| u64::from(left.count));
        listed.fold(self.more, u64::saturating_add)
    }
}

/// Descriptors that a window left open, of one name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOpen {
    /// The path or type that they refer to.
    pub name: String,
    /// Number of descriptors at the closing minus that at the opening.
    pub count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_change_round_trips_through_its_word() {
        for epoch in [0, 1, u64::from(u32::MAX)] {
            for opted_out in [false, true] {
                let change = EpochChange { epoch, opted_out };
                assert_eq!(EpochChange::from_word(change.to_word()), change);
            }
        }
    }

    #[test]
    fn leaked_descriptors_are_those_listed_and_the_others() {
        let left = |name: &str, count| LeftOpen {
            name: name.into(),
            count,
        };
        let descriptors = Descriptors {
            before: 3,
            after: 9,
            left: vec![left("/a", 2), left("pipe:", 3)],
            more: 1,
        };
        assert_eq!(descriptors.leaked(), 2 + 3 + 1);
    }
}
