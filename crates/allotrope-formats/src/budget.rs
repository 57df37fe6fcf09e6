//! The memory budget for reading a file. Each reader reserves memory here
//! before it stores data, so that a malicious file causes an error and does not
//! exhaust memory.

use crate::error::Problem;

/// The budget of one file, in bytes. A million stacks of depth 30 take about a
/// tenth of it.
const MAX_BYTES: u64 = 3 << 30;

/// The largest depth of a stack, in frames; recorders stop at 4,096 or fewer.
pub(crate) const MAX_DEPTH: usize = 64 << 10;

/// The memory that a reader may still use.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: MAX_BYTES }
    }
}

impl Budget {
    /// Reserves this many bytes; an error if fewer are left.
    pub fn take(&mut self, bytes: usize) -> Result<(), Problem> {
        match self.left.checked_sub(bytes as u64) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Problem::TooMuch {
                what: "bytes of stacks in memory",
                limit: MAX_BYTES,
            }),
        }
    }
}

/// Refuses a stack that is deeper than any recorder's.
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
    fn reserved_memory_is_bounded() {
        let mut budget = Budget::default();
        let half = usize::try_from(MAX_BYTES / 2).unwrap();
        assert!(budget.take(half).is_ok());
        assert!(budget.take(half).is_ok());
        assert!(budget.take(1).is_err());
        assert!(budget.take(0).is_ok());
    }
}
