//! Steps by the frame pointer, for code without unwind information, where the
//! recording asks for it: code that runtimes make (V8, .NET, the JVM with
//! `PreserveFramePointer`) has none but keeps rbp as the System V ABI proposes
//! it: the caller's rbp at rbp, the return address behind it.
//!
//! That rbp is one can not be proved: code that uses it for something else
//! gives a stack that ends here, or that lacks frames. So nothing is read
//! through it before the kernel has said that it is memory.

use core::mem::size_of;
use core::sync::atomic::Ordering::Relaxed;

use super::rule::{EXACT, FRAME_POINTER_SLOT, Frame, Step};
use super::syscall::{call, number};
use crate::process;

/// A frame that reaches further than this is none.
const LONGEST_FRAME: u64 = 1 << 20;
/// No code lies lower (`vm.mmap_min_addr`).
const LOWEST_CODE: u64 = 1 << 16;

/// Whether the recording asks for it.
pub fn is_wanted() -> bool {
    process::control().frame_pointers.load(Relaxed) != 0
}

/// The step from `frame`, whose code has no unwind information.
#[cold]
#[inline(never)]
pub fn step(frame: Frame) -> Step {
    let Some((bp, pc)) = read(frame) else {
        return Step::Unknown;
    };
    if pc == 0 {
        return Step::Complete { read_zero: true };
    }
    if !(LOWEST_CODE..EXACT).contains(&pc) {
        return Step::Unknown;
    }
    Step::Caller(Frame {
        sp: frame.bp + 8 * FRAME_POINTER_SLOT,
        pc,
        bp,
    })
}

/// The words that a frame pointer points at: the caller's rbp and the return
/// address. `None` if it is none.
fn read(frame: Frame) -> Option<(u64, u64)> {
    let depth = frame.bp.checked_sub(frame.sp)?;
    if depth >= LONGEST_FRAME || frame.bp & 7 != 0 {
        return None;
    }
    let mut words = [0_u64; 2];
    let bytes = size_of::<[u64; 2]>();
    let from = [frame.bp as usize, bytes];
    let into = [(&raw mut words) as usize, bytes];
    // SAFETY: it writes to `words` and nothing else; what can not be read is an
    // error. The id is looked up anew: after a fork it is another one.
    let read = unsafe {
        call(
            number::PROCESS_VM_READV,
            [
                call(number::GETPID, [0; 6]) as usize,
                (&raw const into) as usize,
                1,
                (&raw const from) as usize,
                1,
                0,
            ],
        )
    };
    (read == bytes as isize).then_some((words[0], words[1]))
}
