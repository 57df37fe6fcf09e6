//! Frames on x86-64: the code address of a frame, the registers that a walk carries from
//! frame to frame, and the form in which frames are cached.

use core::cell::Cell;

use super::rule::Rule;
use crate::CodeId;
use crate::stack::load;

/// The code address of a frame: that of an instruction which a signal interrupted, or a
/// return address, after a call. The kind determines which unwind row applies (framehop:
/// `FrameAddress::{InstructionPointer, ReturnAddress}`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct FrameAddress(u64);

impl FrameAddress {
    /// Bits that a value of [`FrameAddress::bits`] has.
    pub const BITS: u32 = 48;
    /// Set in an instruction pointer. User space ends at 2^47, so the bit is free.
    const INSTRUCTION_POINTER: u64 = 1 << (Self::BITS - 1);

    /// A return address. Bits beyond those of an address are cleared.
    #[inline(always)]
    pub const fn return_address(address: u64) -> Self {
        Self(address & (Self::INSTRUCTION_POINTER - 1))
    }

    /// The address of an instruction that was interrupted.
    pub const fn instruction_pointer(address: u64) -> Self {
        Self(address & (Self::INSTRUCTION_POINTER - 1) | Self::INSTRUCTION_POINTER)
    }

    /// Whether this is the address of an instruction that was interrupted.
    pub const fn is_instruction_pointer(self) -> bool {
        self.0 & Self::INSTRUCTION_POINTER != 0
    }

    /// Whether this is a return address of 0, by which the outermost frame is recognised.
    #[inline(always)]
    pub const fn is_zero_return_address(self) -> bool {
        self.0 == 0
    }

    /// The address alone.
    pub const fn address(self) -> u64 {
        self.0 & (Self::INSTRUCTION_POINTER - 1)
    }

    /// An address inside the instruction whose unwind row applies. A return address may
    /// be the first address of the next function, so it is the address before it.
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

/// The registers that a walk carries from frame to frame, with the values that they have
/// when the frame's callee has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// rsp.
    pub stack_pointer: u64,
    /// The code address.
    pub code: FrameAddress,
    /// rbp.
    pub frame_pointer: u64,
}

impl Frame {
    /// Becomes the caller's frame, which begins at `cfa`, except for its frame pointer.
    /// Returns `false` if the return address is 0, which ends the stack.
    ///
    /// # Safety
    /// The word below `cfa` must be on the known stack.
    #[inline(always)]
    pub unsafe fn return_to(&mut self, cfa: u64) -> bool {
        // SAFETY: guaranteed by the caller; a call pushes the return address right below
        // the CFA.
        self.code = FrameAddress::return_address(unsafe { load(cfa - 8) });
        self.stack_pointer = cfa;
        !self.code.is_zero_return_address()
    }
}

/// The registers of a function at its first instruction, before its prologue. A hook's
/// entry stub passes them.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    stack_pointer: u64,
    frame_pointer: u64,
}

impl Entry {
    /// `stack_pointer`: rsp, which points to the return address. `frame_pointer`: rbp.
    ///
    /// # Safety
    /// The function must not have returned as long as the value is used.
    #[inline(always)]
    pub const unsafe fn new(stack_pointer: u64, frame_pointer: u64) -> Self {
        Self {
            stack_pointer,
            frame_pointer,
        }
    }

    /// The lowest address of the part of the stack that contains the frames to walk.
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

/// A frame of the current walk.
#[repr(C)]
pub struct WalkedFrame {
    /// See [`Frame`]; 0 if no later walk may resume here.
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

    /// Stores a frame at which no later walk may resume, because the stack outside of it
    /// may not be readable then.
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

/// A frame of the last stack, 32 bytes: its registers, the id of the stack from the
/// outermost frame to it, and the stack slots that the step from its callee read.
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
    /// The code id, and how the frame was found from its callee.
    pub flags: Cell<FrameFlags>,
}

/// The code id of a cached frame, and how the frame was found from its callee.
///
/// ```text
/// bit 31..16  code id of the frame          (from its own rule)
/// bit 13      REPEAT_STEP                   (from the callee's rule)
/// bit 12      NEEDS_FRAME_POINTER           (from the rules of it and outer frames)
/// bit 11..0   slot of the saved rbp, words below rsp; 0: none to check
///                                           (from the callee's rule)
/// ```
/// Slot, `REPEAT_STEP` and code id are the same bits as in the upper half of a [`Rule`],
/// so that one mask copies them.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct FrameFlags(u32);

impl FrameFlags {
    const SLOT: u32 = (1 << Rule::SLOT_BITS) - 1;
    const NEEDS_FRAME_POINTER: u32 = 1 << 12;
    const REPEAT_STEP: u32 = 1 << 13;
    const CHECKED: u32 = Self::SLOT | Self::REPEAT_STEP;
    const CODE_ID_SHIFT: u32 = Rule::CODE_ID_SHIFT - 32;

