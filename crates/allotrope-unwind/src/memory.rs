//! Checked reads: of what no live frame vouches for, the kernel is asked first.
//!
//! A stack that was made by hand may end where its mapping ends, and its last
//! words may be anything; a module's tables may have been unmapped, protected or
//! cut off with their file. A load there would end the program.

const PAGE: u64 = 4096;

const fn page_of(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// Whether the page that begins at an address can be read. Asks the kernel.
pub type PageIsReadable = fn(page: u64) -> bool;

/// Memory as one walk or one look-up reads it: a range that is known to be
/// readable, and the pages that were found to be.
///
/// Another thread may unmap a page between the question and the read. Nobody
/// does that to a stack or to code in use.
#[derive(Debug)]
pub struct Memory {
    start: u64,
    end: u64,
    /// Pages lately asked for, a ring.
    pages: [u64; 4],
    next: usize,
    page_is_readable: PageIsReadable,
}

impl Memory {
    /// Nothing is known to be readable.
    pub const fn unknown(page_is_readable: PageIsReadable) -> Self {
        Self {
            start: 0,
            end: 0,
            // No page begins there.
            pages: [1; 4],
            next: 0,
            page_is_readable,
        }
    }

    /// # Safety
    /// From `start` to `end` everything can be read while the value is used.
    pub const unsafe fn with(page_is_readable: PageIsReadable, start: u64, end: u64) -> Self {
        let mut memory = Self::unknown(page_is_readable);
        (memory.start, memory.end) = (start, end);
        memory
    }

    /// The bytes at an address, if they can be read.
    #[inline]
    pub fn read<const BYTES: usize>(&mut self, address: u64) -> Option<[u8; BYTES]> {
        self.holds(address, BYTES as u64).then(|| {
            // SAFETY: it is in the known range, or the kernel has just read there.
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

    /// Whether all of so many bytes can be read.
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
