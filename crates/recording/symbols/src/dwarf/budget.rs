//! A bound on the work that debug information may cause.
//!
//! Ordinary DWARF is read about once. Entries of damaged or hostile DWARF can share
//! range lists, line programs and subtrees, so that a megabyte of it causes more
//! work than a machine can do. When the budget is used up, the names found so far
//! are the result.

use std::cell::Cell;

use allotrope_demangle::{Demangler, Names};

/// The most steps for each byte of debug information. Measured: resolving every fifth
/// instruction of glibc takes 0.7 steps a byte, every third of an optimised C++ program
/// 0.5.
const STEPS_PER_BYTE: u64 = 32;
/// A byte of a name that is put together from those of its scopes takes so many steps.
const STEPS_PER_NAME_BYTE: usize = 4;
/// The least budget in steps, which suffices for tiny files.
const FLOOR: u64 = 1 << 16;

#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<u64>,
    /// Demangler for the names of functions that are parts of other names.
    demangler: Demangler,
}

impl Budget {
    /// The budget for debug information of this many bytes.
    pub(super) fn for_bytes(bytes: u64) -> Self {
        let steps = bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(FLOOR);
        Self {
            left: Cell::new(steps),
            demangler: Demangler::new(steps / STEPS_PER_NAME_BYTE as u64),
        }
    }

    /// Takes `steps`; `None` if fewer are left. The budget is then used up.
    pub(super) fn spend(&self, steps: usize) -> Option<()> {
        let left = self.left.get().checked_sub(steps as u64);
        self.left.set(left.unwrap_or(0));
        left.map(|_| ())
    }
}

impl Budget {
    /// Takes the steps for a name of so many bytes.
    pub(super) fn spend_name(&self, bytes: usize) -> Option<()> {
        self.spend(bytes.saturating_mul(STEPS_PER_NAME_BYTE))
    }

    /// Demangles the name of a function that encloses others.
    pub(super) fn demangle(&self, name: &str) -> Names {
        self.demangler.demangle(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_used_up_once_too_many_steps_are_taken() {
        let budget = Budget::for_bytes(0);
        assert_eq!(budget.spend(FLOOR as usize), Some(()));
        assert_eq!(budget.spend(1), None);
        assert_eq!(budget.spend(0), Some(()));
    }
}
