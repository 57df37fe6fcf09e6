//! Walks the stack of a call, or proves that most of it is the one walked
//! last.
//!
//! Unwinding is a pure function of a register state and the stack slots that
//! are read on the way. The states of the last walk are kept, outermost first;
//! as soon as a new walk reaches a kept state and the slots behind it still
//! hold what they held, the rest of the stack is the kept one. The checks are
//! independent loads, far cheaper than unwinding.

use core::ffi::c_void;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::compiler_fence;

use crate::arch::rule::{Frame, Rule, Step, step};
use crate::arch::{entry, general};
use crate::kept::{self, Fresh, State, begin_stack, drop_below, fresh, keep, states, verify};
use crate::modules;
use crate::places::{self, rule_of};
use crate::readable::{Memory, adopt_stack};
use crate::stack_ids;
use crate::thread::{Guarded, Thread};

pub use allotrope_shm::numbers::stack_end as end;

/// The caller's state at a hook's entry: its return address lies at `sp`.
#[inline(always)]
pub unsafe fn caller(sp: *const u64, bp: u64) -> Frame {
    // SAFETY: the entry stub gives the stack pointer as it found it.
    let pc = unsafe { sp.read() };
    Frame {
        sp: sp as u64 + 8,
        pc,
        bp,
    }
}

/// The id of the stack of a hook's caller, see [`caller`]; `None` if there is no room to
/// tell it.
#[inline(always)]
pub unsafe fn stack_id(thread: *mut Thread, sp: *const u64, bp: u64) -> Option<u32> {
    // SAFETY: the thread's own state.
    unsafe {
        let frame = caller(sp, bp);
        let guarded = Thread::guarded(thread);
        if (*guarded).generation != modules::generation() {
            adopt_generation(thread);
        }
        let states = states(guarded).cast_const();
        let mut end = drop_below(states, states.add((*guarded).kept), frame.sp);
        if end != states && (*end.sub(1)).sp == frame.sp {
            let innermost = end.sub(1);
            if (*innermost).is_same(&frame) {
                let holding = verify(thread, end);
                if holding == end {
                    (*guarded).kept = end.offset_from(states) as usize;
                    #[cfg(feature = "verify")]
                    crate::verify::note_replay();
                    return Some((*innermost).id);
                }
                end = holding;
            } else {
                end = innermost;
            }
        }
        walk(thread, sp, bp, end)
    }
}

/// The next stack is to look at the generation, as if modules had changed.
pub unsafe fn look_at_generation(guarded: *mut Guarded) {
    const NEVER_SETTLED: u32 = 1;
    // SAFETY: the thread's own state.
    unsafe { (&raw mut (*guarded).generation).write_volatile(NEVER_SETTLED) };
}

/// The modules have changed: the rules that are known are void. While the loader
/// is still at work nothing new can run, and the old rules hold.
#[cold]
unsafe fn adopt_generation(thread: *mut Thread) {
    let generation = modules::settle();
    // SAFETY: the thread's own state.
    unsafe {
        let guarded = Thread::guarded(thread);
        if generation & 1 != 0 && !places::are_nearly_full(guarded) {
            return;
        }
        (*guarded).kept = 0;
        compiler_fence(SeqCst);
        places::forget_rules(guarded);
        compiler_fence(SeqCst);
        (*guarded).generation = generation & !1;
    }
}

/// Where a walk led.
enum Reached {
    /// The end of the stack, one of [`end`].
    End(u32),
    /// As above, and a return address of 0 in memory told so.
    Zero,
    /// Kept states: so many of them, from the outermost, are the stack's.
    Kept(usize),
    /// A frame that only the general unwinder can step over.
    Rare,
}

/// Where the next frame of a walk outwards must not begin without a closer look: at
/// the innermost of the states up to `end`, which it may meet, or beyond what is
/// known of the stack. A walk that is below has met none.
#[inline(always)]
unsafe fn limit_of(guarded: *mut Guarded, end: *const State) -> u64 {
    // SAFETY: the thread's own state; unless it is the first, there is one before.
    unsafe {
        if end == states(guarded).cast_const() {
            (*guarded).stack_end + 1
        } else {
            (*end.sub(1)).sp
        }
    }
}

