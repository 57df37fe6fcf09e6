//! Asks for memory before it is needed.

/// Has the cache line brought near in which this begins. Nothing waits for it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn bring_near<T>(wanted: &T) {
    safe_arch::prefetch_t0(wanted);
}

/// Other processors are left to themselves.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn bring_near<T>(_wanted: &T) {}
