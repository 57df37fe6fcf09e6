//! What an x86-64 instruction does that is dear in an allocator: a locked access to memory, a
//! system call; and whether it repeats itself. Prefixes as in the Intel manual, volume 2,
//! section 2.1.1.

/// Longest instruction.
pub(crate) const MAX_LENGTH: usize = 15;

/// What is known of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Instruction {
    /// Prefix `lock`, or `xchg` with memory, which locks without it.
    pub(crate) locked: bool,
    /// `syscall`.
    pub(crate) system_call: bool,
    /// `rep movs` and similar ones: a step is one round of it.
    pub(crate) repeats: bool,
}

impl Instruction {
    /// Reads the instruction that begins here; of cut bytes, nothing is known.
    pub(crate) fn read(code: &[u8]) -> Self {
        let mut found = Self::default();
        let mut repeat = false;
        let mut rest = code;
        while let [byte, after @ ..] = rest {
            match byte {
                0xf0 => found.locked = true,
                0xf2 | 0xf3 => repeat = true,
                0x2e | 0x36 | 0x3e | 0x26 | 0x64..=0x67 => {}
                _ => break,
            }
            rest = after;
        }
        if let [0x40..=0x4f, after @ ..] = rest {
            rest = after;
        }
        match rest {
            [0x0f, 0x05, ..] => found.system_call = true,
            [0x86 | 0x87, operand, ..] if operand >> 6 != 3 => found.locked = true,
            // ins, outs, movs, cmps, stos, lods, scas
            [0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf, ..] => found.repeats = repeat,
            _ => {}
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(code: &[u8]) -> [bool; 3] {
        let found = Instruction::read(code);
        [found.locked, found.system_call, found.repeats]
    }

    #[test]
    fn instructions() {
        // lock cmpxchg [rdi], ecx; xchg [rdi], eax; xchg ecx, eax
        assert_eq!(read(&[0xf0, 0x0f, 0xb1, 0x0f]), [true, false, false]);
        assert_eq!(read(&[0x87, 0x07]), [true, false, false]);
        assert_eq!(read(&[0x87, 0xc1]), [false; 3]);
        // lock xadd [rax], rdx with REX
        assert_eq!(read(&[0xf0, 0x48, 0x0f, 0xc1, 0x10]), [true, false, false]);
        // syscall; rep movsb; rep stosq; repz ret; movss (prefix f3)
        assert_eq!(read(&[0x0f, 0x05]), [false, true, false]);
        assert_eq!(read(&[0xf3, 0xa4]), [false, false, true]);
        assert_eq!(read(&[0xf3, 0x48, 0xab]), [false, false, true]);
        assert_eq!(read(&[0xf3, 0xc3]), [false; 3]);
        assert_eq!(read(&[0xf3, 0x0f, 0x10, 0x07]), [false; 3]);
        assert_eq!(read(&[]), [false; 3]);
        assert_eq!(read(&[0xf0; 15]), [true, false, false]);
    }
}
