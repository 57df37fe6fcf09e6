//! Walks the stack of a call, or proves that most of it is the one walked
//! last.
//!
//! Unwinding is a pure function of a register state and the stack slots that
//! are read on the way. The states of the last walk are kept, outermost first;
//! as soon as a new walk reaches a kept state and the slots behind it still
//! hold what they held, the rest of the stack is the kept one. The checks are
//! independent loads, far cheaper than unwinding.

use core::ffi::c_void;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::compiler_fence;

use crate::arch::rule::{Frame, Rule, Step, step};
use crate::arch::{entry, frame_pointer, general};
use crate::modules;
use crate::process;
use crate::stack_ids;
use crate::thread::{DEPTH, RULES, RuleEntry, State, Thread};

/// Flags of a [`State`].
mod flag {
    /// The walk outwards from here depends on rbp.
    pub const NEEDS_BP: u16 = 1;
    /// The step that led here read more than two slots: check it by repeating it.
    pub const SPECIAL: u16 = 2;
    /// The step from here reads rbp.
    pub const USES_BP: u16 = 4;
    /// The step from here leaves rbp as it is.
    pub const KEEPS_BP: u16 = 8;
    /// The walk ends here because a return address of 0 was read.
    pub const ENDS_IN_ZERO: u16 = 16;
}

/// How a walk ended, as the ids that stand for it.
pub mod end {
    /// At the outermost frame.
    pub const COMPLETE: u32 = 0;
    /// Where nothing says how to go on.
    pub const NO_UNWIND_INFORMATION: u32 = 1;
    /// At the depth limit.
    pub const TRUNCATED: u32 = 2;
}

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
        let states = (&raw const (*guarded).states).cast::<State>();
        let kept = drop_below((*guarded).kept, states, frame.sp);
        let mut believable = kept;
        if kept > 0 {
            let top = &*states.add(kept - 1);
            if is_same(top, &frame) {
                match verify(thread, states, kept) {
                    0 => {
                        (*guarded).kept = kept;
                        #[cfg(feature = "verify")]
                        crate::verify::note_replay();
                        return Some(top.id);
                    }
                    met => believable = met - 1,
                }
            }
        }
        let walked = walk(thread, sp, bp, kept, believable);
        conclude(thread, sp, bp, walked)
    }
}

/// How many kept states remain that are not inside `sp`.
#[inline(always)]
unsafe fn drop_below(mut kept: usize, states: *const State, sp: u64) -> usize {
    // SAFETY: `kept` states are there.
    while kept > 0 && unsafe { (*states.add(kept - 1)).sp } < sp {
        kept -= 1;
    }
    kept
}

#[inline(always)]
fn is_same(state: &State, frame: &Frame) -> bool {
    state.sp == frame.sp
        && state.pc == frame.pc
        && (state.flags & flag::NEEDS_BP == 0 || state.bp == frame.bp)
}

/// Checks that the slots from which the states outside of the innermost of
/// `kept` were read still hold the same. Gives 0 if so, otherwise how many
/// states, from the outermost, can still be met.
#[inline(always)]
unsafe fn verify(thread: *mut Thread, states: *const State, kept: usize) -> usize {
    let mut index = kept - 1;
    // SAFETY: each slot is read only while all slots inside of it held: a real
    // unwind would read it next.
    unsafe {
        while index > 0 {
            index -= 1;
            let state = &*states.add(index);
            if state.flags & flag::SPECIAL != 0 {
                if !repeats(thread, &*states.add(index + 1), state) {
                    return index + 1;
                }
            } else if load(state.sp - 8) != state.pc
                || (state.bp_slot != 0 && load(state.sp - 8 * u64::from(state.bp_slot)) != state.bp)
            {
                return index + 1;
            }
        }
        let outermost = &*states;
        if outermost.flags & flag::ENDS_IN_ZERO != 0 && !still_ends(thread, outermost) {
            return 1;
        }
    }
    0
}

#[inline(always)]
unsafe fn load(address: u64) -> u64 {
    // SAFETY: passed on.
    unsafe { (address as *const u64).read_volatile() }
}

fn frame_of(state: &State) -> Frame {
    Frame {
        sp: state.sp,
        pc: state.pc,
        bp: state.bp,
    }
}