    /// The flags of a frame with `rule` whose callee has the rule `callee`.
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

    /// The flags of the same frame with another callee.
    #[inline(always)]
    pub const fn reached_by(self, callee: Rule) -> Self {
        let checked = if self.needs_frame_pointer() {
            Self::CHECKED
        } else {
            Self::REPEAT_STEP
        };
        Self(self.0 & !Self::CHECKED | callee.upper_half() & checked)
    }

    /// Whether the walk from this frame outwards depends on rbp.
    #[inline(always)]
    pub const fn needs_frame_pointer(self) -> bool {
        self.0 & Self::NEEDS_FRAME_POINTER != 0
    }

    /// Whether the step to this frame read other slots than return address and saved rbp.
    /// Then the check has to repeat the step.
    #[inline(always)]
    pub const fn must_repeat_step(self) -> bool {
        self.0 & Self::REPEAT_STEP != 0
    }

    /// Whether more than the return address has to be checked.
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
    // Among the kinds that lead to a caller, those that read more slots have this bit.
    assert!(repeats(Kind::Realigned) && repeats(Kind::Signal));
    assert!(!repeats(Kind::Rsp) && !repeats(Kind::Rbp) && !repeats(Kind::AssumedRbp));
    assert!(Rule::NOTHING.upper_half() & FrameFlags::CHECKED == 0);
};

impl CachedFrame {
    /// The frame's registers.
    pub fn frame(&self) -> Frame {
        Frame {
            stack_pointer: self.stack_pointer.get(),
            code: self.code.get(),
            frame_pointer: self.frame_pointer.get(),
        }
    }

    /// Whether `frame` equals this one as far as the walk outwards depends on it.
    #[inline(always)]
    pub fn resumes(&self, frame: &Frame) -> bool {
        self.is_at(frame)
            && (!self.needs_frame_pointer() || self.frame_pointer.get() == frame.frame_pointer)
    }

    /// [`CachedFrame::resumes`] without comparing the frame pointer, which a walk by the
    /// stack pointer only does not know.
    #[inline(always)]
    pub fn is_at(&self, frame: &Frame) -> bool {
        self.stack_pointer.get() == frame.stack_pointer && self.code.get() == frame.code
    }

    /// Whether the walk from this frame outwards depends on the frame pointer.
    #[inline(always)]
    pub fn needs_frame_pointer(&self) -> bool {
        self.flags.get().needs_frame_pointer()
    }

    /// Whether the return address to this frame is still in its slot.
    ///
    /// # Safety
    /// The frame must be on the known stack and not have `REPEAT_STEP`.
    #[inline(always)]
    pub unsafe fn return_address_holds(&self) -> bool {
        // SAFETY: guaranteed by the caller; a call pushed the address right below the
        // frame.
        unsafe { load(self.stack_pointer.get() - 8) == self.code.get().bits() }
    }

    /// Whether the saved frame pointer is still in its slot, if the walk depends on it.
    ///
    /// # Safety
    /// As [`CachedFrame::return_address_holds`].
    #[inline(always)]
    pub unsafe fn frame_pointer_holds(&self) -> bool {
        let slot = self.flags.get().slot();
        // SAFETY: guaranteed by the caller; the slot is in the callee's frame, below this
        // one.
        slot == 0
            || unsafe { load(self.stack_pointer.get() - 8 * slot) } == self.frame_pointer.get()
    }
}

/// The result of one step of a walk.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The caller.
    Caller(Frame),
    /// The frame is the outermost one: the stack is complete.
    Outermost,
    /// The same, found by a return address of 0, which may change later.
    ZeroReturnAddress,
    /// The caller cannot be found.
    Unknown,
    /// Only the general unwinder can find the caller.
    NeedsGeneral,
}
