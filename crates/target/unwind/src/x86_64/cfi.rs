//! Makes a [`Rule`] from call frame information, for the rule cache. Reads the loaded
//! module's `.eh_frame`, found through its `.eh_frame_hdr`; allocates nothing (~10 KiB of
//! stack). Whatever the sections contain, only readable memory of the module is read.
//!
//! Sources: DWARF 5 §6.4, the LSB's description of `.eh_frame`, the System V
//! ABI's AMD64 supplement for register numbers.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameOffset, EndianSlice, LittleEndian, NativeEndian,
    ReaderOffset, Register, RegisterRule, UnwindContext, UnwindContextStorage, UnwindSection,
    UnwindTableRow,
};

use super::rule::{Kind, Rule};
use crate::memory::Memory;
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

/// Finds the row for `address`, an address inside the instruction (see
/// `FrameAddress::for_lookup`). All memory is checked with `memory` before it is read.
pub fn find<'c>(
    module: &Module,
    address: u64,
    context: &'c mut Context,
    memory: &mut Memory,
) -> Option<Found<'c>> {
    let table = SearchTable::of(module, memory)?;
    let fde_at = table.fde_of(address, memory)?;
    if !(table.eh_frame..module.end).contains(&fde_at) {
        return None;
    }
    // A row is made from an FDE and its CIE. The FDE contains the distance from that word
    // back to the CIE. gimli reads only within these two entries.
    let fde = Entry::at(fde_at, module, memory)?;
    let distance = memory.half_word(fde.id_at)?;
    let cie_at = fde.id_at.checked_sub(u64::from(distance))?;
    if cie_at < table.eh_frame {
        return None;
    }
    Entry::at(cie_at, module, memory)?;
    // SAFETY: the slice lies in the module, and only the two entries in it are read,
    // which were found to be readable.
    let bytes = unsafe {
        let length = (module.end - table.eh_frame) as usize;
        core::slice::from_raw_parts(table.eh_frame as *const u8, length)
    };
    let section = EhFrame::new(bytes, LittleEndian);
    let bases = BaseAddresses::default()
        .set_eh_frame_hdr(module.eh_frame_hdr)
        .set_eh_frame(table.eh_frame);
    let offset = EhFrameOffset((fde_at - table.eh_frame) as usize);
    let fde = section
        .fde_from_offset(&bases, offset, EhFrame::cie_from_offset)
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

/// An entry of `.eh_frame`: an FDE (of a function) or a CIE (common to several FDEs).
struct Entry {
    /// Address of the word that is 0 in a CIE, and in an FDE the distance to its CIE.
    id_at: u64,
}

impl Entry {
    /// The entry at an address, if the whole entry is in the module and can be read (LSB
    /// Core, "The .eh_frame section"; DWARF 5 §7.4 for the length).
    fn at(address: u64, module: &Module, memory: &mut Memory) -> Option<Self> {
        const EXTENDED: u32 = u32::MAX;
        let length = memory.half_word(address)?;
        let (length, id_at) = if length == EXTENDED {
            (memory.word(address + 4)?, address + 12)
        } else {
            (u64::from(length), address + 4)
        };
        let end = id_at.checked_add(length)?;
        (end <= module.end && memory.holds(address, end - address)).then_some(Self { id_at })
    }
}

/// The binary search table of `.eh_frame_hdr`: sorted pairs of a function's first
/// address and the address of its FDE, both relative to the section, in 32 bits. Linkers
/// use no other encoding (LSB Core, "The .eh_frame_hdr section").
struct SearchTable {
    /// Address of `.eh_frame_hdr`.
    header: u64,
    /// Number of pairs.
    count: u64,
    /// Address of `.eh_frame`.
    eh_frame: u64,
}

impl SearchTable {
    const HEAD_BYTES: u64 = 12;
    const PAIR_BYTES: u64 = 8;

    fn of(module: &Module, memory: &mut Memory) -> Option<Self> {
        /// Version 1; `DW_EH_PE_pcrel | DW_EH_PE_sdata4`, `DW_EH_PE_udata4`,
        /// `DW_EH_PE_datarel | DW_EH_PE_sdata4`.
        const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        let header = module.eh_frame_hdr;
        if !(module.start..module.end).contains(&header) {
            return None;
        }
        let form: [u8; 4] = memory.read(header)?;
        let distance = memory.half_word(header + 4)?.cast_signed();
        let table = Self {
            header,
            count: u64::from(memory.half_word(header + 8)?),
            eh_frame: (header + 4).wrapping_add_signed(i64::from(distance)),
        };
        let is_within = (module.start..module.end).contains(&table.eh_frame)
            && table.count <= (module.end - header) / Self::PAIR_BYTES;
        (form == FORM && is_within).then_some(table)
    }

