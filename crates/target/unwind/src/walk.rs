//! Walks the stack of a hook's caller until it meets a cached frame from which the stack
//! is unchanged, or to the stack's end.
//!
//! There are four walks, from the most frequent to the rarest. Each continues with the
//! next one by a tail call if it cannot handle a frame, so that little of the program's
//! stack is used, which may be small:
//!
//! 1. [`walk`]: every rule needs the stack pointer only. The state of the walk fits into
//!    registers, and frame pointers are ignored.
//! 2. [`walk_with_frame_pointer`]: any rule of one word, on the known stack.
//! 3. [`walk_off_stack`]: checks whether words outside the known stack can be read (the
//!    stack of a coroutine or of a signal handler). Caches nothing.
//! 4. [`walk_generally`]: all registers and expressions, by the unwind information
//!    itself. Caches nothing.

use crate::arch::{Entry, FrameAddress, Rule, Step, general_walk, step};
use crate::last_stack::{self, LastStack, replay, step_on_stack};
use crate::memory::Memory;
use crate::rule_cache::{forget_rules, rule_of};
use crate::stack::Adopted;
use crate::{DEPTH, Host, Reserved, StackEnd, StackHash, Unwinder};

/// Captures the stack of a hook's caller and returns its id; `None` if ids could not be
/// reserved.
#[inline(always)]
pub fn stack_id<H: Host>(host: H, entry: Entry) -> Option<u32> {
    let unwinder = host.unwinder();
    if unwinder.generation.get() != host.generation() {
        adopt_generation(host);
    }
    let last = last_stack::last(host);
    let frame = entry.caller();
    let mut count = last.drop_inside(last.len(), frame.stack_pointer);
    if let Some(innermost) = last.innermost(count)
        && innermost.stack_pointer.get() == frame.stack_pointer
    {
        if innermost.resumes(&frame) {
            let holding = replay(host, count);
            if holding == count {
                last.set_len(count);
                #[cfg(feature = "verify")]
                unwinder.verified.note_replay();
                return Some(innermost.id.get());
            }
            count = holding;
        } else {
            count -= 1;
        }
    }
    walk(host, entry, count)
}

/// Called when modules have changed: removes the cached rules, which are invalid. While
/// the loader is still changing modules, no new code can run and the old rules are valid.
#[cold]
fn adopt_generation<H: Host>(host: H) {
    let unwinder = host.unwinder();
    let generation = host.settled_generation();
    if generation & 1 != 0 && !unwinder.rules.are_code_ids_nearly_used_up() {
        return;
    }
    unwinder.forget_stack();
    forget_rules(host);
    unwinder.set_generation(generation & !1);
}

/// Where a walk ended.
enum Reached {
    End(StackEnd),
    /// At the end of the stack, found by a return address of 0.
    Zero,
    /// At a cached frame: this many cached frames, from the outermost, are still valid.
    Cached(usize),
    /// A frame that only the general unwinder can step over.
    NeedsGeneral,
}

impl Unwinder {
    /// The stack pointer from which on a walk outwards has to check more: that of the
    /// innermost of the first `count` cached frames, which the walk may have reached, or
    /// the end of the known stack.
    #[inline(always)]
    fn limit(&self, last: &LastStack, count: usize) -> u64 {
        match last.innermost(count) {
            Some(frame) => frame.stack_pointer.get(),
            None => self.stack.end() + 1,
        }
    }
}

/// The walk by rules that need the stack pointer only. It may meet the first `count`
/// cached frames; the others are known to have changed.
///
/// All words that it reads, and all cached frames, are on the known stack between the
/// stack pointer and its end, so their readability need not be checked.
#[inline(never)]
fn walk<H: Host>(host: H, entry: Entry, mut count: usize) -> Option<u32> {
    let unwinder = host.unwinder();
    let (last, stack) = (last_stack::last(host), &unwinder.stack);
    if entry.stack_pointer() < stack.start() {
        return walk_off_stack(host, entry);
    }
    let mut limit = unwinder.limit(last, count);
    let mut frame = entry.caller();
    let depth = host.depth_limit();
    let mut free = last.walked(0, depth).iter().rev();
    let reached = loop {
        let Some(slot) = free.next() else {
            break Reached::End(StackEnd::Truncated);
        };
        let rule = rule_of(host, frame.code);
        if !rule.needs_stack_pointer_only() {
            slot.set(&frame, Rule::NOTHING);
            return walk_with_frame_pointer(host, entry, count, depth - free.len() - 1);
        }
        slot.set(&frame, rule);
        let cfa = rule.cfa_by_stack_pointer(&frame);
        if cfa < limit {
            // SAFETY: the word below `cfa` is between the stack pointer and the end of
            // the known stack.
            if !unsafe { frame.return_to(cfa) } {
                break Reached::Zero;
            }
            continue;
        }
        if cfa > stack.end() {
            return walk_off_stack(host, entry);
        }
        // SAFETY: as above.
        if !unsafe { frame.return_to(cfa) } {
            break Reached::Zero;
        }
        count = last.drop_inside(count, frame.stack_pointer);
        if let Some(cached) = last.innermost(count)
            && cached.is_at(&frame)
        {
            if cached.needs_frame_pointer() {
                let done = depth - free.len();
                last.walked_frame(done).set(&frame, Rule::NOTHING);
                return walk_with_frame_pointer(host, entry, count, done);
            }
            let holding = replay(host, count);
            if holding == count {
                break Reached::Cached(count);
            }
            count = holding;
        }
        limit = unwinder.limit(last, count);
    };
    let done = depth - free.len();
    match reached {
        Reached::Cached(base) if base + done <= depth => commit_upon::<true, H>(host, base, done),
        other => conclude(host, entry, other, done),
    }
}