#[cold]
unsafe fn repeats(thread: *mut Thread, inner: &State, outer: &State) -> bool {
    // SAFETY: `inner` was just verified.
    unsafe {
        match step(frame_of(inner), rule_of(thread, inner.pc)) {
            Step::Caller { frame, .. } => is_same(outer, &frame),
            _ => false,
        }
    }
}

#[cold]
unsafe fn still_ends(thread: *mut Thread, outermost: &State) -> bool {
    // SAFETY: it was just verified.
    unsafe {
        matches!(
            step(frame_of(outermost), rule_of(thread, outermost.pc)),
            Step::Complete { read_zero: true }
        )
    }
}

/// The rule of an address: from the cache, or looked up.
#[inline(always)]
unsafe fn rule_of(thread: *mut Thread, pc: u64) -> Rule {
    // SAFETY: the thread's own state.
    unsafe {
        let guarded = Thread::guarded(thread);
        let entry = (&raw mut (*guarded).rules)
            .cast::<RuleEntry>()
            .add((pc ^ pc >> 12) as usize & (RULES - 1));
        let key = pc | u64::from((*guarded).generation) << 48;
        if (*entry).key == key {
            Rule((*entry).rule)
        } else {
            look_up_rule(thread, pc, key, entry)
        }
    }
}

#[cold]
unsafe fn look_up_rule(thread: *mut Thread, pc: u64, key: u64, entry: *mut RuleEntry) -> Rule {
    // SAFETY: the thread's own state; an entry that is left in the middle is
    // empty.
    unsafe {
        let (rule, lasting) = modules::look_up_rule(thread, pc);
        if lasting {
            (&raw mut (*entry).key).write_volatile(0);
            compiler_fence(SeqCst);
            (&raw mut (*entry).rule).write_volatile(rule.0);
            compiler_fence(SeqCst);
            (&raw mut (*entry).key).write_volatile(key);
        }
        rule
    }
}

/// The modules have changed: what the cache knows under the old generation is
/// void. While the loader is still at work nothing new can run, and the old
/// rules hold.
#[cold]
unsafe fn adopt_generation(thread: *mut Thread) {
    let generation = modules::settle();
    if generation & 1 != 0 {
        return;
    }
    // SAFETY: the thread's own state.
    unsafe {
        let guarded = Thread::guarded(thread);
        // Only 16 bits of it fit the keys: start afresh when they come round.
        if (*guarded).generation & !0xffff != generation & !0xffff {
            (&raw mut (*guarded).rules)
                .cast::<RuleEntry>()
                .write_bytes(0, RULES);
        }
        (*guarded).generation = generation;
        (*guarded).kept = 0;
    }
}

/// A walk's result, in one register; its fresh states are in
/// [`Guarded::fresh`](crate::thread::Guarded).
#[derive(Clone, Copy)]
struct Walked(u64);

/// Where a walk led.
enum Reached {
    /// The end of the stack, one of [`end`].
    End(u32),
    /// Kept states: so many of them, from the outermost, are the stack's.
    Kept(usize),
    /// A frame that only the general unwinder can step over.
    Rare,
}

impl Walked {
    const IN_LOADER: u64 = 1 << 63;
    const KEPT: u64 = 1 << 62;
    const RARE: u64 = 1 << 61;

    fn new(reached: Reached, count: usize, in_loader: bool) -> Self {
        let reached = match reached {
            Reached::End(end) => u64::from(end),
            Reached::Kept(base) => base as u64 | Self::KEPT,
            Reached::Rare => Self::RARE,
        };
        let in_loader = if in_loader { Self::IN_LOADER } else { 0 };
        Self(reached | (count as u64) << 32 | in_loader)
    }

    fn reached(self) -> Reached {
        if self.0 & Self::RARE != 0 {
            Reached::Rare
        } else if self.0 & Self::KEPT != 0 {
            Reached::Kept(self.0 as u32 as usize)
        } else {
            Reached::End(self.0 as u32)
        }
    }

    /// Fresh states.
    fn count(self) -> usize {
        (self.0 >> 32) as u16 as usize
    }

    /// The call came from the loader.
    fn in_loader(self) -> bool {
        self.0 & Self::IN_LOADER != 0
    }
}

const _: () = assert!(DEPTH <= u16::MAX as usize);

fn depth_limit() -> usize {
    let limit = process::control().depth_limit.load(Relaxed) as usize;
    limit.clamp(1, DEPTH)
}

