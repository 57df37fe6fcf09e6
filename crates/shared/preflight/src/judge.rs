//! Decides from a program's file whether the program can be recorded.

use crate::program_file::ProgramFile;
use core::ffi::CStr;

use crate::elf::{Class, DT_NEEDED, DT_SONAME, Elf};
use crate::not_recordable::NotRecordable;
use crate::sanitizer;

/// The kernel follows at most this many interpreter lines.
pub const SCRIPT_DEPTH: usize = 5;
/// Bytes of a script's first line that the kernel reads (`BINPRM_BUF_SIZE`).
pub const FIRST_LINE: usize = 256;

/// The part of a program's environment on which the result depends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Start<'a> {
    /// The libraries that are preloaded after the recorder, separated as in
    /// `LD_PRELOAD`.
    pub preload: &'a [u8],
    /// The value of `ASAN_OPTIONS`.
    pub asan_options: Option<&'a [u8]>,
}

/// What kind of file execve(2) finds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is no heap for the path")]
pub enum Content {
    /// An ELF file, and why it cannot be recorded.
    Program(Option<NotRecordable>),
    /// A text whose first line names the program that runs it.
    Script(Interpreter),
    /// Another text, which execvp(3) lets `/bin/sh` run, or a format of binfmt_misc.
    Text,
    /// An ELF file that the kernel refuses.
    Damaged,
}

/// The path in a script's first line; empty if the line names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter([u8; FIRST_LINE + 1]);

impl Interpreter {
    /// The path as a C string.
    pub fn path(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }

    /// Parses the line as the kernel's `load_script` does (fs/binfmt_script.c).
    fn parse(line: &[u8]) -> Self {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let start = line.iter().position(|byte| !is_blank(byte));
        let path = line.get(start.unwrap_or(0)..).unwrap_or_default();
        let bytes = path
            .iter()
            .take_while(|byte| !is_blank(byte) && !matches!(byte, b'\n' | 0));
        let mut text = [0; FIRST_LINE + 1];
        for (to, from) in text[..FIRST_LINE].iter_mut().zip(bytes) {
            *to = *from;
        }
        Self(text)
    }
}

/// Judges one file. The caller follows scripts to their interpreters, at most
/// [`SCRIPT_DEPTH`] of them.
pub fn judge(file: &impl ProgramFile, start: &Start<'_>) -> Content {
    let mut line = [0; FIRST_LINE];
    let length = file.read_at(&mut line, 0).min(FIRST_LINE);
    if let Some(line) = line[..length].strip_prefix(b"#!") {
        return Content::Script(Interpreter::parse(line));
    }
    let Some(elf) = Elf::open(file) else {
        return Content::Text;
    };
    Content::Program(match elf.class() {
        Class::Damaged => return Content::Damaged,
        Class::ThirtyTwoBit => Some(NotRecordable::ThirtyTwoBit),
        Class::OtherMachine => Some(NotRecordable::OtherMachine),
        Class::Native => judge_loader(&elf)
            .or_else(|| file.privileges())
            .or_else(|| judge_sanitizer(&elf, start)),
    })
}

/// Which C library a loader belongs to, by the loader's file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CLibrary {
    Glibc,
    Other,
    /// The loader's name is not known; it may be glibc's.
    Unknown,
}

impl CLibrary {
    pub(crate) fn of_loader(path: &[u8]) -> Self {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let begins = |prefixes: &[&[u8]]| prefixes.iter().any(|it| name.starts_with(it));
        // glibc's shlib-versions, musl's and uClibc's makefiles, Android's bionic.
        if begins(&[b"ld-linux"]) || name == b"ld.so.1" {
            Self::Glibc
        } else if begins(&[b"ld-musl", b"ld-uClibc", b"ld64-uClibc"]) || name == b"linker64" {
            Self::Other
        } else {
            Self::Unknown
        }
    }
}

fn judge_loader<F: ProgramFile>(elf: &Elf<'_, F>) -> Option<NotRecordable> {
    let library = match elf.loader::<512>() {
        Some(loader) => CLibrary::of_loader(loader.as_bytes()),
        // A loader can be run as a program and then preloads libraries as usual. It is
        // recognised by its own name (`DT_SONAME`), which static programs do not have.
        None => {
            let name = elf.dynamic_strings(DT_SONAME).next();
            let named = name.map(|name| CLibrary::of_loader(name.as_bytes()));
            match named {
                Some(library @ (CLibrary::Glibc | CLibrary::Other)) => library,
                _ if elf.is_go() => return Some(NotRecordable::StaticGo),
                _ => return Some(NotRecordable::Static),
            }
        }
    };
    (library == CLibrary::Other).then_some(NotRecordable::OtherLibc)
}

fn judge_sanitizer<F: ProgramFile>(elf: &Elf<'_, F>, start: &Start<'_>) -> Option<NotRecordable> {
    if !sanitizer::insists_on_being_first(start.asan_options) {
        return None;
    }
    let mut needed = elf.dynamic_strings(DT_NEEDED);
    if needed.any(|name| sanitizer::is_address_library(name.as_bytes())) {
        Some(NotRecordable::AddressSanitizer)
    } else if sanitizer::preloads_address_library(start.preload) {
        Some(NotRecordable::PreloadedAddressSanitizer)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
