//! The arguments of a function of the exec family, as the stub that the program calls
//! pushes them. They are read, and changed, before the next function gets them.

use allotrope_unwind::Memory;

use crate::sys::readable::page_is_readable;

/// The registers as the stub pushes them, and the return address. Arguments on the stack
/// follow.
#[derive(Debug)]
#[repr(C)]
pub struct ExecRegisters {
    vector_registers: u64,
    /// `r9`, `r8`, `rcx`, `rdx`, `rsi`, `rdi`: the sixth argument to the first.
    arguments: [u64; 6],
    return_address: u64,
}

impl ExecRegisters {
    /// The argument with this number, from 0 on; 0 if it cannot be read.
    pub fn argument(&self, number: usize) -> u64 {
        if let Some(index) = 5usize.checked_sub(number) {
            return self.arguments[index];
        }
        let stack = (&raw const *self).wrapping_add(1).cast::<u64>();
        let address = stack.wrapping_add(number - 6) as u64;
        let argument = Memory::unknown(page_is_readable).word(address);
        argument.unwrap_or(0)
    }

    /// Changes one of the first six arguments.
    pub fn set(&mut self, number: usize, argument: u64) {
        self.arguments[5 - number] = argument;
    }

    /// The arguments from this number on, up to a null pointer, of a variadic function.
    pub fn list_from(&self, number: usize) -> impl Iterator<Item = u64> {
        (number..)
            .map(|number| self.argument(number))
            .take_while(|argument| *argument != 0)
    }
}
