//! What a program's file says about it before it runs: how it is linked, who
//! loads it, which allocator it brings along, whether it carries debug
//! information; and from that, why it can not be recorded.
//!
//! Only files and the environment are read here; nothing is run and nothing is
//! printed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use allotrope_collector::executable::distrust;
use allotrope_shm::secure_execution::{Credentials, Reason};
use allotrope_text::Shown;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym, SymbolTable};
use object::{Endianness, FileKind, ReadCache, StringTable};

use crate::sanitizer;

/// The kernel follows at most this many interpreter lines.
const SCRIPT_DEPTH: usize = 5;
/// Longest interpreter line that the kernel reads (`BINPRM_BUF_SIZE`).
const INTERPRETER_LINE: u64 = 256;
/// More dependencies than this are not looked at.
const MAX_NEEDED: usize = 4096;
/// A longer string in a file's tables is taken for damage.
const MAX_STRING: u64 = 4096;

type Header = elf::FileHeader64<Endianness>;
type Data<'a> = &'a ReadCache<File>;

/// A program's file, looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// The file, as the path search found it.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Why the loader would run it in secure mode, where it ignores preloaded
    /// libraries.
    pub privilege: Option<Privilege>,
}

/// What a file is to execve(2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A 64-bit x86-64 ELF file.
    Program(Program),
    /// An ELF file of 32 bits (x32 included).
    Program32,
    /// An ELF file for another processor, by its `e_machine`.
    OtherMachine(u16),
    /// A text whose first line names its interpreter, which was looked at too.
    Script(Box<Executable>),
    /// A text without such a line: execvp(3) hands it to `/bin/sh`.
    ShellText,
}

/// A program for x86-64.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// The loader (`PT_INTERP`); none in a static program and in a loader.
    pub loader: Option<String>,
    /// The file's own name as a library (`DT_SONAME`).
    pub soname: String,
    /// Libraries that it names (`DT_NEEDED`).
    pub needed: Vec<String>,
    /// It has `.debug_info`.
    pub debug_information: bool,
    /// It has a symbol table beside the dynamic one.
    pub symbol_table: bool,
    /// GNU build id, by which a separate debug file is found.
    pub build_id: Option<Vec<u8>>,
    /// It was built by Go.
    pub go: bool,
    /// The sanitizer whose run-time library, with a `malloc`, is linked into it.
    pub sanitizer: Option<&'static str>,
}

/// Why a program starts in the loader's secure mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// The setuid bit, and another owner than the caller.
    SetUserId,
    /// The setgid bit, and another group than the caller's.
    SetGroupId,
    /// File capabilities.
    Capabilities,
}

/// Why a program can not be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// What is the matter, as a sentence's end: `it is statically linked`.
    pub reason: String,
    /// What to do.
    pub remedy: &'static str,
}

impl Executable {
    /// Looks at the file, and at its interpreters if it is a script.
    pub fn inspect(path: &Path) -> io::Result<Self> {
        inspect(path, SCRIPT_DEPTH)
    }

    /// The ELF file that is executed in the end: the interpreter of a script,
    /// else the file itself.
    pub fn image(&self) -> &Self {
        match &self.kind {
            Kind::Script(interpreter) => interpreter.image(),
            _ => self,
        }
    }

    /// Why the program can not be recorded, if that can be told from its file.
    pub fn obstacle(&self) -> Option<Obstacle> {
        let image = self.image();
        let obstacle = |reason: &str, remedy| {
            let reason = if std::ptr::eq(image, self) {
                format!("it {reason}")
            } else {
                format!("its interpreter {} {reason}", image.path.shown())
            };
            Some(Obstacle { reason, remedy })
        };
        match &image.kind {
            Kind::Program32 => {
                return obstacle(
                    "is a 32-bit program",
                    "build it for x86-64 (64 bits) to record it",
                );
            }
            Kind::OtherMachine(_) => {
                return obstacle(
                    "is built for another processor than x86-64",
                    "build it for x86-64 to record it",
                );
            }
            Kind::Program(program) => match program.linkage() {
                Linkage::Static if program.go => {
                    return obstacle(
                        "is a static Go program, whose memory does not come from malloc",
                        "use the Go run-time system's own heap profile (runtime/pprof)",
                    );
                }
                Linkage::Static => {
                    return obstacle(
                        "is statically linked, so that no library can be preloaded into it",
                        "link it dynamically (without -static; for Rust, a -gnu target without +crt-static)",
                    );
                }
                Linkage::Musl => {
                    return obstacle(
                        "is linked against musl, and the recorder needs glibc 2.34 or newer",
                        "build it for a glibc target (…-linux-gnu) to record it",
                    );
                }
                Linkage::Glibc | Linkage::Other => {
                    if let Some(reason) = program.sanitizer_in_the_way() {
                        return obstacle(&reason, SANITIZER_REMEDY);
                    }
                }
            },
            Kind::Script(_) | Kind::ShellText => {}
        }
        let remedy = "record a copy of it that has no such privilege (cp makes one), or record as the user that it switches to";
        match image.privilege? {
            Privilege::SetUserId => obstacle(
                "is setuid, and the loader preloads nothing into such a program",
                remedy,
            ),
            Privilege::SetGroupId => obstacle(
                "is setgid, and the loader preloads nothing into such a program",
                remedy,
            ),
            Privilege::Capabilities => obstacle(
                "has file capabilities, and the loader preloads nothing into such a program",
                remedy,
            ),
        }
    }
}

