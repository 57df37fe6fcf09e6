//! The parts of an ELF file that symbols need: its sections, their contents
//! (decompressed), its build id and its links to debug files.
//!
//! Only requested sections are read: a debug file of hundreds of megabytes is
//! never in memory as a whole. Layouts are those of the
//! System V gABI, chapter 4, for ELFCLASS64 and ELFDATA2LSB. Symbols and DWARF
//! are read elsewhere.

use std::fs::File;
use std::io::ErrorKind;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use allotrope_shm::mapped_file::{FileIdentity, HASHED_CODE, code_hash};
use flate2::read::ZlibDecoder;
use lzma_rust2::XzReader;

use crate::content::Content;
use crate::error::SymbolError;
use crate::file_identity::identity_of;

const HEADER_SIZE: usize = 64;
const SECTION_HEADER_SIZE: usize = 64;
const PROGRAM_HEADER_SIZE: usize = 56;
const MACHINE_X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_X: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;
const SHF_EXECINSTR: u64 = 0x4;
const SHF_COMPRESSED: u64 = 0x800;
const ELFCOMPRESS_ZLIB: u32 = 1;
const ELFCOMPRESS_ZSTD: u32 = 2;
const COMPRESSION_HEADER_SIZE: usize = 24;
const NT_GNU_BUILD_ID: u32 = 3;

/// Sections beyond this number are ignored; linked files have dozens.
const MAX_SECTIONS: u64 = 1 << 16;
/// A section larger than this is not read: offsets of 32-bit DWARF end here.
const MAX_SECTION_BYTES: u64 = 1 << 32;
/// Debug sections shrink to between a half and a tenth. A file that claims
/// much more is not a debug file but a decompression bomb.
const MAX_COMPRESSION_RATIO: u64 = 256;
/// The largest ELF file that `.gnu_debugdata` is expanded to; real ones have a
/// few megabytes.
const MAX_EMBEDDED_BYTES: u64 = 256 << 20;
/// Memory for expanding it, in KiB: xz(1) needs 65 MiB at its highest level.
const MAX_XZ_KIB: u32 = 128 << 10;
/// Bytes of a note section that are searched for a build id.
const MAX_NOTE_BYTES: u64 = 64 << 10;
/// Bytes of `.comment` that are read; a file has one short text a compiler.
const MAX_COMMENT_BYTES: usize = 4 << 10;
/// The most compilers of a file.
const MAX_COMPILERS: usize = 16;
/// Note sections and segments that are searched for a build id.
const MAX_NOTES: usize = 16;

/// A section's header.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: u32,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
    flags: u64,
    offset: u64,
}

impl Section {
    pub(crate) fn is_executable(&self) -> bool {
        self.flags & SHF_EXECINSTR != 0
    }
}

/// An open ELF file.
#[derive(Debug)]
pub(crate) struct ElfFile {
    content: Content,
    path: PathBuf,
    length: u64,
    sections: Vec<Section>,
    build_id: Vec<u8>,
}

/// A file named by `.gnu_debuglink`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DebugLink {
    pub(crate) name: Vec<u8>,
    pub(crate) crc: u32,
}

/// A file named by `.gnu_debugaltlink`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AlternateLink {
    pub(crate) name: Vec<u8>,
    pub(crate) build_id: Vec<u8>,
}

impl ElfFile {
    /// Opens the file at `path`, which must be a regular one: opening a pipe
    /// or a device that a module's path happens to name could block or worse.
    pub(crate) fn open(path: &Path) -> Result<Self, SymbolError> {
        let unreadable = |source| SymbolError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let file = allotrope_files::open_regular(path).map_err(|source| match source.kind() {
            ErrorKind::InvalidInput => SymbolError::NotAFile {
                path: path.to_owned(),
            },
            _ => unreadable(source),
        })?;
        Self::from_file(file, path)
    }

