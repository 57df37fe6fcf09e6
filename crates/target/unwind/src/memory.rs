//! Checked reads of memory that need not be readable: the kernel is asked first.
//!
//! A stack that a program has set up itself may end at the end of its mapping, and its
//! last words may be anything. A module's tables may have been unmapped or protected, or
//! their file truncated. A plain load there would kill the program.

const PAGE: u64 = 4096;

const fn page_of(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// Returns whether the page that begins at an address can be read, by asking the kernel.
pub type PageIsReadable = fn(page: u64) -> bool;

/// Memory during one walk or look-up: a range that is known to be readable, and a cache
/// of pages that were found to be.
///
/// Another thread could unmap a page between the check and the read, but programs do not
/// do that to stacks or code in use.
#[derive(Debug)]
pub struct Memory {
    start: u64,
    end: u64,
    /// The last readable pages found, as a ring buffer.
    pages: [u64; 4],
    next: usize,
    page_is_readable: PageIsReadable,
}

impl Memory {
    /// Memory of which nothing is known to be readable.
    pub const fn unknown(page_is_readable: PageIsReadable) -> Self {
        Self {
            start: 0,
            end: 0,
            // No page begins at address 1.
            pages: [1; 4],
            next: 0,
            page_is_readable,
        }
    }

    /// Memory of which `start..end` is known to be readable.
    ///
    /// # Safety
    /// The whole range must be readable while the value is used.
    pub const unsafe fn with(page_is_readable: PageIsReadable, start: u64, end: u64) -> Self {
        let mut memory = Self::unknown(page_is_readable);
        (memory.start, memory.end) = (start, end);
        memory
    }

    /// The bytes at an address, if they can be read.
    #[inline]
    pub fn read<const BYTES: usize>(&mut self, address: u64) -> Option<[u8; BYTES]> {
        self.holds(address, BYTES as u64).then(|| {
            // SAFETY: the bytes are in the known range, or in pages that the kernel has
            // found to be readable.
            unsafe { (address as *const [u8; BYTES]).read_volatile() }
        })
    }

    /// The word at an address, if it can be read.
    #[inline]
    pub fn word(&mut self, address: u64) -> Option<u64> {
        self.read(address).map(u64::from_ne_bytes)
    }

    /// The 32 bits at an address, if they can be read.
    #[inline]
    pub fn half_word(&mut self, address: u64) -> Option<u32> {
        self.read(address).map(u32::from_ne_bytes)
    }

    /// Whether all `bytes` bytes from an address on can be read.
    #[inline]
    pub fn holds(&mut self, address: u64, bytes: u64) -> bool {
        if address >= self.start && address <= self.end && bytes <= self.end - address {
            return true;
        }
        self.ask(address, bytes)
    }

    #[cold]
    fn ask(&mut self, address: u64, bytes: u64) -> bool {
        let Some(last) = address.checked_add(bytes.max(1) - 1) else {
            return false;
        };
        let mut page = page_of(address);
        loop {
            if !self.pages.contains(&page) {
                if !(self.page_is_readable)(page) {
                    return false;
                }
                self.pages[self.next] = page;
                self.next = (self.next + 1) % self.pages.len();
            }
            if page == page_of(last) {
                return true;
            }
            page += PAGE;
        }
    }
}