/// What to do about a sanitizer.
const SANITIZER_REMEDY: &str = "record a build without -fsanitize (for a shared AddressSanitizer, \
                                ASAN_OPTIONS=verify_asan_link_order=0 does as well)";

/// Which C library a program is loaded with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    /// None: it has no loader.
    Static,
    /// glibc's loader.
    Glibc,
    /// musl's loader.
    Musl,
    /// A loader that is not known here.
    Other,
}

impl Program {
    /// Why it can not be recorded with the sanitizer that it was built with or
    /// is started with, as a sentence's end.
    fn sanitizer_in_the_way(&self) -> Option<String> {
        if let Some(name) = self.sanitizer {
            return Some(format!(
                "has {name} linked into it, whose malloc is called in the place of the recorder's"
            ));
        }
        let needs = self
            .needed
            .iter()
            .any(|library| sanitizer::is_address_library(library.as_bytes()));
        let preloads = || {
            let list = std::env::var_os("LD_PRELOAD");
            list.is_some_and(|list| sanitizer::preloads_address_library(&list))
        };
        let has = if needs {
            "was built with AddressSanitizer"
        } else if preloads() {
            "is started with AddressSanitizer in LD_PRELOAD"
        } else {
            return None;
        };
        sanitizer::insists_on_being_first().then(|| {
            format!(
                "{has}, whose library ends a program in which the recorder's is loaded before it"
            )
        })
    }

    /// Which C library loads it.
    pub fn linkage(&self) -> Linkage {
        // A loader can be run as a program, and then preloads as ever.
        let name = match &self.loader {
            Some(loader) => loader.rsplit('/').next().unwrap_or(loader),
            None if self.soname.is_empty() => return Linkage::Static,
            None => &self.soname,
        };
        match name {
            name if name.starts_with("ld-musl") => Linkage::Musl,
            name if name.starts_with("ld-linux") || name == "ld.so.1" => Linkage::Glibc,
            _ if self.loader.is_none() => Linkage::Static,
            _ => Linkage::Other,
        }
    }
}

fn inspect(path: &Path, depth: usize) -> io::Result<Executable> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let privilege = privilege(&file);
    let mut start = Vec::new();
    (&file).take(INTERPRETER_LINE).read_to_end(&mut start)?;
    let kind = if start.starts_with(b"#!") {
        let interpreter = interpreter(&start)
            .ok_or_else(|| io::Error::other("its first line (#!) names no interpreter"))?;
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| io::Error::other("its interpreters are scripts themselves, too deep"))?;
        let inner = inspect(&interpreter, depth).map_err(|error| {
            let what = format!("its interpreter {}: {error}", interpreter.shown());
            io::Error::new(error.kind(), what)
        })?;
        Kind::Script(Box::new(inner))
    } else if start.starts_with(b"\x7fELF") {
        elf_kind(file).map_err(|error| io::Error::other(format!("damaged ELF file: {error}")))?
    } else {
        Kind::ShellText
    };
    // The kernel heeds neither bit nor capability of a text.
    let is_text = matches!(kind, Kind::Script(_) | Kind::ShellText);
    Ok(Executable {
        path: path.to_owned(),
        kind,
        privilege: privilege.filter(|_| !is_text),
    })
}

