//! The states of a thread's last walk: whether they still hold, and how those
//! of a new walk are kept and get their ids.
//!
//! Kept states lie outermost first. A state is what a frame's registers were
//! and how they were found: from which stack slots, which are looked at again.

use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use crate::arch::rule::{EXACT, Frame, Rule, Step, step};
use crate::places::rule_of;
use crate::readable::Memory;
use crate::stack_ids;
use crate::thread::{Guarded, Thread};

/// A kept state of the last walk.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct State {
    /// Stack pointer of the frame.
    pub sp: u64,
    /// Code address, with the exact mark.
    pub pc: u64,
    /// rbp; only meaningful if [`how::NEEDS_BP`] is set.
    pub bp: u64,
    /// The id of the stack from the outermost frame to here.
    pub id: u32,
    /// See [`how`].
    pub how: u32,
}

/// A state of the walk under way.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Fresh {
    /// Stack pointer of the frame.
    pub sp: u64,
    /// Code address, with the exact mark.
    pub pc: u64,
    /// rbp.
    pub bp: u64,
    /// The rule by which its caller was found.
    pub rule: Rule,
}

/// How a kept state was reached from the one inside of it, and what it is. The
/// lower bits lie as in the upper half of a [`Rule`], which they come from.
pub mod how {
    use crate::arch::rule::{Kind, Rule};

    /// Words below the stack pointer of the slot that gave rbp; 0: none to check.
    pub const BP_SLOT: u32 = 0xfff;
    /// The walk outwards from here depends on rbp.
    pub const NEEDS_BP: u32 = 1 << 12;
    /// The step that led here read other slots: check it by repeating it.
    pub const SPECIAL: u32 = 1 << 13;
    /// Whether more than the return address is to be checked.
    pub const CHECKED: u32 = BP_SLOT | SPECIAL;
    /// The upper half: the number of the place.
    const PLACE_SHIFT: u32 = Rule::NUMBER_SHIFT - 32;

    /// By the rule of the frame itself and that of the frame inside of it.
    #[inline(always)]
    pub const fn of(rule: Rule, inner: Rule, needs_bp: bool) -> u32 {
        let place = (rule.0 >> 32) as u32 & !0 << PLACE_SHIFT;
        reached(place | if needs_bp { NEEDS_BP } else { 0 }, inner)
    }

    /// The same for a state that is now reached in another way.
    #[inline(always)]
    pub const fn reached(before: u32, inner: Rule) -> u32 {
        let checked = if before & NEEDS_BP != 0 {
            CHECKED
        } else {
            SPECIAL
        };
        before & !CHECKED | (inner.0 >> 32) as u32 & checked
    }

    /// The number of the place.
    #[inline(always)]
    pub const fn place(how: u32) -> u16 {
        (how >> PLACE_SHIFT) as u16
    }

    const _: () = {
        const fn upper_half(rule: Rule) -> u32 {
            (rule.0 >> 32) as u32
        }
        // Of the rules that lead on, those that are special have this bit.
        assert!(upper_half(Rule::plain(Kind::Deref)) & SPECIAL != 0);
        assert!(upper_half(Rule::plain(Kind::Signal)) & SPECIAL != 0);
        assert!(upper_half(Rule::plain(Kind::Rsp)) & SPECIAL == 0);
        assert!(upper_half(Rule::plain(Kind::Rbp)) & SPECIAL == 0);
        assert!(upper_half(Rule::frame_pointer()) & SPECIAL == 0);
        assert!(upper_half(Rule::frame_pointer()) & BP_SLOT == Rule::frame_pointer().slot() as u32);
        // A rule of 0 has nothing to check.
        assert!(Kind::Rsp as u8 == 0);
    };
}

impl State {
    /// Its registers.
    fn frame(&self) -> Frame {
        Frame {
            sp: self.sp,
            pc: self.pc,
            bp: self.bp,
        }
    }

    /// Whether a walk that came to `frame` goes on as it did from here.
    #[inline(always)]
    pub fn is_same(&self, frame: &Frame) -> bool {
        self.returns_to(frame) && (!self.needs_bp() || self.bp == frame.bp)
    }

