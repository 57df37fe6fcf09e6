//! The beginning and end of a hook: takes the thread's state for it, and gives it back.
//!
//! A thread's first hook starts the recording if need be and claims a state and a ring.
//! A hook that finds the state in use runs in a signal handler that interrupted another
//! hook, and takes a nested state, or is a call that the allocator makes of itself.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use crate::capture::modules;
use crate::emit::counts;
use crate::lifecycle::early;
use crate::lifecycle::start;
use crate::lifecycle::threads;
use crate::state::process;
use crate::state::thread::Thread;
use crate::sys::system::{self, SignalsBlocked};

/// The state to record with for a hook whose stack pointer is `sp`; its `busy`
/// is set. Null: this call can not be recorded.
#[inline(always)]
pub unsafe fn enter(sp: usize) -> *mut Thread {
    let thread = Thread::current();
    // SAFETY: the slot is null or this thread's live state.
    unsafe {
        if thread.is_null() {
            return begin(sp);
        }
        if (*thread).busy != 0 {
            return interrupted(thread, sp);
        }
        (&raw mut (*thread).busy).write_volatile(sp);
    }
    thread
}

/// The hook is done.
#[inline(always)]
pub unsafe fn leave(thread: *mut Thread) {
    // SAFETY: `enter` gave it.
    unsafe { (&raw mut (*thread).busy).write_volatile((*thread).idle) };
}

/// In `idle`: a call of the allocator is under way in which the allocator may
/// call itself. Stack pointers are even.
const IN_ALLOCATOR: usize = 1;

/// In `idle`: a call of an allocator is under way that the program reports
/// itself. Whatever is called in it belongs to it, wherever that returns to: the
/// allocator may be linked into the program.
const IN_REPORTED: usize = 2;

/// A call that the program reports begins. Gives the state that must leave it;
/// null if it is not to be reported: nothing is recorded, or it is itself a
/// part of such a call.
#[inline(always)]
pub unsafe fn enter_reported(sp: usize) -> *mut Thread {
    // SAFETY: `enter` gives this thread's own state.
    unsafe {
        let thread = enter(sp);
        if !thread.is_null() {
            (*thread).outer_idle = (*thread).idle;
            (*thread).idle = sp | IN_REPORTED;
            leave(thread);
            if counts::is_on() {
                counts::detach();
            }
        }
        thread
    }
}

/// It ends. `thread` is what `enter_reported` gave.
#[inline(always)]
pub unsafe fn leave_reported(thread: *mut Thread) {
    // SAFETY: the state is this thread's, and no hook of it is at work.
    unsafe {
        // A jump may have left it, and a later call found that.
        if (*thread).idle & IN_REPORTED != 0 {
            (*thread).idle = (*thread).outer_idle;
            leave(thread);
            if counts::is_on() {
                counts::attach(thread);
            }
        }
    }
}

/// A call of the allocator begins whose inner calls are not to be recorded.
pub unsafe fn enter_allocator(sp: usize) {
    // SAFETY: `enter` gives this thread's own state.
    unsafe {
        let thread = enter(sp);
        if !thread.is_null() {
            (*thread).idle = sp | IN_ALLOCATOR;
            leave(thread);
            if counts::is_on() {
                counts::detach();
            }
        }
    }
}

/// Makes a call of the next allocator's in which the allocator may call another one
/// of the functions that the recorder stands before: that is part of this call, and
/// not recorded. `sp` is the hook's.
#[inline(always)]
pub unsafe fn call_allocator<T>(sp: *const u64, call: impl FnOnce() -> T) -> T {
    // SAFETY: `enter` gives this thread's own state; at the end no hook of it is at
    // work.
    unsafe {
        let mark = sp as usize | IN_ALLOCATOR;
        let thread = enter(sp as usize);
        if thread.is_null() {
            // Nothing is recorded, or this is itself such an inner call.
            return call();
        }
        let outer = (*thread).idle;
        (*thread).idle = mark;
        leave(thread);
        if counts::is_on() {
            counts::detach();
        }
        let result = call();
        // A jump may have left it, and a later call found that.
        if (*thread).idle == mark {
            (*thread).idle = outer;
            leave(thread);
            if counts::is_on() && outer == 0 {
                counts::attach(thread);
            }
        }
        result
    }
}

