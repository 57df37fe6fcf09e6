//! Follows a new block through machine code: from the return of `operator new`, which leaves its
//! address in `rax`, to what initialises it.
//!
//! The registers and stack slots that hold the address are tracked, on both sides of a branch.
//! What is not understood loses the address; so an event is certain, and the absence of one
//! says nothing. (System V ABI for x86-64, 3.2: registers that a call keeps, and those that pass
//! arguments.)

use yaxpeax_arch::LengthedInstruction as _;
use yaxpeax_x86::long_mode::{InstDecoder, Instruction, Opcode, Operand, RegSpec, register_class};

/// Most instructions that are followed on one path.
const MAX_STEPS: usize = 256;
/// Most paths: a branch makes two of one.
const MAX_PATHS: usize = 12;
/// Most events of a path. The first one that decides is wanted.
const MAX_EVENTS: usize = 12;
/// Most stack slots that are tracked.
const MAX_SLOTS: usize = 16;
/// The largest distance of the first object of an array from the start of its block.
const MAX_COOKIE: i64 = 64;
/// Bytes of the longest instruction.
const MAX_LENGTH: usize = 15;

const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RSP: usize = 4;
const RBP: usize = 5;
const RSI: usize = 6;
const RDI: usize = 7;

/// What happens to the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The instruction at this address writes into it.
    Store(u64),
    /// The instruction at this address calls a function with its address, or the address of its
    /// first object, as the first argument.
    Call(u64, Callee),
    /// The instruction calls something with it as an argument, but not the first.
    Passed(u64),
}

/// What a call calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Callee {
    /// The function at this address.
    Address(u64),
    /// The one whose address is in memory, at this address.
    Through(u64),
    /// Something else.
    Unknown,
}

/// The events of each path from the address at which `operator new` returned. `code` copies the
/// code from an address on into the slice and returns how many bytes there are.
pub(super) fn follow(start: u64, code: &mut dyn FnMut(u64, &mut [u8]) -> usize) -> Vec<Vec<Event>> {
    let mut first = Path {
        at: start,
        ..Path::default()
    };
    first.registers[RAX] = Some(0);
    let mut open = vec![first];
    let mut visited = Vec::new();
    let (mut ended, mut paths) = (Vec::new(), 1);
    while let Some(mut path) = open.pop() {
        for _ in 0..MAX_STEPS {
            let mut bytes = [0; MAX_LENGTH];
            let length = code(path.at, &mut bytes);
            let decoded = InstDecoder::default().decode_slice(&bytes[..length]);
            let Ok(instruction) = decoded else { break };
            match path.step(&instruction) {
                Next::Following => {}
                Next::End => break,
                Next::Branch(target) => {
                    // A loop is entered once.
                    if paths < MAX_PATHS && !visited.contains(&target) {
                        visited.push(target);
                        paths += 1;
                        open.push(Path {
                            at: target,
                            ..path.clone()
                        });
                    }
                }
            }
            if path.events.len() >= MAX_EVENTS || !path.is_held() {
                break;
            }
        }
        if !path.events.is_empty() {
            ended.push(path.events);
        }
    }
    ended
}

/// Where a path goes on.
enum Next {
    Following,
    /// At the next instruction, or here.
    Branch(u64),
    End,
}

/// The state on one path.
#[derive(Debug, Clone, Default)]
struct Path {
    at: u64,
    /// By number of the register: the distance of its value from the block's start, if it is
    /// an address in the block.
    registers: [Option<i64>; 16],
    /// The same of slots, by register and distance.
    slots: Vec<(usize, i32, i64)>,
    /// Bits of the registers that were written since the last call, which left in them nothing
    /// that could be passed on.
    written: u16,
    events: Vec<Event>,
}

impl Path {
    /// Whether anything holds the address still.
    fn is_held(&self) -> bool {
        self.registers.iter().any(Option::is_some) || !self.slots.is_empty()
    }

