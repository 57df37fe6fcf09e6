//! The known stack: the range of addresses that walks read without asking the kernel
//! whether it is readable.

use core::cell::Cell;
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

/// Loads a word of the known stack, or of a live frame. Volatile, since the program owns
/// the memory and writes to it between two captures.
///
/// # Safety
/// The word must be readable and its address a multiple of 8.
#[inline(always)]
pub(crate) unsafe fn load(address: u64) -> u64 {
    // SAFETY: guaranteed by the caller.
    unsafe { (address as *const u64).read_volatile() }
}

/// The stack on which the thread is known to run. As long as the stack pointer is in the
/// range, everything from the stack pointer to the end can be read. All cached frames are
/// on this stack. Empty until the first walk.
#[repr(C)]
pub struct KnownStack {
    start: Cell<u64>,
    end: Cell<u64>,
}

/// How [`KnownStack::adopt`] changed the known stack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Adopted {
    /// It was this stack already.
    Unchanged,
    /// The stack extends to lower addresses than was known; the cached frames stay valid.
    Extended,
    /// It is another stack; the cached frames were removed.
    Replaced,
}

impl KnownStack {
    /// The lowest address.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        self.start.get()
    }

    /// The end: a multiple of 8.
    #[inline(always)]
    pub fn end(&self) -> u64 {
        self.end.get()
    }

    /// Makes `start..end` the known stack; `forget` removes the cached frames.
    ///
    /// A signal handler may interrupt this and leave by a jump, so at no time may frames
    /// be cached that are not on the known stack.
    pub(crate) fn adopt(&self, start: u64, end: u64, forget: impl FnOnce()) -> Adopted {
        let end = end & !7;
        let before = (self.start.get(), self.end.get());
        if (start, end) == before {
            return Adopted::Unchanged;
        }
        if end == before.1 && start < before.0 {
            self.start.set(start);
            return Adopted::Extended;
        }
        forget();
        compiler_fence(SeqCst);
        self.end.set(0);
        compiler_fence(SeqCst);
        self.start.set(start);
        compiler_fence(SeqCst);
        self.end.set(end);
        compiler_fence(SeqCst);
        Adopted::Replaced
    }

    /// Makes the known stack empty. The caller must have removed the cached frames.
    pub(crate) fn forget(&self) {
        self.start.set(0);
        self.end.set(0);
    }
}
