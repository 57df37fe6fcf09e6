//! Requests a cache line before it is needed.

/// Requests the cache line in which this begins, without waiting for it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch<T>(wanted: &T) {
    safe_arch::prefetch_t0(wanted);
}

/// On other architectures the processor's own prefetching has to do.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn prefetch<T>(_wanted: &T) {}
