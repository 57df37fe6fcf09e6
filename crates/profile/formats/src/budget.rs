//! What a reader may still use while it reads one file. A reader takes from it before it stores
//! data, so that a hostile file causes an error and fills no memory.

use std::cell::Cell;
use std::rc::Rc;

use allotrope_demangle::Demangler;

use crate::error::Problem;
use crate::limits::{Exceeded, Excess, Limits};

/// The largest depth of a stack, in frames; recorders stop at 4,096 or fewer.
pub(crate) const MAX_DEPTH: usize = 64 << 10;

/// What is left of the limits of one file. Copies share it: the parts of a reader take from one
/// budget.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Rc<State>);

#[derive(Debug)]
struct State {
    limits: Limits,
    memory: Cell<u64>,
    text: Cell<u64>,
    records: Cell<u64>,
    frames: Cell<u64>,
    names: Demangler,
    /// The first limit that was exceeded. It is here because the error may have passed through a
    /// library that keeps only its text.
    exceeded: Cell<Option<Exceeded>>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Budget {
    /// The whole budget.
    pub fn new(limits: Limits) -> Self {
        Self(Rc::new(State {
            limits,
            memory: Cell::new(limits.memory()),
            text: Cell::new(limits.input()),
            records: Cell::new(limits.records()),
            frames: Cell::new(limits.frames()),
            names: Demangler::new(limits.names()),
            exceeded: Cell::new(None),
        }))
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    /// Reserves this many bytes of memory; an error if fewer are left.
    pub fn take(&self, bytes: usize) -> Result<(), Problem> {
        self.take_from(&self.0.memory, bytes, Excess::Memory)
    }

    /// Takes so many bytes of text that the file contains or refers to.
    pub fn take_text(&self, bytes: usize) -> Result<(), Problem> {
        self.take_from(&self.0.text, bytes, Excess::Input)
    }

    /// Takes a line of a text, or a field of a binary file.
    pub fn take_record(&self) -> Result<(), Problem> {
        self.take_from(&self.0.records, 1, Excess::Records)
    }

    /// Takes the frames of one stack, whether or not they were there before: a reader works on
    /// each of them.
    pub fn take_frames(&self, frames: usize) -> Result<(), Problem> {
        self.take_from(&self.0.frames, frames, Excess::Frames)
    }

    fn take_from(&self, left: &Cell<u64>, amount: usize, excess: Excess) -> Result<(), Problem> {
        match left.get().checked_sub(amount as u64) {
            Some(rest) => {
                left.set(rest);
                Ok(())
            }
            None => Err(self.exceed(excess).into()),
        }
    }

    /// Notes that a limit is exceeded.
    pub fn exceed(&self, excess: Excess) -> Exceeded {
        let exceeded = Exceeded {
            excess,
            limits: self.limits(),
        };
        if self.0.exceeded.get().is_none() {
            self.0.exceeded.set(Some(exceeded));
        }
        exceeded
    }

    /// The limit that was exceeded.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.0.exceeded.get()
    }

    /// Demangles the names of the file.
    pub fn names(&self) -> &Demangler {
        &self.0.names
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
        let budget = Budget::default();
        let half = usize::try_from(Limits::default().memory() / 2).unwrap();
        assert!(budget.take(half).is_ok());
        assert!(budget.clone().take(half).is_ok());
        assert_eq!(budget.exceeded(), None);
        assert!(budget.take(1).is_err());
        assert!(budget.take(0).is_ok());
        let exceeded = budget.exceeded().unwrap();
        assert_eq!(exceeded.excess, Excess::Memory);
        assert!(exceeded.to_string().contains("256.0 MiB"), "{exceeded}");
    }
}
