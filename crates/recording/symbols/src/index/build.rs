//! Writes the index of a module, from the segments of its debug information and its
//! symbol table.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use super::{CHECKED, Facts, HEADER, LINKAGE, MAGIC, MAX_BUILD_ID, SUMMED, TABLES, VERSION};
use crate::dwarf::Name;
use crate::dwarf::segments::{NONE, SegmentTable};
use crate::symbol_table::SymbolTable;

/// Writes the index of a module. Returns `Ok(false)` if the module exceeds the limits of
/// the format.
pub(crate) fn write(
    file: &File,
    build_id: &[u8],
    facts: &Facts,
    mut table: SegmentTable,
    symbols: &SymbolTable,
) -> io::Result<bool> {
    let symbols = symbol_segments(symbols, &mut table.names);
    let Some(base) = base(&table, &symbols) else {
        return Ok(false);
    };
    if build_id.is_empty() || build_id.len() > MAX_BUILD_ID {
        return Ok(false);
    }
    let mut output = Output::new(file)?;
    let relative = |address: u64| (address - base) as u32;
    for (start, node) in &table.segments {
        output.words(&[relative(*start), *node])?;
    }
    output.end_table();
    for node in &table.nodes {
        let start = node.start.map_or(NONE, relative);
        let words = [
            node.name,
            node.file,
            node.line,
            node.column,
            node.parent,
            start,
        ];
        output.words(&words)?;
    }
    output.end_table();
    for (start, symbol, name) in &symbols {
        output.words(&[relative(*start), relative(*symbol), *name])?;
    }
    output.end_table();
    let mut text = Text::default();
    for name in &table.names {
        let linkage = if name.is_linkage { LINKAGE } else { 0 };
        let (offset, length) = text.add(name.text.len());
        output.words(&[offset, length | linkage])?;
    }
    output.end_table();
    for (path, md5) in &table.files {
        let (offset, length) = text.add(path.len());
        let summed = if md5.is_some() { SUMMED } else { 0 };
        output.words(&[offset, length | summed])?;
        output.bytes(&md5.unwrap_or_default())?;
    }
    output.end_table();
    let mut objects: Vec<[u32; 4]> = Vec::new();
    for (number, name) in (0..).zip(&table.names) {
        if let Some(it) = &name.objects {
            let (offset, length) = text.add(it.name.len());
            objects.push([number, offset, length, it.bytes]);
        }
    }
    let names = table.names.iter().map(|name| &name.text[..]);
    let files = table.files.iter().map(|(path, _)| path.as_bytes());
    let types = table.names.iter().filter_map(|it| it.objects.as_ref());
    for part in names.chain(files).chain(types.map(|it| &it.name[..])) {
        output.bytes(part)?;
    }
    output.end_table();
    if text.length > u64::from(u32::MAX) {
        return Ok(false);
    }
    for name in facts.compilers.iter().filter(|name| !name.contains('\n')) {
        output.bytes(name.as_bytes())?;
        output.bytes(b"\n")?;
    }
    output.end_table();
    for it in &objects {
        output.words(it)?;
    }
    output.end_table();
    output.finish(build_id, facts.unoptimised, base)?;
    Ok(true)
}

/// The text table under construction: offset and length of each text.
#[derive(Default)]
struct Text {
    length: u64,
}

impl Text {
    /// The offset and length of the next text.
    fn add(&mut self, length: usize) -> (u32, u32) {
        // Whether all of it fits is checked once, at the end.
        let range = (self.length as u32, length as u32 & !(LINKAGE | SUMMED));
        self.length += length as u64;
        range
    }
}

/// The lowest address, if all are within 32 bits of it.
fn base(table: &SegmentTable, symbols: &[(u64, u64, u32)]) -> Option<u64> {
    let segments = table.segments.iter().map(|segment| segment.0);
    let functions = table.nodes.iter().filter_map(|node| node.start);
    let symbols = symbols.iter().flat_map(|it| [it.0, it.1]);
    let all = segments.chain(functions).chain(symbols);
    let (lowest, highest) = all.fold((u64::MAX, 0), |(lowest, highest), address| {
        (lowest.min(address), highest.max(address))
    });
    // The highest number stands for "none".
    let fits = highest.checked_sub(lowest)? < u64::from(NONE);
    fits.then_some(lowest)
}

/// Segments of code within which one symbol contains every address: start of the
/// segment, start of the symbol, name.
fn symbol_segments(symbols: &SymbolTable, names: &mut Vec<Name<'static>>) -> Vec<(u64, u64, u32)> {
    let mut segments: Vec<(u64, u64, u32)> = Vec::new();
    for cut in symbols.boundaries() {
        let segment = match symbols.containing(cut) {
            None => (cut, cut, NONE),
            // A function continues after a function nested in it; its name exists.
            Some(symbol) => {
                let known = segments.iter().rev().take(8);
                let mut known = known.filter(|it| it.1 == symbol.address && it.2 != NONE);
                let name = known.next().map_or_else(
                    || {
                        names.push(Name {
                            text: symbol.name.to_vec().into(),
                            is_linkage: true,
                            objects: None,
                        });
                        (names.len() - 1) as u32
                    },
                    |known| known.2,
                );
                (cut, symbol.address, name)
            }
        };
        segments.push(segment);
    }
    segments
}

/// Writes the tables after space for the header, then the header.
struct Output<'f> {
    file: &'f File,
    writer: BufWriter<&'f File>,
    checksum: crc32fast::Hasher,
    at: u64,
    tables: Vec<(u64, u64)>,
}

impl<'f> Output<'f> {
    fn new(file: &'f File) -> io::Result<Self> {
        let mut writer = BufWriter::with_capacity(1 << 18, file);
        writer.write_all(&[0; HEADER])?;
        Ok(Self {
            file,
            writer,
            checksum: crc32fast::Hasher::new(),
            at: HEADER as u64,
            tables: Vec::with_capacity(TABLES),
        })
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        self.at += bytes.len() as u64;
        self.writer.write_all(bytes)
    }

    fn words(&mut self, words: &[u32]) -> io::Result<()> {
        let mut bytes = [0; 32];
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.bytes(&bytes[..words.len() * 4])
    }

    fn end_table(&mut self) {
        let start = match self.tables.last() {
            Some((start, length)) => start + length,
            None => HEADER as u64,
        };
        self.tables.push((start, self.at - start));
    }

    fn finish(self, build_id: &[u8], unoptimised: Option<bool>, base: u64) -> io::Result<()> {
        let mut header = Vec::with_capacity(HEADER);
        header.extend(self.checksum.finalize().to_le_bytes());
        header.push(match unoptimised {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        });
        header.push(build_id.len() as u8);
        header.extend(build_id);
        header.resize(4 + 2 + MAX_BUILD_ID, 0);
        header.extend(base.to_le_bytes());
        for (start, length) in &self.tables {
            header.extend(start.to_le_bytes());
            header.extend(length.to_le_bytes());
        }
        let mut all = MAGIC.to_vec();
        all.extend(VERSION.to_le_bytes());
        all.extend(crc32fast::hash(&header).to_le_bytes());
        debug_assert_eq!(all.len(), CHECKED);
        all.extend(header);
        self.writer
            .into_inner()
            .map_err(|error| error.into_error())?;
        let mut file = self.file;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&all)
    }
}
