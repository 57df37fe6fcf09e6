//! From call frame information to a [`Rule`]: what the rule cache is filled
//! with. Reads the loaded module's own `.eh_frame` by way of its
//! `.eh_frame_hdr`; allocates nothing (~10 KiB of stack).
//!
//! Sources: DWARF 5 §6.4, the LSB's description of `.eh_frame`, the System V
//! ABI's AMD64 supplement for register numbers.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, NativeEndian,
    ReaderOffset, Register, RegisterRule, UnwindContext, UnwindContextStorage, UnwindSection,
    UnwindTableRow,
};

use super::rule::{Kind, Rule};
use crate::modules::Module;

/// What gimli reads from.
pub type Bytes = EndianSlice<'static, LittleEndian>;
const _: LittleEndian = NativeEndian;

/// Keeps gimli's tables on the stack.
pub struct OnStack;

impl<T: ReaderOffset> UnwindContextStorage<T> for OnStack {
    type Rules = [(Register, RegisterRule<T>); 32];
    type Stack = [UnwindTableRow<T, Self>; 6];
}

/// gimli's working memory.
pub type Context = UnwindContext<usize, OnStack>;
/// A row of the unwind table: the rules for one range of addresses.
pub type Row = UnwindTableRow<usize, OnStack>;

/// DWARF numbers of the registers.
pub mod register {
    use gimli::Register;
    /// rbp.
    pub const RBP: Register = Register(6);
    /// rsp.
    pub const RSP: Register = Register(7);
    /// The return address.
    pub const RA: Register = Register(16);
}

/// The unwind row of an address, and what is needed to read its expressions.
pub struct Found<'c> {
    /// The row.
    pub row: &'c Row,
    /// The section.
    pub section: EhFrame<Bytes>,
    /// The code is a signal trampoline.
    pub signal: bool,
}

/// Finds the row for `address` (which is exact: a return address minus one).
pub fn find<'c>(module: &Module, address: u64, context: &'c mut Context) -> Option<Found<'c>> {
    let header_address = module.eh_frame_hdr;
    if header_address == 0 || header_address >= module.end {
        return None;
    }
    // SAFETY: the header and the table behind it are part of the module's
    // read-only segment, which stays mapped while code of it is on a stack;
    // gimli reads within the slice only what the tables lead it to.
    let header = unsafe { memory(header_address, module.end) };
    let bases = BaseAddresses::default().set_eh_frame_hdr(header_address);
    let header = EhFrameHdr::new(header, LittleEndian)
        .parse(&bases, 8)
        .ok()?;
    let eh_frame_address = header.eh_frame_ptr().direct().ok()?;
    if eh_frame_address < module.start || eh_frame_address >= module.end {
        return None;
    }
    // SAFETY: as above, for `.eh_frame`.
    let section = EhFrame::new(
        unsafe { memory(eh_frame_address, module.end) },
        LittleEndian,
    );
    let bases = bases.set_eh_frame(eh_frame_address);
    let table = header.table()?;
    let fde = table
        .fde_for_address(&section, &bases, address, EhFrame::cie_from_offset)
        .ok()?;
    let signal = fde.is_signal_trampoline();
    let row = fde
        .unwind_info_for_address(&section, &bases, context, address)
        .ok()?;
    Some(Found {
        row,
        section,
        signal,
    })
}

unsafe fn memory(start: u64, end: u64) -> &'static [u8] {
    // SAFETY: passed on by the callers.
    unsafe { core::slice::from_raw_parts(start as *const u8, (end - start) as usize) }
}

/// The rule of `address` (exact).
pub fn rule(module: &Module, address: u64) -> Rule {
    let mut context = Context::new_in();
    match find(module, address, &mut context) {
        None => Rule::plain(Kind::None),
        Some(found) if found.signal => Rule::plain(Kind::Signal),
        Some(found) => compact(&found, address).unwrap_or(Rule::plain(Kind::Slow)),
    }
}

/// The row as a compact rule, if it fits.
fn compact(found: &Found<'_>, address: u64) -> Option<Rule> {
    let row = found.row;
    match row.register(register::RA) {
        Some(RegisterRule::Undefined) => return Some(Rule::plain(Kind::End)),
        Some(RegisterRule::Offset(-8)) => {}
        _ => return None,
    }
    let bp = row
        .register(register::RBP)
        .unwrap_or(RegisterRule::SameValue);
    if let CfaRule::Expression(expression) = row.cfa() {
        let expression = expression.get(&found.section).ok()?;
        return expression_rule(expression.0.slice(), &bp, found, address);
    }
    let bp_slot = bp_slot(&bp)?;
    match row.cfa() {
        CfaRule::RegisterAndOffset {
            register: register::RSP,
            offset,
        } => Rule::new(Kind::Rsp, *offset, bp_slot),
        CfaRule::RegisterAndOffset {
            register: register::RBP,
            offset,
        } => Rule::new(Kind::Rbp, *offset, bp_slot),
        _ => None,
    }
}

fn bp_slot(rule: &RegisterRule<usize>) -> Option<u64> {
    match rule {
        RegisterRule::SameValue | RegisterRule::Undefined => Some(0),
        RegisterRule::Offset(offset) if *offset < -8 && offset % 8 == 0 => {
            Some((-offset / 8) as u64)
        }
        _ => None,
    }
}

const BREG6: u8 = 0x76;
const BREG7: u8 = 0x77;
const DEREF: u8 = 0x06;
/// The rest of the expression that linkers give to procedure linkage tables
/// after `DW_OP_breg7 8; DW_OP_breg16 0; DW_OP_lit15; DW_OP_and`:
/// `DW_OP_litN; DW_OP_ge; DW_OP_lit3; DW_OP_shl; DW_OP_plus`.
const PLT_HEAD: [u8; 6] = [BREG7, 8, 0x80, 0, 0x3f, 0x1a];
const PLT_TAIL: [u8; 4] = [0x2a, 0x33, 0x24, 0x22];

fn expression_rule(
    expression: &[u8],
    bp: &RegisterRule<usize>,
    found: &Found<'_>,
    address: u64,
) -> Option<Rule> {
    match expression {
        // gcc's realigned frame: the CFA was saved below rbp, rbp at *rbp.
        [BREG6, offset @ .., DEREF] => {
            let RegisterRule::Expression(saved) = bp else {
                return None;
            };
            let saved = saved.get(&found.section).ok()?;
            (saved.0.slice() == [BREG6, 0]).then_some(())?;
            Rule::new(Kind::Deref, signed_leb128(offset)?, 0)
        }
        [head @ .., literal, _, _, _, _]
            if head == PLT_HEAD
                && expression[7..] == PLT_TAIL
                && (0x30..0x50).contains(literal) =>
        {
            let pushed = address & 15 >= u64::from(literal - 0x30);
            Rule::new(Kind::Rsp, if pushed { 16 } else { 8 }, bp_slot(bp)?)
        }
        _ => None,
    }
}

/// A signed LEB128 number that fills `bytes` (DWARF 5 §7.6).
fn signed_leb128(bytes: &[u8]) -> Option<i64> {
    let mut value = 0i64;
    for (index, byte) in bytes.iter().enumerate() {
        if index > 4 {
            return None;
        }
        let shift = 7 * index as u32;
        value |= i64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let bits = 64 - (shift + 7);
            return (index + 1 == bytes.len()).then_some(value << bits >> bits);
        }
    }
    None
}
