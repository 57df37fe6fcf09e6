//! The known stack: the range of addresses that a walk reads without asking.

use core::cell::Cell;
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

/// A word of the known stack, or of a live frame.
///
/// Volatile: the program owns the memory and writes it between two captures.
///
/// # Safety
/// The word can be read and its address is a multiple of 8.
#[inline(always)]
pub(crate) unsafe fn load(address: u64) -> u64 {
    // SAFETY: passed on.
    unsafe { (address as *const u64).read_volatile() }
}

/// The stack that the thread is known to run on: as long as its stack pointer lies
/// in the range, everything from there to the end can be read. All cached frames
/// lie on it. Empty until the first walk.
#[repr(C)]
pub struct KnownStack {
    start: Cell<u64>,
    end: Cell<u64>,
}

/// How [`KnownStack::adopt`] changed the known stack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Adopted {
    /// It has been this one already.
    Unchanged,
    /// It reaches lower than was known: what is cached lies on it still.
    Extended,
    /// It is another stack, and no frame is cached any more.
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

    /// Makes `start..end` the known stack; `forget` drops the cached frames.
    ///
    /// A signal handler may interrupt this and jump away: at no time are frames
    /// cached that do not lie on the known stack.
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

    /// No stack is known. The caller has dropped the cached frames.
    pub(crate) fn forget(&self) {
        self.start.set(0);
        self.end.set(0);
    }
}
