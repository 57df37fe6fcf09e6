//! Frames on x86-64: where execution stands in a frame, the registers that a
//! walk carries from frame to frame, and what the cache stores of each.

use core::cell::Cell;

use super::rule::Rule;
use crate::CodeId;
use crate::stack::load;

/// Where execution stands in a frame: at an instruction (a signal interrupted
/// it there), or behind a call. The two differ in which unwind row applies
/// (framehop: `FrameAddress::{InstructionPointer, ReturnAddress}`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct FrameAddress(u64);

impl FrameAddress {
    /// Bits that a value of [`FrameAddress::bits`] has.
    pub const BITS: u32 = 48;
    /// Marks an instruction pointer. User space ends at 2^47, so the bit is free.
    const INSTRUCTION_POINTER: u64 = 1 << (Self::BITS - 1);

    /// A return address. Bits that no address has are dropped.
    #[inline(always)]
    pub const fn return_address(address: u64) -> Self {
        Self(address & (Self::INSTRUCTION_POINTER - 1))
    }

    /// The address of an instruction that was executing.
    pub const fn instruction_pointer(address: u64) -> Self {
        Self(address & (Self::INSTRUCTION_POINTER - 1) | Self::INSTRUCTION_POINTER)
    }

    /// Whether it is the address of an instruction that was executing.
    pub const fn is_instruction_pointer(self) -> bool {
        self.0 & Self::INSTRUCTION_POINTER != 0
    }

    /// Whether it is a return address of 0, which marks the outermost frame.
    #[inline(always)]
    pub const fn is_zero_return_address(self) -> bool {
        self.0 == 0
    }

    /// The address alone.
    pub const fn address(self) -> u64 {
        self.0 & (Self::INSTRUCTION_POINTER - 1)
    }

    /// An address inside the instruction whose unwind row applies: a return
    /// address may be the first address of the next function.
    pub const fn for_lookup(self) -> u64 {
        if self.is_instruction_pointer() {
            self.address()
        } else {
            self.0.wrapping_sub(1)
        }
    }

    /// From [`FrameAddress::bits`].
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Address and kind in one number of [`FrameAddress::BITS`] bits.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// The registers that a walk carries from frame to frame, as the frame sees
/// them when its callee has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// rsp.
    pub stack_pointer: u64,
    /// Where execution stands.
    pub code: FrameAddress,
    /// rbp.
    pub frame_pointer: u64,
}

impl Frame {
    /// Goes on to the caller, whose frame begins at `cfa`, except for its frame
    /// pointer. `false`: the return address is 0, which ends the stack.
    ///
    /// # Safety
    /// The word below `cfa` lies on the known stack.
    #[inline(always)]
    pub unsafe fn return_to(&mut self, cfa: u64) -> bool {
        // SAFETY: passed on; a call pushes the return address right below the CFA.
        self.code = FrameAddress::return_address(unsafe { load(cfa - 8) });
        self.stack_pointer = cfa;
        !self.code.is_zero_return_address()
    }
}

/// The registers of a function at its first instruction, before its prologue:
/// what a hook gets of its caller.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    stack_pointer: u64,
    frame_pointer: u64,
}

impl Entry {
    /// `stack_pointer`: rsp, which points at the return address. `frame_pointer`: rbp.
    ///
    /// # Safety
    /// The function has not returned as long as the value is used.
    #[inline(always)]
    pub const unsafe fn new(stack_pointer: u64, frame_pointer: u64) -> Self {
        Self {
            stack_pointer,
            frame_pointer,
        }
    }

    /// Lowest address of the stack that the frames to walk occupy.
    #[inline(always)]
    pub const fn stack_pointer(self) -> u64 {
        self.stack_pointer
    }

    /// rbp, which is still the caller's.
    pub const fn frame_pointer(self) -> u64 {
        self.frame_pointer
    }

