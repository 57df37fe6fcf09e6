//! The atomic operations of a ring: the processor's own, or those of a model checker.

use core::sync::atomic::{self, AtomicU32, AtomicU64, Ordering};

/// The atomic types of a ring.
pub trait Atomics: Sized + 'static {
    /// 32 bits, usable as a futex.
    type U32: Atomic<u32>;
    /// 64 bits.
    type U64: Atomic<u64>;
    /// See [`atomic::fence`].
    fn fence(order: Ordering);
}

/// The operations of an atomic integer that a ring uses.
pub trait Atomic<T>: Default {
    /// See [`AtomicU64::load`].
    fn load(&self, order: Ordering) -> T;
    /// See [`AtomicU64::store`].
    fn store(&self, value: T, order: Ordering);
    /// See [`AtomicU64::fetch_add`].
    fn fetch_add(&self, value: T, order: Ordering) -> T;
}

/// The processor's own atomics.
#[derive(Debug, Clone, Copy)]
pub struct Hardware;

impl Atomics for Hardware {
    type U32 = AtomicU32;
    type U64 = AtomicU64;

    #[inline(always)]
    fn fence(order: Ordering) {
        atomic::fence(order);
    }
}

macro_rules! atomic {
    ($atomic:ty, $value:ty) => {
        impl Atomic<$value> for $atomic {
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                self.load(order)
            }

            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }

            #[inline(always)]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.fetch_add(value, order)
            }
        }
    };
}
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
