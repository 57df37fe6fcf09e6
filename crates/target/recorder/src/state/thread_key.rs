//! The key of thread-specific data (pthread_key_create(3)) whose destructor runs at a thread's
//! end.
//!
//! glibc keeps the values of the first 32 keys in the thread itself: to set one takes no lock
//! and no memory, and is possible in a signal handler. The key is the last of these that is
//! free, so that the program's keys have their usual numbers. It also makes its destructor one
//! of the last to run.

use core::ffi::{c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::state::thread::Thread;
use crate::sys::next;

/// Keys whose values are in the thread itself (`PTHREAD_KEY_2NDLEVEL_SIZE`).
const IN_THREAD: usize = 32;
/// There is no key.
const NONE: u32 = u32::MAX;

static KEY: AtomicU32 = AtomicU32::new(NONE);

/// Creates the key. Before the program has other threads, which could find others of the keys
/// in use for a moment.
pub fn create(destructor: extern "C" fn(*mut c_void)) {
    let (Some(create), Some(delete)) = (next::pthread_key_create(), next::pthread_key_delete())
    else {
        return;
    };
    let mut keys = [NONE; IN_THREAD + 1];
    for key in &mut keys {
        let mut created: c_uint = 0;
        if create(&mut created, destructor) != 0 {
            break;
        }
        *key = created;
        if created as usize >= IN_THREAD - 1 {
            break;
        }
    }
    let created = || keys.into_iter().take_while(|key| *key != NONE);
    let kept = created().filter(|key| (*key as usize) < IN_THREAD).max();
    for key in created().filter(|key| Some(*key) != kept) {
        delete(key);
    }
    KEY.store(kept.unwrap_or(NONE), Relaxed);
}

/// The destructor is to run at the end of the calling thread, with its state.
pub fn set(thread: &'static Thread) {
    let key = KEY.load(Relaxed);
    if key != NONE
        && let Some(set) = next::pthread_setspecific()
    {
        set(key, ptr::from_ref(thread).cast());
    }
}