    /// Reads the headers of an open file. `path` is shown in messages, and
    /// relative links are resolved against it.
    pub(crate) fn from_file(file: File, path: &Path) -> Result<Self, SymbolError> {
        let unreadable = |source| SymbolError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(SymbolError::NotAFile {
                path: path.to_owned(),
            });
        }
        Self::from_content(Content::File(file), path)
    }

    /// The compilers and linkers that made the file, as they name themselves in the
    /// section `.comment`: `GCC: (Debian 12.2.0-14) 12.2.0`. Sorted, each once.
    pub(crate) fn compilers(&self) -> Vec<String> {
        let comment = self.contents(".comment");
        let comment = comment.get(..MAX_COMMENT_BYTES).unwrap_or(&comment);
        let texts = comment.split(|&byte| byte == 0);
        let texts = texts.map(|text| String::from_utf8_lossy(text).trim().to_owned());
        let mut compilers: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
        compilers.sort();
        compilers.dedup();
        compilers.truncate(MAX_COMPILERS);
        compilers
    }

    /// The ELF file in the section `.gnu_debugdata`: the symbols of functions that
    /// a distribution stripped from the file itself ("MiniDebugInfo" in GDB's
    /// manual). Errors contain the path of this file.
    pub(crate) fn embedded(&self) -> Option<Self> {
        let section = self.section(b".gnu_debugdata")?;
        let compressed = self.section_contents(section)?;
        let bound = (compressed.len() as u64).saturating_mul(MAX_COMPRESSION_RATIO);
        let bound = bound.min(MAX_EMBEDDED_BYTES);
        let mut bytes = Vec::new();
        XzReader::new_mem_limit(&compressed[..], true, MAX_XZ_KIB)
            .take(bound)
            .read_to_end(&mut bytes)
            .ok()?;
        Self::from_content(Content::Memory(bytes), &self.path).ok()
    }

    fn from_content(content: Content, path: &Path) -> Result<Self, SymbolError> {
        let unreadable = |source| SymbolError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let mut elf = Self {
            length: content.length().map_err(unreadable)?,
            content,
            path: path.to_owned(),
            sections: Vec::new(),
            build_id: Vec::new(),
        };
        let mut header = [0; HEADER_SIZE];
        elf.content.read_exact_at(&mut header, 0).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                elf.not_elf(elf.length, "the file ends within the ELF header")
            } else {
                unreadable(error)
            }
        })?;
        elf.check_header(&header)?;
        elf.sections = elf.read_sections(&header).unwrap_or_default();
        elf.build_id = elf.read_build_id(&header).unwrap_or_default();
        Ok(elf)
    }

    fn not_elf(&self, offset: u64, problem: &'static str) -> SymbolError {
        SymbolError::NotElf {
            path: self.path.clone(),
            offset,
            problem,
        }
    }

    fn check_header(&self, header: &[u8; HEADER_SIZE]) -> Result<(), SymbolError> {
        if header[..4] != *b"\x7fELF" {
            return Err(self.not_elf(0, "this is no ELF file"));
        }
        if header[4] != 2 || header[5] != 1 {
            return Err(self.not_elf(4, "the ELF file is not 64-bit little-endian"));
        }
        if u16_at(header, 18) != Some(MACHINE_X86_64) {
            return Err(self.not_elf(18, "the ELF file is for another machine"));
        }
        Ok(())
    }

    /// `None` if the table is absent or damaged. Such a file has no names.
    fn read_sections(&self, header: &[u8; HEADER_SIZE]) -> Option<Vec<Section>> {
        let table = u64_at(header, 40)?;
        if table == 0 || usize::from(u16_at(header, 58)?) != SECTION_HEADER_SIZE {
            return None;
        }
        // With 65,280 sections and more the counts are in section 0.
        let first = self.read(table, SECTION_HEADER_SIZE as u64)?;
        let count = match u16_at(header, 60)? {
            0 => u64_at(&first, 32)?,
            count => u64::from(count),
        };
        let names_index = match u16_at(header, 62)? {
            0xffff => u32_at(&first, 40)?,
            index => u32::from(index),
        };
        let count = count.min(MAX_SECTIONS);
        let bytes = self.read(table, count.checked_mul(SECTION_HEADER_SIZE as u64)?)?;
        let headers: Vec<&[u8]> = bytes.chunks_exact(SECTION_HEADER_SIZE).collect();
        let names = headers
            .get(names_index as usize)
            .and_then(|names| self.read(u64_at(names, 24)?, u64_at(names, 32)?))
            .unwrap_or_default();
        headers
            .iter()
            .map(|header| parse_section(header, &names))
            .collect()
    }

    fn read_build_id(&self, header: &[u8; HEADER_SIZE]) -> Option<Vec<u8>> {
        // Sections first: the program headers of a separate debug file still
        // describe the file it was split from.
        let from_sections = self
            .sections
            .iter()
            .filter(|section| section.kind == SHT_NOTE)
            .take(MAX_NOTES)
            .find_map(|section| self.build_id_at(section.offset, section.size));
        if from_sections.is_some() {
            return from_sections;
        }
        let table = u64_at(header, 32)?;
        if usize::from(u16_at(header, 54)?) != PROGRAM_HEADER_SIZE {
            return None;
        }
        let size = u64::from(u16_at(header, 56)?) * PROGRAM_HEADER_SIZE as u64;
        self.read(table, size)?
            .chunks_exact(PROGRAM_HEADER_SIZE)
            .filter(|segment| u32_at(segment, 0) == Some(PT_NOTE))
            .take(MAX_NOTES)
            .find_map(|segment| self.build_id_at(u64_at(segment, 8)?, u64_at(segment, 32)?))
    }

    fn build_id_at(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        build_id_in_notes(&self.read(offset, size.min(MAX_NOTE_BYTES))?)
    }

    /// Bytes of the file; `None` unless it has all of them.
    fn read(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        if size > MAX_SECTION_BYTES || offset.checked_add(size)? > self.length {
            return None;
        }
        let size = usize::try_from(size).ok()?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).ok()?;
        bytes.resize(size, 0);
        self.content.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    /// The open file itself; `None` if the bytes are in memory.
    pub(crate) fn into_file(self) -> Option<File> {
        match self.content {
            Content::File(file) => Some(file),
            Content::Memory(_) => None,
        }
    }

    /// Which file it is, with the hash of the code that a process maps of it.
    pub(crate) fn identity(&self) -> Option<FileIdentity> {
        let Content::File(file) = &self.content else {
            return None;
        };
        let identity = identity_of(file)?;
        let code = self.code_hash().unwrap_or(0);
        Some(FileIdentity { code, ..identity })
    }

    /// Computes the hash of the code as the recorder computes it from memory.
    fn code_hash(&self) -> Option<u64> {
        let header = self.read(0, HEADER_SIZE as u64)?;
        let headers = self.read(
            u64_at(&header, 32)?,
            u64::from(u16_at(&header, 56)?) * PROGRAM_HEADER_SIZE as u64,
        )?;
        let is_code = |segment: &&[u8]| {
            u32_at(segment, 0) == Some(PT_LOAD)
                && u32_at(segment, 4).is_some_and(|it| it & PF_X != 0)
        };
        let code = headers.chunks_exact(PROGRAM_HEADER_SIZE).find(is_code)?;
        // A whole page is mapped, from the start of the page.
        let offset = u64_at(code, 8)? & !(HASHED_CODE as u64 - 1);
        let bytes = self.length.checked_sub(offset)?.min(HASHED_CODE as u64);
        Some(code_hash(&headers, &self.read(offset, bytes)?))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// GNU build id; empty if there is none.
    pub(crate) fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    pub(crate) fn sections(&self) -> &[Section] {
        &self.sections
    }

    fn section(&self, name: &[u8]) -> Option<&Section> {
        self.sections
            .iter()
            .find(|section| section.name == name && section.kind != SHT_NOBITS)
    }

    /// Whether the file has a section of this name with something in it.
    pub(crate) fn has_section(&self, name: &str) -> bool {
        self.section(name.as_bytes())
            .is_some_and(|section| section.size > 0)
    }

    /// Whether the file has DWARF of its own.
    pub(crate) fn has_dwarf(&self) -> bool {
        self.has_section(".debug_info") || self.has_section(".zdebug_info")
    }

    /// Whether the file has the symbols that the linker put into it; those for
    /// dynamic linking alone do not count.
    pub(crate) fn has_symbol_table(&self) -> bool {
        let tables = self.sections.iter().filter(|it| it.kind == SHT_SYMTAB);
        tables.into_iter().any(|section| section.size > 0)
    }

    /// Contents of the section of this name, decompressed; empty if it is absent
    /// or damaged.
    pub(crate) fn contents(&self, name: &str) -> Vec<u8> {
        if let Some(section) = self.section(name.as_bytes()) {
            return self.section_contents(section).unwrap_or_default();
        }
        // Before SHF_COMPRESSED, GNU tools renamed compressed sections.
        name.strip_prefix(".debug")
            .and_then(|rest| self.section(format!(".zdebug{rest}").as_bytes()))
            .and_then(|section| decompress_gnu(&self.read(section.offset, section.size)?))
            .unwrap_or_default()
    }

    /// Contents of a section, decompressed.
    pub(crate) fn section_contents(&self, section: &Section) -> Option<Vec<u8>> {
        if section.kind == SHT_NOBITS {
            return None;
        }
        let bytes = self.read(section.offset, section.size)?;
        if section.flags & SHF_COMPRESSED == 0 {
            return Some(bytes);
        }
        let format = match u32_at(&bytes, 0)? {
            ELFCOMPRESS_ZLIB => Compression::Zlib,
            ELFCOMPRESS_ZSTD => Compression::Zstandard,
            _ => return None,
        };
        let size = u64_at(&bytes, 8)?;
        decompress(format, bytes.get(COMPRESSION_HEADER_SIZE..)?, size)
    }

    /// Up to `most` bytes of a section that is not compressed, from an offset in it on.
    pub(crate) fn part(&self, section: &Section, from: u64, most: usize) -> Option<Vec<u8>> {
        let left = section.size.checked_sub(from)?;
        if section.kind == SHT_NOBITS || section.flags & SHF_COMPRESSED != 0 {
            return None;
        }
        self.read(section.offset.checked_add(from)?, left.min(most as u64))
    }

    /// The debug file that `.gnu_debuglink` names. The checksum follows
    /// the name, aligned to four bytes (GDB manual, "Separate Debug Files").
    pub(crate) fn debug_link(&self) -> Option<DebugLink> {
        let bytes = self.contents(".gnu_debuglink");
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let crc = u32_at(&bytes, (end + 1).next_multiple_of(4))?;
        Some(DebugLink {
            name: bytes[..end].to_vec(),
            crc,
        })
    }

    /// The supplementary file, written by dwz, that `.gnu_debugaltlink` names.
    pub(crate) fn alternate_link(&self) -> Option<AlternateLink> {
        let bytes = self.contents(".gnu_debugaltlink");
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Some(AlternateLink {
            name: bytes[..end].to_vec(),
            build_id: bytes[end + 1..].to_vec(),
        })
    }

    /// CRC-32 of the whole file, as in `.gnu_debuglink`.
    pub(crate) fn crc(&self) -> io::Result<u32> {
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; 1 << 18];
        let mut offset = 0;
        loop {
            let read = self.content.read_at(&mut buffer, offset)?;
            if read == 0 {
                return Ok(hasher.finalize());
            }
            hasher.update(&buffer[..read]);
            offset += read as u64;
        }
    }
}