    /// The pair at `index`, as absolute addresses.
    fn pair(&self, index: u64, memory: &mut Memory) -> Option<(u64, u64)> {
        let at = self.header + Self::HEAD_BYTES + index * Self::PAIR_BYTES;
        let absolute = |offset: u32| {
            let offset = i64::from(offset.cast_signed());
            self.header.wrapping_add_signed(offset)
        };
        let (first, fde) = (memory.half_word(at)?, memory.half_word(at + 4)?);
        Some((absolute(first), absolute(fde)))
    }

    /// The address of the FDE of the last function that begins at or before `address`;
    /// `None` if there is none.
    fn fde_of(&self, address: u64, memory: &mut Memory) -> Option<u64> {
        let (mut from, mut to) = (0, self.count);
        let mut fde = None;
        while from < to {
            let middle = from + (to - from) / 2;
            let (first, found) = self.pair(middle, memory)?;
            if first <= address {
                fde = Some(found);
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        fde
    }
}

/// The rule of the code at `address` (see `FrameAddress::for_lookup`).
pub fn rule(module: &Module, address: u64, memory: &mut Memory) -> Rule {
    let mut context = Context::new_in();
    match find(module, address, &mut context, memory) {
        None => Rule::of_kind(Kind::Unknown),
        Some(found) if found.signal => Rule::of_kind(Kind::Signal),
        Some(found) => compact(&found, address).unwrap_or(Rule::of_kind(Kind::General)),
    }
}

/// The row as a rule of one word, if it fits.
fn compact(found: &Found<'_>, address: u64) -> Option<Rule> {
    let row = found.row;
    match row.register(register::RA) {
        Some(RegisterRule::Undefined) => return Some(Rule::outermost()),
        Some(RegisterRule::Offset(-8)) => {}
        _ => return None,
    }
    let rbp = row
        .register(register::RBP)
        .unwrap_or(RegisterRule::SameValue);
    if let CfaRule::Expression(expression) = row.cfa() {
        let expression = expression.get(&found.section).ok()?;
        return expression_rule(expression.0.slice(), &rbp, found, address);
    }
    let rbp_slot = rbp_slot(&rbp)?;
    match row.cfa() {
        CfaRule::RegisterAndOffset {
            register: register::RSP,
            offset,
        } => Rule::new(Kind::Rsp, *offset, rbp_slot),
        CfaRule::RegisterAndOffset {
            register: register::RBP,
            offset,
        } => Rule::new(Kind::Rbp, *offset, rbp_slot),
        _ => None,
    }
}

/// The slot of the saved rbp in words below the CFA; 0 if rbp is unchanged. `None` if the
/// rule does not fit.
fn rbp_slot(rule: &RegisterRule<usize>) -> Option<u64> {
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

/// The rule for a CFA that is given by one of the two usual expressions.
fn expression_rule(
    expression: &[u8],
    rbp: &RegisterRule<usize>,
    found: &Found<'_>,
    address: u64,
) -> Option<Rule> {
    match expression {
        // gcc's realigned frame: the CFA was saved below rbp, rbp at *rbp.
        [BREG6, offset @ .., DEREF] => {
            let RegisterRule::Expression(saved) = rbp else {
                return None;
            };
            let saved = saved.get(&found.section).ok()?;
            (saved.0.slice() == [BREG6, 0]).then_some(())?;
            Rule::new(Kind::Realigned, signed_leb128(offset)?, 0)
        }
        [head @ .., literal, _, _, _, _]
            if head == PLT_HEAD
                && expression[7..] == PLT_TAIL
                && (0x30..0x50).contains(literal) =>
        {
            let pushed = address & 15 >= u64::from(literal - 0x30);
            Rule::new(Kind::Rsp, if pushed { 16 } else { 8 }, rbp_slot(rbp)?)
        }
        _ => None,
    }
}

/// Decodes a signed LEB128 number that consists of all `bytes` (DWARF 5 §7.6).
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