    /// The same for a walk that did not follow rbp, unless [`State::needs_bp`].
    #[inline(always)]
    pub fn returns_to(&self, frame: &Frame) -> bool {
        self.sp == frame.sp && self.pc == frame.pc
    }

    /// Whether a walk that goes on from here depends on rbp.
    #[inline(always)]
    pub fn needs_bp(&self) -> bool {
        self.how & how::NEEDS_BP != 0
    }
}

/// The kept states.
#[inline(always)]
pub unsafe fn states(guarded: *mut Guarded) -> *mut State {
    // SAFETY: the thread's own state.
    unsafe { (&raw mut (*guarded).states).cast() }
}

/// Their paths (see `stack_ids`).
#[inline(always)]
unsafe fn paths(guarded: *mut Guarded) -> *mut u64 {
    // SAFETY: the thread's own state.
    unsafe { (&raw mut (*guarded).paths).cast() }
}

/// The first of the fresh states, innermost first. The one before it is never
/// written: its rule is 0, as is that of a frame that only has a caller.
#[inline(always)]
pub unsafe fn fresh(guarded: *mut Guarded) -> *mut Fresh {
    // SAFETY: the thread's own state.
    unsafe { (&raw mut (*guarded).fresh).cast::<Fresh>().add(1) }
}

/// Makes `at` the state of a frame, but for its rbp.
#[inline(always)]
pub unsafe fn put(at: *mut Fresh, frame: &Frame, rule: Rule) {
    // SAFETY: the thread's own state.
    unsafe {
        (*at).sp = frame.sp;
        (*at).pc = frame.pc;
        (*at).rule = rule;
    }
}

/// Gives their rbp to the fresh states before `end`, all found by rsp, whose
/// innermost has `bp`; and gives their caller, of which `end` has the rest.
pub unsafe fn follow_bp(guarded: *mut Guarded, end: *const Fresh, mut bp: u64) -> Frame {
    // SAFETY: the thread's own state; the walk read the return addresses of these
    // frames, in which the slots of rbp lie.
    unsafe {
        let mut at = fresh(guarded);
        while at.cast_const() != end {
            (*at).bp = bp;
            let slot = (*at).rule.slot();
            at = at.add(1);
            if slot != 0 {
                bp = load((*at).sp - 8 * slot);
            }
        }
        let Fresh { sp, pc, .. } = *end;
        Frame { sp, pc, bp }
    }
}

/// The end of the kept states, of those up to `end`, that are not inside `sp`.
#[inline(always)]
pub unsafe fn drop_below(states: *const State, mut end: *const State, sp: u64) -> *const State {
    // SAFETY: they are there.
    while end != states && unsafe { (*end.sub(1)).sp } < sp {
        // SAFETY: as above.
        end = unsafe { end.sub(1) };
    }
    end
}

/// Checks that the slots from which the states outside of the innermost one
/// before `end` were read still hold the same. Gives `end` if so, otherwise the
/// innermost state that does not hold: only those before it can still be met.
///
/// Calls nothing and needs no stack, but for what is rare.
#[inline(never)]
pub unsafe fn verify(thread: *mut Thread, end: *const State) -> *const State {
    // SAFETY: all that was kept lies on the known stack, and so does the stack
    // pointer; each slot is read only while all slots inside of it held: a real
    // unwind would read it next.
    unsafe {
        let guarded = Thread::guarded(thread);
        let states = states(guarded).cast_const();
        let mut state = end.sub(1);
        let mut special = special_up_to(guarded, state.offset_from(states) as usize);
        loop {
            let ordinary = states.add(special);
            while state >= ordinary.add(TOGETHER) {
                for outwards in 1..=TOGETHER {
                    let outer = state.sub(outwards);
                    if !returns(outer) {
                        return outer;
                    }
                }
                state = state.sub(TOGETHER);
            }
            while state != ordinary {
                state = state.sub(1);
                if !returns(state) {
                    return state;
                }
            }
            if special == 0 {
                break;
            }
            state = state.sub(1);
            let State { sp, how, .. } = *state;
            if how & how::SPECIAL != 0 {
                return verify_rest(thread, end, state);
            }
            if !returns(state) || load(sp - 8 * u64::from(how & how::BP_SLOT)) != (*state).bp {
                return state;
            }
            special = outer_special(guarded, special);
        }
        if (*guarded).ends_in_zero {
            return verify_rest(thread, end, state);
        }
    }
    end
}

