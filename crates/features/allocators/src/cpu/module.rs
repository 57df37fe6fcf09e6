//! A file of executable code: where its segments are, its unwind information, and what it
//! exports. Names of its functions are `profile`'s.

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use allotrope_files::open_regular;
use allotrope_symbols::{FileIdentity, identity_of};
use framehop::ExplicitModuleSectionInfo;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};

/// Largest file that is read.
const MAX: u64 = 4 << 30;
const PAGE: u64 = 4096;

/// Bytes of a section, shared by the processes that have mapped the file.
pub(crate) type Bytes = Arc<[u8]>;

/// What a file exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Exports {
    /// `malloc` and `free`.
    pub(crate) malloc: bool,
    /// The functions of a C library: its allocator is only a part of it.
    pub(crate) c_library: bool,
    /// It is a program, not a library.
    pub(crate) program: bool,
}

/// A file of executable code.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Path of the file, as the process has it.
    pub(crate) path: Vec<u8>,
    pub(crate) build_id: Vec<u8>,
    /// The file that was read.
    pub(crate) file: FileIdentity,
    pub(crate) exports: Exports,
    /// Offsets in the file of each segment, and the address that the program header states.
    segments: Vec<(Range<u64>, u64)>,
    eh_frame: Option<(Range<u64>, Bytes)>,
    eh_frame_hdr: Option<(Range<u64>, Bytes)>,
}

impl Module {
    /// Reads a module; one that cannot be read has no unwind information.
    pub(crate) fn read(path: &[u8], file: &Path) -> Self {
        Self {
            path: path.to_vec(),
            ..Self::parse(file).unwrap_or_default()
        }
    }

    fn parse(path: &Path) -> Option<Self> {
        let file = open_regular(path).ok()?;
        let size = file.metadata().ok()?.len();
        let identity = identity_of(&file).unwrap_or_default();
        let mut bytes = Vec::new();
        // The file may grow.
        file.take(size.min(MAX)).read_to_end(&mut bytes).ok()?;
        Some(Self {
            file: identity,
            ..Self::from_bytes(&bytes)?
        })
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let section = |name| {
            let section = file.section_by_name(name)?;
            let bytes = Bytes::from(&*section.uncompressed_data().ok()?);
            let end = section.address().checked_add(section.size())?;
            Some((section.address()..end, bytes))
        };
        let segments = file.segments().filter_map(|segment| {
            let (offset, size) = segment.file_range();
            let page = segment.address() - segment.address() % PAGE;
            Some((offset - offset % PAGE..offset.checked_add(size)?, page))
        });
        let mut exports = Exports {
            program: file.section_by_name(".interp").is_some()
                || file.kind() == object::ObjectKind::Executable,
            ..Exports::default()
        };
        let (mut malloc, mut free) = (false, false);
        for symbol in file.dynamic_symbols().filter(|it| it.is_definition()) {
            match symbol.name_bytes().unwrap_or_default() {
                b"malloc" => malloc = true,
                b"free" => free = true,
                b"__libc_start_main" => exports.c_library = true,
                _ => {}
            }
        }
        exports.malloc = malloc && free;
        Some(Self {
            file: FileIdentity::default(),
            path: Vec::new(),
            build_id: file.build_id().ok().flatten().unwrap_or_default().to_vec(),
            exports,
            segments: segments.collect(),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
        })
    }

    /// Run-time address minus the address in the file, of a mapping of this offset.
    pub(crate) fn bias(&self, start: u64, offset: u64) -> u64 {
        let known = self
            .segments
            .iter()
            .find(|(range, _)| range.contains(&offset));
        let address = known.map_or(offset, |(range, address)| {
            address.wrapping_add(offset - range.start)
        });
        start.wrapping_sub(address)
    }

    /// What framehop needs.
    pub(crate) fn sections(&self) -> ExplicitModuleSectionInfo<Bytes> {
        let range = |section: &Option<(Range<u64>, Bytes)>| Some(section.as_ref()?.0.clone());
        let bytes = |section: &Option<(Range<u64>, Bytes)>| Some(section.as_ref()?.1.clone());
        ExplicitModuleSectionInfo {
            eh_frame_svma: range(&self.eh_frame),
            eh_frame: bytes(&self.eh_frame),
            eh_frame_hdr_svma: range(&self.eh_frame_hdr),
            eh_frame_hdr: bytes(&self.eh_frame_hdr),
            ..ExplicitModuleSectionInfo::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_this_test_is_a_program_with_unwind_information() {
        let path = std::env::current_exe().unwrap();
        let module = Module::read(b"x", &path);
        assert!(module.exports.program);
        assert!(!module.exports.malloc);
        assert!(module.eh_frame.is_some());
        assert!(module.segments.len() > 1);
    }

    #[test]
    fn any_prefix_of_a_file_is_read_without_a_panic() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in (0..4096).step_by(17).chain([100_000, bytes.len() / 2]) {
            let _ = Module::from_bytes(&bytes[..length.min(bytes.len())]);
        }
        for at in (0..1024).step_by(3) {
            let mut broken = bytes[..65536.min(bytes.len())].to_vec();
            broken[at] ^= 0xff;
            let _ = Module::from_bytes(&broken);
        }
    }
}
