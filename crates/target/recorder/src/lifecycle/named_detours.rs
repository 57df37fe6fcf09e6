//! Makes the detours of functions that the user named (`allotrope_detour::named`), of the program and
//! of the libraries that are loaded at its start.

use core::slice;

use allotrope_detour::elf::Elf;
use allotrope_detour::functions::{Function, Operation};
use allotrope_detour::named::{self, MAX_FUNCTIONS};
use allotrope_detour::survey;
use allotrope_shm::layout::ALLOCATORS_VARIABLE;
use allotrope_shm::location::Request;
use allotrope_shm::numbers::EntryPoint;

use crate::capture::modules;
use crate::lifecycle::patches::{self, Target};
use crate::state::detours as table;
use crate::state::image::{self, Asked};
use crate::state::named as blocks;
use crate::sys::loader::LinkMap;
use crate::sys::mapping::{MappedFile, PrivateMemory};
use crate::sys::next;
use crate::sys::system::{self, Descriptor};

/// Functions of one file: a `static` function may be in each of its parts.
const MAX_TARGETS: usize = 2 * MAX_FUNCTIONS;

/// What the user named, if this process is recorded and that makes sense.
pub fn requested() -> Option<&'static [u8]> {
    if !matches!(image::request(), Some(Asked::For(Request::Record(_)))) {
        return None;
    }
    let value = image::environment_value(ALLOCATORS_VARIABLE.as_bytes())?;
    named::check(value).is_ok().then_some(value)
}

/// Makes them, with numbers from `first` on; `program` is the program's file.
#[cold]
#[inline(never)]
pub fn make(value: &'static [u8], program: &Elf<'_, [u8]>, first: usize, stub: usize) {
    let Some(functions) = functions(value) else {
        return;
    };
    let names = || named::all(value).map(|item| core::str::from_utf8(item.name).unwrap_or(""));
    // Most programs that a recorded one starts have none of the functions.
    let mut is_possible = None;
    let mut number = first;
    let mut patch = |elf: &Elf<'_, [u8]>, bias: Option<u64>| {
        let mut targets = [None; MAX_TARGETS];
        let count = find(elf, value, functions, names, &mut targets);
        let targets = &targets[..count.min(survey::MAX.saturating_sub(number))];
        if targets.is_empty() {
            return;
        }
        let is_possible =
            *is_possible.get_or_insert_with(|| patches::is_only_thread() && blocks::begin());
        let bias = bias.filter(|bias| is_possible && is_unchanged(elf, targets, *bias));
        let made = bias.and_then(|bias| patches::make_all(elf, targets, number, bias, stub));
        if made.is_none() {
            targets.iter().flatten().for_each(patches::add_without);
        }
        number += targets.len();
    };
    patch(program, patches::bias(program));
    let first = next::loader_debug().and_then(|debug| debug.first_module());
    let libraries = first.into_iter().flat_map(LinkMap::and_following).skip(1);
    // The kernel's own library is in no file.
    let in_files = libraries.filter(|map| map.path().contains(&b'/'));
    for map in in_files.filter(|map| !modules::is_own_path(map.path())) {
        let Some(file) = file_of(map) else {
            continue;
        };
        if let Some(elf) = Elf::open(file.bytes()) {
            patch(&elf, Some(map.bias));
        }
    }
}

/// What each named function does, in memory that stays.
fn functions(value: &[u8]) -> Option<&'static [Function]> {
    let memory = PrivateMemory::new(MAX_FUNCTIONS * size_of::<Function>())?;
    let start = memory.start().cast::<Function>();
    let mut count = 0;
    for text in named::allocators(value) {
        let entry = match named::has_pools(text) {
            true => EntryPoint::Pool,
            false => EntryPoint::Reported,
        };
        for item in named::items(text).flatten() {
            let function = Function {
                name: "",
                entry,
                operation: Operation::Named(item.named),
            };
            // `check` has found no more.
            if count < MAX_FUNCTIONS {
                // SAFETY: within the mapping, which is aligned to a page.
                unsafe { start.add(count).write(function) };
                count += 1;
            }
        }
    }
    memory.leak();
    // SAFETY: that many were written above, and the mapping stays.
    Some(unsafe { slice::from_raw_parts(start, count) })
}

/// Finds the functions of a file, each address once, and returns how many there are.
fn find<N: Iterator<Item = &'static str>>(
    elf: &Elf<'_, [u8]>,
    value: &[u8],
    functions: &'static [Function],
    names: impl Fn() -> N,
    targets: &mut [Option<Target>; MAX_TARGETS],
) -> usize {
    let mut count = 0;
    survey::find_named(elf, value, |number, symbol| {
        let mut known = targets.iter().flatten();
        if known.any(|target| target.address == symbol.address) {
            return;
        }
        if let (Some(place), Some(function)) = (targets.get_mut(count), functions.get(number)) {
            *place = Some(Target {
                address: symbol.address,
                size: symbol.size,
                is_resolver: symbol.is_resolver,
                function,
                skipped: 0,
                name: ["", names().nth(number).unwrap_or("")],
            });
            count += 1;
        }
    });
    count
}

/// Whether the file is the one that was mapped: it may have been replaced meanwhile. The code of the
/// functions is compared.
fn is_unchanged(elf: &Elf<'_, [u8]>, targets: &[Option<Target>], bias: u64) -> bool {
    targets.iter().flatten().all(|target| {
        let address = target.address.wrapping_add(bias);
        let (Some(code), Some(module)) = (
            elf.code(target.address, target.size),
            modules::at_address(address),
        ) else {
            return false;
        };
        let end = address.saturating_add(target.size);
        if module.bias != bias || !(module.start..=module.end).contains(&end) {
            return false;
        }
        // SAFETY: within the module, of whose segments the file says that these bytes are code; they are
        // mapped for reading, as the loader maps code.
        let now = unsafe { slice::from_raw_parts(address as *const u8, code.len()) };
        // One that has a detour already differs: it is one of the program's, which was compared before.
        now == code || table::is_detoured(address)
    })
}

/// The file of a library.
fn file_of(map: &LinkMap) -> Option<MappedFile> {
    let path = map.path_as_c_string()?;
    let file = Descriptor::open(path, libc::O_RDONLY)?;
    let status = system::status_of(file.number())?;
    let is_regular = status.st_mode & libc::S_IFMT == libc::S_IFREG;
    let bytes = usize::try_from(status.st_size).ok()?;
    is_regular.then(|| MappedFile::new(file.number(), bytes))?
}