/// How many states are checked in a turn of the loop.
const TOGETHER: usize = 4;

/// Whether the return address that leads to a state still lies where it was.
#[inline(always)]
unsafe fn returns(state: *const State) -> bool {
    // SAFETY: passed on.
    unsafe { load((*state).sp - 8) == (*state).pc }
}

/// The end of the states, of the first `count`, up to the innermost one of which
/// more than the return address is checked; 0: there is none. From any such end
/// [`outer_special`] leads to the one outside of it.
#[inline(always)]
unsafe fn special_up_to(guarded: *mut Guarded, count: usize) -> usize {
    // SAFETY: the thread's own state.
    unsafe {
        let mut special = (*guarded).special;
        while special > count {
            special = outer_special(guarded, special);
        }
        special
    }
}

#[inline(always)]
unsafe fn outer_special(guarded: *mut Guarded, special: usize) -> usize {
    // SAFETY: the thread's own state; there are so many.
    unsafe {
        let outer = (&raw const (*guarded).outer_special).cast::<u16>();
        usize::from(*outer.add(special - 1))
    }
}

/// Notes that the state at `index` is [`how::CHECKED`], if it is; all up to `special`
/// outside of it are noted. Gives the new end.
#[inline(always)]
unsafe fn note_special(guarded: *mut Guarded, index: usize, special: usize) -> usize {
    // SAFETY: the thread's own state.
    unsafe {
        if (*states(guarded).add(index)).how & how::CHECKED == 0 {
            return special;
        }
        (&raw mut (*guarded).outer_special)
            .cast::<u16>()
            .add(index)
            .write(special as u16);
    }
    index + 1
}

/// Notes of all states from `base - 1` on, up to `total`, which of them are.
#[inline(always)]
unsafe fn note_all_special(guarded: *mut Guarded, base: usize, total: usize) {
    let from = base.saturating_sub(1);
    // SAFETY: the thread's own state.
    unsafe {
        let mut special = special_up_to(guarded, from);
        for index in from..total {
            special = note_special(guarded, index, special);
        }
        (*guarded).special = special;
    }
}

/// [`verify`] from `state` on, which is checked by repeating the step to it, or
/// which ends the stack.
#[cold]
#[inline(never)]
unsafe fn verify_rest(
    thread: *mut Thread,
    end: *const State,
    mut state: *const State,
) -> *const State {
    // SAFETY: as there; the states inside of `state` hold.
    unsafe {
        let guarded = Thread::guarded(thread);
        let states = states(guarded).cast_const();
        // The innermost state was found by the walk.
        while state.add(1) != end {
            if !holds(thread, state) {
                return state;
            }
            if state == states {
                break;
            }
            state = state.sub(1);
        }
        if (*guarded).ends_in_zero && !still_ends(thread, states) {
            return states;
        }
    }
    end
}

/// A word of the known stack.
#[inline(always)]
pub unsafe fn load(address: u64) -> u64 {
    // SAFETY: passed on.
    unsafe { (address as *const u64).read_volatile() }
}

/// Goes on to the caller's frame, which begins at `cfa` on the known stack, but for
/// its rbp. `false`: a return address of 0 ends the stack.
#[inline(always)]
pub unsafe fn go_to(frame: &mut Frame, cfa: u64) -> bool {
    // SAFETY: passed on.
    let pc = unsafe { load(cfa - 8) };
    frame.sp = cfa;
    frame.pc = pc & (EXACT - 1);
    pc != 0
}

/// A step that begins on the thread's known stack, by any rule.
#[cold]
#[inline(never)]
pub unsafe fn rare_step(thread: *mut Thread, frame: Frame, rule: Rule) -> Step {
    // SAFETY: the thread's own state.
    let mut memory = unsafe {
        let guarded = Thread::guarded(thread);
        Memory::with((*guarded).stack_start, (*guarded).stack_end)
    };
    step(frame, rule, &mut memory)
}