fn interpreter(start: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let line = start
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let word = line
        .split(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
        .find(|word| !word.is_empty())?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(word)))
}

/// What the recorded program would gain: it is executed with this process's
/// credentials.
fn privilege(file: &File) -> Option<Privilege> {
    let own = Credentials::parse(&fs::read("/proc/self/status").ok()?)?;
    let reason = distrust(file, &own).ok()?;
    reason.map(|reason| match reason {
        Reason::User => Privilege::SetUserId,
        Reason::Group => Privilege::SetGroupId,
        Reason::Capabilities => Privilege::Capabilities,
    })
}

fn elf_kind(file: File) -> object::Result<Kind> {
    let cache = ReadCache::new(file);
    let data = &cache;
    if FileKind::parse(data)? != FileKind::Elf64 {
        return Ok(Kind::Program32);
    }
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    let machine = header.e_machine(endian);
    if machine != elf::EM_X86_64 {
        return Ok(Kind::OtherMachine(machine.0));
    }
    let mut program = Program::default();
    read_segments(header, endian, data, &mut program)?;
    // Sections may be stripped or damaged in a program that runs well.
    let _ = read_sections(header, endian, data, &mut program);
    Ok(Kind::Program(program))
}

fn read_segments(
    header: &Header,
    endian: Endianness,
    data: Data<'_>,
    program: &mut Program,
) -> object::Result<()> {
    let segments = header.program_headers(endian, data)?;
    for segment in segments {
        if let Some(loader) = segment.interpreter(endian, data)? {
            program.loader = Some(String::from_utf8_lossy(loader).into_owned());
        }
        if segment.p_type(endian) == elf::PT_NOTE {
            program.build_id = program
                .build_id
                .take()
                .or_else(|| build_id(segment.data(endian, data).ok()?));
        }
    }
    let Some(dynamic) = segments
        .iter()
        .find_map(|segment| segment.dynamic(endian, data).transpose())
        .transpose()?
    else {
        return Ok(());
    };
    let value = |tag| {
        let entry = dynamic
            .iter()
            .find(|entry| entry.d_tag.get(endian) == tag)?;
        Some(entry.d_val.get(endian))
    };
    let strings = value(elf::DT_STRTAB).zip(value(elf::DT_STRSZ));
    let Some((offset, size)) =
        strings.and_then(|(address, size)| Some((file_offset(segments, endian, address)?, size)))
    else {
        return Ok(());
    };
    let strings = StringTable::new(data, offset, offset.saturating_add(size));
    let name = |value: u64| {
        let name = strings.get(u32::try_from(value).ok()?).ok()?;
        (name.len() as u64 <= MAX_STRING).then(|| String::from_utf8_lossy(name).into_owned())
    };
    for entry in dynamic {
        let tag = entry.d_tag.get(endian);
        let value = entry.d_val.get(endian);
        if tag == elf::DT_NEEDED && program.needed.len() < MAX_NEEDED {
            program.needed.extend(name(value));
        } else if tag == elf::DT_SONAME {
            program.soname = name(value).unwrap_or_default();
        }
    }
    Ok(())
}

fn file_offset(
    segments: &[elf::ProgramHeader64<Endianness>],
    endian: Endianness,
    address: u64,
) -> Option<u64> {
    segments.iter().find_map(|segment| {
        if segment.p_type(endian) != elf::PT_LOAD {
            return None;
        }
        let within = address.checked_sub(segment.p_vaddr(endian))?;
        (within < segment.p_filesz(endian)).then(|| segment.p_offset(endian).checked_add(within))?
    })
}

/// The description of the GNU build id note (gABI notes, 4-byte padded).
fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    loop {
        let name_size = word(notes, 0)? as usize;
        let size = word(notes, 4)? as usize;
        let kind = word(notes, 8)?;
        let name = notes.get(12..)?.get(..name_size)?;
        let rest = notes.get(12 + name_size.next_multiple_of(4)..)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(rest.get(..size)?.to_vec());
        }
        notes = rest.get(size.next_multiple_of(4)..)?;
    }
}

