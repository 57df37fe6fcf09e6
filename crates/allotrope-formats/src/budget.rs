//! How much of a foreign file is held in memory at once. Every reader asks
//! here before it keeps something, so that a hostile file ends in an error
//! and not in a machine without memory.

use crate::error::Problem;

/// Bytes that one file may come to in memory. A million stacks of depth 30
/// take about a tenth of it.
const MAX_KEPT: u64 = 3 << 30;

/// Frames of one stack; recorders cut at 4,096 or below.
pub(crate) const MAX_DEPTH: usize = 64 << 10;

/// What a reader may still keep.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: MAX_KEPT }
    }
}

impl Budget {
    /// Asks for `bytes` more.
    pub fn take(&mut self, bytes: usize) -> Result<(), Problem> {
        match self.left.checked_sub(bytes as u64) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Problem::TooMuch {
                what: "bytes of stacks in memory",
                limit: MAX_KEPT,
            }),
        }
    }
}

/// Refuses a stack that is deeper than any recorder makes it.
pub(crate) fn check_depth(frames: usize) -> Result<(), Problem> {
    if frames > MAX_DEPTH {
        return Err(Problem::TooMuch {
            what: "frames in one stack",
            limit: MAX_DEPTH as u64,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_counted_and_bounded() {
        let mut budget = Budget::default();
        let half = usize::try_from(MAX_KEPT / 2).unwrap();
        assert!(budget.take(half).is_ok());
        assert!(budget.take(half).is_ok());
        assert!(budget.take(1).is_err());
        assert!(budget.take(0).is_ok());
    }
}