/// It ends.
pub unsafe fn leave_allocator() {
    let thread = Thread::current();
    // SAFETY: the slot is null or this thread's state.
    unsafe {
        if !thread.is_null() && (*thread).busy & IN_ALLOCATOR != 0 {
            (*thread).idle = 0;
            leave(thread);
            if counts::is_on() {
                counts::attach(thread);
            }
        }
    }
}

/// A thread's first event.
#[cold]
unsafe fn begin(sp: usize) -> *mut Thread {
    if !process::is_recording() && !start::start() {
        return ptr::null_mut();
    }
    let _blocked = SignalsBlocked::new();
    // A handler may have come first.
    let thread = Thread::current();
    if !thread.is_null() {
        // SAFETY: it is this thread's.
        unsafe { (*thread).busy = sp };
        return thread;
    }
    // SAFETY: signals are blocked.
    let thread = unsafe { threads::claim(false) };
    if !thread.is_null() {
        // SAFETY: claimed for this thread.
        unsafe {
            (*Thread::fork_local(thread)).forget_stacks();
            (*thread).busy = sp;
        }
        Thread::set_current(thread);
        if early::is_pending() {
            // SAFETY: as above.
            unsafe { early::write(thread) };
        }
    }
    thread
}

/// The thread's state is in use: either this hook runs in a signal handler
/// that interrupted another, or that other hook was left by a `siglongjmp`.
#[cold]
unsafe fn interrupted(mut thread: *mut Thread, sp: usize) -> *mut Thread {
    // SAFETY: states are this thread's own; `nested` is null or another one.
    unsafe {
        loop {
            let busy = (*thread).busy;
            let in_allocator = busy & IN_ALLOCATOR != 0;
            let in_reported = busy & IN_REPORTED != 0;
            // A reported call's inner ones may be made from the frame that
            // entered it: they begin at its stack pointer, not below.
            let mark = busy & !(IN_ALLOCATOR | IN_REPORTED);
            let mark = if in_reported { mark + 8 } else { mark };
            let is_stale = busy != 0 && is_stale(thread, mark, sp);
            if in_reported && !is_stale {
                return ptr::null_mut();
            }
            if in_allocator && !is_stale && modules::is_allocator(*(sp as *const u64)) {
                return ptr::null_mut();
            }
            if is_stale {
                // An exception or a jump has left it.
                (*thread).idle = 0;
            }
            if busy == 0 || is_stale || in_allocator {
                (&raw mut (*thread).busy).write_volatile(sp);
                return thread;
            }
            if (*thread).nested.is_null() {
                let _blocked = SignalsBlocked::new();
                if (*thread).nested.is_null() {
                    let nested = threads::claim(true);
                    if !nested.is_null() {
                        (*Thread::fork_local(nested)).forget_stacks();
                        (*nested).root = (*thread).root;
                    }
                    (*thread).nested = nested;
                }
            }
            if (*thread).nested.is_null() {
                return ptr::null_mut();
            }
            // Whatever the interrupted hook is about to write gets a time of
            // its own, so that it can be ordered against what happens now.
            Thread::limits(thread).check_at.store(0, Relaxed);
            thread = (*thread).nested;
            // Events in handlers are few: each marks the time.
            Thread::limits(thread).check_at.store(0, Relaxed);
        }
    }
}

/// The hook that marked the state busy is gone if the stack has been unwound
/// past its frame. On another stack (an alternate signal stack, our own) the
/// pointers do not compare: the hook below is still there.
unsafe fn is_stale(thread: *mut Thread, busy: usize, sp: usize) -> bool {
    if sp < busy || Thread::on_second_stack(thread, sp) {
        return false;
    }
    match system::alternate_stack_in_use() {
        Some((start, bytes)) => !(start..start + bytes).contains(&sp),
        None => true,
    }
}
