//! The machine code of a sampled module: where its functions are, what a call calls, and which
//! functions a function jumps to. So the frames that tail calls remove can be put back: the call
//! before a return address names the function that was called, also if that function has jumped to
//! another one since.
//!
//! Files are those that ran, by proof, and may be hostile: everything is bounded.

use std::ffi::OsStr;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use allotrope_detour::instruction::{Instruction, MAX_LENGTH, Reference};
use allotrope_symbols::{Ran, open_at};
use object::read::elf::Sym as _;
use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget};
use rustc_hash::FxHashMap;

use crate::cpu::module::Module;

/// Largest file that is read.
const MAX_FILE: u64 = 1 << 30;
/// Largest number of bytes of a function that are decoded.
pub(crate) const MAX_FUNCTION: u64 = 1 << 20;
/// Instructions of an entry of a procedure linkage table before it jumps.
const STUB: usize = 3;
/// Longest chain of tail calls that is followed.
const MAX_CHAIN: usize = 4;

/// A function in the symbol table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) range: Range<u64>,
    /// The name in the symbol table, not demangled.
    pub(crate) name: String,
}

/// What is called or jumped to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Callee {
    /// The function of this module at this address.
    Address(u64),
    /// The function of this name, through the dynamic linker.
    Name(String),
}

/// A jump out of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Jump {
    /// Address of the instruction.
    pub(crate) at: u64,
    pub(crate) to: Callee,
}

/// The code of a module.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// In the order of their addresses, one for each address.
    functions: Vec<Function>,
    /// Address of each name, of aliases, too.
    names: FxHashMap<String, u64>,
    /// Executable sections.
    sections: Vec<(u64, Vec<u8>)>,
    /// Names of the functions whose addresses the dynamic linker writes, by where it writes them.
    slots: FxHashMap<u64, String>,
}

impl Code {
    /// The code of a module; nothing if its file is not there any more.
    pub(crate) fn read(module: &Module) -> Self {
        let path = Path::new(OsStr::from_bytes(&module.path));
        let Some(file) = open_at(path, &Ran::new(&module.build_id, module.file)) else {
            return Self::default();
        };
        let mut bytes = Vec::new();
        match file.take(MAX_FILE + 1).read_to_end(&mut bytes) {
            Ok(read) if read as u64 <= MAX_FILE => Self::parse(&bytes).unwrap_or_default(),
            _ => Self::default(),
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let file = object::read::elf::ElfFile64::<object::Endianness>::parse(bytes).ok()?;
        let endian = file.endian();
        let mut code = Self::default();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            // Not indirect functions: their addresses are those of functions that choose one.
            let is_function = symbol.elf_symbol().st_type() == object::elf::STT_FUNC;
            if !is_function || !symbol.is_definition() || symbol.elf_symbol().st_value(endian) == 0
            {
                continue;
            }
            let Ok(name) = symbol.name() else { continue };
            let start = symbol.address();
            code.names.entry(name.to_owned()).or_insert(start);
            if let Some(end) = start.checked_add(symbol.size().max(1)) {
                code.functions.push(Function {
                    range: start..end,
                    name: name.to_owned(),
                });
            }
        }
        // Of aliases, the shortest name: `malloc` rather than `__libc_malloc`.
        let order = |it: &Function| (it.range.start, it.name.len(), it.name.clone());
        code.functions.sort_by_cached_key(order);
        code.functions.dedup_by_key(|it| it.range.start);
        for section in file.sections() {
            let object::SectionFlags::Elf { sh_flags, .. } = section.flags() else {
                continue;
            };
            if sh_flags.contains(object::elf::SHF_EXECINSTR)
                && let Ok(data) = section.data()
            {
                code.sections.push((section.address(), data.to_vec()));
            }
        }
        if let (Some(relocations), Some(symbols)) =
            (file.dynamic_relocations(), file.dynamic_symbol_table())
        {
            for (at, relocation) in relocations {
                let RelocationTarget::Symbol(index) = relocation.target() else {
                    continue;
                };
                let symbol = symbols.symbol_by_index(index);
                let name = symbol.and_then(|it| it.name()).ok().map(str::to_owned);
                code.slots.extend(name.map(|name| (at, name)));
            }
        }
        Some(code)
    }

    /// The function that contains an address.
    pub(crate) fn function_at(&self, address: u64) -> Option<&Function> {
        let above = self
            .functions
            .partition_point(|it| it.range.start <= address);
        let found = self.functions.get(above.checked_sub(1)?)?;
        found.range.contains(&address).then_some(found)
    }

    /// The function of a name.
    pub(crate) fn named(&self, name: &str) -> Option<&Function> {
        self.function_at(*self.names.get(name)?)
    }