/// Walks from a hook's caller until one of the kept states before `end` is met
/// and holds, or to the stack's end, and gives the stack its id. States that are
/// known to lead to slots that have changed may be passed again, but do not lie
/// before `end`.
///
/// Nearly all frames are found by rsp alone: what is done for each of those fits
/// the registers, and rbp is not looked at. All else is elsewhere.
///
/// Whatever is read lies on the known stack, from the stack pointer to its end, and
/// so do all states that are kept: it need not be asked whether it can be read.
#[inline(never)]
unsafe fn walk(thread: *mut Thread, sp: *const u64, bp: u64, mut end: *const State) -> Option<u32> {
    // SAFETY: the thread's own state; both arrays have DEPTH states.
    unsafe {
        let guarded = Thread::guarded(thread);
        if (sp as u64) < (*guarded).stack_start {
            return walk_off_stack(thread, sp, bp);
        }
        let states = states(guarded).cast_const();
        let mut limit = limit_of(guarded, end);
        let last = fresh(guarded).add((*thread).depth_limit as usize);
        let mut frame = caller(sp, bp);
        let mut at = fresh(guarded);
        let reached = loop {
            if at == last {
                break Reached::End(end::TRUNCATED);
            }
            let rule = rule_of(thread, frame.pc);
            if !rule.is_rsp() {
                kept::put(at, &frame, Rule(0));
                return walk_with_bp(thread, sp, bp, end, at);
            }
            kept::put(at, &frame, rule);
            at = at.add(1);
            let cfa = rule.cfa_by_rsp(&frame);
            if cfa < limit {
                if !kept::go_to(&mut frame, cfa) {
                    break Reached::Zero;
                }
                continue;
            }
            if cfa > (*guarded).stack_end {
                return walk_off_stack(thread, sp, bp);
            }
            if !kept::go_to(&mut frame, cfa) {
                break Reached::Zero;
            }
            end = drop_below(states, end, frame.sp);
            if end != states && (*end.sub(1)).returns_to(&frame) {
                if (*end.sub(1)).needs_bp() {
                    kept::put(at, &frame, Rule(0));
                    return walk_with_bp(thread, sp, bp, end, at);
                }
                let holding = verify(thread, end);
                if holding == end {
                    break Reached::Kept(end.offset_from(states) as usize);
                }
                end = holding;
            }
            limit = limit_of(guarded, end);
        };
        let count = at.offset_from(fresh(guarded)) as usize;
        match reached {
            Reached::Kept(base) if base + count <= (*thread).depth_limit as usize => {
                keep_upon::<true>(thread, base, count)
            }
            other => conclude(thread, sp, bp, other, count),
        }
    }
}

/// [`walk`] from the frame at `at` on, behind the fresh states before it: a rule that
/// needs more than rsp was met, or a kept state that depends on rbp. It is jumped to,
/// for the stack may be a small one.
#[inline(never)]
unsafe fn walk_with_bp(
    thread: *mut Thread,
    sp: *const u64,
    bp: u64,
    mut end: *const State,
    mut at: *mut Fresh,
) -> Option<u32> {
    // SAFETY: as there.
    unsafe {
        let guarded = Thread::guarded(thread);
        let states = states(guarded).cast_const();
        let mut limit = limit_of(guarded, end);
        let last = fresh(guarded).add((*thread).depth_limit as usize);
        let mut frame = kept::follow_bp(guarded, at, bp);
        let reached = loop {
            if frame.sp >= limit {
                end = drop_below(states, end, frame.sp);
                if end != states && (*end.sub(1)).is_same(&frame) {
                    let holding = verify(thread, end);
                    if holding == end {
                        break Reached::Kept(end.offset_from(states) as usize);
                    }
                    end = holding;
                }
                limit = limit_of(guarded, end);
            }
            if at == last {
                break Reached::End(end::TRUNCATED);
            }
            let rule = rule_of(thread, frame.pc);
            let Frame {
                sp: at_sp,
                pc,
                bp: at_bp,
            } = frame;
            *at = Fresh {
                sp: at_sp,
                pc,
                bp: at_bp,
                rule,
            };
            at = at.add(1);
            if rule.is_plain() {
                let Some(cfa) = rule.cfa(&frame) else {
                    break Reached::End(end::NO_UNWIND_INFORMATION);
                };
                if cfa > (*guarded).stack_end {
                    return walk_off_stack(thread, sp, bp);
                }
                if rule.slot() != 0 {
                    frame.bp = kept::load(cfa - 8 * rule.slot());
                }
                if !kept::go_to(&mut frame, cfa) {
                    break Reached::Zero;
                }
                continue;
            }
            match kept::rare_step(thread, frame, rule) {
                Step::Caller(caller) => {
                    // An interrupted frame may be on another stack.
                    if caller.sp < frame.sp || caller.sp > (*guarded).stack_end {
                        return walk_off_stack(thread, sp, bp);
                    }
                    frame = caller;
                }
                Step::Complete { read_zero: true } => break Reached::Zero,
                Step::Complete { read_zero: false } => break Reached::End(end::COMPLETE),
                Step::Unknown => break Reached::End(end::NO_UNWIND_INFORMATION),
                Step::Slow => break Reached::Rare,
            }
        };
        let count = at.offset_from(fresh(guarded)) as usize;
        match reached {
            Reached::Kept(base) if base + count <= (*thread).depth_limit as usize => {
                keep_upon::<false>(thread, base, count)
            }
            other => conclude(thread, sp, bp, other, count),
        }
    }
}