    /// The caller's frame: the innermost one of the stack.
    #[inline(always)]
    pub fn caller(self) -> Frame {
        // SAFETY: the return address of a function that has not returned.
        let code = unsafe { load(self.stack_pointer) };
        Frame {
            stack_pointer: self.stack_pointer + 8,
            code: FrameAddress(code),
            frame_pointer: self.frame_pointer,
        }
    }
}

/// A frame of the walk under way.
#[repr(C)]
pub struct WalkedFrame {
    /// See [`Frame`]; 0: no later walk is to resume here.
    pub stack_pointer: Cell<u64>,
    /// See [`Frame`].
    pub code: Cell<FrameAddress>,
    /// See [`Frame`]; not set by a walk that needs the stack pointer only.
    pub frame_pointer: Cell<u64>,
    /// The rule by which its caller was found.
    pub rule: Cell<Rule>,
}

impl WalkedFrame {
    /// Stores a frame except for its frame pointer.
    #[inline(always)]
    pub fn set(&self, frame: &Frame, rule: Rule) {
        self.stack_pointer.set(frame.stack_pointer);
        self.code.set(frame.code);
        self.rule.set(rule);
    }

    /// Stores a frame at which no later walk resumes: the stack outside of it may
    /// not be readable then.
    pub fn set_unresumable(&self, code: FrameAddress, rule: Rule) {
        self.stack_pointer.set(0);
        self.code.set(code);
        self.frame_pointer.set(0);
        self.rule.set(rule);
    }

    /// The frame, with a frame pointer that the caller knows.
    pub fn frame(&self, frame_pointer: u64) -> Frame {
        Frame {
            stack_pointer: self.stack_pointer.get(),
            code: self.code.get(),
            frame_pointer,
        }
    }
}

/// A frame of the last stack, 32 bytes: its registers, the id of the stack from
/// the outermost frame to it, and which stack slots the step to it read.
#[repr(C)]
pub struct CachedFrame {
    /// See [`Frame`].
    pub stack_pointer: Cell<u64>,
    /// See [`Frame`].
    pub code: Cell<FrameAddress>,
    /// See [`Frame`]; meaningful only if [`CachedFrame::needs_frame_pointer`].
    pub frame_pointer: Cell<u64>,
    /// The id of the stack from the outermost frame to this one.
    pub id: Cell<u32>,
    /// How it was reached from its callee, and what it is.
    pub flags: Cell<FrameFlags>,
}

/// How a cached frame was reached from its callee, and what it is.
///
/// ```text
/// bit 31..16  code id of the frame          (from its own rule)
/// bit 13      REPEAT_STEP                   (from the callee's rule)
/// bit 12      NEEDS_FRAME_POINTER           (from the rules of it and outer frames)
/// bit 11..0   slot of the saved rbp, words below rsp; 0: none to check
///                                           (from the callee's rule)
/// ```
/// Slot, `REPEAT_STEP` and code id lie where the upper half of a [`Rule`] has
/// them, so that one mask moves them.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct FrameFlags(u32);

impl FrameFlags {
    const SLOT: u32 = (1 << Rule::SLOT_BITS) - 1;
    const NEEDS_FRAME_POINTER: u32 = 1 << 12;
    const REPEAT_STEP: u32 = 1 << 13;
    const CHECKED: u32 = Self::SLOT | Self::REPEAT_STEP;
    const CODE_ID_SHIFT: u32 = Rule::CODE_ID_SHIFT - 32;

    /// Of a frame with `rule` whose callee has the rule `callee`.
    #[inline(always)]
    pub const fn new(rule: Rule, callee: Rule, needs_frame_pointer: bool) -> Self {
        let code_id = rule.upper_half() & u32::MAX << Self::CODE_ID_SHIFT;
        let needs = if needs_frame_pointer {
            Self::NEEDS_FRAME_POINTER
        } else {
            0
        };
        Self(code_id | needs).reached_by(callee)
    }