/// Whether a state follows from the one inside of it, which holds.
#[inline(always)]
unsafe fn holds(thread: *mut Thread, state: *const State) -> bool {
    // SAFETY: as `verify`.
    unsafe {
        let State {
            sp, pc, bp, how, ..
        } = *state;
        if how & how::SPECIAL == 0 {
            let slot = u64::from(how & how::BP_SLOT);
            return load(sp - 8) == pc && (slot == 0 || load(sp - 8 * slot) == bp);
        }
        let inner = (*state.add(1)).frame();
        match rare_step(thread, inner, rule_of(thread, inner.pc)) {
            Step::Caller(frame) => (*state).is_same(&frame),
            _ => false,
        }
    }
}

#[cold]
unsafe fn still_ends(thread: *mut Thread, outermost: *const State) -> bool {
    // SAFETY: it was just verified.
    unsafe {
        let frame = (*outermost).frame();
        matches!(
            rare_step(thread, frame, rule_of(thread, frame.pc)),
            Step::Complete { read_zero: true }
        )
    }
}

/// No state is kept; the stack whose states come next ends so (see
/// `capture::end`), perhaps because a return address of 0 was read.
pub unsafe fn begin_stack(guarded: *mut Guarded, end: u32, in_zero: bool) {
    // SAFETY: the thread's own state.
    unsafe {
        set_kept(guarded, 0);
        (*guarded).end = end;
        (*guarded).ends_in_zero = in_zero;
    }
}

/// Keeps the `count` fresh states, outside-in, as the whole stack, of which
/// [`begin_stack`] has said how it ends, and gives each its id.
pub unsafe fn keep(thread: *mut Thread, count: usize) -> Option<u32> {
    // SAFETY: the thread's own state; there are so many.
    unsafe {
        set_kept(Thread::guarded(thread), 0);
        write::<false>(thread, 0, count)
    }
}

/// Keeps the `count` fresh states, outside-in, upon the `base` kept ones, of which
/// there are some, and gives each its id. `PLAIN`: their rules are all
/// [`Rule::is_rsp`], and no kept one depends on the rbp that they lead to.
///
/// A handler may interrupt this and jump away: until all is written, no state
/// counts as kept that is written here.
#[inline(always)]
pub unsafe fn keep_upon<const PLAIN: bool>(
    thread: *mut Thread,
    base: usize,
    count: usize,
) -> Option<u32> {
    // SAFETY: the thread's own state; `base + count` is at most DEPTH.
    unsafe {
        let guarded = Thread::guarded(thread);
        set_kept(guarded, base - 1);
        let outer = states(guarded).add(base - 1);
        if PLAIN {
            (*outer).how = how::reached((*outer).how, Rule(0));
        } else if count > 0 {
            (*outer).how = how::reached((*outer).how, (*fresh(guarded).add(count - 1)).rule);
        }
        write::<PLAIN>(thread, base, count)
    }
}

/// What leads from one state to the next one inside of it.
struct Chain {
    /// The outer states' id and path.
    id: u32,
    path: u64,
    /// Their walk depends on rbp.
    needs_bp: bool,
}

impl Chain {
    /// Upon `base` kept states.
    #[inline(always)]
    unsafe fn upon(guarded: *mut Guarded, base: usize) -> Self {
        // SAFETY: the thread's own state.
        unsafe {
            if base == 0 {
                let id = (*guarded).end;
                return Self {
                    id,
                    path: stack_ids::root(id),
                    needs_bp: false,
                };
            }
            let outer = &*states(guarded).add(base - 1);
            Self {
                id: outer.id,
                path: paths(guarded).add(base - 1).read(),
                needs_bp: outer.how & how::NEEDS_BP != 0,
            }
        }
    }

    /// The state of `fresh`, whose id is still that of the state outside of it.
    #[inline(always)]
    unsafe fn next<const PLAIN: bool>(&mut self, fresh: *const Fresh) -> State {
        // SAFETY: a fresh state has one before it (see `fresh`).
        unsafe {
            let Fresh { sp, pc, bp, rule } = *fresh;
            let inner = if PLAIN { Rule(0) } else { (*fresh.sub(1)).rule };
            self.needs_bp = !PLAIN && (rule.uses_bp() || rule.keeps_bp() && self.needs_bp);
            let how = how::of(rule, inner, self.needs_bp);
            self.path = stack_ids::extend(self.path, rule.place());
            let id = self.id;
            State {
                sp,
                pc,
                bp: if PLAIN { 0 } else { bp },
                id,
                how,
            }
        }
    }
}

