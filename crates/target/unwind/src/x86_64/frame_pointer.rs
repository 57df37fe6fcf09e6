//! Steps by the frame pointer, for code without unwind information, if the recording
//! requests it. JIT code (V8, .NET, the JVM with `PreserveFramePointer`) has no unwind
//! information but uses rbp as the System V ABI proposes: the caller's rbp is at rbp, the
//! return address after it.
//!
//! Nothing shows whether rbp is a frame pointer. If code uses it for something else, the
//! stack ends here, or lacks frames. So every read through it is checked.

use super::frame::{Frame, FrameAddress, Step};
use crate::memory::Memory;

/// Bytes from the stack pointer within which a frame pointer is accepted.
const MAX_FRAME: u64 = 1 << 20;
/// The lowest possible address of code (`vm.mmap_min_addr`).
const LOWEST_CODE: u64 = 1 << 16;
/// The end of user space.
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

/// The caller's frame pointer and the return address, to which a frame pointer points;
/// `None` if rbp is no frame pointer.
fn read(frame: Frame, memory: &mut Memory) -> Option<(u64, u64)> {
    let rbp = frame.frame_pointer;
    let depth = rbp.checked_sub(frame.stack_pointer)?;
    if depth >= MAX_FRAME || rbp & 7 != 0 {
        return None;
    }
    Some((memory.word(rbp)?, memory.word(rbp.checked_add(8)?)?))
}
