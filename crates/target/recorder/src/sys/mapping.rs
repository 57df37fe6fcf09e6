//! Memory that the recorder maps. A value owns its mapping, which ends with it unless
//! [`Mapping::leak`] lets it stay.

use core::mem::ManuallyDrop;
use core::ops::Deref;

use crate::sys::arch::syscall::{call, number};
use crate::sys::kernel::{self, Advice};

/// A mapping for reading and writing.
pub struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    /// What a call that maps memory returned; `None` if it failed.
    fn returned(result: isize, bytes: usize) -> Option<Self> {
        let start = result as *mut u8;
        (!(-4095..0).contains(&result)).then_some(Self { start, bytes })
    }

    /// `bytes` of a file from `offset` on, shared with whoever maps it too.
    pub fn shared(descriptor: i32, offset: usize, bytes: usize) -> Option<Self> {
        Self::returned(kernel::mmap_shared(bytes, descriptor, offset), bytes)
    }

    /// A second mapping of shared memory: `bytes` of its file from the page `from` on,
    /// which may be more than is mapped there.
    pub fn again(from: *const u8, bytes: usize) -> Option<Self> {
        Self::returned(kernel::mremap_again(from, bytes), bytes)
    }

    /// Returns the lowest address of the mapping.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// See [`Advice`]. `false`: the kernel does not know it.
    pub fn advise(&self, advice: Advice) -> bool {
        kernel::madvise(self.start, self.bytes, advice) == 0
    }

    /// Maps the beginning of another file over this mapping's, for reading; `false` on
    /// failure.
    pub fn replace_start(&mut self, descriptor: i32, bytes: usize) -> bool {
        let protection = libc::PROT_READ as usize;
        let flags = (libc::MAP_SHARED | libc::MAP_FIXED) as usize;
        let start = self.start as usize;
        let words = [start, bytes, protection, flags, descriptor as usize, 0];
        // SAFETY: what is replaced is within the mapping, and nothing refers to it.
        bytes <= self.bytes && unsafe { call(number::MMAP, words) } == start as isize
    }

    /// Unmaps the first bytes.
    pub fn without_start(self, bytes: usize) -> Self {
        let whole = ManuallyDrop::new(self);
        let bytes = bytes.min(whole.bytes);
        drop(Self {
            start: whole.start,
            bytes,
        });
        Self {
            start: whole.start.wrapping_add(bytes),
            bytes: whole.bytes - bytes,
        }
    }

    /// Lets it stay until the process ends; returns its lowest address.
    pub fn leak(self) -> *mut u8 {
        ManuallyDrop::new(self).start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the value owns the mapping, so that nothing refers to it any more.
        unsafe { call(number::MUNMAP, [self.start as usize, self.bytes]) };
    }
}

/// A mapping of this process alone; at first all zero.
pub struct PrivateMemory(Mapping);

impl PrivateMemory {
    /// Maps at least so many bytes; `None` if there is no memory.
    pub fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.checked_next_multiple_of(size_of::<u64>())?;
        Mapping::returned(kernel::mmap_private(bytes), bytes).map(Self)
    }

    /// Maps so many bytes at an address; `None` too if something else is there.
    pub fn at(address: usize, bytes: usize) -> Option<Self> {
        let mapping = Mapping::returned(kernel::mmap_at(address, bytes), bytes)?;
        (mapping.start as usize == address).then_some(Self(mapping))
    }

    /// Returns the words of the mapping.
    pub fn words(&mut self) -> &mut [u64] {
        let count = self.0.bytes / size_of::<u64>();
        // SAFETY: pages for reading and writing, which the value owns alone, and which
        // are borrowed with it; any bits are a number.
        unsafe { core::slice::from_raw_parts_mut(self.0.start.cast(), count) }
    }

    /// Returns the bytes of the mapping.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as in `words`.
        unsafe { core::slice::from_raw_parts_mut(self.0.start, self.0.bytes) }
    }

    /// See [`Mapping::leak`].
    pub fn leak(self) -> *mut u8 {
        self.0.leak()
    }
}

/// A file, mapped for reading.
pub struct MappedFile(Mapping);

impl MappedFile {
    /// `bytes` of an open file; `None` if it cannot be mapped.
    pub fn new(descriptor: i32, bytes: usize) -> Option<Self> {
        Mapping::returned(kernel::mmap_file(bytes, descriptor), bytes).map(Self)
    }

    /// Returns the bytes of the file. The file must not shrink meanwhile.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: pages for reading that the value owns; nobody writes to a program that
        // runs (`ETXTBSY`).
        unsafe { core::slice::from_raw_parts(self.0.start, self.0.bytes) }
    }
}

impl Deref for PrivateMemory {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.0
    }
}
