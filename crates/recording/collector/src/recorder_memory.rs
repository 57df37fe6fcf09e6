//! Measures the recorder's part of a process's resident memory, which the kernel counts with the
//! program's own: the tables and rings of the shared memory, and the state of each thread. The table
//! of live blocks (`--reachability`) counts itself: each of its leaves is a page that was written.
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
use std::sync::atomic::Ordering::Relaxed;

use allotrope_shm::layout::{ImageSlot, MAX_STATE, REGION_BYTES, RINGS, RingHeader, TABLES_BYTES};
use allotrope_shm::page_map::resident;
use rustc_hash::FxHashMap;

/// Largest size of a table of live blocks, in bytes. A larger number is not the recorder's.
const MAX_LIVE_BLOCKS: u64 = 1 << 46;
/// Largest number of rings that one scan measures, besides those that are new.
const RINGS_AT_ONCE: usize = 64;

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
        if state_bytes > MAX_STATE {
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
        let live_blocks = slot.live_blocks_bytes.load(Relaxed).min(MAX_LIVE_BLOCKS);
        Some(rings.sum::<u64>() + tables + live_blocks)
    }
}
