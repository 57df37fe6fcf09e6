//! The detours of the allocators that are linked into the program: for each its function
//! and its trampoline; and the functions without one.
//!
//! [`lifecycle::detours`](crate::lifecycle::detours) writes this before the first
//! detour is there; then it does not change.

use core::ops::Range;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize};

use allotrope_detour::functions::Function;
use allotrope_detour::survey::MAX;
use allotrope_shm::layout::DIAGNOSTIC_PATH;

struct Detour {
    /// Where the function is.
    address: AtomicUsize,
    /// What the hook calls in its place.
    trampoline: AtomicUsize,
    function: AtomicPtr<Function>,
    /// How many arguments precede those that the function describes.
    skipped: AtomicU8,
}

static DETOURS: [Detour; MAX] = [const {
    Detour {
        address: AtomicUsize::new(0),
        trampoline: AtomicUsize::new(0),
        function: AtomicPtr::new(ptr::null_mut()),
        skipped: AtomicU8::new(0),
    }
}; MAX];

/// Notes a detour under a number below [`MAX`].
pub fn set(
    number: usize,
    function: &'static Function,
    skipped: u8,
    address: usize,
    trampoline: usize,
) {
    let Some(detour) = DETOURS.get(number) else {
        return;
    };
    let function = ptr::from_ref(function).cast_mut();
    detour.function.store(function, Relaxed);
    detour.skipped.store(skipped, Relaxed);
    detour.trampoline.store(trampoline, Relaxed);
    detour.address.store(address, Relaxed);
}

/// The detour could not be made.
pub fn forget(number: usize) {
    if let Some(detour) = DETOURS.get(number) {
        detour.address.store(0, Relaxed);
    }
}

/// The trampoline, the function, and how many arguments to skip.
#[inline(always)]
pub fn get(number: usize) -> (usize, &'static Function, usize) {
    let detour = &DETOURS[number % MAX];
    let function = detour.function.load(Relaxed);
    // SAFETY: `set` stored a reference for good; only a detour that is set has a thunk.
    let function = unsafe { &*function };
    let skipped = usize::from(detour.skipped.load(Relaxed));
    (detour.trampoline.load(Relaxed), function, skipped)
}

/// Where the program begins and ends.
static PROGRAM: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Notes where the program lies.
pub fn set_program(program: &Range<u64>) {
    PROGRAM[0].store(program.start, Relaxed);
    PROGRAM[1].store(program.end, Relaxed);
}

/// Returns where the program lies; empty if there are no detours.
pub fn program() -> Range<u64> {
    PROGRAM[0].load(Relaxed)..PROGRAM[1].load(Relaxed)
}

/// Whether the function at this address has a detour.
pub fn is_detoured(address: u64) -> bool {
    let mut addresses = DETOURS.iter().map(|detour| detour.address.load(Relaxed));
    addresses.any(|known| known as u64 == address)
}

/// Names of the functions without a detour, separated by commas.
static WITHOUT: [AtomicU8; DIAGNOSTIC_PATH] = [const { AtomicU8::new(0) }; DIAGNOSTIC_PATH];
static WITHOUT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Notes a function without a detour, by the two parts of its name.
pub fn add_without([prefix, name]: [&str; 2]) {
    const MORE: &[u8] = b" and others";
    let (text, length) = without();
    // The forms of an operator have one name.
    let mut names = text[..length].split(|byte| *byte == b',');
    let is_there = names.any(|other| prefix.is_empty() && other.trim_ascii() == name.as_bytes());
    if is_there || text[..length].ends_with(MORE) {
        return;
    }
    let separator = if length == 0 { "" } else { ", " };
    let parts = [separator, prefix, name].map(str::as_bytes);
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let is_full = length + bytes + MORE.len() > DIAGNOSTIC_PATH;
    let parts = if is_full { [MORE, b"", b""] } else { parts };
    let mut end = length;
    for byte in parts.into_iter().flatten() {
        if let Some(place) = WITHOUT.get(end) {
            place.store(*byte, Relaxed);
            end += 1;
        }
    }
    WITHOUT_BYTES.store(end, Release);
}

/// The names of functions without a detour, and how many bytes they have.
pub fn without() -> ([u8; DIAGNOSTIC_PATH], usize) {
    let length = WITHOUT_BYTES.load(Acquire);
    (WITHOUT.each_ref().map(|byte| byte.load(Relaxed)), length)
}
