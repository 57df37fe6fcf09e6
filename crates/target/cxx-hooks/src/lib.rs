//! The recorder's second library: hooks for C++ operators and jemalloc's own
//! calls.
//!
//! Allocators like jemalloc, tcmalloc and mimalloc define `operator new` and
//! its relatives themselves, and these do not call `malloc`. This library defines
//! them too, records each call and calls the next definition. It is preloaded, after
//! the recorder, only where such an allocator is in use: otherwise a C++ plugin in
//! a C program would find these operators first, with no next definition in their
//! scope.
//!
//! An operator whose next definition is not the allocator's own (libstdc++'s,
//! which calls `malloc`) is passed on and not recorded here: `malloc` is.
#![no_std]
// A hook has the contract of the function that it stands for.
#![allow(clippy::missing_safety_doc)]
#![allow(rustdoc::private_intra_doc_links)]

mod dlsym;
mod entry;
mod next;
mod operators;
mod recorder;
mod sized;

/// Looks everything up before the program runs: a look-up changes the error that
/// `dlerror` would return to the program.
extern "C" fn constructor() {
    for next in operators::ALL {
        next.prepare();
    }
    if !next::has_gained_rights() {
        recorder::hook_api();
    }
    // Not every allocator has all of them: a look-up that succeeds clears the error of
    // one that failed.
    dlsym::find(libc::RTLD_NEXT, c"malloc");
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // No code here is meant to panic; a bug must not go on with wrong data.
    // SAFETY: an instruction that always faults.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}
