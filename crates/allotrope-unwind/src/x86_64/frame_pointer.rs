//! Steps by the frame pointer, for code without unwind information, where the
//! recording asks for it: JIT code (V8, .NET, the JVM with
//! `PreserveFramePointer`) has none but keeps rbp as the System V ABI proposes
//! it: the caller's rbp at rbp, the return address behind it.
//!
//! That rbp is one can not be proved: code that uses it for something else
//! gives a stack that ends here, or that lacks frames. So nothing is read
//! through it that is not known to be memory.

use super::frame::{Frame, FrameAddress};
use super::rule::Step;
use crate::memory::Memory;

/// A frame that reaches further than this is none.
const LONGEST_FRAME: u64 = 1 << 20;
/// No code lies lower (`vm.mmap_min_addr`).
const LOWEST_CODE: u64 = 1 << 16;
/// User space ends there.
const HIGHEST_CODE: u64 = 1 << 47;

/// The step from `frame`, whose code has no unwind information.
#[cold]
#[inline(never)]
pub fn step(frame: Frame, memory: &mut Memory) -> Step {
    let Some((frame_pointer, return_address)) = read(frame, memory) else {
        return Step::Unknown;
    };
    if return_address == 0 {
        return Step::ZeroReturnAddress;
    }
    if !(LOWEST_CODE..HIGHEST_CODE).contains(&return_address) {
        return Step::Unknown;
    }
    Step::Caller(Frame {
        stack_pointer: frame.frame_pointer + 16,
        code: FrameAddress::return_address(return_address),
        frame_pointer,
    })
}

/// The two words that a frame pointer points at; `None` if it is none.
fn read(frame: Frame, memory: &mut Memory) -> Option<(u64, u64)> {
    let rbp = frame.frame_pointer;
    let depth = rbp.checked_sub(frame.stack_pointer)?;
    if depth >= LONGEST_FRAME || rbp & 7 != 0 {
        return None;
    }
    Some((memory.word(rbp)?, memory.word(rbp.checked_add(8)?)?))
}
