//! The library that is preloaded into a program and records its heap
//! allocations.
//!
//! It lives in other people's processes, so it follows a few rules: it calls the
//! *next* definition of each function that it defines too and changes nothing about
//! its result; it never calls the program's allocator and has no heap of its own, only
//! fixed mappings; it needs nothing but `libc.so.6`; it starts no thread and leaves no
//! descriptor open.
//!
//! # Layers
//! A folder is a layer. It uses its own files and those of the layers below it; no file
//! uses, directly or through others, one that uses it.
//!
//! ```text
//! hooks      the functions that the program calls, by family; x86_64: their stubs
//! exec       programs that it executes, libraries that it opens   client  windows
//! ─────────────────────────────────────────────────────────────────────────────────
//! lifecycle  start of the recording, image, fork, thread, ring; begin and end of a hook
//! capture    the stack of a call becomes an id; mapped modules
//! emit       events into the ring, additions to counters, diagnostics
//! state      the data: process, thread, arena, image, epoch
//! sys        system calls, this architecture, the C library, readable memory
//! ```
//!
//! | layer | uses | does not |
//! |---|---|---|
//! | [`hooks`] | [`exec`] in its stubs, and all below | |
//! | [`exec`] | [`lifecycle`] for the note of an exec, and what is below | write events itself |
//! | [`client`] | [`lifecycle`] and what is below | use `hooks` or `exec` |
//! | [`lifecycle`] | [`capture`] and what is below | call the allocator |
//! | [`capture`] | [`emit`] and what is below | start anything: it has a state that is ready |
//! | [`emit`] | [`state`], [`sys`] | know where a stack comes from |
//! | [`state`] | [`sys`] | write to the ring |
//! | [`sys`] | nothing of the recorder | know that there is a recording |
//!
//! What a lower layer needs of a higher one is passed to it as a function: a
//! [`state::module_table::Table`] gets one that emits its changes, `allotrope-unwind`
//! gets [`capture::unwind`] as its host.
//!
//! # The way of one allocation
//! [`hooks::x86_64::entry`] takes the call and the caller's registers and calls the
//! next allocator; [`hooks::record`] enters the thread's state
//! ([`lifecycle::enter`]) and asks for space to write an event ([`lifecycle::ready`]);
//! [`capture::unwind`] turns the stack into an id; [`emit::events`] writes one event to
//! the thread's ring. What the program reports of blocks that no hook sees goes the same
//! way ([`hooks::reported`]).
//!
//! What a recording does with the call, write an event or only count it, is the mode: one
//! table of functions ([`emit::mode`]).
//!
//! # Safety
//! Hooks run on any thread at any time, in signal handlers too. State is therefore per
//! thread and only touched by its thread; a hook that finds its thread's state in use
//! (it interrupted another hook) takes a second one. What threads share is atomic, or
//! written under [`state::process::Lock`] with signals blocked.
//!
//! Three types stand for what a function may rely on, so that it need not be `unsafe`:
//!
//! | type | made by | shows that |
//! |---|---|---|
//! | [`Caller`] | the stubs | the hook has not returned: its caller's stack can be walked |
//! | [`OwnThread`] | [`lifecycle::enter`], [`lifecycle::threads`] | the state is this thread's, and no other hook of it is at work |
//! | [`Space`] | [`lifecycle::ready`], [`emit::events::reserve`] | the thread has a ring, with space for an event |
//!
//! `unsafe` is left where one of them is made, where the second stack is entered, and
//! where memory is not the recorder's: the arena, the loader's tables, the program's
//! blocks and strings, system calls.
//!
//! [`Caller`]: allotrope_shm::hook_api::Caller
//! [`OwnThread`]: state::thread::OwnThread
//! [`Space`]: emit::events::Space
#![no_std]
// Nobody links to this library: its documentation is for those who work on it.
#![allow(rustdoc::private_intra_doc_links)]

mod capture;
mod client;
mod emit;
mod exec;
mod hooks;
mod lifecycle;
mod state;
mod sys;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // No code here is meant to panic; a bug must not go on with wrong data.
    sys::system::abort()
}
