//! The library that is preloaded into a program and records its heap
//! allocations.
//!
//! It lives in other people's processes, so it keeps to a few rules: it calls
//! the *next* definition of each function it stands before and changes nothing
//! about its result; it never calls the program's allocator and has no heap of
//! its own, only fixed mappings; it needs nothing but `libc.so.6`; it starts no
//! thread and keeps no descriptor open.
//!
//! The way of one allocation: [`hooks::x86_64::entry`] takes the call and the caller's
//! registers, [`hooks`] calls the next allocator, [`capture`] turns the stack into an
//! id ([`allotrope_unwind`] walks it, [`sys::readable`] finds what can be read,
//! [`stack_ids`] names it), [`events`] puts one event into the thread's ring. What the
//! program reports of blocks that no hook sees goes the same way ([`reported`]).
//! [`thread`] holds what a thread needs for that, [`process`] what the process
//! does, including what becomes of it after `fork`; [`early`] keeps what comes
//! before that is possible; [`modules`] knows what code is mapped. [`client`]
//! is what programs call on purpose: [`windows`] and [`quiet`]. [`execution`]
//! sees to programs that are run next, [`deep_binding`] to libraries that would not find the
//! recorder, [`diagnostics`] tells of what cannot be
//! recorded.
//!
//! # Safety
//! Hooks run on any thread at any time, in signal handlers too. State is
//! therefore per thread and only touched by its thread; a hook that finds its
//! thread's state in use (it interrupted another hook) takes a second one.
//! What threads share is atomic, or written under the lock in
//! [`process::Guard`] with signals blocked.
#![no_std]
// Raw pointers are this crate's trade: the state of a thread is reached
// through one because a signal handler may reach it at the same time.
#![allow(clippy::missing_safety_doc)]
// Nobody links to this library: its documentation is for those who work on it.
#![allow(rustdoc::private_intra_doc_links)]

mod arena;
mod arena_client;
mod capture;
mod client;
mod counts;
mod deep_binding;
mod diagnostics;
mod early;
mod events;
mod execution;
mod hook_api;
mod hooks;
mod image;
mod loader_tables;
mod modules;
mod process;
mod program;
mod quiet;
mod reported;
mod stack_ids;
mod sys;
mod thread;
#[cfg(feature = "verify")]
mod verify;
mod windows;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // No code here is meant to panic; a bug must not go on with wrong data.
    sys::system::abort()
}
