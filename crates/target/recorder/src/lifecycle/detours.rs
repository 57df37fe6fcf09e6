//! Makes the detours of an allocator that is linked into the program: finds its entry
//! points in the symbol tables of the program's file, and patches them (`allotrope-detour`
//! says how), before the program runs.
//!
//! Trampolines and thunks are in pages near the program, which are written and then made
//! executable. The program's pages are writable only while a patch is written; where the
//! system forbids pages that can be written and executed, the very first step fails and
//! nothing has changed.

use core::ops::Range;

use allotrope_detour::elf::Elf;
use allotrope_detour::plan::{self, PATCH, Plan, TRAMPOLINE};
use allotrope_detour::survey::{self, Found, Survey};
use allotrope_shm::layout::PAGE;

use crate::state::detours;
use crate::state::image::{self, Asked};
use crate::sys::loader;
use crate::sys::mapping::{MappedFile, PrivateMemory};
use crate::sys::next;
use crate::sys::system::{self, Descriptor, Protection};

/// Bytes before the first thunk: the address of the hook's stub.
const HEAD: usize = 16;
/// Bytes for one function: a thunk, and its trampoline.
const THUNK: usize = 16;
const SLOT: usize = THUNK + TRAMPOLINE;

/// Makes the detours, if there are such functions and this process is recorded. `stub` is
/// what the thunks jump to, with their number on the stack.
pub fn make(stub: usize) {
    if system::has_gained_rights() || !matches!(image::request(), Some(Asked::For(_))) {
        return;
    }
    // The look-up allocates, which must not start the recording already.
    if !next::resolve() || next::is_second() {
        return;
    }
    let Some(file) = program() else {
        return;
    };
    let Some(elf) = Elf::open(file.bytes()) else {
        return;
    };
    if survey::has_candidates(&elf) {
        make_found(&elf, stub);
    }
}

/// Out of line for its stack.
#[cold]
#[inline(never)]
fn make_found(elf: &Elf<'_, [u8]>, stub: usize) {
    let survey = Survey::of(elf);
    if survey.found().next().is_none() {
        return;
    }
    // A constructor of another library may have come first, if it asked for that, too.
    let bias = bias(elf).filter(|_| is_only_thread());
    let made = bias.and_then(|bias| make_all(elf, &survey, bias, stub));
    if made.is_none() {
        let functions = survey.found().map(|found| &found.known);
        functions.for_each(detours::add_without);
    }
}

/// Whether the process has no other thread: the folder of threads has a link for each
/// beside the two that every folder has.
fn is_only_thread() -> bool {
    let folder = Descriptor::open(c"/proc/self/task", libc::O_PATH | libc::O_DIRECTORY);
    let status = folder.and_then(|folder| system::status_of(folder.number()));
    status.is_some_and(|status| status.st_nlink <= 3)
}

/// The program's file.
fn program() -> Option<MappedFile> {
    let file = Descriptor::open(c"/proc/self/exe", libc::O_RDONLY)?;
    let bytes = usize::try_from(system::status_of(file.number())?.st_size).ok()?;
    MappedFile::new(file.number(), bytes)
}

/// The difference of run-time addresses and those in the file; `None` if the file is not
/// that of the program, as where the loader was executed with the program as argument.
fn bias(elf: &Elf<'_, [u8]>) -> Option<u64> {
    let (in_file, address) = elf.program_headers()?;
    let headers = loader::program_headers();
    // SAFETY: plain numbers, which stay mapped.
    let in_memory =
        unsafe { core::slice::from_raw_parts(headers.as_ptr().cast::<u8>(), size_of_val(headers)) };
    let bias = (headers.as_ptr() as u64).wrapping_sub(address);
    (in_memory == in_file).then_some(bias)
}

/// `None`: nothing was changed.
fn make_all(elf: &Elf<'_, [u8]>, survey: &Survey, bias: u64, stub: usize) -> Option<()> {
    let extent = elf.extent()?;
    let extent = extent.start.wrapping_add(bias)..extent.end.wrapping_add(bias);
    let bytes = (HEAD + survey.found().count() * SLOT).next_multiple_of(PAGE);
    let mut pages = near(&extent, bytes)?;
    let start = pages.start() as usize;
    let code = pages.bytes();
    code[..8].copy_from_slice(&stub.to_le_bytes());
    for (number, found) in survey.found().enumerate() {
        let at = HEAD + number * SLOT;
        let address = found.address.wrapping_add(bias);
        if write_slot(code, at, start, number, elf, found, address).is_some() {
            let trampoline = start + at + THUNK;
            detours::set(number, &found.known, address as usize, trampoline);
        }
    }
    // SAFETY: nobody writes there again.
    if !unsafe { system::protect(pages.start(), bytes, Protection::ReadExecute) } {
        for number in 0..survey.found().count() {
            detours::forget(number);
        }
        return None;
    }
    pages.leak();
    detours::set_program(&extent);
    for (number, found) in survey.found().enumerate() {
        let address = found.address.wrapping_add(bias);
        let thunk = (start + HEAD + number * SLOT) as u64;
        let is_planned = detours::is_detoured(address);
        // SAFETY: it is a function of the program, whose first instructions the
        // trampoline has, and no other thread runs.
        if !is_planned || !unsafe { patch(address, thunk) } {
            detours::forget(number);
            detours::add_without(&found.known);
        }
    }
    Some(())
}

/// Writes the thunk and the trampoline of a function; `None` if it cannot be detoured.
fn write_slot(
    code: &mut [u8],
    at: usize,
    start: usize,
    number: usize,
    elf: &Elf<'_, [u8]>,
    found: &Found,
    address: u64,
) -> Option<()> {
    let plan = Plan::new(elf, found).ok()?;
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
    const LOWEST: usize = 64 << 10;
    let (start, end) = (program.start as usize, program.end as usize);
    let bytes = bytes.next_multiple_of(STEP);
    let below = (1..512).map_while(|step| start.checked_sub(bytes + step * STEP));
    let below = below.filter(|address| *address >= LOWEST);
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
