//! The probes at samples: names and arguments are those of libpoireau's, and one more, the bytes
//! that the sample stands for. A probe comes after what it tells of; all sizes are in bytes.
//!
//! Of a block that was not sampled its size is not known: it is 0. libpoireau's `calloc_overflow` and
//! `mmap_failed` do not exist, because such calls come to no hook.

use core::ffi::c_void;
use core::sync::atomic::AtomicU16;

use allotrope_sampling::weight::weighted_bytes;
use allotrope_shm::samples::writer::Sample;

use crate::sys::arch::probe::probe;

/// Semaphores: how many look at a probe. The kernel and tracers write them.
macro_rules! semaphores {
    ($($name:ident)*) => {$(
        #[unsafe(link_section = ".probes")]
        static $name: AtomicU16 = AtomicU16::new(0);
    )*};
}
semaphores!(MALLOC CALLOC FREE REALLOC REALLOC_FROM_TRACKED REALLOC_TO_REGULAR);

/// A number for a live sample, by which its probes belong together: two samples have the same
/// one with a probability of 2^−64. (A mixing of time and address; the constant is that of
/// `byte_table`.)
fn id(sample: &Sample) -> u64 {
    let mixed = (sample.allocated ^ sample.address.rotate_left(20))
        .wrapping_mul(allotrope_shm::samples::byte_table::MULTIPLIER);
    mixed ^ mixed >> 32
}

fn weight(sample: &Sample) -> u64 {
    weighted_bytes(sample.size, sample.period)
}

/// `malloc` or a relative has returned a sampled block.
pub fn malloc(sample: &Sample) {
    probe!(
        MALLOC,
        "malloc",
        "rdi" = id(sample),
        "rsi" = sample.address,
        "rdx" = sample.size,
        "rcx" = weight(sample)
    );
}

/// `calloc` has returned a sampled block of so many elements.
pub fn calloc(sample: &Sample, elements: usize) {
    probe!(
        CALLOC,
        "calloc",
        "rdi" = elements,
        "rsi" = sample.size.checked_div(elements as u64).unwrap_or(0),
        "rdx" = id(sample),
        "rcx" = sample.address,
        "r8" = sample.size,
        "r9" = weight(sample)
    );
}

/// A block that was sampled was freed.
pub fn free(sample: &Sample) {
    probe!(
        FREE,
        "free",
        "rdi" = id(sample),
        "rsi" = sample.address,
        "rdx" = sample.size,
        "rcx" = weight(sample)
    );
}

/// A reallocation, one of whose blocks was sampled, or both.
pub fn realloc(
    old_block: *mut c_void,
    old: Option<&Sample>,
    result: (u64, usize, Option<&Sample>),
) {
    let (block, size, new) = result;
    match (old, new) {
        (None, Some(new)) => probe!(
            REALLOC,
            "realloc",
            "rdi" = old_block,
            "rsi" = 0,
            "rdx" = id(new),
            "rcx" = new.address,
            "r8" = new.size,
            "r9" = weight(new)
        ),
        (Some(old), Some(new)) => probe!(
            REALLOC_FROM_TRACKED,
            "realloc_from_tracked",
            "rdi" = id(old),
            "rsi" = old.address,
            "rdx" = old.size,
            "rcx" = id(new),
            "r8" = new.address,
            "r9" = new.size,
            "r10" = weight(new)
        ),
        (Some(old), None) => probe!(
            REALLOC_TO_REGULAR,
            "realloc_to_regular",
            "rdi" = id(old),
            "rsi" = old.address,
            "rdx" = old.size,
            "rcx" = block,
            "r8" = size
        ),
        (None, None) => {}
    }
}
