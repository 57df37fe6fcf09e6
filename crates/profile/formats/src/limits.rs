//! The bounds on what one file may cost whoever reads it.

use std::fmt;

use allotrope_text::numbers::{bytes, count};

/// The bounds on one file. All of them follow from the most unpacked data that is read, so that
/// one number raises or lowers them together.
///
/// A file of stacks costs more than its size says: compressed data unpacks to a thousand times
/// as much, a stack may refer to thousands of frames by a few bytes, and a name by a few bytes
/// to its repeated parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    input: u64,
}

impl Limits {
    /// The most unpacked data in bytes, unless somebody chooses another number.
    pub const DEFAULT_INPUT: u64 = 1 << 30;
    /// The most frames for [`DEFAULT_INPUT`](Self::DEFAULT_INPUT).
    const FRAMES: u64 = 10_000_000;

    /// The limits for at most this many bytes of unpacked data.
    pub fn of_input(bytes: u64) -> Self {
        Self { input: bytes }
    }

    /// The most bytes of unpacked data that are read. Each layer of compression counts by
    /// itself, and so does a file that is not compressed.
    pub fn input(self) -> u64 {
        self.input
    }

    /// The most frames of all stacks of the file together, as often as they occur in it: 10
    /// million for a GiB.
    pub fn frames(self) -> u64 {
        let scaled = u128::from(self.input) * u128::from(Self::FRAMES);
        u64::try_from(scaled / u128::from(Self::DEFAULT_INPUT)).unwrap_or(u64::MAX)
    }

    /// The most lines of a text, or fields of a binary file: one for 8 bytes. Even an empty one
    /// costs time.
    pub fn records(self) -> u64 {
        self.input / 8
    }

    /// The most bytes of memory that the reader stores stacks and tables in: a quarter. Whatever
    /// compares or writes them needs a multiple of it.
    pub fn memory(self) -> u64 {
        self.input / 4
    }

    /// The most bytes of all demangled names together: an eighth. Names beyond stay mangled.
    pub fn names(self) -> u64 {
        self.input / 8
    }

    /// The bound of a kind.
    pub(crate) fn of(self, excess: Excess) -> u64 {
        match excess {
            Excess::Input => self.input(),
            Excess::Records => self.records(),
            Excess::Frames => self.frames(),
            Excess::Memory => self.memory(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::of_input(Self::DEFAULT_INPUT)
    }
}

/// What a file has too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// Unpacked data.
    Input,
    /// Lines of a text, or fields of a binary file.
    Records,
    /// Frames of all stacks together.
    Frames,
    /// Stacks and tables in memory.
    Memory,
}

/// Which bound a file exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// What there is too much of.
    pub excess: Excess,
    /// The bounds.
    pub limits: Limits,
}

impl std::error::Error for Exceeded {}

impl fmt::Display for Exceeded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = self.limits.of(self.excess);
        match self.excess {
            Excess::Input => write!(out, "unpacks to more than {}", bytes(bound)),
            Excess::Records => write!(out, "has more than {} lines or fields", count(bound)),
            Excess::Frames => write!(out, "has more than {} frames in its stacks", count(bound)),
            Excess::Memory => write!(out, "has stacks that need more than {}", bytes(bound)),
        }?;
        write!(
            out,
            "; if it comes from somebody whom you trust, read it with a larger --input-limit SIZE (now {})",
            bytes(self.limits.input)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_limits_follow_from_the_one_of_the_input() {
        let default = Limits::default();
        assert_eq!((default.input(), default.frames()), (1 << 30, 10_000_000));
        assert_eq!((default.memory(), default.names()), (256 << 20, 128 << 20));
        let fourfold = Limits::of_input(4 << 30);
        assert_eq!(fourfold.frames(), 40_000_000);
        assert_eq!(fourfold.memory(), 1 << 30);
        assert!(Limits::of_input(u64::MAX).frames() > 10_000_000);
        assert_eq!(Limits::of_input(0).frames(), 0);
    }
}