    /// The same frame with another callee.
    #[inline(always)]
    pub const fn reached_by(self, callee: Rule) -> Self {
        let checked = if self.needs_frame_pointer() {
            Self::CHECKED
        } else {
            Self::REPEAT_STEP
        };
        Self(self.0 & !Self::CHECKED | callee.upper_half() & checked)
    }

    /// The walk outwards from the frame depends on rbp.
    #[inline(always)]
    pub const fn needs_frame_pointer(self) -> bool {
        self.0 & Self::NEEDS_FRAME_POINTER != 0
    }

    /// The step to the frame read other slots than return address and saved rbp:
    /// the step must be repeated to know whether it leads here still.
    #[inline(always)]
    pub const fn must_repeat_step(self) -> bool {
        self.0 & Self::REPEAT_STEP != 0
    }

    /// More than the return address is to be checked.
    #[inline(always)]
    pub const fn is_nontrivial(self) -> bool {
        self.0 & Self::CHECKED != 0
    }

    /// The code id of the frame.
    #[inline(always)]
    pub const fn code_id(self) -> CodeId {
        CodeId((self.0 >> Self::CODE_ID_SHIFT) as u16)
    }

    #[inline(always)]
    const fn slot(self) -> u64 {
        (self.0 & Self::SLOT) as u64
    }
}

const _: () = {
    use super::rule::Kind;
    const fn repeats(kind: Kind) -> bool {
        Rule::of_kind(kind).upper_half() & FrameFlags::REPEAT_STEP != 0
    }
    // Of the rules that lead to a caller, those with more slots have this bit.
    assert!(repeats(Kind::Realigned) && repeats(Kind::Signal));
    assert!(!repeats(Kind::Rsp) && !repeats(Kind::Rbp) && !repeats(Kind::AssumedRbp));
    assert!(Rule::NOTHING.upper_half() & FrameFlags::CHECKED == 0);
};

impl CachedFrame {
    /// Its registers.
    pub fn frame(&self) -> Frame {
        Frame {
            stack_pointer: self.stack_pointer.get(),
            code: self.code.get(),
            frame_pointer: self.frame_pointer.get(),
        }
    }

    /// Whether a walk that came to `frame` goes on as it did from here.
    #[inline(always)]
    pub fn resumes(&self, frame: &Frame) -> bool {
        self.is_at(frame)
            && (!self.needs_frame_pointer() || self.frame_pointer.get() == frame.frame_pointer)
    }

    /// [`CachedFrame::resumes`] except for the frame pointer, which a walk by the
    /// stack pointer alone does not know.
    #[inline(always)]
    pub fn is_at(&self, frame: &Frame) -> bool {
        self.stack_pointer.get() == frame.stack_pointer && self.code.get() == frame.code
    }

    /// Whether a walk that goes on from here depends on the frame pointer.
    #[inline(always)]
    pub fn needs_frame_pointer(&self) -> bool {
        self.flags.get().needs_frame_pointer()
    }

    /// Whether the return address that leads to the frame still lies where it was.
    ///
    /// # Safety
    /// The frame lies on the known stack, and no `REPEAT_STEP` led to it.
    #[inline(always)]
    pub unsafe fn return_address_holds(&self) -> bool {
        // SAFETY: passed on; a call pushed it right below the frame.
        unsafe { load(self.stack_pointer.get() - 8) == self.code.get().bits() }
    }

    /// Whether the saved frame pointer, if the walk depends on it, does too.
    ///
    /// # Safety
    /// As [`CachedFrame::return_address_holds`].
    #[inline(always)]
    pub unsafe fn frame_pointer_holds(&self) -> bool {
        let slot = self.flags.get().slot();
        // SAFETY: passed on; the slot lies in the callee's frame, below this one.
        slot == 0
            || unsafe { load(self.stack_pointer.get() - 8 * slot) } == self.frame_pointer.get()
    }
}
