//! Applies the rule of a frame: one step of a walk.

use super::frame::{Frame, FrameAddress, Step};
use super::frame_pointer;
use super::rule::{Kind, Rule};
use crate::memory::Memory;

impl Rule {
    /// The CFA by a rule that [`Rule::is_simple`]. `None` if it is not above the frame or
    /// not aligned: since stacks grow down, the unwind information is wrong then.
    #[inline(always)]
    pub const fn cfa(self, frame: &Frame) -> Option<u64> {
        let base = if self.needs_stack_pointer_only() {
            frame.stack_pointer
        } else {
            frame.frame_pointer
        };
        let cfa = base.wrapping_add(self.offset());
        if cfa <= frame.stack_pointer || cfa & 7 != 0 {
            return None;
        }
        Some(cfa)
    }

    /// The CFA by a rule that [`Rule::needs_stack_pointer_only`]. It is always above the
    /// frame: an offset is positive and has 31 bits, and no stack is that close to the
    /// end of the address space.
    #[inline(always)]
    pub const fn cfa_by_stack_pointer(self, frame: &Frame) -> u64 {
        frame.stack_pointer.wrapping_add(self.offset())
    }
}

/// Offsets in the `ucontext` that is at rsp in a signal trampoline (`sys/ucontext.h`:
/// `uc_mcontext.gregs` begins at 40).
const UCONTEXT_RBP: u64 = 120;
const UCONTEXT_RSP: u64 = 160;
const UCONTEXT_RIP: u64 = 168;

/// Applies `rule` to `frame`; reads only through `memory`.
pub fn step(frame: Frame, rule: Rule, memory: &mut Memory) -> Step {
    let caller = match rule.kind() {
        Kind::Rsp | Kind::Rbp => simple(frame, rule, memory),
        Kind::Realigned => realigned(frame, rule, memory),
        Kind::Signal => interrupted(frame, memory),
        Kind::AssumedRbp => return frame_pointer::step(frame, memory),
        Kind::Outermost => return Step::Outermost,
        Kind::General => return Step::NeedsGeneral,
        Kind::Unknown => None,
    };
    match caller {
        Some(caller) if caller.code.is_zero_return_address() => Step::ZeroReturnAddress,
        Some(caller) => Step::Caller(caller),
        None => Step::Unknown,
    }
}

fn simple(frame: Frame, rule: Rule, memory: &mut Memory) -> Option<Frame> {
    let cfa = rule.cfa(&frame)?;
    let code = FrameAddress::return_address(memory.word(cfa - 8)?);
    let frame_pointer = match rule.frame_pointer_slot(cfa) {
        // If the return address is 0, the slot is not read.
        Some(slot) if !code.is_zero_return_address() => memory.word(slot)?,
        _ => frame.frame_pointer,
    };
    Some(Frame {
        stack_pointer: cfa,
        code,
        frame_pointer,
    })
}

fn realigned(frame: Frame, rule: Rule, memory: &mut Memory) -> Option<Frame> {
    let rbp = frame.frame_pointer;
    let pointer = rbp.wrapping_add(rule.offset());
    if rbp < frame.stack_pointer || rbp & 7 != 0 || pointer & 7 != 0 {
        return None;
    }
    let (cfa, saved) = (memory.word(pointer)?, memory.word(rbp)?);
    if cfa <= frame.stack_pointer || cfa & 7 != 0 {
        return None;
    }
    Some(Frame {
        stack_pointer: cfa,
        code: FrameAddress::return_address(memory.word(cfa - 8)?),
        frame_pointer: saved,
    })
}

/// The interrupted frame, from the `ucontext` that the kernel stored below it.
fn interrupted(frame: Frame, memory: &mut Memory) -> Option<Frame> {
    let mut register = |offset| memory.word(frame.stack_pointer.checked_add(offset)?);
    Some(Frame {
        code: FrameAddress::instruction_pointer(register(UCONTEXT_RIP)?),
        stack_pointer: register(UCONTEXT_RSP)?,
        frame_pointer: register(UCONTEXT_RBP)?,
    })
}
