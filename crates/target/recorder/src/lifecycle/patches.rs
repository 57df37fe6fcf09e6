//! Patches functions of one file, so that their calls come to a stub first (`allotrope-detour` says how).
//!
//! Trampolines and thunks are in pages near the file's code, which are written and then made
//! executable. The pages of the code are writable only while a patch is written; where the
//! system forbids pages that can be written and executed, the very first step fails and
//! nothing has changed.

use core::ops::Range;

use allotrope_detour::elf::Elf;
use allotrope_detour::functions::Function;
use allotrope_detour::plan::{self, PATCH, Plan, TRAMPOLINE};
use allotrope_shm::layout::PAGE;

use crate::state::detours;
use crate::sys::loader;
use crate::sys::mapping::PrivateMemory;
use crate::sys::system::{self, Descriptor, Protection};

/// Bytes before the first thunk: the address of the hook's stub.
const HEAD: usize = 16;
/// Bytes for one function: a thunk, and its trampoline.
const THUNK: usize = 16;
const SLOT: usize = THUNK + TRAMPOLINE;

/// A function to detour.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its address in the file, and the bytes of its code.
    pub address: u64,
    pub size: u64,
    pub is_resolver: bool,
    /// What it does.
    pub function: &'static Function,
    /// See `Known::skipped`.
    pub skipped: u8,
    /// The two parts of its name.
    pub name: [&'static str; 2],
}

/// Notes that a function has no detour.
pub fn add_without(target: &Target) {
    detours::add_without(target.name);
}

/// Whether the process has no other thread: the folder of threads has a link for each
/// beside the two that every folder has.
pub fn is_only_thread() -> bool {
    let folder = Descriptor::open(c"/proc/self/task", libc::O_PATH | libc::O_DIRECTORY);
    let status = folder.and_then(|folder| system::status_of(folder.number()));
    status.is_some_and(|status| status.st_nlink <= 3)
}

/// The difference of run-time addresses and those in the file; `None` if the file is not
/// that of the program, as where the loader was executed with the program as argument.
pub fn bias(elf: &Elf<'_, [u8]>) -> Option<u64> {
    let (in_file, address) = elf.program_headers()?;
    let headers = loader::program_headers();
    // SAFETY: plain numbers, which stay mapped.
    let in_memory =
        unsafe { core::slice::from_raw_parts(headers.as_ptr().cast::<u8>(), size_of_val(headers)) };
    let bias = (headers.as_ptr() as u64).wrapping_sub(address);
    (in_memory == in_file).then_some(bias)
}

/// Makes the detours of functions of one file, with numbers from `first` on, and returns where the file
/// lies. `None`: nothing was changed.
pub fn make_all(
    elf: &Elf<'_, [u8]>,
    targets: &[Option<Target>],
    first: usize,
    bias: u64,
    stub: usize,
) -> Option<Range<u64>> {
    let extent = elf.extent()?;
    let extent = extent.start.wrapping_add(bias)..extent.end.wrapping_add(bias);
    let bytes = (HEAD + targets.len() * SLOT).next_multiple_of(PAGE);
    let mut pages = near(&extent, bytes)?;
    let start = pages.start() as usize;
    let code = pages.bytes();
    code[..8].copy_from_slice(&stub.to_le_bytes());
    let all = || targets.iter().flatten().enumerate();
    for (at, target) in all() {
        let number = first + at;
        let at = HEAD + at * SLOT;
        let address = target.address.wrapping_add(bias);
        if write_slot(code, at, start, number, elf, target, address).is_some() {
            let trampoline = start + at + THUNK;
            let (function, skipped) = (target.function, target.skipped);
            detours::set(number, function, skipped, address as usize, trampoline);
        }
    }
    // SAFETY: nobody writes there again.
    if !unsafe { system::protect(pages.start(), bytes, Protection::ReadExecute) } {
        for (at, _) in all() {
            detours::forget(first + at);
        }
        return None;
    }
    pages.leak();
    for (at, target) in all() {
        let address = target.address.wrapping_add(bias);
        let thunk = (start + HEAD + at * SLOT) as u64;
        let is_planned = detours::is_detoured(address);
        // SAFETY: it is a function of the program, whose first instructions the
        // trampoline has, and no other thread runs.
        if !is_planned || !unsafe { patch(address, thunk) } {
            detours::forget(first + at);
            add_without(target);
        }
    }
    Some(extent)
}

/// Writes the thunk and the trampoline of a function; `None` if it cannot be detoured.
fn write_slot(
    code: &mut [u8],
    at: usize,
    start: usize,
    number: usize,
    elf: &Elf<'_, [u8]>,
    target: &Target,
    address: u64,
) -> Option<()> {
    let plan = Plan::at(elf, target.address, target.size, target.is_resolver).ok()?;
    let original = plan.code();
    // SAFETY: within a segment of the program, whose program headers are these.
    let now = unsafe { core::slice::from_raw_parts(address as *const u8, original.len()) };
    if now != original {
        // It was patched already.
        return None;
    }
    let thunk = (start + at) as u64;
    plan::jump(address, thunk).ok()?;
    let trampoline = thunk + THUNK as u64;
    let (bytes, length) = plan.trampoline(trampoline, address).ok()?;
    code[at + THUNK..][..length].copy_from_slice(&bytes[..length]);
    // push number; jmp [rip + …], to the address in the head.
    let to_head = (at as i32 + 11).wrapping_neg();
    code[at] = 0x68;
    code[at + 1..][..4].copy_from_slice(&(number as u32).to_le_bytes());
    code[at + 5..][..2].copy_from_slice(&[0xff, 0x25]);
    code[at + 7..][..4].copy_from_slice(&to_head.to_le_bytes());
    Some(())
}

/// Pages from which jumps reach the whole program: below it, where nothing grows, or far
/// enough above that the heap of brk(2) has space.
fn near(program: &Range<u64>, bytes: usize) -> Option<PrivateMemory> {
    const STEP: usize = 64 << 10;
    /// Between shared libraries there is little space.
    const LARGE_STEP: usize = 2 << 20;
    const LOWEST: usize = 64 << 10;
    let (start, end) = (program.start as usize, program.end as usize);
    let bytes = bytes.next_multiple_of(STEP);
    let below = (1..512).map_while(|step| start.checked_sub(bytes + step * STEP));
    let further = (17..512).map_while(|step| start.checked_sub(bytes + step * LARGE_STEP));
    let below = below.chain(further).filter(|address| *address >= LOWEST);
    let above = (0..512).map(|step| end + (1 << 30) + step * STEP);
    let mut candidates = below.chain(above).map(|address| address & !(STEP - 1));
    candidates.find_map(|address| PrivateMemory::at(address, bytes))
}

/// Puts a jump at an address of the program's code. `false`: nothing was changed.
///
/// # Safety
/// There is code of the program that may be replaced, and no other thread runs.
unsafe fn patch(address: u64, to: u64) -> bool {
    let Ok(jump) = plan::jump(address, to) else {
        return false;
    };
    let start = address as usize & !(PAGE - 1);
    let bytes = (address as usize + PATCH).next_multiple_of(PAGE) - start;
    let start = start as *const u8;
    // Executable all the time: where a page that was written may not be made executable
    // again, this fails. What is allowed is to take the permission to write away.
    // SAFETY: as the caller says.
    unsafe {
        if !system::protect(start, bytes, Protection::All) {
            return false;
        }
        core::ptr::copy_nonoverlapping(jump.as_ptr(), address as *mut u8, PATCH);
        system::protect(start, bytes, Protection::ReadExecute);
    }
    true
}
