//! The arguments of a function of the exec family, as the stub that the program calls
//! pushes them. They are read, and changed, before the next function gets them.

/// The arguments of an exec function as its stub keeps them.
#[derive(Debug)]
#[repr(C)]
pub struct ExecRegisters {
    vector_registers: u64,
    /// `r9`.
    pub sixth: u64,
    /// `r8`.
    pub fifth: u64,
    /// `rcx`.
    pub fourth: u64,
    /// `rdx`.
    pub third: u64,
    /// `rsi`.
    pub second: u64,
    /// `rdi`.
    pub first: u64,
    return_address: u64,
    /// Arguments on the stack follow.
    stack: [u64; 0],
}

impl ExecRegisters {
    /// The argument `index` places behind the first, of a variadic function.
    ///
    /// # Safety
    /// `this` is the stub's, and its caller gave so many.
    pub unsafe fn argument(this: *const Self, index: usize) -> u64 {
        // SAFETY: passed on; those on the stack lie behind the return address.
        unsafe {
            match index {
                0 => (*this).second,
                1 => (*this).third,
                2 => (*this).fourth,
                3 => (*this).fifth,
                4 => (*this).sixth,
                _ => (&raw const (*this).stack)
                    .cast::<u64>()
                    .add(index - 5)
                    .read(),
            }
        }
    }
}