/// Walks from a hook's caller until a kept state is met that holds, or to the
/// end.
#[inline(never)]
unsafe fn walk(
    thread: *mut Thread,
    sp: *const u64,
    bp: u64,
    mut kept: usize,
    mut believable: usize,
) -> Walked {
    let limit = depth_limit();
    // SAFETY: the thread's own state; both arrays have DEPTH states.
    unsafe {
        let guarded = Thread::guarded(thread);
        let states = (&raw mut (*guarded).states).cast::<State>();
        let fresh = (&raw mut (*guarded).fresh).cast::<State>();
        let mut frame = caller(sp, bp);
        let mut count = 0;
        let mut flags = 0;
        let mut slot = 0;
        let mut in_loader = false;
        // A state that is known to lead to slots that have changed may be
        // passed again, but not believed.
        let reached = loop {
            kept = drop_below(kept, states, frame.sp);
            believable = believable.min(kept);
            if believable > 0 && is_same(&*states.add(believable - 1), &frame) {
                match verify(thread, states, believable) {
                    0 => {
                        if count > 0 {
                            arrive(&mut *states.add(believable - 1), flags, slot);
                        }
                        break Reached::Kept(believable);
                    }
                    met => believable = met - 1,
                }
            }
            if count == limit {
                break Reached::End(end::TRUNCATED);
            }
            let rule = rule_of(thread, frame.pc);
            in_loader |= count == 0 && rule.is_loader();
            let state = &mut *fresh.add(count);
            *state = State {
                sp: frame.sp,
                pc: frame.pc,
                bp: frame.bp,
                id: u32::from(rule.mapping()),
                bp_slot: slot,
                flags,
            };
            count += 1;
            let mut next = step(frame, rule);
            if matches!(next, Step::FramePointer) {
                next = frame_pointer::step(frame);
            }
            match next {
                Step::Caller {
                    frame: caller,
                    bp_slot,
                    uses_bp,
                    special,
                } => {
                    state.flags |= if uses_bp { flag::USES_BP } else { 0 }
                        | if bp_slot == 0 && !special {
                            flag::KEEPS_BP
                        } else {
                            0
                        };
                    flags = if special { flag::SPECIAL } else { 0 };
                    slot = bp_slot;
                    frame = caller;
                }
                Step::Complete { read_zero } => {
                    state.flags |= if read_zero { flag::ENDS_IN_ZERO } else { 0 };
                    break Reached::End(end::COMPLETE);
                }
                Step::Unknown | Step::FramePointer => {
                    break Reached::End(end::NO_UNWIND_INFORMATION);
                }
                Step::Slow => break Reached::Rare,
            }
        };
        Walked::new(reached, count, in_loader)
    }
}

