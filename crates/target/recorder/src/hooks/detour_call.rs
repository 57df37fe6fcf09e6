//! A call of a function that has a detour, as the stub (`x86_64::detoured`) passes it to the hooks.

use allotrope_detour::functions::{Alignment, Size};
use allotrope_detour::named::MAX_ARGUMENT;
use allotrope_shm::layout::PAGE;

/// A call of such a function: a part of the stub's frame.
#[repr(C)]
pub struct Call {
    arguments: [usize; MAX_ARGUMENT as usize],
    /// What `enter_detour` returned; 0 if the call is not to be recorded, and
    /// `after` not to be called.
    pub token: u64,
    /// The number of the detour.
    pub number: usize,
    /// What the function returned.
    pub result: usize,
    /// What `enter_detour` stored.
    pub outer: usize,
    /// What `begin_free` returned.
    pub outer_free: [usize; 2],
}

impl Call {
    /// How many bytes it requests. `skipped` arguments precede those that the function describes.
    pub fn size(&self, size: Size, skipped: usize) -> usize {
        let argument = |number: u8| self.argument(skipped, number);
        match size {
            Size::Argument(number) => argument(number),
            // A product that is too large makes the call fail.
            Size::Product(first) => argument(first).wrapping_mul(argument(first + 1)),
            // SAFETY: the function returned a string.
            Size::Text => unsafe { libc::strlen(self.result as *const _) + 1 },
        }
    }

    /// The alignment that it requests.
    pub fn alignment(&self, alignment: Alignment, skipped: usize) -> usize {
        match alignment {
            Alignment::Usual => 0,
            Alignment::Page => PAGE,
            Alignment::Argument(number) => self.argument(skipped, number),
            Alignment::Flags(number) => match self.argument(skipped, number) & 0x3f {
                0 => 0,
                log2 => 1 << log2,
            },
        }
    }

    /// The argument of this index.
    pub fn register(&self, index: u8) -> usize {
        self.argument(0, index)
    }

    /// The argument of this number behind the skipped ones.
    pub fn argument(&self, skipped: usize, number: u8) -> usize {
        self.arguments[(skipped + usize::from(number)).min(5)]
    }
}
