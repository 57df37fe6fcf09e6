//! Comparison with an independent unwinder, framehop: for each row of the call frame
//! information of real modules, and for stacks of this process.

use std::arch::naked_asm;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{Deref, Range};

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, MustNotAllocateDuringUnwind, Unwinder as _};
use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection};

use super::process::{load_cxx_library, loaded_modules, page_is_readable};
use super::program::{Layout, World};
use crate::arch::{Frame, FrameAddress, Kind, Step, rule_from_cfi, step, step_by_information};
use crate::memory::Memory;
use crate::{
    CallKind, CodeId, Entry, FoundModule, Host, Module, Modules, Reserved, StackEnd, StackHash,
    StackIds, Unwinder,
};

/// The sections of a loaded module.
#[derive(Clone, Copy, Default)]
struct Bytes(&'static [u8]);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl Bytes {
    fn range(self) -> Range<u64> {
        self.0.as_ptr_range().start as u64..self.0.as_ptr_range().end as u64
    }
}

/// `.eh_frame_hdr` and `.eh_frame` of a module.
fn sections(module: &Module) -> (Bytes, Bytes) {
    let mut memory = Memory::unknown(page_is_readable);
    let header = module.eh_frame_hdr;
    let distance = memory.half_word(header + 4).unwrap().cast_signed();
    let start = (header + 4).wrapping_add_signed(i64::from(distance));
    let mut end = start;
    while let Some(length) = memory.half_word(end) {
        end += 4 + u64::from(length);
        if length == 0 {
            break;
        }
    }
    let pairs = u64::from(memory.half_word(header + 8).unwrap());
    let bytes = |from: u64, to: u64| {
        assert!(memory.holds(from, to - from));
        // SAFETY: the section is mapped readable, and modules stay loaded.
        Bytes(unsafe { std::slice::from_raw_parts(from as *const u8, (to - from) as usize) })
    };
    let mut bytes = bytes;
    (bytes(header, header + 12 + 8 * pairs), bytes(start, end))
}

fn framehop_module(name: &str, module: &Module) -> framehop::Module<Bytes> {
    let (header, frame) = sections(module);
    framehop::Module::new(
        name.to_owned(),
        module.start..module.end,
        module.start,
        ExplicitModuleSectionInfo {
            base_svma: module.start,
            eh_frame_svma: Some(frame.range()),
            eh_frame: Some(frame),
            eh_frame_hdr_svma: Some(header.range()),
            eh_frame_hdr: Some(header),
            ..Default::default()
        },
    )
}

type Cache = CacheX86_64<MustNotAllocateDuringUnwind>;

/// The first and the last address of each row of a module's unwind information.
fn rows(module: &Module) -> Vec<u64> {
    let (header, frame) = sections(module);
    let section = EhFrame::new(frame.0, LittleEndian);
    let bases = BaseAddresses::default()
        .set_eh_frame_hdr(header.range().start)
        .set_eh_frame(frame.range().start);
    let mut addresses = Vec::new();
    let mut context = gimli::UnwindContext::new();
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let fde: gimli::FrameDescriptionEntry<EndianSlice<'_, LittleEndian>> =
            partial.parse(EhFrame::cie_from_offset).unwrap();
        let mut table = fde.rows(&section, &bases, &mut context).unwrap();
        while let Ok(Some(row)) = table.next_row() {
            addresses.extend([row.start_address(), row.end_address() - 1]);
        }
    }
    addresses
}

/// A stack in which each word is the address of a word further out, so that every word
/// that is read can be a stack pointer.
fn stack() -> Vec<u64> {
    const WORDS: u64 = 1 << 17;
    let mut words = vec![0_u64; WORDS as usize];
    let start = words.as_ptr() as u64;
    for index in 0..WORDS {
        let further = WORDS / 2 + index.wrapping_mul(0x9e37_79b9) % (WORDS / 4);
        words[index as usize] = start + 8 * further;
    }
    words
}

