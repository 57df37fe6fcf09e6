//! From call frame information to a [`Rule`]: what the rule cache is filled
//! with. Reads the loaded module's own `.eh_frame` by way of its
//! `.eh_frame_hdr`; allocates nothing (~10 KiB of stack).
//!
//! Sources: DWARF 5 §6.4, the LSB's description of `.eh_frame`, the System V
//! ABI's AMD64 supplement for register numbers.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameOffset, EndianSlice, LittleEndian, NativeEndian,
    ReaderOffset, Register, RegisterRule, UnwindContext, UnwindContextStorage, UnwindSection,
    UnwindTableRow,
};

use super::rule::{Kind, Rule};
use crate::modules::Module;
use crate::readable::Memory;

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

/// Finds the row for `address` (which is exact: a return address minus one). What
/// is read of the module was asked for before.
pub fn find<'c>(
    module: &Module,
    address: u64,
    context: &'c mut Context,
    memory: &mut Memory,
) -> Option<Found<'c>> {
    let table = Table::of(module, memory)?;
    let fde_address = table.entry(address, memory)?;
    let section_address = table.section;
    if !(section_address..module.end).contains(&fde_address) {
        return None;
    }
    // A row is made from an entry and the one that it refers to, by the distance of
    // the word that says so.
    let head = entry_at(fde_address, module, memory)?;
    if !memory.holds(head.id_at, 4) {
        return None;
    }
    // SAFETY: it was asked for.
    let distance = unsafe { (head.id_at as *const u32).read_unaligned() };
    let common = head.id_at.checked_sub(u64::from(distance))?;
    if common < section_address {
        return None;
    }
    entry_at(common, module, memory)?;
    // SAFETY: of what lies within the module gimli reads within the two entries
    // only, which can be read.
    let section = EhFrame::new(unsafe { bytes(section_address, module.end) }, LittleEndian);
    let bases = BaseAddresses::default()
        .set_eh_frame_hdr(module.eh_frame_hdr)
        .set_eh_frame(section_address);
    let offset = EhFrameOffset((fde_address - section_address) as usize);
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

/// Where an entry of `.eh_frame` has the word that tells which it is.
struct Entry {
    id_at: u64,
}

/// The entry at an address, if all of it lies in the module and can be read (LSB
/// Core, "The .eh_frame section"; DWARF 5 §7.4 for the length).
fn entry_at(address: u64, module: &Module, memory: &mut Memory) -> Option<Entry> {
    const EXTENDED: u32 = u32::MAX;
    memory.holds(address, 12).then_some(())?;
    // SAFETY: it was asked for.
    let (short, long) = unsafe {
        (
            (address as *const u32).read_unaligned(),
            ((address + 4) as *const u64).read_unaligned(),
        )
    };
    let (length, id_at) = if short == EXTENDED {
        (long, address + 12)
    } else {
        (u64::from(short), address + 4)
    };
    let end = id_at.checked_add(length)?;
    (end <= module.end && memory.holds(address, end - address)).then_some(Entry { id_at })
}

/// The table of `.eh_frame_hdr`: sorted pairs of a function's first address and the
/// address of its entry, both relative to the section, in 32 bits. No linker makes
/// another one (LSB Core, "The .eh_frame_hdr section").
struct Table {
    /// Address of the section `.eh_frame_hdr`.
    header: u64,
    /// How many pairs there are.
    count: u64,
    /// Address of `.eh_frame`.
    section: u64,
}

impl Table {
    const HEAD_BYTES: u64 = 12;
    const PAIR_BYTES: u64 = 8;

    fn of(module: &Module, memory: &mut Memory) -> Option<Self> {
        /// Version 1; `DW_EH_PE_pcrel | DW_EH_PE_sdata4`, `DW_EH_PE_udata4`,
        /// `DW_EH_PE_datarel | DW_EH_PE_sdata4`.
        const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        let header = module.eh_frame_hdr;
        if header == 0 || header >= module.end || !memory.holds(header, Self::HEAD_BYTES) {
            return None;
        }
        // SAFETY: it was asked for.
        let (form, section, count) = unsafe {
            (
                (header as *const [u8; 4]).read(),
                ((header + 4) as *const i32).read_unaligned(),
                ((header + 8) as *const u32).read_unaligned(),
            )
        };
        let table = Self {
            header,
            count: u64::from(count),
            section: (header + 4).wrapping_add_signed(i64::from(section)),
        };
        let is_within = (module.start..module.end).contains(&table.section)
            && table.count <= (module.end - header) / Self::PAIR_BYTES;
        (form == FORM && is_within).then_some(table)
    }

    /// A pair, as addresses.
    fn pair(&self, index: u64, memory: &mut Memory) -> Option<(u64, u64)> {
        let at = self.header + Self::HEAD_BYTES + index * Self::PAIR_BYTES;
        memory.holds(at, Self::PAIR_BYTES).then_some(())?;
        // SAFETY: it was asked for.
        let [first, entry] = unsafe { (at as *const [i32; 2]).read_unaligned() };
        let absolute = |offset| self.header.wrapping_add_signed(i64::from(offset));
        Some((absolute(first), absolute(entry)))
    }

    /// The address of the entry that `address` is in, if it is in any.
    fn entry(&self, address: u64, memory: &mut Memory) -> Option<u64> {
        let (mut from, mut to) = (0, self.count);
        let mut entry = None;
        while from < to {
            let middle = from + (to - from) / 2;
            let (first, found) = self.pair(middle, memory)?;
            if first <= address {
                entry = Some(found);
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        entry
    }
}

unsafe fn bytes(start: u64, end: u64) -> &'static [u8] {
    // SAFETY: passed on by the callers.
    unsafe { core::slice::from_raw_parts(start as *const u8, (end - start) as usize) }
}

/// The rule of `address` (exact).
pub fn rule(module: &Module, address: u64) -> Rule {
    let mut context = Context::new_in();
    match find(module, address, &mut context, &mut Memory::unknown()) {
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
