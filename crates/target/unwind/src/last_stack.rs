//! The last stack of a thread: its frames, cached with the stack slots by which they were
//! found (stack memoization). The next walk can end at the first cached frame that it
//! reaches, if the slots outside of that frame are unchanged. `walk` calls this file.
//!
//! ```text
//!                 outermost                                  innermost
//! frames          [ main ][ run  ][ eval ][ call ]  …  len
//! hashes          [  h0  ][  h1  ][  h2  ][  h3  ]      hash of the code ids up to here
//! next_nontrivial [      ][  0   ][      ][  2   ]      linked list, outwards, of the
//! nontrivial = 4 ─────────────▲──────────────┘          frames that need more than a
//!                                                       return-address check
//! walked                   …   [ call ][ push ][ none ] the current walk, filled from
//!                                                       its end
//! ```
//! The list's links and its head are index + 1; 0 ends the list.

use core::cell::Cell;
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use crate::arch::{CachedFrame, Frame, FrameFlags, Rule, Step, WalkedFrame, step};
use crate::memory::Memory;
use crate::rule_cache::rule_of;
use crate::stack::load;
use crate::{CacheLines, CodeId, DEPTH, Host, Reserved, StackEnd, StackHash};

/// The cached frames of the last stack and the frames of the current walk.
#[repr(C)]
pub struct LastStack {
    /// Number of cached frames.
    len: Cell<usize>,
    /// Head of the list of nontrivial frames: index + 1 of the innermost one.
    nontrivial: Cell<usize>,
    /// How the stack ends, a [`StackEnd`].
    end: Cell<u32>,
    /// The stack ends in a return address of 0, which has to be checked too.
    ends_in_zero: Cell<bool>,
    /// From the outermost frame inwards.
    frames: CacheLines<[CachedFrame; DEPTH]>,
    /// Hash of the stack from the outermost frame to each frame.
    hashes: CacheLines<[Cell<StackHash>; DEPTH]>,
    next_nontrivial: [Cell<u16>; DEPTH],
    /// The current walk: the innermost frame at [`INNERMOST`], its callers below it. The
    /// entry above the innermost one is never written: its rule, all zero, adds no checks
    /// to the innermost frame. Entry 0 is for the frame after a walk of `DEPTH` frames.
    walked: CacheLines<[WalkedFrame; 1 + DEPTH + 1]>,
}

/// The cached stack of the kind of call that captures.
#[inline(always)]
pub fn last<'a, H: Host + 'a>(host: H) -> &'a LastStack {
    host.unwinder().last(host.kind())
}

/// Index of a walk's first frame in `walked`.
const INNERMOST: usize = DEPTH;

