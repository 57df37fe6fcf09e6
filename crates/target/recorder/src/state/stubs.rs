//! Which stubs the program's calls of `malloc`, `calloc` and `free` jump to: one number
//! in a page that the kernel wipes in a forked child if the mode needs it. `free` has a
//! number of its own, because a mode may have another stub for it alone.
//!
//! A number and not a pointer, because an ifunc resolver may call `malloc` before the
//! loader has relocated this library. 0 are the stubs that work at any time: before the
//! recording starts, in a forked child that has had no event, and where events are
//! written. Those of another mode (`emit::mode`) need not ask any of that.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::sys::kernel::Advice;
use crate::sys::system;

const PAGE: usize = allotrope_shm::layout::PAGE;

/// The numbers, in a page of their own.
#[repr(C, align(4096))]
pub struct Stubs {
    number: AtomicU8,
    free: AtomicU8,
    _rest: [AtomicU8; PAGE - 2],
}

/// Offset of the number of `free` in [`STUBS`].
pub const FREE: usize = core::mem::offset_of!(Stubs, free);

/// The number of the stubs that work at any time.
pub const ANY_TIME: u8 = 0;

/// The number of the stubs that count, and of those of `free` that record its stack.
pub const OTHER: u8 = 1;

/// The number of the stubs that sample: the sign tells it from [`OTHER`].
pub const SAMPLING: u8 = 0x80;

/// See [`Stubs`]. `malloc` and `calloc` compare its first byte, `free` that at [`FREE`].
pub static STUBS: Stubs = Stubs {
    number: AtomicU8::new(ANY_TIME),
    free: AtomicU8::new(ANY_TIME),
    _rest: [const { AtomicU8::new(0) }; PAGE - 2],
};

/// Has forks wipe the number. `false` if they would go unnoticed.
pub fn wipe_on_fork() -> bool {
    let page = (&raw const STUBS).cast_mut().cast::<u8>();
    system::advise(page, size_of::<Stubs>(), Advice::WipeOnFork)
}

/// Makes the functions jump to the stubs with this number.
pub fn select(number: u8) {
    STUBS.number.store(number, Relaxed);
    select_free(number);
}

/// Makes `free` alone jump to the stub with this number.
pub fn select_free(number: u8) {
    STUBS.free.store(number, Relaxed);
}
