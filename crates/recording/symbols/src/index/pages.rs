//! A bounded cache of a file's pages.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use rustc_hash::FxHashMap;

const PAGE: u64 = 32 << 10;
/// Largest number of pages in the cache: 48 MiB.
const MAX_PAGES: usize = 1536;

/// A file and its cached pages.
#[derive(Debug)]
pub(super) struct Pages {
    file: File,
    length: u64,
    pages: RefCell<FxHashMap<u64, Box<[u8]>>>,
}

impl Pages {
    pub(super) fn new(file: File, length: u64) -> Self {
        Self {
            file,
            length,
            pages: RefCell::default(),
        }
    }

    /// Fills `into` from `offset` on; `None` unless the file has all of it.
    pub(super) fn read(&self, mut offset: u64, mut into: &mut [u8]) -> Option<()> {
        let end = offset.checked_add(into.len() as u64)?;
        if end > self.length {
            return None;
        }
        while !into.is_empty() {
            let within = (offset % PAGE) as usize;
            let count = self.copy(offset / PAGE, within, into)?;
            offset += count as u64;
            into = &mut into[count..];
        }
        Some(())
    }

    fn copy(&self, number: u64, within: usize, into: &mut [u8]) -> Option<usize> {
        let mut pages = self.pages.borrow_mut();
        if !pages.contains_key(&number) {
            // Addresses come sorted: old pages are seldom needed again.
            if pages.len() >= MAX_PAGES {
                pages.clear();
            }
            let start = number * PAGE;
            let mut page = vec![0; PAGE.min(self.length - start) as usize];
            self.file.read_exact_at(&mut page, start).ok()?;
            pages.insert(number, page.into());
        }
        let page = pages.get(&number)?;
        let rest = page.get(within..)?;
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        (count > 0).then_some(count)
    }
}