impl LastStack {
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len.get()
    }

    /// Sets the number of cached frames. The fences preserve the order of this write and
    /// those around it, since a signal handler may leave by a jump between two of them.
    #[inline(always)]
    pub fn set_len(&self, len: usize) {
        compiler_fence(SeqCst);
        self.len.set(len);
        compiler_fence(SeqCst);
    }

    /// How the stack ends, a [`StackEnd`].
    #[inline(always)]
    pub fn end(&self) -> u32 {
        self.end.get()
    }

    /// The innermost of the first `count` frames; `None` if `count` is 0.
    #[inline(always)]
    pub fn innermost(&self, count: usize) -> Option<&CachedFrame> {
        self.frames.0.get(count.wrapping_sub(1))
    }

    /// Number of the first `count` frames that are not inside of (below) the frame at
    /// `stack_pointer`.
    #[inline(always)]
    pub fn drop_inside(&self, mut count: usize, stack_pointer: u64) -> usize {
        while let Some(frame) = self.innermost(count)
            && frame.stack_pointer.get() < stack_pointer
        {
            count -= 1;
        }
        count
    }

    /// The free entries for a walk of at most `limit` frames of which `done` are written:
    /// the last item is the next one to write.
    #[inline(always)]
    pub fn walked(&self, done: usize, limit: usize) -> &[WalkedFrame] {
        // SAFETY: `done <= limit <= DEPTH`, see `Host::depth_limit`.
        unsafe {
            let room = 1 + INNERMOST - limit..1 + INNERMOST - done;
            self.walked.0.get_unchecked(room)
        }
    }

    /// The frame at `index` of the current walk, counted from the innermost.
    #[inline(always)]
    pub fn walked_frame(&self, index: usize) -> &WalkedFrame {
        &self.walked.0[INNERMOST - index]
    }

    /// Sets the frame pointers of the first `count` walked frames, whose rules all need
    /// the stack pointer only; `frame_pointer` is that of the innermost one. Returns
    /// their caller, which the walk has stored after them without its frame pointer.
    pub fn restore_frame_pointers(&self, count: usize, mut frame_pointer: u64) -> Frame {
        for index in 0..count {
            let (frame, caller) = (self.walked_frame(index), self.walked_frame(index + 1));
            frame.frame_pointer.set(frame_pointer);
            let cfa = caller.stack_pointer.get();
            if let Some(slot) = frame.rule.get().frame_pointer_slot(cfa) {
                // SAFETY: the slot is between the return addresses of these frames,
                // which the walk has read.
                frame_pointer = unsafe { load(slot) };
            }
        }
        self.walked_frame(count).frame(frame_pointer)
    }

    /// Index + 1 of the innermost nontrivial frame among the first `count`; 0 if none.
    #[inline(always)]
    fn nontrivial_up_to(&self, count: usize) -> usize {
        let mut nontrivial = self.nontrivial.get();
        while nontrivial > count {
            nontrivial = self.outer_nontrivial(nontrivial);
        }
        nontrivial
    }

    /// The link of a list entry: the next nontrivial frame outwards.
    #[inline(always)]
    fn outer_nontrivial(&self, nontrivial: usize) -> usize {
        usize::from(self.next_nontrivial[(nontrivial - 1) % DEPTH].get())
    }

    /// Rebuilds the list for the frames `base - 1..len`.
    #[inline(always)]
    fn link_nontrivial(&self, base: usize, len: usize) {
        let from = base.saturating_sub(1);
        let mut nontrivial = self.nontrivial_up_to(from);
        for index in from..len {
            if self.frames.0[index].flags.get().is_nontrivial() {
                self.next_nontrivial[index].set(nontrivial as u16);
                nontrivial = index + 1;
            }
        }
        self.nontrivial.set(nontrivial);
    }

    /// The index of the innermost of the frames `from..to` whose return address has
    /// changed. None of them is nontrivial.
    #[inline(always)]
    fn changed_return_address(&self, from: usize, to: usize) -> Option<usize> {
        // SAFETY: cached frames are on the known stack, and the stack pointer is inside
        // of them on the same stack. These frames have no `REPEAT_STEP`.
        let holds = |frame: &CachedFrame| unsafe { frame.return_address_holds() };
        // SAFETY: links lead outwards, so `from <= to`; at most DEPTH frames are cached.
        let mut frames = unsafe { self.frames.0.get_unchecked(from..to) };
        // Unrolled four times, so that most instructions of the loop are checks.
        while let [outer @ .., d, c, b, a] = frames {
            for (inwards, frame) in [(3, a), (2, b), (1, c), (0, d)] {
                if !holds(frame) {
                    return Some(from + outer.len() + inwards);
                }
            }
            frames = outer;
        }
        while let [outer @ .., frame] = frames {
            if !holds(frame) {
                return Some(from + outer.len());
            }
            frames = outer;
        }
        None
    }
}

/// Checks whether the first `count` cached frames, of which the innermost is known to be
/// a frame of the current stack, are still the stack: compares the slots by which the
/// others were found. Returns `count` if they are. Otherwise returns the number of frames
/// outside of the innermost changed one; a walk can still meet only these.
///
/// A slot is read only if all slots inside of it are unchanged, so a walk would read it
/// too. Uses no stack memory, except in rare cases.
#[inline(never)]
pub fn replay<H: Host>(host: H, count: usize) -> usize {
    let last = last(host);
    let mut held = count - 1;
    let mut nontrivial = last.nontrivial_up_to(held);
    loop {
        if let Some(changed) = last.changed_return_address(nontrivial, held) {
            return changed;
        }
        if nontrivial == 0 {
            break;
        }
        held = nontrivial - 1;
        let frame = &last.frames.0[held % DEPTH];
        if frame.flags.get().must_repeat_step() {
            return replay_repeating(host, count, held);
        }
        // SAFETY: as in `changed_return_address`.
        if !unsafe { frame.return_address_holds() && frame.frame_pointer_holds() } {
            return held;
        }
        nontrivial = last.outer_nontrivial(nontrivial);
    }
    if last.ends_in_zero.get() {
        return replay_repeating(host, count, 0);
    }
    count
}

