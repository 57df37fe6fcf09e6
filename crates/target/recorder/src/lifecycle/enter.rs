//! The beginning and end of a hook: takes the thread's state for it, and releases it.
//!
//! A thread's first hook starts the recording if need be and claims a state and a ring.
//! A hook that finds the state in use runs in a signal handler that interrupted another
//! hook, and takes a nested state, or is a call that the allocator makes of itself.
//!
//! Nothing is remembered of a hook that a jump or an exception left: its mark, a stack
//! pointer, shows to the next hook that its frame does not exist any more.

use core::iter;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use allotrope_shm::hook_api::Caller;

use crate::capture::modules;
use crate::emit::mode;
use crate::lifecycle::early;
use crate::lifecycle::start;
use crate::lifecycle::threads;
use crate::state::process;
use crate::state::sampling;
use crate::state::thread::{OwnThread, Thread};
use crate::state::thread_key;
use crate::sys::system::{self, SignalsBlocked};

/// A hook at work, with the state to record with; it ends when this is dropped.
pub struct Hook(OwnThread);

impl Deref for Hook {
    type Target = OwnThread;

    #[inline(always)]
    fn deref(&self) -> &OwnThread {
        &self.0
    }
}

impl Drop for Hook {
    #[inline(always)]
    fn drop(&mut self) {
        leave(&self.0);
    }
}

/// Begins the hook that was called by `caller`. `None`: the call cannot be recorded.
#[inline(always)]
pub fn enter(caller: Caller<'_>) -> Option<Hook> {
    enter_as::<false>(caller)
}

/// Same as [`enter`], for the end of a block: it is recorded within a named function's call, too. What
/// such a call frees it need not have allocated.
#[inline(always)]
pub fn enter_to_end(caller: Caller<'_>) -> Option<Hook> {
    enter_as::<true>(caller)
}

/// Same as [`enter`]; calls `begun` before the first event of a thread.
#[inline(always)]
pub fn enter_or_begin(caller: Caller<'_>, begun: impl FnOnce()) -> Option<Hook> {
    #[cold]
    fn begin_with(caller: Caller<'_>, begun: impl FnOnce()) -> Option<OwnThread> {
        let thread = begin(caller);
        if thread.is_some() {
            begun();
        }
        thread
    }
    enter_by::<false>(caller, |caller| begin_with(caller, begun))
}

#[inline(always)]
fn enter_as<const ENDS: bool>(caller: Caller<'_>) -> Option<Hook> {
    enter_by::<ENDS>(caller, begin)
}

