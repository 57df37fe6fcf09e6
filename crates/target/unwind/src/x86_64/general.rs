//! The general unwinder: all registers, all kinds of unwind information. For stacks with
//! frames that no rule of one word describes (assembly code with its CFA in rbx,
//! expressions). Slow, but never wrong.
//!
//! It begins with its own registers, so it first unwinds through the recorder's frames,
//! by their unwind information, up to the hook's caller.

use core::arch::naked_asm;

use gimli::{
    CfaRule, EndianSlice, Evaluation, EvaluationResult, EvaluationStorage, Expression, Format,
    LittleEndian, Location, Piece, Reader, Register, RegisterRule, Value,
};

use super::cfi::{self, Bytes, Context, Found, register};
use super::frame::{Frame, FrameAddress, Step};
use super::frame_pointer;
use crate::StackEnd;
use crate::memory::Memory;
use crate::modules::Modules;

/// How a walk ended.
#[derive(Debug, Clone, Copy)]
pub struct Walked {
    /// Number of frames passed to the callback.
    pub frames: usize,
    /// How the stack ends.
    pub end: StackEnd,
}

/// DWARF registers 0 to 15 and, at 16, the code address (System V ABI, AMD64
/// supplement, figure 3.36).
#[derive(Clone, Copy)]
#[repr(C)]
struct Registers {
    values: [u64; 17],
    /// A signal interrupted the frame: the code address is an instruction pointer.
    interrupted: bool,
}

const RBP: usize = 6;
const RSP: usize = 7;
const PC: usize = 16;

impl Registers {
    fn code(&self) -> FrameAddress {
        if self.interrupted {
            FrameAddress::instruction_pointer(self.values[PC])
        } else {
            FrameAddress::return_address(self.values[PC])
        }
    }

    fn frame(&self) -> Frame {
        Frame {
            stack_pointer: self.values[RSP],
            code: self.code(),
            frame_pointer: self.values[RBP],
        }
    }
}

/// Stores the callee-saved registers, rsp and return address of its caller.
#[unsafe(naked)]
unsafe extern "C" fn store_registers(into: *mut Registers) {
    naked_asm!(
        ".cfi_startproc",
        "mov [rdi + 8*3], rbx",
        "mov [rdi + 8*6], rbp",
        "lea rax, [rsp + 8]",
        "mov [rdi + 8*7], rax",
        "mov [rdi + 8*12], r12",
        "mov [rdi + 8*13], r13",
        "mov [rdi + 8*14], r14",
        "mov [rdi + 8*15], r15",
        "mov rax, [rsp]",
        "mov [rdi + 8*16], rax",
        "ret",
        ".cfi_endproc",
    )
}

/// Walks the stack from `start`, the caller of a function that has not returned. Calls
/// `out` with index and code address of each frame, innermost first, for at most `limit`
/// frames.
#[inline(never)]
pub fn walk(
    modules: impl Modules,
    start: Frame,
    limit: usize,
    memory: &mut Memory,
    mut out: impl FnMut(usize, FrameAddress),
) -> Walked {
    /// More frames than lie between this function and `start`.
    const OWN_FRAMES: usize = 64;
    let mut registers = Registers {
        values: [0; 17],
        interrupted: false,
    };
    // SAFETY: `Registers` has the layout that the function writes.
    unsafe { store_registers(&raw mut registers) };
    let mut frames = 0;
    let mut outside = false;
    let mut end = StackEnd::NoUnwindInformation;
    for _ in 0..limit + OWN_FRAMES {
        let code = registers.code();
        outside |= registers.values[RSP] == start.stack_pointer && code == start.code;
        if outside {
            if frames == limit {
                end = StackEnd::Truncated;
                break;
            }
            out(frames, code);
            frames += 1;
        }
        match step(modules, &registers, outside, memory) {
            Next::Caller(caller) => registers = caller,
            Next::Complete => {
                end = StackEnd::Complete;
                break;
            }
            Next::Unknown => break,
        }
    }
    if !outside {
        // The recorder's own unwind information failed; only the caller is known.
        out(0, start.code);
        return Walked {
            frames: 1,
            end: StackEnd::NoUnwindInformation,
        };
    }
    Walked { frames, end }
}

enum Next {
    Caller(Registers),
    Complete,
    Unknown,
}

/// `outside`: the frame is one of the program's, whose caller must be further up on the
/// same stack. The recorder's frames are on a stack of its own.
fn step(modules: impl Modules, registers: &Registers, outside: bool, memory: &mut Memory) -> Next {
    let follows_frame_pointers = outside && modules.follows_frame_pointers();
    let address = registers.code().for_lookup();
    let Some(found) = modules.module_at(address) else {
        return step_by_frame_pointer(registers, follows_frame_pointers, memory);
    };
    let mut context = Context::new_in();
    let Some(found) = cfi::find(&found.module, address, &mut context, memory) else {
        return step_by_frame_pointer(registers, follows_frame_pointers, memory);
    };
    if found.row.register(register::RA) == Some(RegisterRule::Undefined) {
        return Next::Complete;
    }
    match caller(registers, &found, memory) {
        Some(caller) if caller.values[PC] == 0 => Next::Complete,
        Some(caller)
            if !outside || caller.interrupted || caller.values[RSP] > registers.values[RSP] =>
        {
            Next::Caller(caller)
        }
        _ => Next::Unknown,
    }
}