/// [`keep`] and [`keep_upon`], once the states count as kept no more. `PLAIN`: no
/// step needs rbp.
#[inline(always)]
unsafe fn write<const PLAIN: bool>(thread: *mut Thread, base: usize, count: usize) -> Option<u32> {
    // SAFETY: as there.
    unsafe {
        let guarded = Thread::guarded(thread);
        let mut chain = Chain::upon(guarded, base);
        let first = fresh(guarded);
        let mut fresh = first.add(count);
        let mut at = states(guarded).add(base);
        let mut path_at = paths(guarded).add(base);
        while fresh != first {
            fresh = fresh.sub(1);
            let place = (*fresh).rule.place();
            let state = chain.next::<PLAIN>(fresh);
            let Some(id) = stack_ids::known(guarded, chain.path, place, chain.id) else {
                let unknown = at.offset_from(states(guarded)) as usize;
                return write_unknown::<PLAIN>(thread, base, count, unknown);
            };
            chain.id = id;
            *at = State { id, ..state };
            path_at.write(chain.path);
            at = at.add(1);
            path_at = path_at.add(1);
        }
        if !PLAIN {
            note_all_special(guarded, base, base + count);
        } else if (*guarded).special >= base {
            // Of what was written on a plain walk nothing is.
            (*guarded).special = special_up_to(guarded, base - 1);
        }
        finish(thread, base + count);
        Some(chain.id)
    }
}

/// The rest of [`write()`], from the state on whose id is not known: those inside
/// of it have none either.
#[inline(never)]
unsafe fn write_unknown<const PLAIN: bool>(
    thread: *mut Thread,
    base: usize,
    count: usize,
    unknown: usize,
) -> Option<u32> {
    // SAFETY: as there.
    unsafe {
        let guarded = Thread::guarded(thread);
        let mut chain = Chain::upon(guarded, unknown);
        for index in unknown..base + count {
            let state = chain.next::<PLAIN>(fresh(guarded).add(base + count - 1 - index));
            *states(guarded).add(index) = state;
            paths(guarded).add(index).write(chain.path);
        }
        name(thread, base, unknown, base + count)
    }
}

/// Gives ids to the states from `first` on, up to `total`: nobody knows them,
/// for the stack outside of each is new. `base` of them were kept before.
#[inline(never)]
unsafe fn name(thread: *mut Thread, base: usize, mut first: usize, total: usize) -> Option<u32> {
    // SAFETY: as `keep`.
    unsafe {
        let guarded = Thread::guarded(thread);
        let generation = (*thread).next_id;
        if !stack_ids::room(thread, total - first) {
            set_kept(guarded, 0);
            return None;
        }
        if (*thread).next_id < generation {
            // All ids were just forgotten: those outside need new ones, too.
            set_kept(guarded, 0);
            first = 0;
            if !stack_ids::room(thread, total) {
                return None;
            }
        }
        let states = states(guarded);
        let mut id = match first {
            0 => (*guarded).end,
            _ => (*states.add(first - 1)).id,
        };
        for index in first..total {
            let state = &mut *states.add(index);
            let path = paths(guarded).add(index).read();
            id = stack_ids::define(thread, path, id, state.pc, how::place(state.how));
            state.id = id;
        }
        note_all_special(guarded, base, total);
        finish(thread, total);
        Some(id)
    }
}

#[inline(always)]
unsafe fn finish(thread: *mut Thread, total: usize) {
    // SAFETY: the thread's own state.
    unsafe { set_kept(Thread::guarded(thread), total) };
    #[cfg(feature = "verify")]
    crate::verify::note_frames(thread, total);
}

/// So many states are kept; neither earlier nor later than what is written
/// around it.
#[inline(always)]
unsafe fn set_kept(guarded: *mut Guarded, kept: usize) {
    compiler_fence(SeqCst);
    // SAFETY: the thread's own state.
    unsafe { (&raw mut (*guarded).kept).write_volatile(kept) };
    compiler_fence(SeqCst);
}
