//! A list in memory that is mapped for it: it holds plain numbers, has a fixed capacity, and does
//! not need an allocator.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut, Range};

use crate::sys::kernel::Advice;
use crate::sys::mapping::PrivateMemory;

/// What a list may hold.
///
/// # Safety
/// A `Copy` type that all zeroes are a value of, aligned to 8 bytes or less.
pub unsafe trait Plain: Copy {}

// SAFETY: numbers.
unsafe impl Plain for u32 {}

/// See the [module](self).
pub struct MappedList<T> {
    memory: PrivateMemory,
    length: usize,
    capacity: usize,
    items: PhantomData<T>,
}

impl<T: Plain> MappedList<T> {
    /// An empty list with space for so many; `None` if there is no memory. Only what is used
    /// of it becomes resident.
    pub fn new(capacity: usize) -> Option<Self> {
        const { assert!(align_of::<T>() <= align_of::<u64>()) };
        let bytes = capacity.max(1).checked_mul(size_of::<T>())?;
        let memory = PrivateMemory::new(bytes)?;
        memory.advise(Advice::DontDump);
        Some(Self {
            memory,
            length: 0,
            capacity,
            items: PhantomData,
        })
    }

    /// Appends; `false`: there is no space.
    #[inline]
    pub fn push(&mut self, item: T) -> bool {
        let has_space = self.length < self.capacity;
        if has_space {
            self.length += 1;
            let last = self.length - 1;
            self[last] = item;
        }
        has_space
    }

    /// Removes the last one.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let last = self.last().copied()?;
        self.length -= 1;
        Some(last)
    }

    /// The addresses of its memory.
    pub fn addresses(&self) -> Range<usize> {
        let start = self.memory.start() as usize;
        start..start + self.capacity * size_of::<T>()
    }

    /// Makes it a list of zeroes of this length, at most its capacity. It was not used before.
    pub fn fill_with_zeroes(&mut self, length: usize) {
        self.length = length.min(self.capacity);
    }
}

impl<T: Plain> Deref for MappedList<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `capacity` items, at first zeroes, which are a value.
        unsafe { core::slice::from_raw_parts(self.memory.start().cast(), self.length) }
    }
}

impl<T: Plain> DerefMut for MappedList<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the list owns the mapping.
        unsafe { core::slice::from_raw_parts_mut(self.memory.start().cast(), self.length) }
    }
}
