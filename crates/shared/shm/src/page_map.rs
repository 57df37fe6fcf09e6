//! Which pages of a process are in memory: `/proc/PID/pagemap` (proc_pid_pagemap(5)), as the kernel
//! counts them for the resident set. Whoever may trace the process may read it, with
//! `PTRACE_MODE_READ`; nothing but presence is read.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::layout::PAGE;

/// Bytes of an entry of the page map, and its bit of a page that is in memory.
const ENTRY: usize = size_of::<u64>();
const PRESENT: u64 = 1 << 63;
/// Entries read at once.
const ENTRIES: usize = 1024;

/// The resident bytes of the pages that a range of addresses begins and ends in; `None` if the
/// page map cannot be read. What is mapped nowhere is not resident.
pub fn resident(map: &File, address: u64, bytes: u64) -> Option<u64> {
    if address == 0 || bytes == 0 {
        return Some(0);
    }
    let page = PAGE as u64;
    let (first, end) = (address / page, address.saturating_add(bytes).div_ceil(page));
    let mut entries = [0_u8; ENTRIES * ENTRY];
    let mut present = 0;
    let mut at = first;
    while at < end {
        let count = usize::try_from(end - at).map_or(ENTRIES, |left| left.min(ENTRIES));
        let offset = at.checked_mul(ENTRY as u64)?;
        let read = map.read_at(&mut entries[..count * ENTRY], offset).ok()?;
        let words = entries[..read].chunks_exact(ENTRY);
        let is_present = |word: &&[u8]| {
            <[u8; ENTRY]>::try_from(*word).is_ok_and(|it| u64::from_le_bytes(it) & PRESENT != 0)
        };
        present += words.filter(is_present).count() as u64;
        if read < ENTRY {
            // Beyond the addresses of user space.
            break;
        }
        at += (read / ENTRY) as u64;
    }
    Some(present * page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_map() -> File {
        File::open("/proc/self/pagemap").expect("it is our own")
    }

    /// glibc maps blocks of more than 32 MiB anew. Pages become resident when they are written,
    /// perhaps together with the others of a huge page.
    #[test]
    fn pages_that_were_written_are_resident() {
        const BYTES: usize = 64 << 20;
        const HUGE: u64 = 2 << 20;
        let mut memory = vec![0_u8; BYTES];
        // Without the allocator's words before the block.
        let from = memory.as_ptr() as usize % PAGE;
        let address = (memory.as_ptr() as usize - from + PAGE) as u64;
        let bytes = || resident(&own_map(), address, (BYTES - 2 * PAGE) as u64);
        assert_eq!(bytes(), Some(0));
        for at in [1, 2, 3] {
            std::hint::black_box(&mut memory)[at * (BYTES / 4)] = 1;
        }
        let written = bytes().expect("it is readable");
        assert!((3 * PAGE as u64..=3 * HUGE).contains(&written), "{written}");
    }

    #[test]
    fn addresses_that_no_process_has_are_not_resident() {
        let bytes = |address| resident(&own_map(), address, 1 << 20);
        assert_eq!(bytes(0), Some(0));
        assert_eq!(bytes(0x10), Some(0));
        for address in [1 << 47, 1 << 63, u64::MAX - 1] {
            assert!(matches!(bytes(address), Some(0) | None), "{address:#x}");
        }
    }
}