fn parse_section(header: &[u8], names: &[u8]) -> Option<Section> {
    let name = names.get(u32_at(header, 0)? as usize..).unwrap_or_default();
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    // Longer than any name that this crate searches for. Names may share text.
    let end = end.min(64);
    Some(Section {
        name: name[..end].to_vec(),
        kind: u32_at(header, 4)?,
        flags: u64_at(header, 8)?,
        address: u64_at(header, 16)?,
        offset: u64_at(header, 24)?,
        size: u64_at(header, 32)?,
        link: u32_at(header, 40)?,
    })
}

/// Notes are (name size, description size, type, name, description), each part
/// padded to four bytes; a GNU build id's note never needs more.
fn build_id_in_notes(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let name_size = u32_at(notes, 0)? as usize;
        let description_size = u32_at(notes, 4)? as usize;
        let kind = u32_at(notes, 8)?;
        let name = notes.get(12..)?.get(..name_size)?;
        let description = notes.get(12 + name_size.next_multiple_of(4)..)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(description.get(..description_size)?.to_vec());
        }
        notes = description.get(description_size.next_multiple_of(4)..)?;
    }
}

fn decompress_gnu(bytes: &[u8]) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(b"ZLIB")?;
    let (size, data) = rest.split_first_chunk::<8>()?;
    decompress(Compression::Zlib, data, u64::from_be_bytes(*size))
}

