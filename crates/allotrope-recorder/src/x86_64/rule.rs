//! How to find a frame's caller: nearly all code fits in one word.
//!
//! A rule says where the CFA (the caller's stack pointer) is and where the
//! caller's rbp was saved; the return address always lies at CFA − 8. What does
//! not fit is [`Kind::Slow`] and left to `general`.

use super::frame_pointer;
use crate::readable::Memory;

/// Register state from which a walk goes on: what the frame's caller will see
/// after the return.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// Stack pointer.
    pub sp: u64,
    /// Code address; with [`EXACT`] if a signal interrupted it there.
    pub pc: u64,
    /// rbp.
    pub bp: u64,
}

/// Marks an address as one that was executing, not a return address. User
/// space ends at 2^47, so that the bit is free.
pub const EXACT: u64 = 1 << 47;

/// What a rule is. The two usual ones are told from the others by two bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// CFA = rsp + offset.
    Rsp = 0,
    /// CFA = rbp + offset.
    Rbp = 1,
    /// CFA = *(rbp + offset), rbp saved at *rbp: gcc's realigned frames (DRAP).
    Deref = 2,
    /// A signal trampoline: all registers come from the `ucontext` at rsp.
    Signal = 3,
    /// No unwind information; rbp is taken for a frame pointer.
    FramePointer = 4,
    /// The outermost frame.
    End = 5,
    /// No unwind information.
    None = 6,
    /// Needs all registers or an expression.
    Slow = 7,
}

/// A rule in a word: CFA offset (32 bits), slot of rbp in words below the CFA
/// (12 bits, 0: unchanged), kind (3 bits), loader (1 bit), and the number of the
/// place (16 bits) that it is the rule of, see `places`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule(pub u64);

const KIND_SHIFT: u32 = 44;
const LOADER: u64 = 1 << 47;

/// Where the caller's rbp lies if rbp is a frame pointer.
pub const FRAME_POINTER_SLOT: u64 = 2;

impl Rule {
    /// A rule; `None` if the numbers do not fit. By [`Kind::Rsp`] the CFA lies above
    /// the frame, and is aligned if rsp is.
    pub const fn new(kind: Kind, cfa_offset: i64, bp_slot: u64) -> Option<Self> {
        if matches!(kind, Kind::Rsp) && (cfa_offset <= 0 || cfa_offset & 7 != 0) {
            return None;
        }
        if cfa_offset as i32 as i64 != cfa_offset || bp_slot >= 1 << 12 {
            return None;
        }
        // What is read lies above the frame, or is the word below it, which led to it.
        let words = match kind {
            Kind::Rsp => cfa_offset / 8 + 1,
            _ => FRAME_POINTER_SLOT as i64,
        };
        if bp_slot as i64 > words {
            return None;
        }
        Some(Self(
            cfa_offset as u32 as u64 | bp_slot << 32 | (kind as u64) << KIND_SHIFT,
        ))
    }

    /// A rule without numbers.
    pub const fn plain(kind: Kind) -> Self {
        Self((kind as u64) << KIND_SHIFT)
    }

    /// That rbp is a frame pointer.
    pub const fn frame_pointer() -> Self {
        Self((Kind::FramePointer as u64) << KIND_SHIFT | FRAME_POINTER_SLOT << 32)
    }

    /// Where the number of the place lies.
    pub const NUMBER_SHIFT: u32 = 48;

    /// The rule of code in the dynamic loader.
    pub const fn in_loader(self) -> Self {
        Self(self.0 | LOADER)
    }

    /// The rule with the number of the place that it is for; it had none.
    pub const fn numbered(self, place: u16) -> Self {
        Self(self.0 | (place as u64) << Self::NUMBER_SHIFT)
    }

    /// The number of the place.
    #[inline(always)]
    pub const fn place(self) -> u16 {
        (self.0 >> Self::NUMBER_SHIFT) as u16
    }

    /// The code is the dynamic loader's.
    #[inline(always)]
    pub const fn is_loader(self) -> bool {
        self.0 & LOADER != 0
    }

    #[inline(always)]
    const fn offset(self) -> u64 {
        self.0 as u32 as i32 as i64 as u64
    }

    /// How many words below the CFA the caller's rbp lies; 0: it is unchanged.
    #[inline(always)]
    pub const fn slot(self) -> u64 {
        self.0 >> 32 & 0xfff
    }

    /// What the rule is.
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        match self.0 >> KIND_SHIFT & 7 {
            0 => Kind::Rsp,
            1 => Kind::Rbp,
            2 => Kind::Deref,
            3 => Kind::Signal,
            4 => Kind::FramePointer,
            5 => Kind::End,
            7 => Kind::Slow,
            _ => Kind::None,
        }
    }

    /// Whether it needs nothing but rsp to find the caller's.
    #[inline(always)]
    pub const fn is_rsp(self) -> bool {
        self.0 >> KIND_SHIFT & 7 == Kind::Rsp as u64
    }

    /// Whether it is that or the one that starts from rbp.
    #[inline(always)]
    pub const fn is_plain(self) -> bool {
        self.0 >> KIND_SHIFT & 6 == 0
    }

    /// Whether a step by it reads rbp.
    #[inline(always)]
    pub const fn uses_bp(self) -> bool {
        const KINDS: u64 =
            1 << Kind::Rbp as u8 | 1 << Kind::Deref as u8 | 1 << Kind::FramePointer as u8;
        KINDS >> (self.0 >> KIND_SHIFT & 7) & 1 != 0
    }

    /// Whether a step by it leaves rbp as it is.
    #[inline(always)]
    pub const fn keeps_bp(self) -> bool {
        self.is_plain() && self.slot() == 0
    }
}

