//! The detour of one function: which of its first instructions are moved, and their bytes
//! elsewhere.
//!
//! A move keeps the effect of every instruction. A call is moved as a push of the address
//! that it returns to and a jump: what is called returns into the function itself, so
//! that nothing on the stack points into a trampoline, for which there is no unwind
//! information.

use crate::elf::{Bytes, Elf};
use crate::instruction::{Instruction, MAX_LENGTH, Reference};
use crate::survey::Found;

/// Bytes of the jump that is put in place of the function's first instructions.
pub const PATCH: usize = 5;
/// Largest number of bytes of the instructions that the jump replaces.
const MAX_MOVED: usize = PATCH - 1 + MAX_LENGTH;
/// Largest number of bytes of a trampoline.
pub const TRAMPOLINE: usize = 96;
/// Largest number of bytes of a function that are decoded.
const MAX_DECODED: u64 = 1 << 16;

/// Why a function cannot be detoured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The symbol has no size, or a size that no such function has.
    Size,
    /// There is no code at its address.
    NoCode,
    /// It is chosen at run time (`STT_GNU_IFUNC`).
    Resolver,
    /// An instruction of it is not known.
    Unknown,
    /// It is too short for a jump.
    TooShort,
    /// A jump in it leads into the instructions that would be moved.
    JumpInto,
    /// One of its first instructions cannot be moved.
    Immovable,
    /// What one of its first instructions refers to is too far away.
    TooFar,
}

/// The detour of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    code: [u8; MAX_MOVED],
    /// Bytes of the instructions that are moved.
    moved: usize,
}

impl Plan {
    /// Plans the detour of a function that was found in the file.
    ///
    /// # Errors
    /// If it is not certain that the program works with it.
    pub fn new<B: Bytes + ?Sized>(elf: &Elf<'_, B>, found: &Found) -> Result<Self, Refusal> {
        Self::at(elf, found.address, found.size, found.is_resolver)
    }

    /// Same as [`new`](Self::new), of a function at this address of the file, of this size; `is_resolver`: it
    /// chooses the real one.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn at<B: Bytes + ?Sized>(
        elf: &Elf<'_, B>,
        address: u64,
        size: u64,
        is_resolver: bool,
    ) -> Result<Self, Refusal> {
        if is_resolver {
            return Err(Refusal::Resolver);
        }
        if size == 0 || size > MAX_DECODED {
            return Err(Refusal::Size);
        }
        let read = size.max(PATCH as u64);
        let code = elf.code(address, read).ok_or(Refusal::NoCode)?;
        Self::of(code, size as usize, address)
    }

    /// Plans the detour of the function at `address`: its code, which is `size` bytes long.
    /// Of a function that is shorter than [`PATCH`], `code` contains what follows, too.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of(code: &[u8], size: usize, address: u64) -> Result<Self, Refusal> {
        let mut moved = 0;
        while moved < PATCH {
            let rest = code.get(moved..).unwrap_or_default();
            let at = address.wrapping_add(moved as u64);
            let instruction = Instruction::decode(rest, at).ok_or(match moved >= size {
                true => Refusal::TooShort,
                false => Refusal::Unknown,
            })?;
            // Padding up to the next function, which compilers align.
            let is_padding = instruction.is_padding && address.is_multiple_of(16);
            if moved >= size && !is_padding {
                return Err(Refusal::TooShort);
            }
            if matches!(instruction.reference, Reference::Other(_)) {
                return Err(Refusal::Immovable);
            }
            moved += instruction.length;
        }
        let is_into = |target: u64| (1..moved as u64).contains(&target.wrapping_sub(address));
        let mut at = 0;
        while at < size {
            let rest = code.get(at..size).unwrap_or_default();
            let address = address.wrapping_add(at as u64);
            let instruction = Instruction::decode(rest, address).ok_or(Refusal::Unknown)?;
            if instruction.target().is_some_and(is_into) {
                return Err(Refusal::JumpInto);
            }
            at += instruction.length;
        }
        let mut plan = Self {
            code: [0; MAX_MOVED],
            moved,
        };
        let code = code.get(..moved).ok_or(Refusal::TooShort)?;
        plan.code[..moved].copy_from_slice(code);
        Ok(plan)
    }

    /// The instructions that are moved, as they are in the file.
    pub fn code(&self) -> &[u8] {
        &self.code[..self.moved]
    }

    /// The trampoline at the address `at`, of the function that is at `function` in the
    /// process, and how many bytes it has.
    ///
    /// # Errors
    /// [`Refusal::TooFar`].
    pub fn trampoline(&self, at: u64, function: u64) -> Result<([u8; TRAMPOLINE], usize), Refusal> {
        let mut writer = Writer {
            bytes: [0; TRAMPOLINE],
            length: 0,
            at,
        };
        let mut done = 0;
        while done < self.moved {
            let from = function.wrapping_add(done as u64);
            let rest = &self.code[done..self.moved];
            let instruction = Instruction::decode(rest, from).ok_or(Refusal::Unknown)?;
            let code = &rest[..instruction.length];
            let next = from.wrapping_add(code.len() as u64);
            match instruction.reference {
                Reference::None => writer.push(code)?,
                Reference::Memory(offset) => writer.relocated(code, offset, from)?,
                Reference::Jump(target) => writer.jump(&[0xe9], target)?,
                Reference::ConditionalJump(number, target) => {
                    writer.jump(&[0x0f, 0x80 | number], target)?;
                }
                Reference::Call(target) => {
                    writer.push_return_address(next)?;
                    writer.jump(&[0xe9], target)?;
                }
                Reference::CallThrough(offset) => {
                    let target = target_of(code, offset, next).ok_or(Refusal::Immovable)?;
                    writer.push_return_address(next)?;
                    // jmp [rip + …]
                    writer.jump(&[0xff, 0x25], target)?;
                }
                Reference::Other(_) => return Err(Refusal::Immovable),
            }
            done += instruction.length;
        }
        writer.jump(&[0xe9], function.wrapping_add(self.moved as u64))?;
        Ok((writer.bytes, writer.length))
    }
}

