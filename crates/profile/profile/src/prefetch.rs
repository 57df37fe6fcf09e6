//! Prefetching: requests a cache line before it is needed.

/// Requests the cache line in which the value begins, without waiting for it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch<T>(wanted: &T) {
    safe_arch::prefetch_t0(wanted);
}

/// Does nothing on other architectures.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn prefetch<T>(_wanted: &T) {}