/// What one step of a walk leads to.
pub enum Step {
    /// The caller.
    Caller(Frame),
    /// The frame is the outermost one: the stack is complete.
    Complete {
        /// Known from a return address of 0 in memory, which may change.
        read_zero: bool,
    },
    /// The stack can not be followed further.
    Unknown,
    /// `general` must do it.
    Slow,
}

/// Offsets in the `ucontext` that lies at rsp in a signal trampoline
/// (`sys/ucontext.h`: `uc_mcontext.gregs` begins at 40).
const UCONTEXT_RBP: u64 = 120;
const UCONTEXT_RSP: u64 = 160;
const UCONTEXT_RIP: u64 = 168;

/// Applies `rule` to `frame`; reads only what can be read.
pub fn step(frame: Frame, rule: Rule, memory: &mut Memory) -> Step {
    match rule.kind() {
        Kind::Rsp | Kind::Rbp => plain_step(frame, rule, memory),
        _ => rare_step(frame, rule, memory),
    }
}

impl Rule {
    /// Where the caller's frame begins by a rule that [`Rule::is_plain`]. `None`:
    /// stacks grow down, so a CFA that is not above the frame, or not aligned, is the
    /// work of wrong unwind information.
    #[inline(always)]
    pub const fn cfa(self, frame: &Frame) -> Option<u64> {
        let base = if self.is_rsp() { frame.sp } else { frame.bp };
        let cfa = base.wrapping_add(self.offset());
        if cfa <= frame.sp || cfa & 7 != 0 {
            return None;
        }
        Some(cfa)
    }

    /// The same for a rule that [`Rule::is_rsp`]: no stack reaches to the end of all
    /// addresses, and an offset has 31 bits.
    #[inline(always)]
    pub const fn cfa_by_rsp(self, frame: &Frame) -> u64 {
        frame.sp.wrapping_add(self.offset())
    }
}

/// As [`step`], by a rule that [`Rule::is_plain`].
fn plain_step(frame: Frame, rule: Rule, memory: &mut Memory) -> Step {
    let Some(cfa) = rule.cfa(&frame) else {
        return Step::Unknown;
    };
    let Some(pc) = memory.word(cfa - 8) else {
        return Step::Unknown;
    };
    if pc == 0 {
        return Step::Complete { read_zero: true };
    }
    let mut bp = frame.bp;
    if rule.slot() != 0 {
        match memory.word(cfa - 8 * rule.slot()) {
            Some(word) => bp = word,
            None => return Step::Unknown,
        }
    }
    Step::Caller(Frame {
        sp: cfa,
        pc: pc & (EXACT - 1),
        bp,
    })
}

/// As [`step`], for rules that are not plain.
fn rare_step(frame: Frame, rule: Rule, memory: &mut Memory) -> Step {
    let caller = match rule.kind() {
        Kind::Deref => realigned(frame, rule, memory),
        Kind::Signal => interrupted(frame, memory),
        Kind::FramePointer => return frame_pointer::step(frame),
        Kind::End => return Step::Complete { read_zero: false },
        Kind::Slow => return Step::Slow,
        _ => None,
    };
    match caller {
        Some(Frame { pc: 0, .. }) => Step::Complete { read_zero: true },
        Some(caller) => Step::Caller(caller),
        None => Step::Unknown,
    }
}

/// By [`Kind::Deref`]; a return address of 0 as it is.
fn realigned(frame: Frame, rule: Rule, memory: &mut Memory) -> Option<Frame> {
    let pointer = frame.bp.wrapping_add(rule.offset());
    if frame.bp < frame.sp || frame.bp & 7 != 0 || pointer & 7 != 0 {
        return None;
    }
    let (sp, bp) = (memory.word(pointer)?, memory.word(frame.bp)?);
    if sp <= frame.sp || sp & 7 != 0 {
        return None;
    }
    let pc = memory.word(sp - 8)? & (EXACT - 1);
    Some(Frame { sp, pc, bp })
}

/// By [`Kind::Signal`], from the `ucontext` that the kernel put there.
fn interrupted(frame: Frame, memory: &mut Memory) -> Option<Frame> {
    let mut register = |offset| memory.word(frame.sp.checked_add(offset)?);
    let (pc, sp, bp) = (
        register(UCONTEXT_RIP)?,
        register(UCONTEXT_RSP)?,
        register(UCONTEXT_RBP)?,
    );
    Some(Frame {
        sp,
        pc: (pc & (EXACT - 1)) | EXACT,
        bp,
    })
}