    fn step(&mut self, instruction: &Instruction) -> Next {
        let here = self.at;
        self.at = here.wrapping_add(instruction.len().to_const());
        let (first, second) = (instruction.operand(0), instruction.operand(1));
        let width = instruction.mem_size().and_then(|it| it.bytes_size());
        // A value of up to 64 bytes.
        let width = width.map_or(64, i32::from);
        match instruction.opcode() {
            Opcode::CALL => {
                self.call(here, &first);
                Next::Following
            }
            Opcode::JMP => match target(&first, self.at) {
                Some(target) => {
                    self.at = target;
                    Next::Following
                }
                None => Next::End,
            },
            opcode if is_conditional(opcode) => {
                target(&first, self.at).map_or(Next::End, Next::Branch)
            }
            // The stack pointer of a function that restores the frame pointer is unknown.
            Opcode::LEAVE | Opcode::ENTER => Next::End,
            Opcode::RETURN | Opcode::UD2 | Opcode::HLT | Opcode::INT | Opcode::SYSCALL => Next::End,
            Opcode::CMP
            | Opcode::TEST
            | Opcode::NOP
            | Opcode::ENDBR64
            | Opcode::BT
            | Opcode::UCOMISD
            | Opcode::UCOMISS
            | Opcode::COMISD
            | Opcode::COMISS => Next::Following,
            Opcode::PUSH | Opcode::POP => {
                self.lose_slots(RSP);
                if instruction.opcode() == Opcode::POP {
                    self.write(here, &first, (None, width));
                }
                Next::Following
            }
            Opcode::MOV => {
                let value = match instruction.operand(0).width() {
                    Some(8) | None => self.read(&second),
                    Some(_) => None,
                };
                self.write(here, &first, (value, width));
                Next::Following
            }
            Opcode::LEA => {
                let value = memory(&second)
                    .and_then(|(base, distance)| Some(self.registers[base]? + i64::from(distance)));
                self.write(here, &first, (value, width));
                Next::Following
            }
            Opcode::ADD | Opcode::SUB if matches!(first, Operand::Register { .. }) => {
                let sign = if instruction.opcode() == Opcode::ADD {
                    1
                } else {
                    -1
                };
                let value = immediate(&second).and_then(|by| Some(self.read(&first)? + sign * by));
                self.write(here, &first, (value, width));
                Next::Following
            }
            opcode => {
                if is_clobbering(opcode, instruction.operand_count()) {
                    for register in [RAX, RCX, RDX, RSI, RDI] {
                        self.registers[register] = None;
                    }
                }
                self.write(here, &first, (None, width));
                if matches!(opcode, Opcode::XCHG | Opcode::XADD | Opcode::MULX) {
                    self.write(here, &second, (None, width));
                }
                Next::Following
            }
        }
    }

    fn call(&mut self, here: u64, callee: &Operand) {
        let is_object = |held: &Option<i64>| held.is_some_and(|at| (0..=MAX_COOKIE).contains(&at));
        if is_object(&self.registers[RDI]) {
            let callee = match (target(callee, self.at), memory_at(callee, self.at)) {
                (Some(target), _) => Callee::Address(target),
                (None, Some(at)) => Callee::Through(at),
                (None, None) => Callee::Unknown,
            };
            self.events.push(Event::Call(here, callee));
        } else {
            // Of the registers for arguments, the first ones are used: a copy behind one that was
            // not written is no argument.
            let is_written = |register: &usize| self.written & 1 << *register != 0;
            let mut arguments = [RDI, RSI, RDX, RCX, 8, 9]
                .into_iter()
                .take_while(is_written);
            if arguments.any(|register| self.registers[register].is_some()) {
                self.events.push(Event::Passed(here));
            }
        }
        self.written = 0;
        for register in [RAX, RCX, RDX, RSI, RDI, 8, 9, 10, 11] {
            self.registers[register] = None;
        }
    }

    /// The value of an operand, if it is an address in the block.
    fn read(&self, operand: &Operand) -> Option<i64> {
        if let Operand::Register { reg } = operand {
            return self.registers[number(*reg)?].filter(|_| reg.class() == register_class::Q);
        }
        let (base, distance) = memory(operand)?;
        let slot = |slot: &&(usize, i32, i64)| (slot.0, slot.1) == (base, distance);
        let slot = self.slots.iter().find(slot)?;
        // What is in the block is not in a slot.
        self.registers[base].is_none().then_some(slot.2)
    }

    /// Writes to an operand a value, or something that is no address in the block.
    /// `width`: bytes that are written, if it is memory.
    fn write(&mut self, here: u64, to: &Operand, (value, width): (Option<i64>, i32)) {
        if let Operand::Register { reg } = to {
            let Some(register) = number(*reg) else { return };
            self.registers[register] = value;
            self.written |= 1 << register;
            self.lose_slots(register);
            return;
        }
        let (base, index) = bases(to);
        let is_in_block = |register: Option<usize>| {
            register.is_some_and(|register| self.registers[register].is_some())
        };
        if is_in_block(base) || is_in_block(index) {
            self.events.push(Event::Store(here));
            return;
        }
        let Some((base @ (RSP | RBP), distance)) = memory(to) else {
            return;
        };
        let overlaps =
            |at: i32| at < distance.saturating_add(width) && distance < at.saturating_add(8);
        self.slots
            .retain(|slot| slot.0 != base || !overlaps(slot.1));
        if let Some(value) = value.filter(|_| self.slots.len() < MAX_SLOTS) {
            self.slots.push((base, distance, value));
        }
    }