#[inline(always)]
fn enter_by<const ENDS: bool>(
    caller: Caller<'_>,
    begin: impl FnOnce(Caller<'_>) -> Option<OwnThread>,
) -> Option<Hook> {
    let Some(thread) = Thread::current() else {
        return begin(caller).map(Hook);
    };
    // SAFETY: `current` is the calling thread's.
    if unsafe { thread.is_busy() } {
        return interrupted::<ENDS>(thread, caller).map(Hook);
    }
    Some(Hook(take(thread, caller)))
}

/// Runs `body` as a hook, for a function of the recorder's own which has no entry stub,
/// so that there is no return address that matters. `None`: nothing can be recorded, and
/// `body` was not run.
pub fn without_caller<R>(body: impl FnOnce(OwnThread) -> R) -> Option<R> {
    let here = 0;
    // SAFETY: `here` stands for the stack pointer, and for a return address that lies in
    // no module, as long as the hook is at work.
    let hook = enter(unsafe { Caller::new(&here, 0) })?;
    Some(body(*hook))
}

/// Notes in a state that the caller's hook runs. The state is the calling thread's, and
/// no hook of it is at work that will go on.
#[inline(always)]
fn take(thread: &'static Thread, caller: Caller<'_>) -> OwnThread {
    thread
        .hook_sp
        .store(caller.stack_pointer() as usize, Relaxed);
    // A signal handler that comes from here on takes another state.
    compiler_fence(SeqCst);
    // SAFETY: the callers in this file have found it so.
    unsafe { OwnThread::new(thread) }
}

/// The hook is done.
#[inline(always)]
fn leave(thread: &Thread) {
    compiler_fence(SeqCst);
    thread
        .hook_sp
        .store(thread.suspended_call.load(Relaxed), Relaxed);
}

/// Value of `suspended_call`: a call of the allocator is under way in which the allocator may
/// call itself. Stack pointers are even.
const IN_ALLOCATOR: usize = 1;

/// Value of `suspended_call`: a call of an allocator is under way that the program reports
/// itself. Whatever is called in it belongs to it, wherever that returns to: the
/// allocator may be linked into the program.
const IN_REPORTED: usize = 2;

/// Value of `suspended_call`: a call of a function with a detour is under way. Whatever the program
/// itself calls in it belongs to it, for the allocator is a part of the program. What a library
/// calls does not: the exception of `operator new` is a block of the C++ library's.
const IN_DETOUR: usize = 4;

/// Value of `suspended_call`: a call of a function is under way that the user named as one that
/// allocates. Whatever is allocated in it belongs to it, wherever that returns to.
const IN_NAMED: usize = IN_REPORTED | IN_DETOUR;

/// A call of a function with a detour begins. Returns what [`leave_detour`] needs, as
/// [`enter_reported`] does, and stores in `outer` what it needs too.
#[inline(always)]
pub fn enter_detour(caller: Caller<'_>, outer: &mut usize) -> u64 {
    suspend(caller, outer, IN_DETOUR)
}

/// A call of a function begins that the user named as one that allocates; [`leave_detour`] ends it.
pub fn enter_named(caller: Caller<'_>, outer: &mut usize) -> u64 {
    suspend(caller, outer, IN_NAMED)
}

#[inline(always)]
fn suspend(caller: Caller<'_>, outer: &mut usize, value: usize) -> u64 {
    let Some(hook) = enter(caller) else {
        return 0;
    };
    let thread = hook.state();
    *outer = thread.suspended_call.load(Relaxed);
    let mark = caller.stack_pointer() as usize | value;
    thread.suspended_call.store(mark, Relaxed);
    drop(hook);
    mode::detach(thread);
    ptr::from_ref(thread) as u64
}

/// It ends.
#[inline(always)]
pub fn leave_detour(token: u64, outer: usize) {
    let mut states = iter::successors(Thread::current(), |thread| thread.nested.get());
    let state = states.find(|thread| ptr::from_ref(*thread) as u64 == token);
    // A jump may have left it, and a later call found that.
    if let Some(thread) = state
        && thread.suspended_call.load(Relaxed) & IN_DETOUR != 0
    {
        thread.suspended_call.store(outer, Relaxed);
        leave(thread);
        mode::attach(thread);
    }
}

/// Whether a call of [`enter_named`]'s is under way on this thread.
pub fn is_in_named(caller: Caller<'_>) -> bool {
    let sp = caller.stack_pointer() as usize;
    let mut states = iter::successors(Thread::current(), |thread| thread.nested.get());
    states.any(|thread| {
        let hook_sp = thread.hook_sp.load(Relaxed);
        let mark = hook_sp & !(IN_ALLOCATOR | IN_NAMED);
        hook_sp & IN_NAMED == IN_NAMED && !is_stale(thread, mark + 8, sp)
    })
}

/// Whether a named function is freeing this block on this thread, which has called the caller.
pub fn is_freeing(block: usize, caller: Caller<'_>) -> bool {
    Thread::current().is_some_and(|thread| {
        let [freeing, stack] = thread.freeing.each_ref().map(|it| it.load(Relaxed));
        // One that a jump has left is further in.
        freeing == block && (caller.stack_pointer() as usize) < stack
    })
}

/// A named function frees a block. Returns what [`end_free`] needs.
pub fn begin_free(block: usize, caller: Caller<'_>) -> [usize; 2] {
    let Some(thread) = Thread::current() else {
        return [0; 2];
    };
    let outer = thread.freeing.each_ref().map(|it| it.load(Relaxed));
    set_freeing(thread, [block, caller.stack_pointer() as usize]);
    outer
}

/// It has returned.
pub fn end_free(outer: [usize; 2]) {
    if let Some(thread) = Thread::current() {
        set_freeing(thread, outer);
    }
}

fn set_freeing(thread: &Thread, to: [usize; 2]) {
    for (word, value) in thread.freeing.iter().zip(to) {
        word.store(value, Relaxed);
    }
}

/// An exception leaves the innermost such call.
#[cold]
pub fn leave_unwound() {
    let states = iter::successors(Thread::current(), |thread| thread.nested.get());
    let is_in = |thread: &&Thread| thread.suspended_call.load(Relaxed) & IN_DETOUR != 0;
    if let Some(thread) = states.filter(is_in).last() {
        leave_detour(ptr::from_ref(thread) as u64, 0);
    }
}

/// A call that the program reports begins. Returns what [`leave_reported`] needs; 0 if
/// the call is not to be reported: nothing is recorded, or it is itself a part of such a
/// call.
///
/// The token is the state that entered: the state of a signal handler's calls is another
/// than that of the calls that it interrupted.
#[inline(always)]
pub fn enter_reported(caller: Caller<'_>) -> u64 {
    let Some(hook) = enter(caller) else {
        return 0;
    };
    let thread = hook.state();
    thread
        .outer_call
        .store(thread.suspended_call.load(Relaxed), Relaxed);
    let mark = caller.stack_pointer() as usize | IN_REPORTED;
    thread.suspended_call.store(mark, Relaxed);
    drop(hook);
    mode::detach(thread);
    ptr::from_ref(thread) as u64
}

/// It ends. `token` is what `enter_reported` returned to this thread.
#[inline(always)]
pub fn leave_reported(token: u64) {
    let mut state = Thread::current();
    while let Some(thread) = state
        && ptr::from_ref(thread) as u64 != token
    {
        state = thread.nested.get();
    }
    // A jump may have left it, and a later call found that.
    if let Some(thread) = state
        && thread.suspended_call.load(Relaxed) & IN_REPORTED != 0
    {
        let outer = thread.outer_call.load(Relaxed);
        thread.suspended_call.store(outer, Relaxed);
        leave(thread);
        mode::attach(thread);
    }
}

/// A call of the allocator begins whose inner calls are not to be recorded.
pub fn enter_allocator(caller: Caller<'_>) {
    if let Some(hook) = enter(caller) {
        let thread = hook.state();
        let mark = caller.stack_pointer() as usize | IN_ALLOCATOR;
        thread.suspended_call.store(mark, Relaxed);
        drop(hook);
        mode::detach(thread);
    }
}

/// It ends.
pub fn leave_allocator() {
    if let Some(thread) = Thread::current()
        && thread.hook_sp.load(Relaxed) & IN_ALLOCATOR != 0
    {
        thread.suspended_call.store(0, Relaxed);
        leave(thread);
        mode::attach(thread);
    }
}

/// Makes a call of the next allocator's in which the allocator may call another one
/// of the functions that the recorder defines: that is part of this call, and not
/// recorded. `caller` is the hook's.
#[inline(always)]
pub fn call_allocator<T>(caller: Caller<'_>, call: impl FnOnce() -> T) -> T {
    let Some(hook) = enter(caller) else {
        // Nothing is recorded, or this is itself such an inner call.
        return call();
    };
    let thread = hook.state();
    let outer = thread.suspended_call.load(Relaxed);
    let mark = caller.stack_pointer() as usize | IN_ALLOCATOR;
    thread.suspended_call.store(mark, Relaxed);
    drop(hook);
    mode::detach(thread);
    let result = call();
    // A jump may have left it, and a later call found that.
    if thread.suspended_call.load(Relaxed) == mark {
        thread.suspended_call.store(outer, Relaxed);
        leave(thread);
        if outer == 0 {
            mode::attach(thread);
        }
    }
    result
}

/// A thread's first event.
#[cold]
fn begin(caller: Caller<'_>) -> Option<OwnThread> {
    if !process::is_recording() && !start::start() {
        return None;
    }
    let _blocked = SignalsBlocked::new();
    if let Some(thread) = Thread::current() {
        // A handler has come before, and gone.
        return Some(take(thread, caller));
    }
    let Some(thread) = threads::claim(false) else {
        if mode::is_watching() {
            sampling::postpone();
        }
        return None;
    };
    thread.fork_local().forget_stacks();
    let thread = take(thread.state(), caller);
    thread.state().set_current();
    thread_key::set(thread.state());
    if early::is_pending() {
        early::write(thread);
    }
    Some(thread)
}

/// The thread's state is in use: either this hook runs in a signal handler
/// that interrupted another, or that other hook was left by a `siglongjmp`.
#[cold]
fn interrupted<const ENDS: bool>(
    mut thread: &'static Thread,
    caller: Caller<'_>,
) -> Option<OwnThread> {
    let sp = caller.stack_pointer() as usize;
    loop {
        let hook_sp = thread.hook_sp.load(Relaxed);
        let in_allocator = hook_sp & IN_ALLOCATOR != 0;
        let in_named = hook_sp & IN_NAMED == IN_NAMED;
        let in_reported = hook_sp & IN_REPORTED != 0;
        let in_detour = hook_sp & IN_DETOUR != 0;
        // A reported call's inner ones may be made from the frame that
        // entered it: they begin at its stack pointer, not below.
        let mark = hook_sp & !(IN_ALLOCATOR | IN_REPORTED | IN_DETOUR);
        let mark = if in_reported || in_detour {
            mark + 8
        } else {
            mark
        };
        let is_stale = hook_sp != 0 && is_stale(thread, mark, sp);
        if in_reported && !is_stale && !(ENDS && in_named) {
            return None;
        }
        if in_allocator && !is_stale && modules::is_allocator(caller.return_address()) {
            return None;
        }
        if in_detour && !in_named && !is_stale && modules::is_program(caller.return_address()) {
            return None;
        }
        if is_stale {
            // An exception or a jump has left it.
            thread.suspended_call.store(0, Relaxed);
        }
        if hook_sp == 0 || is_stale || in_allocator || in_detour {
            return Some(take(thread, caller));
        }
        let nested = match thread.nested.get() {
            Some(nested) => nested,
            None => claim_nested(thread)?,
        };
        // Whatever the interrupted hook is about to write gets a time of
        // its own, so that it can be ordered against what happens now.
        thread.limits().check_at.store(0, Relaxed);
        thread = nested;
        // Events in handlers are few: each marks the time.
        thread.limits().check_at.store(0, Relaxed);
    }
}

/// Claims the state for hooks that interrupt those of `thread`.
fn claim_nested(thread: &'static Thread) -> Option<&'static Thread> {
    let _blocked = SignalsBlocked::new();
    // A handler may have come before.
    if thread.nested.get().is_none() {
        let nested = threads::claim(true);
        if let Some(nested) = nested {
            nested.fork_local().forget_stacks();
            nested.root.set(thread.root.get());
        }
        thread.nested.set(nested.map(OwnThread::state));
    }
    thread.nested.get()
}

/// The hook that stored `hook_sp` is gone if the stack has been unwound
/// past its frame. On another stack (an alternate signal stack, our own) the
/// pointers do not compare: the hook below is still there.
fn is_stale(thread: &Thread, hook_sp: usize, sp: usize) -> bool {
    if sp < hook_sp || thread.on_second_stack(sp) {
        return false;
    }
    match system::alternate_stack_in_use() {
        Some((start, bytes)) => !(start..start + bytes).contains(&sp),
        None => true,
    }
}