/// A step by the frame pointer. Other registers than rsp and rbp are unknown and stay
/// unchanged.
fn step_by_frame_pointer(registers: &Registers, is_wanted: bool, memory: &mut Memory) -> Next {
    if !is_wanted {
        return Next::Unknown;
    }
    match frame_pointer::step(registers.frame(), memory) {
        Step::Caller(caller) => {
            let mut registers = *registers;
            registers.values[RSP] = caller.stack_pointer;
            registers.values[PC] = caller.code.address();
            registers.values[RBP] = caller.frame_pointer;
            registers.interrupted = false;
            Next::Caller(registers)
        }
        Step::ZeroReturnAddress => Next::Complete,
        _ => Next::Unknown,
    }
}

/// A single step from `frame` by unwind information only; all other registers are 0.
#[cfg(test)]
pub fn step_by_information(
    module: &crate::Module,
    frame: Frame,
    memory: &mut Memory,
) -> Option<Frame> {
    let mut registers = Registers {
        values: [0; 17],
        interrupted: frame.code.is_instruction_pointer(),
    };
    registers.values[RSP] = frame.stack_pointer;
    registers.values[RBP] = frame.frame_pointer;
    registers.values[PC] = frame.code.address();
    let mut context = Context::new_in();
    let found = cfi::find(module, frame.code.for_lookup(), &mut context, memory)?;
    Some(caller(&registers, &found, memory)?.frame())
}

fn caller(registers: &Registers, found: &Found<'_>, memory: &mut Memory) -> Option<Registers> {
    let cfa = match found.row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            value(registers, *register)?.wrapping_add(*offset as u64)
        }
        CfaRule::Expression(expression) => evaluate(
            expression.get(&found.section).ok()?,
            registers,
            None,
            memory,
        )?,
    };
    let mut caller = *registers;
    caller.values[RSP] = cfa;
    caller.interrupted = found.signal;
    for (register, rule) in found.row.registers() {
        let Some(value_of) = caller.values.get_mut(usize::from(register.0)) else {
            continue;
        };
        *value_of = match rule {
            RegisterRule::Undefined | RegisterRule::SameValue => continue,
            RegisterRule::Offset(offset) => load(cfa.wrapping_add(*offset as u64), memory)?,
            RegisterRule::ValOffset(offset) => cfa.wrapping_add(*offset as u64),
            RegisterRule::Register(other) => value(registers, *other)?,
            RegisterRule::Expression(expression) => load(
                evaluate(
                    expression.get(&found.section).ok()?,
                    registers,
                    Some(cfa),
                    memory,
                )?,
                memory,
            )?,
            RegisterRule::ValExpression(expression) => evaluate(
                expression.get(&found.section).ok()?,
                registers,
                Some(cfa),
                memory,
            )?,
            RegisterRule::Constant(value) => *value,
            _ => return None,
        };
    }
    Some(caller)
}

fn value(registers: &Registers, register: Register) -> Option<u64> {
    registers.values.get(usize::from(register.0)).copied()
}

/// Loads a saved register's word from the address that the unwind information gives.
fn load(address: u64, memory: &mut Memory) -> Option<u64> {
    if address & 7 != 0 {
        return None;
    }
    memory.word(address)
}

/// Makes gimli store its evaluation stacks in arrays instead of on the heap.
struct InPlace;

impl<R: Reader> EvaluationStorage<R> for InPlace {
    type Stack = [Value; 32];
    type ExpressionStack = [(R, R); 2];
    type Result = [Piece<R>; 1];
}

fn evaluate(
    expression: Expression<Bytes>,
    registers: &Registers,
    initial: Option<u64>,
    memory: &mut Memory,
) -> Option<u64> {
    let encoding = gimli::Encoding {
        address_size: 8,
        format: Format::Dwarf32,
        version: 5,
    };
    let mut evaluation: Evaluation<EndianSlice<'static, LittleEndian>, InPlace> =
        Evaluation::new_in(expression.0, encoding);
    if let Some(value) = initial {
        evaluation.set_initial_value(value);
    }
    evaluation.set_max_iterations(1000);
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => evaluation
                .resume_with_register(Value::Generic(value(registers, register)?))
                .ok()?,
            EvaluationResult::RequiresMemory {
                address,
                size: 8,
                space: None,
                ..
            } => {
                let word = load(address, memory)?;
                evaluation.resume_with_memory(Value::Generic(word)).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.as_result() {
        [
            Piece {
                location: Location::Address { address },
                ..
            },
        ] => Some(*address),
        _ => None,
    }
}
