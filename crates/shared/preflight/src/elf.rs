//! Reads the parts of a 64-bit little-endian ELF file (System V ABI, chapters 4 and 5)
//! that `judge` needs: program headers, dynamic entries, section names.
//!
//! By hand, since it runs in other programs, which are about to exec: nothing may allocate, panic or map a
//! file. So it reads by pread(2) into buffers on the stack, which neither `object` nor the reader of
//! `allotrope-detour`, over mapped files, can do.
//!
//! Offsets and counts in the file are not trusted: reads outside the file return
//! nothing, sums wrap, and the length of each table is limited.

use crate::program_file::ProgramFile;

pub(crate) const PT_LOAD: u32 = 1;
pub(crate) const PT_DYNAMIC: u32 = 2;
pub(crate) const PT_INTERP: u32 = 3;
#[cfg(feature = "std")]
pub(crate) const PT_NOTE: u32 = 4;
const DT_NULL: u64 = 0;
pub(crate) const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
pub(crate) const DT_SONAME: u64 = 14;
const EM_X86_64: u64 = 62;
const CLASS_64: u8 = 2;

/// Bytes of `Elf64_Ehdr`, `Elf64_Phdr`, `Elf64_Shdr` and `Elf64_Dyn`.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;
const DYNAMIC_ENTRY: usize = 16;
/// Largest numbers of program headers, sections and dynamic entries that are read. The kernel
/// accepts no more program headers than fit into 64 KiB; no linker writes as many of the others.
const MAX_PROGRAM_HEADERS: u64 = 65536 / PROGRAM_HEADER as u64;
const MAX_SECTIONS: u64 = 4096;
const MAX_DYNAMIC_ENTRIES: u64 = 4096;

/// A name read from a file: a library, a loader, a section.
pub(crate) type Name = Text<256>;

/// The start of a string in the file, up to its zero byte and at most `BYTES` long.
pub(crate) struct Text<const BYTES: usize> {
    bytes: [u8; BYTES],
    length: usize,
}

impl<const BYTES: usize> Text<BYTES> {
    /// Reads a string of at most `limit` bytes; a longer one is cut.
    fn read(file: &impl ProgramFile, offset: u64, limit: u64) -> Self {
        let mut bytes = [0; BYTES];
        let limit = limit.min(BYTES as u64) as usize;
        let read = file.read_at(&mut bytes[..limit], offset).min(limit);
        let end = bytes[..read].iter().position(|byte| *byte == 0);
        Self {
            bytes,
            length: end.unwrap_or(read),
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The kind of program in an ELF file.
pub(crate) enum Class {
    /// A program for x86-64.
    Native,
    ThirtyTwoBit,
    OtherMachine,
    /// The kernel does not execute it.
    Damaged,
}

/// An ELF file.
pub(crate) struct Elf<'a, F> {
    file: &'a F,
    header: [u8; HEADER],
}

/// A program header.
pub(crate) struct Segment {
    pub(crate) kind: u32,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) file_size: u64,
}

/// A section header, and its name.
pub(crate) struct Section {
    pub(crate) name: Text<16>,
    #[cfg(feature = "std")]
    pub(crate) kind: u32,
    #[cfg(feature = "std")]
    pub(crate) size: u64,
}

impl<'a, F: ProgramFile> Elf<'a, F> {
    /// Reads the file's header; `None` if it is not an ELF file.
    pub(crate) fn open(file: &'a F) -> Option<Self> {
        let mut header = [0; HEADER];
        file.read_at(&mut header, 0);
        header
            .starts_with(b"\x7fELF")
            .then_some(Self { file, header })
    }

    pub(crate) fn class(&self) -> Class {
        if self.header[4] != CLASS_64 {
            return match self.header[4] {
                1 => Class::ThirtyTwoBit,
                _ => Class::Damaged,
            };
        }
        if self.field(18, 2) != EM_X86_64 {
            return Class::OtherMachine;
        }
        // As `load_elf_phdrs` of the kernel (fs/binfmt_elf.c).
        let (table, count) = (self.field(32, 8), self.field(56, 2));
        let has_size = self.field(54, 2) == PROGRAM_HEADER as u64;
        let end = table.checked_add(count * PROGRAM_HEADER as u64);
        let is_there = end.is_some_and(|end| self.file.read_at(&mut [0], end.wrapping_sub(1)) == 1);
        if count == 0 || count > MAX_PROGRAM_HEADERS || !has_size || !is_there {
            return Class::Damaged;
        }
        Class::Native
    }

