//! The general unwinder: all registers, every kind of rule. For stacks with
//! frames that no compact rule describes (assembler that keeps its CFA in rbx,
//! expressions); slow, and never wrong.
//!
//! It begins in itself: the registers at hand are its own, so it first unwinds
//! through the recorder's frames, by their own unwind information, up to the
//! hook's caller.

use core::arch::naked_asm;

use gimli::{
    CfaRule, EndianSlice, Evaluation, EvaluationResult, EvaluationStorage, Expression, Format,
    LittleEndian, Location, Piece, Reader, Register, RegisterRule, Value,
};

use super::cfi::{self, Bytes, Context, Found, register};
use super::frame_pointer;
use super::rule::{self, EXACT, Frame};
use crate::capture::end;
use crate::modules;
use crate::readable::Memory;
use crate::thread::Thread;

/// How a walk ended.
pub struct Walked {
    /// Frames that were given out.
    pub frames: usize,
    /// How the stack ends, see `capture::end`.
    pub end: u32,
}

/// DWARF registers 0 to 15 and, at 16, the code address (System V ABI, AMD64
/// supplement, figure 3.36).
#[derive(Clone, Copy)]
#[repr(C)]
struct Registers {
    values: [u64; 17],
    /// The code address is exact.
    exact: bool,
}

const RBP: usize = 6;
const RSP: usize = 7;
const PC: usize = 16;

/// Stores the caller's registers.
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

/// Walks the stack from `start`, a hook's caller, and gives out each frame's
/// code address, innermost first, `limit` at most.
#[inline(never)]
pub unsafe fn walk(
    thread: *mut Thread,
    start: Frame,
    limit: usize,
    out: &mut dyn FnMut(usize, u64),
) -> Walked {
    let mut registers = Registers {
        values: [0; 17],
        exact: false,
    };
    let mut walked = Walked {
        frames: 0,
        end: end::NO_UNWIND_INFORMATION,
    };
    let mut outside = false;
    let mut memory = Memory::unknown();
    // SAFETY: every frame below is live; slots are read as its unwind
    // information says.
    unsafe {
        store_registers(&raw mut registers);
        // The recorder's own frames are few.
        for _ in 0..limit + 64 {
            let pc = registers.values[PC] & (EXACT - 1) | if registers.exact { EXACT } else { 0 };
            outside |= registers.values[RSP] == start.sp && pc == start.pc;
            if outside {
                if walked.frames == limit {
                    walked.end = end::TRUNCATED;
                    return walked;
                }
                out(walked.frames, pc);
                walked.frames += 1;
            }
            match step(thread, &registers, pc, outside, &mut memory) {
                Next::Caller(caller) => registers = caller,
                Next::Complete => {
                    walked.end = end::COMPLETE;
                    return walked;
                }
                Next::Unknown => break,
            }
        }
        if !outside {
            // Our own unwind information failed: at least the caller is known.
            out(0, start.pc);
            walked.frames = 1;
        }
    }
    walked
}

enum Next {
    Caller(Registers),
    Complete,
    Unknown,
}

/// `outside`: the frame is the program's, on one stack with its caller. The
/// recorder's lie on its own.
unsafe fn step(
    thread: *mut Thread,
    registers: &Registers,
    pc: u64,
    outside: bool,
    memory: &mut Memory,
) -> Next {
    let address = modules::address_of(pc);
    // SAFETY: the thread's own state.
    let module = match unsafe { modules::module_of(thread, address) } {
        modules::Found::Module(module, _) | modules::Found::Untold(module) => module,
        modules::Found::Nothing => return step_by_frame_pointer(registers, outside),
    };
    let mut context = Context::new_in();
    let Some(found) = cfi::find(&module, address, &mut context, memory) else {
        return step_by_frame_pointer(registers, outside);
    };
    if found.row.register(register::RA) == Some(RegisterRule::Undefined) {
        return Next::Complete;
    }
    match caller(registers, &found, memory) {
        Some(caller) if caller.values[PC] == 0 => Next::Complete,
        Some(caller) if !outside || caller.exact || caller.values[RSP] > registers.values[RSP] => {
            Next::Caller(caller)
        }
        _ => Next::Unknown,
    }
}

/// Other registers than rsp and rbp stay as they are, for nothing says better.
fn step_by_frame_pointer(registers: &Registers, outside: bool) -> Next {
    if !outside || !frame_pointer::is_wanted() {
        return Next::Unknown;
    }
    let frame = Frame {
        sp: registers.values[RSP],
        pc: registers.values[PC],
        bp: registers.values[RBP],
    };
    match frame_pointer::step(frame) {
        rule::Step::Caller(caller) => {
            let mut registers = *registers;
            registers.values[RSP] = caller.sp;
            registers.values[PC] = caller.pc;
            registers.values[RBP] = caller.bp;
            registers.exact = false;
            Next::Caller(registers)
        }
        rule::Step::Complete { .. } => Next::Complete,
        _ => Next::Unknown,
    }
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
    caller.exact = found.signal;
    for (register, rule) in found.row.registers() {
        let Some(place) = caller.values.get_mut(usize::from(register.0)) else {
            continue;
        };
        *place = match rule {
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

/// A word where the unwind information says that a register was saved.
fn load(address: u64, memory: &mut Memory) -> Option<u64> {
    if address & 7 != 0 {
        return None;
    }
    memory.word(address)
}

/// Keeps gimli's evaluation stacks in place.
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
