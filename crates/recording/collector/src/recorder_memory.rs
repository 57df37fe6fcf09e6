//! Measures the recorder's part of a process's resident memory, which the kernel counts with the
//! program's own: the tables and rings of the shared memory, and the state of each thread.
//!
//! The recorder writes the addresses into the shared memory; which of the pages there are
//! resident is in `/proc/PID/pagemap` (proc_pid_pagemap(5)), as the kernel counts them. Whoever
//! may trace the process may read it. A program can write any addresses, and so only spoil its
//! own figure: lengths are limited, and nothing but presence is read.
//!
//! Error: what is not counted are the recorder's code and static data (some hundred KiB of its
//! file), and in a forked child a page for each thread of its parent. The rings of a process with
//! more than [`RINGS_AT_ONCE`] threads are measured in turn, so the figure may be a few scans
//! old.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;

use allotrope_shm::layout::{ImageSlot, PAGE, REGION_BYTES, RINGS, RingHeader, TABLES_BYTES};
use rustc_hash::FxHashMap;

/// Most rings that one scan measures, besides those that are new.
const RINGS_AT_ONCE: usize = 64;
/// Most bytes of a thread's state. A larger number is not the recorder's.
const MOST_STATE: u64 = 16 << 20;
/// Bytes of an entry of the page map, and its bit of a page that is in memory.
const ENTRY: usize = size_of::<u64>();
const PRESENT: u64 = 1 << 63;
/// Entries read at once.
const ENTRIES: usize = 1024;

/// The recorder's memory in a process, as it was measured last.
#[derive(Debug, Default)]
pub(crate) struct RecorderMemory {
    /// The resident bytes of each ring and of the state of its thread.
    rings: Vec<(u32, u64)>,
    /// Index of the ring that is measured next.
    next: usize,
    /// The sum; `None`: it could not be measured.
    bytes: Option<u64>,
}

impl RecorderMemory {
    /// The recorder's resident bytes when they were measured last; `None` if they are unknown.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Measures; `streams` has the rings that the image has claimed.
    pub(crate) fn measure<T>(
        &mut self,
        pagemap: Option<File>,
        slot: &ImageSlot,
        headers: &[RingHeader; RINGS],
        streams: &FxHashMap<u32, T>,
    ) {
        let measured = pagemap.and_then(|map| self.measured(&map, slot, headers, streams));
        self.bytes = measured;
    }

    fn measured<T>(
        &mut self,
        map: &File,
        slot: &ImageSlot,
        headers: &[RingHeader; RINGS],
        streams: &FxHashMap<u32, T>,
    ) -> Option<u64> {
        let state_bytes = slot.state_bytes.load(Relaxed);
        if state_bytes > MOST_STATE {
            return None;
        }
        let of_ring = |ring: u32| {
            let header = &headers[ring as usize % RINGS];
            let region = resident(map, header.region.load(Relaxed), REGION_BYTES as u64)?;
            let state = resident(map, header.state.load(Relaxed), state_bytes)?;
            Some(region + state)
        };
        let known = self.rings.len();
        if streams.len() > known {
            let is_new = |ring: &&u32| !self.rings.iter().any(|(known, _)| known == *ring);
            let new: Vec<u32> = streams.keys().filter(is_new).copied().collect();
            for ring in new {
                self.rings.push((ring, of_ring(ring)?));
            }
        }
        for _ in 0..known.min(RINGS_AT_ONCE) {
            let next = self.next % known;
            let (ring, bytes) = &mut self.rings[next];
            *bytes = of_ring(*ring)?;
            self.next = next + 1;
        }
        let tables = resident(map, slot.tables.load(Relaxed), TABLES_BYTES as u64)?;
        let rings = self.rings.iter().map(|(_, bytes)| bytes);
        Some(rings.sum::<u64>() + tables)
    }
}

/// The resident bytes of the pages that a range of addresses begins and ends in; `None` if the
/// page map cannot be read. What is mapped nowhere is not resident.
fn resident(map: &File, address: u64, bytes: u64) -> Option<u64> {
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
