//! One x86-64 instruction: its length, and what a move to another address changes.

use yaxpeax_x86::long_mode::{
    InstDecoder, Instruction as Decoded, Opcode, Operand, RegSpec, register_class,
};

/// Bytes of the longest instruction.
pub const MAX_LENGTH: usize = 15;

/// `int3`, with which some linkers fill the space between functions.
const INT3: [u8; 1] = [0xcc];

/// What an instruction refers to by its own address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// Nothing: it is the same anywhere.
    None,
    /// An operand in memory: the displacement, of four bytes, is at this offset.
    Memory(usize),
    /// A jump to an address.
    Jump(u64),
    /// A jump to an address on a condition, by its number in the instruction code.
    ConditionalJump(u8, u64),
    /// A call of an address.
    Call(u64),
    /// A call of the address that is in memory; as [`Memory`](Self::Memory).
    CallThrough(usize),
    /// Something that cannot be moved; it may continue at the address, if there is one.
    Other(Option<u64>),
}

/// An instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Length of the instruction in bytes.
    pub length: usize,
    /// What it refers to.
    pub reference: Reference,
    /// It does nothing, as in the padding between functions.
    pub is_padding: bool,
}

impl Instruction {
    /// Decodes the first instruction of `code`, which lies at `address`.
    pub fn decode(code: &[u8], address: u64) -> Option<Self> {
        let code = &code[..code.len().min(MAX_LENGTH)];
        let (decoded, length) = decode(code)?;
        let code = &code[..length];
        let end = address.wrapping_add(length as u64);
        Some(Self {
            length,
            reference: reference(&decoded, code, end),
            is_padding: decoded.opcode() == Opcode::NOP || code == INT3,
        })
    }

    /// Where it may continue beside the next instruction.
    pub fn target(&self) -> Option<u64> {
        match self.reference {
            Reference::Jump(target)
            | Reference::ConditionalJump(_, target)
            | Reference::Call(target) => Some(target),
            Reference::Other(target) => target,
            Reference::None | Reference::Memory(_) | Reference::CallThrough(_) => None,
        }
    }
}

/// The text of the first instruction of `code`, which lies at `address`, in Intel's syntax:
/// `mov rbx, qword [0x4010]`. Addresses that are relative to the instruction are absolute in it.
#[cfg(feature = "text")]
pub fn text(code: &[u8], address: u64) -> Option<impl core::fmt::Display> {
    decode(&code[..code.len().min(MAX_LENGTH)]).map(|(decoded, _)| Text { decoded, address })
}

#[cfg(feature = "text")]
struct Text {
    decoded: Decoded,
    address: u64,
}

#[cfg(feature = "text")]
impl core::fmt::Display for Text {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        use yaxpeax_x86::long_mode::AbsoluteAddressFormatter;
        let rules = AbsoluteAddressFormatter::new(self.address);
        core::fmt::Display::fmt(&rules.display(&self.decoded), to)
    }
}

fn decode(code: &[u8]) -> Option<(Decoded, usize)> {
    use yaxpeax_arch::LengthedInstruction as _;
    let decoded = InstDecoder::default().decode_slice(code).ok()?;
    let length = decoded.len().to_const() as usize;
    (length > 0 && length <= code.len()).then_some((decoded, length))
}

