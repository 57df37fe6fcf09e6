//! Memory for what grows with the number of live blocks: zeroed, straight from
//! the kernel, in huge pages where it is large.
//!
//! Where live blocks lie in it is as good as random, so that with pages of
//! 4 KiB nearly each look would have its address translated first, and a fault
//! a page is a fifth of the time to read a trace with a million live blocks.

use std::alloc::{Layout, handle_alloc_error};

use memmap2::{Advice, MmapMut};

/// A huge page of the processors on which most programs run.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// So many bytes of zeros that begin at a page; in huge pages, if the kernel has
/// them to give.
///
/// As the standard library does, this ends the process if there is no memory.
pub(super) fn zeroed(bytes: usize, huge: bool) -> MmapMut {
    let Ok(memory) = MmapMut::map_anon(bytes) else {
        handle_alloc_error(Layout::array::<u8>(bytes).unwrap_or(Layout::new::<u8>()))
    };
    if huge {
        // A kernel that knows none gives the pages that it has.
        let _ = memory.advise(Advice::HugePage);
    }
    memory
}