/// The rest of [`replay`], from the frame at `from` outwards: the step to that frame has
/// to be repeated, or the stack ends in a return address of 0.
#[cold]
#[inline(never)]
fn replay_repeating<H: Host>(host: H, count: usize, from: usize) -> usize {
    let last = last(host);
    // The innermost frame needs no check: the walk has just found it.
    for index in (0..=from).rev().filter(|index| index + 1 < count) {
        if !holds(host, index) {
            return index;
        }
    }
    if last.ends_in_zero.get() {
        let outermost = last.frames.0[0].frame();
        let rule = rule_of(host, outermost.code);
        if step_on_stack(host, outermost, rule) != Step::ZeroReturnAddress {
            return 0;
        }
    }
    count
}

/// Whether the frame at `index` is still the caller of the next inner frame, which is
/// unchanged.
fn holds<H: Host>(host: H, index: usize) -> bool {
    let last = last(host);
    let frame = &last.frames.0[index];
    if !frame.flags.get().must_repeat_step() {
        // SAFETY: as in `changed_return_address`.
        return unsafe { frame.return_address_holds() && frame.frame_pointer_holds() };
    }
    let callee = last.frames.0[index + 1].frame();
    match step_on_stack(host, callee, rule_of(host, callee.code)) {
        Step::Caller(caller) => frame.resumes(&caller),
        _ => false,
    }
}

/// A step by any rule from a frame on the known stack.
#[cold]
#[inline(never)]
pub fn step_on_stack<H: Host>(host: H, frame: Frame, rule: Rule) -> Step {
    let stack = &host.unwinder().stack;
    // SAFETY: the known stack can be read from the stack pointer on, which is below the
    // frame; rules read above the frame or right below it.
    let mut memory = unsafe { Memory::with(H::page_is_readable, stack.start(), stack.end()) };
    step(frame, rule, &mut memory)
}

/// Caches the `count` walked frames as the whole stack, with its end, and assigns ids.
/// Returns the id of the innermost frame; `None` if new ids could not be reserved.
pub fn commit_walk<H: Host>(
    host: H,
    count: usize,
    end: StackEnd,
    ends_in_zero: bool,
) -> Option<u32> {
    let last = last(host);
    last.set_len(0);
    last.end.set(end as u32);
    last.ends_in_zero.set(ends_in_zero);
    write::<false, H>(host, 0, count)
}

/// Caches the `count` walked frames as callees of the first `base` cached ones (`base` is
/// not 0) and assigns ids; returns as [`commit_walk`]. `SIMPLE`: their rules need the
/// stack pointer only, and no cached frame depends on the frame pointer.
///
/// A signal handler may interrupt this and leave by a jump, so frames that are written
/// here do not count as cached until all is written.
#[inline(always)]
pub fn commit_walk_upon<const SIMPLE: bool, H: Host>(
    host: H,
    base: usize,
    count: usize,
) -> Option<u32> {
    let last = last(host);
    last.set_len(base - 1);
    if SIMPLE || count > 0 {
        let flags = &last.frames.0[base - 1].flags;
        let callee = if SIMPLE {
            Rule::NOTHING
        } else {
            last.walked_frame(count - 1).rule.get()
        };
        flags.set(flags.get().reached_by(callee));
    }
    write::<SIMPLE, H>(host, base, count)
}

/// The properties of a frame's caller on which the cached frame depends.
struct Outer {
    id: u32,
    hash: StackHash,
    needs_frame_pointer: bool,
}

impl Outer {
    /// Those for the frame after the first `base` ones.
    #[inline(always)]
    fn of(last: &LastStack, base: usize) -> Self {
        match last.innermost(base) {
            None => Self {
                id: last.end(),
                hash: StackHash::of_no_frame(last.end()),
                needs_frame_pointer: false,
            },
            Some(frame) => Self {
                id: frame.id.get(),
                hash: last.hashes.0[base - 1].get(),
                needs_frame_pointer: frame.needs_frame_pointer(),
            },
        }
    }

    /// Writes the frame `walked`, whose callee has the rule `callee`, to the cache, and
    /// updates itself for the next inner frame; both without the stack id. Returns the
    /// frame's code id.
    #[inline(always)]
    fn write<const SIMPLE: bool>(
        &mut self,
        walked: &WalkedFrame,
        callee: Rule,
        frame: &CachedFrame,
        hash: &Cell<StackHash>,
    ) -> CodeId {
        let rule = walked.rule.get();
        let (stack_pointer, code) = (walked.stack_pointer.get(), walked.code.get());
        self.needs_frame_pointer = !SIMPLE
            && (rule.needs_frame_pointer()
                || rule.keeps_frame_pointer() && self.needs_frame_pointer);
        let callee = if SIMPLE { Rule::NOTHING } else { callee };
        frame.stack_pointer.set(stack_pointer);
        frame.code.set(code);
        if !SIMPLE {
            frame.frame_pointer.set(walked.frame_pointer.get());
        }
        frame
            .flags
            .set(FrameFlags::new(rule, callee, self.needs_frame_pointer));
        self.hash = self.hash.with(rule.code_id());
        hash.set(self.hash);
        rule.code_id()
    }
}