/// Continues [`walk`] at the frame after the first `done` walked ones: that frame has a
/// rule that needs more than the stack pointer, or equals a cached frame that depends on
/// the frame pointer.
#[inline(never)]
fn walk_with_frame_pointer<H: Host>(
    host: H,
    entry: Entry,
    mut count: usize,
    done: usize,
) -> Option<u32> {
    let unwinder = host.unwinder();
    let (last, stack) = (last_stack::last(host), &unwinder.stack);
    let mut limit = unwinder.limit(last, count);
    let mut frame = last.restore_frame_pointers(done, entry.frame_pointer());
    let depth = host.depth_limit();
    let mut free = last.walked(done, depth).iter().rev();
    let reached = loop {
        if frame.stack_pointer >= limit {
            count = last.drop_inside(count, frame.stack_pointer);
            if let Some(cached) = last.innermost(count)
                && cached.resumes(&frame)
            {
                let holding = replay(host, count);
                if holding == count {
                    break Reached::Cached(count);
                }
                count = holding;
            }
            limit = unwinder.limit(last, count);
        }
        let Some(slot) = free.next() else {
            break Reached::End(StackEnd::Truncated);
        };
        let rule = rule_of(host, frame.code);
        slot.set(&frame, rule);
        slot.frame_pointer.set(frame.frame_pointer);
        if rule.is_simple() {
            let Some(cfa) = rule.cfa(&frame) else {
                break Reached::End(StackEnd::NoUnwindInformation);
            };
            if cfa > stack.end() {
                return walk_off_stack(host, entry);
            }
            if let Some(slot) = rule.frame_pointer_slot(cfa) {
                // SAFETY: the slot is below `cfa` and not below the frame's return
                // address, so between the stack pointer and the end of the known stack.
                frame.frame_pointer = unsafe { crate::stack::load(slot) };
            }
            // SAFETY: as in `walk`.
            if !unsafe { frame.return_to(cfa) } {
                break Reached::Zero;
            }
            continue;
        }
        match step_on_stack(host, frame, rule) {
            Step::Caller(caller) => {
                // An interrupted frame may be on another stack.
                if caller.stack_pointer < frame.stack_pointer || caller.stack_pointer > stack.end()
                {
                    return walk_off_stack(host, entry);
                }
                frame = caller;
            }
            Step::ZeroReturnAddress => break Reached::Zero,
            Step::Outermost => break Reached::End(StackEnd::Complete),
            Step::Unknown => break Reached::End(StackEnd::NoUnwindInformation),
            Step::NeedsGeneral => break Reached::NeedsGeneral,
        }
    };
    let done = depth - free.len();
    match reached {
        Reached::Cached(base) if base + done <= depth => commit_upon::<false, H>(host, base, done),
        other => conclude(host, entry, other, done),
    }
}

/// Caches the `count` frames of a walk that ended at the innermost of `base` cached ones;
/// returns the stack's id. `SIMPLE`: no rule needs more than the stack pointer.
#[inline(never)]
fn commit_upon<const SIMPLE: bool, H: Host>(host: H, base: usize, count: usize) -> Option<u32> {
    #[cfg(feature = "verify")]
    host.unwinder().verified.note_replay();
    let id = last_stack::commit_walk_upon::<SIMPLE, H>(host, base, count)?;
    if count > 0 && last_stack::last(host).is_in_loader() {
        loader_allocated(host);
    }
    Some(id)
}

/// Ends a walk that reached the end of the stack, or could not continue.
#[inline(never)]
fn conclude<H: Host>(host: H, entry: Entry, reached: Reached, count: usize) -> Option<u32> {
    let unwinder = host.unwinder();
    let end = match reached {
        Reached::NeedsGeneral => return walk_generally(host, entry),
        Reached::Cached(_) => {
            // Walked and cached frames together exceed the limit. A walk that meets no
            // cached frame truncates the stack there.
            last_stack::last(host).set_len(0);
            return walk(host, entry, 0);
        }
        Reached::End(end) => end,
        Reached::Zero => StackEnd::Complete,
    };
    if entry.stack_pointer() >= unwinder.stack.end() {
        // A walk that ended at its first frame may not have noticed that this frame is
        // beyond the known stack.
        return walk_off_stack(host, entry);
    }
    let ends_in_zero = matches!(reached, Reached::Zero);
    let id = last_stack::commit_walk(host, count, end, ends_in_zero)?;
    if last_stack::last(host).is_in_loader() {
        loader_allocated(host);
    } else if end == StackEnd::Truncated {
        last_stack::last(host).set_len(0);
    }
    Some(id)
}