#[test]
fn each_row_of_real_modules_leads_where_framehop_goes() {
    load_cxx_library();
    let words = stack();
    let start = words.as_ptr() as u64;
    let end = start + 8 * words.len() as u64;
    let mut read = |address: u64| {
        let index = address.checked_sub(start).ok_or(())? / 8;
        words.get(index as usize).copied().ok_or(())
    };
    let mut compared = BTreeMap::<u8, usize>::new();
    for (name, module) in loaded_modules() {
        let mut theirs = UnwinderX86_64::<Bytes, MustNotAllocateDuringUnwind>::new();
        theirs.add_module(framehop_module(&name, &module));
        let mut cache = Cache::new_in();
        for (index, address) in rows(&module).into_iter().enumerate() {
            let frame = Frame {
                stack_pointer: start + 128,
                code: FrameAddress::instruction_pointer(address),
                frame_pointer: start + 4096 + 16 * (index as u64 % 64),
            };
            let mut unknown = Memory::unknown(page_is_readable);
            let rule = rule_from_cfi(&module, address, &mut unknown);
            // SAFETY: the words live until the end of the test.
            let mut memory = unsafe { Memory::with(page_is_readable, start, end) };
            let ours = step(frame, rule, &mut memory);
            let mut registers =
                UnwindRegsX86_64::new(address, frame.stack_pointer, frame.frame_pointer);
            let found = theirs.unwind_frame(
                framehop::FrameAddress::from_instruction_pointer(address),
                &mut registers,
                &mut cache,
                &mut read,
            );
            let context = || format!("{name} {:#x} {rule:?} {found:?}", address - module.start);
            match ours {
                Step::Caller(ours) => {
                    // These need a CFA from memory, which framehop does not read.
                    if rule.is_simple() {
                        let address = ours.code.address();
                        assert_eq!(found, Ok(Some(address)), "{}", context());
                        assert_eq!(registers.sp(), ours.stack_pointer, "{}", context());
                        assert_eq!(registers.bp(), ours.frame_pointer, "{}", context());
                    }
                    let general = step_by_information(&module, frame, &mut memory);
                    assert_eq!(general, Some(ours), "{}", context());
                }
                Step::Outermost => assert_eq!(found, Ok(None), "{}", context()),
                Step::NeedsGeneral => {}
                _ => assert_eq!(rule.kind(), Kind::Unknown, "{}", context()),
            }
            *compared.entry(rule.kind() as u8).or_default() += 1;
        }
    }
    let count = |kind: Kind| compared.get(&(kind as u8)).copied().unwrap_or(0);
    assert!(count(Kind::Rsp) > 10_000, "{compared:?}");
    assert!(count(Kind::Rbp) > 100, "{compared:?}");
    assert!(count(Kind::Signal) > 0, "{compared:?}");
    assert!(count(Kind::Outermost) > 0, "{compared:?}");
}

/// The test process as a host, with the stack ids of a simulated one.
#[derive(Clone, Copy)]
struct Process<'w> {
    world: &'w World,
    modules: &'w [(String, Module)],
}

impl Modules for Process<'_> {
    const NO_MAPPING: u16 = u16::MAX;

    fn module_at(self, address: u64) -> Option<FoundModule> {
        let index = self
            .modules
            .iter()
            .position(|(_, module)| (module.start..module.end).contains(&address))?;
        Some(FoundModule {
            module: self.modules[index].1,
            mapping: Some(index as u16),
            is_loader: false,
        })
    }

    fn follows_frame_pointers(self) -> bool {
        false
    }

    fn generation(self) -> u32 {
        2
    }

    fn settled_generation(self) -> u32 {
        2
    }

    fn loader_allocated(self) {}
}

impl StackIds for Process<'_> {
    fn known_id(self, hash: StackHash, code_id: CodeId, parent: u32) -> Option<u32> {
        self.world.known_id(hash, code_id, parent)
    }

    fn reserve_ids(self, count: usize) -> Reserved {
        self.world.reserve_ids(count)
    }

    fn define_id(self, hash: StackHash, parent: u32, code: FrameAddress, code_id: CodeId) -> u32 {
        self.world.define_id(hash, parent, code, code_id)
    }

    fn forget_code_ids(self) {
        self.world.forget_code_ids();
    }
}