/// The common part of [`commit_walk`] and [`commit_walk_upon`], once the frames to write
/// no longer count as cached.
#[inline(always)]
fn write<const SIMPLE: bool, H: Host>(host: H, base: usize, count: usize) -> Option<u32> {
    let last = last(host);
    let mut outer = Outer::of(last, base);
    let outermost = 1 + INNERMOST - count;
    // SAFETY: the frames of a walk and the cached ones outside of it are at most `DEPTH`
    // together, see `Host::depth_limit`.
    let (frames, hashes, walked, callees) = unsafe {
        (
            last.frames.0.get_unchecked(base..base + count),
            last.hashes.0.get_unchecked(base..base + count),
            last.walked.0.get_unchecked(outermost..outermost + count),
            last.walked
                .0
                .get_unchecked(outermost + 1..outermost + 1 + count),
        )
    };
    let cached = frames.iter().zip(hashes);
    for (index, ((frame, hash), (walked, callee))) in
        cached.zip(walked.iter().zip(callees)).enumerate()
    {
        let code_id = outer.write::<SIMPLE>(walked, callee.rule.get(), frame, hash);
        let Some(id) = host.known_id(outer.hash, code_id, outer.id) else {
            return write_unknown::<SIMPLE, H>(host, base, count, base + index);
        };
        outer.id = id;
        frame.id.set(id);
    }
    if !SIMPLE {
        last.link_nontrivial(base, base + count);
    } else if last.nontrivial.get() >= base {
        // No frame that was written is nontrivial.
        last.nontrivial.set(last.nontrivial_up_to(base - 1));
    }
    finish(host, base + count);
    Some(outer.id)
}

/// The rest of [`write()`], from the frame at `unknown` inwards. The stack of that frame
/// has no id yet, and so those of the inner frames have none either.
#[inline(never)]
fn write_unknown<const SIMPLE: bool, H: Host>(
    host: H,
    base: usize,
    count: usize,
    unknown: usize,
) -> Option<u32> {
    let last = last(host);
    let mut outer = Outer::of(last, unknown);
    let len = base + count;
    let outermost = 1 + INNERMOST - (len - unknown);
    let cached = last.frames.0[unknown..len]
        .iter()
        .zip(&last.hashes.0[unknown..len]);
    let walked = last.walked.0[outermost..=INNERMOST]
        .iter()
        .zip(&last.walked.0[outermost + 1..]);
    for ((frame, hash), (walked, callee)) in cached.zip(walked) {
        outer.write::<SIMPLE>(walked, callee.rule.get(), frame, hash);
    }
    define_ids(host, base, unknown, len)
}

/// Assigns new ids to the frames `first..len`. The first `base` frames were cached
/// before.
#[inline(never)]
fn define_ids<H: Host>(host: H, base: usize, mut first: usize, len: usize) -> Option<u32> {
    let last = last(host);
    let mut reserved = host.reserve_ids(len - first);
    if reserved == Reserved::AfterRestart {
        // The ids of the outer frames have become invalid too, and those of the other kind.
        host.unwinder().forget_stack();
        first = 0;
        reserved = host.reserve_ids(len);
    }
    if reserved == Reserved::Nothing {
        last.set_len(0);
        return None;
    }
    let mut id = last
        .innermost(first)
        .map_or(last.end(), |outer| outer.id.get());
    for (frame, hash) in last.frames.0[first..len]
        .iter()
        .zip(&last.hashes.0[first..len])
    {
        let code_id = frame.flags.get().code_id();
        id = host.define_id(hash.get(), id, frame.code.get(), code_id);
        frame.id.set(id);
    }
    last.link_nontrivial(base, len);
    finish(host, len);
    Some(id)
}

/// Makes the first `len` frames count as cached.
#[inline(always)]
fn finish<H: Host>(host: H, len: usize) {
    last(host).set_len(len);
    #[cfg(feature = "verify")]
    host.unwinder().verified.walked.set(len);
}

#[cfg(feature = "verify")]
impl LastStack {
    /// The frame at `index`, counted from the outermost, cached or just walked.
    pub(crate) fn code(&self, index: usize) -> crate::arch::FrameAddress {
        self.frames.0[index].code.get()
    }
}