impl LastStack {
    /// Whether the innermost frame of the last walk is the dynamic loader's.
    #[inline(always)]
    fn is_in_loader(&self) -> bool {
        self.walked_frame(0).rule.get().is_in_loader()
    }
}

/// Called after an allocation of the loader, which may be about to change modules: the
/// next stacks are walked from the start too.
#[cold]
fn loader_allocated<H: Host>(host: H) {
    host.unwinder().forget_stack();
    host.loader_allocated();
}

/// The result of a walk that led, or began, off the known stack.
enum OffStack {
    /// The known stack has changed: walk again.
    Again,
    /// All frames are walked.
    Walked(usize, StackEnd),
    NeedsGeneral,
}

#[cold]
#[inline(never)]
fn walk_off_stack<H: Host>(host: H, entry: Entry) -> Option<u32> {
    match try_off_stack(host, entry) {
        OffStack::Again => walk(host, entry, 0),
        OffStack::NeedsGeneral => walk_generally(host, entry),
        OffStack::Walked(count, end) => commit_uncached(host, count, end),
    }
}

#[inline(never)]
fn try_off_stack<H: Host>(host: H, entry: Entry) -> OffStack {
    host.on_small_second_stack(|| {
        let unwinder = host.unwinder();
        let range = host.stack_of(entry.stack_pointer());
        let forget = || unwinder.forget_stack();
        match unwinder.stack.adopt(range.start, range.end, forget) {
            Adopted::Unchanged => walk_checked(host, entry),
            Adopted::Extended | Adopted::Replaced => OffStack::Again,
        }
    })
}

/// A walk that checks each word before it reads it, except on the known stack.
fn walk_checked<H: Host>(host: H, entry: Entry) -> OffStack {
    let unwinder = host.unwinder();
    let mut frame = entry.caller();
    // SAFETY: the stack pointer is in the known stack, which can be read from there to
    // its end.
    let mut memory = unsafe {
        Memory::with(
            H::page_is_readable,
            entry.stack_pointer(),
            unwinder.stack.end(),
        )
    };
    let depth = host.depth_limit();
    for (index, slot) in last_stack::last(host)
        .walked(0, depth)
        .iter()
        .rev()
        .enumerate()
    {
        let rule = rule_of(host, frame.code);
        slot.set_unresumable(frame.code, rule);
        frame = match step(frame, rule, &mut memory) {
            Step::Caller(caller) => caller,
            Step::Outermost | Step::ZeroReturnAddress => {
                return OffStack::Walked(index + 1, StackEnd::Complete);
            }
            Step::Unknown => return OffStack::Walked(index + 1, StackEnd::NoUnwindInformation),
            Step::NeedsGeneral => return OffStack::NeedsGeneral,
        };
    }
    OffStack::Walked(depth, StackEnd::Truncated)
}

/// The walk over frames that need more than stack and frame pointer.
#[cold]
#[inline(never)]
fn walk_generally<H: Host>(host: H, entry: Entry) -> Option<u32> {
    let last = last_stack::last(host);
    let general = host.on_second_stack(|| {
        let mut memory = Memory::unknown(H::page_is_readable);
        general_walk(
            host,
            entry.caller(),
            host.depth_limit(),
            &mut memory,
            |index, code| {
                last.walked_frame(index)
                    .set_unresumable(code, Rule::NOTHING);
            },
        )
    });
    // Only now, since looking up rules uses the second stack too.
    for frame in last.walked(0, general.frames) {
        frame.rule.set(rule_of(host, frame.code.get()));
    }
    commit_uncached(host, general.frames, general.end)
}

/// Assigns ids to the `count` walked frames and returns the stack's; caches nothing.
fn commit_uncached<H: Host>(host: H, count: usize, end: StackEnd) -> Option<u32> {
    let id = last_stack::commit_walk(host, count, end, false);
    if id.is_some() && last_stack::last(host).is_in_loader() {
        loader_allocated(host);
    }
    last_stack::last(host).set_len(0);
    id
}

/// The id of a stack of which only the innermost frame is known; `None` if no id could be
/// reserved.
pub fn id_of_lone_frame<H: Host>(host: H, frame: FrameAddress) -> Option<u32> {
    if host.unwinder().generation.get() != host.generation() {
        adopt_generation(host);
    }
    if host.reserve_ids(1) == Reserved::Nothing {
        return None;
    }
    let end = StackEnd::NoUnwindInformation as u32;
    let code_id = rule_of(host, frame).code_id();
    let hash = StackHash::of_no_frame(end).with(code_id);
    Some(
        host.known_id(hash, code_id, end)
            .unwrap_or_else(|| host.define_id(hash, end, frame, code_id)),
    )
}

// Links of the list of nontrivial frames are 16 bits.
const _: () = assert!(DEPTH <= u16::MAX as usize);