// SAFETY: only the test's thread uses it; `stack_of` returns pages that can be read.
unsafe impl Host for Process<'_> {
    fn unwinder<'a>(self) -> &'a Unwinder
    where
        Self: 'a,
    {
        self.world.unwinder()
    }

    fn kind(self) -> CallKind {
        self.world.kind()
    }

    fn depth_limit(self) -> usize {
        self.world.depth_limit()
    }

    fn page_is_readable(page: u64) -> bool {
        page_is_readable(page)
    }

    fn stack_of(self, stack_pointer: u64) -> Range<u64> {
        // Threads of tests have 2 MiB; readable pages from the stack pointer on are the
        // used part of the stack.
        let mut end = (stack_pointer & !4095) + 4096;
        while end - stack_pointer < 64 << 10 && page_is_readable(end) {
            end += 4096;
        }
        stack_pointer & !4095..end
    }

    fn on_second_stack<R>(self, function: impl FnOnce() -> R) -> R {
        function()
    }

    fn on_small_second_stack<R>(self, function: impl FnOnce() -> R) -> R {
        function()
    }
}

/// Calls [`compare`] with the registers of its caller, as a hook does.
#[unsafe(naked)]
extern "C" fn capture_here(comparison: &Comparison<'_>) {
    naked_asm!(
        ".cfi_startproc",
        "mov rsi, rsp",
        "mov rdx, rbp",
        "jmp {}",
        ".cfi_endproc",
        sym compare,
    )
}

struct Comparison<'w> {
    host: Process<'w>,
    theirs: UnwinderX86_64<Bytes, MustNotAllocateDuringUnwind>,
    compared: Cell<usize>,
    deepest: Cell<usize>,
}

extern "C" fn compare(comparison: &Comparison<'_>, stack_pointer: u64, frame_pointer: u64) {
    let mut cache = Cache::new_in();
    // SAFETY: addresses in the unwind information of live frames can be read.
    let mut read = |address: u64| Ok(unsafe { (address as *const u64).read_volatile() });
    let first = read(stack_pointer).unwrap();
    let registers = UnwindRegsX86_64::new(first, stack_pointer + 8, frame_pointer);
    let mut frames = vec![first];
    let mut walk = comparison
        .theirs
        .iter_frames(first, registers, &mut cache, &mut read);
    walk.next().unwrap();
    while let Ok(Some(frame)) = walk.next() {
        frames.push(frame.address());
    }
    // SAFETY: `capture_here` has not returned.
    let entry = unsafe { Entry::new(stack_pointer, frame_pointer) };
    let id = crate::stack_id(comparison.host, entry).unwrap();
    let (end, ours) = comparison.host.world.stack_of_id(id);
    let ours: Vec<u64> = ours.iter().map(|frame| frame.address()).collect();
    // Framehop does not take the first address as a return address, so it subtracts
    // nothing.
    assert_eq!(ours, frames);
    assert_eq!(end, StackEnd::Complete as u32);
    comparison.compared.set(comparison.compared.get() + 1);
    comparison
        .deepest
        .set(comparison.deepest.get().max(frames.len()));
}

#[inline(never)]
fn recurse(comparison: &Comparison<'_>, depth: usize) {
    let mut numbers: Vec<usize> = (0..depth * 7).map(|index| index * 31 % 17).collect();
    numbers.sort_by(|one, other| {
        if *one == 5 {
            capture_here(comparison);
        }
        one.cmp(other)
    });
    if depth > 0 {
        recurse(comparison, depth - 1);
        capture_here(comparison);
    }
}

#[test]
fn this_process_has_the_stacks_that_framehop_finds() {
    let modules = loaded_modules();
    let world = World::new(&[Layout::Outermost], 8);
    let mut theirs = UnwinderX86_64::new();
    for (name, module) in &modules {
        theirs.add_module(framehop_module(name, module));
    }
    let comparison = Comparison {
        host: Process {
            world: &world,
            modules: &modules,
        },
        theirs,
        compared: Cell::new(0),
        deepest: Cell::new(0),
    };
    recurse(&comparison, 12);
    assert!(comparison.compared.get() > 50);
    assert!(comparison.deepest.get() > 20);
}