    /// A number in the file's header, at a byte offset.
    fn field(&self, at: usize, bytes: usize) -> u64 {
        number(&self.header[at..at + bytes])
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> {
        let count = self.field(56, 2).min(MAX_PROGRAM_HEADERS);
        let table = Table::<F, PROGRAM_HEADER>::new(self.file, self.field(32, 8), count);
        table.map(|entry| Segment {
            kind: number(&entry[0..4]) as u32,
            offset: number(&entry[8..16]),
            address: number(&entry[16..24]),
            file_size: number(&entry[32..40]),
        })
    }

    /// The path of the loader that the file names.
    pub(crate) fn loader<const BYTES: usize>(&self) -> Option<Text<BYTES>> {
        let named = self.segments().find(|it| it.kind == PT_INTERP)?;
        Some(Text::read(self.file, named.offset, named.file_size))
    }

    /// Tags and values of the dynamic section, up to its end.
    pub(crate) fn dynamic(&self) -> impl Iterator<Item = (u64, u64)> {
        let section = self.segments().find(|it| it.kind == PT_DYNAMIC);
        let (offset, bytes) = section.map_or((0, 0), |it| (it.offset, it.file_size));
        let count = (bytes / DYNAMIC_ENTRY as u64).min(MAX_DYNAMIC_ENTRIES);
        Table::<F, DYNAMIC_ENTRY>::new(self.file, offset, count)
            .map(|entry| (number(&entry[..8]), number(&entry[8..])))
            .take_while(|(tag, _)| *tag != DT_NULL)
    }

    /// The strings to which dynamic entries with this tag refer.
    pub(crate) fn dynamic_strings(&self, tag: u64) -> impl Iterator<Item = Name> {
        let find = |wanted| move |(tag, value)| (tag == wanted).then_some(value);
        let strings = self.dynamic().find_map(find(DT_STRTAB));
        let strings = strings.and_then(|address| self.file_offset(address));
        let entries = strings.map(|offset| (offset, self.dynamic().filter_map(find(tag))));
        entries.into_iter().flat_map(move |(offset, values)| {
            values.map(move |value| Text::read(self.file, offset.wrapping_add(value), u64::MAX))
        })
    }

    /// The offset in the file of the byte that is loaded at this address.
    fn file_offset(&self, address: u64) -> Option<u64> {
        self.segments().find_map(|segment| {
            let within = address.wrapping_sub(segment.address);
            let holds = segment.kind == PT_LOAD && within < segment.file_size;
            holds.then_some(segment.offset.wrapping_add(within))
        })
    }

    /// The sections. A working program need not have any.
    pub(crate) fn sections(&self) -> impl Iterator<Item = Section> {
        let has_size = self.field(58, 2) == SECTION_HEADER as u64;
        let count = self.field(60, 2).min(MAX_SECTIONS);
        let count = if has_size { count } else { 0 };
        let table = self.field(40, 8);
        let headers = move || Table::<F, SECTION_HEADER>::new(self.file, table, count);
        let of_names = headers().nth(self.field(62, 2) as usize);
        let names = of_names.map(|entry| number(&entry[24..32]));
        let headers = names.map(|names| headers().map(move |entry| (names, entry)));
        headers.into_iter().flatten().map(|(names, entry)| {
            let name = names.wrapping_add(number(&entry[0..4]));
            Section {
                name: Text::read(self.file, name, u64::MAX),
                #[cfg(feature = "std")]
                kind: number(&entry[4..8]) as u32,
                #[cfg(feature = "std")]
                size: number(&entry[32..40]),
            }
        })
    }

    /// Whether the program was built by Go, which adds a section with build information.
    pub(crate) fn is_go(&self) -> bool {
        let mut sections = self.sections();
        sections.any(|it| it.name.as_bytes() == b".go.buildinfo")
    }
}

/// Iterates over a table in the file; reads as many entries at once as fit the buffer.
struct Table<'a, F, const ENTRY: usize> {
    file: &'a F,
    /// Offset of the first entry not yet read, and the number of entries from there on.
    offset: u64,
    left: u64,
    buffer: [u8; 512],
    /// The range of entries in the buffer that were not yet returned.
    next: usize,
    end: usize,
}

impl<'a, F: ProgramFile, const ENTRY: usize> Table<'a, F, ENTRY> {
    fn new(file: &'a F, offset: u64, left: u64) -> Self {
        Self {
            file,
            offset,
            left,
            buffer: [0; 512],
            next: 0,
            end: 0,
        }
    }
}

impl<F: ProgramFile, const ENTRY: usize> Iterator for Table<'_, F, ENTRY> {
    type Item = [u8; ENTRY];

    fn next(&mut self) -> Option<[u8; ENTRY]> {
        if self.next == self.end {
            let count = self.left.min((self.buffer.len() / ENTRY) as u64) as usize;
            let wanted = &mut self.buffer[..count * ENTRY];
            let read = self.file.read_at(wanted, self.offset) / ENTRY;
            (self.next, self.end) = (0, read.min(count));
            self.offset = self.offset.wrapping_add((count * ENTRY) as u64);
            self.left -= count as u64;
            if self.end < count {
                self.left = 0;
            }
        }
        let entry = self.buffer[..self.end * ENTRY].get(self.next * ENTRY..)?;
        self.next += 1;
        entry.first_chunk().copied()
    }
}

/// A little-endian number of up to 8 bytes.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
