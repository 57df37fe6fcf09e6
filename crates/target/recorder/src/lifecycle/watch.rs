//! The beginning of a process that is watched: its memory in place of an arena, and no
//! collector. A thread needs a state as in a recording, but no ring.

use core::sync::atomic::Ordering::{Relaxed, Release};

use allotrope_sampling::Period;
use allotrope_unwind::DEPTH;

use crate::capture::modules;
use crate::capture::unseen;
use crate::emit::mode;
use crate::state::arena;
use crate::state::image;
use crate::state::process;
use crate::state::sampling;
use crate::state::thread::OwnThread;
use crate::state::watched;
use crate::sys::clock;
use crate::sys::namespaces;
use crate::sys::next::{self, Function};
use crate::sys::system;

/// Begins to sample one of `period` bytes; of no period: when a watcher sets one. `is_standby`: a
/// watcher may set a shorter one in its place. `false`: it cannot work here.
pub fn begin(period: Option<Period>, is_standby: bool) -> bool {
    // Nothing here was ever tried with another C library.
    let is_glibc = next::address(Function::GlibcVersion) != 0;
    if !is_glibc || !arena::map_private() || !process::map_fork_state() || !watched::wipe_on_fork()
    {
        return false;
    }
    image::remember_self();
    namespaces::remember();
    clock::begin();
    sampling::seed();
    let other = unseen::other_malloc().map_or(0, |(address, _)| address);
    if !watched::make_first(period, is_standby, other) {
        return false;
    }
    begin_process();
    // A stack may lead to a module only when its file is another one already.
    modules::note_files();
    mode::choose_watching();
    true
}

/// This process is one of its own, with states for its threads.
fn begin_process() {
    let process_id = system::process_id();
    process::PARENT_ID.store(process::PROCESS_ID.swap(process_id, Relaxed), Relaxed);
    process::fork_state().alive.store(1, Release);
}

/// Makes the memory of a forked child. Without one it samples nothing. The lock is held.
pub fn begin_child() {
    watched::make_of_child();
    begin_process();
}

/// Prepares a state that was just claimed, or that a forked child goes on with. The lock is held.
pub fn begin_thread(thread: OwnThread) {
    thread.fork_local().unwinder.forget_stack();
    thread.fork_local().sampling.reset();
    thread.depth_limit.store(DEPTH as u32, Relaxed);
    thread.tid.store(system::thread_id(), Relaxed);
    watched::note_state(thread.state());
}