fn read_sections(
    header: &Header,
    endian: Endianness,
    data: Data<'_>,
    program: &mut Program,
) -> object::Result<()> {
    let sections = header.sections(endian, data)?;
    for section in sections.iter() {
        match sections.section_name(endian, section).unwrap_or_default() {
            b".debug_info" | b".zdebug_info" => {
                program.debug_information = section.sh_type(endian) != elf::SHT_NOBITS;
            }
            b".go.buildinfo" => program.go = true,
            _ => {}
        }
    }
    let symbols = sections.symbols(endian, data, elf::SHT_SYMTAB)?;
    program.symbol_table = !symbols.is_empty();
    // A malloc of its own it exports, for a library has one too; gcc's static
    // run-time libraries export nothing else.
    let exported = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
    if defined(&exported, endian).any(|name| name == b"malloc") {
        program.sanitizer = defined(&exported, endian)
            .chain(defined(&symbols, endian))
            .find_map(sanitizer::defining);
    }
    Ok(())
}

/// Names of the symbols that the file defines.
fn defined<'a>(
    symbols: &SymbolTable<'a, Header, Data<'a>>,
    endian: Endianness,
) -> impl Iterator<Item = &'a [u8]> {
    let strings = symbols.strings();
    let defined = symbols
        .symbols()
        .iter()
        .filter(move |symbol| symbol.is_definition(endian, strings));
    defined.filter_map(move |symbol| symbol.name(endian, strings).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_loader(loader: Option<&str>, soname: &str) -> Program {
        Program {
            loader: loader.map(str::to_owned),
            soname: soname.to_owned(),
            ..Program::default()
        }
    }

    fn executable(kind: Kind, privilege: Option<Privilege>) -> Executable {
        Executable {
            path: PathBuf::from("/x"),
            kind,
            privilege,
        }
    }

    #[test]
    fn the_loader_tells_the_c_library() {
        let linkage = |loader, soname| with_loader(loader, soname).linkage();
        assert_eq!(
            linkage(Some("/lib64/ld-linux-x86-64.so.2"), ""),
            Linkage::Glibc
        );
        assert_eq!(
            linkage(Some("/nix/store/x/ld-linux-x86-64.so.2"), ""),
            Linkage::Glibc
        );
        assert_eq!(linkage(Some("/lib/ld-musl-x86_64.so.1"), ""), Linkage::Musl);
        assert_eq!(linkage(None, ""), Linkage::Static);
        assert_eq!(linkage(None, "ld-linux-x86-64.so.2"), Linkage::Glibc);
        assert_eq!(linkage(None, "libx.so"), Linkage::Static);
    }

    #[test]
    fn obstacles_name_the_file_that_has_them() {
        let glibc = Kind::Program(with_loader(Some("/lib64/ld-linux-x86-64.so.2"), ""));
        assert_eq!(executable(glibc.clone(), None).obstacle(), None);
        let privileged = executable(glibc, Some(Privilege::SetUserId));
        assert!(
            privileged
                .obstacle()
                .unwrap()
                .reason
                .starts_with("it is setuid")
        );

        let mut script = executable(
            Kind::Script(Box::new(executable(Kind::Program32, None))),
            None,
        );
        script.path = PathBuf::from("/script");
        let obstacle = script.obstacle().unwrap();
        assert_eq!(obstacle.reason, "its interpreter /x is a 32-bit program");
    }

    #[test]
    fn this_test_is_a_program_and_its_cut_copies_are_errors_at_worst() {
        let own = std::env::current_exe().unwrap();
        let Kind::Program(program) = Executable::inspect(&own).unwrap().kind else {
            panic!("not a program");
        };
        assert_eq!(program.linkage(), Linkage::Glibc);
        assert!(program.needed.iter().any(|name| name == "libc.so.6"));

        let bytes = fs::read(&own).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        for length in (0..700).chain([4096, bytes.len() / 2]) {
            fs::write(&copy, &bytes[..length]).unwrap();
            let _ = Executable::inspect(&copy);
            let _ = crate::allocator::BuiltInAllocator::find(&copy);
        }
    }

    #[test]
    fn interpreter_lines_are_read_as_the_kernel_does() {
        let path = |line: &[u8]| interpreter(line).map(|path| path.to_string_lossy().into_owned());
        assert_eq!(path(b"#! /bin/sh -e\nx").as_deref(), Some("/bin/sh"));
        assert_eq!(
            path(b"#!/usr/bin/env python3").as_deref(),
            Some("/usr/bin/env")
        );
        assert_eq!(path(b"#!\n"), None);
    }

    #[test]
    fn a_script_that_is_its_own_interpreter_ends() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert!(Executable::inspect(&script).is_err());
    }
}