    /// Loses the slots at distances from a register that changed.
    fn lose_slots(&mut self, register: usize) {
        self.slots.retain(|slot| slot.0 != register);
    }
}

/// The number of a general register of any width.
fn number(register: RegSpec) -> Option<usize> {
    let class = register.class();
    let is_general = class == register_class::Q
        || class == register_class::D
        || class == register_class::W
        || class == register_class::B
        || class == register_class::RB;
    let number = match usize::from(register.num()) {
        // `ah`, `ch`, `dh` and `bh`.
        number @ 4..8 if class == register_class::B => number - 4,
        number => number,
    };
    (is_general && number < 16).then_some(number)
}

/// The target of a direct jump or call; `end`: where the instruction ends.
fn target(operand: &Operand, end: u64) -> Option<u64> {
    match *operand {
        Operand::ImmediateI8 { imm } => Some(end.wrapping_add_signed(imm.into())),
        Operand::ImmediateI32 { imm } => Some(end.wrapping_add_signed(imm.into())),
        _ => None,
    }
}

/// The address of an operand that is relative to the instruction.
fn memory_at(operand: &Operand, end: u64) -> Option<u64> {
    match *operand {
        Operand::Disp { base, disp } if base == RegSpec::RIP => {
            Some(end.wrapping_add_signed(disp.into()))
        }
        _ => None,
    }
}

fn immediate(operand: &Operand) -> Option<i64> {
    match *operand {
        Operand::ImmediateI8 { imm } => Some(imm.into()),
        Operand::ImmediateI32 { imm } => Some(imm.into()),
        _ => None,
    }
}

/// Register and distance of an operand in memory that has no index.
fn memory(operand: &Operand) -> Option<(usize, i32)> {
    let (base, distance) = match *operand {
        Operand::MemDeref { base } => (base, 0),
        Operand::Disp { base, disp } => (base, disp),
        _ => return None,
    };
    (base.class() == register_class::Q)
        .then(|| number(base))?
        .map(|base| (base, distance))
}

/// Base and index of an operand in memory.
fn bases(operand: &Operand) -> (Option<usize>, Option<usize>) {
    match *operand {
        Operand::MemDeref { base }
        | Operand::Disp { base, .. }
        | Operand::MemDerefMasked { base, .. }
        | Operand::DispMasked { base, .. } => (number(base), None),
        Operand::MemBaseIndexScale { base, index, .. }
        | Operand::MemBaseIndexScaleDisp { base, index, .. }
        | Operand::MemBaseIndexScaleMasked { base, index, .. }
        | Operand::MemBaseIndexScaleDispMasked { base, index, .. } => (number(base), number(index)),
        _ => (None, None),
    }
}

/// Instructions that write to `rax`, `rcx`, `rdx`, `rsi` or `rdi` without naming them.
fn is_clobbering(opcode: Opcode, operands: u8) -> bool {
    match opcode {
        Opcode::IMUL => operands < 2,
        Opcode::MUL
        | Opcode::DIV
        | Opcode::IDIV
        | Opcode::CBW
        | Opcode::CWDE
        | Opcode::CDQE
        | Opcode::CWD
        | Opcode::CDQ
        | Opcode::CQO
        | Opcode::MOVS
        | Opcode::STOS
        | Opcode::LODS
        | Opcode::SCAS
        | Opcode::CMPS
        | Opcode::CMPXCHG
        | Opcode::CMPXCHG8B
        | Opcode::CMPXCHG16B
        | Opcode::CPUID
        | Opcode::RDTSC
        | Opcode::RDTSCP
        | Opcode::RDPMC
        | Opcode::XGETBV => true,
        _ => false,
    }
}