fn decompress(format: Compression, data: &[u8], uncompressed_size: u64) -> Option<Vec<u8>> {
    let bound = (data.len() as u64).saturating_mul(MAX_COMPRESSION_RATIO);
    if uncompressed_size > bound.min(MAX_SECTION_BYTES) {
        return None;
    }
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(usize::try_from(uncompressed_size).ok()?)
        .ok()?;
    let read = match format {
        Compression::Zlib => ZlibDecoder::new(data)
            .take(uncompressed_size)
            .read_to_end(&mut bytes),
        Compression::Zstandard => {
            let decoder = zstd::Decoder::with_buffer(data).ok()?;
            decoder.take(uncompressed_size).read_to_end(&mut bytes)
        }
    };
    let is_whole = read.is_ok_and(|it| it as u64 == uncompressed_size);
    is_whole.then_some(bytes)
}

/// How a section is compressed.
#[derive(Debug, Clone, Copy)]
enum Compression {
    Zlib,
    Zstandard,
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let field = bytes.get(offset..)?.first_chunk()?;
    Some(u16::from_le_bytes(*field))
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let field = bytes.get(offset..)?.first_chunk()?;
    Some(u32::from_le_bytes(*field))
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let field = bytes.get(offset..)?.first_chunk()?;
    Some(u64::from_le_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8], description: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend((description.len() as u32).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        for part in [name, description] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn finds_the_build_id_after_other_notes() {
        let mut notes = note(1, b"GNU\0", &[0; 16]);
        notes.extend(note(NT_GNU_BUILD_ID, b"Other\0", &[9; 5]));
        notes.extend(note(NT_GNU_BUILD_ID, b"GNU\0", &[1, 2, 3]));
        assert_eq!(build_id_in_notes(&notes), Some(vec![1, 2, 3]));
        assert_eq!(build_id_in_notes(&notes[..notes.len() - 4]), None);
    }

    #[test]
    fn note_sizes_beyond_the_section_are_no_note() {
        let mut notes = note(NT_GNU_BUILD_ID, b"GNU\0", &[1, 2, 3]);
        notes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(build_id_in_notes(&notes), None);
        notes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(build_id_in_notes(&notes), None);
    }

    #[test]
    fn refuses_a_claimed_size_out_of_proportion() {
        assert_eq!(decompress(Compression::Zlib, &[0; 16], 1 << 31), None);
    }

    #[test]
    fn errors_describe_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, [b'x'; 100]).unwrap();
        let message = ElfFile::open(&path).unwrap_err().to_string();
        assert!(
            message.contains("at byte 0: this is no ELF file"),
            "{message}"
        );
        std::fs::write(&path, b"\x7fELF").unwrap();
        let message = ElfFile::open(&path).unwrap_err().to_string();
        assert!(message.contains("at byte 4: the file ends"), "{message}");
        let message = ElfFile::open(folder.path()).unwrap_err().to_string();
        assert!(message.contains("not a regular file"), "{message}");
    }
}
