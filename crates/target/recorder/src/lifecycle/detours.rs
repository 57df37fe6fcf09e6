//! Makes the detours of an allocator that is linked into the program: finds its entry
//! points in the symbol tables of the program's file, and patches them
//! ([`patches`](crate::lifecycle::patches)), before the program runs.

use allotrope_detour::elf::Elf;
use allotrope_detour::survey::{self, Found, Survey};

use crate::lifecycle::named_detours;
use crate::lifecycle::patches::{Target, add_without, bias, is_only_thread, make_all};
use crate::state::detours;
use crate::state::image::{self, Asked};
use crate::sys::mapping::MappedFile;
use crate::sys::next;
use crate::sys::system::{self, Descriptor};

/// Makes the detours, if there are such functions and this process is recorded. `stub` is
/// what the thunks jump to, with their number on the stack, and `named_stub` those of functions that the
/// user named.
pub fn make([stub, named_stub]: [usize; 2]) {
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
    let made = match survey::has_candidates(&elf) {
        true => make_found(&elf, stub),
        false => 0,
    };
    if let Some(value) = named_detours::requested() {
        named_detours::make(value, &elf, made, named_stub);
    }
}

/// The function that was found.
fn target(found: &Found) -> Target {
    Target {
        address: found.address,
        size: found.size,
        is_resolver: found.is_resolver,
        function: found.known.function,
        skipped: found.known.skipped,
        name: found.known.shown(),
    }
}

/// Returns how many numbers it has used. Out of line for its stack.
#[cold]
#[inline(never)]
fn make_found(elf: &Elf<'_, [u8]>, stub: usize) -> usize {
    let survey = Survey::of(elf);
    let mut targets = [None; survey::MAX];
    let mut count = 0;
    for (place, found) in targets.iter_mut().zip(survey.found()) {
        *place = Some(target(found));
        count += 1;
    }
    let targets = &targets[..count];
    if count == 0 {
        return 0;
    }
    // A constructor of another library may have come first, if it asked for that, too.
    let bias = bias(elf).filter(|_| is_only_thread());
    let made = bias.and_then(|bias| make_all(elf, targets, 0, bias, stub));
    match made {
        Some(extent) => detours::set_program(&extent),
        None => targets.iter().flatten().for_each(add_without),
    }
    count
}

/// The program's file.
fn program() -> Option<MappedFile> {
    let file = Descriptor::open(c"/proc/self/exe", libc::O_RDONLY)?;
    let bytes = usize::try_from(system::status_of(file.number())?.st_size).ok()?;
    MappedFile::new(file.number(), bytes)
}
