//! Reads an index. Opening verifies all of it, then a look-up reads only what it
//! needs. The results are those of [`crate::dwarf`] and the symbol tables.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::pages::Pages;
use super::{CHECKED, FILE, HEADER, LINKAGE, MAGIC, MAX_BUILD_ID, NODE, OBJECTS, SEGMENT, SUMMED};
use super::{SYMBOL, TABLES, TEXT_RANGE, Table, VERSION};
use crate::dwarf::segments::NONE;
use crate::dwarf::{Location, LocationFrame, Name, Objects};
use crate::elf::{u32_at, u64_at};
use crate::shared_strings::SharedStrings;
use crate::symbol_table::NamedSymbol;

/// The most bytes of the names of compilers.
const MAX_COMPILERS_BYTES: u64 = 1 << 16;

/// The most nodes of one address; reading the debug information has the same bound.
const MAX_DEPTH: usize = 520;

/// A name's text, and the objects of its function.
type NameText = (Arc<[u8]>, Option<Objects<'static>>);

/// A verified index.
#[derive(Debug)]
pub(crate) struct Index {
    pages: Pages,
    base: u64,
    tables: [(u64, u64); TABLES],
    unoptimised: Option<bool>,
    names: RefCell<FxHashMap<u32, NameText>>,
    files: RefCell<FxHashMap<u32, Arc<str>>>,
}

impl Index {
    /// `None` if the file is not the whole and undamaged index of this build.
    pub(crate) fn open(file: File, build_id: &[u8]) -> Option<Self> {
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).ok()?;
        let checksum = crc32fast::hash(&header[CHECKED..]);
        if header[..8] != MAGIC
            || u32_at(&header, 8) != Some(VERSION)
            || u32_at(&header, 12) != Some(checksum)
        {
            return None;
        }
        let id = &header[CHECKED + 6..][..MAX_BUILD_ID];
        if id.get(..usize::from(header[CHECKED + 5])) != Some(build_id) {
            return None;
        }
        let length = file.metadata().ok()?.len();
        let mut tables = [(0, 0); TABLES];
        let mut end = HEADER as u64;
        for (index, table) in tables.iter_mut().enumerate() {
            let at = CHECKED + 6 + MAX_BUILD_ID + 8 + index * 16;
            *table = (u64_at(&header, at)?, u64_at(&header, at + 8)?);
            if table.0 != end {
                return None;
            }
            end = end.checked_add(table.1)?;
        }
        if end != length || content_checksum(&file, length)? != u32_at(&header, CHECKED)? {
            return None;
        }
        Some(Self {
            pages: Pages::new(file, length),
            base: u64_at(&header, CHECKED + 6 + MAX_BUILD_ID)?,
            tables,
            unoptimised: match header[CHECKED + 4] {
                1 => Some(false),
                2 => Some(true),
                _ => None,
            },
            names: RefCell::default(),
            files: RefCell::default(),
        })
    }

    /// See [`crate::ModuleSymbols::unoptimised`].
    pub(crate) fn unoptimised(&self) -> Option<bool> {
        self.unoptimised
    }

    /// The compilers in the debug information.
    pub(crate) fn compilers(&self) -> Vec<String> {
        let (start, length) = self.tables[Table::Compilers as usize];
        let mut text = vec![0; length.min(MAX_COMPILERS_BYTES) as usize];
        let read = self.pages.read(start, &mut text);
        let text = String::from_utf8_lossy(&text);
        let names = text.lines().filter(|_| read.is_some()).map(str::to_owned);
        names.collect()
    }

    /// The symbol that contains an address.
    pub(crate) fn symbol(&self, address: u64) -> Option<NamedSymbol> {
        let record: [u8; SYMBOL] = self.segment(Table::Symbols, address)?;
        let name = u32_at(&record, 8).filter(|name| *name != NONE)?;
        Some(NamedSymbol {
            address: self.absolute(u32_at(&record, 4)?)?,
            name: self.name(name)?.0.0,
        })
    }

    /// The frames of an address, from the debug information.
    pub(crate) fn location(
        &self,
        address: u64,
        strings: &mut SharedStrings,
    ) -> Option<Location<'static>> {
        let record: [u8; SEGMENT] = self.segment(Table::Segments, address)?;
        let mut next = u32_at(&record, 4)?;
        let mut location = Location {
            frames: Vec::new(),
            start: None,
        };
        while next != NONE && location.frames.len() < MAX_DEPTH {
            let node: [u8; NODE] = self.record(Table::Nodes, next)?;
            let name = u32_at(&node, 0).filter(|name| *name != NONE);
            let name = name.and_then(|name| self.name(name));
            let file = u32_at(&node, 4).filter(|file| *file != NONE);
            location.frames.push(LocationFrame {
                name: name.map(|((text, objects), is_linkage)| Name {
                    text: text.to_vec().into(),
                    is_linkage,
                    objects,
                }),
                file: self.file(file, strings)?,
                line: u32_at(&node, 8)?,
                column: u32_at(&node, 12)?,
            });
            next = u32_at(&node, 16)?;
            location.start = u32_at(&node, 20).and_then(|start| self.absolute(start));
        }
        (!location.frames.is_empty()).then_some(location)
    }

    fn absolute(&self, relative: u32) -> Option<u64> {
        (relative != NONE).then(|| self.base.wrapping_add(relative.into()))
    }

    /// The last record that begins at or before the address.
    fn segment<const SIZE: usize>(&self, table: Table, address: u64) -> Option<[u8; SIZE]> {
        self.last_up_to(table, u32::try_from(address.checked_sub(self.base)?).ok()?)
    }

    /// The last record whose first word is not above a number, of a table that is sorted by its
    /// first word (binary search).
    fn last_up_to<const SIZE: usize>(&self, table: Table, number: u32) -> Option<[u8; SIZE]> {
        let (mut low, mut high) = (0, (self.tables[table as usize].1 / SIZE as u64) as u32);
        while low < high {
            let middle = low + (high - low) / 2;
            let record: [u8; SIZE] = self.record(table, middle)?;
            if u32_at(&record, 0)? <= number {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.record(table, low.checked_sub(1)?)
    }

    fn record<const SIZE: usize>(&self, table: Table, index: u32) -> Option<[u8; SIZE]> {
        let (start, length) = self.tables[table as usize];
        let offset = u64::from(index) * SIZE as u64;
        if offset + SIZE as u64 > length {
            return None;
        }
        let mut record = [0; SIZE];
        self.pages.read(start + offset, &mut record)?;
        Some(record)
    }

    /// A name's text and objects, and whether it is a linkage name.
    fn name(&self, index: u32) -> Option<(NameText, bool)> {
        let range: [u8; TEXT_RANGE] = self.record(Table::Names, index)?;
        let (offset, length) = (u32_at(&range, 0)?, u32_at(&range, 4)?);
        let is_linkage = length & LINKAGE != 0;
        if let Some(known) = self.names.borrow().get(&index) {
            return Some((known.clone(), is_linkage));
        }
        let text: Arc<[u8]> = self.text(offset, length & !LINKAGE)?.into();
        let name = (text, self.objects(index));
        self.names.borrow_mut().insert(index, name.clone());
        Some((name, is_linkage))
    }

    /// The objects of the function with this name.
    fn objects(&self, name: u32) -> Option<Objects<'static>> {
        let it: [u8; OBJECTS] = self.last_up_to(Table::Objects, name)?;
        (u32_at(&it, 0)? == name).then_some(())?;
        Some(Objects {
            name: self.text(u32_at(&it, 4)?, u32_at(&it, 8)?)?.into(),
            bytes: u32_at(&it, 12)?,
        })
    }

    fn file(&self, index: Option<u32>, strings: &mut SharedStrings) -> Option<Arc<str>> {
        let Some(index) = index else {
            return Some(strings.share(""));
        };
        if let Some(known) = self.files.borrow().get(&index) {
            return Some(known.clone());
        }
        let file: [u8; FILE] = self.record(Table::Files, index)?;
        let (offset, length) = (u32_at(&file, 0)?, u32_at(&file, 4)?);
        let text = self.text(offset, length & !SUMMED)?;
        let path = String::from_utf8_lossy(&text);
        let md5 = file[TEXT_RANGE..].try_into().ok();
        let path = match md5.filter(|_| length & SUMMED != 0) {
            Some(md5) => strings.share_source(&path, md5),
            None => strings.share(&path),
        };
        self.files.borrow_mut().insert(index, path.clone());
        Some(path)
    }

    fn text(&self, offset: u32, length: u32) -> Option<Vec<u8>> {
        let (start, table) = self.tables[Table::Text as usize];
        if u64::from(offset) + u64::from(length) > table {
            return None;
        }
        let mut text = vec![0; length as usize];
        self.pages.read(start + u64::from(offset), &mut text)?;
        Some(text)
    }
}

/// The checksum of everything after the header.
fn content_checksum(file: &File, length: u64) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    let mut offset = HEADER as u64;
    while offset < length {
        let count = file
            .read_at(&mut buffer, offset)
            .ok()
            .filter(|it| *it > 0)?;
        hasher.update(&buffer[..count]);
        offset += count as u64;
    }
    Some(hasher.finalize())
}