fn reference(decoded: &Decoded, code: &[u8], end: u64) -> Reference {
    let jump = match decoded.operand(0) {
        Operand::ImmediateI8 { imm } => Some(end.wrapping_add_signed(i64::from(imm))),
        Operand::ImmediateI32 { imm } => Some(end.wrapping_add_signed(i64::from(imm))),
        _ => None,
    };
    let memory = displacement(decoded, code);
    match (decoded.opcode(), jump, memory) {
        (Opcode::JMP, Some(target), _) => Reference::Jump(target),
        (Opcode::CALL, Some(target), _) => Reference::Call(target),
        (Opcode::CALL, None, Memory::At(offset)) => Reference::CallThrough(offset),
        (
            Opcode::CALL
            | Opcode::CALLF
            | Opcode::JMPF
            | Opcode::XBEGIN
            | Opcode::LOOP
            | Opcode::LOOPZ
            | Opcode::LOOPNZ
            | Opcode::JRCXZ
            | Opcode::JECXZ,
            target,
            _,
        ) => Reference::Other(target),
        (opcode, target, _) if is_conditional(opcode) => {
            let number = match code {
                [.., number @ 0x70..=0x7f, _] if code.len() < 6 => Some(*number),
                [.., 0x0f, number @ 0x80..=0x8f, _, _, _, _] => Some(*number),
                _ => None,
            };
            match (number, target) {
                (Some(number), Some(target)) => Reference::ConditionalJump(number & 15, target),
                _ => Reference::Other(target),
            }
        }
        (_, _, Memory::At(offset)) => Reference::Memory(offset),
        (_, _, Memory::Unclear) => Reference::Other(None),
        (_, _, Memory::None) => Reference::None,
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

/// An operand in memory that is relative to the instruction.
enum Memory {
    None,
    /// An operand whose displacement is at this offset in the instruction.
    At(usize),
    /// There is one in a form that is not known.
    Unclear,
}

/// Where the displacement is, the decoder does not tell. It is where another one changes
/// that operand and nothing else.
fn displacement(decoded: &Decoded, code: &[u8]) -> Memory {
    let mut operands = (0..decoded.operand_count()).map(|number| decoded.operand(number));
    let Some(displacement) = operands.find_map(|operand| relative(&operand)) else {
        return Memory::None;
    };
    let Some(displacement) = displacement else {
        return Memory::Unclear;
    };
    let other = displacement ^ 0x5555_5555;
    let is_it = |offset: &usize| {
        let mut changed = [0; MAX_LENGTH];
        let changed = &mut changed[..code.len()];
        changed.copy_from_slice(code);
        if changed[*offset..][..4] != displacement.to_le_bytes() {
            return false;
        }
        changed[*offset..][..4].copy_from_slice(&other.to_le_bytes());
        decode(changed).is_some_and(|(changed, length)| {
            length == code.len() && differ_in(decoded, &changed, other)
        })
    };
    match (0..code.len().saturating_sub(3)).find(is_it) {
        Some(offset) => Memory::At(offset),
        None => Memory::Unclear,
    }
}

/// The displacement of an operand that is relative to the instruction, if it is one;
/// `Some(None)`: in a form that is not known.
fn relative(operand: &Operand) -> Option<Option<i32>> {
    let is_instruction =
        |base: RegSpec| base == RegSpec::RIP || base.class() == register_class::EIP;
    match *operand {
        Operand::Disp { base, disp } if base == RegSpec::RIP => Some(Some(disp)),
        Operand::MemDeref { base } if base == RegSpec::RIP => Some(Some(0)),
        Operand::Disp { base, .. }
        | Operand::MemDeref { base }
        | Operand::DispMasked { base, .. }
        | Operand::MemDerefMasked { base, .. }
            if is_instruction(base) =>
        {
            Some(None)
        }
        _ => None,
    }
}

/// Whether the two instructions differ in the displacement alone, which is `other` in
/// the second.
fn differ_in(one: &Decoded, two: &Decoded, other: i32) -> bool {
    one.opcode() == two.opcode()
        && one.operand_count() == two.operand_count()
        && (0..one.operand_count()).all(|number| {
            let (one, two) = (one.operand(number), two.operand(number));
            match relative(&one) {
                Some(_) => relative(&two) == Some(Some(other)),
                None => one == two,
            }
        })
}

#[cfg(all(test, feature = "text"))]
mod tests {
    /// Encodings by hand, after the Intel SDM, volume 2; the first four are of the document on hakmem.
    #[test]
    fn texts_have_absolute_addresses() {
        for (code, expected) in [
            (&[0x41, 0x56][..], "push r14"),
            (&[0x4c, 0x8d, 0x6b, 0xd8], "lea r13, qword [rbx - 0x28]"),
            (&[0x81, 0xf9, 0x4d, 0x4b, 0x41, 0x48], "cmp ecx, 0x48414b4d"),
            (&[0x0f, 0x84, 0xfa, 0x0f, 0, 0], "jz 0x2000"),
            (&[0xe8, 0xfb, 0xff, 0xff, 0xff], "call 0x1000"),
            (&[0x8b, 0x05, 0x0a, 0, 0, 0], "mov eax, dword [0x1010]"),
            (&[0xc3], "ret"),
        ] {
            let text = super::text(code, 0x1000).map(|it| it.to_string());
            assert_eq!(text.as_deref(), Some(expected));
        }
        assert!(super::text(&[], 0).is_none());
        assert!(super::text(&[0x0f], 0).is_none());
    }
}
