//! A program to record, inspected for the command: the ELF file that runs in the end, why
//! it cannot be recorded, which libraries and debug information it has.
//!
//! Reads only files and two environment variables; runs and prints nothing.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use allotrope_text::Shown;

use crate::elf::{DT_NEEDED, Elf, PT_NOTE, number};
use crate::judge::{CLibrary, Content, SCRIPT_DEPTH, Start, judge};
use crate::not_recordable::NotRecordable;
use crate::program_file::ProgramFile;
use crate::symbol_facts::SymbolFacts;

/// Largest number of dependencies that are read.
const MAX_NEEDED: usize = 4096;
/// Longest note segment that is read, in bytes.
const MAX_NOTES: u64 = 64 << 10;
/// Section types (System V ABI, figure 4-9).
const SHT_SYMTAB: u32 = 2;
const SHT_NOBITS: u32 = 8;

/// A program's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// Path of the file, as given to [`Executable::inspect`].
    pub path: PathBuf,
    /// The kind of file.
    pub kind: Kind,
    /// Why the program cannot be recorded, and the name of a sanitizer that is linked
    /// in, or "".
    reason: Option<(NotRecordable, &'static str)>,
}

/// What kind of file execve(2) finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// An ELF file.
    Program(Program),
    /// A text whose first line names this interpreter.
    Script(Box<Executable>),
    /// A text without such a line, which execvp(3) lets `/bin/sh` run.
    ShellText,
}

/// Properties of an ELF file for x86-64; all empty for another machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// The loader (`PT_INTERP`); none in a static program and in a loader.
    pub loader: Option<PathBuf>,
    /// The libraries that the file names (`DT_NEEDED`).
    pub needed: Vec<String>,
    /// The file has `.debug_info`.
    pub debug_information: bool,
    /// The file has a symbol table besides the dynamic one.
    pub symbol_table: bool,
    /// What the exported symbols show, if nothing else forbids a recording; perhaps together
    /// with what the other ones show.
    pub exported: Option<SymbolFacts>,
    /// GNU build id, by which a separate debug file is found.
    pub build_id: Option<Vec<u8>>,
}

/// Why a program cannot be recorded, for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A clause such as `it is statically linked`.
    pub why: String,
    /// What to do.
    pub remedy: &'static str,
}

impl Executable {
    /// Reads the file, and its interpreters if it is a script.
    ///
    /// # Errors
    /// If a file cannot be read, is not a regular file, or is an ELF file that the kernel
    /// rejects; if a script names no interpreter; if too many interpreters are scripts.
    pub fn inspect(path: &Path) -> io::Result<Self> {
        inspect(path, SCRIPT_DEPTH)
    }

    /// The file that is executed in the end: the interpreter of a script, otherwise the
    /// file itself.
    pub fn image(&self) -> &Self {
        match &self.kind {
            Kind::Script(interpreter) => interpreter.image(),
            _ => self,
        }
    }

    /// Why the program cannot be recorded, if its file shows that.
    pub fn refusal(&self) -> Option<Refusal> {
        let image = self.image();
        let (reason, detail) = image.reason?;
        let mut why = reason.why(detail);
        if !std::ptr::eq(image, self) {
            let interpreter = format!("its interpreter {}", image.path.shown());
            why = match (why.strip_prefix("it "), why.strip_prefix("its ")) {
                (Some(rest), _) => format!("{interpreter} {rest}"),
                (_, Some(rest)) => format!("{interpreter} has a problem: its {rest}"),
                _ => format!("{interpreter}: {why}"),
            };
        }
        Some(Refusal {
            why,
            remedy: reason.remedy(),
        })
    }
}

impl Program {
    /// Whether the loader's name is not that of a known C library's loader.
    pub fn has_unknown_loader(&self) -> bool {
        let loader = self.loader.as_deref().map(Path::as_os_str);
        loader.is_some_and(|it| CLibrary::of_loader(it.as_bytes()) == CLibrary::Unknown)
    }

    fn read(file: &File) -> Self {
        let mut program = Self::default();
        let Some(elf) = Elf::open(file) else {
            return program;
        };
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let loader = elf.loader::<4096>();
        program.loader = loader.map(|it| PathBuf::from(OsStr::from_bytes(it.as_bytes())));
        let needed = elf.dynamic_strings(DT_NEEDED).take(MAX_NEEDED);
        program.needed = needed.map(|name| text(name.as_bytes())).collect();
        let mut notes = elf.segments().filter(|it| it.kind == PT_NOTE);
        program.build_id = notes.find_map(|segment| {
            let mut notes = vec![0; segment.file_size.min(MAX_NOTES) as usize];
            let length = ProgramFile::read_at(file, &mut notes, segment.offset);
            build_id(&notes[..length])
        });
        for section in elf.sections() {
            match section.name.as_bytes() {
                b".debug_info" | b".zdebug_info" => {
                    program.debug_information = section.kind != SHT_NOBITS;
                }
                _ => program.symbol_table |= section.kind == SHT_SYMTAB && section.size > 0,
            }
        }
        program
    }
}

