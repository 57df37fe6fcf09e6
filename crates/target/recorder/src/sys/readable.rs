//! Which memory can be read: whether a page can (the kernel is asked), and how far
//! the stack reaches that the thread runs on.

use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use allotrope_unwind::Memory;

use crate::sys::arch;
use crate::sys::kernel;
use crate::sys::system;

const PAGE: u64 = 4096;

const fn page_of(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// Asks the kernel whether a page can be read. `rt_sigprocmask` copies the new signal
/// mask before it checks the operation: for one that does not exist it returns
/// `EFAULT` if the mask could not be read and `EINVAL` if it could, and changes
/// nothing. Every sandbox in which the recorder works allows the call.
pub fn page_is_readable(page: u64) -> bool {
    kernel::read_signal_mask_only(page) == -(libc::EINVAL as isize)
}

/// The stacks that stay mapped while a thread runs on them, once they were found.
#[repr(C)]
pub struct OwnStacks {
    /// The thread pointer of the thread that the next two belong to.
    thread_pointer: Cell<u64>,
    /// The stack on which `pthread_create` started it.
    start: Cell<u64>,
    end: Cell<u64>,
    /// The lowest page known of the program's first stack; 0: none.
    first_start: Cell<u64>,
}

impl OwnStacks {
    /// No stack is known: the thread is another one.
    pub fn forget(&self) {
        self.thread_pointer.set(0);
    }
}

/// The stack that `sp`, the thread's own stack pointer, points into: the range that
/// can be read from `sp` to its end as long as the thread runs on it.
///
/// The stack that the thread was started with stays mapped as long as the thread
/// lives. Of any other one only the page of `sp` is known.
pub fn stack_of(own: &OwnStacks, sp: u64) -> Range<u64> {
    let (start, end) = own_stack(own, sp).unwrap_or((page_of(sp), page_of(sp).wrapping_add(PAGE)));
    start..end
}

/// The stack that `sp` is on, if it stays as long as the thread runs on it: from
/// an address not above `sp` to the end.
fn own_stack(own: &OwnStacks, sp: u64) -> Option<(u64, u64)> {
    let thread_pointer = arch::thread_pointer();
    if own.thread_pointer.get() != thread_pointer {
        let (start, end) = pthread_stack(thread_pointer).unwrap_or((0, 0));
        own.start.set(start);
        own.end.set(end);
        own.thread_pointer.set(thread_pointer);
    }
    let (start, end) = (own.start.get(), own.end.get());
    if (start..end).contains(&sp) {
        return Some((start, end));
    }
    first_stack(own, sp)
}

/// The stack on which `pthread_create` started the thread: from its lowest address
/// to the thread's own data, which glibc puts at its upper end. Among those is what
/// holds where the stack begins (`struct pthread` in glibc's `nptl/descr.h`: address,
/// size, size of the guard, and that size as the program asked for it), at an offset
/// that differs by version: the four words are recognised by their values.
fn pthread_stack(thread_pointer: u64) -> Option<(u64, u64)> {
    /// Bytes of the structure in glibc 2.34; it has only grown.
    const STRUCTURE: u64 = 2304;
    /// More than what lies behind its beginning: it, and what aligns it.
    const BEHIND: u64 = 3 * PAGE;
    /// `PTHREAD_STACK_MIN`, and more than anybody gives a thread.
    const SIZES: Range<u64> = 16 << 10..1 << 40;
    let mut memory = Memory::unknown(page_is_readable);
    (0..STRUCTURE / 8 - 3).find_map(|index| {
        let mut word = |ahead| memory.word(thread_pointer + 8 * (index + ahead));
        let (start, bytes) = (word(0)?, word(1)?);
        let end = start.wrapping_add(bytes);
        let is_it = SIZES.contains(&bytes)
            && start < thread_pointer
            && end > thread_pointer
            && end - thread_pointer <= BEHIND
            && word(2)? < bytes
            && word(3)? < bytes;
        is_it.then_some((start, thread_pointer))
    })
}

/// The stack that the kernel made for the program. It is known by its end, and by
/// that all between can be read: the kernel keeps a gap below it.
fn first_stack(own: &OwnStacks, sp: u64) -> Option<(u64, u64)> {
    /// The kernel puts nothing nearer to the end of the stack (`arch/x86/mm/mmap.c`:
    /// the gap has at least 128 MiB).
    const NOTHING_ELSE: u64 = 64 << 20;
    // These sixteen bytes lie above the first frame, on the same stack.
    let end = system::auxiliary_value(libc::AT_RANDOM) & !7;
    let known = match own.first_start.get() {
        0 => end,
        known => known,
    };
    let limit = stack_limit();
    let depth = end.checked_sub(sp)?;
    if sp < known {
        if depth > NOTHING_ELSE.max(limit) {
            return None;
        }
        let start = page_of(sp);
        if !Memory::unknown(page_is_readable).holds(start, known - start) {
            return None;
        }
        own.first_start.set(start);
    }
    Some((own.first_start.get(), end))
}

/// How large the first stack can become, in bytes; 0: it cannot be known. The kernel is
/// asked once, as early as any stack is looked at: a sandbox may forbid it later.
fn stack_limit() -> u64 {
    const UNKNOWN: u64 = u64::MAX - 1;
    static LIMIT: AtomicU64 = AtomicU64::new(UNKNOWN);
    let known = LIMIT.load(Relaxed);
    if known != UNKNOWN {
        return known;
    }
    let mut limit = [0; 2];
    let is_known = kernel::get_stack_limit(&mut limit) == 0;
    let limit = if is_known { limit[0] } else { 0 };
    LIMIT.store(limit, Relaxed);
    limit
}