/// Makes a walk's states the kept ones and gives the stack its id. Apart from
/// `walk`, whose frame is gone by now: the program's stack may be a small one.
#[inline(never)]
unsafe fn conclude(thread: *mut Thread, sp: *const u64, bp: u64, walked: Walked) -> Option<u32> {
    let count = walked.count();
    let mut truncated = false;
    // SAFETY: the thread's own state.
    unsafe {
        let guarded = Thread::guarded(thread);
        let base = match walked.reached() {
            Reached::Rare => return general_walk(thread, caller(sp, bp)),
            Reached::Kept(base) if base + count > depth_limit() => {
                // The stack has grown past the limit: cut it there.
                return truncated_walk(thread, sp, bp);
            }
            Reached::Kept(base) => {
                #[cfg(feature = "verify")]
                crate::verify::note_replay();
                base
            }
            Reached::End(end) => {
                truncated = end == end::TRUNCATED;
                (*guarded).end = end;
                0
            }
        };
        let id = keep(thread, base, count)?;
        if walked.in_loader() {
            // What the loader allocates may tell that modules change: look at
            // its next allocation too.
            (*guarded).kept = 0;
            modules::loader_allocated();
        } else if truncated {
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
        let mapping = rule_of(thread, pc).mapping();
        Some(stack_ids::id(
            thread,
            end::NO_UNWIND_INFORMATION,
            pc,
            mapping,
        ))
    }
}

/// A kept state is now reached in another way.
fn arrive(state: &mut State, flags: u16, slot: u16) {
    let needs_bp = state.flags & flag::NEEDS_BP != 0;
    state.flags = state.flags & !flag::SPECIAL | flags;
    state.bp_slot = if needs_bp { slot } else { 0 };
}

/// Keeps the `count` fresh states outside-in upon the `base` kept ones, and
/// gives each its id.
unsafe fn keep(thread: *mut Thread, base: usize, count: usize) -> Option<u32> {
    // SAFETY: the thread's own state; `base + count` is at most DEPTH.
    unsafe {
        let guarded = Thread::guarded(thread);
        // Restarting the ids takes those of the kept states away.
        let generation = (*thread).next_id;
        if !stack_ids::room(thread, count) {
            (*guarded).kept = 0;
            return None;
        }
        let states = (&raw mut (*guarded).states).cast::<State>();
        let fresh = (&raw const (*guarded).fresh).cast::<State>();
        if (*thread).next_id < generation {
            return rename(thread, base, count);
        }
        let (mut parent, mut needs_bp) = ((*guarded).end, false);
        if base > 0 {
            let outer = &*states.add(base - 1);
            (parent, needs_bp) = (outer.id, outer.flags & flag::NEEDS_BP != 0);
        }
        for index in 0..count {
            let mut state = *fresh.add(count - 1 - index);
            let uses_bp = state.flags & flag::USES_BP != 0;
            let passes_bp = state.flags & flag::KEEPS_BP != 0 && needs_bp;
            needs_bp = uses_bp || passes_bp;
            if needs_bp {
                state.flags |= flag::NEEDS_BP;
            } else {
                state.bp_slot = 0;
            }
            parent = stack_ids::id(thread, parent, state.pc, state.id as u16);
            state.id = parent;
            *states.add(base + index) = state;
        }
        (*guarded).kept = base + count;
        #[cfg(feature = "verify")]
        crate::verify::note_frames(thread, base + count);
        Some(parent)
    }
}

/// As [`keep`] when all ids were just forgotten: the kept states need new ones.
#[cold]
unsafe fn rename(thread: *mut Thread, base: usize, count: usize) -> Option<u32> {
    // SAFETY: as `keep`.
    unsafe {
        let guarded = Thread::guarded(thread);
        let states = (&raw mut (*guarded).states).cast::<State>();
        if !stack_ids::room(thread, base + count) {
            (*guarded).kept = 0;
            return None;
        }
        let mut parent = (*guarded).end;
        for index in 0..base {
            let state = &mut *states.add(index);
            parent = stack_ids::id(
                thread,
                parent,
                state.pc,
                rule_of(thread, state.pc).mapping(),
            );
            state.id = parent;
        }
        keep(thread, base, count)
    }
}

/// The walk whose stack is deeper than the limit: the innermost `limit` frames.
#[cold]
unsafe fn truncated_walk(thread: *mut Thread, sp: *const u64, bp: u64) -> Option<u32> {
    // SAFETY: as `walk`, which without kept states cuts at the limit.
    unsafe {
        (*Thread::guarded(thread)).kept = 0;
        let walked = walk(thread, sp, bp, 0, 0);
        conclude(thread, sp, bp, walked)
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
unsafe fn general_walk(thread: *mut Thread, start: Frame) -> Option<u32> {
    let mut walk = GeneralWalk {
        thread,
        start,
        limit: depth_limit(),
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
        let fresh = (&raw mut (*guarded).fresh).cast::<State>();
        (*guarded).kept = 0;
        // Not sooner: looking rules up takes the second stack too.
        for index in 0..walk.walked.frames {
            let state = &mut *fresh.add(index);
            state.id = u32::from(rule_of(thread, state.pc).mapping());
        }
        (*guarded).end = walk.walked.end;
        let id = keep(thread, 0, walk.walked.frames);
        (*guarded).kept = 0;
        id
    }
}

unsafe extern "C" fn walk_generally(walk: *mut c_void) {
    // SAFETY: `general_walk` gives its own; the array has DEPTH states.
    unsafe {
        let walk = &mut *walk.cast::<GeneralWalk>();
        let guarded = Thread::guarded(walk.thread);
        let fresh = (&raw mut (*guarded).fresh).cast::<State>();
        walk.walked = general::walk(walk.thread, walk.start, walk.limit, &mut |index, pc| {
            *fresh.add(index) = State {
                sp: 0,
                pc,
                bp: 0,
                id: 0,
                bp_slot: 0,
                flags: 0,
            };
        });
    }
}