/// A walk that leads, or begins, off the known stack.
struct OffStack {
    thread: *mut Thread,
    sp: *const u64,
    bp: u64,
    led: (Led, u32),
}

/// What became of it.
#[derive(Clone, Copy)]
enum Led {
    /// The stack is known now: walk again.
    Again,
    /// Only the general unwinder can do it.
    General,
    /// It has an id, which is told beside.
    Done,
    /// There was no room for one.
    NoRoom,
}

/// A walk that leads, or begins, off the known stack: onto one that is not known yet,
/// or off each. It is jumped to, and what is more of it takes place elsewhere: the
/// program's stack may be a small one.
#[cold]
#[inline(never)]
unsafe fn walk_off_stack(thread: *mut Thread, sp: *const u64, bp: u64) -> Option<u32> {
    // SAFETY: the thread's own state.
    unsafe {
        match led_off_stack(thread, sp, bp) {
            (Led::Again, _) => walk(thread, sp, bp, states(Thread::guarded(thread))),
            (Led::General, _) => general_walk(thread, sp, bp),
            (Led::Done, id) => Some(id),
            (Led::NoRoom, _) => None,
        }
    }
}

/// What becomes of such a walk.
#[inline(never)]
unsafe fn led_off_stack(thread: *mut Thread, sp: *const u64, bp: u64) -> (Led, u32) {
    let mut walk = OffStack {
        thread,
        sp,
        bp,
        led: (Led::Again, 0),
    };
    // SAFETY: the thread's own state; nobody else uses this part of its second stack.
    unsafe {
        let top = Thread::careful_stack_top(thread);
        entry::call_on_stack((&raw mut walk).cast(), go_off_stack, top);
    }
    walk.led
}

unsafe extern "C" fn go_off_stack(walk: *mut c_void) {
    // SAFETY: `walk_off_stack` gives its own; the hook was called with this stack
    // pointer.
    unsafe {
        let walk = &mut *walk.cast::<OffStack>();
        if !adopt_stack(Thread::guarded(walk.thread), walk.sp as u64) {
            walk.led = careful_walk(walk.thread, walk.sp, walk.bp);
        }
    }
}

/// A walk of which each word is asked for before it is read, unless it is on the
/// known stack. Nothing is kept.
unsafe fn careful_walk(thread: *mut Thread, sp: *const u64, bp: u64) -> (Led, u32) {
    // SAFETY: the thread's own state; the array has DEPTH states.
    unsafe {
        let guarded = Thread::guarded(thread);
        let mut frame = caller(sp, bp);
        let mut memory = Memory::with(sp as u64, (*guarded).stack_end);
        let mut count = 0;
        let end = loop {
            if count == (*thread).depth_limit as usize {
                break end::TRUNCATED;
            }
            let rule = rule_of(thread, frame.pc);
            put_unmet(guarded, count, frame.pc, rule);
            count += 1;
            match step(frame, rule, &mut memory) {
                Step::Caller(caller) => frame = caller,
                Step::Complete { .. } => break end::COMPLETE,
                Step::Unknown => break end::NO_UNWIND_INFORMATION,
                Step::Slow => return (Led::General, 0),
            }
        };
        begin_stack(guarded, end, false);
        let id = keep(thread, count);
        if id.is_some() && (*fresh(guarded)).rule.is_loader() {
            from_loader(thread);
        }
        (*guarded).kept = 0;
        id.map_or((Led::NoRoom, 0), |id| (Led::Done, id))
    }
}

/// Makes the fresh state at `index` one that no walk meets: what lies outside of it
/// may not be readable the next time.
unsafe fn put_unmet(guarded: *mut Guarded, index: usize, pc: u64, rule: Rule) {
    // SAFETY: the thread's own state; the array has DEPTH states.
    unsafe {
        *fresh(guarded).add(index) = Fresh {
            sp: 0,
            pc,
            bp: 0,
            rule,
        };
    }
}

