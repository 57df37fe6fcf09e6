//! The recorder's second library: hooks for C++ operators and for jemalloc's own
//! functions.
//!
//! Allocators such as jemalloc, tcmalloc and mimalloc define `operator new` and its
//! relatives themselves, and these do not call `malloc`. This library interposes them
//! and calls the recorder through its `HookApi`. It is preloaded, after the recorder,
//! only if such an allocator is in use. If it were always preloaded, a C++ plugin in a C
//! program would find these operators first, with no next definition in their scope.
//!
//! If the next definition of an operator is not the allocator's own (but libstdc++'s,
//! which calls `malloc`), the call is passed on and not recorded here, since `malloc`
//! is recorded.
#![no_std]
// Operators take raw pointers by definition.
#![allow(clippy::missing_safety_doc)]
#![allow(rustdoc::private_intra_doc_links)]

mod entry;
mod next;
mod operators;
mod recorder;
mod sized;

/// Looks up all next definitions before the program runs: a later look-up would replace
/// the error that `dlerror` returns to the program.
extern "C" fn constructor() {
    for next in operators::ALL {
        next.prepare();
    }
    recorder::hook_api();
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // No code here is meant to panic; after a bug it must not continue with wrong data.
    // SAFETY: an instruction that always faults.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}