/// The bytes of a jump at `from` to `to`.
///
/// # Errors
/// [`Refusal::TooFar`].
pub fn jump(from: u64, to: u64) -> Result<[u8; PATCH], Refusal> {
    let [a, b, c, d] = distance(from.wrapping_add(PATCH as u64), to)?.to_le_bytes();
    Ok([0xe9, a, b, c, d])
}

fn distance(from: u64, to: u64) -> Result<i32, Refusal> {
    i32::try_from(to.wrapping_sub(from).cast_signed()).map_err(|_| Refusal::TooFar)
}

/// The address that the displacement at an offset of an instruction stands for.
fn target_of(code: &[u8], offset: usize, next: u64) -> Option<u64> {
    let displacement = code.get(offset..)?.first_chunk().copied()?;
    Some(next.wrapping_add_signed(i64::from(i32::from_le_bytes(displacement))))
}

/// Writes instructions to an address.
struct Writer {
    bytes: [u8; TRAMPOLINE],
    length: usize,
    at: u64,
}

impl Writer {
    fn push(&mut self, code: &[u8]) -> Result<(), Refusal> {
        let rest = self.bytes.get_mut(self.length..).unwrap_or_default();
        let place = rest.get_mut(..code.len()).ok_or(Refusal::Immovable)?;
        place.copy_from_slice(code);
        self.length += code.len();
        Ok(())
    }

    fn address(&self) -> u64 {
        self.at.wrapping_add(self.length as u64)
    }

    /// An instruction code, and as its operand the distance to `target`.
    fn jump(&mut self, code: &[u8], target: u64) -> Result<(), Refusal> {
        let end = self.address().wrapping_add(code.len() as u64 + 4);
        let distance = distance(end, target)?;
        self.push(code)?;
        self.push(&distance.to_le_bytes())
    }

    /// An instruction from the address `from`, with the displacement at `offset`.
    fn relocated(&mut self, code: &[u8], offset: usize, from: u64) -> Result<(), Refusal> {
        let length = code.len() as u64;
        let target = target_of(code, offset, from.wrapping_add(length));
        let target = target.ok_or(Refusal::Immovable)?;
        let distance = distance(self.address().wrapping_add(length), target)?;
        let start = self.length;
        self.push(code)?;
        let place = self.bytes.get_mut(start + offset..).unwrap_or_default();
        let place = place.get_mut(..4).ok_or(Refusal::Immovable)?;
        place.copy_from_slice(&distance.to_le_bytes());
        Ok(())
    }

    fn push_return_address(&mut self, address: u64) -> Result<(), Refusal> {
        let [a, b, c, d, e, f, g, h] = address.to_le_bytes();
        // push imm32, which extends the sign; mov dword [rsp + 4], imm32
        self.push(&[0x68, a, b, c, d])?;
        self.push(&[0xc7, 0x44, 0x24, 0x04, e, f, g, h])
    }
}

#[cfg(test)]
mod tests;