fn inspect(path: &Path, depth: usize) -> io::Result<Executable> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let variable = |name| env::var_os(name).unwrap_or_default();
    let (preload, options) = (variable("LD_PRELOAD"), variable("ASAN_OPTIONS"));
    let start = Start {
        preload: preload.as_bytes(),
        asan_options: Some(options.as_bytes()),
    };
    let mut reason = None;
    let kind = match judge(&file, &start) {
        Content::Program(found) => {
            reason = found.map(|reason| (reason, ""));
            let exported = reason.is_none().then(|| SymbolFacts::of_file(&file));
            let sanitizer = exported.as_ref().and_then(SymbolFacts::linked_sanitizer);
            if let Some(sanitizer) = sanitizer {
                reason = Some((NotRecordable::LinkedSanitizer, sanitizer));
            }
            Kind::Program(Program {
                exported,
                ..Program::read(&file)
            })
        }
        Content::Script(interpreter) => {
            let interpreter = Path::new(OsStr::from_bytes(interpreter.path().to_bytes()));
            if interpreter.as_os_str().is_empty() {
                return Err(io::Error::other("its first line (#!) names no interpreter"));
            }
            let depth = depth.checked_sub(1).ok_or_else(|| {
                io::Error::other("its interpreters are scripts themselves, too deep")
            })?;
            let inner = inspect(interpreter, depth).map_err(|error| {
                let what = format!("its interpreter {}: {error}", interpreter.shown());
                io::Error::new(error.kind(), what)
            })?;
            Kind::Script(Box::new(inner))
        }
        Content::Text => Kind::ShellText,
        Content::Damaged => return Err(io::Error::other("damaged ELF file")),
    };
    Ok(Executable {
        path: path.to_owned(),
        kind,
        reason,
    })
}

/// The description of the GNU build id note (System V ABI, "Note Section", with
/// 4-byte padding).
fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    const NT_GNU_BUILD_ID: u64 = 3;
    let word = |bytes: &[u8], at: usize| Some(number(bytes.get(at..at + 4)?));
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::linked_allocator::LinkedAllocator;

    fn executable(kind: Kind, reason: Option<NotRecordable>) -> Executable {
        Executable {
            path: PathBuf::from("/x"),
            kind,
            reason: reason.map(|reason| (reason, "")),
        }
    }

    #[test]
    fn refusals_name_the_file_that_causes_them() {
        let program = |reason| executable(Kind::Program(Program::default()), reason);
        assert_eq!(program(None).refusal(), None);
        let why = |it: Executable| it.refusal().unwrap().why;
        let small = program(Some(NotRecordable::ThirtyTwoBit));
        assert_eq!(why(small.clone()), "it is a 32-bit program");
        let mut script = executable(Kind::Script(Box::new(small)), None);
        script.path = PathBuf::from("/script");
        assert_eq!(why(script), "its interpreter /x is a 32-bit program");
        let musl = Box::new(program(Some(NotRecordable::OtherLibc)));
        assert_eq!(
            why(executable(Kind::Script(musl), None)),
            "its interpreter /x has a problem: its C library is not glibc"
        );
    }

    #[test]
    fn this_test_is_a_program_and_truncated_copies_do_no_harm() {
        let own = env::current_exe().unwrap();
        let executable = Executable::inspect(&own).unwrap();
        assert_eq!(executable.refusal(), None);
        let Kind::Program(program) = executable.kind else {
            panic!("not a program");
        };
        assert!(!program.has_unknown_loader());
        assert!(program.symbol_table && program.build_id.is_some());
        assert!(program.needed.iter().any(|name| name == "libc.so.6"));

        let bytes = fs::read(&own).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        for length in (0..700).chain([4096, bytes.len() / 2]) {
            fs::write(&copy, &bytes[..length]).unwrap();
            let _ = Executable::inspect(&copy);
            let _ = SymbolFacts::of(&copy);
        }
    }

    /// A program may have hundreds of thousands of symbols; this test has thousands.
    #[test]
    fn a_symbol_costs_no_system_call() {
        let reads = || {
            let text = fs::read_to_string("/proc/thread-self/io").ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("syscr: "))?;
            line.parse::<u64>().ok()
        };
        let Some(before) = reads() else {
            return println!("skipped: the kernel does not count system calls");
        };
        let own = env::current_exe().unwrap();
        let symbols = SymbolFacts::of(&own).unwrap();
        let after_symbols = reads().unwrap();
        LinkedAllocator::of(&own).unwrap();
        let after_allocator = reads().unwrap();
        let executable = Executable::inspect(&own).unwrap();
        let after_inspection = reads().unwrap();
        LinkedAllocator::with_facts(&executable).unwrap();
        let after_both = reads().unwrap();
        assert_eq!(symbols.name, None);
        // The ELF and section headers, two symbol tables with their names; for the inspection
        // also a name for each of some forty sections. (Reading the counter is one, too.)
        let most = 20 + fs::metadata(&own).unwrap().len() / (1 << 20);
        assert!(after_symbols - before <= most);
        assert!(after_allocator - after_symbols <= most);
        assert!(after_inspection - after_allocator <= most + 200);
        // They are read once for the symbols' facts and the allocator.
        assert!(after_both - after_inspection <= most);
    }

    #[test]
    fn a_script_that_is_its_own_interpreter_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert!(Executable::inspect(&script).is_err());
    }
}
