//! Windows: named spans of the program, and which events belong to them.
//!
//! An image counts the openings and closings of its windows: that count is its
//! *epoch*. A thread notes in its stream when it sees another one, before the
//! next event ([`EventKind::Epoch`](super::EventKind::Epoch)), so that every
//! event has an epoch: that of the last mark before it in its stream, 0 before
//! the first. An event belongs to a window if its epoch is at least
//! [`Window::opened`] and below [`WindowEnd::closed`]. That follows what the
//! program's own synchronisation says came first, never time.

use super::{ImageId, Quiet, ThreadId};

/// What an [`EventKind::Epoch`](super::EventKind::Epoch) holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EpochMark {
    /// The epoch of the events that follow.
    pub epoch: u64,
    /// They belong to no window: their thread opted out.
    pub opted_out: bool,
}

impl EpochMark {
    /// As the event's `address` holds it: twice the epoch, plus 1 if opted out.
    pub const fn to_word(self) -> u64 {
        self.epoch << 1 | self.opted_out as u64
    }

    /// From the event's `address`.
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
    /// The epoch that its opening made; no two windows of an image share it.
    pub opened: u64,
    /// The thread that opened it, if that is known.
    pub thread: Option<ThreadId>,
    /// Only that thread's events belong to it.
    pub this_thread_only: bool,
    /// Its name, up to 255 bytes.
    pub name: String,
    /// Iterations the program says it makes; 0 if it does not say.
    pub iterations: u64,
    /// What came of waiting for quiet before.
    pub quiet: Quiet,
    /// When.
    pub tick: u64,
}

/// A window closed. One without this is open to the end of its image; of
/// several the one with the smallest `closed` above `opened` counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowEnd {
    /// The image.
    pub image: ImageId,
    /// [`Window::opened`] of the window.
    pub opened: u64,
    /// The epoch that its closing made.
    pub closed: u64,
    /// What came of waiting for quiet before.
    pub quiet: Quiet,
    /// When.
    pub tick: u64,
    /// The file descriptors, if they were asked for and could be read.
    pub descriptors: Option<Descriptors>,
}

/// What was counted when a window opened or closed, where calls are only
/// counted. The difference between a window's ends is the window's; what threads
/// did that had opted out of windows is in neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowCounts {
    /// The image.
    pub image: ImageId,
    /// The epoch that the opening or closing made.
    pub epoch: u64,
    /// The thread that opened or closed, if that is known.
    pub thread: Option<ThreadId>,
    /// What the image's threads had done up to then.
    pub all: WindowSums,
    /// What that thread had done, from some moment before all its windows on.
    pub of_thread: WindowSums,
}

/// Counted since some moment before the image's first window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowSums {
    /// Allocations.
    pub allocations: u64,
    /// Their requested bytes.
    pub allocated_bytes: u64,
    /// Deallocations.
    pub deallocations: u64,
    /// Those of the allocations that answered a reallocation.
    pub reallocations: u64,
}

/// A window's open file descriptors at its close, held against those at its
/// opening by what they refer to: a path, or the kind of what has none
/// (`socket:`, `pipe:`, `anon_inode:[eventfd]`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Descriptors {
    /// Descriptors open at the opening.
    pub before: u32,
    /// Descriptors open at the close.
    pub after: u32,
    /// What more are open of than there were, by name.
    pub left: Vec<LeftOpen>,
    /// Further ones that are left open, of names that are not told.
    pub more: u64,
}

impl Descriptors {
    /// How many were left open.
    pub fn leaked(&self) -> u64 {
        let told = self.left.iter().map(|left| u64::from(left.count));
        told.fold(self.more, u64::saturating_add)
    }
}

/// Descriptors that a window left open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOpen {
    /// What they refer to.
    pub name: String,
    /// How many more there are than at the opening.
    pub count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_mark_comes_back_from_its_word() {
        for epoch in [0, 1, u64::from(u32::MAX)] {
            for opted_out in [false, true] {
                let mark = EpochMark { epoch, opted_out };
                assert_eq!(EpochMark::from_word(mark.to_word()), mark);
            }
        }
    }

    #[test]
    fn descriptors_left_open_are_those_told_and_the_others() {
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