/// Keeps the fresh states of a walk that met the innermost of `base` kept ones.
/// `PLAIN`: nothing depends on rbp.
#[inline(never)]
unsafe fn keep_upon<const PLAIN: bool>(
    thread: *mut Thread,
    base: usize,
    count: usize,
) -> Option<u32> {
    #[cfg(feature = "verify")]
    crate::verify::note_replay();
    // SAFETY: the thread's own state.
    unsafe {
        let id = kept::keep_upon::<PLAIN>(thread, base, count)?;
        if (*fresh(Thread::guarded(thread))).rule.is_loader() && count > 0 {
            from_loader(thread);
        }
        Some(id)
    }
}

/// What the loader allocates may tell that modules change: its next allocation
/// is looked at too.
#[cold]
unsafe fn from_loader(thread: *mut Thread) {
    // SAFETY: the thread's own state.
    unsafe { (*Thread::guarded(thread)).kept = 0 };
    modules::loader_allocated();
}

/// Ends a walk that came to the end of the stack, or could not go on.
#[inline(never)]
unsafe fn conclude(
    thread: *mut Thread,
    sp: *const u64,
    bp: u64,
    reached: Reached,
    count: usize,
) -> Option<u32> {
    // SAFETY: the thread's own state.
    unsafe {
        let guarded = Thread::guarded(thread);
        let end = match reached {
            Reached::Rare => return general_walk(thread, sp, bp),
            Reached::Kept(_) => {
                // The stack has grown past the limit: cut it there. Without
                // kept states the walk does so.
                (*guarded).kept = 0;
                return walk(thread, sp, bp, states(guarded));
            }
            Reached::End(end) => end,
            Reached::Zero => end::COMPLETE,
        };
        if sp as u64 >= (*guarded).stack_end {
            // A walk that ended with its first frame need not have noticed.
            return walk_off_stack(thread, sp, bp);
        }
        begin_stack(guarded, end, matches!(reached, Reached::Zero));
        let id = keep(thread, count)?;
        if (*fresh(guarded)).rule.is_loader() {
            from_loader(thread);
        } else if end == end::TRUNCATED {
            (*guarded).kept = 0;
        }
        Some(id)
    }
}

/// The id of a stack of which only the innermost frame is known.
pub unsafe fn lone_frame(thread: *mut Thread, pc: u64) -> Option<u32> {
    // SAFETY: the thread's own state.
    unsafe {
        if (*Thread::guarded(thread)).generation != modules::generation() {
            adopt_generation(thread);
        }
        if !stack_ids::room(thread, 1) {
            return None;
        }
        let place = rule_of(thread, pc).place();
        Some(stack_ids::of_one_frame(
            thread,
            end::NO_UNWIND_INFORMATION,
            pc,
            place,
        ))
    }
}

/// A walk by the general unwinder, on the second stack.
struct GeneralWalk {
    thread: *mut Thread,
    start: Frame,
    limit: usize,
    walked: general::Walked,
}

/// The walk over frames that need more than rsp and rbp. Nothing is kept.
#[cold]
unsafe fn general_walk(thread: *mut Thread, sp: *const u64, bp: u64) -> Option<u32> {
    let mut walk = GeneralWalk {
        thread,
        // SAFETY: as `walk`.
        start: unsafe { caller(sp, bp) },
        // SAFETY: the thread's own state.
        limit: unsafe { (*thread).depth_limit } as usize,
        walked: general::Walked {
            frames: 0,
            end: end::NO_UNWIND_INFORMATION,
        },
    };
    // SAFETY: the thread's own state; its second stack is free.
    unsafe {
        // The general unwinder needs more stack than the program may have.
        entry::call_on_stack(
            (&raw mut walk).cast(),
            walk_generally,
            Thread::stack_top(thread),
        );
        let guarded = Thread::guarded(thread);
        (*guarded).kept = 0;
        // Not sooner: looking rules up takes the second stack too.
        for index in 0..walk.walked.frames {
            let state = &mut *fresh(guarded).add(index);
            state.rule = rule_of(thread, state.pc);
        }
        begin_stack(guarded, walk.walked.end, false);
        let id = keep(thread, walk.walked.frames);
        (*guarded).kept = 0;
        id
    }
}

unsafe extern "C" fn walk_generally(walk: *mut c_void) {
    // SAFETY: `general_walk` gives its own; the array has DEPTH states.
    unsafe {
        let walk = &mut *walk.cast::<GeneralWalk>();
        let guarded = Thread::guarded(walk.thread);
        walk.walked = general::walk(walk.thread, walk.start, walk.limit, &mut |index, pc| {
            put_unmet(guarded, index, pc, Rule(0));
        });
    }
}