fn is_conditional(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::JO
            | Opcode::JNO
            | Opcode::JB
            | Opcode::JNB
            | Opcode::JZ
            | Opcode::JNZ
            | Opcode::JA
            | Opcode::JNA
            | Opcode::JS
            | Opcode::JNS
            | Opcode::JP
            | Opcode::JNP
            | Opcode::JL
            | Opcode::JGE
            | Opcode::JLE
            | Opcode::JG
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of code that lies at this address.
    const START: u64 = 0x1000;

    fn events(code: &[&[u8]]) -> Vec<Vec<Event>> {
        let code = code.concat();
        follow(START, &mut |at, into| {
            let rest = at.checked_sub(START).and_then(|it| code.get(it as usize..));
            let rest = rest.unwrap_or_default();
            let count = rest.len().min(into.len());
            into[..count].copy_from_slice(&rest[..count]);
            count
        })
    }

    // Encodings by hand, after the Intel SDM, volume 2.
    const MOV_RBX_RAX: &[u8] = &[0x48, 0x89, 0xc3];
    const MOV_RDI_RBX: &[u8] = &[0x48, 0x89, 0xdf];
    const MOV_RCX_RAX: &[u8] = &[0x48, 0x89, 0xc1];
    /// `mov %rax,-0x18(%rbp)`, `mov -0x18(%rbp),%rdi`.
    const SPILL: &[u8] = &[0x48, 0x89, 0x45, 0xe8];
    const RELOAD: &[u8] = &[0x48, 0x8b, 0x7d, 0xe8];
    const CALL_NEXT: &[u8] = &[0xe8, 0, 0, 0, 0];
    const XOR_EAX: &[u8] = &[0x31, 0xc0];
    const RET: &[u8] = &[0xc3];

    #[test]
    fn the_first_argument_of_a_call_is_followed_through_registers_and_slots() {
        for way in [[MOV_RBX_RAX, MOV_RDI_RBX], [SPILL, RELOAD]] {
            let call = START + way.concat().len() as u64 + 5;
            let code = [way[0], CALL_NEXT, way[1], CALL_NEXT, RET];
            let expected = Event::Call(call, Callee::Address(call + 5));
            assert_eq!(events(&code), [[expected]]);
        }
    }

    #[test]
    fn a_value_that_was_overwritten_is_not_followed() {
        // `mov $0,-0x18(%rbp)` (four bytes).
        let zero: &[u8] = &[0xc7, 0x45, 0xe8, 0, 0, 0, 0];
        assert!(events(&[SPILL, zero, XOR_EAX, RELOAD, CALL_NEXT, RET]).is_empty());
        // A call keeps no register for arguments.
        let mov_rdi_rax: &[u8] = &[0x48, 0x89, 0xc7];
        let code = [mov_rdi_rax, CALL_NEXT, CALL_NEXT, RET];
        assert_eq!(events(&code)[0].len(), 1);
    }

    #[test]
    fn a_copy_behind_an_unused_register_is_no_argument() {
        // `rcx` is the fourth argument; `rdi` alone was written.
        let xor_edi: &[u8] = &[0x31, 0xff];
        let code = [
            MOV_RBX_RAX,
            MOV_RCX_RAX,
            xor_edi,
            CALL_NEXT,
            MOV_RDI_RBX,
            CALL_NEXT,
            RET,
        ];
        assert!(matches!(events(&code)[0][..], [Event::Call(..)]));
        // `mov %rax,%rsi`: the second one.
        let mov_rsi_rax: &[u8] = &[0x48, 0x89, 0xc6];
        assert_eq!(
            events(&[mov_rsi_rax, xor_edi, CALL_NEXT, RET]),
            [[Event::Passed(START + 5)]]
        );
    }

    #[test]
    fn stores_into_the_block_are_seen_on_both_sides_of_a_branch() {
        // `test %rax,%rax; je +3; mov %ecx,(%rax); ret`.
        let (test, je) = (&[0x48, 0x85, 0xc0][..], &[0x74, 2][..]);
        let store: &[u8] = &[0x89, 0x08];
        let code = [test, je, store, RET];
        assert_eq!(events(&code), [[Event::Store(START + 5)]]);
        // `je` over a return to the store.
        let code = [test, &[0x74, 1], RET, store, RET];
        assert_eq!(events(&code), [[Event::Store(START + 6)]]);
    }

    #[test]
    fn no_code_is_an_endless_loop_or_a_panic() {
        // `jmp .`, `je .`.
        assert!(events(&[&[0xeb, 0xfe]]).is_empty());
        assert!(events(&[&[0x74, 0xfe], &[0xeb, 0xfc]]).is_empty());
        for seed in 0..2_000_u64 {
            let byte = |at: u64| (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at % 57)) as u8;
            let code: Vec<u8> = (0..64).map(|at| byte(at * 7 + seed % 5)).collect();
            let _ = events(&[&code]);
        }
    }
}
