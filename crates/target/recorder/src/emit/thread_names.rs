//! Names of threads: the event that carries one, and asking the kernel for that of the calling
//! thread (`PR_GET_NAME`, prctl(2)).
//!
//! A filter of system calls (seccomp) may end the process for the question. So it is asked only
//! where that cannot be: without a filter, or with those alone under which the collector runs,
//! too. Once the program installs one, names are emitted only where the program sets them.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use allotrope_preflight::privileges;
use allotrope_shm::wire::{self, ThreadName};

use crate::emit::events;
use crate::state::process;
use crate::state::thread::{OwnThread, Thread};
use crate::sys::arch;
use crate::sys::system;

/// Words of the event.
const WORDS: u64 = 4;

/// Whether the kernel may be asked.
static MAY_ASK: AtomicBool = AtomicBool::new(false);

/// Finds out whether the kernel may be asked. At the start of an executed image.
#[cold]
pub fn begin() {
    let mut status = [0; 2048];
    let length = system::read_file(c"/proc/self/status", &mut status);
    let filters = privileges::system_call_filters(&status[..length]);
    let of_collector = process::control().filters.load(Relaxed).checked_sub(1);
    MAY_ASK.store(
        filters == Some(0) || filters.is_some() && filters == of_collector,
        Relaxed,
    );
}

/// The program is about to install a filter of system calls.
pub fn filter_comes() {
    MAY_ASK.store(false, Relaxed);
}

/// Whether the kernel may be asked for names.
pub fn may_ask() -> bool {
    MAY_ASK.load(Relaxed)
}

/// Emits the name with which a thread begins. A nested state's thread has its own state for
/// that.
pub fn announce(thread: OwnThread) {
    if !thread.is_nested.load(Relaxed) {
        remember(&thread, [0; 16]);
        emit_own(thread);
    }
}

/// Emits the calling thread's name, unless it is the one that was emitted last.
pub fn emit_own(thread: OwnThread) {
    if may_ask()
        && let Some(name) = system::thread_name()
        && words(name) != thread.name.each_ref().map(|word| word.load(Relaxed))
        && emit(thread, thread.tid.load(Relaxed), name)
    {
        remember(&thread, name);
    }
}

/// Emits the name of another thread of this process, unless it is the one that was emitted
/// last, or the thread is gone. The kernel may be asked.
pub fn emit_of(thread: OwnThread, tid: u32, state: &Thread) {
    if let Some(name) = system::name_of_thread(tid)
        && words(name) != state.name.each_ref().map(|word| word.load(Relaxed))
    {
        emit(thread, tid, name);
    }
}

/// Emits the name of a thread of this process. `false`: there is no space for it.
pub fn emit(thread: OwnThread, tid: u32, name: ThreadName) -> bool {
    let space = events::reserve(thread, WORDS);
    if let Some(space) = space {
        space.write(wire::thread_name(tid, arch::tick(), name));
    }
    space.is_some()
}

fn remember(thread: &Thread, name: ThreadName) {
    for (to, word) in thread.name.iter().zip(words(name)) {
        to.store(word, Relaxed);
    }
}

fn words(name: ThreadName) -> [u64; 2] {
    let name = u128::from_le_bytes(name);
    [name as u64, (name >> 64) as u64]
}