    /// All functions.
    pub(crate) fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The bytes of code from an address on, to the end of its section.
    pub(crate) fn bytes(&self, address: u64) -> &[u8] {
        let found = self.sections.iter().find_map(|(start, bytes)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get(at..)
        });
        found.unwrap_or_default()
    }

    /// The instructions of a function with their addresses.
    pub(crate) fn instructions(
        &self,
        function: &Function,
    ) -> impl Iterator<Item = (u64, Instruction)> {
        let end = function.range.end.min(function.range.start + MAX_FUNCTION);
        let mut next = function.range.start;
        std::iter::from_fn(move || {
            let at = next;
            if at >= end {
                return None;
            }
            let found = Instruction::decode(self.bytes(at), at)?;
            next = at + found.length as u64;
            Some((at, found))
        })
    }

    /// What the call before a return address calls; `None` for a call of what a register or a
    /// variable points to.
    pub(crate) fn called(&self, return_address: u64) -> Option<Callee> {
        let (at, call) = match self.function_at(return_address.checked_sub(1)?) {
            Some(function) => {
                let mut all = self.instructions(function);
                all.find(|(at, it)| at + it.length as u64 >= return_address)?
            }
            // Without the start of the function, the lengths of the two direct forms are tried.
            None => [5_u64, 6].into_iter().find_map(|length| {
                let at = return_address.checked_sub(length)?;
                Some((at, Instruction::decode(self.bytes(at), at)?))
                    .filter(|(_, it)| it.length as u64 == length)
                    .filter(|(_, it)| self.callee(at, it).is_some())
            })?,
        };
        if at + call.length as u64 != return_address {
            return None;
        }
        match call.reference {
            Reference::Call(_) | Reference::CallThrough(_) => self.callee(at, &call),
            _ => None,
        }
    }

    /// The functions to which a function jumps.
    pub(crate) fn jumps(&self, function: &Function) -> Vec<Jump> {
        let all = self.instructions(function).filter_map(|(at, it)| {
            let to = match it.reference {
                Reference::Jump(to) | Reference::ConditionalJump(_, to)
                    if !function.range.contains(&to) =>
                {
                    self.callee(at, &it)
                }
                // `jmp *slot(%rip)`, how code without a procedure linkage table jumps.
                Reference::Memory(_) if self.is_jump(at) => self.callee(at, &it),
                _ => None,
            };
            Some(Jump { at, to: to? })
        });
        all.collect()
    }

    /// Whether the instruction is an indirect jump: `ff /4`, perhaps with prefixes (Intel SDM,
    /// volume 2, "JMP").
    pub(crate) fn is_jump(&self, at: u64) -> bool {
        let code = self.bytes(at);
        let code = code.get(..MAX_LENGTH).unwrap_or(code);
        let prefixes = code
            .iter()
            .take_while(|it| matches!(it, 0xf2 | 0x3e | 0x40..=0x4f));
        matches!(code.get(prefixes.count()..), Some([0xff, 0x25, ..]))
    }

    /// What an instruction calls or jumps to, if it is a function.
    pub(crate) fn callee(&self, at: u64, instruction: &Instruction) -> Option<Callee> {
        match instruction.reference {
            Reference::Call(to) | Reference::Jump(to) | Reference::ConditionalJump(_, to) => {
                match self.function_at(to) {
                    Some(function) if function.range.start == to => Some(Callee::Address(to)),
                    Some(_) => None,
                    None => self.stub(to).map(Callee::Name),
                }
            }
            Reference::CallThrough(_) | Reference::Memory(_) => {
                let name = self.slots.get(&self.slot(at, instruction)?)?;
                Some(Callee::Name(name.clone()))
            }
            Reference::None | Reference::Other(_) => None,
        }
    }

    /// The name of the function to which an entry of a procedure linkage table jumps.
    fn stub(&self, address: u64) -> Option<String> {
        let mut at = address;
        for _ in 0..STUB {
            let instruction = Instruction::decode(self.bytes(at), at)?;
            if matches!(instruction.reference, Reference::Memory(_)) && self.is_jump(at) {
                return self.slots.get(&self.slot(at, &instruction)?).cloned();
            }
            at += instruction.length as u64;
        }
        None
    }

    /// The address of the memory operand.
    fn slot(&self, at: u64, instruction: &Instruction) -> Option<u64> {
        let (Reference::CallThrough(offset) | Reference::Memory(offset)) = instruction.reference
        else {
            return None;
        };
        let bytes = self.bytes(at).get(offset..)?.first_chunk::<4>()?;
        let end = at.checked_add(instruction.length as u64)?;
        Some(end.wrapping_add_signed(i64::from(i32::from_le_bytes(*bytes))))
    }

    /// The function at the target of a call or jump, if it is one of this module.
    pub(crate) fn own(&self, callee: &Callee) -> Option<&Function> {
        match callee {
            Callee::Address(address) => self.function_at(*address),
            Callee::Name(name) => self.named(name),
        }
    }

    /// The jumps by which `from` gets to the function that `is_it` accepts, if there is one way.
    /// Each step is the address of the jump.
    pub(crate) fn chain(&self, from: &Function, is_it: &dyn Fn(&Jump) -> bool) -> Option<Vec<u64>> {
        let mut ways = Vec::new();
        self.follow(from, is_it, &mut Vec::new(), &mut ways);
        match ways.len() {
            1 => ways.pop(),
            _ => None,
        }
    }

    fn follow(
        &self,
        from: &Function,
        is_it: &dyn Fn(&Jump) -> bool,
        way: &mut Vec<(u64, u64)>,
        ways: &mut Vec<Vec<u64>>,
    ) {
        let is_known = |it: &(u64, u64)| it.0 == from.range.start;
        if way.len() >= MAX_CHAIN || ways.len() > 1 || way.iter().any(is_known) {
            return;
        }
        let mut jumps = self.jumps(from);
        // Two jumps to the same function are one way.
        jumps.sort_by_key(|it| self.own(&it.to).map(|it| it.range.start));
        jumps.dedup_by(|a, b| a.to == b.to);
        for jump in jumps {
            way.push((from.range.start, jump.at));
            if is_it(&jump) {
                ways.push(way.iter().map(|(_, at)| *at).collect());
            } else if let Some(next) = self.own(&jump.to) {
                self.follow(next, is_it, way, ways);
            }
            way.pop();
        }
    }

    /// The functions that these ones reach by jumps, without themselves, by their starts.
    pub(crate) fn reached<'a>(&'a self, from: impl Iterator<Item = &'a Function>) -> Vec<u64> {
        let mut waiting: Vec<&Function> = from.collect();
        let mut known: Vec<u64> = waiting.iter().map(|it| it.range.start).collect();
        let first = known.len();
        while let Some(function) = waiting.pop() {
            for jump in self.jumps(function) {
                if let Some(next) = self.own(&jump.to)
                    && !known.contains(&next.range.start)
                {
                    known.push(next.range.start);
                    waiting.push(next);
                }
            }
        }
        known.split_off(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, range: Range<u64>) -> Function {
        Function {
            range,
            name: name.to_owned(),
        }
    }

    /// At 0x1000 `main`: `call 0x1010`, `ret`. At 0x1010 `malloc`: `jmp 0x1020`. At 0x1020
    /// `inner`: `jmp *0x2000(%rip)`, whose slot is that of `other`. At 0x1030, a stub of it.
    fn code() -> Code {
        let mut bytes = vec![0x90; 0x50];
        let mut put = |at: usize, code: &[u8]| bytes[at..at + code.len()].copy_from_slice(code);
        put(0x00, &[0xe8, 0x0b, 0, 0, 0, 0xc3]);
        put(0x10, &[0xe9, 0x0b, 0, 0, 0]);
        put(0x20, &[0xff, 0x25, 0, 0x20, 0, 0]);
        put(
            0x30,
            &[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0xec, 0x1f, 0, 0],
        );
        // `call *slot(%rip)`, and `call 0x1030`.
        put(0x40, &[0xff, 0x15, 0xe0, 0x1f, 0, 0]);
        put(0x46, &[0xe8, 0xe5, 0xff, 0xff, 0xff]);
        let functions = vec![
            function("main", 0x1000..0x1006),
            function("malloc", 0x1010..0x1015),
            function("inner", 0x1020..0x1026),
            function("calls", 0x1040..0x104c),
        ];
        let names = functions
            .iter()
            .map(|it| (it.name.clone(), it.range.start))
            .collect();
        Code {
            functions,
            names,
            sections: vec![(0x1000, bytes)],
            slots: [(0x3026, "other".to_owned())].into_iter().collect(),
        }
    }

    #[test]
    fn calls_are_named_directly_and_through_the_linker() {
        let code = code();
        assert_eq!(code.called(0x1005), Some(Callee::Address(0x1010)));
        let other = Some(Callee::Name("other".to_owned()));
        assert_eq!(code.called(0x1046), other);
        assert_eq!(code.called(0x104b), other);
        // No call ends there.
        for at in [0, 0x1006, 0x1015, 0x1047, 0x9000] {
            assert_eq!(code.called(at), None, "{at:x}");
        }
    }

    #[test]
    fn jumps_lead_from_an_entry_point_to_what_it_does() {
        let code = code();
        let malloc = code.named("malloc").unwrap();
        assert_eq!(code.reached([malloc].into_iter()), [0x1020]);
        let to_other = |it: &Jump| it.to == Callee::Name("other".to_owned());
        assert_eq!(code.chain(malloc, &to_other), Some(vec![0x1010, 0x1020]));
        assert_eq!(code.chain(malloc, &|_| false), None);
    }

    #[test]
    fn the_code_of_this_program_names_its_own_calls() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let code = Code::parse(&bytes).unwrap();
        let main = code.named("main").expect("a program has main");
        assert!(code.instructions(main).count() > 1);
        for length in (0..4096).step_by(61) {
            let _ = Code::parse(&bytes[..length]);
        }
    }
}
